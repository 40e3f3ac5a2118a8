"""The cage that holds is told before a search, stands in its records afterwards, and is named where a start fails."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, command
from kit.tree_runs import forge, manifest_of

from pipeline.core.cages import ISOLATED, CageKeys
from pipeline.machine.grades import describe_auto, lacking
from pipeline.tree.report.run_records import uncaged_text
from pipeline.tree.report.summary import summary_text

SWEEP = {**command("sh {in} {results} {limit}", "sweep.sh"), "env": {"LIST": "/dev/null"}}
CODER = {"backend": "command", "run": ["sh", "-c", "echo gain=12 > plus/a"]}
ROLES = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": CODER}


def caged(project: Project, grade: str, **keys: Any) -> Search:
    """A search whose commands write nothing beside their checkouts."""
    keys = {"tests": {"run": "true"}, **keys}
    return Search(project, {"1": ":"}, **{"sandbox": grade, "sweep": SWEEP, "roles": ROLES, **keys})


def calls(search: Search) -> list[dict[str, Any]]:
    return [json.loads(line) for line in search.project.read("runs/x/eval/d0.n0.i0/calls.jsonl").splitlines()]


def test_the_cage_that_held_stands_in_all_that_is_told_of_an_evaluation(project: Project, grade: str) -> None:
    search = caged(project, grade)
    search.build()
    network = "local" if grade == ISOLATED else "none"
    [call] = calls(search)
    assert (call["role"], call["sandbox"], call["network"]) == ("coder", grade, "full")
    manifest = search.record("manifest.json")
    measured, asked = {"sandbox": grade, "network": network}, {"sandbox": grade, "network": "full"}
    assert manifest["evaluations"]["d0.n0.i0"]["cages"] == {"test": measured, "sweep": measured, "coder": asked}
    named = {"tests": {"sandbox": grade}, "sweep": {"sandbox": grade}, "coder": {"sandbox": grade}}
    assert manifest["run_config"]["cages_asked"] == named
    top = " ".join(project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0].split())
    assert f"Cages: {grade}, network {network} (2 commands). Cages of roles: {grade}, network full (1 program)." in top
    explained = project.call("explain", "x:d0.n0.i0").out
    assert f"  cages: test, sweep: {grade}, network {network}; coder: {grade}, network full\n" in explained
    assert "No problems found" in project.read("runs/x/VALIDATION_REPORT.md")


def test_records_without_a_cage_are_read_and_said_to_have_none(project: Project) -> None:
    search = caged(project, "plain")
    search.build()
    for step in ("test", "sweep"):
        forge(project, f"eval/d0.n0.i0/{step}.cost.json", without_cage)
    path = project.root / "runs/x/eval/d0.n0.i0/calls.jsonl"
    [call] = calls(search)
    path.write_text(json.dumps({name: call[name] for name in call if name not in ("sandbox", "network")}) + "\n")
    assert manifest_of(project)["evaluations"]["d0.n0.i0"]["cages"] == dict.fromkeys(("test", "sweep", "coder"), NONE)
    assert "cages: test, sweep, coder: not recorded\n" in project.call("explain", "x:d0.n0.i0").out


NONE = {"sandbox": None, "network": None}


def without_cage(record: dict[str, Any]) -> None:
    del record["sandbox"], record["network"]


ROWS = "echo config_id,status,gain,risk; for i in 0 1 2; do echo $i,ok,9,5; done"
JUDGED: dict[str, Any] = {
    "answer": {"run": "i=0; while [ $i -lt {limit} ]; do echo 1 > {answers}/$i; i=$((i + 1)); done"},
    "judge": {"run": f"ls {{answers}} && ({ROWS}) > {{results}} && : {{limit}}"},
}


def test_results_judged_apart_are_said_to_be_so(project: Project) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    search = caged(project, "auto", sweep=JUDGED)
    search.build()
    top = " ".join(project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0].split())
    assert "trusted, network local (1 command)" in top
    assert top.endswith("Judged apart.")


def lines_of(search: Search, *words: str) -> list[str]:
    """What `plan` says of these."""
    lines = (line.removeprefix("x: ") for line in search.project.call("plan", "x").out.splitlines())
    return [line for line in lines if line.startswith(words)]


def outlook(search: Search) -> str:
    said = search.project.call("plan", "x")
    assert said.code == 0, said
    [line] = [line for line in said.out.splitlines() if line.startswith("x: sandbox: ")]
    return line.removeprefix("x: sandbox: ")


def test_plan_says_which_cage_would_hold_what(project: Project, grade: str) -> None:
    search = caged(project, grade, sweep={**SWEEP, "sandbox": "plain"})
    network = "local" if grade == ISOLATED else "none"
    assert outlook(search) == f"{grade}, network {network} (tests); plain (sweep); {grade}, network full (coder)"
    keys = {"limits": {"memory": "2 GB", "cpu": 5}, "visible": ["repo", "../gone", "~/gone"]}
    search.spec(sweep={**SWEEP, "sandbox": "plain", **keys})
    outlook(search)
    assert lines_of(search, "limits", "visible", "warning") == [
        "limits: memory 2 GB, cpu 5 s (sweep)",
        "visible: repo, ../gone, ~/gone (sweep)",
        "warning: visible: ../gone, ~/gone are not there on this machine",
    ]
    checks = {"whole": {"run": "true", "network": "none"}}
    search.spec(sweep=SWEEP, checks=checks, roles={**ROLES, "coder": {**CODER, "sandbox": "plain"}})
    if grade == ISOLATED:
        said = "isolated, network local (tests, sweep); isolated, network none (whole); plain (coder)"
    else:
        said = "landlock, network none (tests, whole, sweep); plain (coder)"
    assert outlook(search) == said


def test_plan_says_what_auto_is_here_and_what_the_next_grade_needs(project: Project) -> None:
    search = caged(project, "auto", tests=None, roles={**ROLES, "coder": {"backend": "patches"}})
    grade, _, lacks = describe_auto(judged=False).partition("; ")
    said = outlook(search)
    assert said.startswith(grade)
    assert said.endswith(f"(sweep); {lacks}" if lacks else "(sweep)")


def test_a_start_that_fails_in_a_cage_says_which_keys_would_open_it(project: Project, grade: str) -> None:
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "list").write_text("1\n")
    reads = {"run": f"cat $(dirname {elsewhere}/x)/list"}
    search = caged(project, grade, tests=reads)
    said = search.build(code=1).out
    assert said.count(f"    ---- it ran in a cage ({grade}), which may lack something: ----\n") == 1
    assert (
        said.count("    ---- `visible:` lets it read more, `network:` reach more, `sandbox: plain` does without ----\n")
        == 1
    )
    search.spec(visible=["../elsewhere"])
    search.build()


def test_a_start_that_passes_a_limit_is_told_that_limits_may_be_raised(project: Project, grade: str) -> None:
    search = caged(project, grade, tests={"run": "head -c 9999 /dev/zero > big", "limits": {"file_size": "8 kB"}})
    said = search.build(code=1).out
    assert "limit: file_size 8 kB" in said
    assert "    ---- it passed a limit: `limits: {file_size: …}` allows more ----\n" in said
    assert "visible:" not in said


@pytest.mark.parametrize("sandbox", ["plain", "auto", "isolated", "trusted"])
def test_what_a_grade_needs_is_told_where_the_machine_chooses_and_no_judge_is_there(
    project: Project, sandbox: str
) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    search = caged(project, sandbox, sweep=JUDGED, protect=["README"], tests=None, roles=ROLES)
    search.spec(roles={**ROLES, "coder": {"backend": "patches"}})
    said = search.project.call("plan", "x").out
    assert "needs a judge apart" not in said
    start = [line for line in search.build().err.splitlines() if "sandbox auto" in line]
    assert start == (["coppice: x: sandbox auto is trusted"] if sandbox == "auto" else [])


def test_a_result_of_no_cage_is_never_believed_in_silence(project: Project) -> None:
    """So it is when a machine without walls shares its store with one that has them."""
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    search = caged(project, "auto")
    search.build()
    for step in ("test", "sweep"):
        forge(project, f"eval/d0.n0.i0/{step}.cost.json", lambda record: record.update(sandbox="plain", network="full"))
    manifest = manifest_of(project)
    said = "2 results were made in no cage, for want of one: a grade that is named"
    assert uncaged_text(manifest).startswith(said)
    assert said in " ".join(summary_text(manifest).split())
    manifest["run_config"]["cages_asked"] = {"tests": {"sandbox": "plain"}}
    assert uncaged_text(manifest).startswith("1 result was made in no cage")
    manifest["run_config"]["cages_asked"] |= {"judge": {"sandbox": "plain"}}
    assert not uncaged_text(manifest)


@pytest.mark.parametrize("where", ["repo", "answer", "apart", "cut"])
def test_a_truth_that_candidates_have_is_told_before_anything_is_started(project: Project, where: str) -> None:
    truth = {"repo": "repo/labels", "answer": "labels", "apart": "labels", "cut": "labels"}[where]
    shared = {"truth": truth} if where in ("answer", "cut") else {}
    checks = {"ahead": {"run": "cat {truth} > {results}", "reads": {"truth": truth}, "cut": "truth"}}
    judge = {**JUDGED["judge"], "reads": {"truth": truth}}
    search = caged(project, "plain", sweep={"answer": {**JUDGED["answer"], "reads": shared}, "judge": judge})
    project.write("labels", "day,label\n1,2\n2,3\n3,4\n4,5\n")
    project.write("repo/labels", "1\n")
    search.spec(tests=None, checks=checks if where == "cut" else None)
    if where == "repo":
        commit_all(project.root / "repo")
    has = f"judge reads {truth}, which every candidate has in its checkout: put a truth outside of `repo:`"
    given = f"judge reads {truth}, which commands of the candidate read too: keep a truth in a file that `judge:` alone"
    expected = {"repo": [has], "answer": [given]}.get(where, [])
    warned = lines_of(search, "warning: ")
    assert [
        line.removeprefix("warning: ")[: len(text)] for line, text in zip(warned, expected, strict=True)
    ] == expected
    started = [line for line in search.build().err.splitlines() if "judge reads" in line]
    assert started == [f"coppice: x: {line.removeprefix('warning: ')}" for line in warned]


REFUSED = {
    "files": ({"files": 20}, "import os; [os.dup(0) for _ in range(30)]", "files 20"),
    "file_size": ({"file_size": "8 kB"}, 'print("x" * 9999, file=open("big", "w"), flush=True)', "file_size 8 kB"),
}


@pytest.mark.parametrize("limit", REFUSED)
def test_a_failure_by_what_the_system_refused_names_the_limit(project: Project, limit: str) -> None:
    """The program is not ended: it may go on, and says itself what it lacks."""
    limits, line, words = REFUSED[limit]
    search = caged(project, "plain", tests=None)
    search.spec(roles={**ROLES, "coder": {**CODER, "run": ["sh", "-c", "echo > plus/a; echo > new"]}})
    run = f"[ ! -e new ] || {sys.executable} -c '{line}'"
    search.spec(tests={"run": run, "limits": limits}, max_test_rounds=0)
    search.build()
    assert f"tests: exit status 1, limit: {words}" in search.summary("d0.n0.i0")["why"]
    text = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "once `limits:` allow more, `coppice retry x` measures these again." in text


def commit_all(folder: Path) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_a_start_that_fails_without_a_cage_has_no_such_hint(project: Project) -> None:
    said = caged(project, "plain", tests={"run": "false"}).build(code=1)
    assert "the tests of the root failed" in said.out
    assert "cage" not in said.out
