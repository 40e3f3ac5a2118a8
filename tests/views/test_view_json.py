"""`--reporter json`: one document on standard output, with doit's shape and our fields, however the build ends."""

import json
import signal
import sys
from io import StringIO
from typing import Any

import pytest
from doit.reporter import TaskResult
from doit.task import Task
from kit.building import demo_of
from kit.project import Project

from pipeline.core.graph import Target
from pipeline.views.events import Build
from pipeline.views.reporters import JsonReporter

SPEC = """\
kind: steps
steps:
  fine:
    run: "cat {in} > {out}"
    reads: [in.txt]
    writes: fine.txt
  bad:
    run: "echo the end; exit 3; touch {out}"
    writes: bad.txt
  after:
    run: "cat {in} > {out}"
    reads: [runs/demo/bad.txt]
    writes: after.txt
  last:
    run: "cat {in} > {out}"
    reads: [runs/demo/after.txt]
    writes: last.txt
"""


@pytest.fixture
def demo(project: Project) -> Project:
    return demo_of(project, SPEC, {"in.txt": "one"})


def document(printed: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(printed)
    read["by_name"] = {task["name"].partition(":")[2]: task for task in read["tasks"]}
    return read


def fields(printed: str, *names: str) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(task[n] for n in names) for name, task in document(printed)["by_name"].items()}


def test_it_has_doits_shape_and_our_fields(demo: Project) -> None:
    made = document(demo.call("run", "--continue", "-r", "json").out)
    assert {"tasks", "out", "err"} <= {*made}
    for task in made["tasks"]:
        assert {*TaskResult(Task("t", None)).to_dict()} < {*task}
        assert {"status", "start", "end", "seconds", "attempts", "exit", "why", "log"} < {*task}
    bad = made["by_name"]["bad"]
    assert (bad["result"], bad["status"], bad["exit"], bad["why"]) == ("fail", "failed", 3, "exit status 3")
    assert (bad["out"], bad["log"]) == ("the end", "runs/demo/.coppice/logs/bad.log")
    assert bad["seconds"] == bad["elapsed"] == bad["end"] - bad["start"] > 0
    assert [task["name"] for task in made["tasks"]] == ["demo:fine", "demo:bad", "demo:after", "demo:last"]


def test_every_target_needed_is_in_it_with_how_it_ended(demo: Project) -> None:
    blamed = {"after": ("skipped", None, "needs demo:bad"), "last": ("skipped", None, "needs demo:after")}
    failed = {"bad": ("failed", "fail", "exit status 3"), **blamed}
    wanted = ("status", "result", "why")
    first = demo.call("run", "--continue", "-r", "json").out
    assert fields(first, *wanted) == {"fine": ("built", "success", ""), **failed}
    second = demo.call("run", "--continue", "-r", "json").out
    assert fields(second, *wanted) == {"fine": ("fresh", "up-to-date", ""), **failed}
    (demo.root / "runs/demo/fine.txt").unlink()
    third = demo.call("run", "--continue", "-r", "json", "demo:fine").out
    assert fields(third, *wanted) == {"fine": ("recalled", "success", "")}
    demo.call("ignore", "demo:bad")
    fourth = fields(demo.call("run", "--continue", "-r", "json").out, *wanted)
    assert fourth == {"fine": ("fresh", "up-to-date", ""), **dict.fromkeys(blamed | failed, ("ignored", "ignore", ""))}


def test_a_build_that_stops_at_a_failure_tells_what_it_did_not_run(demo: Project) -> None:
    done = demo.call("run", "-n", "1", "-r", "json")
    assert done.code == 1
    statuses = fields(done.out, "status", "why")
    assert statuses["after"] == ("skipped", "needs demo:bad")
    assert statuses["last"] == ("skipped", "needs demo:after")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_is_still_one_whole_document(demo: Project, number: int, code: int) -> None:
    waits = "touch runs.on; while :; do sleep 0.05; done; touch {out}"
    demo.spec("demo", SPEC + f'  slow:\n    run: "{waits}"\n    reads: [runs/demo/fine.txt]\n    writes: slow.txt\n')
    with demo.popen("-r", "json", "-n", "1", "demo:fine", "demo:slow") as build:
        while not (demo.root / "runs.on").exists():
            assert build.poll() is None
        build.send_signal(number)
        assert build.stdout
        made = document(build.stdout.read())
    assert build.returncode == code
    assert made["stopped"] == f"interrupted by signal {number}"
    assert made["by_name"]["fine"]["status"] == "built"
    assert made["by_name"]["slow"]["why"] == f"stopped while it ran: interrupted by signal {number}"


def test_targets_that_were_not_even_looked_at_are_fresh() -> None:
    stream = StringIO()
    reporter = JsonReporter(stream, {})
    targets = [Target(f"demo:{n}", "run", (), (), {}) for n in "abc"]
    reporter.begin(Build(targets, lambda i: [], needed=[0, 2], todo=[2], jobs=1, rooms={}, receipt=lambda target: None))
    reporter.initialize({}, [])
    reporter.complete_run()
    assert fields(stream.getvalue(), "status") == {"a": ("fresh",), "c": ("skipped",)}


def test_what_is_printed_during_the_build_is_inside_of_it() -> None:
    stream = StringIO()
    reporter = JsonReporter(stream, {})
    reporter.begin(Build([], lambda i: [], [], [], 1, {}, lambda target: None))
    reporter.initialize({}, [])
    print("said by some code")
    sys.stderr.write("a problem\n")
    reporter.complete_run()
    made = document(stream.getvalue())
    assert (made["out"], made["err"]) == ("said by some code\n", "a problem\n")


def test_bad_input_prints_no_document(demo: Project) -> None:
    done = demo.call("run", "-r", "json", "demo:nothing")
    assert (done.code, done.out) == (2, "")
