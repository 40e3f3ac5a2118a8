"""The stage that ends a depth: settles what it cost, decides on every evaluation, and makes the next nodes' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.edge.job import Papers
from pipeline.edge.roles.calls import calls_in
from pipeline.tree.assigning import spent_of
from pipeline.tree.beam import Decision, Progress, Promoted, Promotion, promote, stop_reason
from pipeline.tree.bench import Bench, Chains
from pipeline.tree.budget import Ceiling, Ledger, Limits, Spent, settle, short
from pipeline.tree.gate import FAILED
from pipeline.tree.ideation import spent
from pipeline.tree.next_nodes import STOPPED, Depth, NextNodes
from pipeline.tree.records import Record, load, save
from pipeline.tree.slots import Slot, slots_of
from pipeline.tree.verdicts import evaluation_of


def end_depth(job: Papers, opened: Callable[[str], Chains] = Bench) -> None:
    """`opened`: the repository of a run, to look into."""
    params = job.target.params
    depth = _depth(job)
    slots = [evaluation.slot for evaluation in depth.evaluations]
    promotion = promote(depth.evaluations, params["beam_width"], slots)
    stop = _stop(params, depth, promotion)
    save(job.writes["promoted"][0], _promoted(depth, promotion, stop))
    NextNodes(job, depth, promotion, stop, opened).write()


def _depth(job: Papers) -> Depth:
    params = job.target.params
    assigned = load(job.reads["assigned"][0])
    origins = [load(path) for path in job.reads["node_origin"]]
    slots = slots_of(params["depth"], len(origins), params["ideas_per_node"])
    summaries = zip(slots, job.reads["summary"], strict=True)
    tasks = dict(zip(slots, (load(path) for path in job.reads["task"]), strict=True))
    return Depth(
        params["depth"],
        assigned,
        origins,
        [load(path) for path in job.reads["node_context"]],
        [evaluation_of(slot, load(path)) for slot, path in summaries],
        {slot: task["idea"] for slot, task in tasks.items()},
        _settled(job, assigned, slots),
    )


def _settled(job: Papers, assigned: Record, slots: Sequence[Slot]) -> Ledger:
    params = job.target.params
    ceiling = Ceiling(**params["ceiling"])
    reserved = dict.fromkeys(assigned["reserved"], ceiling)
    ledger = Ledger(Limits(**params["budget"]), reserved, spent_of(assigned["spent"]))
    for n, slot in enumerate(slots):
        if str(slot) in reserved:
            ledger = settle(ledger, str(slot), _cost(job, n))
    return ledger


def _cost(job: Papers, n: int) -> Spent:
    calls = spent([*calls_in(job.reads["calls"][n])])
    commands = [load(path) for port in ("sweep", "test", "checks") for path in job.reads[port][n : n + 1]]
    seconds = calls["seconds"] + sum(cost["seconds"] for cost in commands)
    return Spent(1, calls["usd"], calls["tokens"], round(seconds, 3))


def _stop(params: Mapping[str, Any], depth: Depth, promotion: Promotion) -> str:
    """A search that has stopped stays so, for the reason that it had."""
    carried = {node["closed"] for node in depth.nodes if node["closed"].startswith(STOPPED)}
    if carried:
        return str(min(carried)).removeprefix(STOPPED)
    return stop_reason(
        Progress(
            depth.depth,
            params["max_depth"],
            promotion.empty,
            any(evaluation.status == FAILED for evaluation in depth.evaluations),
            params["strict_fail"],
            params["stop_on_empty_frontier"],
            tuple(depth.assigned["cut"]),
            short(depth.ledger, Ceiling(**params["ceiling"])),
        )
    )


def _promoted(depth: Depth, promotion: Promotion, stop: str) -> Record:
    return {
        "depth": depth.depth,
        "stop_reason": stop or None,
        "decisions": {str(decision.slot): _decided(decision) for decision in promotion.decisions},
        "beam": {str(each.place): _beam(each) for each in promotion.slots},
        "spent": {name: [*amounts] for name, amounts in depth.ledger.spent.items()},
        "tried": depth.assigned["tried"],
    }


def _decided(decision: Decision) -> Record:
    to = str(decision.promoted_to) if decision.promoted_to else None
    return {"promoted_to_node_id": to, "failed_check": decision.failed, "why": decision.why}


def _beam(each: Promoted) -> Record:
    return {"promoted_from_eval_id": str(each.source) if each.source else None, "commit": each.commit, "why": each.why}
