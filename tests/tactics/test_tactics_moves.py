"""From printed goals to tactics: which are proposed, at what cost, and the arithmetic that finds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tactics import moves
from pipeline.tactics.families import divisibility, equations, products, residues
from pipeline.tactics.text import goal, terms

NUMBERS = "x y : Nat\nh : x * y = 12\nh1 : x + y = 7\n⊢ x ^ 2 + y ^ 2 = 25"
SHAPES = {
    "definitions": "d : Weekday\n⊢ next (previous d) = d",
    "logic": "p q : Prop\nh : p ∨ q\n⊢ q ∨ p",
    "witnesses": "n : Nat\n⊢ ∃ k, k = n + 1",
    "induction": "n : Nat\n⊢ 0 + n = n",
    "cases": "b : Bool\n⊢ (b && b) = b",
    "rewriting": "a b : Nat\nh : a = b\n⊢ b = a",
    "specialising": "f : Nat → Nat\nh : ∀ (n : Nat), f n = n\n⊢ f 2 = 2",
    "residues": "n : Nat\n⊢ n ^ 2 % 4 = 0 ∨ n ^ 2 % 4 = 1",
    "powers": "n : Nat\n⊢ 2 ^ n % 3 = 1 ∨ 2 ^ n % 3 = 2",
    "bounds": "n : Nat\nh : n < 5\n⊢ n ^ 2 < 25",
    "factors": NUMBERS,
    "roots": "x : Nat\nh : x ^ 3 = 27\n⊢ x = 3",
    "polynomials": "x : Int\nh : x ^ 2 = 5 * x - 6\n⊢ x = 2 ∨ x = 3",
    "linear": "x y : Int\nh : x + y = 5\nh1 : x - y = 1\n⊢ x * y = 6",
    "products": "a b : Int\n⊢ 2 * a * b ≤ a ^ 2 + b ^ 2",
    "divisibility": "a b : Nat\nh : Nat.gcd a b = 3\n⊢ 3 ∣ a",
    "quotients": "a b : Int\n⊢ a - b ∣ a ^ 2 - b ^ 2",
    "laws": "a b c : Nat\nh : a ≤ b\n⊢ a * c ≤ b * c",
    "gathering": "n : Nat\n⊢ n + 1 < 2 ^ (n + 1)",
    "sequences": "f : Nat → Nat\nh : f 0 = 0\nh1 : f 1 = 1\nh2 : ∀ (n : Nat), f (n + 2) = f (n + 1) + f n\n"
    "⊢ f 90 % 2 = 0",
    "finishers": "n : Nat\n⊢ n = n",
}


def proposed(text, **how):
    return moves.propose_moves(goal.read_goal(text), **how)


@pytest.mark.parametrize("family", sorted(moves.FAMILIES))
def test_every_family_has_something_to_say_alone(family):
    found = proposed(SHAPES[family], families={family})
    assert found
    assert {move.family for move in found} == {family}


def test_the_cheapest_come_first_and_none_comes_twice():
    found = proposed(NUMBERS)
    assert [move.cost for move in found] == sorted(move.cost for move in found)
    assert len({move.tactic for move in found}) == len(found)


def test_weights_multiply_the_costs_of_a_family():
    plain = {move.tactic: move.cost for move in proposed(NUMBERS, families={"bounds"})}
    dear = {move.tactic: move.cost for move in proposed(NUMBERS, families={"bounds"}, weights={"bounds": 3.0})}
    assert dear == {tactic: pytest.approx(3 * cost) for tactic, cost in plain.items()}


@pytest.mark.parametrize("target", ["p ∧ q", "p ↔ q", "p → q", "¬p", "∀ (n : Nat), n = n"])
def test_where_a_move_cannot_be_wrong_it_is_the_only_one(target):
    assert len(proposed(f"p q : Prop\n⊢ {target}")) == 1


def test_facts_are_taken_apart_to_the_bottom_at_once():
    (move,) = proposed("p q r : Prop\nh : p ∧ ∃ n, q ∧ r\n⊢ r")
    assert move.tactic == "((obtain ⟨hc, ⟨hc1, ⟨hc2, hc3⟩⟩⟩ := h))"


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("n : Int\n⊢ n ^ 2 % 3 ≠ 2", [3]),
        ("x y : Int\nh : 4 * x ^ 3 - 7 * y ^ 3 = 2003\n⊢ False", [7]),
        ("n : Nat\nh : n % 6 = 5\n⊢ n % 3 = 2", [6]),
        ("n : Nat\n⊢ n ^ 2 % 3 = 1", []),
        ("n : Nat\nh : n = 4\n⊢ n = 4", []),
    ],
)
def test_a_modulus_decides_when_no_residue_is_against_it(text, decided):
    assert residues.deciding_moduli(goal.read_goal(text)) == decided


def test_variables_that_equations_determine_are_found_one_by_the_other():
    text = "x y z : Nat\nh : 2 * x = 6\nh1 : x * y = 12\nh2 : x + y + z = 9\n⊢ z = 2"
    assert equations.solve_system(goal.read_goal(text)) == {"x": 3, "y": 4, "z": 2}


@pytest.mark.parametrize("said", ["x + y = 5", "2 * x = 5", "x * y = 6"])
def test_an_equation_without_one_whole_solution_determines_nothing(said):
    assert equations.solve_system(goal.read_goal(f"x y : Int\nh : {said}\n⊢ x = 2")) == {}


@given(
    st.lists(st.integers(-9, 9), max_size=3), st.lists(st.integers(-9, 9), min_size=1, max_size=3), st.integers(-5, 5)
)
def test_a_polynomial_is_its_roots_times_the_rest(roots, rest, at):
    if not rest[-1]:
        rest = [*rest, 1]
    coefficients = rest
    for root in roots:
        shifted, scaled = [0, *coefficients], [-root * one for one in coefficients] + [0]
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    found, left = equations.divide_by_roots(coefficients)
    product = equations.divide_by_root(left, at)[1]
    for root in found:
        product *= at - root
    assert product == equations.divide_by_root(coefficients, at)[1]
    assert all(equations.divide_by_root(left, root)[1] for root in range(-20, 20)) or len(left) == 1


forms = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=4)


def form(parts):
    found = {}
    for a, b, factor in parts:
        monomial = tuple((name, times) for name, times in (("x", a), ("y", b)) if times)
        found = terms.add_polynomials(found, {monomial: factor})
    return found


@given(forms, forms)
def test_a_product_divided_by_a_factor_is_the_other(left, right):
    one, other = form(left), form(right)
    if one and other:
        assert divisibility.polynomial_quotient(terms.multiply_polynomials(one, other), other) == one


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 60))
def test_powers_repeat_as_the_cycle_says(base, modulus, more):
    start, period = products.power_cycle(base, modulus)
    assert base ** (start + more) % modulus == base ** (start + more + period) % modulus


def test_no_tactic_computes_a_power_that_is_too_large():
    tried = [move.tactic for move in proposed("⊢ 7 ^ 123456789 % 10 = 7", families={"finishers", "powers"})]
    assert tried[0].startswith("((have hr : ∀ q : Nat, 7 ^ (4 * q + 1) % 10 = 7")


def test_relations_are_read_under_a_negation():
    assert terms.read_relation("¬a ≤ b") == terms.Relation("≤", terms.Leaf("a"), terms.Leaf("b"), holds=False)
