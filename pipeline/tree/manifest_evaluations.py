"""What the manifest says of an evaluation: what was tried, what came of it, and where each file of it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pipeline.tree.budget import Spent, total
from pipeline.tree.by_config import by_config, column, means
from pipeline.tree.events import NEW, QUEUED, STARTED, STATES
from pipeline.tree.found import Found
from pipeline.tree.gate import FAILED
from pipeline.tree.ideas import parse
from pipeline.tree.layout import CANDIDATES
from pipeline.tree.records import Record
from pipeline.tree.results import Checked
from pipeline.tree.sheet import Row
from pipeline.tree.slots import Slot

PENDING = "pending"
# What only those know who watch the run: the records are the same whenever and by whom they were made.
LIFECYCLE = tuple(NEW)
FILES = {
    "task": "task.json",
    "candidate": "candidate.json",
    "change": "change.patch",
    "calls": "calls.jsonl",
    "sweep": "sweep.json",
    "sweep_log": "sweep.log",
    "summary": "summary.json",
}
# Steps before the sweep, by the keys of the configuration that say whether there are any.
BEFORE = {"test": ("tests",), "checks": ("checks", "protect")}


def evaluation(found: Found, slot: Slot, lifecycle: Mapping[str, Any]) -> Record | None:
    """None: nothing has been assigned to the slot yet."""
    task = found.assigned.get(slot.depth, {"tasks": {}})["tasks"].get(str(slot))
    return None if task is None else _Evaluation(found, slot, task, lifecycle).record()


class _Evaluation:
    def __init__(self, found: Found, slot: Slot, task: Record, lifecycle: Mapping[str, Any]) -> None:
        self.found, self.slot, self.task, self.lifecycle = found, slot, task, lifecycle
        self.candidate, self.summary = self._read("candidate.json"), self._read("summary.json")
        self.before = [step for step, keys in BEFORE.items() if any(found.config[key] for key in keys)]
        names = (*self.before, "sweep")
        self.costs = {name: cost for name in names if (cost := self._read(f"{name}.cost.json"))}
        promoted = found.promoted.get(slot.depth, {"decisions": {}, "spent": {}})
        self.decision = promoted["decisions"].get(str(slot))
        spent = promoted["spent"]
        self.spent = [Spent(*spent[name]) for name in (str(slot), f"{slot}.idea") if name in spent]

    def _read(self, name: str) -> Record | None:
        return self.found.record(self.found.at.of_eval(self.slot, name))

    def record(self) -> Record:
        return {
            "eval_id": str(self.slot),
            "parent_node_id": str(self.slot.place),
            "depth": self.slot.depth,
            **self._idea(),
            **self._ended(),
            **self._lived(),
            **self._code(),
            **self._measured(),
            "experiment_dir": self.found.at.of_run(f"eval/{self.slot}"),
            "files": self._files(),
            "decision": self.decision,
        }

    def _idea(self) -> Record:
        path = self.found.at.idea(self.slot, "md")
        return {
            "idea_id": self.slot.idea,
            "idea_path": path,
            "idea_text_path": path,
            "idea_sha256": self.found.sha(path),
            "idea_title": title((self.found.content(path) or b"").decode(errors="replace")),
            "idea_source": (self.found.record(self.found.at.idea(self.slot, "json")) or {}).get("source"),
            "empty": self.task["empty"],
            "empty_why": self.task["why"],
            "duplicate_of": self.task["duplicate_of"],
        }

    def _ended(self) -> Record:
        status = self.summary["status"] if self.summary else PENDING
        if status == PENDING and self.lifecycle.get("task_state") == STATES[STARTED]:
            status = STATES[STARTED]
        return {"status": status, "error": self._error() if status == FAILED else None}

    def _error(self) -> Record:
        """The first step that failed says why; a candidate that was not made has nothing after that."""
        assert self.summary is not None
        steps = [("implement", self.candidate, "calls.jsonl")]
        steps += [(step, self._read(f"{step}.json"), f"{step}.log") for step in (*self.before, "sweep")]
        stage, record, log = next(
            (step for step in steps if step[1] and step[1]["status"] == FAILED), ("implement", {}, "calls.jsonl")
        )
        printed = f"{self.found.at.of_run('.coppice/logs')}/{self.slot}.implement.log"
        log = self.found.at.of_eval(self.slot, log)
        log = printed if stage == "implement" and os.path.exists(printed) else log
        return {"stage": stage, "why": self.summary["why"], "exit": (record or {}).get("exit"), "log": log}

    def _lived(self) -> Record:
        attempts = {name: cost["attempts"] for name, cost in self.costs.items()}
        state = self.summary["status"] if self.summary else STATES[QUEUED]
        known = dict.fromkeys(LIFECYCLE) | {"attempt": max(attempts.values(), default=None), "task_state": state}
        return {
            **known,
            **{name: self.lifecycle[name] for name in LIFECYCLE if name in self.lifecycle},
            "attempts": attempts,
            "seconds": {name: cost["seconds"] for name, cost in self.costs.items()},
            "spent": total(self.spent)._asdict() if self.spent else None,
        }

    def _code(self) -> Record:
        made = self.candidate or {}
        commit, rounds = made.get("commit") or None, made.get("rounds", 0)
        reviews = [self.found.at.of_eval(self.slot, f"review_round_{n}.md") for n in range(1, rounds + 1)]
        return {
            "parent_commit": made.get("parent") or None,
            "candidate_commit": commit,
            "candidate_tree": made.get("tree") or None,
            "candidate_ref": f"refs/coppice/{self.found.run}/{self.slot}" if commit else None,
            "candidate_worktree_path": self.found.at.of_run(f"{CANDIDATES}/{self.slot}"),
            "approved": made.get("approved"),
            "review_round_files": reviews,
            "change": {name: made[name] for name in ("files", "insertions", "deletions")} if commit else None,
        }

    def _measured(self) -> Record:
        summary, at = self.summary or {}, self.found.at
        return {
            "baseline_results_csv_path": at.csv(self.slot.place),
            "baseline_results_csv_sha256": summary.get("baseline_sha256") or None,
            "candidate_results_csv_path": at.csv(self.slot) if summary.get("results_sha256") else None,
            "candidate_results_csv_sha256": summary.get("results_sha256") or None,
            "candidate_rows_used": summary.get("rows_used"),
            "rows_expected": summary.get("rows_expected"),
            "defects": summary.get("defects", []),
            "stopped_after_blocks": self._stopped_after() or None,
            "cascade": self._cascade(),
            "scoring_summary": summary.get("scoring_summary"),
            "by_config": self._by_config() if summary.get("scoring_summary") else None,
        }

    def _stopped_after(self) -> int:
        return self.found.stopped_after(self.slot) if self.summary else 0

    def _cascade(self) -> Record | None:
        """How it stood on the first blocks among those of its depth."""
        found = self.found.cascade(self.slot.depth)
        return found and found["ideas"].get(str(self.slot))

    def _by_config(self) -> Record | None:
        """Of one that was scored both sides are complete, if they are what was scored, and by today's spec."""
        own, parent = self.found.content(self.found.at.csv(self.slot)), self.found.baseline(self.slot.place)
        if not own or not parent or parent.defects or not self._are_scored(own):
            return None
        name = self.found.config["primary"]
        better = next(metric["better"] for metric in self.found.config["metrics"] if metric["name"] == name)
        before = means((row.config_id, row.metrics[name]) for row in self._beside(parent))
        after = column(own.decode(errors="replace"), name, before)
        return by_config(better, before, after)._asdict() if after.keys() == before.keys() else None

    def _beside(self, parent: Checked) -> Sequence[Row]:
        """What of the parent it is compared with."""
        wanted, stopped = self.found.wanted, self._stopped_after()
        return parent.on(wanted.first(stopped).blocks).rows if wanted and stopped else parent.rows

    def _are_scored(self, own: bytes) -> bool:
        baseline, scored = self.found.sha(self.found.at.csv(self.slot.place)), self.summary or {}
        return (scored["results_sha256"], scored["baseline_sha256"]) == (sha256(own).hexdigest(), baseline)

    def _files(self) -> Record:
        if self.summary is None or self.task["empty"]:
            return {}
        names = FILES | dict(pair for step in self.before for pair in _of_step(step))
        return {name: self.found.at.of_eval(self.slot, file) for name, file in names.items()}


def _of_step(step: str) -> Iterator[tuple[str, str]]:
    yield step, f"{step}.json"
    yield f"{step}_log", f"{step}.log"


def title(text: str) -> str:
    """The idea in a line."""
    parsed = parse(text).idea
    lines = (line.strip(" #*") for line in (parsed.idea if parsed else text).splitlines())
    return next(filter(None, lines), "")
