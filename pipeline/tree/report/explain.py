"""Explanations of decisions: each check's number, its threshold and the smallest change that would do.

The gate and the ranking say whether a check was passed; this module gives the numbers that they used.  CHECK_NUMBERS
has a row for each check of the gate, and needs one for a new check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

from pipeline.tree.rules import beam
from pipeline.tree.rules.assignment import DUPLICATE, NO_BUDGET, NO_IDEA
from pipeline.tree.rules.positions import EvalSlot
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.scoring import HIGHER, MIXED, RISK_REGRESSED, SIGN, Comparison, ScoringRules
from pipeline.tree.rules.sheet import defects_text
from pipeline.trust.evidence import DEGENERATE, FEWEST_BLOCKS, IDENTICAL, STOPPED, TESTED
from pipeline.trust.noninferiority import PASSED


class CheckExplanation(NamedTuple):
    """A check explained: whether it was passed, None when it was not reached, and the numbers that it used.

    `change`: the least that `number` lacks, `needs` in words."""

    check: str
    passed: bool | None
    what: str = ""
    number: float | None = None
    threshold: float | None = None
    change: float | None = None
    needs: str = ""


# The numbers of a check whose name and result are not said yet.
_numbers = partial(CheckExplanation, "", None)


def _explained(check: str, passed: bool, numbers: CheckExplanation) -> CheckExplanation:
    """A check with its numbers; one that was passed lacks nothing."""
    found = numbers._replace(check=check, passed=passed)
    return found._replace(change=None, needs="") if passed else found


def _rows_numbers(e: beam.Evaluation, _: ScoringRules) -> CheckExplanation | None:
    if not e.results or not e.baseline or e.status != beam.COMPLETED:
        return None
    missing, bad = e.rows_expected - e.rows_used, len(e.defects)
    what = f"{e.rows_used} of {e.rows_expected} rows are good" + (f": {defects_text(e.defects)}" if bad else "")
    return _numbers(what, bad, 0, -bad, f"{missing} more" if missing > 0 else f"{bad} fewer defects")


def _rows_used_numbers(e: beam.Evaluation, _: ScoringRules) -> CheckExplanation | None:
    if not e.rows_expected:
        return None
    change = e.rows_expected - e.rows_used
    return _numbers(f"{e.rows_used} rows were used", e.rows_used, e.rows_expected, change, f"{change} more")


def _primary_numbers(e: beam.Evaluation, rules: ScoringRules) -> CheckExplanation | None:
    if e.score is None:
        return None
    delta = e.score.parent.primary_delta
    words = f"{abs(delta):.6g} {'worse' if delta < 0 else 'better'}" if delta else "no different"
    what = f"{rules.primary} is {words} than the parent's"
    return _numbers(what, delta, 0.0, -delta, _change_text(rules, rules.primary, -delta))


def _guard_checks(comparison: Comparison, rules: ScoringRules) -> Iterator[CheckExplanation]:
    """Checks of the guards.  They veto exploring; a mixed grade passes the gate all the same."""
    for detail in (each for each in comparison.metrics if each.guard):
        least = -rules.constants.guard_drop
        passed = f"{RISK_REGRESSED}:{detail.name}" not in comparison.reasons
        changed, allowed = (_own_direction(rules, detail.name, each) for each in (detail.relative, least))
        what = f"{detail.name} changed by {changed:+.4g} of its baseline; {allowed:+.4g} is allowed"
        lacking = least - detail.relative
        # in units of the metric; from a baseline of zero every loss is infinitely large
        needs = _change_text(rules, detail.name, lacking * abs(detail.baseline) if detail.baseline else -detail.delta)
        yield _explained(f"guard {detail.name}", passed, _numbers(what, detail.relative, least, lacking, needs))


def _recommended_numbers(e: beam.Evaluation, rules: ScoringRules) -> CheckExplanation | None:
    if e.score is None:
        return None
    parent, c = e.score.parent, rules.constants
    if parent.evidence is not None:
        return _numbers(f"{parent.evidence['verdict']}: {', '.join(parent.reasons)}", needs="what failed above")
    assert parent.score is not None  # only a verdict by blocks is without one
    score = f"{parent.grade}, score {parent.score:+.6g}"
    what = f"{score}: from {c.mixed:g} on it is {MIXED}, from {c.explore:g} on explored"
    ways = [*_sufficient_changes(parent, rules)]
    least = min((change for change, _ in ways if change is not None), default=None)
    threshold = parent.score + least if least is not None else c.explore if parent.should_explore else c.mixed
    return _numbers(what, parent.score, threshold, least, "; or ".join(words for _, words in ways))


def _sufficient_changes(comparison: Comparison, rules: ScoringRules) -> Iterator[tuple[float | None, str]]:
    """Each change that alone would have been enough, of the score or of something else, with its words."""
    assert comparison.score is not None
    c, total = rules.constants, comparison.score
    blocks = [each.removeprefix(f"{RISK_REGRESSED}:") for each in comparison.reasons if each.startswith(RISK_REGRESSED)]
    signal = total >= c.explore or comparison.better >= max(c.least_better, comparison.worse + c.lead)
    marks = [c.mixed] if c.mixed < c.promising else []
    marks += [c.explore] if not blocks else []
    if above := [mark for mark in marks if mark > total]:
        yield min(above) - total, f"a score of {min(above):g}: {min(above) - total:+.6g}"
    if blocks and (signal or not above):
        also = "" if signal else f", and a score of {c.explore:g}"
        yield None, f"no loss of {', '.join(blocks)} beyond what is allowed{also}"
    more = max(c.least_better, comparison.worse + c.lead) - comparison.better
    if not blocks and 0 < more <= len(comparison.metrics) - comparison.better - comparison.worse:
        yield None, f"{more} of the metrics that are the same better"


def _approved_numbers(e: beam.Evaluation, _: ScoringRules) -> CheckExplanation | None:
    if e.approved:
        return _numbers("the code was approved")
    needs = "an approval, or `proceed_on_max_review_rounds`"
    return _numbers("the code was not approved", needs=needs) if e.commit else None


# The numbers that each check of the gate uses; None when only its result is known.
CHECK_NUMBERS: dict[str, Callable[[beam.Evaluation, ScoringRules], CheckExplanation | None]] = {
    "completed": lambda e, _: _numbers(f"{e.status}: {e.why}" if e.why else e.status),
    "commit": lambda e, _: _numbers(e.commit[:10]) if e.commit else None,
    "approved": _approved_numbers,
    "results": lambda e, _: _numbers(e.results[:10]) if e.results else None,
    "baseline": lambda e, _: _numbers(e.baseline[:10]) if e.baseline else None,
    "rows": _rows_numbers,
    "rows_used": _rows_used_numbers,
    "primary": _primary_numbers,
    "recommended": _recommended_numbers,
}


def _change_text(rules: ScoringRules, name: str, change: float) -> str:
    """A change in words, such as "sharpe 0.1 higher"; `change`: more is better."""
    better = next(metric.better for metric in rules.metrics if metric.name == name)
    higher = (SIGN[better] == SIGN[HIGHER]) == (change > 0)
    return f"{name} {abs(change):.6g} {'higher' if higher else 'lower'}"


def _own_direction(rules: ScoringRules, name: str, change: float) -> float:
    """A change as the metric has it, for people; `change`: more is better.  Zero has no sign."""
    return SIGN[next(metric.better for metric in rules.metrics if metric.name == name)] * change + 0.0


# The needs of an idea that was not tested.
UNTESTED_NEEDS = {
    IDENTICAL: "a difference from the parent in some block",
    DEGENERATE: "differences that are not all alike",
    STOPPED: "a better place on the first blocks, to be measured on the others",
}


def _paired_checks(comparison: Comparison, rules: ScoringRules) -> Iterator[CheckExplanation]:
    """Checks of a verdict by blocks; an idea must pass all of them."""
    it, paired = comparison.evidence, rules.paired
    assert it is not None
    assert paired is not None
    yield _explained("blocks", it["blocks"] >= FEWEST_BLOCKS, _blocks_numbers(it))
    yield _explained("chance", it["standing"] == TESTED and it["p"] <= it["alpha"], _chance_numbers(rules, it))
    mean, least = it["mean"], paired.smallest_effect
    own = partial(_own_direction, rules, rules.primary)
    more, fewest = ("more than ", "at least") if own(1.0) > 0 else ("less than ", "at most")
    side = f"{fewest} {own(least):g}" if least else "any gain"
    what = f"{rules.primary} {own(mean):+.6g}, {side} is worth having"
    lacking = f"{'' if least else more}{own(least - mean):+.6g}" if least or mean else "any gain"
    yield _explained("effect", mean >= least and mean > 0, _numbers(what, mean, least, least - mean, lacking))
    for guard in it["guards"]:
        yield _explained(f"guard {guard['name']}", guard["verdict"] == PASSED, _guard_numbers(rules, guard))


def _blocks_numbers(it: Mapping[str, Any]) -> CheckExplanation:
    count, most = it["blocks"], it["detectable"]
    found = f"; an effect of {most:.4g} would be found four times in five" if most else ""
    found = f" in the order of time, neighbours correlated {it['rho']:.2f}{found}" if it["rho"] else found
    found = f", {it['repeats']} repeats of {count // it['repeats']} folds{found}" if "repeats" in it else found
    more = FEWEST_BLOCKS - count
    return _numbers(f"{count} blocks{found}", count, FEWEST_BLOCKS, more, f"{more} more")


def _chance_numbers(rules: ScoringRules, it: Mapping[str, Any]) -> CheckExplanation:
    """The test: the mean needed is the critical value times the standard error, and the bound is the mean less it."""
    if it["standing"] != TESTED:
        return _numbers(f"not tested: {it['standing']}", needs=UNTESTED_NEEDS[it["standing"]])
    mean, lower = it["mean"], it["lower"]
    own = partial(_own_direction, rules, rules.primary)
    what = f"{rules.primary} {own(mean):+.6g}, SE {it['se']:.4g}, estimate {own(it['estimate']):+.6g}"
    what += f", bound {own(lower):+.6g}"
    what += f"; p {it['p']:.4g} against an alpha of {it['alpha']:.4g}"
    needs = f"a mean of {own(mean - lower):+.6g} with this noise: {own(-lower):+.6g}"
    return _numbers(what, mean, mean - lower, -lower, needs)


def _guard_numbers(rules: ScoringRules, it: Mapping[str, Any]) -> CheckExplanation:
    """A guard: how far the loss may exceed its margin, as far as the blocks can tell."""
    limit, margin, more = it["limit"], it["margin"] or 0.0, FEWEST_BLOCKS - (it["df"] + 1)
    changed, worst, allowed = (_own_direction(rules, it["name"], each) for each in (it["mean"], limit, -margin))
    what = f"{it['verdict']}: changed by {changed:+.6g}, at worst by {worst:+.6g}; {allowed:+g} is allowed"
    what += "; the margin is small for this noise" if it["tight"] else ""
    needs = f"{-margin - limit:.6g} less of a loss, or a margin of more than {-limit:.6g}"
    needs = f"{more} more blocks" if more > 0 else needs
    return _numbers(what, limit, -margin, -margin - limit, needs)


# -- the steps before the gate


def explain_assignment(task: Mapping[str, Any]) -> CheckExplanation:
    if not task["empty"]:
        return CheckExplanation("assigned", True, "it has an idea")
    needs = {
        NO_IDEA: "an idea",
        DUPLICATE: f"another idea than {task['duplicate_of']}'s",
        NO_BUDGET: "more of the budget",
    }.get(task["empty"], "a node to start from")
    return CheckExplanation("assigned", False, f"{task['empty']}: {task['why']}", needs=needs)


def explain_step(name: str, record: Mapping[str, Any]) -> Iterator[CheckExplanation]:
    """The end of a command, or of the role that made the code; checks before a sweep one by one."""
    if record["status"] == beam.SKIPPED:
        yield CheckExplanation(name, None, "not come to")
    elif record["status"] == beam.COMPLETED:
        partial = record.get("partial")
        yield CheckExplanation(name, True, f"kept though its coder failed: {partial}" if partial else "ended well")
    elif record["why"].startswith(VOID):  # before the command of that step, or while it ran
        yield CheckExplanation("protected", False, record["why"], needs="a change that leaves alone what is protected")
    else:
        status = record.get("exit")
        needs = f"an end with 0, not with {status}" if status else ""
        yield CheckExplanation(name, False, record["why"], status, 0 if status else None, needs=needs)
    for each in record.get("checks", ()):
        yield from explain_step(f"check {each['name']}", each)


# -- the gate


def explain_gate(e: beam.Evaluation, rules: ScoringRules, is_reviewed: bool = True) -> Iterator[CheckExplanation]:
    """Checks of the gate; after the first failure, others only as far as anything is known of them.

    `is_reviewed`: somebody has reviewed the code; without a reviewer it counts as approved."""
    failed = False
    for name, check in beam.GATE_CHECKS:
        passed, measured = not check(e), CHECK_NUMBERS[name](e, rules)
        if name == "approved" and passed and not is_reviewed:
            measured = _numbers("nobody was to review the code")
        if failed and measured is None:
            yield CheckExplanation(name, None)
            continue
        yield _explained(name, passed, measured or _numbers(check(e)))
        failed = failed or not passed
        if name == "primary" and e.score:
            yield from (_paired_checks if e.score.parent.evidence else _guard_checks)(e.score.parent, rules)


# -- among all of a depth


def explain_ranking(
    e: beam.Evaluation, depth: Sequence[beam.Evaluation], beam_width: int
) -> Iterator[CheckExplanation]:
    """Checks among all evaluations of the `depth`, also of one that failed the gate: where it would have come."""
    others = [other for other in _passed_in_order(depth) if other.slot != e.slot]
    before = [other for other in others if _rank_order(other) > _rank_order(e)]
    same = next((other.slot for other in before if beam.code_identity(other) == beam.code_identity(e)), None)
    if beam.code_identity(e):
        what = f"the same code as {same}" if same else "no better one has the same code"
        yield CheckExplanation(beam.SAME_CODE, not same, what, needs="other code" if same else "")
    if e.score:
        distinct = {beam.code_identity(other): other for other in reversed(others)}
        yield _rank(e, [*distinct.values()][::-1], beam_width)


def _passed_in_order(depth: Sequence[beam.Evaluation]) -> list[beam.Evaluation]:
    """The evaluations that passed the gate, best first."""
    return sorted((e for e in depth if beam.first_failed_check(e) is None), key=_rank_order, reverse=True)


def _rank_order(e: beam.Evaluation) -> tuple[tuple[float, float], tuple[int, ...]]:
    """Key of the ranking, more is earlier; ties go to the earlier slot."""
    return beam.rank_key(e), tuple(-number for number in e.slot)


def _rank(e: beam.Evaluation, others: Sequence[beam.Evaluation], beam_width: int) -> CheckExplanation:
    (own, delta), rank = beam.rank_key(e), sum(_rank_order(o) > _rank_order(e) for o in others) + 1
    what = f"{own:+.6g} against the root: number {rank}, the beam has {beam_width}"
    if rank <= beam_width:
        return CheckExplanation(beam.RANK, True, what, finite_or_none(own))
    last = others[beam_width - 1]
    least, least_delta = beam.rank_key(last)
    beaten = CheckExplanation(beam.RANK, False, what, finite_or_none(own), finite_or_none(least))
    tie = "at least" if e.slot < last.slot else "more than"
    if own == least:
        needs = f"{tie} {least_delta - delta:.6g} more of the primary metric against the root, as {last.slot} has"
        return beaten._replace(change=0.0, needs=needs)
    needs = f"{tie} {least:+.6g} ({last.slot} has that): {least - own:+.6g}"
    return beaten._replace(change=finite_or_none(least - own), needs=needs)


def margin_to_next(e: beam.Evaluation, depth: Sequence[beam.Evaluation]) -> tuple[EvalSlot, float | None] | None:
    """The next evaluation that passed the gate, and the distance to it."""
    after = next((other for other in _passed_in_order(depth) if _rank_order(other) < _rank_order(e)), None)
    return (after.slot, finite_or_none(beam.rank_key(e)[0] - beam.rank_key(after)[0])) if after else None


def finite_or_none(number: float) -> float | None:
    return number if isfinite(number) else None
