"""The cage that holds is told before a search, stands in its records afterwards, and is named where a start fails."""

import json
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, command
from kit.tree_runs import forge, manifest_of

from pipeline.core.cages import ISOLATED, CageKeys
from pipeline.machine.grades import lacking

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
