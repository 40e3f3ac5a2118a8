"""Strategies of one worker are different provers: each makes only its kind of moves, with attempts of its own."""

import json

import pytest
from kit.project import PATIENCE, Project

SPEC = """\
kind: proof
bank: bank.jsonl
strategies:
  quick: {worker: micro, families: [finishers], timeout: 60s}
  induct: {worker: micro, families: [finishers, induction], timeout: 60s}
bandit: BANDIT
speculation: 1
tactic_cache: false
levels: 1
lean: {processes: 1}
"""
GOALS = {
    "order": "2 < 3",
    "steps": "∀ p : Nat → Prop, p 0 → (∀ n, p n → p (n + 1)) → ∀ n, p n",
}


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("proved") / "project")
    project.spec("x", SPEC.replace("BANDIT", "contextual"))
    rows = [{"id": name, "goal": goal, "priority": 0.5} for name, goal in GOALS.items()]
    project.write("bank.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    said = project.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    return project


def tried(project: Project) -> dict[str, list[tuple[str, bool]]]:
    lines = [json.loads(line) for line in project.read("runs/x/proofs.jsonl").splitlines()]
    return {line["goal"]: [(each["strategy"], each["success"]) for each in line["attempts"]] for line in lines}


def test_a_goal_that_one_kind_of_move_cannot_prove_is_proved_by_another(proved: Project) -> None:
    assert tried(proved) == {"order": [("quick", True)], "steps": [("quick", False), ("induct", True)]}
    results = json.loads(proved.read("runs/x/results.json"))
    assert results["strategies"] == {"quick": {"used": 2, "succeeded": 1}, "induct": {"used": 1, "succeeded": 1}}


def test_the_search_is_decided_again_alike(proved: Project) -> None:
    said = proved.coppice("replay", "x")
    assert said.returncode == 0, said


def test_another_bandit_recalls_what_each_strategy_did(proved: Project) -> None:
    proved.spec("x", SPEC.replace("BANDIT", "seed"))
    assert proved.coppice("x", timeout=PATIENCE).returncode == 0
    lines = [json.loads(line) for line in proved.read("runs/x/proofs.jsonl").splitlines()]
    assert all(each["recalled"] for line in lines for each in line["attempts"])
