"""Commands one at a time: how they end, what is left of them, and what the log shows."""

import os
import signal
import time
from io import BytesIO
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.building import ends
from kit.project import PATIENCE

from pipeline.machine.failures import Outage, find_outage, full_disk
from pipeline.machine.process import (
    KILL_AFTER,
    BuildStopping,
    Environment,
    Exit,
    Processes,
    await_end,
    has_ended,
)
from pipeline.machine.redaction import Redactor, copy_redacted, redact_text


def shell(processes: Processes, line: str, timeout: float | None = None, **env: str) -> Exit:
    return processes.run(["/bin/sh", "-c", line], Environment({"PATH": os.environ["PATH"], **env}), "log", timeout)


@pytest.mark.parametrize(
    ("line", "ended"), [("true", Exit(0)), ("exit 7", Exit(7)), ("kill -9 $$", Exit(-9)), ("kill $$", Exit(-15))]
)
def test_how_a_command_ended_is_told(processes: Processes, line: str, ended: Exit) -> None:
    assert shell(processes, line, timeout=60) == ended


def test_a_command_that_cannot_be_started_leaves_nothing_behind(processes: Processes) -> None:
    with pytest.raises(FileNotFoundError):
        processes.run(["./no-such-command"], Environment({}), "log")
    assert shell(processes, "true") == Exit(0)


def test_output_goes_to_the_end_of_the_log_in_its_order(processes: Processes) -> None:
    for word in ("one", "two"):
        shell(processes, f"echo {word}; echo {word} >&2; cat")
    assert Path("log").read_text() == "one\none\ntwo\ntwo\n"


@pytest.mark.parametrize("line", ["sleep 60", "trap '' TERM; while :; do sleep 0.1; done"])
def test_a_timeout_is_told_even_if_the_command_does_not_listen(processes: Processes, line: str) -> None:
    start = time.monotonic()
    ended = shell(processes, line, timeout=0.2)
    assert ended.timed_out
    assert time.monotonic() - start < 20


def test_what_a_command_leaves_in_the_background_ends_with_it(processes: Processes) -> None:
    assert shell(processes, "sleep 60 & echo $! > pid") == Exit(0)
    assert ends(int(Path("pid").read_text()))


def test_stop_ends_what_runs_and_nothing_new_is_started(processes: Processes) -> None:
    ended: list[Exit] = []
    thread = Thread(target=lambda: ended.append(shell(processes, "touch here; sleep 60")))
    thread.start()
    while not Path("here").exists():
        assert thread.is_alive()
    processes.stop()
    thread.join(timeout=PATIENCE)
    assert ended == [Exit(-signal.SIGTERM)]
    with pytest.raises(BuildStopping):
        shell(processes, "true")


def test_a_command_may_have_a_folder_an_input_and_an_output_of_its_own(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with TemporaryFile() as given, TemporaryFile() as out:
        given.write(b"given")
        given.seek(0)
        words = ["/bin/sh", "-c", "pwd -P; cat; echo $SECRET >&2"]
        env = {"PATH": os.environ["PATH"], "SECRET": "hush-hush"}
        ended = processes.run(words, Environment(env, {"S": "hush-hush"}), "log", cwd="there", stdin=given, stdout=out)
        assert ended == Exit(0)
        assert os.pread(out.fileno(), 999, 0) == f"{(tmp_path / 'there').resolve()}\ngiven".encode()
    assert Path("log").read_text() == "[S]\n"


def test_stop_wakes_who_waits_for_something_else_and_nobody_begins_to(processes: Processes) -> None:
    woken: list[str] = []
    with processes.wake_on_stop(lambda: woken.append("before")):
        pass
    with processes.wake_on_stop(lambda: woken.append("meanwhile")):
        processes.stop()
    assert woken == ["meanwhile"]
    with pytest.raises(BuildStopping), processes.wake_on_stop(lambda: woken.append("after")):
        woken.append("not to be waited for")
    assert woken == ["meanwhile"]


def started(processes: Processes, line: str) -> Popen[bytes]:
    return processes.start(["/bin/sh", "-c", line], {"PATH": os.environ["PATH"]})


def test_waiting_for_a_command_keeps_its_number_from_others(processes: Processes) -> None:
    child = started(processes, "exit 7")
    await_end(child)
    assert has_ended(child)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    processes.end(child)
    assert child.returncode == 7
    assert has_ended(child)
    assert not psutil.pid_exists(child.pid)


def test_a_command_that_was_ended_already_may_be_ended_again(processes: Processes) -> None:
    child = started(processes, "sleep 60")
    for _ in range(2):
        processes.end(child)
        assert child.returncode == -signal.SIGTERM


def test_how_commands_end_is_told_even_if_whoever_started_us_ignores_it() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    processes = Processes(["x"])
    try:
        assert processes.run(["/bin/sh", "-c", "exit 7"], Environment({}), os.devnull) == Exit(7)
    finally:
        processes.close()


def test_those_that_do_not_listen_are_waited_for_all_at_once(processes: Processes) -> None:
    deaf = [started(processes, f"trap '' TERM; touch deaf{n}; while :; do sleep 0.1; done") for n in range(3)]
    while len([*Path().glob("deaf*")]) < 3:
        assert not any(map(has_ended, deaf))
    start = time.monotonic()
    processes.close()
    assert time.monotonic() - start < 2 * KILL_AFTER
    assert [child.returncode for child in deaf] == [-signal.SIGKILL] * 3


def guard_of(processes: Processes) -> psutil.Process:
    before = guards()
    shell(processes, "true")
    while not (found := guards() - before):  # its words can be read a moment after it has started
        time.sleep(0.01)
    (guard,) = found
    return guard


def guards() -> set[psutil.Process]:
    """Of this process; other tests may have left theirs."""
    return {child for child in psutil.Process().children() if any("guard.py" in word for word in words_of(child))}


def words_of(process: psutil.Process) -> list[str]:
    """Its words; none of one that has ended, such as an orphan that was left to us."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_the_guard_ends_with_the_build(processes: Processes) -> None:
    guard = guard_of(processes)
    processes.close()
    assert not guard.is_running()


def test_a_build_whose_guard_was_killed_goes_on_and_ends_in_order(processes: Processes) -> None:
    guard = guard_of(processes)
    guard.kill()
    while guard.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert [shell(processes, "exit 3") for _ in range(2)] == [Exit(3)] * 2


def test_what_is_set_wins_over_what_is_passed_and_both_over_the_base(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PASSED", "BOTH"):
        monkeypatch.setenv(name, "from outside")
    env = processes.environment("x", {"BOTH": "set", "PATH": "/mine"}, ["PASSED", "BOTH", "NOT_SET"])
    seen = env.variables
    assert (seen["PASSED"], seen["BOTH"], seen["PATH"]) == ("from outside", "set", "/mine")
    assert "NOT_SET" not in seen
    assert env.secrets["PASSED"] == "from outside"


# -- redaction


VALUES = st.text("ab", min_size=4, max_size=6)
SECRETS = st.dictionaries(st.sampled_from(["X", "Y", "Z"]), VALUES, max_size=3)


@given(secrets=SECRETS, chunks=st.lists(st.text("abc", max_size=9), max_size=6))
def test_no_secret_comes_through_however_the_text_is_cut(secrets: dict[str, str], chunks: list[str]) -> None:
    redactor = Redactor(secrets)
    out = b"".join(redactor.feed(chunk.encode()) for chunk in chunks) + redactor.feed(b"", last=True)
    assert not [value for value in secrets.values() if value in out.decode()]


@given(value=VALUES, chunks=st.lists(st.text("abc", max_size=9), max_size=6))
def test_all_but_the_secret_comes_through_as_it_was(value: str, chunks: list[str]) -> None:
    redactor = Redactor({"X": value})
    out = b"".join(redactor.feed(chunk.encode()) for chunk in chunks) + redactor.feed(b"", last=True)
    assert out.decode().replace("[X]", value) == "".join(chunks)
    assert out.decode() == "".join(chunks).replace(value, "[X]")


def test_values_too_short_to_be_secrets_do_not_blot_out_the_log() -> None:
    assert redact_text("1 yes 12345", {"A": "1", "B": "yes", "C": "", "D": "12345"}) == "1 yes [D]"


def test_a_secret_of_bytes_that_are_no_text_is_found_too() -> None:
    assert blotted(b"<\xff\xfe\xfd\xfc>" * 50_000, X=os.fsdecode(b"\xff\xfe\xfd\xfc")) == b"<[X]>" * 50_000


def test_a_long_secret_takes_no_longer_than_a_short_one() -> None:
    text = b"0123456789" * 200_000
    start = time.monotonic()
    assert blotted(text, X="x" * 100_000) == text
    assert time.monotonic() - start < 5


def blotted(text: bytes, **secrets: str) -> bytes:
    log = BytesIO()
    with TemporaryFile("ab") as file:
        file.write(text)
        file.flush()
        copy_redacted(file.fileno(), log, secrets)
    return log.getvalue()


def test_copying_leaves_alone_the_place_where_others_still_write() -> None:
    with TemporaryFile() as file:
        os.write(file.fileno(), b"one ")
        copy_redacted(file.fileno(), BytesIO(), {"X": "secret"})
        os.write(file.fileno(), b"two")
        assert os.pread(file.fileno(), 99, 0) == b"one two"


OWN = ""
BLAME: dict[str, tuple[dict[str, Any], str]] = {
    "exit 1": ({"ended": Exit(1)}, OWN),
    "exit 127, of its own files": ({"ended": Exit(127)}, OWN),
    "out of its own time": ({"ended": Exit(-15, timed_out=True)}, OWN),
    **{f"SIG{n}": ({"ended": Exit(-n)}, OWN) for n in (4, 6, 7, 8, 11, 13, 24, 31)},
    **{f"SIG{n} in a shell": ({"ended": Exit(128 + n)}, OWN) for n in (4, 6, 7, 8, 11)},
    "exit 255": ({"ended": Exit(255)}, OWN),
    "exit 75 of a sweep": ({"ended": Exit(75)}, OWN),
    "no more turns": ({"ended": Exit(1), "asked": True}, OWN),
    **{f"kill -{n}": ({"ended": Exit(-n)}, "killed from outside") for n in (1, 2, 3, 9, 15)},
    **{f"kill -{n} in a shell": ({"ended": Exit(128 + n)}, "killed from outside") for n in (1, 2, 3, 9, 15)},
    "a role that is killed": ({"ended": Exit(-9), "asked": True}, "killed from outside"),
    "no such program": ({"ended": Exit(127), "missing": True}, "not there"),
    "no such program of a role": ({"ended": Exit(127), "asked": True}, "cannot be started"),
    "no answer in time": ({"ended": Exit(-15, timed_out=True), "asked": True}, "in time"),
}


@pytest.mark.parametrize("name", BLAME)
def test_whose_failure_it_is(name: str) -> None:
    facts, why = BLAME[name]
    found = find_outage(**facts)
    assert why in (found.why if found else OWN)
    assert bool(found) == bool(why)


def test_a_program_without_its_cage_is_not_there() -> None:
    """So it is not waited for, and nothing was paid: a kill may come in the middle of an answer."""
    assert find_outage(Exit(1, fault="no cage"), asked=True) == Outage("missing", "no cage")


def test_a_file_system_that_tells_no_sizes_is_never_full() -> None:
    assert full_disk(["/proc/self"]) == full_disk([])
