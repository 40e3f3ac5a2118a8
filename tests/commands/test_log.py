"""`coppice log`: past builds of a run, what the last one waited for, two of them compared."""

import json

import pytest
from kit.project import Project

from pipeline.build.history import history_path


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
    assert "killed, or still going on" in said
    assert "hello 10" not in said


def test_two_builds_are_compared_and_what_is_not_there_is_said(demo: Project) -> None:
    demo.call("forget", "hello")
    assert demo.call("run", "hello").code == 0
    assert demo.call("log", "hello", "--compare", "1,2").out.startswith("build 1 -> 2: ")
    for words, said in (
        (["hello", "--compare", "1"], "--compare wants the numbers of two builds"),
        (["hello", "--compare", "1,x,2"], "--compare wants the numbers of two builds"),
        (["hello", "--build", "99"], "there is no build 99"),
        (["hallo"], "'hallo' is no run"),
        (["--build", "1"], "name it"),
    ):
        answer = demo.call("log", *words)
        assert answer.code == 2
        assert said in answer.err
