"""What times things runs alone: beside nothing of its build, nor beside what is exclusive in another one."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from kit.project import COPPICE, PATIENCE, ROOT, Project
from kit.searches import Search, command

from pipeline.machine.job import StageFailed
from pipeline.machine.lock import LOCK_FOLDER, own_folder

# Each command counts those that run beside it, at its start and at its end.
COUNT = """\
mkdir -p running; : > "running/$1"
ls running | wc -l > "$2"
sleep 0.05
ls running | wc -l >> "$2"
rm "running/$1"
"""
STEPS = """\
kind: steps
steps:
  beside:
    for: {n: [1, 2, 3, 4, 5, 6]}
    run: [sh, "{in}", "beside{n}", "{out}"]
    reads: count.sh
    writes: "beside{n}.txt"
  timed:
    for: {n: [1, 2, 3]}
    run: [sh, "{in}", "timed{n}", "{out}"]
    reads: count.sh
    writes: "timed{n}.txt"
"""
LOCK = f"{LOCK_FOLDER}/exclusive"
# Ends well if the lock is held by the build whose command asks: tests, and other builds, run side by side.
PROBE = f"""
import fcntl, sys
from psutil import Process
with open({LOCK!r}, "r+") as lock:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(int(lock.read().split()[0]) not in [parent.pid for parent in Process().parents()])
    sys.exit(1)
"""
HOLDER = """
import fcntl, sys, time
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def steps(project: Project) -> Project:
    project.write("count.sh", COUNT)
    project.spec("x", STEPS + "    exclusive: true\n")
    return project


@contextmanager
def another_build() -> Iterator[int]:
    """Times something on this machine, for as long as the block takes."""
    own_folder(LOCK_FOLDER)
    with subprocess.Popen([sys.executable, "-c", HOLDER, LOCK], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            psutil.Process(process.pid).kill()


def test_nothing_of_the_same_build_runs_beside_an_exclusive_step(steps: Project) -> None:
    said = steps.coppice("run", "-n", "6")
    assert said.returncode == 0, said.stderr
    assert [steps.read(f"runs/x/timed{n}.txt").split() for n in (1, 2, 3)] == [["1", "1"]] * 3
    assert "runs alone on its machine" in steps.call("info", "x:timed.1").out


def test_to_say_that_a_step_is_exclusive_makes_nothing_stale(steps: Project) -> None:
    steps.spec("x", STEPS)
    assert steps.call("run").code == 0
    steps.spec("x", STEPS + "    exclusive: true\n")
    said = steps.call("run")
    assert said.code == 0
    assert not re.search("^built", said.out, re.M)


def test_an_exclusive_step_waits_for_that_of_another_build_and_says_so(steps: Project, tmp_path: Path) -> None:
    """Whatever their temporary folders are."""
    with another_build() as pid:
        build = steps.popen("run", "-n", "2", TMPDIR=str(tmp_path))
        assert build.stdout is not None
        line = next(line for line in build.stdout if "waits" in line)
        assert re.fullmatch(
            rf"x:timed\.\d: waits: (.* \()?process {pid} ?(\(python.*)?\) has the machine to itself\n", line
        )
        assert not list((steps.root / "runs/x").glob("timed*.txt"))
    _, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_waits_for_the_machine_stops_at_once(steps: Project, number: int) -> None:
    with another_build():
        build = steps.popen("run")
        assert build.stdout is not None
        assert any("waits" in line for line in build.stdout)
        build.send_signal(number)
        try:
            _, err = build.communicate(timeout=20)
        finally:
            build.kill()
    assert build.returncode == 128 + number, err
    assert "Traceback" not in err
    assert steps.call("run").code == 0


def test_an_exclusive_step_in_one_that_waits_for_it_is_refused(steps: Project) -> None:
    inner = Project(steps.root / "inner")
    inner.spec("y", 'kind: steps\nsteps: {s: {run: "echo > {out}", writes: a, exclusive: true}}\n')
    run = f"(cd inner; {shlex.join(COPPICE)} run) > {{out}}"
    keys = f"env: {{PYTHONPATH: {json.dumps(str(ROOT))}}}, writes: a, exclusive: true"
    steps.spec("x", f"kind: steps\nsteps: {{outer: {{run: {json.dumps(run)}, {keys}}}}}\n")
    assert steps.coppice("run").returncode == 1
    why = inner.call("why", "y:s").out
    assert re.search(r"x:outer \(process \d+\) has the machine to itself and waits for this build", why), why


def test_a_folder_of_somebody_else_is_no_place_for_the_lock(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StageFailed, match="link is not a folder of this user"):
        own_folder(str(tmp_path / "link"))
    assert own_folder(str(tmp_path / "new")) == own_folder(str(tmp_path / "new"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", ["whole", "per_config"])
def test_sweeps_of_a_search_run_alone_and_nothing_becomes_stale(project: Project, mode: str) -> None:
    """The machine is ours while a sweep runs, and only then: each command looks who has the lock."""
    project.write("probe.py", PROBE)
    probe = f"{sys.executable} {project.root}/probe.py 2> /dev/null"
    keys = {} if mode == "whole" else {"mode": mode, "configs": {"n": [1, 2, 3]}}
    line = "sh {in} {results} {limit}" if mode == "whole" else "sh {in} {results} {config_id} {n}"
    sweep = command(line, "sweep.sh" if mode == "whole" else "row.sh", **keys)
    search = Search(project, {"a": "gain=$((gain + 1))", "b": "gain=$((gain + 2))"}, sweep=sweep, max_parallel_evals=4)
    project.write("list.hook", f"{probe} || echo free >> $LIST\n")
    project.write("tests.sh", f'{probe} && echo taken >> "$LIST"; :\n')
    search.spec(sweep={**sweep, "exclusive": True}, tests=command("sh {in}", "tests.sh"))
    said = project.coppice("run", "-n", "4")
    assert said.returncode == 0, said.stderr
    ran = search.executed()
    assert len(ran) == 3 * (1 if mode == "whole" else 3)
    assert not {"free", "taken"} & {*ran}
    search.spec(sweep=sweep)
    assert "built" not in search.build().out
    assert search.executed() == []
