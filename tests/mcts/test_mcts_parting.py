"""The stages before the searches, without a Lean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.mcts_papers import Given

from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.machine.job import StageFailed
from pipeline.mcts.plan import ROW_INDEX
from pipeline.mcts.stages import snapshot_shares, split_bank
from pipeline.store.ledger import Ledger
from pipeline.store.records import save

BANK = """\
{"id": "one", "goal": "1 = 1", "difficulty": 0.5}
{"id": "two", "goal": "2 = 2", "context": ["open Nat"]}
{"id": "odd", "goal": 3}
"""


def parted(place: Path, *asked: str) -> list[dict[str, object]]:
    bank, paths = place / "bank.jsonl", [str(place / f"{name}.json") for name in asked]
    bank.write_text(BANK)
    target, writes = (
        Target("x:rows", "rows", (), (), {"goals": [*asked]}),
        {"rows": paths, ROW_INDEX: [str(place / ROW_INDEX)]},
    )
    split_bank(Given(target, {"bank": [str(bank)]}, writes))
    return [json.loads(Path(path).read_text()) for path in paths]


def test_a_row_has_what_decides_its_search_and_no_more(tmp_path: Path) -> None:
    two = {"text": "2 = 2", "context": ["open Nat"]}
    assert parted(tmp_path, "two", "one") == [two, {"text": "1 = 1", "context": []}]


def test_of_a_bank_the_lines_of_goals_and_the_rows_that_are_none_are_kept(tmp_path: Path) -> None:
    parted(tmp_path, "two")
    told = json.loads((tmp_path / ROW_INDEX).read_text())
    assert told["lines"] == {"two": 2}
    assert [(each["line"], each["id"]) for each in told["refused"]] == [(3, "odd")]


def test_a_bank_that_became_another_since_the_run_was_planned_is_no_mistake_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"'three' any more.*; build again"):
        parted(tmp_path, "one", "three")


def counted(place: Path) -> object:
    reads, writes = {"toolchain.json": [str(place / "toolchain.json")]}, {"shares.json": [str(place / "shares.json")]}
    save(reads["toolchain.json"][0], {"version": "now"})
    snapshot_shares(Given(Target("x:shares", "shares", (), (), {"ledger": str(place / "ledger.db")}), reads, writes))
    return json.loads((place / "shares.json").read_text())


def test_shares_are_of_attempts_with_the_toolchain_that_there_is(tmp_path: Path) -> None:
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        for toolchain, family in (("now", "logic"), ("before", "cases")):
            key, families = AttemptKey("g", "micro", "", toolchain, 8.0), {"families": [family]}
            ledger.record(Attempt(key, "True", True, 1.0, 0.0, verified=True, metadata=families)).result()
    assert counted(tmp_path) == {"shares": {"logic": 2 / 3}}


def test_there_are_no_shares_without_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such ledger"):
        counted(tmp_path)
