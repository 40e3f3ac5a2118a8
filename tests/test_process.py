"""Commands and workers one at a time: how they end, what is left of them, and what the log shows."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from threading import Thread

import psutil
import pytest
from building import ends
from hypothesis import given
from hypothesis import strategies as st

from pipeline.edge.process import Exit, Processes, Stopping
from pipeline.edge.redact import Redactor, copy_redacted, redacted
from pipeline.edge.workers import Reply, Workers


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.chdir(tmp_path)
    made = Processes(["x"])
    yield made
    made.close()


def shell(processes: Processes, line: str, timeout: float | None = None, **env: str) -> Exit:
    return processes.run(["/bin/sh", "-c", line], {"PATH": os.environ["PATH"], **env}, "log", timeout)


@pytest.mark.parametrize(
    ("line", "ended"), [("true", Exit(0)), ("exit 7", Exit(7)), ("kill -9 $$", Exit(-9)), ("kill $$", Exit(-15))]
)
def test_how_a_command_ended_is_told(processes: Processes, line: str, ended: Exit) -> None:
    assert shell(processes, line, timeout=60) == ended


def test_a_command_that_cannot_be_started_leaves_nothing_behind(processes: Processes) -> None:
    with pytest.raises(FileNotFoundError):
        processes.run(["./no-such-command"], {}, "log")
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
    thread.join(timeout=30)
    assert ended == [Exit(-signal.SIGTERM)]
    with pytest.raises(Stopping):
        shell(processes, "true")


def test_the_guard_ends_with_the_build(processes: Processes) -> None:
    shell(processes, "true")
    before = psutil.Process().children()
    processes.close()
    assert all(ends(child.pid) for child in before)


def test_what_is_set_wins_over_what_is_passed_and_both_over_the_base(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PASSED", "BOTH"):
        monkeypatch.setenv(name, "from outside")
    seen, secrets = processes.environment("x", {"BOTH": "set", "PATH": "/mine"}, ["PASSED", "BOTH", "NOT_SET"])
    assert (seen["PASSED"], seen["BOTH"], seen["PATH"]) == ("from outside", "set", "/mine")
    assert "NOT_SET" not in seen
    assert secrets["PASSED"] == "from outside"


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
    assert redacted("1 yes 12345", {"A": "1", "B": "yes", "C": "", "D": "12345"}) == "1 yes [D]"


def test_a_secret_of_bytes_that_are_no_text_is_found_too() -> None:
    log = BytesIO()
    copy_redacted(
        BytesIO(b"<\xff\xfe\xfd\xfc>" * 50_000), log, {"X": b"\xff\xfe\xfd\xfc".decode(errors="surrogateescape")}
    )
    assert log.getvalue() == b"<[X]>" * 50_000


# -- workers


CODE = """
import os, sys
def pid(reads, writes):
    raise ValueError(os.getpid())
def long(reads, writes):
    raise ValueError('ü' * 1_000_000)
def seen(reads, writes):
    raise ValueError(os.environ.get('A'))
def dies(reads, writes):
    os._exit(9)
"""


def call(workers: Workers, function: str, timeout: float | None = None, **env: str) -> Reply:
    request = {"file": "f.py", "function": function, "reads": [], "writes": [], "with": {}}
    return workers.call(request, {"PATH": os.environ["PATH"], **env}, "log", timeout, {})


@pytest.fixture
def workers(processes: Processes) -> Workers:
    Path("f.py").write_text(CODE)
    return Workers(processes)


def test_one_worker_serves_all_calls_of_a_thread_until_it_dies(workers: Workers) -> None:
    first = call(workers, "pid")
    assert first == call(workers, "pid")
    assert call(workers, "dies") == Reply("the worker process ended", 9)
    assert call(workers, "pid").error not in ("", first.error)


def test_another_thread_has_a_worker_of_its_own(workers: Workers) -> None:
    found: list[Reply] = []
    thread = Thread(target=lambda: found.append(call(workers, "pid")))
    thread.start()
    thread.join(timeout=60)
    assert found[0] != call(workers, "pid")


def test_another_environment_has_another_worker(workers: Workers) -> None:
    errors = [call(workers, "seen", **env).error for env in ({"A": "1"}, {"A": "2"}, {})]
    assert errors == ["ValueError: 1", "ValueError: 2", "ValueError: None"]


def test_a_long_answer_arrives_whole(workers: Workers) -> None:
    assert call(workers, "long").error == f"ValueError: {'ü' * 1_000_000}"


def test_an_edited_function_is_read_again_by_the_same_worker(workers: Workers) -> None:
    before = call(workers, "pid").error
    Path("f.py").write_text(CODE.replace("ValueError(os.getpid())", "KeyError(os.getpid())"))
    assert call(workers, "pid").error == before.replace("ValueError: ", "KeyError(") + ")"


def test_compiled_files_of_the_project_are_neither_written_nor_read(workers: Workers) -> None:
    Path("f.py").write_text("import sibling\ndef f(reads, writes):\n    raise ValueError(sibling.A)\n")
    Path("sibling.py").write_text("A = 1\n")
    assert call(workers, "f").error == "ValueError: 1"
    assert not [*Path().rglob("*.pyc")]


def test_workers_run_the_python_that_runs_the_build(workers: Workers) -> None:
    Path("f.py").write_text("import sys\ndef f(reads, writes):\n    raise ValueError(sys.executable)\n")
    assert call(workers, "f").error == f"ValueError: {sys.executable}"
