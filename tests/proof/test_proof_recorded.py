"""Runs and ledgers that an earlier version recorded are read as they are, and damage in them is one line."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from kit.project import Project

from pipeline.store.ledger import Ledger

RECORDED = Path(__file__).with_name("recorded")  # with a real Lean; the ledger as `sqlite3 .dump` has it
LEDGER = "runs/.ledger/ledger.db"


@pytest.fixture
def recorded(project: Project) -> Project:
    shutil.copytree(RECORDED, project.root, dirs_exist_ok=True)
    (project.root / LEDGER).parent.mkdir()
    with closing(sqlite3.connect(project.root / LEDGER)) as db:
        db.executescript((RECORDED / "ledger.sql").read_text(encoding="utf-8"))
    return project


def test_its_journal_is_decided_again_alike(recorded: Project) -> None:
    said = recorded.call("replay", "p")
    assert (said.code, said.out) == (0, "p: 14 lines of the journal: the same again\n"), said


def test_its_goals_are_explained(recorded: Project) -> None:
    lines = recorded.call("explain", "p:hard").out.splitlines()
    assert lines[0] == "p:hard (∀ n : Nat, n * n + n = 2 * (n * (n + 1) / 2)): proved by micro"
    assert [line.partition(",")[0].strip() for line in lines[1:4]] == ["micro", "simple", "micro"]


def test_what_older_code_made_of_it_is_not_taken_for_new(recorded: Project) -> None:
    said = recorded.call("plan", "p")
    assert (said.code, said.out.splitlines()[0]) == (0, "5 targets: 5 to run"), said


def test_its_ledger_is_counted_recalled_and_written_to(recorded: Project) -> None:
    assert recorded.call("stats").out.startswith(f"{LEDGER}: 3 goals, 3 proved; 0 goals open, 0 of them never tried\n")
    with Ledger(str(recorded.root / LEDGER)) as ledger:
        attempts = ledger.attempts_by_key(json.loads(recorded.read("runs/p/toolchain.json"))["version"])
        assert sorted((key.strategy, key.budget, each.verified) for key, each in attempts.items()) == [
            ("micro", 1.0, False), ("micro", 1.0, True), ("micro", 1.0, True), ("micro", 2.0, True),
            ("simple", 1.0, False),
        ]  # fmt: skip
        proof = next(each for each in attempts.values() if each.key.budget == 2.0)
        assert ledger.recall(proof.key) == proof
        ledger.refuse(proof.key.goal_hash, proof.key.toolchain, proof.tactics, "not so").result()
        assert [each.goal.id for each in ledger.frontier()] == ["hard"]


@pytest.mark.parametrize("damage", [b'{"half', b"[]\n", b"{}\n", b"\xff\n"])
@pytest.mark.parametrize("name", ["proofs.jsonl", "checked.json"])
def test_damage_is_one_line(recorded: Project, name: str, damage: bytes) -> None:
    recorded.write(f"runs/p/{name}", damage)
    said = recorded.call("explain", "p:hard")
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert f"runs/p/{name}: damaged: " in said.err
