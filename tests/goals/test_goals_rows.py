"""Rows of a bank: any bytes give goals or refusals that say where, what, and what would be right."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.goals.bank import LONGEST_ROW, LONGEST_TEXT, Goal, doubts, read_bank, refusal_line

ROW = {"id": "a", "goal": "1 + 1 = 2"}


def row(**fields: Any) -> bytes:
    return json.dumps({**ROW, **fields}).encode()


def why(text: bytes) -> str:
    (refusal,) = read_bank(text).refused
    return refusal_line("bank.jsonl", refusal)


def test_a_row_is_a_goal_with_its_line() -> None:
    full = {"difficulty": 1, "priority": 0.25, "context": ["open Nat"], "metadata": {"category": "nat", "rank": 3}}
    assert read_bank(row(**full)).goals == (
        Goal("a", "1 + 1 = 2", 1.0, 0.25, ("open Nat",), {"category": "nat", "rank": 3}, 1),
    )
    assert read_bank(row()).goals == (Goal("a", "1 + 1 = 2", line=1),)


def test_blank_lines_comments_and_a_byte_order_mark_are_passed_over_and_lines_still_counted() -> None:
    text = b"\xef\xbb\xbf# ours\r\n\r\n  \n// theirs\n" + row() + b"\r\n\n" + row(id="b") + b"\n"
    bank = read_bank(text)
    assert [(goal.id, goal.line) for goal in bank.goals] == [("a", 5), ("b", 7)]
    assert not bank.refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "1: not JSON: Expecting property name enclosed in double quotes: line 1 c"),
        (b"[1]", '1: a list; a row is an object on one line, {"id": "…", "goal": "…", …}'),
        (b"null", "1: null; a row is an object"),
        (b'{"id": "a"}', "1: a: 'goal' is missing; a row is"),
        (b'{"goal": "True"}', "1: 'id' is missing"),
        (row(gaol="True"), "1: unknown field 'gaol'; did you mean 'goal'?"),
        (b'{"id": "a", "id": "b", "goal": "True"}', "1: 'id' is given twice"),
        (row(id=7), "1: id: found a number; use a name"),
        (row(id=""), "1: id: '' is no name; use up to 100"),
        (row(id="two words"), "1: id: 'two words' is no name"),
        (row(id="../a"), "1: id: '../a' is no name"),
        (row(id="\u202ea"), "1: id: '\\u202ea' is no name"),
        (row(id="a" * 101), "1: id: 'aaa"),
        (row(goal=None), "1: a: goal: found null; use a Lean proposition as text"),
        (row(goal=" \n"), "1: a: goal: it is empty; write a Lean proposition"),
        (row(goal="a\0b"), "1: a: goal: the character U+0000 at 2 cannot be in it"),
        (row(goal="\ud800"), "1: a: goal: the character U+D800 at 1 cannot be in it"),
        (row(goal="1" * (LONGEST_TEXT + 1)), "1: a: goal: 20,001 characters; at most 20,000"),
        (row(difficulty="hard"), "1: a: difficulty: found text; use a number from 0 to 1"),
        (row(difficulty=True), "1: a: difficulty: found true or false; use a number"),
        (row(difficulty=1.5), "1: a: difficulty: 1.5 is out of range; use a number from 0 to 1"),
        (b'{"id": "a", "goal": "True", "priority": NaN}', "1: NaN is no JSON"),
        (b'{"id": "a", "goal": "True", "priority": 1e999}', "1: a: priority: inf is out of range"),
        (row(context="open Nat"), '1: a: context: found text; use a list of Lean commands, such as ["open Nat"]'),
        (row(context=[1]), "1: a: context: found a number; use a Lean command as text"),
        (row(metadata=[]), "1: a: metadata: found a list; use an object"),
        (row(metadata={"category": 1}), "1: a: metadata: category: found a number; use text"),
        (row(metadata={"deep": {}}), "1: a: metadata: 'deep' is an object; use text, a number"),
        (b"\n" + row() + b"\n" + row(), "3: a: line 2 has this id; give each goal its own"),
        (b'{"id": "a\xff"}', "1: byte 10 is not UTF-8; save the bank as UTF-8"),
        ('{"id": "a"}'.encode("utf-16"), "1: it is UTF-16; save the bank as UTF-8"),
        (b"[" * 200_000, "1: nested too deeply"),
        (b'{"id": ' + b"9" * 5_000 + b"}", "1: not JSON: Exceeds the limit"),
        (b'"' + b"a" * LONGEST_ROW + b'"', "1: 1,000,002 bytes; a row may have 1,000,000"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: bytes, message: str) -> None:
    assert why(text).startswith(f"bank.jsonl:{message}")
    assert "\n" not in why(text)


def test_a_wrong_row_does_not_touch_the_others() -> None:
    bank = read_bank(b"\n".join([row(difficulty=9), row(id="b"), b"{", row(), row(id="b")]))
    assert [goal.id for goal in bank.goals] == ["b", "a"]
    assert [refusal.line for refusal in bank.refused] == [1, 3, 5]


def test_a_line_separator_of_unicode_ends_no_row() -> None:
    text = json.dumps({**ROW, "metadata": {"note": "a\u2028b\x85"}}, ensure_ascii=False).encode()
    assert len(read_bank(text).goals) == 1


# Of few values, so that a row is right now and then.
TEXTS = ["a", "b", "True", "", "\0", "\ud800", "\n"]
LISTS = [[], ["open Nat"], [1], [[]], {}, {"topic": "x"}, {"topic": 1}, {"a": []}, {"\0": 1}]
VALUES = st.sampled_from([*TEXTS, *LISTS, 0, 0.5, 1, -1, 2.5, float("nan"), True, None])
NAMES = st.sampled_from(["id", "goal", "difficulty", "priority", "context", "metadata", "category"])
ROWS = st.dictionaries(NAMES, VALUES, max_size=4).map(lambda found: json.dumps({**ROW, **found}).encode())


@given(st.lists(st.binary(max_size=20) | ROWS | st.sampled_from([row(), b"", b"# x"]), max_size=6).map(b"\n".join))
def test_any_bytes_give_goals_and_refusals_for_each_line(text: bytes) -> None:
    bank = read_bank(text)
    assert bank == read_bank(text)
    lines = [goal.line for goal in bank.goals], [refusal.line for refusal in bank.refused]
    assert all(each == sorted(each) for each in lines)
    assert len({*lines[0], *lines[1]}) == len(bank.goals) + len(bank.refused)
    assert len({goal.id for goal in bank.goals}) == len(bank.goals)
    for goal in bank.goals:
        assert 0 <= goal.difficulty <= 1
        assert goal.text.strip()
        (goal.text + "".join(goal.context)).encode()
    assert all(
        "; " in refusal_line("b", refusal) and "\n" not in refusal_line("b", refusal) for refusal in bank.refused
    )


@given(st.lists(ROWS, max_size=5))
def test_every_row_is_counted_once(rows: list[bytes]) -> None:
    bank = read_bank(b"\n".join(rows))
    assert len(bank.goals) + len(bank.refused) == len(rows)


REDEFINED = {
    "namespace Foo\ndef Not (p : Prop) := p": "Not",
    "inductive Foo.False : Prop | intro": "False",
    "structure A.And (a b : Prop) where x : a": "And",
    'notation:50 (priority := high) a:50 " = " b:50 => a ≤ b': "=",
    'notation:max "¬" p:40 => p': "¬",
    'infixl:65 (priority := high) " + " => Nat.mul': "+",
    'local notation "False" => True': "False",
    "instance (priority := high) : OfNat Nat 5 := ⟨3⟩": "OfNat Nat",
    "instance : HAdd Nat Nat Nat := ⟨fun _ _ => 0⟩": "HAdd Nat",
    "local instance odd : LE Int where le _ _ := True": "LE Int",
}


@pytest.mark.parametrize("context", REDEFINED)
def test_a_context_that_gives_a_known_sign_another_meaning_is_doubted(context: str) -> None:
    (doubt,) = doubts(Goal("a", "True", context=("open Nat", context), line=7), has_library=True)
    assert refusal_line("bank.jsonl", doubt).startswith(
        f"bank.jsonl:7: a: its context redefines `{REDEFINED[context]}`: "
    )


@pytest.mark.parametrize(
    "context",
    [
        "def double (n : Nat) : Nat := n + n",
        'def Nat.double (n : Nat) : Nat := n + n -- notation "=" is not touched',
        'notation:65 a:65 " ⊕⊕ " b:66 => a + b',
        'def sign := "="',
        "/- def Not -/ open Int",
        "structure Point where (x : Nat) (y : Nat)",
        "instance : OfNat Point 0 := ⟨⟨0, 0⟩⟩",
        "instance : Add Point := ⟨fun p _ => p⟩",
        "theorem Nat.eq_thing : 1 = 1 := rfl",
    ],
)
def test_a_context_that_adds_to_what_is_known_is_not_doubted(context: str) -> None:
    assert doubts(Goal("a", "∀ n : Nat, n = n", context=(context,)), has_library=False) == []


@pytest.mark.parametrize("letter", "ℕℤℚℝℂ")
def test_letters_of_mathlib_are_doubted_where_nothing_gives_them_a_meaning(letter: str) -> None:
    text = f"∀ x : {letter}, x = x"
    (doubt,) = doubts(Goal("a", text, line=3), has_library=False)
    assert f"`{letter}` is no notation without Mathlib, and is taken for a variable" in doubt.why
    assert not doubts(Goal("a", text), has_library=True)
    assert not doubts(Goal("a", f"∀ ({letter} : Type) (x : {letter}), x = x"), has_library=False)
    for context in (f'notation "{letter}" => Nat', f"variable ({letter} : Type)", "import Mathlib"):
        assert not doubts(Goal("a", text, context=(context,)), has_library=False)
