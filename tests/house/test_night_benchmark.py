"""The audit of a disturbed search finds each thing that it looks for."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.night.bill import Bill, audit, question_key
from tests.kit.scripted_models import Entry

USAGE = {"usd": 0.25}


def answer(number: int, prompt: str, sent: float) -> Entry:
    key = question_key("coder", prompt)
    return Entry(number, "chat", "m", "coder", "1=2", 0, key, sent - 0.1, "answer", usd=0.25, sent=sent)


def record(prompt: str, status: int = 0) -> dict[str, Any]:
    return {"role": "coder", "prompt": prompt, "exit": status, "usage": USAGE}


FIRST, SECOND = answer(1, "a", 10.0), answer(2, "b", 20.0)


def bill(answers: Iterable[Entry], *calls: dict[str, Any], kills: tuple[float, ...] = ()) -> Bill:
    return audit([*answers], [FIRST, SECOND], calls, kills)


def test_a_search_without_trouble_owes_what_it_recorded() -> None:
    found = bill([FIRST, SECOND], record("a"), record("b"))
    assert (found.again, found.under_way, found.unknown, found.usd, found.recorded) == ([], [], 0, 0.5, 0.5)


def test_an_answer_that_was_asked_for_again_is_found() -> None:
    again = replace(FIRST, number=3, at=29.9, sent=30.0)
    found = bill([FIRST, SECOND, again], record("a"), record("b"))
    assert found.again == ["request 3: coder, knob 1=2"]
    assert (found.usd, found.recorded) == (0.75, 0.5)


@pytest.mark.parametrize(("kill", "excused"), [(10.5, True), (9.95, True), (12.0, False), (9.0, False)])
def test_only_what_was_under_way_at_a_kill_may_be_asked_again(kill: float, excused: bool) -> None:
    again = replace(FIRST, number=3, at=29.9, sent=30.0)
    found = bill([FIRST, SECOND, again], record("a"), record("b"), kills=(kill,))
    assert (found.again == [], len(found.under_way), found.lost_usd) == (excused, int(excused), 0.25 * excused)


def test_an_answer_that_was_kept_is_not_excused_by_a_kill() -> None:
    again = replace(FIRST, number=3, at=29.9, sent=30.0)
    assert bill([FIRST, again], record("a"), record("a"), kills=(10.5,)).again


def test_an_outage_is_no_record_and_a_new_question_is_counted() -> None:
    found = bill([FIRST, answer(3, "c", 30.0)], record("a"), record("a", 75), record("c"))
    assert (found.again, found.unknown, found.recorded) == ([], 1, 0.5)
