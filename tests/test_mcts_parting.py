"""The stages before the searches, without a Lean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.banks.records import save
from pipeline.core.graph import Target
from pipeline.edge.job import StageFailed
from pipeline.mcts.parting import goals

ONE = {"id": "one", "text": "1 = 1", "context": [], "key": "k", "line": 1, "difficulty": 0.5}
TWO = {"line": 2, "id": "two", "why": "it is false"}


class Goals(NamedTuple):
    """What the stage is given, with a bank of two rows."""

    target: Target
    reads: Mapping[str, Sequence[str]]
    writes: Mapping[str, Sequence[str]]


def parted(place: Path, *asked: str) -> list[dict[str, object]]:
    bank, paths = str(place / "bank.json"), [str(place / f"{name}.json") for name in asked]
    save(bank, {"goals": [ONE], "refused": [TWO]})
    goals(Goals(Target("x:goals", "goals", (), (), {"goals": [*asked]}), {"bank.json": [bank]}, {"goals": paths}))
    return [json.loads(Path(path).read_text()) for path in paths]


def test_a_goal_has_what_decides_its_search_and_a_row_that_is_none_says_why(tmp_path: Path) -> None:
    of_goal = {"id": "one", "text": "1 = 1", "context": [], "key": "k"}
    assert parted(tmp_path, "two", "one") == [{"refused": "it is false"}, of_goal]


def test_a_bank_that_became_another_since_the_run_was_planned_is_no_mistake_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"'three' any more.*; build again"):
        parted(tmp_path, "one", "three")
