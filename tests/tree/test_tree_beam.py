"""Who is promoted, and why: laws of the gate, the ranking and the stop."""

from collections.abc import Callable, Sequence
from math import inf, nan
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.beam import (
    COMPLETED,
    FAILED,
    GATE_CHECKS,
    RANK,
    SAME_CODE,
    SKIPPED,
    DepthProgress,
    Evaluation,
    Promotion,
    first_failed_check,
    is_comparable,
    promote,
    rank_key,
    stop_reason,
)
from pipeline.tree.rules.positions import EvalSlot, NodePlace, slots_of
from pipeline.tree.rules.scoring import Comparison, Metric, Score, ScoringRules, score_by_means
from pipeline.tree.rules.sheet import check_rows, expected_rows, read_sheet

SLOTS = slots_of(1, 2, 3)
RULES = ScoringRules("sharpe", (Metric("sharpe"), Metric("returns"), Metric("drawdown", guard=True)))


def compared(
    total: float | None = 0.05, delta: float = 0.1, grade: str = "promising", explore: bool = True
) -> Comparison:
    reason = "net_improvement" if explore else "insufficient_signal"
    return Comparison(total, grade, explore, (reason,), delta, 1, 0, 3, ())


def good(slot: EvalSlot = SLOTS[0], root: float | None = 0.05, delta: float = 0.1) -> Evaluation:
    """All that the gate asks for."""
    found = Score(compared(), compared(root, delta))
    return Evaluation(slot, COMPLETED, "", f"c-{slot}", "", True, "sha", "sha", (), 3, 3, found)


def depth(*given_: Evaluation) -> list[Evaluation]:
    """The other slots were skipped."""
    skipped = {slot: Evaluation(slot, SKIPPED, "no idea") for slot in SLOTS}
    return [*(skipped | {e.slot: e for e in given_}).values()]


def promoted(evaluations: Sequence[Evaluation], width: int = 2) -> Promotion:
    return promote(evaluations, width, SLOTS)


def sources(promotion: Promotion) -> list[str]:
    return [str(slot.source or "") for slot in promotion.slots]


def parent(e: Evaluation, **changes: Any) -> Evaluation:
    assert e.score
    return e._replace(score=e.score._replace(parent=e.score.parent._replace(**changes)))


GOOD = good()
# In the order of the gate: what is wrong, the check that says so, and what it says.
FAULTS: list[tuple[Evaluation, str, str]] = [
    (GOOD._replace(status=FAILED, why="tests failed: 2"), "completed", "failed: tests failed: 2"),
    (GOOD._replace(status=SKIPPED), "completed", "skipped: no reason given"),
    (GOOD._replace(commit=""), "commit", "there is no commit of the candidate"),
    (GOOD._replace(approved=False), "approved", "the code was not approved"),
    (GOOD._replace(results=""), "results", "the candidate has no results CSV"),
    (GOOD._replace(baseline=""), "baseline", "the parent has no results CSV to compare with"),
    (GOOD._replace(defects=tuple("abcde")), "rows", "a; b; c; and 2 more"),
    (GOOD._replace(rows_used=2), "rows_used", "2 and 3 rows were used, 3 are expected"),
    (parent(GOOD, rows_used=2), "rows_used", "2 and 3 rows were used, 3 are expected"),
    (parent(GOOD, rows_used=0)._replace(rows_used=0, rows_expected=0), "rows_used", "0 rows were used, 0 are expected"),
    (GOOD._replace(score=None), "primary", "there is no score"),
    (parent(GOOD, primary_delta=-1e-9), "primary", "the primary metric is worse than the parent's: -1e-09"),
    (parent(GOOD, primary_delta=nan), "primary", "the primary metric is worse than the parent's: +nan"),
    (
        parent(GOOD, reasons=("net_improvement", "primary_metric_regressed")),
        "primary",
        "primary_metric_regressed against the parent by 0.1",
    ),
    (
        parent(GOOD, should_explore=False, reasons=("risk_regressed:drawdown",)),
        "recommended",
        "promising, not to be explored: risk_regressed:drawdown",
    ),
    (
        parent(GOOD, should_explore=False, grade="weak", reasons=("insufficient_signal",)),
        "recommended",
        "weak, not to be explored: insufficient_signal",
    ),
]


@pytest.mark.parametrize(("faulty", "check", "why"), FAULTS)
def test_each_check_of_the_gate_says_what_is_wrong(faulty: Evaluation, check: str, why: str) -> None:
    assert first_failed_check(faulty) == (check, why)
    found = promoted(depth(faulty))
    assert found.empty
    assert found.decisions[0][1:] == (None, check, why)


@pytest.mark.parametrize(("faulty", "check"), [fault[:2] for fault in FAULTS])
def test_luck_chooses_among_all_that_lack_nothing_but_a_score(faulty: Evaluation, check: str) -> None:
    assert is_comparable(faulty) == (check in ("primary", "recommended"))
    assert is_comparable(GOOD)


def test_the_checks_are_made_in_order_and_each_has_a_fault_here() -> None:
    assert [*dict.fromkeys(check for _, check, _ in FAULTS)] == [name for name, _ in GATE_CHECKS]
    wrong = Evaluation(SLOTS[0], FAILED, "boom", defects=("a",), rows_expected=3)
    fixes: list[dict[str, Any]] = [{"status": COMPLETED}, {"commit": "c"}, {"approved": True}, {"results": "sha"}]
    fixes += [{"baseline": "sha"}, {"defects": ()}, {"rows_used": 3}, {"score": Score(compared(), compared())}]
    for fix, (name, _) in zip(fixes, GATE_CHECKS, strict=False):
        assert (first_failed_check(wrong) or ("",))[0] == name
        wrong = wrong._replace(**fix)
    assert first_failed_check(wrong) is None


def test_a_mixed_grade_passes_as_long_as_the_primary_metric_is_not_worse() -> None:
    mixed = parent(GOOD, should_explore=False, grade="mixed", primary_delta=0.0)
    assert first_failed_check(mixed) is None
    assert first_failed_check(parent(mixed, primary_delta=-1e-9)) is not None
    assert first_failed_check(parent(mixed, reasons=("primary_metric_regressed",))) is not None


def test_a_guard_that_vetoes_exploring_does_not_veto_a_mixed_grade() -> None:
    """So it was specified: the gate is `should_explore`, or `mixed` with a primary metric that is no worse."""
    risky = parent(GOOD, should_explore=False, grade="mixed", reasons=("risk_regressed:drawdown",))
    assert first_failed_check(risky) is None


def test_the_best_against_the_root_comes_first_whatever_it_is_against_its_parent() -> None:
    far = parent(good(SLOTS[4], 0.9), score=0.03)
    near = parent(good(SLOTS[0], 0.2), score=0.8)
    assert sources(promoted(depth(near, far))) == [str(SLOTS[4]), str(SLOTS[0])]


def test_ranks_fall_back_from_the_root_score_to_the_primary_delta_to_nothing() -> None:
    assert rank_key(good(root=0.2, delta=0.1)) == (0.2, 0.1)
    assert rank_key(good(root=None, delta=0.1)) == rank_key(good(root=nan, delta=0.1)) == (0.1, 0.1)
    assert rank_key(good(root=None, delta=nan)) == rank_key(GOOD._replace(score=None)) == (-inf, -inf)
    order = [good(SLOTS[3], None, nan), good(SLOTS[2], None, 0.04), good(SLOTS[1], 0.05)]
    assert sources(promoted(depth(*order), 3)) == [str(SLOTS[1]), str(SLOTS[2]), str(SLOTS[3])]


def test_ties_go_to_the_larger_delta_and_then_to_the_earlier_slot() -> None:
    tied = [good(SLOTS[5], 0.05, 0.2), good(SLOTS[1], 0.05, 0.1), good(SLOTS[3], 0.05, 0.1)]
    assert sources(promoted(depth(*tied), 3)) == [str(SLOTS[5]), str(SLOTS[1]), str(SLOTS[3])]


def test_float_noise_does_not_break_a_tie() -> None:
    noisy = [good(SLOTS[1], 0.05, 0.1), good(SLOTS[3], 0.05 + 1e-16, 0.1 + 1e-16)]
    assert sources(promoted(depth(*noisy), 1)) == [str(SLOTS[1])]


def test_a_place_that_stays_empty_says_why() -> None:
    found = promoted(depth(good(SLOTS[2])))
    assert found.slots[0].place == NodePlace(2, 0)
    assert found.slots[0].commit == f"c-{SLOTS[2]}"
    assert found.slots[1] == (NodePlace(2, 1), None, "", "1 of 6 evaluations passed the gate with code of their own")
    assert not found.empty


def test_who_is_beaten_is_told_by_what() -> None:
    found = promoted(depth(good(SLOTS[0], 0.1), good(SLOTS[1], 0.3)), 1)
    why = (
        "rank +0.1 (primary +0.1) against the root is number 2, the beam has 1; the last of them has rank +0.3 (primary"
    )
    assert found.decisions[0].failed == RANK
    assert found.decisions[0].why.startswith(why)


def test_the_same_code_gets_one_place_though_two_ideas_led_there() -> None:
    twins = [good(SLOTS[n], root)._replace(tree="t") for n, root in ((1, 0.3), (3, 0.2))]
    found = promoted(depth(*twins, good(SLOTS[5], 0.1)))
    assert sources(found) == [str(SLOTS[1]), str(SLOTS[5])]
    assert found.decisions[3][2:] == (SAME_CODE, f"the same code as {SLOTS[1]}, which comes before it")


PARTIAL: list[tuple[Callable[[list[Evaluation]], list[Evaluation]], str]] = [
    (lambda all_: all_[1:], r"not one evaluation for each slot: d1\.n0\.i0"),
    (lambda all_: all_[:-1], r"not one evaluation for each slot: d1\.n1\.i2"),
    (lambda all_: [*all_, all_[0]], "not one evaluation for each slot: doubles"),
    (lambda all_: [all_[0]._replace(status="queued"), *all_[1:]], r"d1\.n0\.i0 have not ended"),
    (lambda all_: [*all_[1:], all_[0]._replace(status="running")], r"d1\.n0\.i0 have not ended"),
]


@pytest.mark.parametrize(("part", "why"), PARTIAL)
def test_a_depth_is_never_promoted_in_part(part: Callable[[list[Evaluation]], list[Evaluation]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        promoted(part(depth(GOOD)))


def test_depth_0_is_promoted_like_any_other() -> None:
    slots = slots_of(0, 2, 2)
    found = promote([good(slots[1]), Evaluation(slots[0], FAILED, "boom")], 2, slots)
    assert [slot.source for slot in found.slots] == [EvalSlot(0, 0, 1), None]
    with pytest.raises(ValueError, match="not one evaluation for each slot"):
        promote([good(slots[1])], 2, slots)


def test_depths_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="one depth at a time"):
        promote([good(EvalSlot(0, 0, 0)), good(EvalSlot(1, 0, 0))], 1, [EvalSlot(0, 0, 0), EvalSlot(1, 0, 0)])


SCORES = st.sampled_from([None, nan, -0.1, 0.0, 0.05, 0.05 + 1e-16, 0.3])
DELTAS = st.sampled_from([nan, -inf, -0.1, 0.0, 0.1, 0.1 + 1e-17, 0.2])
GRADES = st.sampled_from(["strong", "promising", "mixed", "weak"])


@st.composite
def evaluations(draw: st.DrawFn, slot: EvalSlot) -> Evaluation:
    """Most pass the gate, many tie."""
    faulty = draw(st.none() | st.sampled_from([e for e, _, _ in FAULTS]))
    e = (faulty or good())._replace(slot=slot, commit=draw(st.sampled_from([f"c-{slot}", "same"])))
    if e.score:
        found = compared(0.05, draw(DELTAS) if draw(st.booleans()) else 0.1, draw(GRADES), draw(st.booleans()))
        against_parent = e.score.parent if faulty else found
        e = e._replace(score=Score(against_parent, compared(draw(SCORES), draw(DELTAS))))
    return e


DEPTHS = st.tuples(*map(evaluations, SLOTS))


@given(DEPTHS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_promotion_does_not_depend_on_the_order_of_completion(
    all_: tuple[Evaluation, ...], rng: Random, width: int
) -> None:
    shuffled, slots = [*all_], [*SLOTS]
    rng.shuffle(shuffled)
    rng.shuffle(slots)
    # Texts, since no NaN equals another.
    assert repr(promote(shuffled, width, slots)) == repr(promoted(all_, width))


@given(DEPTHS, st.integers(1, 4))
def test_who_passed_the_gate_is_promoted_or_beaten_and_nobody_else_is_promoted(
    all_: tuple[Evaluation, ...], width: int
) -> None:
    found = promoted(all_, width)
    assert len(found.slots) == width
    assert [d.slot for d in found.decisions] == [*SLOTS]
    for e, decision in zip(all_, found.decisions, strict=True):
        assert decision.why
        assert (decision.promoted_to is None) == bool(decision.failed)
        failure = first_failed_check(e)
        assert failure == (decision.failed, decision.why) if failure else decision.failed in ("", RANK, SAME_CODE)
    places = {d.slot: d.promoted_to for d in found.decisions if d.promoted_to}
    assert places == {s.source: s.place for s in found.slots if s.source}
    assert all(slot.why for slot in found.slots)


@given(DEPTHS, st.integers(1, 4))
def test_the_beam_is_in_order_of_rank_and_ties_go_to_the_earlier_slot(all_: tuple[Evaluation, ...], width: int) -> None:
    by_slot = {e.slot: e for e in all_}
    keys = [([-x for x in rank_key(by_slot[s.source])], s.source) for s in promoted(all_, width).slots if s.source]
    assert keys == sorted(keys)
    beaten = [by_slot[d.slot] for d in promoted(all_, width).decisions if d.failed == RANK]
    assert all(([-x for x in rank_key(e)], e.slot) > keys[-1] for e in beaten)


@given(DEPTHS, st.integers(1, 4))
def test_no_code_is_promoted_twice(all_: tuple[Evaluation, ...], width: int) -> None:
    commits = [slot.commit for slot in promoted(all_, width).slots if slot.source]
    assert len({*commits}) == len(commits)


@given(DEPTHS, st.integers(1, 4))
def test_whoever_is_promoted_has_approved_code_and_a_primary_metric_no_worse(
    all_: tuple[Evaluation, ...], width: int
) -> None:
    by_slot = {e.slot: e for e in all_}
    for e in (by_slot[slot.source] for slot in promoted(all_, width).slots if slot.source):
        assert e.status == COMPLETED
        assert e.commit
        assert e.approved
        assert e.score
        assert e.score.parent.primary_delta >= 0
        assert "primary_metric_regressed" not in e.score.parent.reasons
        assert not e.defects
        assert e.rows_used == e.rows_expected > 0


# From the CSV to the decision.
ROOT_CSV = "config_id,status,sharpe,returns,drawdown\n0,ok,1,1,-1\n1,ok,0.5,2,-1\n2,ok,-3,1,-2\n"


def evaluated(slot: EvalSlot, candidate: str, limit: int | None, grid: int | None, root: str = ROOT_CSV) -> Evaluation:
    names = [metric.name for metric in RULES.metrics]
    base = read_sheet(root, names)
    wanted = expected_rows(limit, grid, base)
    before, after = check_rows(base, wanted), check_rows(read_sheet(candidate, names), wanted)
    defects = tuple(map(str, (*after.defects, *before.defects)))
    found = None if defects else score_by_means(RULES, after, before, before)
    return good(slot)._replace(defects=defects, rows_used=after.rows_used, rows_expected=len(wanted.ids), score=found)


def test_a_baseline_that_is_not_complete_promotes_nobody_either() -> None:
    root = ROOT_CSV.replace("2,ok,-3", "2,error,")
    found = promoted(depth(evaluated(SLOTS[0], ROOT_CSV.replace("-3", "9"), None, None, root)))
    assert found.decisions[0].failed == "rows"


VALUES = st.sampled_from(["-1", "0", "0.1", "0.3", "0.95", "1", "1.1", "2"])
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=3, max_size=3)
Table = list[tuple[str, str, str]]


def csv_of(table: Table, by: float) -> str:
    rows = [f"{n},ok,{','.join(repr(float(x) * by) for x in row)}\n" for n, row in enumerate(table)]
    return f"config_id,status,sharpe,returns,drawdown\n{''.join(rows)}"


# What may become of the row of one config.
Breaks = Callable[[str, str], str]
BREAKS: list[tuple[Breaks, str]] = [
    (lambda id_, row: "", "the row is missing"),
    (lambda id_, row: f"{row}{row}", "there are 2 rows"),
    (lambda id_, row: row.replace(",ok,", ",error,"), "'error' instead of ok"),
    (lambda id_, row: f"{id_},error,,,\n", "'error' instead of ok"),
    (lambda id_, row: f"{id_},ok,nan,9,-1\n", "sharpe: 'nan' is not a finite number"),
    (lambda id_, row: f"{id_},ok,9,inf,-1\n", "returns: 'inf' is not a finite number"),
    (lambda id_, row: f"{id_},ok,9,9,\n", "drawdown: '' is not a finite number"),
    (lambda id_, row: f"{id_},ok,9\n", "3 cells, the header has 5"),
]
RULED = st.sampled_from([(3, None), (3, 3), (None, 3), (None, None)])


@given(TABLES, TABLES, st.integers(0, 2), st.sampled_from(BREAKS), RULED)
def test_nobody_gets_better_by_failing_whatever_the_other_numbers(
    root: Table, table: Table, at: int, broken: tuple[Breaks, str], ruled: tuple[int | None, int | None]
) -> None:
    lines = csv_of(table, 1).splitlines(keepends=True)
    lines[1 + at] = broken[0](str(at), lines[1 + at])
    found = promoted(depth(evaluated(SLOTS[0], "".join(lines), *ruled, csv_of(root, 1))))
    assert found.empty
    assert found.decisions[0].failed == "rows"
    assert f"config {at}" in found.decisions[0].why
    assert broken[1] in found.decisions[0].why


def test_a_candidate_that_drops_its_worst_config_would_be_the_best_by_its_means() -> None:
    """The hole that completeness closes: the others are as they were at the root, their means are far better."""
    failed = ROOT_CSV.replace("2,ok,-3,1,-2", "2,error,,,")
    honest = ROOT_CSV.replace("0,ok,1,", "0,ok,2,")
    found = promoted(depth(evaluated(SLOTS[0], failed, None, 3), evaluated(SLOTS[1], honest, None, 3)))
    assert sources(found) == [str(SLOTS[1]), ""]


@given(st.tuples(*[TABLES] * 6), TABLES, st.sampled_from([1e-9, 0.3, 3.0, 1e9]))
def test_scaling_all_metrics_changes_no_decision(tables: tuple[Table, ...], root: Table, by: float) -> None:
    def decided(factor: float) -> list[tuple[object, ...]]:
        base = csv_of(root, factor)
        all_ = [evaluated(s, csv_of(t, factor), None, 3, base) for s, t in zip(SLOTS, tables, strict=True)]
        return [(d.slot, d.promoted_to, d.failed) for d in promoted(all_).decisions]

    assert decided(by) == decided(1.0)


def test_code_that_was_not_approved_is_never_promoted_however_good() -> None:
    assert promoted(depth(good(root=9.9)._replace(approved=False))).empty


def test_results_without_a_commit_are_worth_nothing() -> None:
    """The candidate is committed before its sweep: rows of no commit are rows of nobody knows what."""
    assert promoted(depth(good(root=9.9)._replace(commit=""))).empty


def test_what_was_paid_for_is_ranked_though_the_budget_cut_the_depth() -> None:
    cut = depth(good(SLOTS[0]), good(SLOTS[1], 0.4))
    cut[2] = cut[2]._replace(why="not enough of the budget is left: evals (limit 2)")
    found = promoted(cut)
    assert sources(found) == [str(SLOTS[1]), str(SLOTS[0])]
    assert stop_reason(DepthProgress(1, 5, found.empty, cut=("evals",))) == "max_total_idea_evals_reached"


STOPS = [
    (DepthProgress(0, 3, False), ""),
    (DepthProgress(1, 3, False), ""),
    (DepthProgress(2, 3, False), "max_depth_reached"),
    (DepthProgress(0, 3, True), "empty_frontier"),
    (DepthProgress(0, 3, True, stop_on_empty=False), ""),
    (DepthProgress(0, 3, False, failed=True), ""),
    (DepthProgress(0, 3, False, strict=True), ""),
    (DepthProgress(2, 3, True, failed=True, strict=True, cut=("evals",)), "strict_depth_failure"),
    (DepthProgress(2, 3, True, cut=("evals",), short=("evals",)), "max_depth_reached"),
    (DepthProgress(0, 3, True, cut=("evals",), short=("evals",)), "max_total_idea_evals_reached"),
    (DepthProgress(0, 3, True, short=("evals",)), "empty_frontier"),
    (DepthProgress(0, 3, False, short=("evals",)), "max_total_idea_evals_reached"),
    (DepthProgress(0, 3, False, short=("usd",)), "budget_usd_reached"),
    (DepthProgress(0, 3, False, short=("seconds", "tokens")), "budget_tokens_reached"),
    (DepthProgress(0, 3, False, cut=("seconds",), short=("evals",)), "budget_seconds_reached"),
]


@pytest.mark.parametrize(("progress", "reason"), STOPS)
def test_a_search_stops_for_one_reason(progress: DepthProgress, reason: str) -> None:
    assert stop_reason(progress) == reason
