"""An explanation has each check with its number, and the smallest change that would have passed it."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kit.project import Project
from kit.searches import TESTED, Search, adding, agent, idea
from test_tree_beam import FAULTS, GOOD, RULES, SLOTS, depth, good
from test_tree_paired import search as search_by_blocks

from pipeline.errors import UNAVAILABLE
from pipeline.tree.report.explain import CHECK_NUMBERS, UNTESTED_NEEDS, CheckExplanation, explain_gate, explain_ranking
from pipeline.tree.rules.beam import GATE_CHECKS, Evaluation, first_failed_check, promote
from pipeline.tree.rules.scoring import (
    Comparison,
    MeansConstants,
    Metric,
    MetricComparison,
    Score,
    ScoringRules,
    judge_details,
    metric_weight,
)

IDEAS = {
    "a-best": "gain=14",
    "b-worse": "gain=9",
    "c-broken": "# broken",
    "d-bad": "bad='0 2'",
    "e-risky": "gain=30 risk=8",
    "f-good": "gain=12",
    "g-again": "gain=14",
    "h-twice": "gain=16",
    "i-riskier": "risk=7",
}


CHANGED = "--- a/README\n+++ b/README\n@@ -1 +1 @@\n-A model.\n+A better one.\n"


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    found = Search(Project(tmp_path_factory.mktemp("search") / "project"), IDEAS, **TESTED)
    found.idea("h-twice", "gain=16", text=idea("a-best"))
    found.project.write("ideas/g-again/change.patch", adding("plus/a-best", "gain=14"))
    found.build()
    return found


def explained(found: Search, slot: str) -> dict[str, Any]:
    said = found.project.call("explain", f"x:{slot}", "--json")
    assert said.code == 0, said
    made: dict[str, Any] = json.loads(said.out)
    return made


def failed(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in told["checks"] if each["passed"] is False}


REFUSED: list[tuple[str, str, list[str], str, float | None]] = [
    ("d0.n0.i1", "primary", ["primary", "recommended", "rank"], "gain 1 higher", 1.0),
    ("d0.n0.i2", "completed", ["tests", "completed"], "an end with 0, not with 1", None),
    ("d0.n0.i3", "rows", ["rows", "rows_used"], "2 more", -2),
    ("d0.n0.i4", "recommended", ["guard risk", "recommended"], "risk 2.5 lower", 0.5),
    ("d0.n0.i5", "rank", ["rank"], "more than +0.218182 (d0.n0.i0 has that): +0.109091", 0.109090909091),
    ("d0.n0.i6", "same_code", ["same_code", "rank"], "other code", None),
    ("d0.n0.i7", "completed", ["assigned", "completed"], "another idea than d0.n0.i0's", None),
    ("d0.n0.i8", "recommended", ["guard risk", "recommended", "rank"], "risk 1.5 lower", 0.3),
]


@pytest.mark.parametrize(("slot", "check", "all_", "needs", "change"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_was_not_passed_is_told_with_the_smallest_change_that_would_do(
    search: Search, slot: str, check: str, all_: list[str], needs: str, change: float | None
) -> None:
    told = explained(search, slot)
    assert (told["promoted_to"], told["failed_check"]) == (None, check)
    assert [*failed(told)] == all_
    first = failed(told)[all_[0]]
    assert first["needs"] == needs
    assert first["change"] == (change and pytest.approx(change))
    said = search.project.call("explain", f"x:{slot}").out
    assert said.splitlines()[0].endswith(f": not promoted: {check}")
    assert f"needs {needs}" in said
    assert said.count("FAILED") == len(all_)


def test_of_what_was_promoted_it_is_told_whom_it_beat_and_by_how_much(search: Search) -> None:
    told = explained(search, "d0.n0.i0")
    assert (told["promoted_to"], told["next"]) == ("d1.n0", "d0.n0.i6")
    assert failed(told) == {}
    beaten = {each["evaluation"]: each["failed_check"] for each in told["others"]}
    assert beaten == {slot: check for slot, check, *_ in REFUSED}
    said = search.project.call("explain", "x:d0.n0.i0").out
    assert "ahead of d0.n0.i6 as the better by its primary metric, or the earlier slot" in said
    assert "  d0.n0.i2: completed: failed: tests: exit status 1" in said


@pytest.mark.parametrize("word", ["x:d0.n0.i1.score", "x:d0.n0.i1.sweep", "x:d0.n0.i1.implement"])
def test_an_evaluation_goes_by_the_names_of_its_targets(search: Search, word: str) -> None:
    assert search.project.call("explain", word) == search.project.call("explain", "x:d0.n0.i1")


WRONG = {
    "x": "'x' is no evaluation; there are x:d0.n0.i0 to x:d0.n0.i8",
    "x:d0.n0": "'x:d0.n0' is no evaluation; there are x:d0.n0.i0 to x:d0.n0.i8",
    "x:d0.n0.i9": "'x:d0.n0.i9' is no evaluation; there are x:d0.n0.i0",
    "x:d0.n0.i1.wine": "'x:d0.n0.i1.wine' is no evaluation",
    "z:d0.n0.i1": "there is no run 'z'",
    "y:d0.n0.i1": "specs/y.yaml:1: kind: steps decides nothing that `explain` could tell of",
}


@pytest.mark.parametrize("word", WRONG)
def test_what_is_no_evaluation_is_refused_in_one_line(search: Search, word: str) -> None:
    search.project.spec("y", "kind: steps\nsteps: {a: {run: 'touch {out}', writes: a}}\n")
    said = search.project.call("explain", word)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"coppice: {WRONG[word]}")
    assert said.err.count("\n") == 1
    assert search.project.call("explain").code == 2


def test_what_is_not_scored_or_not_decided_yet_says_so(project: Project) -> None:
    found = Search(project, {"a": "gain=12", "b": "gain=11"})
    said = found.project.call("explain", "x:d0.n0.i0")
    assert (said.code, said.err) == (2, "coppice: x:d0.n0.i0 has not been scored yet; `coppice x` builds it\n")
    found.build("x:d0.n0.i0.score")
    told = explained(found, "d0.n0.i0")
    assert told["why"] == "not decided yet: 1 of 2 evaluations of the depth have not ended"
    assert [each["check"] for each in told["checks"]][-1] == "recommended"
    found.build()
    assert explained(found, "d0.n0.i0")["promoted_to"] == "d1.n0"


def test_what_stopped_before_its_score_says_what_failed(project: Project) -> None:
    found = Search(project, {"a": "gain=12"})
    found.spec(roles={**found.keys["roles"], "coder": {"backend": "command", "run": ["no-such-program"]}})
    found.build(code=UNAVAILABLE)
    said = project.call("explain", "x:d0.n0.i0")
    why = "coder: cannot start 'no-such-program': No such file or directory"
    assert said.err.startswith(f"coppice: x:d0.n0.i0 has no score: x:d0.n0.i0.implement did not end: {why}")
    assert said.code == 2


def test_a_decision_is_explained_by_the_spec_it_was_made_by(project: Project) -> None:
    found = Search(project, {"a": "gain=12"})
    found.build()
    before = found.project.call("explain", "x:d0.n0.i0").out
    found.spec(score={"explore": 0.9, "promising": 0.9, "strong": 0.9, "mixed": 0.8})
    assert (
        found.project.call("explain", "x:d0.n0.i0").out == f"{before}  It was decided by another spec than today's.\n"
    )


def test_scores_that_are_newer_than_the_decision_are_not_explained_by_it(project: Project) -> None:
    found = Search(project, {"a": "gain=12"})
    found.build()
    found.spec(score={"explore": 0.9, "promising": 0.9, "strong": 0.9, "mixed": 0.8})
    found.build("x:d0.n0.i0.score")
    told = explained(found, "d0.n0.i0")
    assert (told["promoted_to"], told["why"]) == (None, "not decided yet by these scores")


def test_code_that_the_reviewer_did_not_approve_is_told(project: Project) -> None:
    project.write("agent.reviewer", "echo 'VERDICT: REJECT'\n")
    found = Search(project, {"a": "gain=12"})
    found.spec(roles={**found.keys["roles"], "reviewer": agent("reviewer")})
    found.build()
    told = failed(explained(found, "d0.n0.i0"))
    assert [*told] == ["implemented", "completed", "approved"]
    assert told["implemented"]["what"] == "the reviewer did not approve it"
    assert told["approved"]["needs"] == "an approval, or `proceed_on_max_review_rounds`"


def test_each_check_before_the_sweep_is_told_by_itself(project: Project) -> None:
    checks = {"shape": {"run": "test -e plus"}, "lint": {"run": "! grep -q tab plus/*"}}
    found = Search(project, {"a": "gain=12 # tab", "b": "gain=20"}, checks=checks, protect=["README"])
    found.project.write("ideas/b/change.patch", CHANGED)
    found.build()
    told = explained(found, "d0.n0.i0")
    assert next(each["passed"] for each in told["checks"] if each["check"] == "check shape")
    assert [*failed(told)] == ["checks", "check lint", "completed"]
    assert failed(told)["check lint"]["needs"] == "an end with 0, not with 1"
    void = failed(explained(found, "d0.n0.i1"))
    assert [*void] == ["protected", "completed"], "no check has run"
    assert void["protected"]["what"].startswith("void: ")
    assert void["protected"]["needs"] == "a change that leaves alone what is protected"


# -- by blocks


def test_a_verdict_by_blocks_is_told_with_its_evidence(project: Project) -> None:
    found = search_by_blocks(project)
    found.build()
    assert failed(explained(found, "d0.n0.i0")) == {}
    lucky = failed(explained(found, "d0.n0.i1"))
    assert [*lucky] == ["chance", "recommended", "rank"]
    evidence = explained(found, "d0.n0.i1")["evidence"]
    critical = found.record("depths/0/weighed.json")["tests"]["parent"]["critical"]
    assert lucky["chance"]["threshold"] == pytest.approx(critical * evidence["se"])
    assert lucky["chance"]["change"] == pytest.approx(critical * evidence["se"] - evidence["mean"])
    risky = failed(explained(found, "d0.n0.i2"))
    assert [*risky] == ["guard risk", "recommended", "rank"]
    assert risky["guard risk"]["needs"] == "0.5 less of a loss, or a margin of more than 1"
    # risk is better lower: its change has the sign that it has in the summary
    assert "changed by +1, at worst by +1; +0.5 is allowed" in risky["guard risk"]["what"]
    assert [*failed(explained(found, "d0.n0.i3"))][:3] == ["primary", "chance", "effect"]
    said = found.project.call("explain", "x:d0.n0.i1").out
    assert "20 blocks; an effect of " in said
    assert "against an alpha of 0.05" in said


@pytest.mark.parametrize(("idea", "what"), [("gain=0", "identical"), ("gain=2", "degenerate")])
def test_what_could_not_be_tested_is_told_with_what_it_lacks(project: Project, idea: str, what: str) -> None:
    found = search_by_blocks(project, {"a": idea})
    found.build()
    refused = failed(explained(found, "d0.n0.i0"))
    assert (refused["chance"]["what"], refused["chance"]["needs"]) == (f"not tested: {what}", UNTESTED_NEEDS[what])
    assert ("effect" in refused) == (what == "identical")
    if what == "identical":
        assert refused["effect"]["what"].endswith(" any gain is worth having")
        assert refused["effect"]["needs"] == "any gain"


def test_too_few_blocks_and_too_small_an_effect_are_told(project: Project) -> None:
    found = search_by_blocks(project, blocks=4)
    found.build()
    few = failed(explained(found, "d0.n0.i0"))["blocks"]
    assert (few["number"], few["threshold"], few["change"], few["needs"]) == (4, 5, 1, "1 more")
    found = search_by_blocks(Project(project.root / "other"), score={"smallest_effect": 1.9})
    found.build()
    assert failed(explained(found, "d0.n0.i0"))["effect"]["change"] == pytest.approx(1.9 - 1.8557, abs=1e-3)


# -- laws


@pytest.mark.parametrize(("faulty", "check"), [fault[:2] for fault in FAULTS])
def test_each_check_of_the_gate_is_told_as_the_gate_has_it(faulty: Evaluation, check: str) -> None:
    told = [each for each in explain_gate(faulty, RULES) if each.passed is False]
    assert told[0].check == check
    assert {*CHECK_NUMBERS} == {name for name, _ in GATE_CHECKS}
    assert all(each.passed for each in explain_gate(GOOD, RULES))


METRICS = (Metric("gain"), Metric("loss", "lower", guard=True), Metric("time", "lower"))
PLAIN = ScoringRules("gain", METRICS)
NUMBERS = st.integers(-40, 40).map(lambda n: n / 100)


def told_of(found: Comparison) -> dict[str, CheckExplanation]:
    e = GOOD._replace(score=Score(found, found), rows_used=found.rows_used, rows_expected=found.rows_used)
    return {each.check: each for each in explain_gate(e, ScoringRules("gain", METRICS))}


def compared(relatives: list[float], rules: ScoringRules = PLAIN) -> Comparison:
    rows = zip(METRICS, relatives, strict=True)
    details = [
        MetricComparison(m.name, m.better, metric_weight(rules, m), m.guard, 10.0, 10 + r, 10 * r, r) for m, r in rows
    ]
    return judge_details(rules, tuple(details), 3)


@given(st.lists(NUMBERS, min_size=3, max_size=3))
def test_the_change_that_is_told_is_the_smallest_that_passes(relatives: list[float]) -> None:
    found = told_of(compared(relatives))
    if not found["primary"].passed:
        assert compared([relatives[0] + (found["primary"].change or 0) / 10, *relatives[1:]]).primary_delta >= -1e-12
        assert found["primary"].change == pytest.approx(-10 * relatives[0])
    guard = found["guard loss"]
    if not guard.passed:
        assert guard.change is not None
        for part, passes in ((1 + 1e-9, True), (0.99, False)):
            moved = compared([relatives[0], relatives[1] + part * guard.change, relatives[2]])
            assert ("risk_regressed:loss" not in moved.reasons) == passes


@given(st.lists(NUMBERS, min_size=3, max_size=3))
def test_the_score_that_is_told_is_the_least_that_is_recommended(relatives: list[float]) -> None:
    before = compared(relatives)
    change = told_of(before)["recommended"].change
    assume(not told_of(before)["recommended"].passed and change is not None)
    assert change is not None
    for part, passes in ((1 + 1e-9, True), (0.99, False)):
        rules, total = ScoringRules("gain", METRICS), round((before.score or 0) + part * change, 12)
        blocked = any(reason.startswith("risk") for reason in before.reasons)
        grade = "mixed" if -0.02 <= total < 0.03 else "promising" if total >= 0.03 else "weak"
        moved = before._replace(score=total, grade=grade, should_explore=total >= 0.03 and not blocked)
        told = {each.check: each for each in explain_gate(GOOD._replace(score=Score(moved, moved)), rules)}
        assert told["recommended"].passed == passes


@pytest.mark.parametrize(
    ("relatives", "needs", "change"),
    [
        ([0.3, -0.2, 0.0], "no loss of loss beyond what is allowed, and a score of 0.5", None),
        ([2.0, -0.2, 0.0], "no loss of loss beyond what is allowed", None),
        ([0.2, 0.0, 0.0], "a score of 0.5: +0.414286; or 1 of the metrics that are the same better", 0.414285714286),
    ],
)
def test_what_is_worth_exploring_only_from_higher_on(relatives: list[float], needs: str, change: float | None) -> None:
    """Above `promising` it is not mixed any more."""
    rules = ScoringRules("gain", METRICS, MeansConstants(explore=0.5))
    found = compared(relatives, rules)
    told = {each.check: each for each in explain_gate(GOOD._replace(score=Score(found, found)), rules)}
    assert (told["recommended"].needs, told["recommended"].change) == (needs, change and pytest.approx(change))


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=6, max_size=6), st.integers(1, 3))
def test_ranks_are_told_as_they_were_decided(roots: list[float], width: int) -> None:
    evaluations = [good(slot, root) for slot, root in zip(SLOTS, roots, strict=True)]
    promotion = promote(evaluations, width, SLOTS)
    for e, decision in zip(evaluations, promotion.decisions, strict=True):
        told = {each.check: each for each in explain_ranking(e, evaluations, width)}
        assert told["rank"].passed == (decision.promoted_to is not None)
        if not told["rank"].passed:
            assert told["rank"].change is not None
            raised = good(e.slot, round(roots[SLOTS.index(e.slot)] + told["rank"].change + 1e-9, 12))
            others = [raised if other.slot == e.slot else other for other in evaluations]
            again = promote(others, width, SLOTS)
            assert next(d for d in again.decisions if d.slot == e.slot).promoted_to is not None


@pytest.mark.parametrize(("place", "tie"), [(0, "at least"), (1, "more than")])
def test_where_scores_are_alike_the_primary_metric_is_told(place: int, tie: str) -> None:
    better, worse = good(SLOTS[1 - place], 0.1), good(SLOTS[place], 0.1)
    assert worse.score
    worse = worse._replace(score=worse.score._replace(root=worse.score.root._replace(primary_delta=0.04)))
    told = {each.check: each for each in explain_ranking(worse, [better, worse], 1)}["rank"]
    assert told.change == 0
    assert told.needs == f"{tie} 0.06 more of the primary metric against the root, as {better.slot} has"


def test_of_one_that_failed_the_gate_it_is_told_where_it_would_have_come() -> None:
    wrong = GOOD._replace(approved=False)
    told = {each.check: each for each in explain_ranking(wrong, depth(wrong, good(SLOTS[1], 0.01)), 1)}
    assert first_failed_check(wrong)
    assert told["rank"].passed


# -- records that are not as they were written


def test_records_that_were_changed_explain_nothing(project: Project) -> None:
    found = Search(project, {"a": "gain=12"}, **TESTED)
    found.build()
    path = "runs/x/depths/0/promoted.json"
    promoted = project.read(path)
    project.write(path, "{")
    assert explained(found, "d0.n0.i0")["why"] == "not decided yet by these scores"
    project.write(path, promoted)
    for name in ("test.json", "candidate.json"):
        project.write(f"runs/x/eval/d0.n0.i0/{name}", "{")
    assert "tests" not in [each["check"] for each in explained(found, "d0.n0.i0")["checks"]]
    project.write("runs/x/eval/d0.n0.i0/summary.json", "{}")
    said = project.call("explain", "x:d0.n0.i0")
    assert said.code == 2
    assert said.err.startswith("coppice: runs/x/eval/d0.n0.i0/summary.json was changed since it was written;")


def test_steps_that_the_spec_no_longer_has_are_not_told(project: Project) -> None:
    found = Search(project, {"a": "gain=12"}, **TESTED)
    found.build()
    assert "tests" in [each["check"] for each in explained(found, "d0.n0.i0")["checks"]]
    found.spec(tests=None)
    found.build()
    assert (project.root / "runs/x/eval/d0.n0.i0/test.json").exists()
    assert "tests" not in [each["check"] for each in explained(found, "d0.n0.i0")["checks"]]
