"""Stages for nodes: the root from the user's files, its baseline checked; the others from what was promoted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.edge.git.refs import pin
from pipeline.edge.git.repository import root_of
from pipeline.edge.job import Job
from pipeline.tree.bench import Bench
from pipeline.tree.budget import REACHED, Ceiling, Ledger, Limits, short
from pipeline.tree.judging import sheet, wanted_of
from pipeline.tree.layout import NODES, Layout
from pipeline.tree.next_nodes import STOPPED
from pipeline.tree.positions import position
from pipeline.tree.records import Record, load, read_bytes, save, write
from pipeline.tree.results import complete, told
from pipeline.tree.slots import ROOT, Place
from pipeline.tree.sweeping import no_baseline


def root(job: Job) -> None:
    path = job.target.params["repo"]
    found = root_of(path, job.target.run)
    save(job.writes["root"][0], {"repo": path, "commit": found.commit, "tree": found.tree})
    write(job.writes["tree"][0], f"{found.tree}\n")


def start(job: Job) -> None:
    """The root as a node.  A search whose baseline is not complete could promote nothing."""
    _check_baseline(job)
    params, found = job.target.params, load(job.reads["root"][0])
    lacking = short(Ledger(Limits(**params["budget"])), Ceiling(**params["ceiling"]))
    closed = f"{STOPPED}{REACHED[lacking[0]]}" if lacking else ""
    save(job.writes["code"][0], {"root": found["commit"], **_state(found), "chain": []})
    save(job.writes["context"][0], {"closed": closed, "tree": found["tree"], "changes": {}, "step": [], "tried": []})
    save(job.writes["origin"][0], _first_origin(closed))
    save(job.writes["node"][0], _placed(Bench(job.target.run), ROOT, _state(found)))


def _first_origin(closed: str) -> Record:
    return {"empty": "", "closed": closed, "from_eval": None, "parent_node": None, "ancestors": []}


def _check_baseline(job: Job) -> None:
    params, csv = job.target.params, read_bytes(job.reads["csv"][0])
    found = complete(sheet(params, csv), wanted_of(params, csv))
    if found.defects:
        log = Layout(job.target.run).of_node(ROOT, "sweep.log")
        raise no_baseline(job.target.run, "sweep", f"is not complete: {told(found.defects)} (log: {log})")


def node(job: Job) -> None:
    place = position(job.target.name)
    assert isinstance(place, Place)
    code = load(job.reads["code"][0])
    if "empty" in code:
        save(job.writes["node"][0], code)
        return
    bench = Bench(job.target.run)
    bench.chain(code)
    save(job.writes["node"][0], _placed(bench, place, _state(code)))


def _state(record: Mapping[str, Any]) -> Record:
    return {"commit": record["commit"], "tree": record["tree"]}


def _placed(bench: Bench, place: Place, state: Record) -> Record:
    """With a ref that keeps its commit, and a worktree to look at."""
    pin(bench.repo, bench.at.run, str(place), state["commit"])
    bench.nodes.add(str(place), state["commit"])
    return {**state, "worktree": f"{NODES}/{place}"}
