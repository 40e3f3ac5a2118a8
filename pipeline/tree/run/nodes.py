"""Create nodes: the root, measured or with results from a file, and the nodes that a depth promotes.

States of a place:

    empty              nothing was promoted to it; `closed` says why
    decided -> placed  write_next_nodes writes code, origin, context and CSV; node_stage puts the commit into git
    closed             it holds a node, but the search has stopped: nothing is tried on it

root_stage takes the user's commit, start_stage makes it a node: a search whose baseline is not complete could promote
nothing.  Records hold positions and no paths: they may be recalled by another run.

A file of the root's results, given in place of a sweep, is checked like the rows of a sweep, when the spec is read and
again when it is taken: another run may make it, and it may be edited in between."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.git.commits import Candidate
from pipeline.git.objects import diff_stat, pin
from pipeline.git.repository import attribute_filters, root_commit
from pipeline.machine.job import Job, JobFiles, StageFailed, input_path
from pipeline.store.files import append_lines, read_bytes
from pipeline.tree.rules.beam import SAME_CODE, Evaluation, Promotion
from pipeline.tree.rules.budget import STOP_REASONS, BudgetLedger, Ceiling, ledger_of, shortages
from pipeline.tree.rules.positions import NODES, ROOT, EvalSlot, NodePlace, RunLayout, position
from pipeline.tree.rules.sheet import Defect, check_rows, csv_lines, csv_rows, defects_text
from pipeline.tree.run.measure import baseline_failure, sweep_record
from pipeline.tree.run.records import CommandCost, Origin, Record, load, load_as, read_text, save, write
from pipeline.tree.run.run_repo import OpenNode, RunRepo, chain_link
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import Params
from pipeline.trust.evidence import STOPPED_EARLY

STOPPED_PREFIX = "the search stopped: "

_LINE, _STRANGE_BLOCK = re.compile(r"line ([0-9]+)"), re.compile(r"'(.*)' is none of ")
NOT_MEASURED = b"---- given by `baseline_csv:`, not measured here ----\n"


class Depth(NamedTuple):
    """The facts of a depth whose last evaluation has ended."""

    depth: int
    assigned: Record
    nodes: Sequence[Origin]
    contexts: Sequence[Record]
    evaluations: Sequence[Evaluation]
    ideas: Mapping[EvalSlot, str]
    ledger: BudgetLedger


def write_next_nodes(job: JobFiles, depth: Depth, promotion: Promotion, stop: str, open_node: OpenNode) -> None:
    """Write the records of the next depth's places; `stop`: the reason for which nothing is tried on them."""
    closed = f"{STOPPED_PREFIX}{stop}" if stop else ""
    numbers = {evaluation.slot: n for n, evaluation in enumerate(depth.evaluations)}
    for n, beam in enumerate(promotion.slots):
        code: Record = {"empty": beam.why}
        context, csv = _bare_context(closed or beam.why, ""), b""
        origin = Origin(beam.why, closed or beam.why, None, None, [])
        if slot := beam.source:
            reads = {port: job.reads[port][numbers[slot]] for port in ("candidate", "change", "csv")}
            candidate, csv = load_as(Candidate, reads["candidate"]), read_bytes(reads["csv"])
            before, parent = load(job.reads["node_code"][slot.node]), str(slot.place)
            chain = [*before["chain"], chain_link(candidate, read_bytes(reads["change"]))]
            code = {"root": before["root"], "chain": chain, "commit": candidate.commit, "tree": candidate.tree}
            context = {"closed": closed, "tree": candidate.tree, **_history(depth, promotion, slot)}
            context["changes"] = _changes(open_node(job.target.run, code), before["root"], candidate)
            origin = Origin("", closed, str(slot), parent, [*depth.nodes[slot.node].ancestors, parent])
        for name, record in (("code", code), ("context", context), ("origin", origin)):
            save(job.writes[name][n], record)
        write(job.writes["csv"][n], csv)


def _changes(repo: str, root: str, candidate: Candidate) -> dict[str, str]:
    """The files that have changed since the start and since the last step."""
    since = {"the start": root} | ({} if candidate.parent == root else {"the last step": candidate.parent})
    return {
        name: "".join(
            f"{ascii(file.path)[1:-1]} | +{file.insertions} -{file.deletions}\n"
            for file in diff_stat(repo, commit, candidate.commit)
        )
        for name, commit in since.items()
    }


def _history(depth: Depth, promotion: Promotion, slot: EvalSlot) -> Record:
    """The gain of an idea, and all that was tried on the way to it.

    Of scores only the parts without weights, whose edit must not cost new ideas."""
    same_code = {decision.slot for decision in promotion.decisions if decision.failed == SAME_CODE}
    siblings = [e for e in depth.evaluations if e.slot.place == slot.place and depth.ideas[e.slot]]
    tried = [*depth.contexts[slot.node]["tried"]]
    for e in siblings:
        again = "the same code as another idea here" if e.slot in same_code else ""
        why = "; ".join(filter(None, [e.why, *e.defects[:1], _stopped_note(e), again]))
        tried.append({"text": depth.ideas[e.slot], "kept": e.slot == slot, "why": why, "step": _step(e)})
    return {"step": _step(next(e for e in siblings if e.slot == slot)), "tried": tried}


def _step(evaluation: Evaluation) -> list[Record]:
    details = evaluation.score.parent.metrics if evaluation.score else ()
    names = ("name", "better", "baseline", "candidate", "delta")
    return [{name: getattr(detail, name) for name in names} for detail in details]


def _stopped_note(evaluation: Evaluation) -> str:
    parent = evaluation.score.parent if evaluation.score else None
    if parent is None or STOPPED_EARLY not in parent.reasons or parent.evidence is None:
        return ""
    return f"measured on the first {parent.evidence['blocks']} blocks only, where others were better"


def root_stage(job: Job) -> None:
    path = job.target.params["repo"]
    root = root_commit(path, job.target.run)
    if filters := attribute_filters(root.repo, root.tree):
        what = (
            f"{path}: .gitattributes asks for filters ({', '.join(filters)}), which are not run: candidates are checked"
        )
        job.say(what := f"{what} out and measured with the files as git stores them")
        append_lines(job.log, f"{what}\n".encode(errors="replace"))
    save(job.writes["root"][0], {"repo": path, "commit": root.commit, "tree": root.tree})
    write(job.writes["tree"][0], f"{root.tree}\n")


def start_stage(job: Job) -> None:
    """Make the root a node, once its baseline is complete."""
    params, root = job.target.params, load(job.reads["root"][0])
    sheet = sheet_of(params, read_bytes(job.reads["csv"][0]))
    if defects := check_rows(sheet, expected_by_sheet(params, sheet)).defects:
        log = RunLayout(job.target.run).of_node(ROOT, "sweep.log")
        raise baseline_failure(job.target.run, "sweep", f"is not complete: {defects_text(defects)} (log: {log})")
    lacking = shortages(ledger_of(params), Ceiling(**params["ceiling"]))
    closed = f"{STOPPED_PREFIX}{STOP_REASONS[lacking[0]]}" if lacking else ""
    code = {"root": root["commit"], "commit": root["commit"], "tree": root["tree"], "chain": []}
    save(job.writes["code"][0], code)
    save(job.writes["context"][0], _bare_context(closed, root["tree"]))
    save(job.writes["origin"][0], Origin("", closed, None, None, []))
    save(job.writes["node"][0], _place_node(RunRepo(job.target.run), ROOT, code))


def _bare_context(closed: str, tree: str) -> Record:
    return {"closed": closed, "tree": tree, "changes": {}, "step": [], "tried": []}


def node_stage(job: Job) -> None:
    place, code = position(job.target.name), load(job.reads["code"][0])
    assert isinstance(place, NodePlace)
    if "empty" not in code:
        repo = RunRepo(job.target.run)
        repo.chain(code)
        code = _place_node(repo, place, code)
    save(job.writes["node"][0], code)


def _place_node(repo: RunRepo, place: NodePlace, code: Mapping[str, Any]) -> Record:
    """Put a node into git: a ref that keeps its commit, and a worktree to look at."""
    pin(repo.path, repo.at.run, str(place), code["commit"])
    repo.nodes.add(str(place), code["commit"])
    return {"commit": code["commit"], "tree": code["tree"], "worktree": f"{NODES}/{place}"}


def given_stage(job: Job) -> None:
    params, path = job.target.params, input_path(job, "given")
    content, tree = read_bytes(path), read_text(input_path(job, "tree")).strip()
    if why := baseline_mistake(params, path, content):
        raise StageFailed(why, 2)
    write(job.writes["csv"][0], content)
    save(job.writes["sweep"][0], sweep_record(tree, "", content, 0)._replace(given=True))
    save(job.writes["cost"][0], CommandCost(0.0, 0, 0))
    write(job.writes["log"][0], NOT_MEASURED)


def baseline_mistake(params: Params, path: str, content: bytes) -> str:
    """The first thing that is wrong with given results, with its line; empty when they are complete."""
    sheet = sheet_of(params, content)
    defects = check_rows(sheet, expected_by_sheet(params, sheet)).defects
    if not defects:
        return ""
    line = _line_of(content.decode(errors="replace"), (params["blocks"] or {"column": ""})["column"], defects[0])
    right = "baseline_csv: give a row that is ok for each config (and block) that the sweep measures on the start"
    return f"{path}:{line}: {defects_text(defects)}; {right}"


def _line_of(text: str, block: str, defect: Defect) -> int:
    """The line of a defect: the one that it names, or the last row of its config and block, or the header."""
    if named := _LINE.search(defect.what):
        return int(named[1])
    rows = [(line, [*map(str.strip, cells)]) for line, cells in csv_rows(csv_lines(text)) if any(map(str.strip, cells))]
    if not rows or defect.config is None:
        return rows[0][0] if rows else 1
    header = rows[0][1]
    strange = _STRANGE_BLOCK.match(defect.what)
    name = strange[1] if strange else defect.block
    wanted = {"config_id": str(defect.config)} | ({block: name} if name else {})
    found = [line for line, cells in rows[1:] if wanted.items() <= dict(zip(header, cells, strict=False)).items()]
    return found[-1] if found else rows[0][0]
