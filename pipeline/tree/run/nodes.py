"""Create nodes: the root, and the nodes that a depth promotes.

States of a place:

    empty              nothing was promoted to it; `closed` says why
    decided -> placed  NextNodes writes code, origin, context and CSV; node_stage puts the commit into git
    closed             it holds a node, but the search has stopped: nothing is tried on it

root_stage takes the user's commit, start_stage makes it a node: a search whose baseline is not complete could promote
nothing.  Records hold positions and no paths: they may be recalled by another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.git.commits import Candidate
from pipeline.git.objects import diff_stat
from pipeline.git.refs import pin
from pipeline.git.repository import root_commit
from pipeline.machine.job import Job, JobFiles
from pipeline.store.files import read_bytes
from pipeline.tree.rules.beam import SAME_CODE, BeamPlace, Evaluation, Promotion
from pipeline.tree.rules.budget import BUDGET_STOPS, BudgetLedger, BudgetLimits, Ceiling, shortages
from pipeline.tree.rules.positions import NODES, ROOT, EvalSlot, NodePlace, RunLayout, position
from pipeline.tree.rules.scoring import Comparison
from pipeline.tree.rules.sheet import check_rows, defects_text
from pipeline.tree.run.measure import baseline_failure
from pipeline.tree.run.records import Origin, Record, load, load_as, save, write
from pipeline.tree.run.run_repo import NodeCommits, RunRepo, chain_link
from pipeline.tree.run.verdicts import expected_by_csv, sheet_of
from pipeline.trust.evidence import STOPPED_EARLY

STOPPED_PREFIX = "the search stopped: "


class Depth(NamedTuple):
    """The facts of a depth whose last evaluation has ended."""

    depth: int
    assigned: Record
    nodes: Sequence[Origin]
    contexts: Sequence[Record]
    evaluations: Sequence[Evaluation]
    ideas: Mapping[EvalSlot, str]
    ledger: BudgetLedger


class NextNodes:
    """Writes the records of the next depth's places."""

    def __init__(
        self, job: JobFiles, depth: Depth, promotion: Promotion, stop: str, opened: Callable[[str], NodeCommits]
    ) -> None:
        self.opened, self.job, self.depth, self.promotion, self.stop = opened, job, depth, promotion, stop
        self.same_code = {decision.slot for decision in promotion.decisions if decision.failed == SAME_CODE}
        self.by_slot = {evaluation.slot: n for n, evaluation in enumerate(depth.evaluations)}

    def write(self) -> None:
        closed = f"{STOPPED_PREFIX}{self.stop}" if self.stop else ""
        for n, promoted in enumerate(self.promotion.slots):
            made = self._promoted_records(promoted, closed) if promoted.source else _empty_records(promoted.why, closed)
            for name in ("code", "context", "origin"):
                save(self.job.writes[name][n], made[name])
            write(self.job.writes["csv"][n], made["csv"])

    def _promoted_records(self, promoted: BeamPlace, closed: str) -> Record:
        assert promoted.source is not None
        slot, n = promoted.source, self.by_slot[promoted.source]
        candidate = load_as(Candidate, self.job.reads["candidate"][n])
        code = self._code(slot, candidate, read_bytes(self.job.reads["change"][n]))
        return {
            "code": code,
            "context": self._context(slot, code, candidate, closed),
            "origin": self._origin(slot, closed),
            "csv": read_bytes(self.job.reads["csv"][n]),
        }

    def _code(self, slot: EvalSlot, candidate: Candidate, patch: bytes) -> Record:
        parent = load(self.job.reads["node_code"][slot.node])
        chain = [*parent["chain"], chain_link(candidate, patch)]
        return {"root": parent["root"], "chain": chain, "commit": candidate.commit, "tree": candidate.tree}

    def _origin(self, slot: EvalSlot, closed: str) -> Origin:
        """The origin of a node: positions and no paths, as another run may recall it."""
        parent = str(slot.place)
        return Origin("", closed, str(slot), parent, [*self.depth.nodes[slot.node].ancestors, parent])

    def _context(self, slot: EvalSlot, code: Record, candidate: Candidate, closed: str) -> Record:
        """The context of an idea: of scores only the parts without weights, whose edit must not cost new ideas."""
        bench, root = self.opened(self.job.target.run), code["root"]
        bench.chain(code)  # all of it may have been recalled from another run, and its commits not be here
        before = self.depth.contexts[slot.node]
        siblings = [e for e in self.depth.evaluations if e.slot.place == slot.place and self.depth.ideas[e.slot]]
        since = {"the start": root, "the last step": candidate.parent}
        if candidate.parent == root:
            del since["the last step"]
        step = _step(next(e for e in siblings if e.slot == slot))
        return {
            "closed": closed,
            "tree": candidate.tree,
            "changes": {name: _stat(bench.repo, commit, candidate.commit) for name, commit in since.items()},
            "step": step,
            "tried": [*before["tried"], *(self._idea_record(e, e.slot == slot) for e in siblings)],
        }

    def _idea_record(self, evaluation: Evaluation, kept: bool) -> Record:
        again = "the same code as another idea here" if evaluation.slot in self.same_code else ""
        why = "; ".join(filter(None, [evaluation.why, *evaluation.defects[:1], _stopped_note(evaluation), again]))
        return {"text": self.depth.ideas[evaluation.slot], "kept": kept, "why": why, "step": _step(evaluation)}


def _step(evaluation: Evaluation) -> list[Record]:
    comparison: Comparison | None = evaluation.score.parent if evaluation.score else None
    names = ("name", "better", "baseline", "candidate", "delta")
    return [{name: getattr(detail, name) for name in names} for detail in comparison.metrics] if comparison else []


def _stopped_note(evaluation: Evaluation) -> str:
    parent = evaluation.score.parent if evaluation.score else None
    if parent is None or STOPPED_EARLY not in parent.reasons or parent.evidence is None:
        return ""
    return f"measured on the first {parent.evidence['blocks']} blocks only, where others were better"


def _stat(repo: str, a: str, b: str) -> str:
    files = diff_stat(repo, a, b)
    return "".join(f"{ascii(file.path)[1:-1]} | +{file.insertions} -{file.deletions}\n" for file in files)


def _empty_records(why: str, closed: str) -> Record:
    return {
        "code": {"empty": why},
        "context": _bare_context(closed or why, ""),
        "origin": Origin(why, closed or why, None, None, []),
        "csv": b"",
    }


def root_stage(job: Job) -> None:
    path = job.target.params["repo"]
    root = root_commit(path, job.target.run)
    save(job.writes["root"][0], {"repo": path, "commit": root.commit, "tree": root.tree})
    write(job.writes["tree"][0], f"{root.tree}\n")


def start_stage(job: Job) -> None:
    """Make the root a node, once its baseline is complete."""
    _check_baseline(job)
    params, root = job.target.params, load(job.reads["root"][0])
    lacking = shortages(BudgetLedger(BudgetLimits(**params["budget"])), Ceiling(**params["ceiling"]))
    closed = f"{STOPPED_PREFIX}{BUDGET_STOPS[lacking[0]]}" if lacking else ""
    save(job.writes["code"][0], {"root": root["commit"], **_state(root), "chain": []})
    save(job.writes["context"][0], _bare_context(closed, root["tree"]))
    save(job.writes["origin"][0], Origin("", closed, None, None, []))
    save(job.writes["node"][0], _place_node(RunRepo(job.target.run), ROOT, _state(root)))


def _bare_context(closed: str, tree: str) -> Record:
    return {"closed": closed, "tree": tree, "changes": {}, "step": [], "tried": []}


def _check_baseline(job: Job) -> None:
    params, csv = job.target.params, read_bytes(job.reads["csv"][0])
    found = check_rows(sheet_of(params, csv), expected_by_csv(params, csv))
    if found.defects:
        log = RunLayout(job.target.run).of_node(ROOT, "sweep.log")
        raise baseline_failure(job.target.run, "sweep", f"is not complete: {defects_text(found.defects)} (log: {log})")


def node_stage(job: Job) -> None:
    place = position(job.target.name)
    assert isinstance(place, NodePlace)
    code = load(job.reads["code"][0])
    if "empty" in code:
        save(job.writes["node"][0], code)
        return
    bench = RunRepo(job.target.run)
    bench.chain(code)
    save(job.writes["node"][0], _place_node(bench, place, _state(code)))


def _state(record: Mapping[str, Any]) -> Record:
    return {"commit": record["commit"], "tree": record["tree"]}


def _place_node(bench: RunRepo, place: NodePlace, state: Record) -> Record:
    """Put a node into git: a ref that keeps its commit, and a worktree to look at."""
    pin(bench.repo, bench.at.run, str(place), state["commit"])
    bench.nodes.add(str(place), state["commit"])
    return {**state, "worktree": f"{NODES}/{place}"}
