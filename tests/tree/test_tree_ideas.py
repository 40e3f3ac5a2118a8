"""Idea texts, and which slot of a depth tries which."""

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.assignment import (
    DEDUPE_SCOPES,
    DUPLICATE,
    NO_BUDGET,
    NO_IDEA,
    NO_NODE,
    SECTIONS,
    Assignment,
    FrontierPlace,
    PastIdea,
    assign_ideas,
    idea_identity,
    idea_similarity,
    normal_text,
    parse_idea,
)
from pipeline.tree.rules.budget import BudgetLedger, BudgetLimits, Ceiling, Spending, committed_spending
from pipeline.tree.rules.positions import ROOT, EvalSlot, NodePlace, parse_slot, slots_of

TEXT = "IDEA: Skip a month\nRATIONALE: reversal\nREQUIRED_CHANGES:\n- shift\n  by one\n"


def test_texts_that_differ_only_in_blanks_bullets_and_capitals_are_the_same_idea() -> None:
    assert (
        normal_text("  Add a Signal\r\n\r\n* first\n•  second\r\t+ third\n-x\n")
        == "add a signal\n- first\n- second\n- third\n-x"
    )
    assert idea_identity("A\n* b") == idea_identity("\n a \r\n\n-  B\n\n") == sha256(b"a\n- b").hexdigest()
    assert idea_identity("*a") != idea_identity("- a")
    assert idea_identity("a b") != idea_identity("a\nb")


@given(st.text(alphabet="aA -*•\n\r\t\ud800", max_size=12))
def test_the_normal_form_is_its_own_normal_form_but_for_bullets_of_bullets(text: str) -> None:
    lines = normal_text(text).split("\n")
    assert not [line for line in lines if line != line.strip()]
    assert normal_text(text) == normal_text(f"\r\n{text}\n \n") == normal_text(text.upper())
    assert len(idea_identity(text)) == 64


def test_an_idea_has_its_three_sections() -> None:
    assert parse_idea(TEXT) == (dict(zip(SECTIONS, ("Skip a month", "reversal", "- shift\n  by one"), strict=True)), ())


def test_an_introduction_and_the_marks_that_models_add_are_no_defect() -> None:
    text = "Here it is.\n\n**IDEA:** **Skip** it\n## RATIONALE: why\n**REQUIRED CHANGES**: all\n"
    assert parse_idea(text).sections == dict(zip(SECTIONS, ("**Skip** it", "why", "all"), strict=True))


DEFECTS = [
    (
        TEXT.replace("RATIONALE:", "Rationale:"),
        "RATIONALE is missing; an idea has the sections IDEA:, RATIONALE:, REQUIRED_",
    ),
    (TEXT.replace(" reversal", ""), "RATIONALE is empty; "),
    (TEXT + "IDEA: another\n", "line 6: IDEA is given twice; a text is one idea"),
    ("", "IDEA is missing; "),
    ("A plain sentence.", "REQUIRED_CHANGES is missing; "),
]


@pytest.mark.parametrize(("text", "what"), DEFECTS)
def test_what_is_no_idea_says_which_section_is_wrong(text: str, what: str) -> None:
    found = parse_idea(text)
    assert not found.sections
    assert any(defect.startswith(what) for defect in found.defects)


@given(st.lists(st.sampled_from(["IDEA:", "IDEA: x", "RATIONALE: y", "REQUIRED_CHANGES: z", "w", ""]), max_size=6))
def test_a_text_is_an_idea_or_has_defects(lines: list[str]) -> None:
    found = parse_idea("\n".join(lines))
    assert (not found.sections) == bool(found.defects)
    assert all(found.sections.values())


A, B = NodePlace(1, 0), NodePlace(1, 1)
FRONTIER = (FrontierPlace(A, (ROOT,)), FrontierPlace(B, (ROOT,)))
# The root tried p; d0.n1 is on no branch of the frontier and tried q.
TRIED = (PastIdea(EvalSlot(0, 0, 0), idea_identity("p")), PastIdea(EvalSlot(0, 1, 0), idea_identity("q")))


def assigned(
    scope: str = "node_plus_ancestors",
    a: Sequence[str] = (),
    b: Sequence[str] = (),
    ledger: BudgetLedger | None = None,
    frontier: Sequence[FrontierPlace] = FRONTIER,
    tried: Sequence[PastIdea] = TRIED,
) -> Assignment:
    return assign_ideas(
        frontier, {A: a, B: b}, ledger or BudgetLedger(), scope, ideas_per_node=3, ceiling=Ceiling(usd=0.5), tried=tried
    )


def outcome(assignment: Assignment) -> list[str]:
    return [
        task.idea or " of ".join(filter(None, [task.empty, str(task.duplicate_of or "")])) for task in assignment.tasks
    ]


# Node a gets p, x, X; node b gets q, x, y.
EXPECTED = {
    "node_plus_ancestors": ["duplicate of d0.n0.i0", "x", "duplicate of d1.n0.i1", "q", "x", "y"],
    "global": [
        "duplicate of d0.n0.i0",
        "x",
        "duplicate of d1.n0.i1",
        "duplicate of d0.n1.i0",
        "duplicate of d1.n0.i1",
        "y",
    ],
    "none": ["p", "x", "X", "q", "x", "y"],
}


@pytest.mark.parametrize("scope", DEDUPE_SCOPES)
def test_a_duplicate_leaves_its_slot_empty_and_names_the_first(scope: str) -> None:
    assert outcome(assigned(scope, ["p", "x", "X"], ["q", "x", "y"])) == EXPECTED[scope]


def test_a_duplicate_of_a_duplicate_names_the_one_that_is_tried() -> None:
    found = assigned(a=["x", "x", "x"])
    assert [task.duplicate_of for task in found.tasks[:3]] == [None, EvalSlot(1, 0, 0), EvalSlot(1, 0, 0)]


def test_the_first_of_those_tried_before_is_named_in_whatever_order_they_come() -> None:
    again = (PastIdea(EvalSlot(0, 0, 2), idea_identity("p")), *TRIED)
    assert assigned(a=["p"], tried=again).tasks[0].duplicate_of == EvalSlot(0, 0, 0)


def test_a_slot_without_a_node_or_an_idea_says_so() -> None:
    closed = (FRONTIER[0], FrontierPlace(B, closed="1 of 3 evaluations passed the gate"))
    found = assigned(a=["x", " \n"], b=["y"], frontier=closed)
    assert outcome(found) == ["x", NO_IDEA, NO_IDEA, NO_NODE, NO_NODE, NO_NODE]
    assert found.tasks[1].why == "d1.n0 has no idea number 1"
    assert found.tasks[3].why == "d1.n1: 1 of 3 evaluations passed the gate"


def test_a_node_that_is_closed_is_not_expanded() -> None:
    stopped = [ground._replace(closed="strict_depth_failure") for ground in FRONTIER]
    assert {task.why for task in assigned(a=["x"], frontier=stopped).tasks} == {
        "d1.n0: strict_depth_failure",
        "d1.n1: strict_depth_failure",
    }


def test_the_budget_goes_to_the_earlier_slots_and_duplicates_take_none_of_it() -> None:
    found = assigned(a=["x", "x", "y"], b=["z", "w"], ledger=BudgetLedger(BudgetLimits(evals=3)))
    assert outcome(found) == ["x", "duplicate of d1.n0.i0", "y", "z", NO_BUDGET, NO_IDEA]
    assert found.tasks[4].why == "not enough of the budget is left: evals (limit 3)"
    assert found.cut == ("evals",)
    assert [*found.ledger.reserved] == ["d1.n0.i0", "d1.n0.i2", "d1.n1.i0"]


def test_what_earlier_depths_have_spent_is_not_there_any_more() -> None:
    before = BudgetLedger(
        BudgetLimits(evals=9, usd=2), spent={"d0.n0.i0": Spending(1, 1.2), "d0.n0.i1": Spending(1, 0.1)}
    )
    found = assigned(a=["x", "y"], ledger=before)
    assert outcome(found)[:2] == ["x", NO_BUDGET]
    assert found.cut == ("usd",)


def test_an_idea_that_was_not_tried_for_want_of_budget_is_no_duplicate_below() -> None:
    found = assigned(a=["x", "y"], ledger=BudgetLedger(BudgetLimits(evals=1)))
    assert found.past_ideas == (PastIdea(EvalSlot(1, 0, 0), idea_identity("x"), "x"),)


def test_more_ideas_than_slots_are_a_mistake_of_the_caller_and_none_is_dropped_in_silence() -> None:
    with pytest.raises(ValueError, match=r"d1\.n0: 4 ideas for 3 slots"):
        assigned(a=["1", "2", "3", "4"])


TEXTS = st.lists(st.sampled_from(["p", "q", "x", "X ", "* x", "- x", "y", "", " \n"]), max_size=3)
GROUNDS = st.permutations(FRONTIER).flatmap(lambda f: st.sampled_from([f, [f[0], f[1]._replace(closed="empty")]]))
SCOPE = st.sampled_from([*DEDUPE_SCOPES])
LIMITS = st.builds(BudgetLimits, st.none() | st.integers(0, 4), st.sampled_from([None, 0.0, 0.4, 0.5, 1.5]))


@given(GROUNDS, SCOPE, TEXTS, TEXTS, LIMITS)
def test_every_slot_of_a_depth_is_assigned_in_order_to_an_idea_or_to_a_reason(
    frontier: list[FrontierPlace], scope: str, a: list[str], b: list[str], limits: BudgetLimits
) -> None:
    found = assigned(scope, a, b, BudgetLedger(limits), frontier)
    assert tuple(task.slot for task in found.tasks) == slots_of(1, 2, 3)
    for task in found.tasks:
        assert bool(task.idea) != bool(task.empty)
        assert bool(task.empty) == bool(task.why)
        assert (task.empty == DUPLICATE) == (task.duplicate_of is not None)
        assert (task.empty == NO_BUDGET) == bool(task.lacking)
    assert {parse_slot(name) for name in found.ledger.reserved} == {task.slot for task in found.tasks if task.idea}
    assert found == assigned(scope, a, b, BudgetLedger(limits), sorted(frontier))


@given(SCOPE, TEXTS, TEXTS, LIMITS)
def test_no_idea_is_tried_twice_within_its_scope(scope: str, a: list[str], b: list[str], limits: BudgetLimits) -> None:
    found = assigned(scope, a, b, BudgetLedger(limits))
    names = [(task.identity, task.slot.place) for task in found.tasks if task.idea]
    if scope == "node_plus_ancestors":
        assert len({*names}) == len(names)
        assert idea_identity("p") not in {name for name, _ in names}
    if scope == "global":
        assert len({name for name, _ in names}) == len(names)
        assert not {idea_identity("p"), idea_identity("q")} & {name for name, _ in names}
    for task in found.tasks:
        if task.duplicate_of:
            assert task.duplicate_of < task.slot
            first = [t for t in found.tasks if t.slot == task.duplicate_of]
            assert task.identity in [*(t.identity for t in first if t.idea), *(t.identity for t in TRIED)]
        assert scope != "none" or task.empty != DUPLICATE


@given(SCOPE, TEXTS, TEXTS, LIMITS)
def test_assigning_never_reserves_more_than_there_is(
    scope: str, a: list[str], b: list[str], limits: BudgetLimits
) -> None:
    used = committed_spending(assigned(scope, a, b, BudgetLedger(limits)).ledger)
    assert limits.evals is None or used.evals <= limits.evals
    assert limits.usd is None or used.usd <= limits.usd


def proposal(idea: str, why: str, change: str) -> str:
    return f"IDEA: {idea}\nRATIONALE: {why}\nREQUIRED_CHANGES:\n- {change}\n"


CLIP = "Clip the gradients to a norm of 1.0 before each step of the optimizer"
FIRST = proposal(CLIP, "they explode", "train.py: call clip_grad_norm_ before step")
NEARLY = proposal(CLIP, "training is unstable in the noisy folds", "train.py: call clip_grad_norm before step")
OTHER = proposal("Standardize features by fold", "scales differ", "data.py: fit a scaler on the training rows")


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_is_symmetric_and_one_for_equal_ideas(one: str, other: str) -> None:
    assert idea_similarity(one, other) == idea_similarity(other, one)
    assert idea_similarity(one, one) == 1.0
    assert 0 <= idea_similarity(one, other) <= 1


def test_an_idea_nearly_the_same_as_an_earlier_one_is_not_tried_whatever_its_reasons() -> None:
    def tasks(similar: float | None, scope: str = "node_plus_ancestors") -> list[str]:
        found = assign_ideas(
            FRONTIER, {A: [NEARLY, OTHER, FIRST], B: [FIRST, OTHER]}, BudgetLedger(), scope,
            ideas_per_node=3, ceiling=Ceiling(), tried=[PastIdea(EvalSlot(0, 0, 0), idea_identity(FIRST), FIRST)],
            similar=similar,
        )  # fmt: skip
        return [task.why or "tried" for task in found.tasks]

    likeness = f"{idea_similarity(FIRST, NEARLY):.2f}"
    alike, same, none = f"similar to d0.n0.i0 ({likeness})", "the same idea as d0.n0.i0", "d1.n1 has no idea number 2"
    assert 0.7 < float(likeness) < 1
    assert tasks(0.7) == [alike, "tried", same, same, "tried", none]
    assert tasks(0.99) == tasks(None) == ["tried", "tried", same, same, "tried", none]
    assert tasks(0.7, "global")[4] == "the same idea as d1.n0.i1"
