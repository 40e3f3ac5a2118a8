"""Records of the places that a depth promotes to: their code, where it comes from, what their ideas may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.edge.git.diff import diff_stat
from pipeline.edge.job import Papers
from pipeline.tree.beam import SAME_CODE, Promoted, Promotion
from pipeline.tree.bench import Chains, link
from pipeline.tree.budget import Ledger
from pipeline.tree.gate import Evaluation
from pipeline.tree.records import Record, load, read_bytes, save, write
from pipeline.tree.scoring import Comparison
from pipeline.tree.slots import Slot
from pipeline.trust.verdicts import STOPPED_EARLY

STOPPED = "the search stopped: "


class Depth(NamedTuple):
    """All that is known when the last evaluation of a depth has ended."""

    depth: int
    assigned: Record
    nodes: Sequence[Record]  # origins
    contexts: Sequence[Record]
    evaluations: Sequence[Evaluation]
    ideas: Mapping[Slot, str]
    ledger: Ledger

    def parent(self, slot: Slot) -> Record:
        return self.nodes[slot.node]


class NextNodes:
    """Writes the records of the next depth's places."""

    def __init__(
        self, job: Papers, depth: Depth, promotion: Promotion, stop: str, opened: Callable[[str], Chains]
    ) -> None:
        self.opened, self.job, self.depth, self.promotion, self.stop = opened, job, depth, promotion, stop
        self.again = {decision.slot for decision in promotion.decisions if decision.failed == SAME_CODE}
        self.by_slot = {evaluation.slot: n for n, evaluation in enumerate(depth.evaluations)}

    def write(self) -> None:
        closed = f"{STOPPED}{self.stop}" if self.stop else ""
        for n, promoted in enumerate(self.promotion.slots):
            made = self._of(promoted, closed) if promoted.source else _nothing(promoted.why, closed)
            for name in ("code", "context", "origin"):
                save(self.job.writes[name][n], made[name])
            write(self.job.writes["csv"][n], made["csv"])

    def _of(self, promoted: Promoted, closed: str) -> Record:
        assert promoted.source is not None
        slot, n = promoted.source, self.by_slot[promoted.source]
        candidate = load(self.job.reads["candidate"][n])
        code = {**self._code(slot, n), "commit": candidate["commit"], "tree": candidate["tree"]}
        return {
            "code": code,
            "context": self._context(slot, code, candidate, closed),
            "origin": self._origin(slot, closed),
            "csv": read_bytes(self.job.reads["csv"][n]),
        }

    def _code(self, slot: Slot, n: int) -> Record:
        parent = load(self.job.reads["node_code"][slot.node])
        made = link(load(self.job.reads["candidate"][n]), read_bytes(self.job.reads["change"][n]))
        return {"root": parent["root"], "chain": [*parent["chain"], made]}

    def _origin(self, slot: Slot, closed: str) -> Record:
        """Positions, no paths: it may be recalled by another run."""
        parent = self.depth.parent(slot)
        return {
            "empty": "",
            "closed": closed,
            "from_eval": str(slot),
            "parent_node": str(slot.place),
            "ancestors": [*parent["ancestors"], str(slot.place)],
        }

    def _context(self, slot: Slot, code: Record, candidate: Mapping[str, Any], closed: str) -> Record:
        """Of scores only what does not change with their weights: an edit of these must not cost new ideas."""
        bench, root = self.opened(self.job.target.run), code["root"]
        bench.chain(code)  # all of it may have been recalled from another run, and its commits not be here
        before = self.depth.contexts[slot.node]
        siblings = [e for e in self.depth.evaluations if e.slot.place == slot.place and self.depth.ideas[e.slot]]
        changes = {
            "the start": (root, candidate["commit"]),
            "the last step": (candidate["parent"], candidate["commit"]),
        }
        if candidate["parent"] == root:
            del changes["the last step"]
        step = _step(next(e for e in siblings if e.slot == slot))
        return {
            "closed": closed,
            "tree": candidate["tree"],
            "changes": {name: _stat(bench.repo, *commits) for name, commits in changes.items()},
            "step": step,
            "tried": [*before["tried"], *(self._tried(e, e.slot == slot) for e in siblings)],
        }

    def _tried(self, evaluation: Evaluation, kept: bool) -> Record:
        again = "the same code as another idea here" if evaluation.slot in self.again else ""
        why = "; ".join(filter(None, [evaluation.why, *evaluation.defects[:1], _stopped(evaluation), again]))
        return {"text": self.depth.ideas[evaluation.slot], "kept": kept, "why": why, "step": _step(evaluation)}


def _step(evaluation: Evaluation) -> list[Record]:
    comparison: Comparison | None = evaluation.score.parent if evaluation.score else None
    names = ("name", "better", "baseline", "candidate", "delta")
    return [{name: getattr(detail, name) for name in names} for detail in comparison.metrics] if comparison else []


def _stopped(evaluation: Evaluation) -> str:
    parent = evaluation.score.parent if evaluation.score else None
    if parent is None or STOPPED_EARLY not in parent.reasons or parent.evidence is None:
        return ""
    return f"measured on the first {parent.evidence['blocks']} blocks only, where others were better"


def _stat(repo: str, a: str, b: str) -> str:
    changed = diff_stat(repo, a, b)
    return "".join(_line(file.path, file.insertions, file.deletions) for file in changed.files)


def _line(path: str, insertions: int, deletions: int) -> str:
    return f"{ascii(path)[1:-1]} | +{insertions} -{deletions}\n"


def _nothing(why: str, closed: str) -> Record:
    return {
        "code": {"empty": why},
        "context": {"closed": closed or why, "tree": "", "changes": {}, "step": [], "tried": []},
        "origin": {
            **dict.fromkeys(("from_eval", "parent_node")),
            "empty": why,
            "closed": closed or why,
            "ancestors": [],
        },
        "csv": b"",
    }
