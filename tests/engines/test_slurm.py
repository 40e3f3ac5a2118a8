"""Targets that Slurm makes: the same results and records as threads, and nothing lost or done twice by what goes wrong.

A real Slurm with three nodes on this machine."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from kit.project import Project
from kit.searches import TESTED, Search, decided
from kit.slurm import Cluster, cluster, missing_programs

from pipeline.engines.dispatch import LOOK_SECONDS

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=f"Slurm's {missing_programs()} not installed")

# Each target notes in the project's folder that it ran: what is finished must not run again.
STEPS = """kind: steps
engine: slurm
slurm: {{time: 10m}}
steps:
  one:
    for: {{n: {{range: {count}}}}}
    run: 'echo {{n}} >> ran; {work}; echo result {{n}} > {{out}}'
    writes: 'o{{n}}.txt'
    {more}
"""
PATIENCE = 120.0


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def project(tmp_path: Path, slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    yield Project(tmp_path)
    until(lambda: slurm.command("squeue", "-h", "-t", "R,CG,PD") == "")


def until(is_so: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def spec(project: Project, count: int, work: str, more: str = "") -> None:
    project.spec("x", STEPS.format(count=count, work=work, more=more))


def runs_of(project: Project) -> list[str]:
    path = project.root / "ran"
    return path.read_text().split() if path.exists() else []


def reports_of(project: Project) -> list[Path]:
    return [*(project.root / "runs/x/.coppice/orders").glob("reports/[!.]*")]


def marked(project: Project) -> list[psutil.Process]:
    """Processes that a worker of this project has started."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("COPPICE_FOLDER", "").startswith(f"{project.root}/runs/"):
                found.append(process)
    return found


def test_targets_are_made_by_jobs_and_are_fresh_afterwards(project: Project) -> None:
    spec(project, 8, "echo said")
    done = project.coppice("x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [project.read(f"runs/x/o{n}.txt") for n in range(8)] == [f"result {n}\n" for n in range(8)]
    assert "said" in project.read("runs/x/.coppice/logs/one.3.log")
    assert project.coppice("x").stdout == "up to date: 8 targets\n"
    assert sorted(runs_of(project), key=int) == [str(n) for n in range(8)]
    assert not [*(project.root / "runs/x/.coppice/orders").glob("*/*")]


def test_a_plan_says_of_each_run_what_would_go_to_slurm(project: Project) -> None:
    spec(project, 3, ":")
    project.spec("y", "kind: steps\nsteps: {one: {run: 'echo > {out}', writes: o}}\n")
    said = project.call("plan").out.splitlines()
    assert [line for line in said if "Slurm" in line] == ["x: 3 targets by Slurm; 0 targets here"]


def test_what_was_made_elsewhere_is_recalled_and_not_ordered(project: Project) -> None:
    spec(project, 4, ":")
    assert project.coppice("x", "--engine", "threads").returncode == 0
    (project.root / "runs/x/o2.txt").unlink()
    done = project.coppice("x")
    assert "4 targets: 0 built, 1 recalled, 3 fresh" in done.stdout or "1 recalled" in done.stdout
    assert len(runs_of(project)) == 4


def test_a_failure_is_that_of_the_command_and_is_tried_again_as_often_as_the_spec_says(project: Project) -> None:
    spec(project, 2, "test {n} != 1 || exit 7", "retries: 1")
    done = project.coppice("--continue", "x")
    assert done.returncode == 1
    assert "exit status 7" in done.stdout
    assert sorted(runs_of(project)) == ["0", "1", "1"]
    assert project.coppice("x").returncode == 1  # a failure is no finished work
    assert sorted(runs_of(project)) == ["0", "1", "1", "1", "1"]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(project: Project) -> None:
    spec(project, 1, "(setsid sleep 1000 &) ; sleep 1000", "timeout: 1")
    done = project.coppice("x")
    assert done.returncode == 1
    assert "timed out" in done.stdout
    until(lambda: not marked(project))


def test_what_slurm_does_not_take_is_said_with_its_words(project: Project) -> None:
    spec(project, 1, ":")
    project.spec("x", project.read("specs/x.yaml").replace("time: 10m", "partition: nowhere"))
    done = project.coppice("x")
    assert done.returncode == 69
    assert "invalid partition" in done.stdout
    assert runs_of(project) == []


@pytest.mark.parametrize("moment", [0, 3, 7])
def test_a_killed_coordinator_finds_its_jobs_again(project: Project, moment: int) -> None:
    spec(project, 8, "sleep 0.3")
    with project.popen("x") as coordinator:
        until(lambda: len(runs_of(project)) >= moment and (project.root / "runs/x/.coppice/orders").exists())
        coordinator.kill()
    done = project.coppice("x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(runs_of(project), key=int) == [str(n) for n in range(8)]


def test_an_interrupted_build_leaves_no_job_and_no_process(project: Project, slurm: Cluster) -> None:
    spec(project, 4, "sleep 1000")
    with project.popen("x") as coordinator:
        until(lambda: len(runs_of(project)) == 4)
        coordinator.send_signal(signal.SIGINT)
        assert coordinator.wait(PATIENCE) == 130
    until(lambda: slurm.command("squeue", "-h", "-t", "R,CG,PD") == "")
    until(lambda: not marked(project))


def test_the_jobs_of_a_node_that_dies_are_made_by_others_and_no_attempt_is_used_up(
    project: Project, slurm: Cluster
) -> None:
    spec(project, 6, "test -e go || sleep 1000")
    with project.popen("x") as coordinator:
        until(lambda: len(runs_of(project)) == 6)
        slurm.kill_node("n2")
        project.write("go", "")
        for process in marked(project):  # those of the other nodes sleep: they are waited for no longer
            with suppress(psutil.Error):
                if process.name() == "sleep":
                    process.terminate()
        slurm.command("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=killed")
        out, err = coordinator.communicate(timeout=PATIENCE)
    slurm.start_node("n2")
    until(lambda: slurm.command("sinfo", "-h", "-o", "%D %t") == "3 idle")
    assert coordinator.returncode == 0, out + err


def test_who_comes_back_after_another_has_made_his_work_is_too_late(project: Project, slurm: Cluster) -> None:
    spec(project, 1, "mkdir first 2>&1 && while ! test -e back; do sleep 0.1; done; true")
    with project.popen("x") as coordinator:
        until((project.root / "first").exists)
        node = slurm.command("squeue", "-h", "-o", "%N")
        daemons = slurm.cut_off(node)
        out, err = coordinator.communicate(timeout=PATIENCE)
    assert coordinator.returncode == 0, out + err
    seen = (project.root / "runs/x/o0.txt").stat()
    project.write("back", "")
    until(lambda: not marked(project))
    for daemon in daemons:
        with suppress(psutil.NoSuchProcess):  # what has no job any more ends
            daemon.resume()
    until(lambda: slurm.command("sinfo", "-h", "-o", "%D %t") == "3 idle")
    assert (project.root / "runs/x/o0.txt").stat() == seen
    assert len(runs_of(project)) == 2
    assert project.coppice("x").stdout == "up to date: 1 target\n"


def test_an_input_that_was_edited_and_put_back_while_nobody_looked_is_read_again(project: Project) -> None:
    """A job of a coordinator that was killed may have read anything."""
    project.write("in", "right\n")
    spec(project, 1, "until test -e go; do sleep 0.1; done; cat in > {out}; exit", "reads: in")
    with project.popen("x") as coordinator:
        until(lambda: runs_of(project))
        coordinator.kill()
    project.write("in", "wrong\n")
    project.write("go", "")
    until(lambda: reports_of(project))
    project.write("in", "right\n")
    done = project.coppice("x")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.read("runs/x/o0.txt") == "right\n"


def test_jobs_of_a_target_that_was_edited_are_cancelled_and_their_orders_removed(
    project: Project, slurm: Cluster
) -> None:
    project.write("in", "1")
    spec(project, 1, "test $(cat in) = 2 || sleep 1000", "reads: in")
    with project.popen("x") as coordinator:
        until(lambda: runs_of(project))
        coordinator.kill()
    project.write("in", "2")
    done = project.coppice("x")
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: slurm.command("squeue", "-h", "-t", "R,CG,PD") == "")
    assert not [path for path in (project.root / "runs/x/.coppice/orders").iterdir() if len(path.name) == 24]


def test_jobs_that_were_cancelled_before_a_build_are_handed_in_again(project: Project, slurm: Cluster) -> None:
    spec(project, 1, "test -e go || sleep 1000")
    with project.popen("x") as first:
        until(lambda: runs_of(project))
        first.kill()
    daemons = slurm.cut_off(slurm.command("squeue", "-h", "-o", "%N"))  # so that its end takes a while
    slurm.command("scancel", "--me")
    project.write("go", "")
    shown = project.root / "runs/x/.coppice/activity"
    with project.popen("x") as second:
        until(lambda: (shown.exists() and "completing on" in shown.read_text()) or second.poll() is not None)
        for daemon in daemons:
            daemon.resume()
        out, err = second.communicate(timeout=PATIENCE)
    until(lambda: slurm.command("sinfo", "-h", "-o", "%D %t") == "3 idle")
    assert second.returncode == 0, out + err


def test_what_was_made_when_a_build_is_interrupted_is_not_made_again(project: Project) -> None:
    spec(project, 2, "test {n} = 0 || test -e go || sleep 1000")
    with project.popen("x") as coordinator:
        until(lambda: runs_of(project))
        psutil.Process(coordinator.pid).suspend()  # it does not hear of the end
        until(lambda: len(runs_of(project)) == 2 and reports_of(project))
        coordinator.send_signal(signal.SIGINT)
        psutil.Process(coordinator.pid).resume()
        assert coordinator.wait(PATIENCE) == 130
    project.write("go", "")
    assert project.coppice("x").returncode == 0
    assert sorted(runs_of(project)) == ["0", "1", "1"]


def test_the_next_worker_of_an_order_is_heard_from_its_first_word(project: Project) -> None:
    spec(project, 1, "until test -e go; do sleep 0.1; done")
    orders, shown = project.root / "runs/x/.coppice/orders", project.root / "runs/x/.coppice/activity"
    with project.popen("x") as coordinator:
        until(lambda: len(runs_of(project)) == 1 and [*orders.glob("*/*/said")])
        (first,) = orders.glob("*/*/said")
        with open(first, "a") as file:
            file.write('"a"\nno JSON\n')  # as a file over a network may be for a moment
        until(lambda: shown.exists() and '"a"' in shown.read_text())
        for process in psutil.process_iter(["cmdline"]):
            if f"{orders}/batches/" in " ".join(process.info["cmdline"] or ()):
                process.kill()
        until(lambda: len(runs_of(project)) == 2)
        (second,) = {*orders.glob("*/*/said")} - {first}
        with open(second, "a") as file:
            file.write('"a later word"\n')
        until(lambda: '"a later word"' in shown.read_text())
        project.write("go", "")
        out, err = coordinator.communicate(timeout=PATIENCE)
    assert coordinator.returncode == 0, out + err


BUSY = """#!/bin/sh
date +%s%N >> {calls}
[ "$(wc -l < {calls})" -gt 4 ] || {{ echo "sbatch: error: Resource temporarily unavailable" >&2; exit 1; }}
exec {sbatch} "$@"
"""


def test_a_controller_that_takes_nothing_for_a_while_is_not_asked_without_a_pause(project: Project) -> None:
    spec(project, 1, ":")
    text = BUSY.format(calls=project.root / "calls", sbatch=shutil.which("sbatch"))
    project.write("bin/sbatch", text).chmod(0o755)
    done = project.coppice("x", PATH=f"{project.root}/bin:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr
    times = [int(line) for line in project.read("calls").split()]
    assert len(times) == 5
    assert min(after - before for before, after in pairwise(times)) >= LOOK_SECONDS * 1e9


IDEAS = {"1a": "gain=11", "2b": "gain=12 risk=6", "3c": "gain=12", "4d": "gain=$((gain + 1))", "5e": "risk=3"}
SHAPE = {"ideas_per_node": 2, "beam_width": 2, "max_depth": 2, "max_parallel_evals": 4}


@pytest.fixture(scope="module")
def in_threads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    search = Search(Project(tmp_path_factory.mktemp("threads") / "project"), IDEAS, **SHAPE, **TESTED)
    search.build()
    return decided(search)


def noted(search: Search) -> list[str]:
    """What sweeps have noted."""
    return (search.root / "list").read_text().splitlines()


@pytest.mark.parametrize("kills", [0, 4])
def test_a_search_over_code_decides_the_same_as_in_threads(
    project: Project, in_threads: dict[str, bytes], kills: int
) -> None:
    search = Search(project, IDEAS, **SHAPE, **TESTED, engine="slurm")
    project.write("list", "")  # what is made in its place is of one worker alone
    for n in range(1, kills + 1):
        with project.popen("run") as coordinator:
            until(lambda n=n, build=coordinator: len(noted(search)) >= 2 * n or build.poll() is not None)
            coordinator.kill()
    done = project.coppice("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert decided(search) == in_threads
    assert noted(search)
    assert len(noted(search)) == len({*noted(search)})
