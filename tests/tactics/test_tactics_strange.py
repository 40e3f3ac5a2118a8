"""Goals of every kind, put together at random: whatever Lean prints, moves are proposed for it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.tactics import moves
from pipeline.tactics.text import goal

TYPES = ("Nat", "Int", "Bool", "Prop", "List Nat", "Nat → Nat", "Nat → Int", "Nat → Prop", "α", "Fin 3", "Weekday")
ATOMS = ("a", "b", "c", "d", "↑a", "f 2", "f (a + 1)", "xs.length", "a.gcd b", "Nat.lcm a 12", "0", "1", "7", "2003")
SIGNS = ("+", "-", "*", "/", "%", "^", "∣")
RELATIONS = ("=", "≠", "≤", "<", "≥", ">", "∣", "↔", "∈")
WHOLE = ("¬({0})", "({0}) ∧ {1}", "({0}) ∨ {1}", "({0}) → {1}", "∃ k, {0}", "∀ (n : Nat), {0}", "∀ n ≥ 2, {0}", "{0}")
names = st.sampled_from(("a", "b", "c", "d", "f", "xs", "n✝", "h"))


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda a, sign, b: f"({a} {sign} {b})", inner, st.sampled_from(SIGNS), inner)


terms = st.recursive(st.sampled_from(ATOMS), joined, max_leaves=5)
plain = st.builds(lambda a, sign, b: f"{a} {sign} {b}", terms, st.sampled_from(RELATIONS), terms)
propositions = st.recursive(
    st.one_of(plain, st.sampled_from(("p", "True", "False", "p a", "?m = 1", "if a = 0 then b else c"))),
    lambda inner: st.builds(lambda shape, a, b: shape.format(a, b), st.sampled_from(WHOLE), inner, inner),
    max_leaves=4,
)
hypotheses = st.one_of(
    st.builds(lambda name, kind: f"{name} : {kind}", names, st.sampled_from(TYPES)),
    st.builds(lambda number, said: f"h{number} : {said}", st.integers(0, 9), propositions),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(hypotheses, max_size=6), propositions)
def test_moves_are_proposed_for_whatever_is_printed(given_facts, target):
    read = goal.read_goal("\n".join([*given_facts, f"⊢ {target}"]))
    found = moves.propose_moves(read)
    assert all(move.tactic and move.budget > 0 and move.cost >= 0 for move in found)


@pytest.mark.parametrize(
    "printed",
    [
        "a b : Int\n⊢ a - a ∣ b",
        "f : Nat → Nat → Nat\nh : f = Nat.gcd\n⊢ f 2 4 = 2",
        "n : Nat\n⊢ gcd = n",
        "f : Nat → Nat\nh : ∀ x\n⊢ f 2 = 2",
    ],
)
def test_what_is_no_arithmetic_after_all_ends_no_search(printed):
    assert moves.propose_moves(goal.read_goal(printed))


def test_a_fact_of_a_hundred_parts_is_taken_apart() -> None:
    parts = " ∧ ".join(f"a = {number}" for number in range(100))
    (move,) = moves.propose_moves(goal.read_goal(f"a : Nat\nh : {parts}\n⊢ a = 1"))
    assert "hc99" in move.tactic
