"""A candidate of which builds die is failed at last, and nobody else is; a search gets past it."""

import signal
from pathlib import Path

import pytest
from kit.building import until
from kit.project import PATIENCE, Project
from kit.searches import Search, command

from pipeline.machine.suspects import DIED_TWICE, Suspicion, read_suspicion

# Who kills the build, and that it waits until another command is at work, if there is to be one.
DEADLY = """\
project=$(dirname "$LIST")
case "$(basename "$PWD")" in
  WHO)
    until [ -z "BESIDE" ] || [ -e "$LIST.beside" ]; do sleep 0.02; done
    kill -9 "$(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' "$project/runs/x/.coppice/run.lock.json")"
    sleep 60;;
  d0.n0.i1)
    if [ -n "BESIDE" ] && [ ! -e "$LIST.beside" ]; then touch "$LIST.beside"; sleep 60; fi;;
esac
"""
AT_WORK = "runs/x/.coppice/at-work"


def deadly(project: Project, who: str = "d0.n0.i0", beside: str = "", **spec: object) -> Search:
    search = Search(project, {"bad": "gain=14", "good": "gain=12"}, **spec)
    project.write("list.hook", DEADLY.replace("WHO", who).replace("BESIDE", beside))
    return search


def begun(project: Project) -> list[str]:
    """The first words of all lines but those about the machine and about others."""
    words = [line.split()[0] for line in project.read(AT_WORK).splitlines()]
    return [word for word in words if word not in ("machine", "others")]


def test_a_candidate_of_which_two_builds_died_is_failed_and_the_search_goes_on(project: Project) -> None:
    search = deadly(project)
    assert project.coppice("run", "-n", "1", "x").returncode == -signal.SIGKILL
    assert begun(project)[-1] == "began"
    assert project.coppice("run", "-n", "1", "x").returncode == -signal.SIGKILL
    assert begun(project)[-1] == "alone"
    search.build()
    assert search.summary("d0.n0.i0")["why"] == f"sweep: {DIED_TWICE}"
    assert search.why("d0.n0.i1") == "d1.n0"
    assert not Path(project.root, AT_WORK).exists()
    assert DIED_TWICE in project.read("runs/x/eval/d0.n0.i0/sweep.log")


def test_one_that_was_only_at_work_beside_it_is_run_alone_and_not_failed(project: Project) -> None:
    search = deadly(project, beside="yes", max_parallel_evals=2)
    assert project.coppice("run", "-n", "2", "x").returncode == -signal.SIGKILL
    assert begun(project)[-2:] == ["began", "began"]
    assert project.coppice("run", "-n", "2", "x").returncode == -signal.SIGKILL
    assert begun(project)[:2] == ["suspect", "suspect"]
    assert begun(project)[-1] == "alone"
    search.build("-n", "2")
    assert search.summary("d0.n0.i0")["why"] == f"sweep: {DIED_TWICE}"
    assert search.summary("d0.n0.i1")["status"] == "completed"


def test_who_wants_it_tried_again_may_do_so(project: Project) -> None:
    search = deadly(project)
    for _ in range(2):
        assert project.coppice("run", "-n", "1", "x").returncode == -signal.SIGKILL
    search.build()
    project.write("list.hook", ":\n")
    assert project.call("retry", "x", "d0.n0.i0").code == 0
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_start_of_which_builds_die_is_an_error_that_says_so(project: Project) -> None:
    deadly(project, who="d0.n0*")
    for _ in range(2):
        assert project.coppice("run", "x").returncode == -signal.SIGKILL
    said = project.coppice("run", "x")
    assert said.returncode == 1
    assert f"the sweep of the root, which all is compared with, failed: {DIED_TWICE}" in said.stdout


def test_a_candidate_that_removes_what_is_known_of_it_ends_no_build(project: Project) -> None:
    search = Search(project, {"bad": "gain=14"}, sandbox="plain")
    project.write("list.hook", f'rm -f "$(dirname "$LIST")/{AT_WORK}"\n')
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not Path(project.root, AT_WORK).exists()


def test_a_build_that_is_stopped_suspects_nobody(project: Project) -> None:
    search = Search(project, {"slow": "gain=14"})
    project.write("list.hook", '[ -e plus/slow ] && { touch "$LIST.slow"; exec sleep 60; }\n:\n')
    with project.popen("run", "x") as build:
        until((project.root / "list.slow").exists, build)
        build.terminate()
        build.communicate(timeout=PATIENCE)
    assert not Path(project.root, AT_WORK).exists()
    project.write("list.hook", ":\n")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_one_that_is_killed_in_each_build_while_others_are_not_is_failed_at_last(project: Project) -> None:
    search = Search(project, {"bad": "gain=14", "good": "gain=12"}, patience=0)
    project.write("list.hook", '[ -e plus/bad ] && { echo >> "$LIST.kills"; kill -9 $$; }\n:\n')
    for _ in range(3):
        search.build(code=69)
    search.build()
    assert len(project.read("list.kills").splitlines()) == 4
    assert search.summary("d0.n0.i0")["why"] == "sweep: exit status 137, as at each try; others were not"
    assert search.why("d0.n0.i1") == "d1.n0"


def test_where_all_are_killed_nobody_is_to_blame(project: Project) -> None:
    sweep = command("sh {in} {results} {limit}", "sweep.sh")
    search = Search(project, {"bad": "gain=14"}, patience=0, sweep=sweep, baseline_csv="start.csv")
    project.write("start.csv", "config_id,status,error,gain,risk\n0,ok,,10,5\n1,ok,,11,5\n2,ok,,12,5\n")
    project.write("list.hook", "kill -9 $$\n")
    for _ in range(6):
        search.build(code=69)


M = "machine a"


@pytest.mark.parametrize(
    ("lines", "suspects", "condemned"),
    [
        ([], "", ""),
        ([M, "began 1", "began 2", "ended 1"], "2", ""),
        ([M, "began 1", "left 1"], "", ""),
        ([M, "suspect 1", "suspect 2", "alone 1"], "2", "1"),
        ([M, "suspect 1", "suspect 2", "alone 1", "ended 1", "alone 2"], "", "2"),
        ([M, "suspect 1", "alone 1", "stopping"], "1", ""),
        ([M, "began 1", "stopping"], "", ""),
        (["machine b", "suspect 1", "alone 1"], "", ""),
        (["began 1"], "", ""),
        ([M, "condemned 1", "began 2"], "2", "1"),
        ([M, "began 1", "torn"], "1", ""),
    ],
)
def test_what_a_build_leaves_behind(lines: list[str], suspects: str, condemned: str) -> None:
    found = read_suspicion(lines, "a")
    assert found == Suspicion(frozenset(suspects), frozenset(condemned))
    assert read_suspicion([M, *found.lines], "a") == found


def test_where_nobody_tells_when_the_machine_was_started_nobody_is_suspected() -> None:
    assert read_suspicion(["machine ", "began 1"], "") == Suspicion()
