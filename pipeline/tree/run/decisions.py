"""The stages that decide: assign ideas to slots, admit them, end a depth; DECIDERS, the table of all these stages.

They make records from records, start nothing and ask nobody, so that they can be replayed at any time.  Raise the code
in DECIDERS when one would decide otherwise on the same inputs.  A search that has stopped stays stopped, for the same
reason.

Slots are admitted by turns, where the money does not suffice for all of them at their ceilings.

States of a slot of a depth:

    proposed -> admitted   its turn has come, all before it were paid, and its ceiling fits into what is left
    proposed -> refused    its turn has come, and its ceiling does not fit; nor does that of any slot after it
    proposed -> ahead      it is one of the first of its wave that fit at their ceilings: it is asked for at once
    ahead    -> admitted   its turn has come: what was paid for is always finished

A purse is what all slots before one have cost.  Only costs and the order of the slots decide, so the same slots are
admitted however many run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.machine.job import JobFiles, Stage
from pipeline.models.calls import cost_of_calls, read_calls
from pipeline.tree.rules.assignment import NO_BUDGET, NO_IDEA, FrontierPlace, PastIdea, assign_ideas
from pipeline.tree.rules.beam import FAILED, DepthProgress, Promotion, promote, stop_reason
from pipeline.tree.rules.budget import (
    BudgetLedger,
    BudgetLimits,
    Ceiling,
    Spending,
    affordable_count,
    charged_spending,
    ledger_of,
    settle_spending,
    shortage_text,
    shortages,
    total_spending,
)
from pipeline.tree.rules.positions import NodePlace, depth_of, parse_place, parse_slot, slots_of
from pipeline.tree.run.measure import gather_stage
from pipeline.tree.run.nodes import STOPPED_PREFIX, Depth, write_next_nodes
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
from pipeline.tree.run.run_repo import OpenNode, open_restored
from pipeline.tree.run.verdicts import cascade_stage, join_stage, pair_stage, score_stage, settle_stage, weigh_stage
from pipeline.tree.spec.model import Params

NOT_YET = SlotTask("", "not yet", "it is asked for in its turn")


def assign_stage(job: JobFiles) -> None:
    params = job.target.params
    depth = depth_of(job.target.name)
    origins = [load_as(Origin, path) for path in job.reads["origins"]]
    slots = slots_of(depth, len(origins), params["ideas_per_node"])
    before = load(job.reads["before"][0]) if job.reads["before"] else {"spent": {}, "tried": []}
    costs = dict(zip(slots, map(load, job.reads["costs"]), strict=False))  # recorded ideas cost nothing
    asked = {f"{slot}.idea": spending_of(0, cost).as_list for slot, cost in costs.items()}
    ledger = ledger_of(params, spent={**before["spent"], **asked})
    if params.get("turns"):  # money is looked at in `admit_stage`, slot by slot
        ledger = ledger._replace(limits=ledger.limits._replace(usd=None, tokens=None))
    texts: dict[NodePlace, list[str]] = {}
    for slot, path in zip(slots, job.reads["ideas"], strict=True):
        texts.setdefault(slot.place, []).append(read_text(path))
    assignment = assign_ideas(
        [
            FrontierPlace(NodePlace(depth, n), tuple(map(parse_place, origin.ancestors)), origin.empty or origin.closed)
            for n, origin in enumerate(origins)
        ],
        texts,
        ledger,
        params["dedupe_scope"],
        ideas_per_node=params["ideas_per_node"],
        ceiling=Ceiling(**params["ceiling"]),
        tried=[PastIdea(parse_slot(slot), *idea) for slot, *idea in before["tried"]],
        similar=params.get("similar"),
    )
    tasks: dict[str, Any] = {}
    for task, path in zip(assignment.tasks, job.writes["tasks"], strict=True):
        why, unasked = task.why, costs.get(task.slot, {"why": ""})["why"]
        if task.empty == NO_IDEA and unasked:  # the reason for which the role gave none
            why = f"{why}: {unasked}"
        save(path, SlotTask(task.idea, task.empty, why))
        first = str(task.duplicate_of) if task.duplicate_of else None
        tasks[str(task.slot)] = {"empty": task.empty, "why": why, "identity": task.identity, "duplicate_of": first}
    width = 2 if "similar" in params else 1  # texts only where they are compared
    ledger, tried = assignment.ledger, [[str(each.slot), *each[1 : 1 + width]] for each in assignment.past_ideas]
    assigned = {"tasks": tasks, "cut": assignment.cut, "spent": spent_record(ledger)}
    assigned |= {"reserved": sorted(ledger.reserved), "tried": before["tried"] + tried}
    save(job.writes["assigned"][0], assigned | ({"turns": True} if params.get("turns") else {}))


def promote_stage(job: JobFiles, open_node: OpenNode) -> None:
    """End a depth: promote, decide whether to stop, write the next nodes."""
    params = job.target.params
    depth = _depth(job)
    promotion = promote(depth.evaluations, params["beam_width"], [*depth.ideas])
    stop = _stop(params, depth, promotion)
    decisions, beam = {}, {}
    for slot, to, failed, why in promotion.decisions:
        decisions[str(slot)] = {"promoted_to_node_id": to and str(to), "failed_check": failed, "why": why}
    for place, source, commit, why in promotion.slots:
        beam[str(place)] = {"promoted_from_eval_id": source and str(source), "commit": commit, "why": why}
    record = {"depth": depth.depth, "stop_reason": stop or None, "decisions": decisions, "beam": beam}
    save(job.writes["promoted"][0], {**record, "spent": spent_record(depth.ledger), "tried": depth.assigned["tried"]})
    write_next_nodes(job, depth, promotion, stop, open_node)


def _depth(job: JobFiles) -> Depth:
    params = job.target.params
    assigned = load(job.reads["assigned"][0])
    origins = [load_as(Origin, path) for path in job.reads["node_origin"]]
    slots = slots_of(params["depth"], len(origins), params["ideas_per_node"])
    tasks = {slot: load_as(SlotTask, path) for slot, path in zip(slots, job.reads["task"], strict=True)}
    if refused := {str(slot): task.lacking for slot, task in tasks.items() if task.lacking}:
        assigned = without_refused(assigned, refused)
    ledger = ledger_of(params, assigned["reserved"], assigned["spent"])
    for n, slot in enumerate(slots):
        if str(slot) in ledger.reserved:
            ledger = settle_spending(ledger, str(slot), _evaluation_cost(job, n))
    return Depth(
        params["depth"],
        assigned,
        origins,
        [load(path) for path in job.reads["node_context"]],
        [evaluation_of(load(path), slot) for slot, path in zip(slots, job.reads["summary"], strict=True)],
        {slot: task.idea for slot, task in tasks.items()},
        ledger,
    )


def _evaluation_cost(job: JobFiles, n: int) -> Spending:
    calls = cost_of_calls([*read_calls(job.reads["calls"][n])])
    paths = [path for port in ("sweep", "test", "checks") for path in job.reads[port][n : n + 1]]
    seconds = calls["seconds"] + sum(load_as(CommandCost, path).seconds for path in paths)
    return spending_of(1, {**calls, "seconds": round(seconds, 3)})


def _stop(params: Params, depth: Depth, promotion: Promotion) -> str:
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


class Decider(NamedTuple):
    """A stage that decides: its code, and `do`, which gets the function that opens a node."""

    code: str
    do: Callable[[JobFiles, OpenNode], None]

    def stage(self) -> Stage:
        return Stage(self.code, lambda job: self.do(job, open_restored))


# Deciders by the name of their stage; within a depth they run in this order.
DECIDERS = {
    "assign": Decider("tree.assign/1", lambda job, _: assign_stage(job)),
    "wave": Decider("tree.wave/1", lambda job, _: wave_stage(job)),
    "admit": Decider("tree.admit/1", lambda job, _: admit_stage(job)),
    "gather": Decider("tree.gather/2", lambda job, _: gather_stage(job)),
    "pair": Decider("tree.pair/1", lambda job, _: pair_stage(job)),
    "cascade": Decider("tree.cascade/1", lambda job, _: cascade_stage(job)),
    "join": Decider("tree.join/1", lambda job, _: join_stage(job)),
    "weigh": Decider("tree.weigh/1", lambda job, _: weigh_stage(job)),
    "settle": Decider("tree.settle/1", lambda job, _: settle_stage(job)),
    "score": Decider("tree.score/2", lambda job, _: score_stage(job)),
    "promote": Decider("tree.promote/1", promote_stage),
}


def spending_of(evals: int, cost: Mapping[str, Any]) -> Spending:
    """The spending of a record of costs."""
    return Spending(evals, cost["usd"], cost["tokens"], cost["seconds"], cost.get("unknown_calls", 0))


def spent_record(ledger: BudgetLedger) -> dict[str, list[float]]:
    return {name: spent.as_list for name, spent in ledger.spent.items()}


def without_refused(assigned: Record, refused: Mapping[str, Sequence[str]]) -> Record:
    """The assignments of a depth, without the slots that were refused in their turn."""
    cut = dict.fromkeys([*assigned["cut"], *(name for lacking in refused.values() for name in lacking)])
    reserved = [slot for slot in assigned["reserved"] if slot not in refused]
    tried = [each for each in assigned["tried"] if each[0] not in refused]
    return {**assigned, "cut": [*cut], "reserved": reserved, "tried": tried}


def admit_stage(job: JobFiles) -> None:
    """Admit a slot or refuse it, once all before it have been paid."""
    task, purse = load_as(SlotTask, job.reads["proposed"][0]), _purse(job)
    is_ahead = any(not load_as(SlotTask, path).empty for path in job.reads["ahead"])
    lacking = () if task.empty or is_ahead else shortages(purse, purse.ceiling)
    if lacking:
        short = ", ".join(shortage_text(name, purse.limits) for name in lacking)
        task = SlotTask("", NO_BUDGET, f"not enough of the budget is left: {short}", lacking)
    save(job.writes["task"][0], task)
    (total,) = purse.spent.values()
    save(job.writes["purse"][0], {"usd": total.usd, "tokens": total.tokens, "unknown_calls": total.unknown_calls})


def wave_stage(job: JobFiles) -> None:
    """Let the first slots of a wave be asked for at once, as many as fit at their ceilings."""
    tasks, purse = [load_as(SlotTask, path) for path in job.reads["proposed"]], _purse(job)
    left = affordable_count(purse, purse.ceiling, sum(not task.empty for task in tasks))[0]
    for task, path in zip(tasks, job.writes["ahead"], strict=True):
        save(path, task if left and not task.empty else NOT_YET)
        left -= bool(left and not task.empty)


def _purse(job: JobFiles) -> BudgetLedger:
    """The cost of all slots before, with the ideas and the depths above, as one; in USD and tokens alone.

    The charge for an unknown price is part of it, so that it is charged for each slot.  Without a ceiling it is all
    that there is: as one, nothing in it says what a call costs."""
    params = job.target.params
    ceiling = Ceiling(**params["ceiling"])
    if job.reads["purse"]:
        before = load(job.reads["purse"][0])
        calls = cost_of_calls([*read_calls(job.reads["calls"][0])])
        each = [spending_of(0, {**before, "seconds": 0.0}), _charged(spending_of(0, calls), ceiling)]
    else:
        spent = load(job.reads["assigned"][0])["spent"].values()
        each = [_charged(Spending(*amounts), ceiling) for amounts in spent]
    limits = BudgetLimits(**params["budget"])._replace(evals=None, seconds=None)
    return BudgetLedger(limits, spent={"before": total_spending(each)}, ceiling=ceiling)


def _charged(spent: Spending, ceiling: Ceiling) -> Spending:
    """The charge where there is a ceiling; else the call stays of unknown price."""
    if ceiling.usd is None:
        return spent
    return charged_spending(spent, ceiling)._replace(unknown_calls=0)
