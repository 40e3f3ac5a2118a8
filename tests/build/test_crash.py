"""A build may end at any moment, in any way: nothing finished is redone, nothing half done is taken, nobody stays."""

import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.project import COPPICE, PATIENCE, ROOT, Project, environment

from pipeline.store.files import Files
from pipeline.store.receipts import DONE, FAILED, parse_line

# a is done at once; b has written half of its output when it waits for the file `go`; c reads b.
CHAIN = """
kind: steps
steps:
  a: {run: "echo a >> ran; echo whole > {out}", writes: a.txt}
  b:
    run: "echo b >> ran; printf ha > {out}; echo b >> half; while [ ! -e go ]; do sleep 0.01; done; echo lf >> {out}"
    reads: a.txt
    writes: b.txt
  c: {run: "echo c >> ran; cat {in} > {out}", reads: b.txt, writes: c.txt}
"""

# Holds a lock that all its descendants inherit: who can take the lock knows that all of them are gone.
FAMILY = """
import fcntl, os, subprocess, sys, time

def family(reads, writes):
    lock = os.open("alive", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    child = ["sleep", "300"]
    subprocess.Popen(child, close_fds=False)
    subprocess.Popen(child, close_fds=False, start_new_session=True)
    subprocess.Popen("sleep 300 & sleep 300", shell=True, close_fds=False)
    subprocess.Popen("trap '' TERM INT; sleep 300 & while :; do wait; done", shell=True, close_fds=False)
    open("born", "w").close()
    time.sleep(300)

if __name__ == "__main__":
    family([], [])
"""
FAMILIES = {
    "command": "run: [python3, family.py, '{out}']",
    "shell": "run: 'python3 family.py & sleep 300; echo {out}'",
    "function": "call: family.py:family",
}


@pytest.fixture(autouse=True)
def signals_are_heard() -> Iterator[None]:
    """Tests that run in the background of a shell, or under nohup, ignore some, and so would all that they start."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    for number, action in before.items():
        if action is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, action in before.items():
        signal.signal(number, action)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def exists(project: Project, path: str) -> Callable[[], bool]:
    return (project.root / path).exists


def ran(project: Project) -> list[str]:
    return sorted(project.read("ran").split())


def receipts(project: Project, run: str, event: str) -> dict[str, dict[str, Any]]:
    lines = map(parse_line, (project.root / f"runs/{run}/.coppice/receipts").read_bytes().split(b"\n"))
    return {line.target: line.fields for line in lines if line and line.event == event}


def interrupted(project: Project, number: signal.Signals) -> subprocess.Popen[str]:
    """A build of CHAIN, hit while b has written half."""
    project.spec("x", CHAIN)
    build = project.popen("run")
    until(exists(project, "half"))
    build.send_signal(number)
    build.communicate(timeout=PATIENCE)
    return build


def all_gone(project: Project) -> None:
    with open(project.root / "alive") as lock:

        def is_free() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        until(is_free)


ENDS = [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
ends = pytest.mark.parametrize(("number", "code"), ENDS, ids=[number.name for number, _ in ENDS])


@ends
def test_what_was_finished_is_kept_and_what_was_half_done_is_redone(
    project: Project, number: signal.Signals, code: int
) -> None:
    build = interrupted(project, number)
    assert build.returncode == code
    assert not exists(project, "runs/x/b.txt")()
    assert [*receipts(project, "x", DONE)] == ["x:a"]
    project.write("go", "")
    assert project.call("run").code == 0
    assert ran(project) == ["a", "b", "b", "c"]
    assert project.read("runs/x/c.txt") == "half\n"


@ends
def test_an_interrupted_build_leaves_nothing_lying_about(project: Project, number: signal.Signals, code: int) -> None:  # noqa: ARG001
    interrupted(project, number)
    project.write("go", "")
    assert project.call("run").code == 0
    left = {path.name for path in (project.root / "runs/x").rglob("*") if path.is_file()}
    assert left <= {"a.txt", "b.txt", "c.txt", "receipts", "builds", "state", "graph", "lock", "guard"}


@pytest.mark.parametrize("family", FAMILIES)
@ends
def test_no_descendant_outlives_the_build(project: Project, number: signal.Signals, code: int, family: str) -> None:
    """Neither those that left its session, nor background jobs of a shell, nor those that ignore SIGTERM."""
    project.write("family.py", FAMILY)
    project.spec("x", f"kind: steps\nsteps:\n  s:\n    {FAMILIES[family]}\n    writes: out\n")
    build = project.popen("run")
    until(exists(project, "born"))
    build.send_signal(number)
    build.communicate(timeout=PATIENCE)
    assert build.returncode == code
    all_gone(project)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_timeout_ends_the_whole_family(project: Project, family: str) -> None:
    project.write("family.py", FAMILY)
    project.spec("x", f"kind: steps\nsteps:\n  s:\n    {FAMILIES[family]}\n    writes: out\n    timeout: 1s\n")
    assert project.coppice("run").returncode == 1
    all_gone(project)
    assert receipts(project, "x", FAILED)["x:s"]["exit"] == 124


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_build_that_another_one_runs_as_its_command_ends_with_it(project: Project, number: signal.Signals) -> None:
    project.write("family.py", FAMILY)
    project.spec("inner", f"kind: steps\nsteps:\n  s:\n    {FAMILIES['command']}\n    writes: out\n")
    run = [*COPPICE, "run", "-o", "{out}", "inner"]
    outer = {"s": {"run": run, "env": {"PYTHONPATH": str(ROOT)}, "writes": "out"}}
    project.spec("outer", json.dumps({"kind": "steps", "steps": outer}))
    build = project.popen("run", "outer")
    until(exists(project, "born"))
    build.send_signal(number)
    build.communicate(timeout=PATIENCE)
    all_gone(project)


def test_one_that_is_killed_at_once_and_started_at_once_goes_on(project: Project) -> None:
    """The second start does not wait for what the first one left, and is not hit when that is ended."""
    project.spec("x", CHAIN)
    for _ in range(3):
        (project.root / "half").unlink(missing_ok=True)
        build = project.popen("run")
        until(exists(project, "half"))
        build.kill()
        build.communicate()
    project.write("go", "")
    said = project.coppice("run")
    assert said.returncode == 0, said
    assert ran(project) == ["a", "b", "b", "b", "b", "c"]


def test_killing_the_build_of_one_run_leaves_that_of_another_alone(project: Project) -> None:
    project.spec("x", CHAIN)
    project.spec("y", CHAIN.replace("> ran", "> ran-y").replace("> half", "> half-y").replace("-e go", "-e go-y"))
    other = project.popen("run", "y")
    until(exists(project, "half-y"))
    build = project.popen("run", "x")
    until(exists(project, "half"))
    build.kill()
    build.communicate()
    project.write("go", "")
    assert project.call("run", "x").code == 0
    project.write("go-y", "")
    out, err = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, out + err
    assert project.read("ran-y").split() == ["a", "b", "c"]


# -- two at once


def test_a_second_start_says_who_builds_and_executes_nothing(project: Project) -> None:
    project.spec("x", CHAIN)
    build = project.popen("run")
    until(exists(project, "half"))
    second = project.coppice("run")
    assert second.returncode == 75
    host = re.escape(os.uname().nodename)
    assert re.search(rf"run x .* process {build.pid} on {host} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", second.stderr)
    project.write("go", "")
    build.communicate(timeout=PATIENCE)
    assert build.returncode == 0
    assert ran(project) == ["a", "b", "c"]


def test_the_lock_dies_with_its_process(project: Project) -> None:
    interrupted(project, signal.SIGKILL)
    project.write("go", "")
    assert project.call("run").code == 0


def test_many_starts_at_once_do_the_work_once(project: Project) -> None:
    project.spec("x", CHAIN)
    project.write("go", "")
    builds = [project.popen("run") for _ in range(5)]
    codes = [(build.communicate(timeout=PATIENCE), build.returncode)[1] for build in builds]
    assert set(codes) <= {0, 75}
    assert 0 in codes
    assert project.call("run").code == 0
    assert ran(project) == ["a", "b", "c"]


# -- edits while it runs

EDITED = """
kind: steps
steps:
  s:
    run: |
      echo s >> ran; while [ ! -e go ]; do sleep 0.01; done
      cat src/* > {out}
      echo read >> ran; while [ -e wait ]; do sleep 0.01; done
    reads: READS
    writes: out
"""


def edited_meanwhile(project: Project, reads: str, change: Callable[[Path], object]) -> str:
    """The target has been started with one source and reads another; what the build said."""
    project.spec("x", EDITED.replace("READS", reads))
    source = project.write("src/file", "old\n")
    until(lambda: time.time_ns() - source.stat().st_ctime_ns > 10**8)  # as old as sources are
    build = project.popen("run")
    until(exists(project, "ran"))
    change(source)
    project.write("go", "")
    out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 1, out + err
    return out + err


def disguised(path: Path) -> None:
    before = path.stat()
    path.write_text("new\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    path.unlink()
    path.write_text("new\n")


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_text("new\n"),
    "written under its old time": disguised,
    "replaced": replaced,
}
changes = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
reads = pytest.mark.parametrize("reads", ["src/file", "src", "'src/*'"], ids=["a file", "a folder", "a pattern"])


@reads
@changes
def test_an_input_edited_while_its_target_runs_leaves_it_stale(
    project: Project, reads: str, change: Callable[[Path], object]
) -> None:
    assert "was edited while it ran" in edited_meanwhile(project, reads, change)
    assert project.call("run").code == 0
    assert project.read("runs/x/out") == "new\n"


@changes
def test_an_edit_while_a_target_runs_poisons_no_store(project: Project, change: Callable[[Path], object]) -> None:
    """What it made of the new source is not kept as what it makes of the old one."""
    edited_meanwhile(project, "src/file", change)
    project.write("src/file", "old\n")
    assert project.call("run").code == 0
    assert project.read("runs/x/out") == "old\n"


@reads
def test_an_edit_that_is_undone_before_the_target_ends_is_noticed(project: Project, reads: str) -> None:
    """It may have read either; the contents alone would not tell."""

    def for_a_moment(path: Path) -> None:
        path.write_text("new\n")
        project.write("go", "")
        until(lambda: "read" in project.read("ran"))
        path.write_text("old\n")
        (project.root / "wait").unlink()

    project.write("wait", "")
    edited_meanwhile(project, reads, for_a_moment)
    assert project.call("run").code == 0
    assert project.read("runs/x/out") == "old\n"


def test_an_undone_edit_of_a_file_that_was_saved_only_just_is_noticed(tmp_path: Path) -> None:
    """Its signature is not certain yet; its contents alone would not tell."""
    source = tmp_path / "source"
    source.write_text("old")
    files = Files()
    marks = files.marks({str(source): files.content(str(source))})
    assert not files.was_touched(str(source), marks[str(source)])
    source.rename(tmp_path / "kept")  # so that its number is not used again
    source.write_text("old")
    assert files.was_touched(str(source), marks[str(source)])


# -- retries and failures


def test_retries_are_counted(project: Project) -> None:
    flaky = "echo s >> ran; [ $(wc -l < ran) -ge 3 ] && echo well > {out}"
    project.spec("x", f"kind: steps\nsteps:\n  s: {{run: '{flaky}', writes: out, retries: 5}}\n")
    assert project.call("run").code == 0
    assert receipts(project, "x", DONE)["x:s"]["attempts"] == 3


def test_a_failure_has_its_exit_status_and_attempts_recorded(project: Project) -> None:
    project.spec("x", "kind: steps\nsteps:\n  s: {run: 'echo s >> ran; echo {out}; exit 7', writes: out, retries: 2}\n")
    assert project.coppice("run").returncode == 1
    failed = receipts(project, "x", FAILED)["x:s"]
    assert (failed["exit"], failed["attempts"]) == (7, 3)
    assert ran(project) == ["s"] * 3


# -- a full disk

MANY = """
kind: steps
max_targets: 99
steps:
  s:
    for: {i: {range: 12}}
    run: "echo {i} >> ../ran; head -c 3000 /dev/zero > {out} && echo {i} >> {out}"
    writes: s/{i}.txt
  all: {run: "cat {in} > {out}", reads: [{step: s}], writes: all.txt}
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small disk")
    try:
        project = Project(folder / "project")
        project.spec("x", MANY)
        yield project
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def goes_on(project: Project, build: Callable[[], subprocess.CompletedProcess[str]]) -> None:
    """After a build that could not write, room is made: the rest is done, and nothing finished again."""
    said = build()
    assert "Traceback" not in said.stderr + said.stdout
    assert said.returncode == 1, said
    folder = project.root / "runs/x/.coppice/receipts"
    finished = {name.rpartition(".")[2] for name in receipts(project, "x", DONE)} if folder.exists() else set()
    note = project.root.parent / "ran"
    note.write_text("")
    (project.root / "ballast").unlink(missing_ok=True)
    again = project.call("run")
    assert again.code == 0, again
    assert not finished & set(note.read_text().split())
    expected = "".join("\0" * 3000 + f"{i}\n" for i in range(12))
    assert project.read("runs/x/all.txt") == expected


@pytest.mark.parametrize("free", [0, 8, 20, 40, 80, 120])
def test_a_full_disk_costs_nothing_that_was_finished(small_disk: Project, free: int) -> None:
    """`free` kilobytes are left: not even the lock can be written, or the graph, a receipt, the store, an output."""
    project = small_disk
    project.root.parent.joinpath("ran").write_text("")
    with open(project.root / "ballast", "wb") as ballast:
        status = os.statvfs(project.root)
        ballast.write(b"x" * (status.f_bavail * status.f_frsize - free * 1024))
    goes_on(project, lambda: project.coppice("run", "--continue"))


FILLING = "head -c 900000 /dev/zero"
FULL = {
    "command": (f"run: '{FILLING} > {{out}}'", r"x:s \(exit status 1; HERE"),
    "silent": (f"run: '{FILLING} > {{out}} 2> /dev/null'", r"x:s \(exit status 1; HERE"),
    "function": ("call: fill.py:fill", r"x:s \(OSError: \[Errno 28\] No space left on device; HERE"),
    "log": (f"run: 'echo > {{out}}; {FILLING}'", r"x:s \(exit status 1; HERE"),
    "kept log": (f"run: 'echo > {{out}}; {FILLING}'\n    env: [PATH]", r"x:s \(runs/x/.coppice/logs/s.log: No.*; HERE"),
    "receipts": (f"run: 'echo > {{out}}; {FILLING} > ballast; :'", r"coppice: runs/x/.coppice/receipts: No .*; HERE"),
    "store": ("run: 'head -c 300000 /dev/zero > {out}'", r"coppice: runs/.store: No space left on device; HERE"),
    "before": ("run: 'echo > {out}'", r"coppice: runs/x/.coppice/run.lock.json: No space left on device; HERE"),
}  # fmt: skip


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_told_with_what_was_written_and_where_room_is_to_be_made(small_disk: Project, what: str) -> None:
    how, told = FULL[what]
    project = small_disk
    project.write("fill.py", "def fill(reads, writes):\n    open(writes[0], 'w').write('x' * 900000)\n")
    project.spec("x", f"kind: steps\nsteps:\n  s:\n    {how}\n    writes: out\n")
    if what == "before":
        subprocess.run("cat /dev/zero > ballast", shell=True, cwd=project.root, capture_output=True, check=False)
    said = project.coppice("run")
    assert said.returncode == 1, said
    assert "Traceback" not in said.stderr
    here = rf"the file system at {project.root.parent} has \d+ kB left: make room there, and build again"
    assert re.search(told.replace("HERE", here), said.stdout + said.stderr), said
    if what == "store":
        assert len(project.read("runs/x/out")) == 300000


@pytest.mark.parametrize("limit", [50, 500, 2000, 4000, 6000])
def test_a_file_that_may_not_grow_costs_nothing_that_was_finished(tmp_path: Path, limit: int) -> None:
    """The same without a disk of one's own: no file may be larger than `limit` bytes."""
    project = Project(tmp_path / "project")
    project.spec("x", MANY)

    def build() -> subprocess.CompletedProcess[str]:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        try:
            return project.coppice("run", "--continue")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    goes_on(project, build)


# -- secrets

SECRET = "s3cr3t-of-the-market"
TELLING = """
import os, sys

def tell(reads, writes):
    secret = os.environ["API_KEY"]
    print("out", secret)
    print("err", secret, file=sys.stderr)
    for part in (secret[:5], secret[5:]):
        os.write(1, part.encode())
    open(writes[0], "w").write(str(len(secret)))
    if os.path.exists("fail"):
        raise SystemExit("no good: " + secret)

if __name__ == "__main__":
    tell([], sys.argv[1:])
"""


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
@pytest.mark.parametrize("how", ["run: [python3, tell.py, '{out}']", "call: tell.py:tell"], ids=["run", "call"])
def test_the_value_of_a_secret_is_written_nowhere_but_its_name_is(project: Project, how: str, fails: bool) -> None:
    project.write("tell.py", TELLING)
    project.spec("x", f"kind: steps\nsteps:\n  s:\n    {how}\n    writes: out\n    env: [API_KEY]\n")
    if fails:
        project.write("fail", "")
    said = project.coppice("run", "--junit", "junit.xml", API_KEY=SECRET)
    assert said.returncode == int(fails), said
    json_said = project.coppice("run", "-a", "--reporter", "json", API_KEY=SECRET)
    written = {path: path.read_bytes() for path in project.root.rglob("*") if path.is_file()}
    shown = (said.stdout + said.stderr + json_said.stdout + json_said.stderr).encode()
    assert [path for path, content in written.items() if SECRET.encode() in content] == []
    assert SECRET.encode() not in shown
    assert b"[API_KEY]" in (project.root / "runs/x/.coppice/logs/s.log").read_bytes()
    if not fails:
        recipe = receipts(project, "x", DONE)["x:s"]["recipe"]
        assert "API_KEY" in json.dumps(recipe)
        assert project.read("runs/x/out") == str(len(SECRET))


def test_a_thread_that_cannot_go_on_ends_the_build(project: Project) -> None:
    """Of all that a machine may refuse: here a timeout needs a thread, and there are no more."""
    project.spec(
        "x", "kind: steps\nsteps:\n  s: {for: {n: {range: 3}}, run: 'echo > {out}', timeout: 9, writes: '{n}'}\n"
    )
    refusing = (
        "import sys, threading\nfrom pipeline.commands.main import main\n"
        "def refuse(self):\n    raise RuntimeError('no more threads')\n"
        "threading.Timer.start = refuse\nsys.exit(main([]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", refusing],
        cwd=project.root,
        env=environment({}),
        timeout=30,
        capture_output=True,
        check=False,
    )
    assert ended.returncode not in (0, 1)
