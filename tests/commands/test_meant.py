"""What a command about proofs builds for a spec that is in no file, or not as the file has it."""

from __future__ import annotations

from typing import Any

import pytest
from kit.project import Project

from pipeline import kinds
from pipeline.build import project as projects
from pipeline.commands.selection import choose_run, plans_with_dependencies

MAKES = 'kind: steps\nsteps: {bank: {run: "cat {in} > {out}", reads: rows.jsonl, writes: bank.jsonl}}\n'
READS = "kind: %s\nbank: runs/gen/bank.jsonl\n%s\n"


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.root)
    project.write("runs/gen/bank.jsonl", '{"id": "one", "goal": "1 = 1"}\n')
    return project


def planned(kind: str, word: str, flags: dict[str, Any]) -> dict[str, projects.RunPlan]:
    asked = choose_run(kind, [word], kind)
    spec = kinds.ability_module(kind, kinds.PROVE).with_overrides(asked.spec, flags)._replace(name="flags")
    return plans_with_dependencies(kind, asked, spec, [*kinds.plan(kind, spec)])


FLAGS: dict[str, dict[str, Any]] = {"mcts": {"mcts_mode": "centralized"}, "proof": {}}
REST = {"mcts": "mode: centralized", "proof": "profile: 0"}


@pytest.mark.parametrize("kind", FLAGS)
def test_a_bank_that_another_run_makes_is_made_first(place: Project, kind: str) -> None:
    place.spec("gen", MAKES)
    place.spec("x", READS % (kind, REST[kind]))
    plans = planned(kind, "x", FLAGS[kind])
    assert projects.graph(plans).writer["runs/gen/bank.jsonl"] is not None
    assert sorted(plans) == ["flags", "gen"]


@pytest.mark.parametrize("kind", FLAGS)
def test_a_bank_in_the_folder_of_a_run_that_has_no_spec_is_a_file_like_any(place: Project, kind: str) -> None:
    (place.root / "specs").rmdir()
    plans = planned(kind, "runs/gen/bank.jsonl", FLAGS[kind])
    assert "runs/gen/bank.jsonl" not in projects.graph(plans).writer
    assert [*plans] == ["flags"]
