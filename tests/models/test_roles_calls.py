"""Calls that have ended: none is lost or paid for twice, and they can be replayed."""

import json
import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.machine.process import Processes
from pipeline.models.ask import ask
from pipeline.models.calls import (
    Call,
    Calls,
    answered_call,
    call_key,
    call_line,
    failed_call,
    read_calls,
    recorded_answer,
)
from pipeline.models.contract import Answer, BackendUnavailable, CallContext, CallFailed, Question, Usage

TEXTS = st.text(alphabet='ab\n\r\0\u2028\udcffé{}"', max_size=8)
# Few prompts, so that the same one is asked again.
USAGES = st.builds(Usage, st.sampled_from([None, 0.0, 0.25]), *[st.integers(0, 3)] * 3)
PLACES = {"folder": st.just("."), "log": TEXTS, "name": st.just(""), "ground": st.just("")}
QUESTIONS = st.builds(Question, st.sampled_from(["coder", "ideas"]), st.sampled_from(["x", "y"]), **PLACES)
MORE = {"partial": TEXTS, "left_out": st.lists(TEXTS, max_size=2).map(tuple)}
ANSWERS = st.builds(Answer, TEXTS, USAGES, st.floats(0, 9), TEXTS, **MORE)
FAILURES = st.builds(CallFailed, TEXTS, st.integers(1, 255), USAGES, st.floats(0, 9))
BACKEND = {"backend": "command", "model": "m"}
CALLS = st.one_of(
    st.builds(lambda q, a, p: answered_call(BACKEND, q, a, p), QUESTIONS, ANSWERS, st.binary(max_size=8)),
    st.builds(lambda q, f: failed_call(BACKEND, q, f), QUESTIONS, FAILURES),
)
QUESTION = Question("coder", "make it so", ".", "log", "d0.n0.i2")
CALL = answered_call(BACKEND, QUESTION, Answer("done", Usage(0.5, 3, 4), 2.5, "m"), b"diff\0")


def test_the_key_of_a_call_is_its_role_and_its_prompt() -> None:
    assert call_key("coder", "x") == sha256(b"coder\0x").hexdigest()
    assert len({call_key(role, prompt) for role in ("a", "ab") for prompt in ("b", "", "bb")}) == 6


def test_a_record_says_who_was_asked_what_and_what_that_cost() -> None:
    line = call_line(CALL)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "key": call_key("coder", "make it so"),
        "role": "coder",
        "backend": "command",
        "model": "m",
        "prompt_sha256": sha256(b"make it so").hexdigest(),
        "prompt": "make it so",
        "text": "done",
        "patch": b64encode(b"diff\0").decode(),
        "usage": {"usd": 0.5, "input_tokens": 3, "output_tokens": 4, "cached_tokens": 0},
        "seconds": 2.5,
        "exit": 0,
        "error": "",
    }


@given(st.lists(CALLS, max_size=5))
def test_what_is_kept_is_found_by_whoever_comes_next(calls: list[Call]) -> None:
    with TemporaryDirectory() as folder:
        for call in calls:
            Calls(f"{folder}/slot").append(call)
        kept = Calls(f"{folder}/slot")
        assert kept.read_all() == calls
        for key in {call_key(role, prompt) for role in ("coder", "ideas") for prompt in ("x", "y")} if calls else ():
            assert [*read_calls(kept.path, key)] == [call for call in calls if call.key == key]


@given(st.lists(CALLS, min_size=1, max_size=3), CALLS, st.integers(min_value=1))
def test_a_torn_last_line_was_not_written_and_is_in_nobodys_way(calls: list[Call], later: Call, torn: int) -> None:
    with TemporaryDirectory() as folder:
        kept = Calls(folder)
        for call in calls:
            kept.append(call)
        whole = Path(kept.path).read_bytes()
        last = len(call_line(calls[-1]))
        os.truncate(kept.path, len(whole) - 1 - torn % last)
        assert Calls(folder).read_all() == calls[:-1]
        Calls(folder).append(later)
        assert Calls(folder).read_all() == [*calls[:-1], later]


@given(CALLS)
def test_what_was_told_then_is_told_again(call: Call) -> None:
    if call.exit:
        with pytest.raises(CallFailed) as failure:
            recorded_answer(call)
        again = failed_call(BACKEND, Question(call.role, call.prompt, ".", "log"), failure.value)
    else:
        answer = recorded_answer(call)
        again = answered_call(BACKEND, Question(call.role, call.prompt, ".", "log"), answer, answer.patch)
    assert again == call


# -- replay


@pytest.fixture
def desk(processes: Processes) -> CallContext:
    Path("recorded/run-1").mkdir(parents=True)
    return CallContext(processes, "x")


def replayed(desk: CallContext, question: Question = QUESTION) -> Answer:
    return ask({"backend": "replay", "folder": "recorded"}, question, desk)


def test_the_calls_of_one_search_are_the_answers_of_another(desk: CallContext) -> None:
    Calls("recorded/run-1").append(CALL)
    assert replayed(desk) == Answer("done", Usage(0.5, 3, 4), 2.5, "m", b"diff\0")
    assert replayed(desk, QUESTION._replace(name="d7.n1.i0", folder="elsewhere")).text == "done"


def test_a_recorded_failure_fails_again_unless_there_is_an_answer_too(desk: CallContext) -> None:
    Calls("recorded/run-2").append(failed_call(BACKEND, QUESTION, CallFailed("timed out", 124, Usage(0.1), 9.0)))
    with pytest.raises(CallFailed, match="timed out") as failure:
        replayed(desk)
    assert (failure.value.exit, failure.value.usage, failure.value.seconds) == (124, Usage(0.1), 9.0)
    Calls("recorded/run-1").append(CALL)
    assert replayed(desk).text == "done"


def test_an_outage_is_no_recorded_answer(desk: CallContext) -> None:
    Calls("recorded/run-1").append(failed_call(BACKEND, QUESTION, BackendUnavailable("no credit", Usage(0.1), 9.0)))
    with pytest.raises(BackendUnavailable, match="no answer is recorded"):
        replayed(desk)
    Calls("recorded/run-2").append(failed_call(BACKEND, QUESTION, CallFailed("out of turns", 1)))
    with pytest.raises(CallFailed, match="out of turns"):
        replayed(desk)


@pytest.mark.parametrize(
    "question", [QUESTION._replace(role="reviewer"), QUESTION._replace(prompt="make it so "), QUESTION]
)
def test_a_miss_says_what_is_missing_where_and_how_to_record_it(desk: CallContext, question: Question) -> None:
    if question != QUESTION:
        Calls("recorded/run-1").append(CALL)
    with pytest.raises(BackendUnavailable) as miss:
        replayed(desk, question)
    for word in (question.role, "d0.n0.i2", "recorded", call_key(question.role, question.prompt), "calls.jsonl"):
        assert word in str(miss.value)


def test_a_call_that_was_recorded_without_cached_tokens_is_read_as_it_was(desk: CallContext) -> None:
    line = call_line(CALL).replace(b', "cached_tokens": 0', b"")
    assert b"cached" not in line
    Path("recorded/calls.jsonl").write_bytes(line)
    assert replayed(desk).usage == Usage(0.5, 3, 4)


LINE = call_line(CALL)
DAMAGED = [
    LINE[:-9] + b"\n",
    LINE.replace(b'"text": "done"', b'"text": 5'),
    LINE.replace(b'"exit": 0', b'"exit": "0"'),
    LINE.replace(b'"usd"', b'"eur"'),
    LINE.replace(b'"usd": 0.5', b'"usd": "0.5"'),
    LINE.replace(b'"seconds": 2.5', b'"seconds": -1'),
    LINE.replace(b'"error": "", ', b"").replace(b', "error": ""', b""),
    LINE.replace(b'"patch": "Z', b'"patch": "!!!!Z'),
    b'"%s"\n' % CALL.key.encode(),
    b"[" * 100_000 + CALL.key.encode() + b"\n",
]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_line_that_is_no_call_is_not_passed_over(desk: CallContext, damage: bytes) -> None:
    Path("recorded/calls.jsonl").write_bytes(call_line(CALL._replace(key="other")) + damage)
    with pytest.raises(BackendUnavailable, match=r"recorded/calls\.jsonl:2: not a recorded call"):
        replayed(desk)


def test_lines_of_other_calls_are_not_even_parsed(desk: CallContext) -> None:
    Path("recorded/calls.jsonl").write_bytes(b"{\n" + call_line(CALL))
    assert replayed(desk).text == "done"
    assert [*read_calls("recorded/calls.jsonl", CALL.key)] == [CALL]
