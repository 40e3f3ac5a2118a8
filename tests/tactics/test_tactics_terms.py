"""Arithmetic as Lean prints it: read, written so that it reads the same, computed as Lean computes."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.tactics.text import syntax, terms
from pipeline.tactics.text.terms import Leaf, Number, Operation

LEAVES = ("x", "y", "f 2")
small = st.integers(min_value=0, max_value=6)
atoms = st.one_of(small.map(Number), st.sampled_from(LEAVES).map(Leaf))


def combined(signs: str) -> st.SearchStrategy[terms.Term]:
    def grown(inner: st.SearchStrategy[terms.Term]) -> st.SearchStrategy[terms.Term]:
        two = st.builds(lambda sign, a, b: Operation(sign, (a, b)), st.sampled_from(signs), inner, inner)
        raised = st.builds(lambda a, n: Operation("^", (a, Number(n))), inner, st.integers(1, 3))
        return st.one_of(two, raised)

    return st.recursive(atoms, grown, max_leaves=6)


assignments = st.fixed_dictionaries(dict.fromkeys(LEAVES, small))


@given(combined("+-*/%"))
def test_a_term_that_is_written_reads_as_itself(term):
    assert terms.read_term(terms.term_text(term)) == term


@given(combined("+-*"), assignments)
def test_polynomials_have_the_value_of_their_terms(term, known):
    form = terms.polynomial(term, kind="Int")
    total = sum(
        factor * math.prod(known[name] ** times for name, times in monomial) for monomial, factor in form.items()
    )
    assume(abs(total) < terms.LARGEST_VALUE)
    assert total == terms.evaluate(term, known, kind="Int")


@pytest.mark.parametrize(
    ("text", "value"), [("2 - 5 + 1", 1), ("7 / 0", 0), ("7 % 0", 7), ("2 ^ 3 ^ 2", 512), ("10 - 2 - 3", 5)]
)
def test_naturals_are_computed_as_lean_does(text, value):
    assert terms.constant_value(terms.read_term(text)) == value


def test_division_of_integers_leaves_no_negative_rest():
    assert terms.evaluate(terms.read_term("(-7) % 2"), {}, kind="Int") == 1
    assert terms.evaluate(terms.read_term("(-7) / 2"), {}, kind="Int") == -4


def test_a_natural_that_is_subtracted_is_not_looked_into():
    assert terms.leaf_names(terms.polynomial(terms.read_term("x - y"))) == ["x - y"]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("p → q ∨ r", "→"),
        ("¬p ∧ q", "∧"),
        ("∀ x, p x → q", "∀"),
        ("(p → q)", "→"),
        ("a ∣ b", "∣"),
        ("p ∧ ∃ x, q x ∨ r", "∧"),
        ("f (a = b)", ""),
    ],
)
def test_the_weakest_connective_is_found(text, sign):
    assert syntax.connective(text) == sign


def test_what_a_quantifier_reaches_is_not_cut():
    assert syntax.split_at("p ∧ ∃ x, q x ∧ r", "∧") == ["p", "∃ x, q x ∧ r"]


def test_bound_variables_come_without_their_types():
    assert syntax.bound_variables("∃ (x : Nat) (y : Int), x = y") == (["x", "y"], "x = y")
