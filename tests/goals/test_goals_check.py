"""Rows of a bank as a real Lean sees them: false ones, ones that say the same, and ones that say nothing are told."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from kit.leaning import command

from pipeline.goals.bank import Bank, read_bank
from pipeline.goals.check import check_bank
from pipeline.lean.model import LeanCrash, LeanStartError, Session, Stop, TacticState, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes

TRUE = {
    "zero": "∀ n : Nat, 0 + n = n",
    "order": "∀ a b : Nat, 0 < a → a < b → 0 < b",
    "less": "∀ n : Nat, n - 1 + 1 = n ∨ n = 0",
    "vacuous": "∀ n : Nat, n < 0 → n = 7",
    "none": "∀ (α : Type) (xs : List α), xs ++ [] = xs",
    "hard": "∀ (α : Type) (f : α → α → Prop), ∃ g : α → Prop, ∀ a, f a ≠ g",
}
FALSE = {
    "slip": "∀ n : Nat, n < n + n",
    "late": "∀ n : Nat, n * n ≠ 9",
    "swap": "∀ (α : Type) (xs ys : List α), xs ++ ys = ys ++ xs",
    "prop": "∀ p q : Prop, p ∨ q → p",
    "absurd": "2 + 2 = 5",
}
SAME = {"zero again": "∀ m : Nat, 0 + m = m", "order again": "∀ y x : Nat, x < y → 0 < x → 0 < y"}
NOTHING = {
    "unknown": "∀ n : Nat, foo n = n",
    "type": "Nat",
    "hole": "∀ n : Nat, n = sorry",
    "open end": "1 = 1) ∧ (2 = 2",
}


def bank(goals: dict[str, str], **more: object) -> Bank:
    rows = [{"id": name.replace(" ", "-"), "goal": goal, **more} for name, goal in goals.items()]
    return read_bank("\n".join(map(json.dumps, rows)).encode())


@pytest.fixture(scope="module")
def lean() -> Iterator[Pool]:
    processes = Processes(["lean"])
    with closing(processes), closing(Pool(command(), processes)) as pool:
        yield pool


def test_what_is_true_counts_with_a_key_of_its_own(lean: Pool) -> None:
    found = check_bank(bank(TRUE), lean)
    assert found.refused == ()
    assert [goal.id for goal in found.goals] == [*TRUE]
    assert len({goal.key for goal in found.goals}) == len(TRUE)
    assert all(goal.key for goal in found.goals)


def test_what_is_false_at_a_small_point_is_told(lean: Pool) -> None:
    found = check_bank(bank({**FALSE, "zero": TRUE["zero"]}), lean)
    assert [goal.id for goal in found.goals] == ["zero"]
    assert [(row.line, row.id) for row in found.refused] == [*enumerate(FALSE, 1)]
    assert all(row.why.startswith("it is false, ") for row in found.refused)
    assert all(row.why.endswith("; mend it, or drop it") for row in found.refused)
    assert "for n := 3, by `decide`" in found.refused[1].why
    assert "for α := Bool, xs := [true], ys := [false], by `decide`" in found.refused[2].why


def test_what_says_the_same_in_other_words_is_told_and_the_first_counts(lean: Pool) -> None:
    found = check_bank(bank({"zero": TRUE["zero"], "order": TRUE["order"], **SAME}), lean)
    assert [goal.id for goal in found.goals] == ["zero", "order"]
    assert [row.why for row in found.refused] == [
        "it is the statement of line 1 (zero); drop one of them",
        "it is the statement of line 2 (order); drop one of them",
    ]


def test_what_is_no_proposition_is_told(lean: Pool) -> None:
    found = check_bank(bank(NOTHING), lean)
    assert found.goals == ()
    assert [row.id for row in found.refused] == [name.replace(" ", "-") for name in NOTHING]
    assert all(row.why.startswith("it does not elaborate: ") for row in found.refused)
    assert all("\n" not in row.why for row in found.refused)


@pytest.mark.parametrize(
    "context", ["axiom odd : False", "theorem odd : False := sorry", "def f : Nat := sorry", "example := 1 +"]
)
def test_a_context_that_assumes_or_does_not_elaborate_is_told(lean: Pool, context: str) -> None:
    found = check_bank(bank({"one": "1 = 1"}, context=[context]), lean)
    assert [row.why.partition(":")[0] for row in found.refused] == ["it does not elaborate"]


class Gone:
    """A session whose Lean ends over the key."""

    def __init__(self, session: Session) -> None:
        self.run_tac, self.close = session.run_tac, session.close

    def key(self, state: TacticState, goal: int = 0) -> str:
        raise LeanCrash(f"no key for {state.goals[goal]}: killed by signal 9")


class Fragile:
    """The Lean, for which one statement is too large."""

    def __init__(self, lean: Pool, large: str) -> None:
        self.version, self.check, self.close = lean.version, lean.check, lean.close
        self._lean, self._large = lean, large

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        session, state = self._lean.open(theorem, stop)
        return Gone(session) if theorem.statement == self._large else session, state


def test_a_row_that_ends_the_lean_is_one_row(lean: Pool) -> None:
    found = check_bank(bank({"large": "13 = 13", "zero": TRUE["zero"]}), Fragile(lean, "13 = 13"))
    assert [goal.id for goal in found.goals] == ["zero"]
    why = "it ends the Lean that reads it: no key for ⊢ 13 = 13: killed by signal 9; write it smaller"
    assert [row.why for row in found.refused] == [why]


def test_a_context_that_redefines_not_makes_nothing_false(lean: Pool) -> None:
    notation = 'notation:max (priority := 10000) "¬" p:40 => p'
    assert check_bank(bank({"zero": TRUE["zero"]}, context=[notation]), lean).refused == ()


def test_a_letter_of_mathlib_is_named_where_it_is_what_lean_does_not_understand(lean: Pool) -> None:
    (row,) = check_bank(bank({"zero": "∀ n : ℕ, n + 0 = n"}), lean).refused
    assert row.why.startswith("it does not elaborate: ")
    assert row.why.endswith(
        "; `ℕ` is no notation without Mathlib, and is taken for a variable that may be any type; write Nat"
    )


class NoMore(Fragile):
    """The Lean, which does not start any more when it comes to one statement."""

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        if theorem.statement == self._large:
            raise LeanStartError("Lean does not start: no memory")
        return self._lean.open(theorem, stop)


def test_a_lean_that_does_not_start_refuses_no_row(lean: Pool) -> None:
    with pytest.raises(LeanStartError):
        check_bank(bank({"zero": TRUE["zero"], "one": "1 = 1"}), NoMore(lean, "1 = 1"))


def test_a_bank_without_a_goal_starts_no_lean(lean: Pool) -> None:
    assert check_bank(bank({}), NoMore(lean, "True")) == bank({})
