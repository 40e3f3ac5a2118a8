"""Why an evaluation passed a check or not: its number, what is asked for, and the smallest change that would do.

Whether it passed is what the gate and the ranking say; here are only the numbers that they looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from pipeline.tree.beam import RANK, SAME_CODE, code_of, rank
from pipeline.tree.gate import CHECKS, COMPLETED, SKIPPED, Evaluation, gate
from pipeline.tree.ideas import BUDGET, DUPLICATE, NO_IDEA
from pipeline.tree.measures import MEASURES, Measured, guards
from pipeline.tree.measures_paired import weighed
from pipeline.tree.scoring import Rules
from pipeline.tree.slots import Slot
from pipeline.tree.touching import VOID


class Told(NamedTuple):
    """`passed` None: it was not come to.  `change`: what `number` lacks at least; `needs`: the same in words."""

    check: str
    passed: bool | None
    what: str = ""
    number: float | None = None
    threshold: float | None = None
    change: float | None = None
    needs: str = ""


# -- the steps before the gate


def assigned(task: Mapping[str, Any]) -> Told:
    if not task["empty"]:
        return Told("assigned", True, "it has an idea")
    needs = {
        NO_IDEA: "an idea",
        DUPLICATE: f"another idea than {task['duplicate_of']}'s",
        BUDGET: "more of the budget",
    }.get(task["empty"], "a node to start from")
    return Told("assigned", False, f"{task['empty']}: {task['why']}", needs=needs)


def step(name: str, record: Mapping[str, Any]) -> Told:
    """Of a command, or of who made the code: how it ended."""
    if record["status"] == SKIPPED:
        return Told(name, None, "not come to")
    if record["status"] == COMPLETED:
        return Told(name, True, "ended well")
    if record["why"].startswith(VOID):
        return Told(name, False, record["why"], needs="no hand on what is protected")
    status = record.get("exit")
    needs = f"an end with 0, not with {status}" if status else ""
    return Told(name, False, record["why"], status, 0 if status else None, needs=needs)


def steps(records: Mapping[str, Mapping[str, Any]]) -> Iterator[Told]:
    """How each ended, by its name; of the checks before a sweep each by itself."""
    for name, record in records.items():
        yield step(name, record)
        yield from (step(f"check {each['name']}", each) for each in record.get("checks", ()))


# -- the gate


def gate_told(e: Evaluation, rules: Rules) -> Iterator[Told]:
    """After the first check that was not passed, others only as far as anything is known of them."""
    failed = False
    for name, check in CHECKS:
        passed, measured = not check(e), MEASURES[name](e, rules)
        if failed and measured is None:
            yield Told(name, None)
            continue
        yield _told(name, passed, measured or Measured(check(e)))
        failed = failed or not passed
        if name == "primary" and e.score:
            beside = weighed if e.score.parent.evidence else guards
            yield from (_told(*line) for line in beside(e.score.parent, rules))


def _told(name: str, passed: bool, found: Measured) -> Told:
    return Told(name, passed, *(found._replace(change=None, needs="") if passed else found))


# -- among all of a depth


def among(e: Evaluation, depth: Sequence[Evaluation], beam_width: int) -> Iterator[Told]:
    """`depth`: all of it, ended.  Of one that failed the gate: where it would have come."""
    others = sorted((o for o in depth if o.slot != e.slot and gate(o) is None), key=_before, reverse=True)
    same = next((o.slot for o in others if code_of(o) == code_of(e) and _before(o) > _before(e)), None)
    if code_of(e):
        told = Told(SAME_CODE, not same, f"the same code as {same}" if same else "no better one has the same code")
        yield told._replace(needs="other code") if same else told
    if e.score:
        yield _rank(e, _distinct(others), beam_width)


def _before(e: Evaluation) -> tuple[tuple[float, float], tuple[int, ...]]:
    """More is earlier; ties go to the earlier slot."""
    return rank(e), tuple(-number for number in e.slot)


def _distinct(ranked: Sequence[Evaluation]) -> list[Evaluation]:
    return [*{code_of(e): e for e in reversed(ranked)}.values()][::-1]


def _rank(e: Evaluation, others: Sequence[Evaluation], beam_width: int) -> Told:
    (own, delta), place = rank(e), sum(_before(o) > _before(e) for o in others) + 1
    what = f"{own:+.6g} against the root: number {place}, the beam has {beam_width}"
    if place <= beam_width:
        return Told(RANK, True, what, finite(own))
    last = others[beam_width - 1]
    least, least_delta = rank(last)
    told = Told(RANK, False, what, finite(own), finite(least))
    tie = "at least" if e.slot < last.slot else "more than"
    if own == least:
        needs = f"{tie} {least_delta - delta:.6g} more of the primary metric against the root, as {last.slot} has"
        return told._replace(change=0.0, needs=needs)
    needs = f"{tie} {least:+.6g} ({last.slot} has that): {least - own:+.6g}"
    return told._replace(change=finite(least - own), needs=needs)


def margin(e: Evaluation, depth: Sequence[Evaluation]) -> tuple[Slot, float | None] | None:
    """To the next of those that passed the gate."""
    after = sorted((o for o in depth if gate(o) is None and _before(o) < _before(e)), key=_before)
    return (after[-1].slot, finite(rank(e)[0] - rank(after[-1])[0])) if after else None


def finite(number: float) -> float | None:
    return number if isfinite(number) else None
