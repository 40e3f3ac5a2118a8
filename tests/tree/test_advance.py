"""`coppice advance` takes a search a depth further each time, and says on standard output where it stands."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from kit.gitting import repository, run_git
from kit.project import PATIENCE, Project, Said
from kit.stepping import CONFIG, SHAPE, planted, spec, stand, swept

GAINS = (1, 2, -1, 4, 8, 16)


@pytest.fixture
def search(project: Project) -> Project:
    planted(project, *GAINS)
    spec(project)
    return project


def advance(project: Project, *words: str, code: int = 0) -> Said:
    said = project.call("advance", "x", *words)
    assert said.code == code, said
    assert "Traceback" not in said.err
    return said


def files(project: Project) -> dict[str, tuple[bytes, int]]:
    """All that is recorded, and when it was written."""
    run = project.root / "runs/x"
    found = [path for path in run.rglob("*") if path.is_file() and not {".coppice", "repo.git"} & {*path.parts}]
    return {str(path.relative_to(run)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def eventually(path: Path, within: float = PATIENCE) -> None:
    last = time.monotonic() + within
    while not path.exists():
        assert time.monotonic() < last
        time.sleep(0.01)


def test_each_time_it_is_one_depth_until_there_is_a_reason_to_stop(search: Project) -> None:
    expected = [
        (1, None, [("d1.n0", "d0.n0.i1", 2)], ["d0.n0", "d0.n0.i0", "d0.n0.i1"]),
        (2, None, [("d2.n0", "d1.n0.i1", 3)], ["d1.n0.i0", "d1.n0.i1"]),
        (3, "max_depth_reached", [("d3.n0", "d2.n0.i1", 5)], ["d2.n0.i0", "d2.n0.i1"]),
    ]
    for depth, stop, promoted, ran in expected:
        said = advance(search)
        found = stand(said)
        assert (found["tree_run_id"], found["current_depth"], found["max_depth"]) == ("x", depth, 3)
        assert found["stop_reason"] == stop
        assert [(each["node"], each["from_eval"]) for each in found["promoted"]] == [each[:2] for each in promoted]
        assert found["evaluations"] == {"completed": 2 * depth, "failed": 0, "skipped": 0}
        assert swept(search) == ran
        assert f"x: depth {depth - 1}: " in said.err
        for name in ("TREE_SUMMARY.md", "manifest.json"):
            assert search.read(f"runs/x/{name}")
    assert search.call("run", "x").out.startswith("up to date: ")


def test_what_was_promoted_is_told_with_its_commit_idea_and_score(search: Project) -> None:
    (promoted,) = stand(advance(search))["promoted"]
    node = json.loads(search.read("runs/x/nodes/d1.n0/code.json"))
    summary = json.loads(search.read("runs/x/eval/d0.n0.i1/summary.json"))
    assert promoted == {
        "node": "d1.n0",
        "from_eval": "d0.n0.i1",
        "commit": node["commit"],
        "idea": "runs/x/node_ideas/d0.n0/idea_001.md",
        "score": summary["scoring_summary"]["root_recommendation"]["score"],
    }
    assert search.read(promoted["idea"]).startswith("IDEA: 1.")


def test_when_all_is_done_it_changes_nothing(search: Project) -> None:
    first = [advance(search) for _ in range(3)][-1]
    before = files(search)
    again = advance(search)
    assert again.out == first.out
    assert files(search) == before
    assert "VALIDATION_REPORT.md" in before
    assert len(swept(search)) == 7


def test_step_by_step_comes_to_the_same_records_as_in_one_go(search: Project, tmp_path: Path) -> None:
    other = planted(Project(tmp_path / "other"), *GAINS)
    spec(other)
    for _ in range(3):
        advance(search)
    assert other.call("run", "x").code == 0
    timed = ("manifest.json", "events.jsonl", "cost.json", "promoted.json", "assigned.json", ".log", "TREE_SUMMARY.md")
    ours, theirs = ({name: text for name, (text, _) in files(each).items()} for each in (search, other))
    assert {*ours} == {*theirs}
    records = [name for name in ours if not name.endswith(timed) and name.split("/")[0] not in ("wt", "cand")]
    assert not [name for name in records if ours[name] != theirs[name]]
    assert len(records) > 50


@pytest.mark.parametrize(
    ("more", "gains", "stop", "depth"),
    [
        ("", (1, 2, -1, -2, 4, 5), "empty_frontier", 2),
        ("stop_on_empty_frontier: false\n", (1, 2, -1, -2, 4, 5), "max_depth_reached", 3),
        ("max_total_idea_evals: 3\n", GAINS, "max_total_idea_evals_reached", 2),
        ("max_total_idea_evals: 2\n", GAINS, "max_total_idea_evals_reached", 1),
    ],
)
def test_a_search_that_stops_is_brought_to_its_end_at_once(
    project: Project, more: str, gains: tuple[int, ...], stop: str, depth: int
) -> None:
    planted(project, *gains)
    spec(project, more)
    found = [stand(advance(project)) for _ in range(depth)]
    assert [each["stop_reason"] for each in found] == [*[None] * (depth - 1), stop]
    assert found[-1]["current_depth"] == depth
    assert project.call("run", "x").out.startswith("up to date: ")
    swept(project)
    assert stand(advance(project)) == found[-1]
    assert swept(project) == []


def test_what_was_not_tried_is_counted_as_skipped_and_what_is_no_slot_is_not(project: Project) -> None:
    planted(project, 1)
    spec(project, "beam_width: 2\n")
    assert stand(advance(project))["evaluations"] == {"completed": 1, "failed": 0, "skipped": 1}
    assert stand(advance(project))["evaluations"] == {"completed": 1, "failed": 0, "skipped": 3}


def test_after_an_edit_it_goes_on_from_the_first_depth_that_is_not_as_it_should_be(search: Project) -> None:
    for _ in range(3):
        advance(search)
    swept(search)
    spec(search, "beam_width: 2\n")
    found = stand(advance(search))
    assert (found["current_depth"], found["stop_reason"]) == (1, None)
    assert [each["node"] for each in found["promoted"]] == ["d1.n0", "d1.n1"]
    assert found["evaluations"]["completed"] == 2
    assert swept(search) == []
    assert json.loads(search.read("runs/x/depths/2/promoted.json"))["stop_reason"], "left from before the edit"


def test_a_fault_is_told_and_where_the_search_stands(search: Project) -> None:
    search.write("sweep.sh", "exit 3\n")
    said = advance(search, code=1)
    assert (stand(said)["current_depth"], stand(said)["promoted"]) == (0, [])
    assert "failed x:d0.n0.sweep" in said.err
    planted(search, *GAINS)
    assert stand(advance(search))["current_depth"] == 1


def test_as_many_at_once_as_asked_for(search: Project) -> None:
    assert stand(advance(search, "-n", "1"))["current_depth"] == 1
    assert "-n -1: give 1 or more" in advance(search, "-n", "-1", code=2).err


# -- interrupted


@pytest.fixture
def sweeping(search: Project) -> subprocess.Popen[str]:
    """In the sweep of the root."""
    search.write("wait", "")
    started = search.popen("advance", "x")
    eventually(search.root / "here")
    return started


def test_killed_at_any_time_it_goes_on_and_redoes_nothing_that_was_finished(
    search: Project, sweeping: subprocess.Popen[str]
) -> None:
    sweeping.kill()
    sweeping.communicate()
    (search.root / "wait").unlink()
    assert stand(advance(search))["current_depth"] == 1
    assert swept(search) == ["d0.n0", "d0.n0", "d0.n0.i0", "d0.n0.i1"]
    search.write("wait", "")
    (search.root / "here").unlink()
    second = search.popen("advance", "x", "-n", "1")
    eventually(search.root / "here")
    second.kill()
    second.communicate()
    (search.root / "wait").unlink()
    assert stand(advance(search))["current_depth"] == 2
    assert swept(search) == ["d1.n0.i0", "d1.n0.i0", "d1.n0.i1"]


def test_interrupted_it_still_says_where_it_stands(sweeping: subprocess.Popen[str]) -> None:
    sweeping.send_signal(signal.SIGTERM)
    out, err = sweeping.communicate(timeout=PATIENCE)
    assert sweeping.returncode == 143
    assert json.loads(out)["current_depth"] == 0
    assert "interrupted by signal 15; what was finished is kept" in err


# -- mistakes


def refused(project: Project, *words: str) -> str:
    said = project.call("advance", *words)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith("coppice: "), said
    assert said.err.count("\n") == 1, said
    return said.err


def test_it_wants_one_search(search: Project) -> None:
    search.spec("y", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: s}}\n")
    assert "advance: name one run, not 0" in refused(search)
    assert "advance: name one run, not 2" in refused(search, "x", "y")
    assert "there is no run 'z': no specs/z.yaml" in refused(search, "z")
    assert "advance: 'x:report' is no run; name one of: x" in refused(search, "x:report")
    assert "specs/y.yaml:1: kind: steps has no depths to advance by; `coppice y` builds it" in refused(search, "y")


@pytest.mark.parametrize("text", ["x", "-1", "0", "14", "nan", "inf"])
def test_patience_is_a_number_of_seconds_and_longer_than_a_heartbeat(search: Project, text: str) -> None:
    wanted = f"advance: --lock-stale-seconds wants a number of seconds, 15 or more, not '{text}'; who builds is heard"
    assert wanted in refused(search, "x", "--lock-stale-seconds", text)


def test_a_search_starts_from_a_clean_work_tree_and_goes_on_from_any(search: Project) -> None:
    repo = repository(search.root / "mine", {"plus/start": "10\n"})
    search.spec("x", f"kind: tree\n{CONFIG}{SHAPE}".replace("repo: code", "repo: mine"))
    search.write("mine/plus/start", "11\n")
    assert "a search starts from a commit; commit, stash or ignore: plus/start" in advance(search, code=1).err
    run_git(repo, "checkout", "--", "plus/start")
    assert stand(advance(search))["current_depth"] == 1
    search.write("mine/plus/start", "11\n")
    assert stand(advance(search))["current_depth"] == 2
    assert os.path.exists(search.root / "runs/x/wt/d2.n0/plus/start")
