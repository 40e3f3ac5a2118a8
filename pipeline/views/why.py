"""Why targets are stale, in words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.forecast import HELD, MAYBE, RUN, Forecast
from pipeline.core.freshness import Reason
from pipeline.core.outcome import FRESH, RECALLED
from pipeline.views.eta import step_of

_SHA = re.compile(r"[0-9a-f]{64}")
_CHANGES = ("recipe changed", "input changed", "output changed")
_WIDE = 60
_CAUSES = 5
_NAMES = 3
IGNORED = "it is ignored: builds leave it alone until `coppice forget {}`"
OUTLOOK = {
    FRESH: "nothing is to be redone once the targets above are as they were",
    RECALLED: "its result is in the store: it would be recalled",
    RUN: "it would run",
    MAYBE: "it is redone only if the outputs above come out different",
}


class Cause(NamedTuple):
    """A target that is stale by itself; the way up to it: (a stale target, its output that the one below reads)."""

    target: str
    way: tuple[tuple[str, str], ...]
    reasons: tuple[tuple[Reason, str], ...]  # each with a remark
    alike: int = 0
    failure: Mapping[str, Any] | None = None
    example: bool = False  # of the first of many


Group = tuple[Sequence[str], Cause]  # targets that are stale for the same reasons


class Answer(NamedTuple):
    """All there is to say of one target."""

    target: str
    causes: tuple[Cause, ...] = ()
    outlook: str = ""


def outlook(target: str, forecast: Forecast) -> str:
    if forecast.action != HELD:
        return OUTLOOK[forecast.action]
    if forecast.held_by == target:
        return IGNORED.format(target)
    return f"it waits for {forecast.held_by}"


def answered(answer: Answer) -> str:
    if not answer.causes:
        return "\n".join([f"{answer.target} is fresh", *([f"  {answer.outlook}"] if answer.outlook else [])])
    lines = [f"{answer.target} is stale"]
    for number, cause in enumerate(answer.causes[:_CAUSES]):
        lines += (f"  {line}" for line in _cause(cause, "also because" if number else "because"))
    if (more := len(answer.causes) - _CAUSES) > 0:
        lines.append(f"  and for {more} more reasons of that kind")
    return "\n".join([*lines, f"  {answer.outlook}"])


def summed_up(run: str, total: int, groups: Sequence[Group], below: int) -> str:
    """A whole run: the targets that are stale by themselves, alike ones in one; and how many are so because of them."""
    if not groups:
        return f"{run} is fresh: {count(total)}"
    by_themselves = sum(len(names) for names, _ in groups)
    if len(groups) > _CAUSES:
        groups = _merged(groups)
    lines = [f"{run} is stale: {by_themselves + below} of {count(total)}"]
    for names, cause in groups[:_CAUSES]:
        lines.append(f"  {listed(names)} {'is' if len(names) == 1 else 'are'} stale")
        lines += (f"    {line}" for line in _cause(cause, "because", len(names) > 1))
    if left := [name for names, _ in groups[_CAUSES:] for name in names]:
        lines.append(f"  {listed(left)} {'is' if len(left) == 1 else 'are'} stale for other reasons")
    if below:
        lines.append(f"  {count(below)} below, redone only if what they read comes out different")
    return "\n".join(lines)


def _merged(groups: Sequence[Group]) -> list[Group]:
    """When there are too many, those of a step that are stale in the same way count as one, shown by its first."""
    merged: dict[tuple[str, ...], list[Group]] = {}
    for names, cause in groups:
        merged.setdefault((step_of(names[0]), *(reason.what for reason, _ in cause.reasons)), []).append((names, cause))
    return [
        ([name for names, _ in alike for name in names], alike[0][1]._replace(example=len(alike) > 1))
        for alike in merged.values()
    ]


def count(targets: int) -> str:
    return plural(targets, "target")


def plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what[:-1]}ies" if what[-1] == "y" else f"{number} {what}s"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _cause(cause: Cause, because: str, several: bool = False) -> Iterator[str]:
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
    if cause.failure:
        yield f"{cause.target} failed last at {failure_text(cause.failure)}"


def reason_line(reason: Reason, remark: str = "", several: bool = False) -> str:
    if reason.what == "never built":
        return "they were never built, or were forgotten" if several else "it was never built, or was forgotten"
    change = _change(reason.old, reason.new) if reason.what in _CHANGES else ""
    return f"{reason.what} {reason.where}".rstrip() + change + (f" ({remark})" if remark else "")


def _change(old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str) and not _SHA.fullmatch(old):
        old, new = _around_difference(old, new)
    if short(old) == short(new):
        old, new = repr(old), repr(new)
    return f": {short(old)} -> {short(new)}"


def _around_difference(old: str, new: str) -> tuple[str, str]:
    """Long texts from a little before they part."""
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    cut = max(0, same - _WIDE // 3) if max(len(old), len(new)) > _WIDE else 0
    return tuple(("…" if cut else "") + text[cut:] for text in (old, new))  # type: ignore[return-value]


def short(value: Any) -> str:
    """A sha256 by its first digits, a long text by its beginning."""
    text = "nothing" if value is None else value if isinstance(value, str) else repr(value)
    if _SHA.fullmatch(text):
        return f"{text[:8]}…"
    text = text.replace("\n", "⏎")
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def failure_text(failure: Mapping[str, Any]) -> str:
    """When, why, and where its log is."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(failure["end"]))
    plain = f"exit status {failure['exit']}"
    why = plain if failure["why"] == plain else f"{plain}, {failure['why']}"
    log = f"; its log is {failure['log']}" if failure["log"] else ""
    return f"{when}: {why}{log}"
