"""Plan of a build as a table for people and as JSON for tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.core.graph import step_of
from pipeline.core.outcome import FRESH, HELD, IGNORED, MAYBE, RECALLED, RUN, Forecast
from pipeline.core.text import count_words, duration, target_count
from pipeline.views.answers import LEFT_OUT, difference_text

MANY_ITEMS = 40
FIRST_ITEMS = 10
WITHOUT_REASON = {
    RUN: "what it reads changes",
    MAYBE: "if what it reads comes out different",
    RECALLED: "what it reads changes",
    HELD: "waits for {}",
    IGNORED: LEFT_OUT,
}
# In this order they are counted.
ACTION_WORDS = {RUN: "to run", MAYBE: "to run maybe", RECALLED: "recalled", HELD: "held back", IGNORED: "ignored"}


class PlanItem(NamedTuple):
    """Target in doubt; `seconds` as its last run took, or when `guessed`, as others of its step took.

    `may_recall`: it is to run unless the store has its result, which shows when what it reads has been made."""

    name: str
    action: str
    why: tuple[str, ...]
    seconds: float | None = None
    guessed: bool = False
    may_recall: bool = False


class BuildPlan(NamedTuple):
    """Plan of a build.  `serial` and `wall` (`jobs` at once) assume that everything in doubt comes out different."""

    items: Sequence[PlanItem]
    targets: int
    serial: float
    wall: float
    jobs: int
    outlook: Sequence[str] = ()


def plan_reasons(forecast: Forecast) -> tuple[str, ...]:
    if forecast.reasons and forecast.action not in (HELD, IGNORED):
        return tuple(map(difference_text, forecast.reasons))
    return (WITHOUT_REASON[forecast.action].format(forecast.held_by),)


def plan_text(plan: BuildPlan, everything: bool) -> str:
    if not plan.items:
        return f"nothing to do: {target_count(plan.targets)} up to date"
    short = len(plan.items) > MANY_ITEMS and not everything
    numbers = {word: sum(item.action == action for item in plan.items) for action, word in ACTION_WORDS.items()}
    numbers[FRESH] = plan.targets - len(plan.items)
    lines = [f"{target_count(plan.targets)}: {count_words(numbers)}", *plan.outlook, ""]
    if short:
        first = f"the first {FIRST_ITEMS} of them, in order (--all shows all):"
        groups: dict[tuple[str, str], list[PlanItem]] = {}  # targets of a step with the same action, in one row
        for item in plan.items:
            groups.setdefault((step_of(item.name), item.action), []).append(item)
        rows = []
        for (step, action), group in groups.items():
            reasons = {item.why[0] for item in group}
            reason = reasons.pop() if len(reasons) == 1 else f"{len(reasons)} reasons"
            rows.append((action, f"{step} x{len(group)}" if len(group) > 1 else group[0].name, _times(group), reason))
        lines += [*_table(rows), "", first, ""]
    items = plan.items[:FIRST_ITEMS] if short else plan.items
    rows = []
    for item in items:
        more = f" and {len(item.why) - 1} more" if len(item.why) > 1 else ""
        rows.append((item.action, item.name, _times([item]), item.why[0] + more))
    foot = [*_footnotes(plan)]
    return "\n".join([*lines, *_table(rows), *[""][: len(foot)], *foot])


def _table(rows: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    names, times = (max(len(row[i]) for row in rows) for i in (1, 2))
    for action, name, time, reason in rows:
        yield f"  {action:8}  {name:{names}}  {time:>{times}}  {reason}".rstrip()


def _times(items: Sequence[PlanItem]) -> str:
    known = [item.seconds for item in items if item.seconds is not None and item.action in (RUN, MAYBE)]
    about = "~" if any(item.guessed for item in items) else ""
    return about + _duration(sum(known)) if known else "?" if items[0].action in (RUN, MAYBE) else ""


def _footnotes(plan: BuildPlan) -> Iterator[str]:
    running = [item for item in plan.items if item.action in (RUN, MAYBE)]
    unknown = sum(item.seconds is None for item in running)
    is_known = any(item.action == RECALLED for item in plan.items)  # the store knows of such work
    if is_known and (open_ := sum(item.may_recall for item in plan.items)):
        yield f"of those to run, {target_count(open_)} may be recalled: that shows when what they read has been made"
    if len(running) > unknown:
        jobs = f", {_duration(plan.wall)} with -n {plan.jobs}" if plan.jobs > 1 else ""
        most = "at most " if any(item.action == MAYBE for item in running) else ""
        yield f"{most}{_duration(plan.serial)} one after another{jobs}, going by the last runs"
    if any(item.guessed for item in running):
        yield "~ never ran itself: as long as others of its step"
    if unknown:
        yield f"? never ran: no time is known of {target_count(unknown)}"


def _duration(seconds: float) -> str:
    return duration(seconds, 1 if seconds >= 1 else 2)


def plan_json(plan: BuildPlan) -> str:
    return json.dumps({
        "targets": plan.targets, "serial": round(plan.serial, 3), "wall": round(plan.wall, 3), "jobs": plan.jobs,
        "outlook": [*plan.outlook], "todo": [item._asdict() for item in plan.items],
    }, indent=1)  # fmt: skip
