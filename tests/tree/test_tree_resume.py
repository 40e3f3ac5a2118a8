"""A search may be killed at any moment and run as wide as it likes: it does everything once and decides the same."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kit.project import PATIENCE, Project
from kit.searches import SWEEP, TESTED, Search, agent, by_config, decided

from pipeline.store.receipts import DONE, parse_line

IDEAS = {
    "1a": "gain=11",
    "2b": "gain=12 risk=6",
    "3c": "gain=12",
    "4d": "gain=$((gain + 1))",
    "5e": "risk=3",
    "6f": "gain=9",
}
WIDE = {"ideas_per_node": 3, "beam_width": 2, "max_depth": 2}


def until(condition: Callable[[], object]) -> None:
    last = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.002)


def done(search: Search) -> set[str]:
    """The targets that are recorded as finished."""
    path = search.root / "runs/x/.coppice/receipts"
    lines = map(parse_line, path.read_bytes().split(b"\n")) if path.exists() else ()
    return {line.target.removeprefix("x:") for line in lines if line and line.event == DONE}


def target_of(noted: str) -> str:
    """`row d0.n0.i1.rows-2 2` was noted by d0.n0.i1.row.2."""
    word, place, *config = noted.split()
    return ".".join([re.sub(r"\.(tests|rows-\d+)$", "", place), word, *config])


def running(search: Search) -> list[int]:
    """Processes that work below the project, or did until their folder was taken away."""
    return [p.pid for p in psutil.process_iter() if str(search.root) in where(p)]


def where(process: psutil.Process) -> str:
    try:
        return process.cwd() if process.status() != psutil.STATUS_ZOMBIE else ""
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


# -- the same, whatever the width and the order


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is decided when one thing is done at a time."""
    search = Search(Project(tmp_path_factory.mktemp("narrow") / "project"), IDEAS, **WIDE, **TESTED)
    search.build()
    return decided(search)


# The first of each node takes longest; or the last.
NAPS = {"first": "sleep 0.0$((6 - 2 * ${at#*.i}))", "last": "sleep 0.0$((1 + 2 * ${at#*.i}))", "any": ":"}


@pytest.mark.parametrize(("workers", "nap"), [(2, "first"), (8, "last"), (8, "first"), (8, "any")])
def test_the_same_is_decided_however_many_run_at_once_and_whoever_ends_first(
    project: Project, narrow: dict[str, bytes], workers: int, nap: str
) -> None:
    search = Search(project, IDEAS, **WIDE, max_parallel_evals=workers, **TESTED)
    project.write("list.hook", f'at=$(basename "$PWD"); case $at in *.i*) {NAPS[nap]};; esac\n')
    search.build()
    assert decided(search) == narrow
    assert search.why("d1.n0.i1") == "d2.n0", "there is something to decide"


# On the root, none ends before a second one has begun, unless that would take for ever.
OVERLAP = """\
at=$(basename "$PWD"); echo "+ $at" >> "$LIST.live"; n=0
case $at in d0.n0.*) while [ "$(grep -c '^+ d0[.]n0[.]' "$LIST.live")" -lt 2 ] && [ $n -lt 2000 ]
do sleep 0.01; n=$((n + 1)); done;; esac
echo "- $at" >> "$LIST.live"
"""


def live(search: Search, of: str) -> Iterator[int]:
    """How many ran at once, from event to event, of those whose slot begins like this."""
    count = 0
    for line in search.project.read("list.live").splitlines():
        count += {"+": 1, "-": -1}[line[0]] if line[2:].startswith(of) else 0
        yield count


@pytest.mark.parametrize("mode", ["whole", "per_config"])
def test_no_more_run_at_once_than_the_spec_allows(project: Project, mode: str) -> None:
    how = {"sweep": by_config({"n": [0, 1]}), "sweep_config_limit": None} if mode == "per_config" else {}
    search = Search(project, IDEAS, **WIDE, max_parallel_evals=3, max_parallel_per_node=2, **how)
    project.write("list.hook", OVERLAP)
    search.build()
    assert max(live(search, "d")) <= 3
    assert max(live(search, "d0.n0.")) == 2
    assert max(live(search, "d1.n0.")) <= 2
    assert max(live(search, "d1.n1.")) <= 2


MEETS = """
at=$(basename "$PWD")
touch "$LIST.$at"
case $at in d1.n*)
  tries=0
  until [ -e "$LIST.d1.n0.i0" ] && [ -e "$LIST.d1.n1.i0" ]; do
    tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 9
    sleep 0.01
  done
esac
"""


def test_a_node_that_is_full_does_not_keep_another_from_work(project: Project) -> None:
    """The first of two nodes waits for the second: with places in the order of slots they would never meet."""
    search = Search(project, IDEAS, **WIDE, max_parallel_evals=2, max_parallel_per_node=1)
    project.write("list.hook", MEETS)
    search.build()
    assert [search.summary(f"d1.n{n}.i0")["status"] for n in (0, 1)] == ["completed"] * 2


# -- killed


@pytest.mark.parametrize("mode", ["whole", "per_config"])
def test_killed_again_and_again_it_does_nothing_twice_that_was_finished(project: Project, mode: str) -> None:
    """Each time as soon as a few more targets are recorded: in the middle of whatever comes next."""
    how = {"sweep": by_config({"n": [0, 1]}), "sweep_config_limit": None} if mode == "per_config" else TESTED
    search = Search(project, dict([*IDEAS.items()][2:]), ideas_per_node=2, max_depth=2, max_parallel_evals=2, **how)
    kills, ended = 0, False
    while not ended and kills < 50:
        before = done(search)
        build = project.popen("run")
        until(lambda b=build, old=before: len(done(search)) > len(old) + 2 or b.poll() is not None)
        build.send_signal(signal.SIGKILL)
        build.communicate(timeout=PATIENCE)
        ended = build.returncode == 0
        kills += not ended
        again = {target_of(line) for line in search.executed()} & before
        assert not again, f"done twice after kill {kills}"
    assert kills > 5
    assert not running(search)
    assert not [*(search.root / "runs/x/cand").iterdir()], "what kills have left there is gone"
    assert search.stop(1) == "max_depth_reached"


def test_killed_it_decides_what_it_would_have_decided(project: Project, narrow: dict[str, bytes]) -> None:
    search = Search(project, IDEAS, **WIDE, max_parallel_evals=2, **TESTED)
    for share in (15, 40, 60):
        build = project.popen("run")
        until(lambda b=build, n=share: len(done(search)) >= n or b.poll() is not None)
        build.kill()
        build.communicate()
    search.build()
    assert decided(search) == narrow


STUBBORN = 'trap "" TERM; (trap "" TERM; sleep 300) & touch "$LIST.born"; wait; sleep 300\n'


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_nobody_outlives_a_search_that_is_ended(project: Project, number: signal.Signals) -> None:
    search = Search(project, IDEAS, **WIDE, max_parallel_evals=2)
    project.write("list.hook", f'case "$PWD" in *.i*) {STUBBORN} esac\n')
    build = project.popen("run")
    until((search.root / "list.born").exists)
    build.send_signal(number)
    build.communicate(timeout=PATIENCE)
    until(lambda: not running(search))
    finished = {target_of(line) for line in search.executed()} & done(search)
    assert finished == {"d0.n0.sweep"}
    project.write("list.hook", "")
    search.build()
    assert not {target_of(line) for line in search.executed()} & finished


HANGS = 'touch "$project/asked"; while [ ! -e "$project/go" ]; do sleep 0.01; done; echo APPROVED\n'


def test_killed_in_the_middle_of_a_loop_no_call_that_was_paid_for_is_made_again(project: Project) -> None:
    roles = {name: agent(name) for name in ("ideas", "planner", "coder", "reviewer")}
    search = Search(project, {}, roles=roles, ideas_per_node=2)
    project.write("agent.ideas", 'echo "IDEA: number $(grep -c ^ideas "$project/list")"\n')
    project.write("agent.planner", "echo A plan.\n")
    project.write("agent.coder", 'echo gain=12 > "plus/$(basename "$PWD")"; echo Done.\n')
    project.write("agent.reviewer", HANGS)
    build = project.popen("run")
    until((search.root / "asked").exists)
    build.kill()
    build.communicate()
    assert search.executed() == sorted(
        [
            "sweep d0.n0",
            "ideas d0.n0.i0.idea",
            "ideas d0.n0.i1.idea",
            "planner d0.n0.i0",
            "coder d0.n0.i0",
            "reviewer d0.n0.i0",
        ]
    )
    project.write("go", "")
    search.build()
    assert search.executed() == sorted(
        [
            "reviewer d0.n0.i0",
            "sweep d0.n0.i0",
            *(f"{role} d0.n0.i1" for role in ("planner", "coder", "reviewer", "sweep")),
        ]
    )
    assert search.why("d0.n0.i0") == "d1.n0"
    calls = search.project.read("runs/x/eval/d0.n0.i0/calls.jsonl").splitlines()
    assert [json.loads(line)["role"] for line in calls] == ["planner", "coder", "reviewer"]


def test_a_call_that_failed_before_a_kill_is_tried_again_as_often_as_without_it(project: Project) -> None:
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder")}
    search = Search(project, {"1a": ":"}, roles=roles, eval_retries=1)
    first = '[ -e "$project/failed" ] || { touch "$project/failed"; exit 7; }; '
    project.write("agent.coder", f"{first}{HANGS}echo gain=12 > plus/a\n")
    build = project.popen("run")
    until((search.root / "asked").exists)
    build.kill()
    build.communicate()
    project.write("go", "")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    calls = search.project.read("runs/x/eval/d0.n0.i0/calls.jsonl").splitlines()
    assert [json.loads(line)["exit"] for line in calls] == [7, 0]


def test_worktrees_that_somebody_made_a_mess_of_are_no_matter(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=2)
    search.build()
    run = search.root / "runs/x"
    (run / "cand/d0.n0.i2").mkdir()
    (run / "cand/d0.n0.i2/left").write_text("by a process that was killed")
    (run / "cand/d0.n0.i3").symlink_to(run)
    for admin in (run / "repo.git/worktrees").iterdir():
        Path(admin / "locked").write_text("initializing")
    search.spec(ideas_per_node=4)
    search.build()
    assert search.summary("d0.n0.i2")["status"] == search.summary("d0.n0.i3")["status"] == "completed"


def test_records_of_later_depths_that_are_damaged_are_made_again_when_it_is_their_turn(project: Project) -> None:
    search = Search(project, IDEAS, **WIDE)
    search.build()
    before = decided(search)
    for n, path in enumerate(("depths/1/promoted.json", "depths/1/assigned.json", "eval/d1.n0.i0/sweep.cost.json")):
        (search.root / "runs/x" / path).write_bytes((b"", b"\xff\xfe", b'{"seconds"')[n])
    project.write("sweep.sh", f"{SWEEP}\n")
    search.build()
    assert decided(search).keys() == before.keys()
    assert search.stop(1) == "max_depth_reached"


def test_a_repository_that_a_power_cut_has_damaged_is_told_and_made_again(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=1)
    search.build()
    repo = search.root / "runs/x/repo.git"
    tree = project.read("runs/x/eval/d0.n0.i0/tree.txt").strip()
    (repo / f"objects/{tree[:2]}/{tree[2:]}").unlink()
    project.write("sweep.sh", f"{SWEEP}\n")
    assert "remove runs/x/repo.git and build again" in search.build(code=1).out
    shutil.rmtree(repo)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
