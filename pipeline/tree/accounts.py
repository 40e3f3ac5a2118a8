"""Explain and replay: one evaluation's decision explained, every decision of a search made again and compared.

Explanations take numbers from records and rules from receipts, so that they hold for the decision as it was made;
`edited` says that today's spec differs.  Stale decisions need a build; they say nothing against the records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.recipe import make_recipe, same_request
from pipeline.core.text import plain_text, plural
from pipeline.errors import SpecError, not_built
from pipeline.store.files import file_sha256
from pipeline.store.receipts import Receipts
from pipeline.tree.report.explain import (
    CheckExplanation,
    explain_assignment,
    explain_gate,
    explain_ranking,
    explain_step,
    finite_or_none,
    margin_to_next,
)
from pipeline.tree.report.manifest import evaluation_entry, idea_title
from pipeline.tree.report.markdown import clip_text
from pipeline.tree.report.replay import DIFFERENT, LOST, SAME, STALE, replay_decisions
from pipeline.tree.report.run_records import RunRecords, cages_text
from pipeline.tree.rules.beam import Evaluation, rank_key
from pipeline.tree.rules.positions import SCORING_STAGES, EvalSlot, RunLayout, own_name, parse_slot, slot_of
from pipeline.tree.rules.scoring import BestConfig
from pipeline.tree.run.decisions import DECIDERS
from pipeline.tree.run.records import Record, evaluation_of, load, load_if_intact, read_text, scoring_rules
from pipeline.tree.stages import STAGES
from pipeline.tree.targets.builder import planned_config

# Steps of an evaluation, each with the record of its end.
EXPLAINED_STEPS = {"implemented": "candidate", "tests": "test", "checks": "checks", "sweep": "sweep"}


def slot_by_name(run: str, targets: Sequence[Target], word: str) -> EvalSlot:
    """The evaluation that `word` names, by itself or by one of its targets."""
    name = own_name(word)
    slots = {str(slot): slot for slot in scored_slots(targets)}
    found = next((slot for text, slot in slots.items() if name == text or name.startswith(f"{text}.")), None)
    if found and (name == str(found) or f"{run}:{name}" in {target.name for target in targets}):
        return found
    these = [text for text in slots if name and text.startswith(f"{name}.")] or [*slots]
    which = f"{run}:{these[0]}" + (f" to {run}:{these[-1]}" if len(these) > 1 else "")
    raise SpecError(f"'{word}' is no evaluation; there are {which}")


def scored_slots(targets: Sequence[Target]) -> list[EvalSlot]:
    return [slot_of(target.name) for target in targets if target.stage in SCORING_STAGES]


class Explanation:
    """The explanation of one evaluation, by numbers of the records and rules of the receipts."""

    def __init__(self, run: str, slot: EvalSlot, targets: Sequence[Target]) -> None:
        self.run, self.slot, self.at, self.receipts = run, slot, RunLayout(run), Receipts(run)
        self.name, self.promotion = f"{run}:{slot}", self.receipts.receipt(f"{run}:d{slot.depth}.promote")
        self.own = [target.name for target in targets if target.name.startswith(f"{self.name}.")]
        self.beside = [each for each in scored_slots(targets) if each.depth == slot.depth]

    def record(self, recipes: Mapping[str, Any]) -> Record:
        """The explanation as a record; `recipes`: of the targets by today's spec."""
        decided = {f"{self.name}.score": self._score, f"{self.run}:d{self.slot.depth}.promote": self.promotion}
        own, idea = self._evaluation(self.slot), self.at.idea(self.slot, "md")
        decision = self._decisions.get(str(self.slot), {})
        return {
            "evaluation": self.name,
            "idea": idea_title(read_text(idea)) if os.path.exists(idea) else "",
            "promoted_to": decision.get("promoted_to_node_id"),
            "failed_check": decision.get("failed_check"),
            "why": decision.get("why", self._undecided()),
            "edited": any(r and not same_request(r.recipe, recipes.get(name)) for name, r in decided.items()),
            "evidence": own.score and own.score.parent.evidence,
            "checks": [check._asdict() for check in self._checks(own)],
            **self._others(own),
        }

    @cached_property
    def _score(self) -> Receipt:
        receipt, path = self.receipts.receipt(f"{self.name}.score"), self._summary(self.slot)
        if receipt is None or not os.path.exists(path):
            raise SpecError(self._unscored_text())
        if receipt.recipe["stage"] not in {decider.code for decider in DECIDERS.values()}:
            raise SpecError(f"{self.name} was scored by another version; `coppice {self.run}` does it anew")
        if not _is_as_written(receipt, path):
            raise SpecError(f"{path} was changed since it was written; `coppice {self.run}` makes it again")
        return receipt

    def _unscored_text(self) -> str:
        """Words on an evaluation without a score: what of it failed, or that it is still to be built."""
        failures = ((name, failure) for name in self.own if (failure := self.receipts.failure(name)))
        for name, failure in failures:
            log = f" (log: {failure.log})" if failure.log else ""
            how = "did not end" if failure.outage else "failed"
            return f"{self.name} has no score: {name} {how}: {failure.why}{log}"
        return f"{self.name} has not been scored yet; `coppice {self.run}` builds it"

    def _summary(self, slot: EvalSlot) -> str:
        return self.at.of_eval(slot, "summary.json")

    def _evaluation(self, slot: EvalSlot) -> Evaluation:
        return evaluation_of(load(self._summary(slot)), slot)

    @cached_property
    def _decisions(self) -> Record:
        """The decisions of its depth, by slot, if they were made by the scores as they are now; else none."""
        receipt, path = self.promotion, self.at.of_depth(self.slot.depth, "promoted.json")
        if receipt is None or not _is_as_written(receipt, path):
            return {}
        read = {path: sha for path, sha in receipt.inputs.items() if path.endswith("/summary.json")}
        as_read = all(os.path.exists(path) and file_sha256(path) == sha for path, sha in read.items())
        decisions: Record = load(path)["decisions"] if as_read and self._summary(self.slot) in read else {}
        return decisions

    def _undecided(self) -> str:
        waiting = [slot for slot in self.beside if not os.path.exists(self._summary(slot))]
        if waiting:
            return f"not decided yet: {len(waiting)} of {len(self.beside)} evaluations of the depth have not ended"
        return "not decided yet by these scores"

    @cached_property
    def _depth(self) -> list[Evaluation]:
        """The evaluations of its depth; none before it is decided."""
        return [self._evaluation(parse_slot(name)) for name in self._decisions]

    def _checks(self, own: Evaluation) -> Iterator[CheckExplanation]:
        yield from self.steps()
        is_reviewed = os.path.exists(self.at.of_eval(self.slot, "review_round_1.md"))
        yield from explain_gate(own, scoring_rules(self._score.recipe["params"]), is_reviewed)
        if self._depth and self.promotion:
            yield from explain_ranking(own, self._depth, self.promotion.recipe["params"]["beam_width"])

    def steps(self) -> Iterator[CheckExplanation]:
        """The steps before the gate, those of one that has not been scored yet as far as it has come."""
        assigned = load_if_intact(self.at.of_depth(self.slot.depth, "assigned.json")) or {"tasks": {}}
        if task := assigned["tasks"].get(str(self.slot)):
            turn = load_if_intact(self.at.of_eval(self.slot, "task.json")) or {}
            refused = {name: turn[name] for name in ("empty", "why")} if turn.get("lacking") else {}
            yield explain_assignment({**task, **refused})
        # older specs may have left records of steps that its score did not read
        names = (f"{self.name}.{step}" for step in ("pairs", "score"))
        readers = [receipt for name in names if (receipt := self.receipts.receipt(name))]
        paths = {step: self.at.of_eval(self.slot, f"{record}.json") for step, record in EXPLAINED_STEPS.items()}
        for step, path in paths.items():
            was_read = not readers or any(path in receipt.inputs for receipt in readers)
            if was_read and (record := load_if_intact(path)):
                yield from explain_step(step, record)

    def _others(self, own: Evaluation) -> Record:
        """The evaluations that a promoted one has beaten, best first."""
        decisions = self._decisions
        if not decisions.get(str(self.slot), {}).get("promoted_to_node_id"):
            return {"next": None, "margin": None, "others": []}
        following = margin_to_next(own, self._depth)
        others = sorted((e for e in self._depth if e.slot != self.slot), key=rank_key, reverse=True)
        return {
            "next": following and str(following[0]),
            "margin": following and following[1],
            "others": [
                {"evaluation": str(e.slot), "rank": finite_or_none(rank_key(e)[0])} | decisions[str(e.slot)]
                for e in others
            ],
        }


def _is_as_written(receipt: Receipt, path: str) -> bool:
    return os.path.isfile(path) and file_sha256(path) == receipt.outputs.get(path)


# Words for the result of a check, and for the outcome of a replay.
MARKS = {True: "passed", False: "FAILED", None: "-"}
WORDS = {SAME: "the same again", DIFFERENT: "different", LOST: "not to be rebuilt", STALE: "stale"}


def replay(run: str, targets: Sequence[Target]) -> Record:
    if not os.path.exists(RunLayout(run).of_run("root.json")):
        raise not_built(run)
    now = recipes(targets)
    decisions = replay_decisions(run, now, now)
    return {
        "run": run,
        "decisions": len(decisions),
        **{outcome: sum(each.outcome == outcome for each in decisions) for outcome in WORDS},
        "edited": sum(each.edited for each in decisions),
        "targets": [each._asdict() | {"differences": [d._asdict() for d in each.differences]} for each in decisions],
    }


def recipes(targets: Sequence[Target]) -> dict[str, Any]:
    """The recipes of targets by today's spec."""
    return {target.name: make_recipe(target, STAGES[target.stage].code) for target in targets}


def agrees(replay: Mapping[str, Any]) -> bool:
    """True when no decision is different or lost; stale ones only need a build."""
    return not replay[DIFFERENT] and not replay[LOST]


def replay_lines(replay: Mapping[str, Any]) -> list[str]:
    """The decisions that are not the same again, and the numbers of all."""
    lines = [plain_text(line) for each in replay["targets"] for line in _decision_lines(each)]
    counts = ", ".join(f"{replay[outcome]} {word}" for outcome, word in WORDS.items() if replay[outcome])
    edited = f"; {replay['edited']} were decided by another spec than today's" if replay["edited"] else ""
    total = plural(replay["decisions"], "decision") if replay["decisions"] else "nothing is decided yet"
    return [*lines, f"{replay['run']}: {total}{': ' if counts else ''}{counts}{edited}"]


def _decision_lines(each: Mapping[str, Any]) -> Iterator[str]:
    if each["outcome"] in (LOST, STALE):
        yield f"{each['target']}: {WORDS[each['outcome']]}: {each['why']}"
        return
    for it in each["differences"]:
        where = f"{each['target']}: {it['path']}: {it['where']}".removesuffix(": ")
        yield f"{where}: recorded {clip_text(it['recorded'], 80)}, rebuilt {clip_text(it['rebuilt'], 80)}"


def explain(run: str, targets: Sequence[Target], word: str) -> Record:
    slot = slot_by_name(run, targets, word)
    record = Explanation(run, slot, targets).record(recipes(targets))
    records = RunRecords(run, planned_config(targets))
    entry = evaluation_entry(records, slot, {}) if slot in records.assigned_slots else {}
    return record | {"best_config": entry.get("best_config"), "cages": entry.get("cages", {})}


def explain_lines(explained: Mapping[str, Any]) -> list[str]:
    to, failed, checks = explained["promoted_to"], explained["failed_check"], explained["checks"]
    how = f"promoted to {to}" if to else f"not promoted: {failed}" if failed else explained["why"]
    lines = [f"{explained['evaluation']} ({clip_text(explained['idea'], 60) or 'no idea'}): {how}"]
    size = max(len(each["check"]) for each in checks)
    for each in checks:
        text = f"{each['what']}; needs {each['needs']}" if each["needs"] else each["what"]
        lines.append(f"  {MARKS[each['passed']]:6}  {each['check']:{size}}  {text}".rstrip())
    if explained["best_config"]:
        best = BestConfig(**explained["best_config"])
        lines.append(f"  {best.text}; the parent's best is config {best.parent_config}")
    if explained["cages"]:
        lines.append(f"  cages: {cages_text(explained['cages'])}")
    if explained["next"]:
        margin = explained["margin"]
        by = f"by {margin:.6g}" if margin else "as the better by its primary metric, or the earlier slot"
        lines.append(f"  ahead of {explained['next']} {by}")
    for each in explained["others"]:
        to, refused = each["promoted_to_node_id"], f"{each['failed_check']}: {each['why']}"
        lines.append(f"  {each['evaluation']}: {f'promoted to {to}, too' if to else refused}")
    return [*lines, *(["  It was decided by another spec than today's."] if explained["edited"] else [])]
