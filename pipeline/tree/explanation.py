"""What is recorded of one evaluation, and of those beside it, as an explanation of its decision."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.recipe import alike
from pipeline.edge.files import sha_of
from pipeline.edge.receipts import Receipts
from pipeline.errors import SpecError
from pipeline.tree.beam import rank
from pipeline.tree.deciding import DECIDERS
from pipeline.tree.explaining import Told, among, assigned, finite, gate_told, margin, steps
from pipeline.tree.gate import Evaluation
from pipeline.tree.layout import Layout
from pipeline.tree.manifest_evaluations import title
from pipeline.tree.positions import own_name, slot_of
from pipeline.tree.records import Record, load, load_if_whole, read_text
from pipeline.tree.slots import Slot, parse_slot
from pipeline.tree.verdicts import evaluation_of, rules_of

# Steps of an evaluation, by the record that says how each ended.
STEPS = {"implemented": "candidate", "tests": "test", "checks": "checks", "sweep": "sweep"}


def slot_named(run: str, targets: Sequence[Target], word: str) -> Slot:
    """The evaluation that `word` names, by itself or by one of its targets."""
    name = own_name(word)
    slots = {str(slot): slot for slot in _slots(targets)}
    found = next((slot for text, slot in slots.items() if name == text or name.startswith(f"{text}.")), None)
    if found and (name == str(found) or f"{run}:{name}" in {target.name for target in targets}):
        return found
    these = [text for text in slots if name and text.startswith(f"{name}.")] or [*slots]
    which = f"{run}:{these[0]}" + (f" to {run}:{these[-1]}" if len(these) > 1 else "")
    raise SpecError(f"'{word}' is no evaluation; there are {which}")


def _slots(targets: Sequence[Target]) -> list[Slot]:
    return [slot_of(target.name) for target in targets if target.name.endswith(".score")]


class Explanation:
    """All by what was decided by: numbers of the records, rules of the receipts."""

    def __init__(self, run: str, slot: Slot, targets: Sequence[Target]) -> None:
        self.run, self.slot, self.at = run, slot, Layout(run)
        self.receipts = Receipts(run)
        self.beside = [each for each in _slots(targets) if each.depth == slot.depth]

    def record(self, recipes: Mapping[str, Any]) -> Record:
        """`recipes`: of the targets, as the spec is today."""
        own, decided, idea = self._own, self._decided, self.at.idea(self.slot, "md")
        decision = decided["decisions"][str(self.slot)] if decided else {}
        return {
            "evaluation": f"{self.run}:{self.slot}",
            "idea": title(read_text(idea)) if os.path.exists(idea) else "",
            "promoted_to": decision.get("promoted_to_node_id"),
            "failed_check": decision.get("failed_check"),
            "why": decision.get("why", self._undecided()),
            "edited": any(not alike(r.recipe, recipes.get(name)) for name, r in self._receipts.items()),
            "evidence": own.score and own.score.parent.evidence,
            "checks": [told._asdict() for told in self._checks(own)],
            **self._others(own),
        }

    @cached_property
    def _own(self) -> Evaluation:
        name, receipt = f"{self.run}:{self.slot}", self._receipt("score")
        path = self._summary(self.slot)
        if receipt is None or not os.path.exists(path):
            raise SpecError(f"{name} has not been scored yet; `coppice {self.run}` builds it")
        if receipt.recipe["stage"] not in {decider.code for decider in DECIDERS.values()}:
            raise SpecError(f"{name} was scored by another version; `coppice {self.run}` does it anew")
        if not _as_written(receipt, path):
            raise SpecError(f"{path} was changed since it was written; `coppice {self.run}` makes it again")
        return self._evaluation(self.slot)

    def _summary(self, slot: Slot) -> str:
        return self.at.of_eval(slot, "summary.json")

    def _evaluation(self, slot: Slot) -> Evaluation:
        return evaluation_of(slot, load(self._summary(slot)))

    def _receipt(self, name: str) -> Receipt | None:
        where = f"d{self.slot.depth}" if name == "promote" else str(self.slot)
        return self.receipts.receipt(f"{self.run}:{where}.{name}")

    @cached_property
    def _receipts(self) -> dict[str, Receipt]:
        """Of what decided on it."""
        names = {f"{self.run}:{self.slot}.score": "score", f"{self.run}:d{self.slot.depth}.promote": "promote"}
        return {target: found for target, name in names.items() if (found := self._receipt(name))}

    @cached_property
    def _decided(self) -> Record | None:
        """The decisions of its depth, if they are by the scores as they are."""
        receipt, path = self._receipt("promote"), self.at.of_depth(self.slot.depth, "promoted.json")
        if receipt is None or not _as_written(receipt, path):
            return None
        read = {path: sha for path, sha in receipt.inputs.items() if path.endswith("/summary.json")}
        as_read = all(os.path.exists(path) and sha_of(path) == sha for path, sha in read.items())
        return load(path) if as_read and self._summary(self.slot) in read else None

    def _undecided(self) -> str:
        waiting = [slot for slot in self.beside if not os.path.exists(self._summary(slot))]
        if waiting:
            return f"not decided yet: {len(waiting)} of {len(self.beside)} evaluations of the depth have not ended"
        return "not decided yet by these scores"

    @cached_property
    def _depth(self) -> list[Evaluation]:
        """All of it; empty before it is decided."""
        slots = map(parse_slot, self._decided["decisions"]) if self._decided else ()
        return [self._evaluation(slot) for slot in slots]

    def _checks(self, own: Evaluation) -> Iterator[Told]:
        tasks = (load_if_whole(self.at.of_depth(self.slot.depth, "assigned.json")) or {"tasks": {}})["tasks"]
        if task := tasks.get(str(self.slot)):
            yield assigned(task)
        yield from steps({name: found for name, path in self._steps() if (found := load_if_whole(path))})
        yield from gate_told(own, rules_of(self._receipts[f"{self.run}:{self.slot}.score"].recipe["params"]))
        if receipt := self._depth and self._receipt("promote"):
            yield from among(own, self._depth, receipt.recipe["params"]["beam_width"])

    def _steps(self) -> Iterator[tuple[str, str]]:
        """Those that were looked at: records of others may lie about from when the spec had them."""
        looked = [receipt for name in ("pairs", "score") if (receipt := self._receipt(name))]
        for name, record in STEPS.items():
            path = self.at.of_eval(self.slot, f"{record}.json")
            if any(path in receipt.inputs for receipt in looked):
                yield name, path

    def _others(self, own: Evaluation) -> Record:
        """Of one that was promoted: whom it beat, best first."""
        decisions = self._decided["decisions"] if self._decided else {}
        if not decisions.get(str(self.slot), {}).get("promoted_to_node_id"):
            return {"next": None, "margin": None, "others": []}
        following = margin(own, self._depth)
        others = sorted((e for e in self._depth if e.slot != self.slot), key=rank, reverse=True)
        return {
            "next": following and str(following[0]),
            "margin": following and following[1],
            "others": [_beside(e) | decisions[str(e.slot)] for e in others],
        }


def _as_written(receipt: Receipt, path: str) -> bool:
    return os.path.isfile(path) and sha_of(path) == receipt.outputs.get(path)


def _beside(e: Evaluation) -> Record:
    return {"evaluation": str(e.slot), "rank": finite(rank(e)[0])}
