"""The lock of a run: who has it is told and heard of, and it can be taken from a process that hangs."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from kit.building import ends
from kit.project import PATIENCE, Project, environment
from kit.stepping import planted, spec, stand, swept
from kit.users import USER

from pipeline.errors import RunLocked
from pipeline.lean.model import LeanStartError
from pipeline.lean.toolchain.cache import cached_folder
from pipeline.machine.lock import (
    HEARTBEAT_PERIOD,
    Takeover,
    heartbeats,
    is_locked,
    lock_runs,
    log_takeover,
    own_holder,
    read_holder,
)
from pipeline.store.flock import LockHolders, LockWait, file_lock, lock_file, wait_for_lock
from pipeline.store.results import Store

FIELDS = {
    "lock_version", "tree_run_id", "pid", "hostname", "platform", "python", "created_at", "last_heartbeat_at",
}  # fmt: skip
HELD = "runs/x/.coppice/run.lock.json"


@pytest.fixture
def search(project: Project) -> Project:
    planted(project, 1, 2, -1, 4, 8, 16)
    spec(project)
    project.write("wait", "")
    return project


@pytest.fixture
def holder(search: Project) -> Iterator[subprocess.Popen[str]]:
    """Builds the search, and waits in the sweep of its root."""
    with search.popen("run", "x") as process:
        try:
            eventually((search.root / "here").exists)
            yield process
        finally:
            (search.root / "wait").unlink(missing_ok=True)  # whoever still waits for it goes on to its end
            process.kill()


def eventually(true: Callable[[], bool], within: float = PATIENCE) -> None:
    last = time.monotonic() + within
    while not true():
        assert time.monotonic() < last
        time.sleep(0.01)


def read(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.read(HELD))
    return found


def edit(project: Project, **changes: Any) -> None:
    """What the holder has said; it is stopped, or says so again only in some seconds."""
    project.write(HELD, json.dumps(read(project) | changes))


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def stopped(process: subprocess.Popen[str]) -> None:
    """As if it hung."""
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)


def takeovers(project: Project) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in project.read("runs/x/events.jsonl").splitlines()]
    return [event for event in events if event["event"] == "lock_takeover"]


def locked(project: Project, *words: str) -> str:
    said = project.call(*words)
    assert (said.code, said.out, said.err.count("\n")) == (75, "", 1), said
    return said.err


# -- who has it


def test_while_a_run_is_built_a_file_says_by_whom_and_afterwards_it_is_gone(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    found = read(search)
    assert found.keys() == FIELDS
    assert (found["pid"], found["hostname"], found["tree_run_id"]) == (holder.pid, socket.gethostname(), "x")
    (search.root / "wait").unlink()
    assert holder.wait(timeout=PATIENCE) == 0
    assert not (search.root / HELD).exists()


def test_it_is_heard_of_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HEARTBEAT_PERIOD <= 30 < 10 * HEARTBEAT_PERIOD
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs/x/.coppice")
    first = own_holder("x")

    def heard() -> str:
        return (read_holder("x") or first).last_heartbeat_at

    with heartbeats([first], period=0.01):
        eventually(lambda: heard() > first.last_heartbeat_at)
        last = heard()
        eventually(lambda: heard() > last)
    assert (read_holder("x") or first).created_at == first.created_at


DAMAGED = [{"pid": "1"}, {"created_at": "yesterday"}, {"last_heartbeat_at": None}]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"pid": 1}', "\0", *DAMAGED], ids=str)
def test_damage_is_as_if_nothing_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str | dict[str, object]
) -> None:
    text = damage if isinstance(damage, str) else json.dumps(own_holder("x")._asdict() | damage)
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs/x/.coppice")
    Path(HELD).write_text(text)
    assert read_holder("x") is None


def test_who_comes_meanwhile_is_told_who_is_at_it_and_what_to_do(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    edit(search, last_heartbeat_at=ago(100))
    for words in ("run x", "advance x", "tree --tree-run-id x"):
        said = locked(search, *words.split())
        assert f"run x is being built by process {holder.pid} on {socket.gethostname()} since 2" in said
        assert "last heard of 100 s ago" in said or "last heard of 101 s ago" in said
        assert "Run lock is active (not stale): wait for it, or stop that process" in said
        assert "`coppice advance x --force`" in said
    assert holder.poll() is None


# -- taken over


def test_who_was_heard_of_lately_keeps_it_however_patient_the_other_is(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    said = locked(search, "advance", "x", "--lock-stale-seconds", "60")
    assert "Run lock is active (not stale): it is stale after 60 s; wait, or take it over at once with --force" in said
    assert holder.poll() is None


def test_from_a_process_that_hangs_it_is_taken_once_that_is_silent_for_too_long(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    before = read(search)
    stopped(holder)
    edit(search, last_heartbeat_at=ago(61))
    command = int(search.read("here"))
    (search.root / "wait").unlink()
    said = search.call("advance", "x", "--lock-stale-seconds", "60")
    assert said.code == 0, said
    assert stand(said)["current_depth"] == 1
    assert holder.wait(timeout=PATIENCE) == -signal.SIGKILL
    assert ends(command)
    (event,) = takeovers(search)
    assert event["from"]["pid"] == before["pid"]
    assert (event["by"]["pid"], event["why"]) == (os.getpid(), "no heartbeat for 60 s")
    assert swept(search)[:1] == ["d0.n0"]


@pytest.mark.parametrize("words", ["advance x --force", "tree --tree-run-id x --force"])
def test_by_force_it_is_taken_from_a_process_that_is_well_and_ends_in_order(
    search: Project, holder: subprocess.Popen[str], words: str
) -> None:
    with search.popen(*words.split()) as taker:
        assert holder.wait(timeout=PATIENCE) == 143
        (search.root / "wait").unlink()
        out, err = taker.communicate(timeout=PATIENCE)
    assert taker.returncode == 0, err
    assert json.loads(out)["current_depth"] == 1
    (event,) = takeovers(search)
    assert (event["from"]["pid"], event["by"]["pid"], event["why"]) == (holder.pid, taker.pid, "force")
    assert not (search.root / HELD).exists()


def test_force_does_nothing_when_nobody_has_it(search: Project) -> None:
    (search.root / "wait").unlink()
    assert search.call("advance", "x", "--force", "--lock-stale-seconds", "15").code == 0
    assert takeovers(search) == []


def test_what_a_killed_holder_said_is_no_hindrance(search: Project, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert read(search)["pid"] == holder.pid
    (search.root / "wait").unlink()
    assert search.call("advance", "x").code == 0
    assert takeovers(search) == []


def test_on_another_host_no_process_is_ended(search: Project, holder: subprocess.Popen[str]) -> None:
    edit(search, hostname="elsewhere")
    said = locked(search, "advance", "x", "--force")
    assert f"not on this host, {socket.gethostname()}" in said
    assert "that process can only be ended there, on elsewhere" in said
    assert holder.poll() is None


def test_no_other_process_is_ended_that_has_got_the_number_since(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as bystander:
        edit(search, pid=bystander.pid, created_at=ago(600))
        assert "try again" in locked(search, "advance", "x", "--force")
        assert bystander.poll() is None
        bystander.kill()
    assert holder.poll() is None


def test_of_several_who_take_it_over_at_once_exactly_one_gets_it(
    search: Project, holder: subprocess.Popen[str]
) -> None:
    stopped(holder)
    edit(search, last_heartbeat_at=ago(100))
    takers = [search.popen("advance", "x", "--lock-stale-seconds", "15") for _ in range(4)]
    eventually(lambda: sum(taker.poll() is None for taker in takers) <= 1)
    eventually(lambda: read(search)["pid"] != holder.pid)
    (search.root / "wait").unlink()
    ended = [(*taker.communicate(timeout=PATIENCE), taker.returncode) for taker in takers]
    assert sorted(code for *_, code in ended) == [0, 75, 75, 75], ended
    assert len(takeovers(search)) == 1
    holder.wait(timeout=PATIENCE)


def test_other_runs_that_are_needed_are_not_taken_over(search: Project, holder: subprocess.Popen[str]) -> None:
    """They may be built by somebody who has nothing to do with it."""
    text = search.read("specs/x.yaml")
    search.spec("z", text.replace("reads: sweep.sh", "reads: {in: sweep.sh, more: runs/x/root.json}"))
    said = locked(search, "advance", "z", "--force")
    assert f"run x is being built by process {holder.pid}" in said
    assert holder.poll() is None


def test_to_look_whether_all_is_up_to_date_takes_no_lock(project: Project) -> None:
    project.spec("y", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: s}}\n")
    for _ in range(2):
        assert project.coppice("y").returncode == 0
    with open(project.root / "runs/y/.coppice/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert project.coppice("y").stdout == "up to date: 1 target\n"


def test_a_takeover_is_a_line_of_its_own_behind_a_torn_one(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    project.write("runs/x/events.jsonl", '{"event": "que')
    log_takeover(Takeover("x", force=True, patience=15.0), own_holder("x"), own_holder("x"))
    torn, line = project.read("runs/x/events.jsonl").splitlines()
    assert (torn, json.loads(line)["event"]) == ('{"event": "que', "lock_takeover")


# Killed while a child of its own has not got to its exec: that has all the files of its parent still.
KILLED = """
import os, signal, sys, time
from pipeline.machine.lock import lock_runs as locked
with locked(["y"]):
    if not os.fork():
        while not os.path.exists("go"):
            time.sleep(0.01)
        os._exit(0)
    print(flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(project: Project, asked_how: bool) -> subprocess.Popen[bytes]:
    """Who still has the lock of the run y by a child."""
    project.spec("y", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: s}}\n")
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=project.root, env=environment({}), stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if asked_how else os.WNOWAIT))
    return process


@pytest.mark.parametrize("asked_how", [True, False], ids=["gone", "zombie"])
def test_a_build_that_was_killed_does_not_refuse_the_next_one(project: Project, asked_how: bool) -> None:
    process = killed(project, asked_how)
    build = project.popen("y")
    with pytest.raises(subprocess.TimeoutExpired):
        build.wait(1)
    project.write("go", "")
    out, err = build.communicate(timeout=PATIENCE)
    assert (build.returncode, err) == (0, ""), out
    process.communicate()


def test_what_is_held_for_good_in_the_name_of_one_that_is_gone_is_refused_in_the_end(project: Project) -> None:
    process = killed(project, asked_how=True)
    said = project.coppice("y")
    project.write("go", "")
    process.communicate()
    assert (said.returncode, said.stdout) == (75, "")
    assert "run y is being built by process" in said.stderr


# -- what is waited for

HOLDER = """
import fcntl, os, sys, time
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
if sys.argv[2:] and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def held_by_somebody(path: Path, *words: str) -> Iterator[int]:
    """Gives who holds the lock: a process of its own, or a child that has it from one that is gone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", HOLDER, path, *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            yield pid
        finally:
            psutil.Process(pid).kill()


def by_git(folder: Path) -> None:
    with file_lock(f"{folder}/lock", patience=0.2):
        pass


def by_the_store(folder: Path) -> None:
    store = Store(str(folder), patience=0.2)
    store.put("aa11", [], [], 1.0, "a:target")


def by_gc(folder: Path) -> None:
    with Store(str(folder), patience=0.2).lock_alone():
        pass


@pytest.mark.parametrize("words", [(), ("inherited",)], ids=["itself", "inherited"])
@pytest.mark.parametrize("wants", [by_git, by_the_store, by_gc])
def test_a_lock_that_somebody_keeps_is_given_up_with_a_word_of_who_and_where(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wants: Callable[[Path], None],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    with held_by_somebody(tmp_path / "lock", *words) as pid:
        with pytest.raises(RunLocked, match=rf"lock: locked for 0.2 s by process {pid} \(python.*\); .* end it"):
            wants(tmp_path)
        assert re.search(rf"coppice: waiting for the lock .*lock, held by process {pid} ", capsys.readouterr().err)
    wants(tmp_path)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("stranger", [True, False])
def test_a_lock_that_may_be_held_for_hours_is_waited_for_unless_a_stranger_has_it(
    tmp_path: Path, stranger: bool
) -> None:
    """A stranger is something that only keeps it, such as what a candidate has left running."""
    path, said, stop = tmp_path / "exclusive", list[LockHolders](), threading.Event()
    with held_by_somebody(path) as pid, lock_file(str(path)) as lock:

        def knows(who: LockHolders) -> bool:
            assert who.pids == (pid,)
            assert who.text.startswith(f"process {pid} (python")
            stop.set()
            return not stranger

        how = LockWait(lambda: stop.is_set() and not stranger, said.append, knows, patience=0.2)
        if stranger:
            with pytest.raises(
                RunLocked, match=rf"exclusive: locked for 0.2 s by process {pid} \(python.*\); .* end it"
            ):
                wait_for_lock(lock, str(path), how)
        else:
            assert not wait_for_lock(lock, str(path), how)
    assert len(said) == 1
    with lock_file(str(path)) as lock:
        assert wait_for_lock(lock, str(path), how)


def test_lock_files_are_of_one_user_but_for_the_store_that_users_may_share(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        by_git(tmp_path / "git")
        by_the_store(tmp_path / "store")
    finally:
        os.umask(before)
    assert [(tmp_path / name / "lock").stat().st_mode & 0o777 for name in ("git", "store")] == [0o600, 0o664]


def test_a_toolchain_that_somebody_makes_without_an_end_is_given_up_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    held = held_by_somebody(tmp_path / "coppice/lean/lean.lock")
    with held, pytest.raises(LeanStartError, match=r"lean.lock: locked for 0.2 s by process \d+ "):
        cached_folder("lean", lambda new: None, patience=0.2)
    assert cached_folder("lean", lambda new: None, patience=0.2).is_dir()


@pytest.mark.parametrize("lock", ["runs/x/.coppice/guard", "runs/.store/lock", "runs/x/repo.git/coppice.lock"])
def test_a_build_that_waits_for_a_lock_says_so_and_goes_on_once_it_is_free(search: Project, lock: str) -> None:
    (search.root / "wait").unlink()
    with held_by_somebody(search.root / lock) as pid:
        build = search.popen("advance", "x")
        assert build.stderr is not None
        said = next(line for line in build.stderr if "waiting" in line)
        assert re.match(
            rf"coppice: waiting for the lock .*{lock}, held by process {pid} \(python.*\); \d+ s at most", said
        )
    out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, err
    assert json.loads(out)["current_depth"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("lock", ["runs/x/.coppice/guard", "runs/.store/lock", "runs/x/repo.git/coppice.lock"])
def test_a_build_that_is_stopped_waits_for_no_lock_any_more(search: Project, lock: str, number: int) -> None:
    (search.root / "wait").unlink()
    with held_by_somebody(search.root / lock):
        build = search.popen("advance", "x")
        assert build.stderr is not None
        assert any("waiting" in line for line in build.stderr)
        build.send_signal(number)
        try:
            _, err = build.communicate(timeout=20)
        finally:
            build.kill()
    before_the_build = lock.endswith("guard")  # nothing runs yet that would have to be ended
    assert build.returncode == (-number if before_the_build and number == signal.SIGTERM else 128 + number), err
    assert "Traceback" not in err


def asked_by_a_reader(folder: Path) -> bool | None:
    """What a user is told of the lock of `x` who may write nothing here."""
    folder.chmod(0o755)
    heard, told = os.pipe()
    if (child := os.fork()) == 0:
        os.chdir(folder)  # the folders above are nobody's business
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
        os.write(told, repr(is_locked("x")).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(told)
    with os.fdopen(heard) as answer:
        return {"True": True, "False": False, "None": None}[answer.read()]


def test_whoever_may_only_read_is_told_whether_a_build_goes_on_or_that_nobody_knows(tmp_path: Path) -> None:
    assert asked_by_a_reader(tmp_path) is False
    assert not [*tmp_path.iterdir()], "who only asks leaves nothing"
    with chdir(tmp_path):
        lock = Path("runs/x/.coppice/lock")
        with lock_runs(["x"]):
            for path, mode in ((Path("runs"), 0o555), (lock.parents[1], 0o555), (lock.parent, 0o555), (lock, 0o444)):
                path.chmod(mode)
            assert asked_by_a_reader(tmp_path) is True
            for folder in [*lock.parents][:3]:
                folder.chmod(0o755)
        assert asked_by_a_reader(tmp_path) is False
        with open(lock, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_SH)
            assert is_locked("x") is False, "one who asks is no build"
        lock.chmod(0)
        assert asked_by_a_reader(tmp_path) is None
        lock.chmod(0o600)
