"""The stages that decide: assign ideas to slots, end a depth; DECIDERS, the table of all stages that decide.

They make records from records, start nothing and ask nobody, so that they can be replayed at any time.  Raise the code
in DECIDERS when one would decide otherwise on the same inputs.  A search that has stopped stays stopped, for the same
reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.machine.job import JobFiles, Stage
from pipeline.models.calls import read_calls
from pipeline.tree.rules.assignment import NO_IDEA, Assignment, FrontierPlace, PastIdea, SlotAssignment, assign_ideas
from pipeline.tree.rules.beam import FAILED, BeamDecision, BeamPlace, DepthProgress, Promotion, promote, stop_reason
from pipeline.tree.rules.budget import BudgetLedger, BudgetLimits, Ceiling, Spending, settle_spending, shortages
from pipeline.tree.rules.positions import EvalSlot, NodePlace, depth_of, parse_place, parse_slot, slots_of
from pipeline.tree.run.ideas import cost_of_calls
from pipeline.tree.run.measure import gather_stage
from pipeline.tree.run.nodes import STOPPED_PREFIX, Depth, NextNodes
from pipeline.tree.run.records import (
    CommandCost,
    Origin,
    Record,
    SlotTask,
    evaluation_of,
    load,
    load_as,
    read_text,
    save,
)
from pipeline.tree.run.run_repo import NodeCommits, RunRepo
from pipeline.tree.run.verdicts import cascade_stage, join_stage, pair_stage, score_stage, settle_stage, weigh_stage


def assign_stage(job: JobFiles) -> None:
    params = job.target.params
    depth = depth_of(job.target.name)
    origins = [load_as(Origin, path) for path in job.reads["origins"]]
    slots = slots_of(depth, len(origins), params["ideas_per_node"])
    before = load(job.reads["before"][0]) if job.reads["before"] else {"spent": {}, "tried": []}
    costs = dict(zip(slots, map(load, job.reads["costs"]), strict=False))  # recorded ideas cost nothing
    spent = spending_of(before["spent"])
    spent |= {f"{s}.idea": Spending(0, cost["usd"], cost["tokens"], cost["seconds"]) for s, cost in costs.items()}
    tried = [PastIdea(parse_slot(slot), identity) for slot, identity in before["tried"]]
    assignment = assign_ideas(
        [_frontier_place(NodePlace(depth, n), origin) for n, origin in enumerate(origins)],
        _texts_by_place(slots, [read_text(path) for path in job.reads["ideas"]]),
        BudgetLedger(BudgetLimits(**params["budget"]), {}, spent),
        params["dedupe_scope"],
        ideas_per_node=params["ideas_per_node"],
        ceiling=Ceiling(**params["ceiling"]),
        tried=tried,
    )
    reasons = {slot: record["why"] for slot, record in costs.items()}
    tasks = tuple(_with_reason(task, reasons.get(task.slot, "")) for task in assignment.tasks)
    for task, path in zip(tasks, job.writes["tasks"], strict=True):
        save(path, SlotTask(task.idea, task.empty, task.why))
    save(job.writes["assigned"][0], _assigned_record(assignment._replace(tasks=tasks), tried))


def _frontier_place(place: NodePlace, origin: Origin) -> FrontierPlace:
    """A place of the frontier: without a commit when it is empty, closed when the search stops at it."""
    ancestors = tuple(map(parse_place, origin.ancestors))
    return FrontierPlace(place, "" if origin.empty else "there", ancestors, origin.empty or origin.closed)


def _texts_by_place(slots: tuple[EvalSlot, ...], texts: list[str]) -> dict[NodePlace, list[str]]:
    found: dict[NodePlace, list[str]] = {}
    for slot, text in zip(slots, texts, strict=True):
        found.setdefault(slot.place, []).append(text)
    return found


def spending_of(record: Mapping[str, Any]) -> dict[str, Spending]:
    return {name: Spending(*amounts) for name, amounts in record.items()}


def _with_reason(task: SlotAssignment, why: str) -> SlotAssignment:
    """Add the reason for which the role gave no idea."""
    return task._replace(why=f"{task.why}: {why}") if task.empty == NO_IDEA and why else task


def _assigned_record(assignment: Assignment, tried: list[PastIdea]) -> Record:
    """The record of an assignment, for people and for the next depth."""
    return {
        "tasks": {str(task.slot): _task_entry(task) for task in assignment.tasks},
        "cut": [*assignment.cut],
        "spent": {name: [*amounts] for name, amounts in assignment.ledger.spent.items()},
        "reserved": sorted(assignment.ledger.reserved),
        "tried": [[str(each.slot), each.identity] for each in (*tried, *assignment.past_ideas)],
    }


def _task_entry(task: SlotAssignment) -> Record:
    first = str(task.duplicate_of) if task.duplicate_of else None
    return {"empty": task.empty, "why": task.why, "identity": task.identity, "duplicate_of": first}


def promote_stage(job: JobFiles, opened: Callable[[str], NodeCommits] = RunRepo) -> None:
    """End a depth: promote, decide whether to stop, write the next nodes; `opened` gives the repository of a run."""
    params = job.target.params
    depth = _depth(job)
    slots = [evaluation.slot for evaluation in depth.evaluations]
    promotion = promote(depth.evaluations, params["beam_width"], slots)
    stop = _stop(params, depth, promotion)
    save(job.writes["promoted"][0], _promoted_record(depth, promotion, stop))
    NextNodes(job, depth, promotion, stop, opened).write()


def _depth(job: JobFiles) -> Depth:
    params = job.target.params
    assigned = load(job.reads["assigned"][0])
    origins = [load_as(Origin, path) for path in job.reads["node_origin"]]
    slots = slots_of(params["depth"], len(origins), params["ideas_per_node"])
    summaries = zip(slots, job.reads["summary"], strict=True)
    tasks = dict(zip(slots, (load_as(SlotTask, path) for path in job.reads["task"]), strict=True))
    return Depth(
        params["depth"],
        assigned,
        origins,
        [load(path) for path in job.reads["node_context"]],
        [evaluation_of(slot, load(path)) for slot, path in summaries],
        {slot: task.idea for slot, task in tasks.items()},
        _settled_ledger(job, assigned, slots),
    )


def _settled_ledger(job: JobFiles, assigned: Record, slots: Sequence[EvalSlot]) -> BudgetLedger:
    params = job.target.params
    ceiling = Ceiling(**params["ceiling"])
    reserved = dict.fromkeys(assigned["reserved"], ceiling)
    ledger = BudgetLedger(BudgetLimits(**params["budget"]), reserved, spending_of(assigned["spent"]))
    for n, slot in enumerate(slots):
        if str(slot) in reserved:
            ledger = settle_spending(ledger, str(slot), _evaluation_cost(job, n))
    return ledger


def _evaluation_cost(job: JobFiles, n: int) -> Spending:
    calls = cost_of_calls([*read_calls(job.reads["calls"][n])])
    paths = [path for port in ("sweep", "test", "checks") for path in job.reads[port][n : n + 1]]
    seconds = calls["seconds"] + sum(load_as(CommandCost, path).seconds for path in paths)
    return Spending(1, calls["usd"], calls["tokens"], round(seconds, 3))


def _stop(params: Mapping[str, Any], depth: Depth, promotion: Promotion) -> str:
    """The reason to stop, if any; a search that has stopped keeps its reason."""
    carried = {node.closed for node in depth.nodes if node.closed.startswith(STOPPED_PREFIX)}
    if carried:
        return min(carried).removeprefix(STOPPED_PREFIX)
    return stop_reason(
        DepthProgress(
            depth.depth,
            params["max_depth"],
            promotion.empty,
            any(evaluation.status == FAILED for evaluation in depth.evaluations),
            params["strict_fail"],
            params["stop_on_empty_frontier"],
            tuple(depth.assigned["cut"]),
            shortages(depth.ledger, Ceiling(**params["ceiling"])),
        )
    )


def _promoted_record(depth: Depth, promotion: Promotion, stop: str) -> Record:
    return {
        "depth": depth.depth,
        "stop_reason": stop or None,
        "decisions": {str(decision.slot): _decision_entry(decision) for decision in promotion.decisions},
        "beam": {str(each.place): _beam_entry(each) for each in promotion.slots},
        "spent": {name: [*amounts] for name, amounts in depth.ledger.spent.items()},
        "tried": depth.assigned["tried"],
    }


def _decision_entry(decision: BeamDecision) -> Record:
    to = str(decision.promoted_to) if decision.promoted_to else None
    return {"promoted_to_node_id": to, "failed_check": decision.failed, "why": decision.why}


def _beam_entry(each: BeamPlace) -> Record:
    return {"promoted_from_eval_id": str(each.source) if each.source else None, "commit": each.commit, "why": each.why}


OpenRepo = Callable[[str], NodeCommits]


class Decider(NamedTuple):
    """A stage that decides: its code, and `do`, which gets the function that opens a run's repository."""

    code: str
    do: Callable[[JobFiles, OpenRepo], None]

    def stage(self) -> Stage:
        return Stage(self.code, lambda job: self.do(job, RunRepo))


# Deciders by the name of their stage; within a depth they run in this order.
DECIDERS = {
    "assign": Decider("tree.assign/1", lambda job, _: assign_stage(job)),
    "gather": Decider("tree.gather/2", lambda job, _: gather_stage(job)),
    "pair": Decider("tree.pair/1", lambda job, _: pair_stage(job)),
    "cascade": Decider("tree.cascade/1", lambda job, _: cascade_stage(job)),
    "join": Decider("tree.join/1", lambda job, _: join_stage(job)),
    "weigh": Decider("tree.weigh/1", lambda job, _: weigh_stage(job)),
    "settle": Decider("tree.settle/1", lambda job, _: settle_stage(job)),
    "score": Decider("tree.score/2", lambda job, _: score_stage(job)),
    "promote": Decider("tree.promote/1", promote_stage),
}
