"""A goal as Lean prints it, read: what it has, what it says, and names that it does not use."""

from pipeline.tactics.text import goal
from pipeline.tactics.text.goal import Hypothesis

PRINTED = """case succ
α : Type
x✝ : α
a b : Nat
f : Nat → Nat
p : α → Prop
h : a ≤ b ∧
    b ≤ f a
c : Nat := 5
hp : ∀ (x : α), p x
⊢ f a = b ∨
    a = 0"""


def test_names_in_one_line_are_hypotheses_each():
    read = goal.read_goal(PRINTED)
    assert [one.name for one in read.hypotheses] == ["α", "x✝", "a", "b", "f", "p", "h", "c", "hp"]


def test_lines_that_are_indented_belong_to_the_one_above():
    read = goal.read_goal(PRINTED)
    assert read.types["h"] == "a ≤ b ∧ b ≤ f a"
    assert read.target == "f a = b ∨ a = 0"


def test_facts_are_told_from_things():
    read = goal.read_goal(PRINTED)
    assert [fact.name for fact in read.facts] == ["h", "hp"]
    assert [one.name for one in read.variables] == ["a", "b", "f", "p", "c"]


def test_what_has_no_name_to_use_is_known_as_such():
    assert goal.read_goal(PRINTED).inaccessible == ("x✝",)


def test_a_let_keeps_its_value():
    assert Hypothesis("c", "Nat", "5") in goal.read_goal(PRINTED).hypotheses


def test_the_tag_of_a_case_does_not_make_another_goal():
    assert goal.read_goal(PRINTED).text == goal.read_goal(PRINTED.replace("case succ\n", "")).text


def test_fresh_names_are_nowhere_in_the_goal():
    read = goal.read_goal("h h1 : Nat\n⊢ h = h2")
    assert read.fresh("h", 3) == ["h3", "h4", "h5"]


def test_variables_are_those_that_the_goal_speaks_of():
    assert goal.read_goal("a b : Nat\nh : a = 1\n⊢ a < 2").of_type("Nat") == ["a"]
