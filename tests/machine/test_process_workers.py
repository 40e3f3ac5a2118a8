"""Functions in warm processes: whatever one of them does to its process, the next call finds it as it should be."""

import os
import re
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from kit.project import PATIENCE

from pipeline.machine.job import Workers
from pipeline.machine.process import Environment, Exit, Processes

CODE = """
import os, subprocess, sys, threading, time
def pid(reads, writes):
    raise ValueError(os.getpid())
def long(reads, writes):
    raise ValueError('ü' * 1_000_000)
def seen(reads, writes):
    raise ValueError(os.environ.get('A'))
def dies(reads, writes):
    os._exit(9)
def forks(reads, writes):
    if pid := os.fork():
        os.waitpid(pid, 0)
def dies_before_its_child(reads, writes):
    if os.fork():
        os._exit(9)
    os.setsid()
    time.sleep(20)
    os._exit(0)
def closes(reads, writes):
    sys.stdin.close()
    for number in range(3):
        os.close(number)
def reads_nothing(reads, writes):
    raise ValueError(sys.stdin.read() + os.read(0, 9).decode())
def tee(reads, writes):
    class Tee:
        def write(self, text):
            return sys.__stdout__.write(text)
    sys.stdout = Tee()
    print("through the tee")
def own_stream(reads, writes):
    sys.stdout = open(os.dup(1), "w")
    print("kept for later")
def no_such_key(reads, writes):
    return {}["no_such_key"]
def threads(reads, writes):
    threading.Thread(target=time.sleep, args=[300]).start()
def between(reads, writes):
    print("one")
    subprocess.run(["echo", "two"])
    print("three", end="")
    raise ValueError("four")
def hangs(reads, writes):
    print("last words of", os.environ["A"])
    time.sleep(300)
def odd(reads, writes):
    raise ValueError("\\ud800")
def prints(reads, writes):
    for _ in range(50_000):
        print("x" * 99)
"""


def call(workers: Workers, function: str, timeout: float | None = None, **env: str) -> str | Exit:
    request = {"file": "f.py", "function": function, "reads": [], "writes": [], "with": {}}
    return workers.call(request, Environment({"PATH": os.environ["PATH"], **env}), "log", timeout)


def error(workers: Workers, function: str, **env: str) -> str:
    answer = call(workers, function, **env)
    assert isinstance(answer, str)
    return answer


@pytest.fixture
def workers(processes: Processes) -> Workers:
    Path("f.py").write_text(CODE)
    return Workers(processes)


def test_one_worker_serves_all_calls_of_a_thread_until_it_dies(workers: Workers) -> None:
    first = call(workers, "pid")
    assert first == call(workers, "pid")
    assert call(workers, "dies") == Exit(9)
    assert error(workers, "pid") not in ("", first)


def test_each_call_of_a_worker_has_in_its_log_what_it_printed_and_nothing_else(workers: Workers) -> None:
    for _ in range(3):
        call(workers, "tee")
        assert Path("log").read_bytes() == b"through the tee\n"
        Path("log").unlink()


def test_another_thread_has_a_worker_of_its_own(workers: Workers) -> None:
    found: list[str | Exit] = []
    thread = Thread(target=lambda: found.append(call(workers, "pid")))
    thread.start()
    thread.join(timeout=PATIENCE)
    assert found[0] != call(workers, "pid")


def test_another_environment_has_another_worker(workers: Workers) -> None:
    errors = [error(workers, "seen", **env) for env in ({"A": "1"}, {"A": "2"}, {})]
    assert errors == ["ValueError: 1", "ValueError: 2", "ValueError: None"]


def test_a_long_answer_arrives_whole(workers: Workers) -> None:
    assert error(workers, "long") == f"ValueError: {'ü' * 1_000_000}"


def test_an_edited_function_is_read_again_by_the_same_worker(workers: Workers) -> None:
    before = error(workers, "pid")
    Path("f.py").write_text(CODE.replace("ValueError(os.getpid())", "KeyError(os.getpid())"))
    assert error(workers, "pid") == before.replace("ValueError: ", "KeyError(") + ")"


def test_compiled_files_of_the_project_are_neither_written_nor_read(workers: Workers) -> None:
    Path("f.py").write_text("import sibling\ndef f(reads, writes):\n    raise ValueError(sibling.A)\n")
    Path("sibling.py").write_text("A = 1\n")
    assert error(workers, "f") == "ValueError: 1"
    assert not [*Path().rglob("*.pyc")]


def test_workers_run_the_python_that_runs_the_build(workers: Workers) -> None:
    Path("f.py").write_text("import sys\ndef f(reads, writes):\n    raise ValueError(sys.executable)\n")
    assert error(workers, "f") == f"ValueError: {sys.executable}"


WELL = ""


def test_a_fork_that_the_function_does_not_end_does_not_answer_for_it(workers: Workers) -> None:
    pid = call(workers, "pid")
    for _ in range(3):
        assert call(workers, "forks") == WELL
        assert call(workers, "pid") == pid


def test_a_worker_that_ends_before_its_child_is_seen_to_end(workers: Workers) -> None:
    start = time.monotonic()
    assert call(workers, "dies_before_its_child") == Exit(9)
    assert time.monotonic() - start < 10


def test_standard_streams_that_a_function_closes_are_there_for_the_next(workers: Workers) -> None:
    assert call(workers, "closes") == WELL
    assert error(workers, "reads_nothing") == "ValueError: "
    assert call(workers, "prints") == WELL
    assert Path("log").stat().st_size > 5_000_000


@pytest.mark.parametrize(("function", "printed"), [("tee", "through the tee\n"), ("own_stream", "kept for later\n")])
def test_a_function_may_leave_a_stream_of_its_own_as_standard_output(
    workers: Workers, function: str, printed: str
) -> None:
    assert call(workers, function) == WELL
    assert Path("log").read_text() == printed
    assert call(workers, "prints") == WELL
    assert Path("log").read_text().count("x" * 99) == 50_000


def test_a_key_error_is_not_taken_for_a_missing_function(workers: Workers) -> None:
    assert error(workers, "no_such_key") == "KeyError('no_such_key')"
    assert error(workers, "nowhere") == "f.py has no function nowhere"


def test_threads_that_a_function_leaves_keep_nobody_waiting(workers: Workers, processes: Processes) -> None:
    assert call(workers, "threads") == WELL
    start = time.monotonic()
    processes.close()
    assert time.monotonic() - start < 10


def test_what_cannot_be_asked_is_no_death_of_the_worker(workers: Workers) -> None:
    with pytest.raises(ValueError, match="unmarshallable"):
        workers.call({"with": object()}, Environment({}), "log", None)


def test_whatever_is_printed_is_in_the_log_without_secrets(workers: Workers) -> None:
    request = {"file": "f.py", "function": "prints", "reads": [], "writes": [], "with": {}}
    assert workers.call(request, Environment({"A": "x" * 9}, {"A": "x" * 9}), "log", None) == WELL
    assert Path("log").read_text() == ("[A]" * 11 + "\n") * 50_000


def test_what_is_printed_is_in_the_log_in_its_order_and_before_the_traceback(workers: Workers) -> None:
    assert error(workers, "between") == "ValueError: four"
    printed, _, traceback = Path("log").read_text().partition("Traceback")
    assert printed == "one\ntwo\nthree"
    assert traceback.endswith("ValueError: four\n")


def test_what_is_printed_before_a_timeout_is_in_the_log_without_secrets(workers: Workers) -> None:
    request = {"file": "f.py", "function": "hangs", "reads": [], "writes": [], "with": {}}
    env = Environment({"PATH": os.environ["PATH"], "A": "secret"}, {"A": "secret"})
    assert workers.call(request, env, "log", 1) == Exit(-15, timed_out=True)
    assert Path("log").read_text() == "last words of [A]\n"


def frames() -> list[str]:
    return re.findall(r'^ *File "(.*?)"', Path("log").read_text(), re.MULTILINE)


def test_a_traceback_has_the_frames_of_the_project_alone(workers: Workers) -> None:
    Path("g.py").write_text("import broken\n")
    Path("broken.py").write_text("def (\n")
    Path("f.py").write_text("def f(reads, writes):\n    import g\n")
    assert error(workers, "f").startswith("SyntaxError")
    assert [os.path.basename(file) for file in frames()] == ["f.py", "g.py", "broken.py"]
    Path("log").unlink()
    Path("f.py").write_text("def (\n")
    assert error(workers, "f").startswith("SyntaxError")
    assert frames() == ["f.py"]


def test_a_traceback_that_cannot_be_encoded_does_not_end_the_worker(workers: Workers) -> None:
    assert error(workers, "odd")
    assert r"ValueError: \ud800" in Path("log").read_text()


def test_relative_imports_start_from_the_folder_of_the_file(workers: Workers) -> None:
    Path("lib/deep").mkdir(parents=True)
    Path("lib/a.py").write_text("A = 1\n")
    Path("lib/deep/b.py").write_text("from ..a import A\nB = A + 1\n")
    Path("lib/deep/f.py").write_text("from . import b\nfrom ..a import A\ndef f(r, w):\n    raise ValueError(A, b.B)\n")
    request = {"file": "lib/deep/f.py", "function": "f", "reads": [], "writes": [], "with": {}}
    assert workers.call(request, Environment({"PATH": os.environ["PATH"]}), "log", None) == "ValueError: (1, 2)"


def test_an_edited_module_in_a_folder_is_imported_anew_however_it_is_named(workers: Workers) -> None:
    Path("lib").mkdir()
    for imports in ("from lib import a", "import lib.a\na = lib.a", "from lib.a import A\nimport lib\na = lib.a"):
        Path("f.py").write_text(f"{imports}\ndef f(reads, writes):\n    raise ValueError(a.A)\n")
        for text in ("1", "'two'"):
            Path("lib/a.py").write_text(f"A = {text}\n")
            assert error(workers, "f") == f"ValueError: {text.strip(chr(39))}"
