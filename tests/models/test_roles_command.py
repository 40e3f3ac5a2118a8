"""Programs that answer for a role: what they are given, what of them is an answer, and what is left when they fail."""

import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from kit.building import ends
from kit.project import PATIENCE

from pipeline.core.cages import CAGE, PLAIN
from pipeline.machine.process import MARK, BuildStopping, Processes
from pipeline.models.ask import ask
from pipeline.models.contract import Answer, BackendUnavailable, CallContext, CallFailed, Question, Usage, usage_in

KEY = "sk-or-so-0123456789"

# Speaks as three coders do: each option that it does not know is an error, as it is for them.
STAND_IN = """
import argparse, json, os, subprocess, sys, time
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-p", action="store_true")
parser.add_argument("--output-format")
parser.add_argument("--model", "-m")
parser.add_argument("--json", action="store_true")
parser.add_argument("--output-last-message", "-o")
parser.add_argument("--message-file")
parser.add_argument("--yes-always", action="store_true")
parser.add_argument("--no-auto-commits", action="store_true")
parser.add_argument("--do", default="")
parser.add_argument("from_stdin", nargs="?", choices=["-"])
options = parser.parse_args()
if options.message_file:
    assert sys.stdin.read() == "", "the prompt came twice"
    prompt = open(options.message_file).read()
else:
    prompt = sys.stdin.read()
exec(options.do)
open("changed.py", "a").write("# " + prompt.replace("\\n", " ") + "\\n")
print("thinking", file=sys.stderr)
if options.output_format == "json":
    usage = {"input_tokens": 3, "cache_read_input_tokens": 1000, "output_tokens": 20}
    print(json.dumps({"type": "result", "is_error": False, "result": "done: " + prompt,
                      "total_cost_usd": 0.25, "usage": usage}))
elif options.json:
    events = [{"type": "thread.started"}, {"type": "item.completed", "item": {"text": "on it"}},
              {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
              {"type": "item.completed", "item": {"text": "done: " + prompt}},
              {"type": "turn.completed", "usage": {"input_tokens": 700, "output_tokens": 30}}]
    print("not JSON", *map(json.dumps, events), sep="\\n")
    open(options.output_last_message, "w").write("last: " + prompt)
else:
    print("said: " + prompt)
"""
CLAUDE = {
    "run": ["-p", "--output-format", "json", "--model", "{model}"],
    "model": "some-model",
    "usage": {
        "text": ["result"],
        "usd": ["total_cost_usd"],
        "input_tokens": ["usage.input_tokens", "usage.cache_read_input_tokens"],
        "output_tokens": ["usage.output_tokens"],
    },
}
CODEX = {
    "run": ["--json", "--output-last-message", "{answer_file}", "-"],
    "usage": {"input_tokens": ["usage.input_tokens"], "output_tokens": ["usage.output_tokens"]},
    "price": {"input": 1.0, "output": 10.0},
}
AIDER = {"run": ["--message-file", "{prompt_file}", "--yes-always", "--no-auto-commits"]}


@pytest.fixture
def desk(processes: Processes) -> CallContext:
    Path("work").mkdir()
    Path("stand_in.py").write_text(STAND_IN)
    return CallContext(processes, "x")


def asked(desk: CallContext, backend: dict[str, Any], prompt: str = "make it so", do: str = "") -> Answer:
    """`backend` without the program, which is the stand-in; it does `do` before it answers."""
    run = [sys.executable, "{project}/stand_in.py", f"--do={do.replace('{', '{{').replace('}', '}}')}", *backend["run"]]
    return told(desk, {**backend, "run": run}, prompt)


def told(desk: CallContext, backend: dict[str, Any], prompt: str = "make it so") -> Answer:
    question = Question("coder", prompt, str(Path("work").absolute()), str(Path("log").absolute()), "d0.n0.i2")
    return ask({"backend": "command", CAGE: {"sandbox": PLAIN}, **backend}, question, desk)


def log() -> str:
    return Path("log").read_text()


def test_claude_code_gets_the_prompt_on_stdin_and_tells_what_it_cost(desk: CallContext) -> None:
    answer = asked(desk, CLAUDE)
    assert answer._replace(seconds=0) == Answer("done: make it so", Usage(0.25, 1003, 20), 0, "some-model")
    assert answer.seconds > 0
    assert '"total_cost_usd": 0.25' in log()
    assert "thinking\n" in log()


def test_codex_writes_its_answer_to_a_file_and_its_usage_as_lines_of_json(desk: CallContext) -> None:
    answer = asked(desk, CODEX)
    assert answer.text == "last: make it so"
    assert answer.usage == Usage((700 * 1.0 + 30 * 10.0) / 1e6, 700, 30)
    assert '"turn.completed"' in log()


def test_aider_reads_the_prompt_from_a_file_and_nothing_on_stdin(desk: CallContext) -> None:
    answer = asked(desk, AIDER)
    assert answer._replace(seconds=0) == Answer("said: make it so\n", Usage(None))


@pytest.mark.parametrize("backend", [CLAUDE, CODEX, AIDER])
@pytest.mark.parametrize("prompt", ["--dangerous --yes", "-", "", "{model} {nothing} $(touch x) `x`\n'\"", "\udcff"])
def test_no_prompt_is_ever_an_option_or_a_template(desk: CallContext, backend: dict[str, Any], prompt: str) -> None:
    assert prompt.replace("\udcff", "?") in asked(desk, backend, prompt).text


def test_braces_that_are_meant_as_such_name_no_file(desk: CallContext) -> None:
    answer = told(desk, {"run": ["/bin/sh", "-c", "cat; echo '{{prompt_file}} {{answer_file}}'"]}, "so: ")
    assert answer.text == "so: {prompt_file} {answer_file}\n"


@pytest.mark.parametrize("backend", [CLAUDE, CODEX, AIDER])
def test_in_the_folder_there_is_only_what_the_coder_changed(desk: CallContext, backend: dict[str, Any]) -> None:
    asked(desk, backend)
    assert [path.name for path in Path("work").iterdir()] == ["changed.py"]
    assert Path("work/changed.py").read_text() == "# make it so\n"


def test_the_files_of_a_call_are_gone_when_it_has_ended(desk: CallContext) -> None:
    kept = "open('kept', 'w').write(options.message_file)"
    asked(desk, AIDER, do=kept)
    assert not Path(Path("work/kept").read_text()).parent.exists()


def test_a_command_sees_what_is_passed_and_no_other_key(desk: CallContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.setenv("OTHER", "of another role")
    seen = asked(desk, {**AIDER, "pass": ["MINE"], "env": {"SET": "a{b}"}}, do="prompt = str(sorted(os.environ))")
    names = {"MINE", "SET", "PATH", MARK}
    assert {name for name in (*names, "OTHER") if f"'{name}'" in seen.text} == names


@pytest.mark.parametrize("place", ["stdout", "stderr"])
def test_a_key_is_blotted_out_of_log_and_answer(desk: CallContext, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("MINE", KEY)
    answer = asked(desk, {**AIDER, "pass": ["MINE"]}, do=f"print('key', os.environ['MINE'], file=sys.{place})")
    assert log().count("key [MINE]\n") == 1
    assert KEY not in log() + answer.text


def test_a_key_in_the_last_words_of_a_failure_is_blotted_out(
    desk: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", KEY)
    with pytest.raises(CallFailed, match=r"exit status 3: bad key \[MINE\]") as failure:
        asked(desk, {**AIDER, "pass": ["MINE"]}, do="print('bad key', os.environ['MINE']); sys.exit(3)")
    assert KEY not in log() + str(failure.value)


def test_a_failure_has_its_exit_status_and_what_it_cost_all_the_same(desk: CallContext) -> None:
    paid = "print(json.dumps({'total_cost_usd': 0.5, 'result': 'out of turns'})); sys.exit(7)"
    with pytest.raises(CallFailed, match="exit status 7: out of turns") as failure:
        asked(desk, CLAUDE, do=paid)
    assert (failure.value.exit, failure.value.usage) == (7, Usage(0.5))
    assert failure.value.seconds > 0


@pytest.mark.parametrize("number", [9, 15, 1, 2, 3])
def test_a_command_that_is_killed_from_outside_has_not_failed(desk: CallContext, number: int) -> None:
    with pytest.raises(BackendUnavailable, match=f"killed by signal {number}.*killed from outside"):
        asked(
            desk,
            AIDER,
            do=f"import signal; signal.signal({number}, 0) if {number} != 9 else 0; os.kill(os.getpid(), {number})",
        )


def test_a_command_that_crashes_has_failed(desk: CallContext) -> None:
    with pytest.raises(CallFailed, match="killed by signal 11") as failure:
        asked(desk, AIDER, do="os.kill(os.getpid(), 11)")
    assert failure.value.exit == 128 + 11


def test_a_timeout_ends_the_children_too_and_keeps_what_was_printed(desk: CallContext) -> None:
    slow = "/bin/sh -c 'sleep 60 & echo $! > grandchild; echo started; wait'; :"
    with pytest.raises(BackendUnavailable, match=r"sh: timed out after 1\.5 s: there was no answer in time") as late:
        told(desk, {"run": ["/bin/sh", "-c", slow], "timeout": 1.5})
    assert 1.5 <= late.value.seconds < 20
    assert ends(int(Path("work/grandchild").read_text()))
    assert log() == "started\n"


def of_claude(**told: Any) -> str:
    """What Claude Code does when it gives up."""
    return f"print(json.dumps({ {'type': 'result', 'is_error': True, 'total_cost_usd': 0.5, **told}!r})); sys.exit(1)"


LIMITED = {"subtype": "success", "api_error_status": 429, "result": "API Error: Request rejected (429)"}
OUTAGES = {
    "too many requests": (CLAUDE, of_claude(**LIMITED), "rate limit"),
    "no credit": (
        CLAUDE,
        of_claude(subtype="success", api_error_status=400, result="Credit balance is too low"),
        "credit",
    ),
    "no login": (CLAUDE, of_claude(subtype="success", result="Invalid API key · Please run /login"), "login"),
    "overloaded": (CLAUDE, of_claude(subtype="success", api_error_status=529, result="Overloaded"), "overload"),
    "no network": (CLAUDE, of_claude(subtype="success", result="API Error: Connection error."), "network"),
    "no such model": (CLAUDE, of_claude(subtype="success", api_error_status=404, result="model: sonet"), "missing"),
    "a subtype": (CLAUDE, of_claude(subtype="rate_limit", result=""), "rate limit"),
    "ended well": (CLAUDE, of_claude(**LIMITED).replace("exit(1)", "exit(0)"), "rate limit"),
    "codex": (
        CODEX,
        'print(\'{"type": "turn.failed", "error": {"message": "last status: 429 Slow Down"}}\'); sys.exit(1)',
        "rate limit",
    ),
    "says so": (AIDER, "sys.exit(75)", "server"),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_a_service_that_refuses_is_nobodys_failure(desk: CallContext, name: str) -> None:
    backend, do, kind = OUTAGES[name]
    with pytest.raises(BackendUnavailable) as refused:
        asked(desk, backend, do=do)
    assert refused.value.kind == kind
    assert refused.value.usage == (Usage(0.5) if backend is CLAUDE else Usage())


def test_the_message_of_a_failed_turn_is_shown_whatever_it_is(desk: CallContext) -> None:
    do = 'print(\'{"type": "turn.failed", "error": {"message": "success"}}\'); sys.exit(75)'
    with pytest.raises(BackendUnavailable, match="exit status 75: success: it says"):
        asked(desk, CODEX, do=do)


OWN = {
    "turns": of_claude(subtype="error_max_turns", result="connection pool half done"),
    "money": of_claude(subtype="error_max_budget_usd"),
    "too long": of_claude(subtype="success", api_error_status=400, result="Prompt is too long"),
    "in passing": "print(json.dumps({'is_error': True, 'api_error_status': 429})); "
    + of_claude(is_error=False, result="the API rate limit is now tested"),
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_coder_gives_up_by_itself_is_the_candidates_failure(desk: CallContext, name: str) -> None:
    with pytest.raises(CallFailed, match="exit status 1"):
        asked(desk, CLAUDE, do=OWN[name])


@pytest.mark.parametrize("mode", [None, 0o644, 0o755])
def test_a_program_that_cannot_be_started_is_unavailable(desk: CallContext, mode: int | None) -> None:
    program = Path("program").absolute()
    if mode is not None:
        program.write_text("no program, no line that says what runs it\n")
        program.chmod(mode)
    with pytest.raises(BackendUnavailable, match=f"coder: cannot start '{program}'"):
        told(desk, {"run": [str(program)]})


@pytest.mark.parametrize("status", [126, 127])
def test_a_shell_that_finds_no_program_is_unavailable_too(desk: CallContext, status: int) -> None:
    with pytest.raises(BackendUnavailable, match=str(status)):
        told(desk, {"run": ["/bin/sh", "-c", f"exit {status}"]})


def test_a_folder_that_is_missing_is_not_the_programs_fault(desk: CallContext) -> None:
    Path("work").rmdir()
    with pytest.raises(FileNotFoundError, match="work"):
        told(desk, {"run": ["true"]})


@pytest.mark.parametrize(
    ("backend", "do", "why"),
    [
        (CODEX, "sys.exit()", r"no answer in \{answer_file\}"),
        (CODEX, "os.mkdir(options.output_last_message); sys.exit()", r"no answer in \{answer_file\}"),
        (CLAUDE, "print('no JSON'); sys.exit()", "no answer at 'result'"),
        (CLAUDE, "print('{\"result\": 5}'); sys.exit()", "no answer at 'result'"),
    ],
)
def test_a_command_without_an_answer_has_failed(desk: CallContext, backend: dict[str, Any], do: str, why: str) -> None:
    with pytest.raises(CallFailed, match=why):
        asked(desk, backend, do=do)


@pytest.mark.parametrize("number", ["NaN", "-1", "1e400", '"5"', "true", "null", f"1{'0' * 400}"])
def test_a_cost_that_cannot_be_is_unknown_and_the_log_says_so(desk: CallContext, number: str) -> None:
    answer = asked(desk, CLAUDE, do=f'print(\'{{"result": "ok", "total_cost_usd": {number}}}\'); sys.exit()')
    assert answer.usage == Usage(None)
    assert "no number at total_cost_usd for usd" in log()
    assert "what it cost is unknown" in log()


CODEX_USAGE = {
    "input_tokens": ["usage.input_tokens"],
    "output_tokens": ["usage.output_tokens"],
    "cached_tokens": ["usage.cached_input_tokens"],
}
CACHED_PRICE = {"input": 1.0, "output": 10.0, "cached": 0.1}


@pytest.mark.parametrize(
    ("usage", "paths", "price", "usd"),
    [
        ({"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 10}, CODEX_USAGE, CACHED_PRICE, 0.00029),
        ({"input_tokens": 1000, "output_tokens": 10}, CODEX_USAGE, CACHED_PRICE, 0.0011),
        ({"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 10}, CODEX_USAGE, "free", 0.0),
        ({"input_tokens": 100, "cached_input_tokens": 900, "output_tokens": 10}, CODEX_USAGE, CACHED_PRICE, None),
        ({"input_tokens": -1, "output_tokens": 10}, CODEX_USAGE, CACHED_PRICE, None),
        ({"input_tokens": 1000}, CODEX_USAGE, CACHED_PRICE, None),
        ({}, CODEX_USAGE, "free", 0.0),
        (
            {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10},
            {
                "input_tokens": ["usage.input_tokens", "usage.cache_read_input_tokens"],
                "output_tokens": ["usage.output_tokens"],
                "cached_tokens": ["usage.cache_read_input_tokens"],
            },
            CACHED_PRICE,
            0.00029,
        ),
        (
            {"input_tokens": 1000, "cached_input_tokens": 500, "made": 400, "output_tokens": 10},
            {**CODEX_USAGE, "cache_write_tokens": ["usage.made"]},
            {**CACHED_PRICE, "cache_write": 1.25},
            0.00075,
        ),
        (
            {"input_tokens": 1000, "cached_input_tokens": 500, "made": 501, "output_tokens": 10},
            {**CODEX_USAGE, "cache_write_tokens": ["usage.made"]},
            CACHED_PRICE,
            None,
        ),
    ],
)
def test_cached_tokens_have_a_price_of_their_own(
    usage: dict[str, int], paths: dict[str, list[str]], price: Any, usd: float | None
) -> None:
    found = usage_in([{"usage": usage}], paths, price)[0].usd
    assert found == (usd if usd is None else pytest.approx(usd))


def test_messages_that_are_printed_as_one_list_are_read_too(desk: CallContext) -> None:
    listed = "print(json.dumps([{'type': 'system'}, {'result': 'yes', 'total_cost_usd': 2}])); sys.exit()"
    assert asked(desk, CLAUDE, do=listed)[:2] == ("yes", Usage(2.0))


def test_a_command_that_ends_well_because_the_build_stops_has_not_answered(desk: CallContext) -> None:
    seen: list[object] = []

    def asking() -> None:
        polite = "import signal; signal.signal(15, lambda *_: sys.exit(0)); open('here', 'w'); time.sleep(60)"
        with pytest.raises(BuildStopping) as stopped:
            asked(desk, AIDER, do=polite)
        seen.append(stopped.type)

    thread = Thread(target=asking)
    thread.start()
    while not Path("work/here").exists():
        assert thread.is_alive()
        time.sleep(0.01)
    desk.processes.stop()
    thread.join(timeout=PATIENCE)
    assert seen == [BuildStopping]


def test_nobody_answers_with_nothing_for_nothing(desk: CallContext) -> None:
    question = Question("planner", "plan", os.getcwd(), "log")
    assert ask({"backend": "none"}, question, desk) == Answer("", Usage())
    assert not Path("log").exists()
