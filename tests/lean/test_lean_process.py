"""One process: how it is asked, and what becomes of one that ends, hangs, or prints what it should not.

What a Lean cannot be made to do when it is wanted, a few lines of Python do in its place."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from pipeline.lean.model import Interrupted, LeanCrash, LeanKilled, LeanStartError, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.lean.repl.process import LeanCommand, Overrun, ProcessEnded, ProcessGone, Repl
from pipeline.machine.process import Processes

READY = 'import json, os, sys, time\nprint("\\nready {}", flush=True)\n'
ECHO = (
    READY
    + """
for line in sys.stdin:
    asked = json.loads(line)
    word, wanted = asked.pop("word"), asked.get("print", "")
    if asked.get("die"): print("out of luck", file=sys.stderr); os._exit(3)
    print(wanted + "\\n" + word, json.dumps({"length": len(line)}), flush=True)
    time.sleep(asked.get("sleep", 0))
"""
)
Started = Callable[[str], Repl]


def command(program: str) -> LeanCommand:
    return LeanCommand((sys.executable, "-c", program), dict(os.environ), "/")


@pytest.fixture
def started(processes: Processes) -> Iterator[Started]:
    repls: list[Repl] = []

    def start(program: str) -> Repl:
        repls.append(Repl(command(program), processes))
        return repls[-1]

    yield start
    for repl in repls:
        repl.end()


def ready(repl: Repl) -> Repl:
    repl.await_ready()
    return repl


def test_what_is_printed_between_is_no_answer(started: Started) -> None:
    """A tactic that prints knows no word of any request."""
    fake = 'ready {"length": 0}\n0123456789abcdef {"length": 0}\n{"length": 0}\nhalf a line'
    assert ready(started(ECHO)).ask({"print": fake}, 9)["length"] > len(fake)


def test_every_request_has_a_word_of_its_own(started: Started) -> None:
    told = ready(started(ECHO.replace('{"length": len(line)}', '{"word": word}')))
    assert len({told.ask({}, 9)["word"] for _ in range(50)}) == 50


def test_a_request_larger_than_any_pipe_is_asked_and_answered(started: Started) -> None:
    assert ready(started(ECHO)).ask({"text": "∀" * 1_000_000}, 30)["length"] > 1_000_000


def test_a_process_that_does_not_even_read_is_overrun(started: Started) -> None:
    hung = ready(started(READY + "time.sleep(60)"))
    with pytest.raises(Overrun):
        hung.ask({"text": "x" * 1_000_000}, 0.3)


def test_one_that_dies_of_a_request_says_its_last_words(started: Started) -> None:
    repl = ready(started("import sys; print('hello', file=sys.stderr)\n" + ECHO))
    with pytest.raises(ProcessEnded, match=r"^out of luck$") as error:
        repl.ask({"die": True}, 9)
    assert not isinstance(error.value, ProcessGone)


def test_one_that_had_died_before_is_told_apart(started: Started) -> None:
    repl = ready(started(READY))
    os.waitid(os.P_PID, repl.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessGone):
        repl.ask({}, 9)


@contextmanager
def soon(do: Callable[[], Any]) -> Iterator[None]:
    timer = Timer(0.2, do)
    timer.start()
    yield
    timer.join()


def test_an_answer_that_is_not_wanted_any_more_is_not_waited_for(started: Started) -> None:
    repl, stop = ready(started(READY + "time.sleep(60)")), Event()
    begun = time.monotonic()
    with soon(stop.set), pytest.raises(Interrupted):
        repl.ask({}, 50, stop)
    assert time.monotonic() - begun < 2


def test_interrupted_while_it_starts_it_goes_on_starting(started: Started) -> None:
    repl, stop = started("import time; time.sleep(0.5)\n" + ECHO), Event()
    stop.set()
    with pytest.raises(Interrupted):
        repl.await_ready(stop)
    assert ready(repl).ask({}, 9)


def test_a_process_that_dies_at_each_start_is_an_error_with_its_last_words(processes: Processes) -> None:
    """Lean prints to the one what is wrong with a file, and to the other what is wrong with itself."""
    pool = Pool(command("import sys; print('unknown module'); sys.exit('out of memory')"), processes)
    with pytest.raises(LeanStartError, match=r"(?s)Lean does not start: unknown module\n.*out of memory"):
        pool.open(Theorem("a", "True"))
    pool.close()


def test_no_such_program_is_an_error(processes: Processes) -> None:
    pool = Pool(LeanCommand(("/no/lean",), {}, "/"), processes)
    with pytest.raises(LeanStartError, match="/no/lean"):
        pool.open(Theorem("a", "True"))
    pool.close()


# Starts well, and is ended over the first thing it is asked, as often as `lives` has a letter.
DOOMED = (
    READY
    + """
for line in sys.stdin:
    word = json.loads(line)["word"]
    left = open(LIVES).read()
    open(LIVES, "w").write(left[1:])
    if left: os.kill(os.getpid(), SIGNAL)
    print(word, json.dumps({"sid": 0, "goals": ["⊢ True"]}), flush=True)
"""
)


@contextmanager
def doomed(processes: Processes, tmp_path: Path, number: int, times: int) -> Iterator[Pool]:
    lives = tmp_path / "lives"
    lives.write_text("x" * times)
    program = DOOMED.replace("LIVES", repr(str(lives))).replace("SIGNAL", str(number))
    with closing(Pool(command(program), processes)) as pool:
        yield pool


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_asked_of_a_process_that_is_killed_from_outside_is_asked_of_another(
    processes: Processes, tmp_path: Path, number: int
) -> None:
    with doomed(processes, tmp_path, number, 2) as pool:
        session, state = pool.open(Theorem("x", "True"))
        assert state.goals == ("⊢ True",)
        session.close()


def test_processes_that_are_killed_one_after_another_say_nothing_of_what_was_asked(
    processes: Processes, tmp_path: Path
) -> None:
    with doomed(processes, tmp_path, signal.SIGKILL, 99) as pool:
        with pytest.raises(LeanKilled, match="3 processes of Lean were killed one after another: signal 9"):
            pool.open(Theorem("x", "True"))
        with pytest.raises(LeanKilled):
            pool.check(Theorem("x", "True"), ["trivial"])


def test_a_process_that_ends_by_its_own_fault_has_crashed(processes: Processes, tmp_path: Path) -> None:
    with doomed(processes, tmp_path, signal.SIGSEGV, 99) as pool, pytest.raises(LeanCrash):
        pool.open(Theorem("x", "True"))
    assert (tmp_path / "lives").read_text() == "x" * 98
