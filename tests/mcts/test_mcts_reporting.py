"""The stage that compares: which files it reads, and what it makes of goals that are there twice."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.mcts_comparisons import BUDGET, LEAN, SHARED, TEAM, search
from kit.mcts_papers import Given

from pipeline.core.graph import Target
from pipeline.mcts.plan import COMPARE_FILES, ROW_INDEX
from pipeline.mcts.stages import write_comparison
from pipeline.store.records import save

GOALS = {"second": {"key": "k"}, "first": {"key": "k"}, "other": {"key": "o"}}
ROWS = {"lines": {"first": 1, "second": 2, "other": 4}, "refused": [{"line": 3, "id": "bad", "why": "no goal"}]}
PARAMS = {
    "cells": [["team", 1, name] for name in GOALS], "goals": [*GOALS], "scenarios": {"team": TEAM}, "budget": BUDGET,
    "shared": SHARED, "bank": "bank.jsonl",
}  # fmt: skip


def files(place: Path, records: Mapping[str, Any], ending: str = ".json") -> list[str]:
    for name, record in records.items():
        save(str(place / f"{name}{ending}"), record)
    return [str(place / f"{name}{ending}") for name in records]


def compare_in(place: Path) -> dict[str, Any]:
    summary = {key: value for key, value in search().items() if key not in ("scenario", "seed", "goal")}
    summaries = dict.fromkeys(GOALS, summary)
    reads = {
        "summaries": files(place, summaries, ".summary.json"), "goals": files(place, GOALS),
        ROW_INDEX: files(place, {"rows": ROWS}), "toolchain.json": files(place, {"toolchain": LEAN}),
    }  # fmt: skip
    target = Target("x:compare", "compare", (), (), PARAMS)
    write_comparison(Given(target, reads, {port: [str(place / port)] for port in COMPARE_FILES}))
    found: dict[str, Any] = json.loads((place / "comparison.json").read_text())
    return found


def test_of_equal_statements_one_counts_and_the_rest_is_told(tmp_path: Path) -> None:
    found = compare_in(tmp_path)
    assert (found["goals"], found["scenarios"]["team"]["searches"]) == (["first", "other"], 2)
    assert found["refused"] == [
        {"goal": "bad", "error": "no goal"},
        {"goal": "second", "error": "it is the statement of line 1 (first); drop one of them"},
    ]
    rows = list(csv.DictReader((tmp_path / "comparison.csv").open(newline="")))
    assert {row["goal"]: (row["status"], row["solved"]) for row in rows} == {
        "first": ("solved", "1"), "other": ("solved", "1"), "second": ("refused", "0"),
    }  # fmt: skip


def test_a_comparison_says_with_what_it_was_made(tmp_path: Path) -> None:
    found = compare_in(tmp_path)
    assert [found[part] for part in ("lean", "bank", "shared")] == [LEAN, "bank.jsonl", SHARED]
