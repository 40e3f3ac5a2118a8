"""What a build works on can be read while it goes on, and only then: a killed build is not taken for one that lives."""

import json
import time
from contextlib import chdir
from pathlib import Path

import pytest
from kit.building import until
from kit.project import Project

from pipeline.build.activity import PERIOD, SOON, ActivityReporter, activity_path, moment_of
from pipeline.core.freshness import Receipt
from pipeline.core.graph import Limits, Target
from pipeline.core.outcome import BUILT, Outcome
from pipeline.core.projection import Moment
from pipeline.machine.lock import lock_runs
from pipeline.store.steering import PAUSED, RESUMED, SteeringLog, append_request
from pipeline.views.events import Build

# `quick` takes no time; `slow` waits for the file `go`.
STEPS = """
kind: steps
steps:
  quick: {run: "echo > {out}", writes: q.txt}
  slow: {run: "while [ ! -e go ]; do sleep 0.01; done; cat {in} > {out}", reads: q.txt, writes: s.txt}
"""


def moment(project: Project) -> Moment:
    with chdir(project.root):
        return moment_of("x", SteeringLog("x"))


def running(project: Project) -> list[str]:
    return [each.name for each in moment(project).running]


def test_what_a_build_works_on_is_known_while_it_does_and_not_after(project: Project) -> None:
    project.spec("x", STEPS)
    assert moment(project).is_building is False
    assert not (project.root / "runs").exists(), "who only looks leaves nothing"
    began = time.time()
    with project.popen("run", "x") as build:
        until(lambda: running(project) == ["x:slow"], build)
        seen = moment(project)
        assert seen.is_building
        assert began <= seen.running[0].since <= seen.now
        project.write("go", "")
        assert build.wait(60) == 0
    assert moment(project)._replace(now=0) == Moment()
    assert not (project.root / activity_path("x")).exists()


def test_what_a_killed_build_left_is_no_activity_whoever_has_the_lock_next(project: Project) -> None:
    project.spec("x", STEPS)
    with project.popen("run", "x") as build:
        until(lambda: running(project) == ["x:slow"], build)
        build.kill()
    assert (project.root / activity_path("x")).exists()
    assert not moment(project).is_building
    assert running(project) == []
    with chdir(project.root), lock_runs(["x"]):
        assert moment(project).is_building
        assert running(project) == []
    project.write("go", "")
    assert project.call("run", "x").code == 0
    assert not (project.root / activity_path("x")).exists()


def test_a_pause_belongs_to_the_moment(project: Project) -> None:
    project.spec("x", STEPS)
    with chdir(project.root):
        append_request("x", PAUSED)
        paused = moment(project).pause
        append_request("x", RESUMED)
    assert paused is not None
    assert moment(project).pause is None


TARGETS = [Target(f"x:{name}", "run", (), (), {}, Limits()) for name in ("a", "b", "c")]


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> ActivityReporter:
    """At the start of a build of three targets that took ten seconds each the last time."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/x/.coppice").mkdir(parents=True)
    receipt = Receipt("", {}, {}, {}, 100.0, 110.0, 1, 0, BUILT)
    made = ActivityReporter(["x"], clock)
    made.begin(Build(TARGETS, lambda i: [], range(3), range(3), 1, {}, lambda t: receipt))
    made.initialize({}, [])
    return made


def test_nothing_is_written_where_nothing_is_started(reporter: ActivityReporter, tmp_path: Path) -> None:
    reporter.round_ended()
    reporter.complete_run()
    assert [*(tmp_path / "runs/x/.coppice").iterdir()] == []


def test_it_is_written_at_once_and_then_only_so_often_however_much_happens(
    reporter: ActivityReporter, clock: Clock
) -> None:
    file = Path(activity_path("x"))
    reporter.target_started(TARGETS[0])
    reporter.round_ended()
    written = []
    for number in range(2000):
        file.unlink(missing_ok=True)
        reporter.target_progress(TARGETS[0], f"line {number}")
        clock.now += PERIOD / 100
        reporter.round_ended()
        written += [number] if file.exists() else []
    assert 19 <= len(written) <= 21, "2000 changes in twenty periods"
    clock.now += PERIOD
    reporter.round_ended()
    assert json.loads(file.read_bytes())["running"][0][2] == "line 1999"
    file.unlink()
    clock.now += PERIOD
    reporter.round_ended()
    assert not file.exists(), "nothing has changed"


def test_an_estimate_counts_what_has_ended_before_there_was_one(reporter: ActivityReporter, clock: Clock) -> None:
    reporter.target_started(TARGETS[0])
    reporter.target_ended(TARGETS[0], Outcome(BUILT, start=100.0, end=110.0))
    reporter.target_started(TARGETS[1])
    clock.now += SOON + PERIOD
    reporter.round_ended()
    left = json.loads(Path(activity_path("x")).read_bytes())["left"]
    assert left == pytest.approx(20 - SOON - PERIOD, abs=0.1), "of b and c, ten seconds each"


def test_a_line_of_progress_moves_no_cursor_and_is_short(reporter: ActivityReporter) -> None:
    reporter.target_started(TARGETS[0])
    reporter.target_progress(TARGETS[0], "\x1b[2J\x1b[31m" + "word " * 1000)
    reporter.round_ended()
    says = json.loads(Path(activity_path("x")).read_bytes())["running"][0][2]
    assert says.startswith("word word")
    assert len(says) <= 200


def test_a_list_that_is_empty_is_believed_too_and_a_pause_has_no_end_that_is_known(project: Project) -> None:
    project.spec("x", STEPS)
    with chdir(project.root), lock_runs(["x"]):
        pid = json.loads(Path("runs/x/.coppice/run.lock.json").read_text())["pid"]
        told = {"pid": pid, "at": time.time(), "left": 60.0, "running": []}
        project.write(activity_path("x"), json.dumps(told))
        seen = moment(project)
        assert (seen.is_told, seen.running) == (True, ())
        assert seen.left is not None
        append_request("x", PAUSED)
        assert moment(project).left is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"pid": PID}',
        '{"pid": PID, "at": "x", "left": null, "running": []}',
        '{"pid": PID, "at": 1e99, "left": null, "running": []}',
        '{"pid": PID, "at": 1, "left": NaN, "running": []}',
        '{"pid": PID, "at": 1, "left": null, "running": [["x:a", "now", ""]]}',
        '{"pid": PID, "at": 1, "left": null, "running": [3]}',
        '{"pid": PID, "at": 1, "left": null, "running": {"x": 1}}',
        '{"pid": 1, "at": 1, "left": null, "running": [["x:a", 1, ""]]}',
    ],
)
def test_a_damaged_file_tells_nothing(content: str, project: Project) -> None:
    project.spec("x", STEPS)
    with chdir(project.root), lock_runs(["x"]):
        pid = json.loads(Path("runs/x/.coppice/run.lock.json").read_text())["pid"]
        project.write(activity_path("x"), content.replace("PID", str(pid)))
        assert moment(project)._replace(now=0) == Moment(is_building=True)
