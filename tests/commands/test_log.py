"""`coppice log`: past builds of a run, what the last one waited for, two of them compared."""

import json
import os
import re
from pathlib import Path

import pytest
from kit.building import planted
from kit.project import Project

from pipeline.build.history import KEPT_BUILDS, SLACK, HistoryReporter, history_path, past_builds
from pipeline.commands.questions import _list_lines
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, MODEL_UNAVAILABLE, Outcome
from pipeline.views.events import Build


@pytest.fixture
def demo(project: Project) -> Project:
    assert project.call("init").code == 0
    assert project.call("run", "hello").code == 0
    return project


def test_each_build_that_did_something_is_listed_with_its_counts(demo: Project) -> None:
    first = demo.call("log", "hello").out.splitlines()
    assert first[0].startswith("hello 1  ")
    assert "built" in first[0]
    demo.call("run", "hello")
    target = json.loads(demo.call("log", "hello", "--json").out)["hello"][0]["critical"][-1]
    assert demo.call("forget", f"hello:{target}").code == 0
    assert demo.call("run", "hello").code == 0
    builds = json.loads(demo.call("log", "hello", "--json").out)["hello"]
    assert builds[-1]["counts"]["built"] >= 1
    assert f"built {target}" in demo.call("log", "hello").out


def test_the_critical_path_ends_with_what_ended_last(demo: Project) -> None:
    (build,) = json.loads(demo.call("log", "hello", "--json").out)["hello"][:1]
    ends = {each["name"]: each["start"] + each["seconds"] for each in build["targets"]}
    assert ends[build["critical"][-1]] == max(ends.values())
    starts = [ends[name] for name in build["critical"]]
    assert starts == sorted(starts)


def test_a_build_that_was_killed_has_no_end_and_torn_lines_do_no_harm(demo: Project) -> None:
    path = demo.root / history_path("hello")
    with path.open("a") as file:
        file.write('{"build": 9, "event": "begin", "at": 5.0}\nno json\n{"build": 10, "eve')
    said = demo.call("log", "hello").out
    assert re.search(r"^hello 9 .* killed$", said, re.M)
    assert "hello 10" not in said


DAMAGED = (
    {"build": float("inf"), "event": "begin", "at": 1.0},
    {"build": 2, "event": "begin", "at": float("nan")},
    {"build": 3, "event": "begin", "at": 1e20},
    {
        "build": 1,
        "event": "end",
        "seconds": "x",
        "stopped": "",
        "counts": {},
        "saved": 0,
        "critical": [],
        "targets": [],
    },
    {"build": 1, "event": "end", "seconds": 1, "stopped": "", "counts": [], "saved": 0, "critical": [], "targets": []},
    {"build": 1, "event": "end", "seconds": 1, "stopped": "", "counts": {}, "saved": 0, "critical": [], "targets": [1]},
    {"build": 1, "event": "end", "seconds": 1, "stopped": 0, "counts": {}, "saved": 0, "critical": [], "targets": []},
    [1],
)


def test_lines_of_the_history_that_nobody_wrote_so_are_passed_over(demo: Project) -> None:
    as_it_was = demo.call("log", "hello").out
    with (demo.root / history_path("hello")).open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in DAMAGED)
        file.write("[" * 100_000 + "\n")
    assert demo.call("log", "hello") == (0, as_it_was, "")
    demo.call("forget", "hello")
    assert demo.call("run", "hello").code == 0
    assert "hello 4  " in demo.call("log", "hello").out, "numbers that stand there are not given again"


def test_a_history_that_cannot_be_read_keeps_no_build_from_its_work(demo: Project) -> None:
    (demo.root / history_path("hello")).unlink()
    demo.write(f"{history_path('hello')}/note", "")
    demo.call("forget", "hello")
    said = demo.call("run", "hello")
    assert (said.code, said.err.count("will not know how this build went")) == (0, 1)
    assert demo.call("log", "hello").err == "coppice: runs/hello/.coppice/builds: Is a directory\n"


def test_a_long_chain_that_was_found_fresh_keeps_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(history_path("x")).parent.mkdir(parents=True)
    chain = [Target(f"x:s{n}", "run", (), (), {}) for n in range(3000)]
    every = range(len(chain))
    history = HistoryReporter("x", {})
    history.begin(Build(chain, lambda i: [i - 1][: i > 0], every, every, 1, {}, lambda _: None))
    history.target_started(chain[0])
    for target in chain:
        is_end = target in (chain[0], chain[-1])
        history.target_ended(target, Outcome(BUILT if is_end else FRESH))
    history.complete_run()
    (build,) = past_builds("x")
    assert build.critical == ["s0", "s2999"]


def test_what_an_outage_kept_back_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(history_path("x")).parent.mkdir(parents=True)
    targets = [Target(f"x:s{n}", "run", (), (), {}) for n in range(3)]
    history = HistoryReporter("x", {})
    history.begin(Build(targets, lambda i: [], range(3), range(3), 1, {}, lambda _: None))
    history.target_started(targets[0])
    out = {"why": "coder: HTTP 529", "outage": MODEL_UNAVAILABLE}
    for target, how in zip(targets, ({}, out, out), strict=True):
        history.target_ended(target, Outcome(FAILED, **how))
    history.complete_run()
    (build,) = past_builds("x")
    assert build.counts == {"failed": 1, "outage": 2}
    assert build.stopped == "a model cannot be asked: coder: HTTP 529"
    (line,) = _list_lines({"x": [build]}, ())
    assert line.endswith(": 1 failed, 2 kept back by an outage, stopped: a model cannot be asked: coder: HTTP 529")


def test_a_build_that_found_all_as_it_should_be_leaves_no_line(project: Project) -> None:
    planted(project)
    assert project.call("run", "x").code == 0
    before = project.read(history_path("x"))
    os.utime(project.root / "src.txt", (1, 1))
    assert "up to date" in project.call("run", "x").out
    assert project.read(history_path("x")) == before
    project.write("src.txt", "2\n")
    assert project.call("run", "x").code == 0
    assert [build["number"] for build in json.loads(project.call("log", "x", "--json").out)["x"]] == [1, 2]


def test_the_newest_builds_are_kept_with_their_numbers(demo: Project) -> None:
    rows = [{"build": n, "event": "begin", "at": float(n)} for n in range(1, KEPT_BUILDS + SLACK + 1)]
    demo.write(history_path("hello"), "".join(f"{json.dumps(row)}\n" for row in rows))
    demo.call("forget", "hello")
    assert demo.call("run", "hello").code == 0
    numbers = [build["number"] for build in json.loads(demo.call("log", "hello", "--json").out)["hello"]]
    assert numbers == [*range(SLACK + 2, KEPT_BUILDS + SLACK + 2)]
    assert f"there are {SLACK + 2} to " in demo.call("log", "hello", "--build", "1").err


def test_two_builds_are_compared_and_what_is_not_there_is_said(demo: Project) -> None:
    demo.call("forget", "hello")
    assert demo.call("run", "hello").code == 0
    assert demo.call("log", "hello", "--compare", "1,2").out.startswith("build 1 -> 2: ")
    found = json.loads(demo.call("log", "hello", "--compare", "1,2", "--json").out)["hello"]
    assert [build["number"] for build in found["builds"]] == [1, 2]
    (one,) = json.loads(demo.call("log", "hello", "--build", "1", "--json").out)["hello"]
    assert one["number"] == 1
    changes = [abs(target["change"]) for target in found["targets"]]
    assert changes == sorted(changes, reverse=True)
    for words, said in (
        (["hello", "--compare", "1"], "--compare wants the numbers of two builds"),
        (["hello", "--compare", "1,x,2"], "--compare wants the numbers of two builds"),
        (["hello", "--build", "99"], "there is no build 99"),
        (["hallo"], "'hallo' is no run"),
        (["--build", "1"], "name it"),
        (["hello", "--build", "1", "--compare", "1,2"], "give --build or --compare, not both"),
    ):
        answer = demo.call("log", *words)
        assert answer.code == 2
        assert said in answer.err


PLACES = """\
kind: steps
rooms: {one: 1}
steps:
  first:
    for: {n: [1, 2, 3]}
    run: "sleep 0.3; echo {n} > {out}"
    writes: "first{n}.txt"
    room: one
  then:
    for: {n: [1, 2, 3]}
    run: [cp, "{in}", "{out}"]
    reads: "runs/x/first{n}.txt"
    writes: "then{n}.txt"
"""


def test_the_critical_path_goes_by_places_and_adds_up_to_the_time_of_the_build(project: Project) -> None:
    project.spec("x", PLACES)
    assert project.call("run", "-n", "4").code == 0
    (build,) = json.loads(project.call("log", "x", "--json").out)["x"]
    firsts = [name for name in build["critical"] if name.startswith("first")]
    assert len(firsts) == 3
    assert {*build["places"]} == {*firsts[1:]}
    said = project.call("log", "x").out
    title = re.search(r"critical path of build 1: ([\d.]+) s", said)
    assert title
    assert abs(float(title[1]) - build["seconds"]) < 0.1
    assert "(had waited for a place: " in said


def test_what_another_run_of_the_same_build_took_is_no_time_of_this_one(project: Project) -> None:
    project.spec("a", "kind: steps\nsteps:\n  one: {run: 'echo > {out}; : > go', writes: o.txt}\n")
    waits = "while [ ! -e go ]; do :; done; sleep 1; echo > {out}"
    project.spec("b", f"kind: steps\nsteps:\n  slow: {{run: '{waits}', writes: s.txt}}\n")
    assert project.call("run", "-n", "2", "a:one", "b").code == 0
    took = {run: json.loads(project.call("log", run, "--json").out)[run][-1]["seconds"] for run in ("a", "b")}
    assert took["b"] - took["a"] > 0.9, "b goes on for a second after a has ended"


def test_a_killed_build_is_compared_by_what_both_did(project: Project) -> None:
    project.spec("x", PLACES)
    assert project.call("run").code == 0
    project.call("forget", "x:first.1", "x:then.2")
    assert project.call("run").code == 0
    path = project.root / history_path("x")
    *rows, ended = path.read_text().splitlines(keepends=True)
    assert json.loads(ended)["counts"] == {"built": 2, "fresh": 4}
    path.write_text("".join(rows))
    said = project.call("log", "x", "--compare", "1,2").out
    assert "build 2 was killed: 2 of the targets made in it are known, 2 in both; only these are compared\n" in said
    assert "not done" not in said
