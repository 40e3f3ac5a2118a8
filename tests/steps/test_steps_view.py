"""What there is to see of a pipeline: its state, its numbers, its targets and builds, and one target."""

import json
from contextlib import chdir
from typing import Any

import pytest
from kit.building import until
from kit.project import Project

from pipeline.build import project as projects
from pipeline.build.activity import moment_of
from pipeline.build.history import past_builds
from pipeline.core.outcome import PastBuild, TargetTime
from pipeline.core.projection import Moment, Projection, RunningTarget, as_json
from pipeline.errors import SpecError
from pipeline.steps import view
from pipeline.store.steering import SteeringLog
from pipeline.views.blocks import latest, own_seconds, run_state

SPEC = """\
kind: steps
steps:
  part:
    for: {n: [1, 2, 3]}
    run: 'echo {n} > {out}'
    writes: part{n}.txt
  all:
    run: 'cat {in} > {out}'
    reads: {in: {step: part}}
    writes: all.txt
  last:
    run: 'echo "<b>no</b>" >&2; test -e good && echo yes > {out}'
    reads: {in: all.txt}
    writes: last.txt
"""


@pytest.fixture
def project(tmp_path: Any) -> Project:
    project = Project(tmp_path)
    project.spec("demo", SPEC)
    return project


def seen(project: Project, **of_moment: Any) -> Projection:
    with chdir(project.root):
        plan = projects.load(["demo"])["demo"]
        moment = Moment(now=10.0**9, builds=past_builds("demo"), **of_moment)
        return view.project("demo", plan.targets, moment)


def details(project: Project, item: str) -> dict[str, Any]:
    with chdir(project.root):
        plan = projects.load(["demo"])["demo"]
        return {each.name: as_json(each) for each in view.details("demo", plan.targets, item)}


def number(projection: Projection, name: str) -> Any:
    return next((each.value for each in projection.figures if each.name == name), None)


def rows(projection: Projection, name: str) -> list[Any]:
    return [*next(each for each in projection.blocks if each.name == name).rows]  # type: ignore[union-attr]


def test_what_was_never_built_is_empty_and_shows_no_number_that_nobody_measured(project: Project) -> None:
    found = seen(project)
    assert found.state.word == "empty"
    assert number(found, "made") == 0
    assert number(found, "last build") is None
    assert {row.status for row in rows(found, "targets")} == {"open"}
    assert "-" in rows(found, "targets")[1].cells


def test_a_failure_is_seen_with_its_reason_and_its_log(project: Project) -> None:
    project.call("demo")
    found = seen(project)
    assert found.state.word == "failed"
    assert (number(found, "made"), number(found, "failed")) == (4, 1)
    assert [row.cells[0] for row in rows(found, "failures")] == ["last"]
    log = details(project, "demo:last")["log"]
    assert (log["text"], log["look"], log["path"]) == ("<b>no</b>\n", "log", "runs/demo/.coppice/logs/last.log")


def test_what_is_made_is_done_and_what_came_from_the_store_says_so(project: Project) -> None:
    project.write("good", "")
    project.call("demo")
    found = seen(project)
    assert (found.state.word, number(found, "made"), number(found, "failed")) == ("done", 5, 0)
    project.spec("demo", SPEC.replace("echo {n}", "echo a{n}"))
    project.call("demo")
    project.spec("demo", SPEC)
    project.call("demo")
    again = seen(project)
    assert {row.status for row in rows(again, "targets")} == {"recalled"}
    assert len(rows(again, "builds")) == 3
    assert [row.cells[0] for row in rows(again, "builds")] == ["3", "2", "1"]


def test_a_build_without_an_end_is_killed_unless_somebody_works_on_it(project: Project) -> None:
    project.write("good", "")
    project.call("demo")
    history = project.root / "runs/demo/.coppice/builds"
    history.write_bytes(b"".join(line for line in history.read_bytes().splitlines(True) if b'"begin"' in line))
    assert seen(project).state.word == "killed"
    assert "`coppice demo` goes on" in seen(project).state.why
    assert [row.cells[3] for row in rows(seen(project), "builds")] == ["killed: no end is recorded"]
    running = (RunningTarget("demo:last", 10.0**9 - 5, "half of it"),)
    live = seen(project, is_building=True, running=running, left=3.0)
    assert live.state.word == "live"
    assert [row.cells[3] for row in rows(live, "builds")] == ["goes on"]
    assert [[*row.cells] for row in rows(live, "running")] == [["last", "999999995.000", "half of it"]]
    assert rows(live, "targets")[-1].status == "running"
    paused = {"event": "paused", "at": 5.0}
    assert seen(project, is_building=True, pause=paused).state.word == "paused"


def test_where_nobody_may_ask_the_lock_that_is_said_and_nothing_is_called_killed(project: Project) -> None:
    project.call("demo")
    history = project.root / "runs/demo/.coppice/builds"
    history.write_bytes(b"".join(line for line in history.read_bytes().splitlines(True) if b'"begin"' in line))
    found = seen(project, unasked="runs/demo/.coppice/lock").state
    assert (found.word, "runs/demo/.coppice/lock may not be read" in found.why) == ("stopped", True)


def test_what_a_kill_cut_off_is_open_and_the_run_is_killed_since_it_was_last_heard_of(project: Project) -> None:
    project.write("good", "")
    project.call("demo")
    project.spec("demo", SPEC.replace("echo yes", "echo yes; touch here; while [ ! -e go ]; do sleep 0.01; done"))
    with project.popen("run", "demo") as build:
        told = project.root / "runs/demo/.coppice/activity"
        until(lambda: told.exists() and b"demo:last" in told.read_bytes() and (project.root / "here").exists(), build)
        build.kill()
    with chdir(project.root):
        while (moment := moment_of("demo", SteeringLog("demo"), past_builds("demo"))).is_building:
            pass  # what it was about to start has the lock a moment longer
        shown = view.project("demo", projects.load(["demo"])["demo"].targets, moment)
    (cut,) = moment.cut_off
    assert cut.name == "demo:last"
    row = rows(shown, "targets")[-1]
    assert (row.status, row.cells[1], row.cells[-1]) == ("open", "open", "cut off: the build that made it was killed")
    assert shown.state.word == "killed"
    assert shown.state.since == shown.at == moment.heard
    assert shown.state.since >= cut.since > moment.builds[-1].at
    (last,) = (each for each in shown.figures if each.name == "last build")
    assert (last.text, last.value) == ("killed", None)
    assert last.note.startswith("build 1 took ")


def test_what_no_build_has_come_to_is_next_while_one_goes_on_and_skipped_below_a_failure(project: Project) -> None:
    waiting = seen(project, is_building=True, running=(RunningTarget("demo:part.1", 1e9),))
    assert [row.status for row in rows(waiting, "targets")[1:]] == ["running", *["queued"] * 4]
    project.spec("demo", SPEC.replace("cat {in}", "false; exit 3"))
    project.call("demo")
    shown = {row.cells[0]: row for row in rows(seen(project), "targets")}
    assert (shown["all"].status, shown["last"].status) == ("failed", "skipped")
    assert shown["last"].cells[-1] == "needs all"
    facts = {row["cells"][0]: row["cells"][1] for row in details(project, "demo:last")["facts"]["rows"]}
    assert (facts["state"], facts["why"]) == ("skipped", "needs all")
    (sentence,) = (each.sentence for each in seen(project).blocks if each.name == "failures")  # type: ignore[union-attr]
    assert sentence == "Of demo: 1 target failed."
    (sentence,) = (each.sentence for each in seen(project).blocks if each.name == "builds")  # type: ignore[union-attr]
    assert sentence == "1 build."


def test_a_part_that_another_run_wanted_is_told_as_such_with_its_own_time() -> None:
    times = [TargetTime("a", "built", 40.0, 2.0), TargetTime("b", "built", 43.0, 1.0)]
    moment = Moment(builds=[PastBuild(1, 1e9, 49.8, targets=times)])
    assert own_seconds(moment.builds[0]) == 4.0
    state = run_state("demo", moment, {"done": 2, "open": 3})
    assert state.why == "no build goes on; 3 targets that no build was asked for: `coppice demo` makes all of it"
    assert latest([1e9 + 44, None], state) == state.since == 1e9 + 49.8


def test_every_row_that_names_an_item_opens_it_and_no_other_does(project: Project) -> None:
    project.call("demo")
    items = {row.item for block in ("targets", "failures") for row in rows(seen(project), block)} - {""}
    assert len(items) == 5
    for item in items:
        assert {"facts", "reads", "writes", "commands"} <= details(project, item).keys()
    with pytest.raises(SpecError, match="has no target 'demo:lost'"):
        details(project, "demo:lost")


def test_a_picture_of_the_graph_belongs_to_the_page_and_brings_no_style_of_its_own(project: Project) -> None:
    project.call("demo")
    pictures = [each.svg for each in seen(project).blocks if hasattr(each, "svg")]
    assert len(pictures) == 2
    assert not [svg for svg in pictures if "<style" in svg or "<script" in svg]
    json.dumps(as_json(seen(project)), allow_nan=False)
