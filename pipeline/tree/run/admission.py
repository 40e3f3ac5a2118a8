"""Admission of slots by turns, where the money does not suffice for all of them at their ceilings.

States of a slot of a depth:

    proposed -> admitted   its turn has come, all before it were paid, and its ceiling fits into what is left
    proposed -> refused    its turn has come, and its ceiling does not fit; nor does that of any slot after it
    proposed -> ahead      it is one of the first of its wave that fit at their ceilings: it is asked for at once
    ahead    -> admitted   its turn has come: what was paid for is always finished

A purse is what all slots before one have cost.  Only costs and the order of the slots decide, so the same slots are
admitted however many run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.machine.job import JobFiles
from pipeline.models.calls import cost_of_calls, read_calls
from pipeline.tree.rules.assignment import NO_BUDGET
from pipeline.tree.rules.budget import (
    BudgetLedger,
    BudgetLimits,
    Ceiling,
    Spending,
    affordable_count,
    charged_spending,
    shortage_text,
    shortages,
    total_spending,
)
from pipeline.tree.run.records import Record, SlotTask, load, load_as, save

NOT_YET = SlotTask("", "not yet", "it is asked for in its turn")


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
    total = total_spending(purse.spent.values())
    save(job.writes["purse"][0], {"usd": total.usd, "tokens": total.tokens, "unknown_calls": total.unknown_calls})


def wave_stage(job: JobFiles) -> None:
    """Let the first slots of a wave be asked for at once, as many as fit at their ceilings."""
    tasks, purse = [load_as(SlotTask, path) for path in job.reads["proposed"]], _purse(job)
    left = affordable_count(purse, purse.ceiling, sum(not task.empty for task in tasks))[0]
    for task, path in zip(tasks, job.writes["ahead"], strict=True):
        save(path, task if left and not task.empty else NOT_YET)
        left -= bool(left and not task.empty)


def _purse(job: JobFiles) -> BudgetLedger:
    """The cost of all slots before, with the ideas and the depths above; in USD and tokens alone.

    The charge for an unknown price is part of it, so that it is charged for each slot."""
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
    return BudgetLedger(limits, spent={str(n): spending for n, spending in enumerate(each)}, ceiling=ceiling)


def _charged(spent: Spending, ceiling: Ceiling) -> Spending:
    """The charge where there is a ceiling; else the call stays of unknown price."""
    if ceiling.usd is None:
        return spent
    return charged_spending(spent, ceiling)._replace(unknown_calls=0)
