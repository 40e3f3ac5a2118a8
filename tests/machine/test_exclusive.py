"""What times things runs alone: beside nothing of its build, nor beside what is exclusive in another one."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from kit.project import PATIENCE, Project
from kit.searches import Search, command

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
FREE = fcntl.LOCK_SH | fcntl.LOCK_NB  # tests run side by side
LOCK = f"coppice-{os.getuid()}/exclusive"
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
def another_build(folder: Path) -> Iterator[int]:
    """Times something on this machine, for as long as the block takes."""
    (folder / LOCK).parent.mkdir(parents=True, mode=0o700)
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder / LOCK], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            psutil.Process(process.pid).kill()


def test_nothing_of_the_same_build_runs_beside_an_exclusive_step(steps: Project, tmp_path: Path) -> None:
    said = steps.coppice("run", "-n", "6", TMPDIR=str(tmp_path))
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
    with another_build(tmp_path) as pid:
        build = steps.popen("run", "-n", "2", TMPDIR=str(tmp_path))
        assert build.stdout is not None
        line = next(line for line in build.stdout if "waits" in line)
        who = rf"process {pid} \(python.*\)"
        assert re.fullmatch(rf"x:timed\.\d: waits for the machine, .* {who} for something exclusive\n", line)
        assert not list((steps.root / "runs/x").glob("timed*.txt"))
    _, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_waits_for_the_machine_stops_at_once(steps: Project, tmp_path: Path, number: int) -> None:
    with another_build(tmp_path):
        build = steps.popen("run", TMPDIR=str(tmp_path))
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


def test_a_folder_of_somebody_else_is_no_place_for_the_lock(steps: Project, tmp_path: Path) -> None:
    (tmp_path / "coppice-elsewhere").mkdir()
    (tmp_path / LOCK).parent.symlink_to(tmp_path / "coppice-elsewhere")
    said = steps.coppice("run", TMPDIR=str(tmp_path))
    assert said.returncode == 1
    assert "is not a folder of this user; remove it, or set TMPDIR" in said.stdout + said.stderr
    assert not list((tmp_path / "coppice-elsewhere").iterdir())


@pytest.mark.parametrize("mode", ["whole", "per_config"])
def test_sweeps_of_a_search_run_alone_and_nothing_becomes_stale(project: Project, tmp_path: Path, mode: str) -> None:
    """The machine is ours while a sweep runs, and only then: each command tries whether the lock is free."""
    project.write("probe.py", f"import fcntl; fcntl.flock(open('{tmp_path}/{LOCK}', 'a'), {FREE})\n")
    probe = f"{sys.executable} {project.root}/probe.py 2> /dev/null"
    keys = {} if mode == "whole" else {"mode": mode, "configs": {"n": [1, 2, 3]}}
    line = "sh {in} {results} {limit}" if mode == "whole" else "sh {in} {results} {config_id} {n}"
    sweep = command(line, "sweep.sh" if mode == "whole" else "row.sh", **keys)
    search = Search(project, {"a": "gain=$((gain + 1))", "b": "gain=$((gain + 2))"}, sweep=sweep, max_parallel_evals=4)
    (tmp_path / LOCK).parent.mkdir(mode=0o700)
    project.write("list.hook", f"{probe} && echo free >> $LIST\n")
    project.write("tests.sh", f'{probe} || echo taken >> "$LIST"; :\n')
    search.spec(sweep={**sweep, "exclusive": True}, tests=command("sh {in}", "tests.sh"))
    said = project.coppice("run", "-n", "4", TMPDIR=str(tmp_path))
    assert said.returncode == 0, said.stderr
    ran = search.executed()
    assert len(ran) == 3 * (1 if mode == "whole" else 3)
    assert not {"free", "taken"} & {*ran}
    search.spec(sweep=sweep)
    assert "built" not in search.build().out
    assert search.executed() == []
