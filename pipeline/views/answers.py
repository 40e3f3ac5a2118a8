"""Answers to `why`, `info` and `plan`: why targets are stale; details of targets, steps, runs; what a build will do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.freshness import FAILED_BEFORE, FORGOTTEN, NEVER_BUILT, OTHER_FILES, FailureRecord, Reason, Receipt
from pipeline.core.graph import Limits, room_label, step_of
from pipeline.core.outcome import BUILT, FRESH, HELD, IGNORED, MAYBE, OUTAGE_WORDS, RECALLED, RUN, Forecast
from pipeline.core.text import count_words, duration, join_names, printable_line, target_count
from pipeline.views.lines import time_text

_SHA = re.compile(r"[0-9a-f]{64}")
_CHANGES = ("recipe changed", "input changed", "output changed")
_NO_RESULT = {
    NEVER_BUILT: ("it was never built", "they were never built"),
    FORGOTTEN: ("it was forgotten", "they were forgotten"),
    FAILED_BEFORE: ("it failed", "they failed"),
}
_WIDE = 60
_CAUSES = 5
LEFT_OUT = "left out: {} is ignored"
OUTLOOK = {
    FRESH: "nothing is to be redone once the targets above are as they were",
    RECALLED: "its result is in the store: it would be recalled",
    RUN: "it would run",
    MAYBE: "it is redone only if the outputs above come out different",
    HELD: "it waits for {}",
    IGNORED: f"{LEFT_OUT} until `coppice forget {{}}`",
}

Failures = Sequence[tuple[str, FailureRecord]]  # targets that failed when they ran last, with what was recorded


class Cause(NamedTuple):
    """Target that is stale by itself: the way up to it, of (a stale target, its output that the one below reads)."""

    way: tuple[tuple[str, str], ...]
    reasons: tuple[tuple[Reason, str], ...]  # each with a remark
    alike: int = 0
    example: bool = False  # of the first of many


Group = tuple[Sequence[str], Cause]  # targets that are stale for the same reasons


class StaleCounts(NamedTuple):
    """Numbers about many targets: in total, stale, and stale only because of others."""

    total: int
    stale: int = 0
    below: int = 0
    left_out: Sequence[tuple[str, int]] = ()  # an ignored target, and how many are left out because of it


def outlook_text(forecast: Forecast) -> str:
    return OUTLOOK[forecast.action].format(forecast.held_by, forecast.held_by)


def answer_text(target: str, forecast: Forecast, causes: Sequence[Cause], failures: Failures) -> str:
    """Text about one target; `failures` are those of it and of what it is made from."""
    if not causes:
        return f"{target} is {outlook_text(forecast) if forecast.action == IGNORED else 'fresh'}"
    lines = [f"{target} is stale"]
    for number, cause in enumerate(causes[:_CAUSES]):
        lines += (f"  {line}" for line in _cause_lines(cause, "also because" if number else "because"))
    if (more := len(causes) - _CAUSES) > 0:
        lines.append(f"  and for {more} more reasons of that kind")
    return "\n".join([*lines, *_failure_lines(failures), f"  {outlook_text(forecast)}"])


def summary_text(title: str, numbers: StaleCounts, groups: Sequence[Group], failures: Failures = ()) -> str:
    """Text about many targets: their causes, alike ones together, and how many are stale because of others."""
    left_out = sum(number for _, number in numbers.left_out)
    if not numbers.stale and not left_out:
        return f"{title} is fresh: {target_count(numbers.total)}"
    head = f"{title} is stale: {numbers.stale} of {target_count(numbers.total)}"
    lines = [head if numbers.stale else f"{title}: {numbers.total - left_out} of {target_count(numbers.total)} fresh"]
    groups = _merge_alike(groups) if len(groups) > _CAUSES else groups
    for names, cause in groups[:_CAUSES]:
        lines.append(f"  {join_names(names)} {'is' if len(names) == 1 else 'are'} stale")
        lines += (f"    {line}" for line in _cause_lines(cause, "because", len(names) > 1))
    if others := [name for names, _ in groups[_CAUSES:] for name in names]:
        lines.append(f"  {join_names(others)} {'is' if len(others) == 1 else 'are'} stale for other reasons")
    if numbers.below:
        lines.append(f"  {target_count(numbers.below)} below, redone only if what they read comes out different")
    lines += (f"  {target_count(number)} {LEFT_OUT.format(name)}" for name, number in numbers.left_out)
    return "\n".join([*lines, *_failure_lines(failures)])


def _failure_lines(failures: Failures) -> Iterator[str]:
    for name, failure in failures[:_CAUSES]:
        yield f"  {name} failed last at {failure_text(failure)}"
    if (more := len(failures) - _CAUSES) > 0:
        yield f"  and {more} more failed"


def _merge_alike(groups: Sequence[Group]) -> list[Group]:
    """Merge groups of a step that are stale in the same way when there are too many; the first stands for all."""
    merged: dict[tuple[str, ...], list[Group]] = {}
    for names, cause in groups:
        merged.setdefault((step_of(names[0]), *(reason.what for reason, _ in cause.reasons)), []).append((names, cause))
    return [
        ([name for names, _ in alike for name in names], alike[0][1]._replace(example=len(alike) > 1))
        for alike in merged.values()
    ]


def _cause_lines(cause: Cause, because: str, several: bool = False) -> Iterator[str]:
    for name, output in cause.way:
        yield f"{because} {name} is stale, whose output {output} it reads"
        because = "because"
    for reason, remark in cause.reasons:
        yield f"{because} {reason_line(reason, remark, several)}"
        because = "and"
    if cause.example:
        yield "(that is the first of them; the others are stale in the same way)"
    if cause.alike:
        yield f"(so are {cause.alike} more of the targets above, for the same reason)"


def reason_line(reason: Reason, remark: str = "", several: bool = False) -> str:
    if reason.what in _NO_RESULT:
        return _NO_RESULT[reason.what][several]
    change = _change_text(reason.old, reason.new) if reason.what in _CHANGES else ""
    return difference_text(reason) + change + (f" ({remark})" if remark else "")


def difference_text(reason: Reason) -> str:
    """Name of a difference, without the old and the new value."""
    if reason.what == OTHER_FILES:
        pairs = (("-", reason.old), ("+", reason.new))
        return f"{reason.what}: {', '.join(f'{sign} {join_names(names, 1)}' for sign, names in pairs if names)}"
    return f"{reason.what} {reason.where}".rstrip()


def _change_text(old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str) and not _SHA.fullmatch(old) and max(len(old), len(new)) > _WIDE:
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        cut = max(0, same - _WIDE // 3)  # to begin a little before they part
        old, new = (("…" if cut else "") + text[cut:] for text in (old, new))
    if shorten(old) == shorten(new):
        old, new = repr(old), repr(new)
    return f": {shorten(old)} -> {shorten(new)}"


def shorten(value: Any) -> str:
    """Shorten a value: a sha256 to its first digits, a long text to its beginning."""
    text = "nothing" if value is None else value if isinstance(value, str) else repr(value)
    if _SHA.fullmatch(text):
        return f"{text[:8]}…"
    return printable_line(text.replace("\n", "⏎"), _WIDE)


def failure_text(failure: FailureRecord) -> str:
    """Text about a failure: when, why, and where its log is."""
    when = time_text(failure.end)
    plain = f"exit status {failure.exit}"
    why = plain if failure.why == plain else f"{plain}, {failure.why}"
    log = f"; its log is {failure.log}" if failure.log else ""
    out = f" ({OUTAGE_WORDS.get(failure.outage, failure.outage)}; nobody has failed)" if failure.outage else ""
    return f"{when}: {why}{log}{out}"


TextRow = tuple[str, Sequence[str]]  # a word, and the lines beside it


def details_text(title: str, rows: Iterable[TextRow]) -> str:
    """Text with all rows that have lines."""
    rows = [row for row in rows if row[1]]
    width = max([7, *(len(word) for word, _ in rows)])
    lines = [title]
    for word, beside in rows:
        lines += (f"  {first:{width}} {line}" for first, line in zip([word, *[""] * len(beside)], beside, strict=False))
    return "\n".join(lines)


def status_lines(status: str, forecast: Forecast) -> Iterator[str]:
    yield status
    if status != FRESH:
        yield from (reason_line(reason) for reason in forecast.reasons)
        yield outlook_text(forecast)


def room_lines(rooms: Mapping[str, int]) -> list[str]:
    return [", ".join(f"{room_label(room)} {places}" for room, places in rooms.items())] if rooms else []


def limit_rows(limits: Limits, places: Mapping[str, int]) -> Iterator[TextRow]:
    yield "timeout", [] if limits.timeout is None else [duration(limits.timeout)]
    yield "retries", [str(limits.retries)] if limits.retries else []
    yield "patience", [] if limits.patience is None else [f"{duration(limits.patience)} with what is out"]
    yield "room", [f"{room_label(room)}, {places[room]} at once" for room in limits.rooms]
    yield "exclusive", ["it runs alone on its machine"] if limits.exclusive else []


def read_lines(makers: Mapping[str, str]) -> list[str]:
    """Paths that a target reads, each with the target that writes it, if one does."""
    width = max(map(len, makers), default=0)
    return [f"{path:{width}}  <- {maker}" if maker else path for path, maker in makers.items()]


def result_line(receipt: Receipt) -> str:
    when = time_text(receipt.end)
    if receipt.how != BUILT:
        return f"{receipt.how} {when}"
    attempts = f", at attempt {receipt.attempts}" if receipt.attempts > 1 else ""
    return f"{when} in {duration(receipt.end - receipt.start)}{attempts}"


# --- The plan of a build as a table for people and as JSON for tools.
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
    for action, name, seconds, reason in rows:
        yield f"  {action:8}  {name:{names}}  {seconds:>{times}}  {reason}".rstrip()


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
