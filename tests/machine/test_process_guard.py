"""The guard: whom it ends once a build is over, and whom it leaves alone."""

import os
import subprocess
from collections.abc import Callable, Iterator

import psutil
import pytest

from pipeline.machine.guard import MARK, ProcessList, from_proc, from_psutil, read_sessions, strays

Look = Callable[[], ProcessList]
LOOKS = ([from_proc] if os.path.isdir("/proc/self") else []) + [from_psutil]
looks = pytest.mark.parametrize("look", LOOKS)
OURS = MARK + b"/project/runs/x"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, with an environment that is no text."""
    env = {b"A": b"\xff\xfe", OURS.partition(b"=")[0]: OURS.partition(b"=")[2]}
    with subprocess.Popen(["/bin/sleep", "60"], env=env, start_new_session=True) as child:
        yield child
        child.kill()


def test_sessions_that_are_over_and_an_end_in_order_are_told() -> None:
    assert read_sessions([]) == (set(), False)
    assert read_sessions(["+1\n", "+2\n", "-1\n", "+1\n", "-2\n"]) == ({1}, False)
    assert read_sessions(["+1\n", "-1\n", ".\n"]) == (set(), True)


@looks
def test_a_process_is_found_by_its_session_and_by_its_mark(sleeper: subprocess.Popen[bytes], look: Look) -> None:
    for live, marks in (({sleeper.pid}, set()), (set(), {OURS}), ({sleeper.pid}, {OURS})):
        assert [*strays(look(), live, marks)] == [sleeper.pid]
    assert [*strays(look(), {os.getpid()}, {OURS + b"y", OURS[:-1]})] == []


@looks
def test_what_has_ended_is_not_found_even_if_nobody_asks_how(sleeper: subprocess.Popen[bytes], look: Look) -> None:
    """Where nobody ever asks, the guard would never be done."""
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(sleeper.pid).status() == psutil.STATUS_ZOMBIE
    assert [*strays(look(), {sleeper.pid}, {OURS})] == []
