"""Values at which a statement is tried: the simplest first, and never more than asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.goals.check import instances, values_of_type
from pipeline.tactics.text.goal import Hypothesis

TYPES = ["Nat", "Int", "Bool", "Prop", "List Nat", "Option Bool", "Fin 3", "Nat → Nat", "Bool → Bool → Prop", "Group"]


def variables(*types: str) -> list[Hypothesis]:
    return [Hypothesis(f"x{place}", type_) for place, type_ in enumerate(types)]


@pytest.mark.parametrize(
    ("type_", "first"),
    [
        ("Nat", ("0", "1", "2")),
        ("Int", ("0", "(1)", "(-1)")),
        ("(List Bool)", ("[]", "[true]", "[false]")),
        ("Fin 2", ("0", "1")),
        ("Bool → Bool", ("fun x => x", "fun _ => true")),
        ("Nat → Nat → Prop", ("fun x y => x = y", "fun x y => x ≠ y")),
        ("Group", ()),
        ("Fin 0", ()),
        ("Empty → Group", ()),
    ],
)
def test_values_of_a_type_begin_with_the_simplest(type_: str, first: tuple[str, ...]) -> None:
    assert values_of_type(type_)[: len(first)] == first


def test_points_begin_with_the_simplest_of_all_their_values() -> None:
    found = [tuple(value for _, value in point) for point in instances(variables("Nat", "Nat"), "", 6)]
    assert found == [("0", "0"), ("0", "1"), ("1", "0"), ("0", "2"), ("1", "1"), ("2", "0")]


def test_numbers_of_the_statement_and_those_beside_them_come_early() -> None:
    found = [point[0][1] for point in instances(variables("Nat"), "∀ n : Nat, n < 100", 8)]
    assert {"99", "100", "101"} <= set(found)


def test_what_a_type_is_put_for_counts_for_those_after_it() -> None:
    alpha = [Hypothesis("α", "Type"), Hypothesis("xs", "List α")]
    assert (("α", "Bool"), ("xs", "[true]")) in instances(alpha, "", 10)
    assert (("n", "3"), ("i", "2")) in instances([Hypothesis("n", "Nat"), Hypothesis("i", "Fin n")], "", 40)


def test_only_variables_in_front_get_values() -> None:
    assert instances(variables("Nat", "Group", "Nat"), "", 3) == [(("x0", "0"),), (("x0", "1"),), (("x0", "2"),)]
    assert instances([], "", 5) == [()]


@given(st.lists(st.sampled_from(TYPES), max_size=6), st.integers(1, 40))
def test_no_more_points_than_asked_for_and_none_twice(types: list[str], most: int) -> None:
    found = instances(variables(*types), "", most)
    assert 1 <= len(found) <= most
    assert len(set(found)) == len(found)
