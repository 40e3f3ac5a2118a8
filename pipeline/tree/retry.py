"""Retry of evaluations whose candidate failed, by choice: which they are, what is forgotten, what that costs.

Forgotten is what was paid for a slot, from its implementation on: its idea stays.  All that is decided by it follows,
because it reads other results then."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.core.graph import Target
from pipeline.core.text import duration, join_names, plural
from pipeline.errors import SpecError
from pipeline.models.calls import read_calls
from pipeline.tree.accounts import scored_slots, slot_by_name
from pipeline.tree.describe import most_spent
from pipeline.tree.report.markdown import clip_text
from pipeline.tree.report.money import fold_money, format_bill
from pipeline.tree.rules.beam import EMPTY_FRONTIER, FAILED, STRICT_FAILURE
from pipeline.tree.rules.positions import CANDIDATE_STAGES, EvalSlot, RunLayout, find_slot, own_name
from pipeline.tree.run.records import CommandCost, Record, load_as, load_if_intact
from pipeline.tree.targets.builder import planned_config

# Commands whose time was paid, by the files with their costs.
_COMMANDS = ("test", "checks", "sweep")


class RetryPlan(NamedTuple):
    """Targets to be forgotten, the slots they are of, and lines about what is done again and what it cost last time."""

    forget: tuple[str, ...]
    slots: tuple[str, ...]
    lines: tuple[str, ...]


def plan_retry(run: str, targets: Sequence[Target], words: Sequence[str]) -> RetryPlan:
    """Plan a retry of the evaluations that `words` name, or of all that failed.  SpecError for one that did not."""
    named = [slot_by_name(run, targets, word if ":" in word else f"{run}:{word}") for word in words]
    for slot in named:
        if why := _refusal(run, slot):
            raise SpecError(f"{run}:{slot} {why}")
    failed = [slot for slot in scored_slots(targets) if not _refusal(run, slot)]
    slots = [slot for slot in failed if slot in named] if named else failed
    forget = [t.name for t in targets if t.stage in CANDIDATE_STAGES and find_slot(own_name(t.name)) in slots]
    budget = planned_config(targets)["budget"]["usd"]
    lines = (*_lines(run, slots), *(_after_lines(run, slots, targets) if slots else ()))
    return RetryPlan(
        tuple(forget), tuple(map(str, slots)), (*lines, *(_budget_lines(run, budget) if slots and budget else ()))
    )


def _summary(run: str, slot: EvalSlot) -> Record | None:
    return load_if_intact(RunLayout(run).of_eval(slot, "summary.json"))


def _refusal(run: str, slot: EvalSlot) -> str:
    """Reason why a slot is not done again; empty where its candidate failed."""
    summary = _summary(run, slot)
    if summary is None:
        return f"has not ended yet; `coppice {run}` builds it"
    status: str = summary["status"]
    return "" if status == FAILED else f"has not failed, it is {status}; `coppice forget` repeats anything"


def _lines(run: str, slots: Sequence[EvalSlot]) -> Iterator[str]:
    if not slots:
        yield f"{run}: no evaluation has failed: nothing to retry"
        return
    yield f"{run}: {plural(len(slots), 'evaluation')} failed and {'is' if len(slots) == 1 else 'are'} done again"
    for slot in slots:
        yield f"  {slot}: {clip_text((_summary(run, slot) or {'why': ''})['why'], 100)}"
    yield f"  about {_past_cost(run, slots).text}, by what they took the last time; their ideas stay"


def _after_lines(run: str, slots: Sequence[EvalSlot], targets: Sequence[Target]) -> Iterator[str]:
    """Lines on what follows from the results, for all below the first of their depths."""
    first = min(slot.depth for slot in slots)
    below = [slot for slot in scored_slots(targets) if slot.depth > first]
    later = _past_cost(run, below, with_ideas=True)
    if (stopped := _stopped_depth(run, first, below)) is not None:
        new = sum(slot.depth > stopped for slot in below)
        more = plural(new, "evaluation")
        yield f"  the search had stopped after d{stopped}: it may go on now, by at most {more} more:"
        yield from (f"    {line}" for line in most_spent(targets, new))
    if not any(later):
        yield f"  d{first} is decided anew with the results"
        return
    where = f"d{first + 1} and below"
    if told := _told_roles(targets):
        asked = f"the {'role' if len(told) == 1 else 'roles'} {join_names(told)} must know how each earlier idea ended"
        yield f"  d{first} is decided anew with the results; in {where} {asked}: where one ends otherwise than before,"
        yield f"  they are asked anew there, though the same be promoted: about {later.text} more"
    else:
        yield f"  d{first} is decided anew with the results; where others are promoted, {where} is done anew:"
        yield f"  about {later.text} more"
    yield f"  in all about {_past_cost(run, slots).plus(later).text}, by what they took the last time"


def _stopped_depth(run: str, first: int, below: Sequence[EvalSlot]) -> int | None:
    """The depth, from `first` on, at which the search stopped by its results and before its last one."""
    for depth in sorted({slot.depth - 1 for slot in below}):
        promoted = load_if_intact(RunLayout(run).of_depth(depth, "promoted.json"))
        if depth >= first and promoted and promoted["stop_reason"] in (EMPTY_FRONTIER, STRICT_FAILURE):
            return depth
    return None


def _told_roles(targets: Sequence[Target]) -> list[str]:
    """The roles that are asked with the history of a node."""
    ideas = any("before" in dict(target.reads) for target in targets if target.stage == "idea")
    planner = any("context" in dict(target.reads) for target in targets if target.stage == "implement")
    return [role for role, is_told in (("ideas", ideas), ("planner", planner)) if is_told]


def _budget_lines(run: str, budget: float) -> Iterator[str]:
    """Lines on the money: decisions count what is in use, the bill has all that was paid."""
    yield f"  the budget of {budget:g} USD counts answers in use: these no more, but those of the retry"
    yield f"  the bill keeps both: {format_bill(fold_money(run, ()))} up to now; a retry may take it beyond the budget"


class PastCost(NamedTuple):
    """The cost of evaluations the last time; `unknown`: the calls of unknown price; `seconds`: of commands."""

    calls: int
    usd: float
    unknown: int
    seconds: float

    def plus(self, other: PastCost) -> PastCost:
        calls, usd = self.calls + other.calls, self.usd + other.usd
        return PastCost(calls, usd, self.unknown + other.unknown, self.seconds + other.seconds)

    @property
    def text(self) -> str:
        more = f" and {plural(self.unknown, 'call')} of unknown price" if self.unknown else ""
        work = f"{duration(self.seconds)} of tests, checks and sweeps"
        return f"{plural(self.calls, 'call')}, {self.usd:.2f} USD{more}, {work}"


def _past_cost(run: str, slots: Sequence[EvalSlot], with_ideas: bool = False) -> PastCost:
    at = RunLayout(run)
    paths = [at.of_eval(slot, "calls.jsonl") for slot in slots]
    paths += [at.idea(slot, "calls.jsonl") for slot in slots if with_ideas]
    calls = [call for path in paths if os.path.exists(path) for call in read_calls(path)]
    records = [at.of_eval(slot, f"{name}.cost.json") for slot in slots for name in _COMMANDS]
    seconds = sum(load_as(CommandCost, path).seconds for path in filter(os.path.exists, records))
    usd = sum(call.usage.usd or 0.0 for call in calls)
    return PastCost(len(calls), usd, sum(call.usage.usd is None for call in calls), seconds)
