"""A search is true at every moment: manifest, summary, events and lines while it goes on, and after a kill."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, agent
from kit.tree_runs import SPEC, config_of, manifest_of, searched, small_search
from test_cascade import until
from test_tree_paired import search as by_blocks

from pipeline.build.project import load
from pipeline.core.outcome import BUILT, RECALLED, Outcome
from pipeline.store.receipts import Receipts
from pipeline.tree.follow import TreeFollower
from pipeline.tree.report.live import EventTail, LiveManifest
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.markdown import display_width
from pipeline.tree.report.summary import summary_text
from pipeline.tree.rules.positions import EvalSlot, RunLayout
from pipeline.tree.run.records import dump_record, lives_of, read_events

MANIFEST, EVENTS = "runs/x/manifest.json", "runs/x/events.jsonl"


def events(project: Project) -> list[dict[str, Any]]:
    with chdir(project.root):
        return [*read_events(EVENTS)]


def test_queued_tasks_are_in_the_manifest_before_the_first_of_them_starts(project: Project) -> None:
    small_search(project, "sandbox: plain\n")
    keep = 'cp ../../manifest.json "../../seen.$(basename "$PWD").json" || true\n'
    project.write("code/sweep.sh", keep + project.read("code/sweep.sh"))
    assert project.call("run", "x").code == 0
    for depth, slots in (("0", ["d0.n0.i0", "d0.n0.i1"]), ("1", [f"d1.n{n}.i{i}" for n in (0, 1) for i in (0, 1)])):
        seen = [*(project.root / "runs/x").glob(f"seen.d{depth}.n*.i*.json")]
        assert seen, depth
        for path in seen:
            tasks = {task["eval_id"]: task for task in json.loads(path.read_text())["tasks"]}
            assert [slot for slot in slots if slot not in tasks] == []
            assert all(task["idea_path"] and task["parent_node_id"] for task in tasks.values())


def test_what_is_written_in_parts_is_what_a_whole_fold_would_be(project: Project) -> None:
    small_search(project)
    for _ in range(2):
        assert project.call("run", "x").code == 0
        config, lives = config_of(project), lives_of(events(project))
        with chdir(project.root):
            whole = dump_record(fold_manifest("x", config, lives))
        assert project.read(MANIFEST).encode() == whole
        project.write("ideas/05/idea.md", "IDEA: Another.\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- a\n")
        project.call("forget", "x:d1.n0.i1.sweep")


def test_calls_for_ideas_are_in_the_manifest_before_their_depth_is_assigned(project: Project) -> None:
    roles = {name: agent(name) for name in ("ideas", "coder")}
    search = Search(project, {}, roles=roles, ideas_per_node=2)
    answers = "case $PWD in *i1*) exit 75;; esac\nprintf 'IDEA: a\\n\\nRATIONALE: r\\n\\nREQUIRED_CHANGES:\\n- c\\n'\n"
    project.write("agent.ideas", answers)
    search.build(code=69)
    calls = project.root / RunLayout("x").idea(EvalSlot(0, 0, 0), "calls.jsonl")
    with chdir(project.root):
        targets = load(["x"])["x"].targets
        (asked,) = [target for target in targets if target.name == "x:d0.n0.i0.idea"]
        calls.rename(f"{calls}.later")
        follower = TreeFollower("x", targets, [asked])
        assert follower.manifest.fold()["conversations"] == {}
        calls.with_name(f"{calls.name}.later").rename(calls)
        follower.target_ended(asked, Outcome(BUILT))
        assert [*follower.manifest.fold()["conversations"]] == ["d0.n0.i0.idea"]


def test_an_assignment_that_nobody_has_told_of_yet_is_in_the_manifest(project: Project) -> None:
    """It is put in place by a thread, and the manifest may be written before the coordinator hears of that."""
    searched(project)
    config, lives = config_of(project), lives_of(events(project))
    with chdir(project.root):
        path = RunLayout("x").of_depth(1, "assigned.json")
        os.rename(path, f"{path}.later")
        live = LiveManifest("x", config, lives)
        live.fold()
        os.rename(f"{path}.later", path)
        live.renew_nodes()
        assert live.fold() == fold_manifest("x", config, lives)


def test_fewer_ideas_than_were_assigned_when_it_was_interrupted(project: Project) -> None:
    searched(project)
    (project.root / RunLayout("x").of_depth(1, "promoted.json")).unlink()
    project.spec("x", SPEC.replace("ideas_per_node: 2", "ideas_per_node: 1"))
    assert {name for name in manifest_of(project)["evaluations"] if name.endswith("i1")} == set()
    assert project.call("run", "x").code == 0


@pytest.mark.parametrize("moment", [2, 5, 8, 11, 14, 19])
def test_killed_at_any_moment_its_files_are_whole_and_true(project: Project, moment: int) -> None:
    small_search(project)
    build = project.popen("run", "x", "-n", "2")
    until(lambda: build.poll() is not None or len(events(project)) >= moment)
    build.send_signal(signal.SIGKILL)
    build.communicate()
    killed, seen = time.time(), events(project)
    nothing: dict[str, Any] = {"tasks": [], "evaluations": {}, "events": []}  # the build had only just begun
    stored = json.loads(project.read(MANIFEST)) if (project.root / MANIFEST).exists() else nothing
    if (project.root / "runs/x/TREE_SUMMARY.md").exists():
        assert project.read("runs/x/TREE_SUMMARY.md").endswith("\n")
    begun = {event["eval_id"] for event in seen if event["event"] == "started"}
    assert begun <= {task["eval_id"] for task in stored["tasks"]}
    with chdir(project.root):
        receipts = Receipts("x")
        for slot, each in stored["evaluations"].items():
            if each["status"] in ("completed", "failed"):
                assert receipts.receipt(f"x:{slot}.score"), f"{slot} is said to have ended and has not"
    assert stored["events"] == seen[: len(stored["events"])]
    assert [event for event in seen[len(stored["events"]) :] if event["at"] < killed - 5] == []
    if project.call("tree", "--tree-run-id", "x", "--report-only").code == 0 and build.returncode:
        text = project.read("runs/x/TREE_SUMMARY.md")
        assert "**Not at its end**: no build of it runs, the last one was killed" in text or "Stopped: **" in text
        assert "not at its end when this was written" not in text
    assert project.call("run", "x").code == 0
    text = project.read("runs/x/TREE_SUMMARY.md")
    assert ("**killed**" in text) == (build.returncode == -signal.SIGKILL)
    assert manifest_of(project)["state"]["stop_reason"] == "max_depth_reached"
    assert project.call("run", "x").out.startswith("up to date")


@pytest.mark.parametrize("begin", [small_search, by_blocks])
def test_what_ended_and_was_not_told_since_the_build_was_killed_is_told_by_the_next(
    project: Project, begin: Callable[[Project], object]
) -> None:
    begin(project)
    assert project.call("run", "x").code == 0
    whole = manifest_of(project)
    promotions = [event["node_id"] for event in events(project) if event["event"] == "promotion"]
    assert promotions
    lines = project.read(EVENTS).splitlines(keepends=True)
    told = next(i for i, line in enumerate(lines) if '"started"' in line)
    project.write(EVENTS, "".join(lines[: told + 1]))  # receipts are written before events
    for stale in (".coppice/state", "manifest.json"):
        (project.root / "runs/x" / stale).unlink()
    assert project.call("run", "x").code == 0
    now = manifest_of(project)
    assert now["tasks"] == whole["tasks"]
    assert [event["node_id"] for event in events(project) if event["event"] == "promotion"] == promotions
    seen = events(project)
    project.call("run", "x")
    assert events(project) == seen


def test_a_manifest_that_a_killed_build_had_yet_to_write_is_written_by_the_next(project: Project) -> None:
    """All is fresh by then, and all events are told: only the manifest is behind."""
    searched(project)
    whole = json.loads(project.read(MANIFEST))
    older = json.loads(project.read(MANIFEST))
    older["events"].pop()
    older["tasks"][0]["task_state"] = "running"
    project.write(MANIFEST, json.dumps(older))
    project.write("runs/x/TREE_SUMMARY.md.123.draft", "half of")
    (project.root / "runs/x/.coppice/state").unlink()
    assert project.call("run", "x").code == 0
    assert json.loads(project.read(MANIFEST))["tasks"] == whole["tasks"]
    assert project.call("tree", "--tree-run-id", "x", "--validate-only").code == 0


def test_each_evaluation_has_times_and_a_process_of_its_own(project: Project) -> None:
    small_search(project, "sandbox: plain\n")
    note = 'echo "$$ $PPID" > "../../pids.$(basename "$PWD")"\n'
    project.write("code/sweep.sh", note + project.read("code/sweep.sh"))
    assert project.call("run", "x", "-n", "1").code == 0
    found = json.loads(project.read(MANIFEST))["evaluations"]
    first, second = found["d0.n0.i0"], found["d0.n0.i1"]
    for each in (first, second):
        assert each["queued_at"] <= each["started_at"] <= each["finished_at"] <= each["scored_at"]
        assert each["attempt"] == 1
        pids = project.read(f"runs/x/pids.{each['eval_id']}").split()
        assert str(each["worker_pid"]) in pids
    assert first["finished_at"] <= second["scored_at"]
    assert first["worker_pid"] != second["worker_pid"]


def test_events_from_before_are_still_read() -> None:
    old = [
        {"event": "queued", "eval_id": "d0.n0.i0", "at": 1.0},
        {"event": "started", "eval_id": "d0.n0.i0", "at": 2.0, "pid": 7},
        {"event": "completed", "eval_id": "d0.n0.i0", "at": 3.0, "recalled": False, "error": None},
    ]
    life = lives_of(old)["d0.n0.i0"]
    assert (life["started_at"], life["finished_at"], life["scored_at"], life["worker_pid"]) == (2.0, 3.0, None, 7)


OTHER_LOGS: dict[str, Callable[[Path, str], object]] = {
    "cut and grown again": lambda log, text: log.write_text(text),
    "replaced": lambda log, text: (log.with_name("new").write_text(text), log.with_name("new").rename(log)),
}


@pytest.mark.parametrize("how", OTHER_LOGS)
def test_a_log_is_read_on_and_another_one_in_its_place_is_read_from_its_start(tmp_path: Path, how: str) -> None:
    log = tmp_path / "events.jsonl"
    tail = EventTail(str(log))
    for names in ([], ["build"], ["build", "queued"], ["build", "queued", "started"]):
        lines = "".join(json.dumps({"at": 1.0, "event": name}) + "\n" for name in names)
        with log.open("a") as file:
            file.write(f"{lines[log.stat().st_size :]}")
        tail.read_on()
        assert [event["event"] for event in tail.events] == names
    OTHER_LOGS[how](log, "".join(json.dumps({"at": 2.0, "event": name}) + "\n" for name in "abcdefghij"))
    tail.read_on()
    assert [event["event"] for event in tail.events] == [*"abcdefghij"]
    assert [json.loads(text)["at"] for text in tail.texts()] == [2.0] * 10


def test_each_idea_ends_with_a_line_and_bookkeeping_has_none(project: Project) -> None:
    small_search(project)
    said = project.call("run", "x")
    lines = said.out.splitlines()
    assert any(re.match(r"x:d0\.n0\.i0 Raise a\.: strong, gain 10\.5 -> 13\.5 \(\+3\)", line) for line in lines)
    assert any(line.startswith("x:d1.n0.i1 Break d.: failed: tests: exit status 1") for line in lines)
    assert "x: depth 0: d0.n0.i0 -> d1.n0, d0.n0.i1 -> d1.n1" in lines
    assert not any("score" in line or ".assign" in line for line in lines)
    assert max(map(len, lines)) <= 120
    project.call("forget", "x:d0.n0.i0.score")
    assert "built x:d0.n0.i0.score" in project.call("run", "x", "-v").out


@pytest.mark.parametrize("new", [True, False], ids=["told before", "told after"])
def test_an_idea_is_called_recalled_whenever_its_targets_are_told_to_begin(project: Project, new: bool) -> None:
    """What begins and is recalled at once may be told to begin before there is a receipt of it, or after."""
    small_search(project)
    project.call("run", "x")
    for name in (EVENTS, MANIFEST):
        (project.root / name).unlink()
    with chdir(project.root):
        targets = load(["x"], keep=False)["x"].targets
        follower = TreeFollower("x", targets, targets)
        for how, slot in ((RECALLED, "d0.n0.i0"), (BUILT, "d0.n0.i1")):
            for target in (each for each in targets if f":{slot}." in each.name):
                follower.target_started(target, new)
                follower.target_ended(target, Outcome(how))
        first, second = follower.take_lines()
    assert first.endswith(", recalled")
    assert not second.endswith(", recalled")
    assert [event["recalled"] for event in events(project) if event["event"] == "completed"] == [True, False]


def test_its_summary_fits_120_columns_whatever_ideas_are_called(project: Project) -> None:
    titles = {"Raise a " + "日本語" * 40: ("a", 3), "x" * 300: ("b", 1), "Raise | c. " * 30: ("c", 20)}
    small_search(project, ideas=titles)
    assert project.call("run", "x").code == 0
    lines = project.read("runs/x/TREE_SUMMARY.md").splitlines()
    assert [line for line in lines if display_width(line) > 120] == []
    assert max(len(re.findall(r"(?<!\\)\|", line)) for line in lines) <= 9


def test_what_passed_and_did_not_become_a_node_is_not_called_promoted(project: Project) -> None:
    small_search(project, "")
    project.spec("x", project.read("specs/x.yaml").replace("beam_width: 2", "beam_width: 1"))
    assert project.call("run", "x").code == 0
    manifest = manifest_of(project)
    outcomes = {name: each["outcome"] for name, each in manifest["evaluations"].items()}
    assert outcomes["d0.n0.i0"] == "promoted"
    assert outcomes["d0.n0.i1"] == "passed, outranked"
    assert "| passed, outranked " in summary_text(manifest)


ENDS = ("completed", "failed", "scored")


@pytest.mark.parametrize("again", ["exit 5", "echo gain=1 noise=1 > plus/two", "exit 3"])
def test_a_retry_tells_of_each_evaluation_as_it_ended_now(project: Project, again: str) -> None:
    """Of the answers of before there still are the decisions of the depth, and the score until it is weighed."""
    coder = 'usd=0.25\ncase $PWD in *i1) . "$project/second";; *) echo gain=2 noise=1 > plus/one;; esac\n'
    paid = "printf '{\"usd\": %s}\\n' $usd\n"
    project.write("agent.coder", f"{coder}{paid}")
    project.write("second", f"{paid}exit 3\n")
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder", usage={"usd": "usd"})}
    search = by_blocks(project, {"one": "", "two": ""}, roles=roles)
    search.build()
    project.write("second", f"usd=0.75\n{paid if again.startswith('exit') else ''}{again}\n")
    before = len(events(project))
    said = project.call("retry", "x")
    assert said.code == 0, said
    told = [each for each in events(project)[before:] if each.get("eval_id") == "d0.n0.i1" and each["event"] in ENDS]
    entry = json.loads(project.read(MANIFEST))["evaluations"]["d0.n0.i1"]
    failed = again.startswith("exit")
    assert [each["event"] for each in told] == (["failed"] if failed else ["completed", "scored"])
    for each in told:
        assert {name: each[name] for name in ("usd", "seconds")} == {n: entry["spent"][n] for n in ("usd", "seconds")}
        assert each["usd"] >= 0.75
    (line, *_) = [line for line in said.out.splitlines() if line.startswith("x:d0.n0.i1 ")]
    if failed:
        assert told[0]["error"]["why"] == entry["error"]["why"]
        assert again.replace("exit", "status") in line
    assert entry["spent"]["usd"] >= 0.75
    assert f"${entry['spent']['usd']:.4g}" in line


def test_what_is_done_anew_and_ends_alike_is_told_again_with_its_verdict(project: Project) -> None:
    by_blocks(project, {"one": "gain=2 noise=1", "two": "gain=-2 noise=1"}).build()
    project.call("forget", "x:d0.n0.i1.sweep")
    before = len(events(project))
    said = project.call("run", "x")
    told = [each["event"] for each in events(project)[before:] if each.get("eval_id") == "d0.n0.i1"]
    assert [each for each in told if each in ENDS] == ["completed", "scored"], said
    assert [", p " in line for line in said.out.splitlines() if line.startswith("x:d0.n0.i1 ")] == [False, True]
