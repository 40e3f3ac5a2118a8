"""The stage that searches, with a Lean that answers from a table: what is in its draft is gone on with, or left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from kit.mcts_leans import TableLean
from kit.mcts_worlds import World

from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.machine.job import Job, NoPlaces, SharedResources, Workers
from pipeline.machine.process import Processes
from pipeline.mcts.plan import SEARCH_FILES, journal_path
from pipeline.mcts.search.journal import record_as_json
from pipeline.mcts.search.records import Budget, SearchRules
from pipeline.mcts.search_stage import search_goal, search_identity
from pipeline.store.files import open_log
from pipeline.store.records import save


class Moves(dict[str, tuple[str, ...]]):
    """All others fail."""

    def __missing__(self, tactic: str) -> None:
        return None


WORLD = World({"1 = 2": Moves({"simp_all": ("2 = 3",)}), "2 = 3": Moves({"rfl": ()})})


class Place:
    """A job whose Lean is kept already."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.said: list[str] = []
        self.lean = TableLean(WORLD, lambda what, stop: None)
        keys = {"backend": "wasm", "project": None}
        limits = {"lean": keys, "ledger": str(folder / "ledger.db"), "sessions": 1}
        rules = {"mode": "centralized", "rules": record_as_json(SearchRules(Budget(50, 50)))}
        guides = {"priors": "moves", "rewards": "printed", "seed": 0}
        target = Target("x:search.a.0.g", "search", (), (), {"rules": rules, "guides": guides, LIMITS: limits})
        kept = SharedResources()
        kept.get(("lean", "x", *keys.values()), lambda: self.lean)
        reads = {"goal.json": [str(folder / "goal.json")], "toolchain.json": [str(folder / "toolchain.json")]}
        self.paths = {port: [str(folder / port)] for port in SEARCH_FILES}
        save(reads["goal.json"][0], {"id": "g", "text": "1 = 2", "context": [], "key": "k"})
        save(reads["toolchain.json"][0], {"version": "table"})
        self.job = Job(
            target, reads, self.paths, "log", processes, Workers(processes), kept, places=NoPlaces(self.said.append)
        )

    def searched(self, *draft: str) -> list[str]:
        """The journal, where these lines were left of one."""
        with open_log(journal_path(self.job.target), search_identity(self.job)) as file:
            file.begin()
            for line in draft:
                file.write(line)
        search_goal(self.job)
        return self.written("journal.jsonl").splitlines()

    def written(self, port: str) -> str:
        return Path(self.paths[port][0]).read_text()


@pytest.fixture
def place(tmp_path: Path, processes: Processes) -> Place:
    return Place(tmp_path, processes)


def test_a_search_goes_on_from_each_line_of_its_draft(place: Place) -> None:
    whole = place.searched()
    trace, summary = place.written("mcts_trace.jsonl"), place.written("summary.json")
    assert json.loads(summary)["status"] == "solved"
    for count in range(1, len(whole) + 1):
        assert place.searched(*whole[:count]) == whole
        assert [place.written("mcts_trace.jsonl"), place.written("summary.json")] == [trace, summary]
        told = sum(line.count('"tactic":') for line in whole[:count] if '"what":"tell"' in line)
        assert json.loads(place.written("run_status.json"))["asked"]["tactics"] == json.loads(summary)["calls"] - told
    assert not place.said


def test_a_draft_that_this_code_would_not_write_is_begun_anew_and_that_is_said(place: Place) -> None:
    whole = place.searched()
    trace = place.written("mcts_trace.jsonl")
    assert place.searched(whole[0], whole[1].replace('"limit":1', '"limit":2'), *whole[2:5]) == whole
    assert place.written("mcts_trace.jsonl") == trace
    [said] = place.said
    assert said.startswith("begun anew, its journal being that of other code: line 2")
    assert os.path.exists(journal_path(place.job.target))
