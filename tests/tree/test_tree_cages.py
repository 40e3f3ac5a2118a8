"""The cage that holds is told before a search, stands in its records afterwards, and is named where a start fails."""

import json
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, command
from kit.tree_runs import forge, manifest_of

from pipeline.core.cages import ISOLATED, CageKeys
from pipeline.machine.grades import describe_auto, lacking

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
    assert f"  held by a cage: test, sweep: {grade}, network {network}; coder: {grade}, network full\n" in explained
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
    assert "held by a cage: test, sweep, coder: not recorded\n" in project.call("explain", "x:d0.n0.i0").out


NONE = {"sandbox": None, "network": None}


def without_cage(record: dict[str, Any]) -> None:
    del record["sandbox"], record["network"]


def test_results_judged_apart_are_said_to_be_so(project: Project) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    answer = {"run": "i=0; while [ $i -lt {limit} ]; do echo 1 > {answers}/$i; i=$((i + 1)); done"}
    rows = "echo config_id,status,gain,risk; for i in 0 1 2; do echo $i,ok,9,5; done"
    judge = {"run": f"ls {{answers}} && ({rows}) > {{results}} && : {{limit}}"}
    search = caged(project, "auto", sweep={"answer": answer, "judge": judge})
    search.build()
    top = " ".join(project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0].split())
    assert "trusted, network local (1 command)" in top
    assert top.endswith("Judged apart.")


def outlook(search: Search) -> str:
    said = search.project.call("plan", "x")
    assert said.code == 0, said
    [line] = [line for line in said.out.splitlines() if line.startswith("x: sandbox: ")]
    return line.removeprefix("x: sandbox: ")


def test_plan_says_which_cage_would_hold_what(project: Project, grade: str) -> None:
    search = caged(project, grade, sweep={**SWEEP, "sandbox": "plain"})
    network = "local" if grade == ISOLATED else "none"
    assert outlook(search) == f"{grade}, network {network} (tests); plain (sweep); {grade}, network full (coder)"
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
    hint = f"it ran in a cage ({grade}): `visible:` lets it read more"
    assert search.build(code=1).out.count(hint) == 1
    search.spec(visible=["../elsewhere"])
    search.build()


def test_a_start_that_fails_without_a_cage_has_no_such_hint(project: Project) -> None:
    said = caged(project, "plain", tests={"run": "false"}).build(code=1)
    assert "the tests of the root failed" in said.out
    assert "cage" not in said.out
