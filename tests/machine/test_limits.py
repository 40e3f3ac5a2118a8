"""Limits: each ends a real command and says so, none is felt below it, and nothing is left of what was ended."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from threading import Thread

import psutil
import pytest
from kit.building import ends
from kit.project import PATIENCE, ROOT

from pipeline.core.cages import FULL, ISOLATED, LANDLOCK, PLAIN, CageKeys
from pipeline.machine.cage import Cage
from pipeline.machine.failures import describe_exit
from pipeline.machine.grades import lacking
from pipeline.machine.limits import (
    MB,
    CageLimits,
    CappedLog,
    Group,
    Watch,
    default_limits,
    supervise,
)
from pipeline.machine.process import Environment, Exit, Processes
from pipeline.machine.redaction import Redactor
from pipeline.machine.usage import limiting_shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="trees of processes are looked at in /proc")
PYTHON = sys.executable
LIMITS = CageLimits(memory=200 * MB, cpu=30, processes=40, files=64, file_size=4 * MB, output=40 * MB, log=MB)


@pytest.fixture(params=[PLAIN, LANDLOCK, ISOLATED])
def any_grade(request: pytest.FixtureRequest) -> str:
    if why := lacking(CageKeys(request.param)):
        pytest.skip(why)
    return str(request.param)


def run(processes: Processes, grade: str, limits: CageLimits, *words: str, timeout: float = PATIENCE) -> Exit:
    """Run words, or a program in Python, in a folder `tree`."""
    tree = Path("tree").absolute()
    tree.mkdir(exist_ok=True)
    argv = words if len(words) > 1 else (PYTHON, "-c", *words)
    cage = Cage(grade, FULL, limits, str(tree), (str(tree),))
    return processes.run(argv, Environment({"PATH": os.environ["PATH"]}), "log", timeout, cwd=str(tree), cage=cage)


# What passes each limit, and what is said of it.
TAKE = "held = []\nwhile True: held.append(bytearray(b'x' * (1 << 20)))"
FORKED = f"import os, sys\nfor _ in range(6):\n  if not os.fork(): exec({TAKE!r})\nos.wait(); sys.exit(1)"
SPIN = "while True: pass"
SPIN_IN_TURNS = (
    "import os\nwhile True:\n  if not os.fork():\n    for _ in range(3_000_000): pass\n    os._exit(0)\n  os.wait()"
)
FORK = "import os, sys, time\ntry:\n  while os.fork(): pass\nexcept OSError: time.sleep(600)\ntime.sleep(600)"
THREADS = """import threading, time
try:
    while True: threading.Thread(target=time.sleep, args=[600], daemon=True).start()
except RuntimeError: time.sleep(600)"""
PASSING = {
    "memory": (TAKE, {"memory": 100 * MB}, "memory "),
    "memory of several": (FORKED, {"memory": 100 * MB}, "memory "),
    "cpu": (SPIN, {"cpu": 0.5}, "cpu "),
    "cpu of several": (SPIN_IN_TURNS, {"cpu": 0.5}, "cpu "),
    "processes": (FORK, {"processes": 30}, "processes "),
    "threads": (THREADS, {"processes": 30}, "processes "),
    "file_size": (f"import os\nos.execvp('head', ['head', '-c', '{9 * MB}', '/dev/zero'])", {"file_size": MB}, ""),
    "output": ("n = 0\nwhile True: open(f'x{n}', 'wb').write(b'x' * 1000000); n += 1", {"output": 20 * MB}, "output "),
    "log": ("while True: print('x' * 1000)", {"log": MB}, "log 1 MB"),
}


@pytest.mark.parametrize("name", [name for name in PASSING if name != "file_size"])
def test_each_limit_ends_a_command_and_says_so(processes: Processes, any_grade: str, name: str) -> None:
    program, limits, says = PASSING[name]
    before = len(groups())
    ended = run(processes, any_grade, CageLimits(**limits), program)
    assert not ended.timed_out
    assert describe_exit(ended, None)[0].startswith(f"limit: {says}")
    assert groups_are(before)


def test_a_file_that_gets_too_large_ends_a_command(processes: Processes, any_grade: str) -> None:
    words = ["/bin/sh", "-c", f"exec head -c {9 * MB} /dev/zero > file"]
    assert run(processes, any_grade, CageLimits(file_size=MB), *words).limit == "file_size 1 MB"
    assert Path("tree/file").stat().st_size == MB


def test_too_many_open_files_are_the_programs_own_failure(processes: Processes, any_grade: str) -> None:
    ended = run(processes, any_grade, CageLimits(files=20), "held = [open('/dev/null') for _ in range(30)]")
    assert ended == Exit(1)
    assert "Too many open files" in Path("log").read_text()


def test_a_limit_of_time_on_the_processor_is_told_also_by_the_kernel() -> None:
    """Who uses it up between two looks is ended by a signal that says why, before there is one that does not."""
    words = [*limiting_shell(CageLimits(cpu=0.5)), PYTHON, "-c", SPIN]
    assert subprocess.run(words, check=False, timeout=PATIENCE).returncode == -signal.SIGXCPU


NEAR = """import os, sys, threading, time
held = b"x" * (100 << 20)
ready = [threading.Thread(target=time.sleep, args=[0.3]) for _ in range(15)]
for each in ready: each.start()
files = [open("/dev/null") for _ in range(40)]
for n in range(8): open(f"x{n}", "wb").write(b"x" * (3 << 20))
print("x" * (900 << 10))
for each in ready: each.join()
"""


def test_who_only_comes_near_all_limits_feels_none(processes: Processes, any_grade: str) -> None:
    """Though the same user has more processes than one command may."""
    beside = [processes.start(["/bin/sleep", "600"], {"PATH": os.environ["PATH"]}) for _ in range(50)]
    assert run(processes, any_grade, LIMITS, NEAR) == Exit(0)
    assert len(Path("log").read_bytes()) > 900 << 10
    for each in beside:
        processes.kill(each)


def test_wide_limits_are_felt_by_nobody(processes: Processes, any_grade: str) -> None:
    assert run(processes, any_grade, default_limits(), NEAR) == Exit(0)


def test_a_log_ends_at_its_limit_without_a_secret_cut_in_two(processes: Processes, any_grade: str) -> None:
    line = "while :; do echo hush-hush; done"
    tree = Path("tree").absolute()
    tree.mkdir()
    env = Environment({"PATH": os.environ["PATH"]}, {"KEY": "hush-hush"})
    cage = Cage(any_grade, FULL, CageLimits(log=100_001), str(tree), (str(tree),))
    assert processes.run(["/bin/sh", "-c", line], env, "log", PATIENCE, cage=cage).limit.startswith("log ")
    log = Path("log").read_bytes()
    assert len(log) <= 100_001
    assert b"hush-hush" not in log


# --- By watching alone, which is all there is where no control groups can be made.


def watched(limits: CageLimits, *words: str, log: str = "log") -> str:
    """The limit by which a command was ended; without control groups."""
    Path("tree").mkdir(exist_ok=True)
    source, sink = os.pipe()
    watch = Watch(limits, [str(Path("tree").absolute())], None)
    with open(log, "wb") as file:
        child = subprocess.Popen(
            [*limiting_shell(limits), *words], cwd="tree", stdout=sink, stderr=sink, start_new_session=True
        )
        os.close(sink)
        capped = CappedLog(file, Redactor({}), limits.log)
        try:
            return supervise(child, source, capped, watch, partial(os.killpg, child.pid, signal.SIGKILL))
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            capped.close(source)
            os.close(source)


@pytest.mark.parametrize("name", [name for name in PASSING if name != "file_size"])
def test_each_limit_is_held_by_watching_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    program, limits, says = PASSING[name]
    assert watched(CageLimits(**limits), PYTHON, "-c", program).startswith(says)


SHARED = """import mmap, os, time
held = mmap.mmap(-1, 60 << 20)
held.write(b"x" * (60 << 20))
for _ in range(5):
    if not os.fork():
        for page in range(0, len(held), 4096): held[page] = 1
        time.sleep(1.5)
        os._exit(0)
for _ in range(5): os.wait()
"""


NAMELESS = """import os, tempfile, time
file = {open}
for _ in range(100): os.write(file, b"x" * (1 << 20))
time.sleep(60)
"""
REMOVED = "os.open('x', os.O_CREAT | os.O_WRONLY); os.unlink('x')"


@pytest.mark.parametrize(
    ("opened", "limits", "says"),
    [
        ("os.memfd_create('x')", CageLimits(memory=80 << 20), "memory "),
        (REMOVED, CageLimits(output=40 << 20), "output "),
    ],
)
def test_what_has_no_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: str, limits: CageLimits, says: str
) -> None:
    """Memory that nobody has mapped, and files that were removed while they are written."""
    monkeypatch.chdir(tmp_path)
    assert watched(limits, PYTHON, "-c", NAMELESS.format(open=opened)).startswith(says)


def test_memory_that_several_share_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert watched(CageLimits(memory=250 * MB), PYTHON, "-c", SHARED) == ""


HIDING = f"import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n{TAKE}"


def test_memory_of_a_process_that_lets_nobody_look_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert watched(CageLimits(memory=100 * MB), PYTHON, "-c", HIDING).startswith("memory ")


def test_what_others_do_to_the_disk_is_nobodys_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "head -c 60000000 /dev/zero > ../beside; sleep 0.5; rm ../beside"
    assert watched(CageLimits(output=20 * MB), "/bin/sh", "-c", line) == ""


# --- Control groups, where this machine has them.


@pytest.fixture
def group() -> Group:
    found = Group.make(CageLimits(memory=500 * MB, processes=100))
    if found is None:
        pytest.skip("no control groups can be made here")
    return found


def groups() -> list[str]:
    """Folders of control groups of this process."""
    walked = os.walk("/sys/fs/cgroup")  # in which those of others come and go
    return [f"{at}/{name}" for at, names, _ in walked for name in names if name.startswith(f"coppice-{os.getpid()}-")]


def groups_are(count: int) -> bool:
    return len(groups()) == count


def joined(group: Group, *words: str) -> subprocess.Popen[bytes]:
    """Start a command, of which each process that it starts is a member."""
    child = subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)
    for folder in group.folders:
        Path(folder, "cgroup.procs").write_text(str(child.pid))
    return child


LEAVING = """import os, time
for _ in range(3):  # leaves its session, its parents and its environment
    if os.fork(): os._exit(0)
    os.setsid()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_who_leaves_its_session_stays_in_its_group(group: Group) -> None:
    child = joined(group, "/bin/sh", "-c", f'sleep 0.3; exec "{PYTHON}" -c "$0"', LEAVING)
    assert child.stdout
    left = int(child.stdout.readline())
    group.close()
    child.wait()
    child.stdout.close()
    assert ends(left)


BOMB = """
import os, time
time.sleep(0.3)
print('x', flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_a_fork_bomb_is_ended_however_fast_it_grows(group: Group) -> None:
    child = joined(group, PYTHON, "-c", BOMB)
    assert child.stdout
    child.stdout.readline()
    time.sleep(0.2)  # it grows
    group.close()
    child.wait()
    child.stdout.close()
    assert not [folder for folder in group.folders if Path(folder).exists()]


def test_groups_that_a_command_has_made_within_go_with_its_own(group: Group) -> None:
    """As a build does that is itself the command of a build, and is killed."""
    child = joined(group, "/bin/sleep", "600")
    for folder in group.folders:
        (Path(folder) / "inner").mkdir()
        (Path(folder) / "inner/cgroup.procs").write_text(str(child.pid))
    group.close()
    assert child.wait() == -signal.SIGKILL
    assert child.stdout
    child.stdout.close()
    assert not [folder for folder in group.folders if Path(folder).exists()]


ABANDON = """import os, subprocess, sys
from pathlib import Path
from pipeline.machine.limits import MB, CageLimits, Group
group = Group.make(CageLimits(memory=500 * MB, processes=100))
child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
for folder in group.folders:
    Path(folder, "cgroup.procs").write_text(str(child.pid))
print(child.pid, *group.folders, flush=True)
os.kill(os.getpid(), 9)
"""
BUILD = """from pipeline.machine.limits import CageLimits, Group
Group.make(CageLimits(processes=100)).close()
"""


def test_the_next_build_ends_and_removes_what_a_killed_one_has_left(group: Group) -> None:
    group.close()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([PYTHON, "-c", ABANDON], env=env, stdout=subprocess.PIPE, check=False)
    pid, *folders = killed.stdout.decode().split()
    assert all(Path(folder).exists() for folder in folders)
    assert psutil.pid_exists(int(pid))
    subprocess.run([PYTHON, "-c", BUILD], env=env, check=True)
    assert ends(int(pid))
    assert not [folder for folder in folders if Path(folder).exists()]


TOGETHER = """from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from pipeline.machine.limits import CageLimits, Group
ready = Barrier(16)
def make(_):
    ready.wait()
    group = Group.make(CageLimits(processes=100))
    group.close()
with ThreadPoolExecutor(16) as pool:
    list(pool.map(make, range(16)))
"""


def test_threads_that_begin_at_once_all_have_groups(group: Group) -> None:
    group.close()
    subprocess.run([PYTHON, "-c", TOGETHER], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


# --- Daemons and the log.


def test_a_log_is_closed_though_somebody_goes_on_writing() -> None:
    source, sink = os.pipe()
    with open(os.devnull, "wb") as file, subprocess.Popen(["yes"], stdout=sink) as child:
        os.close(sink)
        closing = Thread(target=CappedLog(file, Redactor({}), None).close, args=[source], daemon=True)
        closing.start()
        closing.join(30)
        child.kill()
        assert not closing.is_alive()
    os.close(source)
