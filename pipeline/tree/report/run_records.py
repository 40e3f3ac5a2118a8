"""Records of a run, each read on demand, the entries of its nodes, and the cages that held.

Unreliable records count as missing.  Cages are those of commands that measured a candidate, and of the programs that
were asked for it, as recorded when the command ran or the answer was kept: a result that was recalled has the cage that
it was measured in.  Records of older versions name none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, cached_property
from hashlib import sha256
from math import fsum
from typing import Any, NamedTuple

from pipeline.core.cages import PLAIN
from pipeline.core.text import plural
from pipeline.models.calls import Call, DamagedCall, read_calls
from pipeline.store.files import open_plain
from pipeline.store.receipts import Receipts
from pipeline.tree.rules import positions
from pipeline.tree.rules.beam import MAX_DEPTH, told_stop
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, check_rows
from pipeline.tree.run.decisions import without_refused
from pipeline.tree.run.records import Record, load_if_intact
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import ANSWER, JUDGE, ROLES, Params, shape_of
from pipeline.tree.spec.roles import PROGRAM_BACKENDS

EXPANDED, FRONTIER = "expanded", "frontier"
NOT_RECORDED = "not recorded"
NO_CAGE = "none"
EMPTY_SHA = sha256(b"").hexdigest()
# Files of an evaluation, by their names in the manifest.
RECORD_FILES = {name: f"{name}.json" for name in ("task", "candidate", "sweep", "summary")}
RECORD_FILES |= {"change": "change.patch", "calls": "calls.jsonl", "sweep_log": "sweep.log"}


class RunRecords:
    """The records of a run.  `config`: the run's, as its plan has it.  `without`: paths of unreliable records."""

    def __init__(self, run: str, config: Params, without: frozenset[str] = frozenset()) -> None:
        self.run, self.at, self.config, self.without = run, positions.RunLayout(run), config, without
        self.shape = shape_of(config)
        # many children name their ancestors' ideas, and are compared with the same node
        self.sha, self.baseline, self.cascade = cache(self._sha), cache(self._baseline), cache(self._cascade)

    @cached_property
    def assignments(self) -> dict[int, Record]:
        """Assignments by depth; without slots that were refused when their turn came, or wait for it."""
        found = {d: record for d in self.shape.depths if (record := self.record(self.at.of_depth(d, "assigned.json")))}
        return {d: self._after_turns(record) if record.get("turns") else record for d, record in found.items()}

    def _after_turns(self, assigned: Record) -> Record:
        decided = {
            name: task
            for name in assigned["reserved"]
            if (task := self.record(self.at.of_eval(positions.parse_slot(name), "task.json")))
        }
        refused = {name: task["lacking"] for name, task in decided.items() if task.get("lacking")}
        tasks = {name: assigned["tasks"][name] | {"empty": decided[name]["empty"], "why": decided[name]["why"]}
                 for name in refused}  # fmt: skip
        left = without_refused(assigned, refused)
        left["reserved"] = [name for name in left["reserved"] if name in decided]
        return {**left, "tasks": {**assigned["tasks"], **tasks}}

    @cached_property
    def promotions(self) -> dict[int, Record]:
        """The promotions of the depths that are done: none after the one at which the search stopped."""
        done: dict[int, Record] = {}
        for depth in self.shape.depths:
            found = self.promotion(depth)
            if found is None:
                break
            done[depth] = found
            if found["stop_reason"]:
                break
        return done

    def promotion(self, depth: int) -> Record | None:
        """The promotion of a depth, with the reason to stop as people are told it."""
        found = self.record(self.at.of_depth(depth, "promoted.json"))
        if found is None or found["stop_reason"] != MAX_DEPTH:
            return found
        cut = self.assignments.get(depth, {"cut": ()})["cut"]
        return {**found, "stop_reason": told_stop(found["stop_reason"], cut)}

    def _cascade(self, depth: int) -> Record | None:
        return self.record(self.at.of_depth(depth, "cascade.json")) if self.config["cascade"] else None

    def record(self, path: str) -> Record | None:
        return None if path in self.without else load_if_intact(path)

    def content(self, path: str) -> bytes | None:
        try:
            if path in self.without:
                return None
            with open_plain(path) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _sha(self, path: str) -> str | None:
        content = self.content(path)
        return None if content is None else sha256(content).hexdigest()

    @property
    def assigned_slots(self) -> Iterator[positions.EvalSlot]:
        """The slots that something has been assigned to, in their order."""
        for slot in self.shape.all_slots():
            if str(slot) in self.assignments.get(slot.depth, {"tasks": {}})["tasks"]:
                yield slot

    def ideas(self, place: positions.NodePlace) -> list[str]:
        """The files of a node's ideas that are not empty, in the order of the slots."""
        paths = [self.at.idea(positions.EvalSlot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        return [path for path in paths if self.sha(path) not in (None, EMPTY_SHA)]

    def stopped_after(self, slot: positions.EvalSlot) -> int:
        """The number of blocks of a candidate that the cascade stopped; 0 of any other."""
        return int((self.record(self.at.of_eval(slot, "sweep.json")) or {}).get("stopped_after", 0))

    def _baseline(self, place: positions.NodePlace) -> CheckedRows | None:
        """The rows of a node."""
        content, wanted = self.content(self.at.csv(place)), self.expected_rows
        return check_rows(sheet_of(self.config, content), wanted) if content and wanted else None

    @cached_property
    def expected_rows(self) -> ExpectedRows | None:
        root = self.content(self.at.csv(positions.ROOT))
        return None if root is None else expected_by_sheet(self.config, sheet_of(self.config, root))


def node_entry(records: RunRecords, place: positions.NodePlace, receipts: Receipts) -> Record | None:
    """The entry of a node; None for a place that is empty or not decided yet."""
    at, config = records.at, records.config
    origin, code = (records.record(at.of_node(place, f"{name}.json")) for name in ("origin", "code"))
    if origin is None or code is None or origin["empty"] or "commit" not in code:
        return None  # one of them may be of a moment before the other
    above = [positions.parse_place(name) for name in origin["ancestors"]]
    folders = [at.of_run(f"node_ideas/{each}") for each in (*above, place)]
    tasks = records.assignments.get(place.depth, {"tasks": {}})["tasks"]
    return {
        "parent_node_id": origin["parent_node"],
        "depth": place.depth,
        "status": EXPANDED if place.depth in records.promotions else FRONTIER,
        "closed": origin["closed"],
        "created_at": created_at(receipts, f"{records.run}:{place}.node"),
        "commit": code["commit"],
        "tree": code["tree"],
        "ref": f"refs/coppice/{records.run}/{place}",
        "worktree_path": at.of_run(f"{positions.NODES}/{place}"),
        "baseline_results_csv_path": at.csv(place),
        "baseline_results_csv_sha256": records.sha(at.csv(place)),
        "metrics": node_means(records, place),
        **({"given_by": config["baseline_csv"]} if place == positions.ROOT and "baseline_csv" in config else {}),
        "sweep_config_limit": config["sweep_config_limit"],
        "idea_chain": idea_chain(records, origin),
        "node_ideas_dir": folders[-1],
        "generated_idea_files": records.ideas(place),
        "context_ideas_dirs": folders,
        "context_idea_files": {path: records.sha(path) for each in above for path in records.ideas(each)},
        "dedupe": {
            "scope": config["dedupe_scope"],
            "skipped": [
                {"eval_id": slot, "duplicate_of": task["duplicate_of"], "identity": task["identity"]}
                for slot, task in tasks.items()
                if task["duplicate_of"] and positions.parse_slot(slot).place == place
            ],
        },
        "artifacts": _artifacts(records, origin["from_eval"]),
    }


def node_means(records: RunRecords, place: positions.NodePlace) -> dict[str, float]:
    """The means of a node's rows, which are complete: other code never becomes a node."""
    checked = records.baseline(place)
    if checked is None or checked.defects or not checked.rows:
        return {}
    names = (metric["name"] for metric in records.config["metrics"])
    return {name: fsum(row.metrics[name] for row in checked.rows) / len(checked.rows) for name in names}


def idea_chain(records: RunRecords, origin: Record) -> list[str]:
    """The ideas on the way to a node, followed upwards: the record may have been made in another run."""
    chain: list[str] = []
    above: Record | None = origin
    while above and above["from_eval"]:
        slot = positions.parse_slot(above["from_eval"])
        chain.insert(0, records.at.idea(slot, "md"))
        above = records.record(records.at.of_node(slot.place, "origin.json"))
    return chain


def _artifacts(records: RunRecords, source: str | None) -> Record:
    """The files that a node was made from; the root has its baseline alone."""
    at, names = records.at, ("sweep.json", "sweep.log")
    if source is None:
        sweep, log = (at.of_node(positions.ROOT, name) for name in names)
        return {"promoted_from_eval_id": None, "sweep": sweep, "sweep_log": log}
    slot = positions.parse_slot(source)
    files = {name: at.of_eval(slot, RECORD_FILES[name]) for name in ("summary", "change", "sweep", "sweep_log")}
    return {"promoted_from_eval_id": source, **files, "candidate_results_csv_path": at.csv(slot)}


def created_at(receipts: Receipts, target: str) -> str | None:
    receipt = receipts.receipt(target)
    return datetime.fromtimestamp(receipt.end, UTC).isoformat(timespec="seconds") if receipt else None


# --- The cages that held.


class HeldCage(NamedTuple):
    """The cage of a step or of a role; None where it was not recorded."""

    sandbox: str | None
    network: str | None

    @property
    def text(self) -> str:
        if self.sandbox is None:
            return NOT_RECORDED
        return NO_CAGE if self.sandbox == PLAIN else f"{self.sandbox}, network {self.network}"


def held_cages(costs: Mapping[str, Mapping[str, Any]], paths: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """The cages of an evaluation, by step and role: from the costs of what ran, and from the files of its calls."""
    ran = {step: cost for step, cost in costs.items() if cost["attempts"]}
    found = {step: HeldCage(cost.get("sandbox"), cost.get("network")) for step, cost in ran.items()}
    for call in (call for path in paths for call in _intact_calls(path)):
        if call.backend in PROGRAM_BACKENDS:
            found[call.role] = HeldCage(call.sandbox or None, call.network or None)
    return {name: held._asdict() for name, held in found.items()}


def _intact_calls(path: str) -> Iterator[Call]:
    """The calls of a file up to a damaged line, which validation names."""
    if os.path.exists(path):
        with suppress(DamagedCall):
            yield from read_calls(path)


def cages_text(cages: Mapping[str, Mapping[str, Any]]) -> str:
    """The cages of one evaluation in words; equal ones once."""
    return "; ".join(f"{', '.join(names)}: {held.text}" for held, names in by_cage(cages).items())


def by_cage(cages: Mapping[str, Mapping[str, Any]]) -> dict[HeldCage, list[str]]:
    """The names of what each cage held, in their order."""
    found: dict[HeldCage, list[str]] = {}
    for name, each in cages.items():
        found.setdefault(HeldCage(each["sandbox"], each["network"]), []).append(name)
    return found


def cage_lines(manifest: Mapping[str, Any]) -> list[str]:
    """A paragraph on the cages of a whole search, counted; none before anything ran."""
    commands: Counter[HeldCage] = Counter()
    roles: Counter[HeldCage] = Counter()
    for each in manifest["evaluations"].values():
        for name, held in each["cages"].items():
            (roles if name in ROLES else commands)[HeldCage(**held)] += 1
    parts = [*_counts("Cages", commands, "command"), *_counts("Cages of roles", roles, "program")]
    apart = ["Judged apart."] if parts and manifest["run_config"].get("judged_apart") else []
    uncaged = [text for text in (uncaged_text(manifest),) if text]
    return ["", " ".join([*parts, *apart, *uncaged])] if parts else []


def uncaged_text(manifest: Mapping[str, Any]) -> str:
    """A sentence on results that were made in no cage although the spec does not say `plain`; empty if there are none.

    `auto` is what a machine has.  So they are believed, here and where there are walls; but never without this word."""
    asked = manifest["run_config"].get("cages_asked", {})
    plain = [name.partition(" ")[0] for name, words in asked.items() if words.get("sandbox") == PLAIN]
    free = {_STEP_NAMES.get(name, name) for name in plain}
    number = sum(
        held["sandbox"] == PLAIN and name not in free and name not in ROLES
        for each in manifest["evaluations"].values()
        for name, held in each["cages"].items()
    )
    verb = "was" if number == 1 else "were"
    cure = "a grade that is named, such as `sandbox: isolated`, measures anew"
    return f"{plural(number, 'result')} {verb} made in no cage, for want of one: {cure}." if number else ""


# The steps of an evaluation, by the names that their commands have in what the spec asks for.
_STEP_NAMES = {"tests": "test", "check": "checks", ANSWER: "sweep", JUDGE: "sweep"}


def _counts(title: str, counts: Counter[HeldCage], unit: str) -> Iterator[str]:
    if counts:
        words = [f"{held.text} ({plural(number, unit)})" for held, number in counts.most_common()]
        yield f"{title}: {'; '.join(words)}."
