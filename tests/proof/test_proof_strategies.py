"""Strategies of one worker are different provers: each makes only its kind of moves, with attempts of its own."""

import json

import pytest
from kit.project import PATIENCE, Project

SPEC = """\
kind: proof
bank: bank.jsonl
strategies:
  quick: {worker: micro, families: [finishers], timeout: 60s}
  split: {worker: micro, families: [finishers, cases], timeout: 60s}
bandit: contextual
speculation: 1
tactic_cache: false
levels: 1
lean: {processes: 1}
"""
GOALS = {
    "order": "2 < 3",
    "both": "∀ p : Bool → Prop, p true → p false → ∀ b, p b",
}


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("proved") / "project")
    project.spec("x", SPEC)
    rows = [{"id": name, "goal": goal, "priority": 0.5} for name, goal in GOALS.items()]
    project.write("bank.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    said = project.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    return project


def tried(project: Project) -> dict[str, list[tuple[str, bool]]]:
    lines = [json.loads(line) for line in project.read("runs/x/proofs.jsonl").splitlines()]
    return {line["goal"]: [(each["strategy"], each["success"]) for each in line["attempts"]] for line in lines}


def test_a_goal_that_one_kind_of_move_cannot_prove_is_proved_by_another(proved: Project) -> None:
    assert tried(proved) == {"order": [("quick", True)], "both": [("quick", False), ("split", True)]}
    results = json.loads(proved.read("runs/x/results.json"))
    assert results["strategies"] == {"quick": {"used": 2, "succeeded": 1}, "split": {"used": 1, "succeeded": 1}}


def test_the_search_is_decided_again_alike(proved: Project) -> None:
    said = proved.coppice("replay", "x")
    assert said.returncode == 0, said
