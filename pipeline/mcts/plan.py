"""Targets of an mcts run: a pure function of the spec.

A search is known by its goal, its rules and its Lean: when its scenario gets another name, it is not made again. Each
row of the bank is a file of its own, so that an edit of the bank is one of the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product, starmap
from typing import Any, NamedTuple

from pipeline.core.graph import Limits, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.backends.keys import run_files, toolchain_target
from pipeline.mcts.search.guides import LEDGER_PRIORS
from pipeline.mcts.search.journal import REAL_TIME, mode_as_json
from pipeline.mcts.spec.model import MctsSpec, Scenario
from pipeline.store import noop

ROWS, GOAL, SHARES, SEARCH, COMPARE = "rows", "goal", "shares", "search", "compare"
TRACE = "mcts_trace.jsonl"  # called after its goal
ROW_INDEX = "rows.json"  # lines of goals in the bank, and refused rows
SEARCH_FILES = (TRACE, "journal.jsonl", "run_config.json", "run_status.json", "summary.json", "proof.lean")
COMPARE_FILES = ("comparison.json", "comparison.csv", "comparison.html")


class SearchCell(NamedTuple):
    """One search of the run."""

    scenario: Scenario
    seed: int
    goal: str

    def path(self, run: str, port: str) -> str:
        name = f"{self.goal}_{TRACE}" if port == TRACE else port
        return f"runs/{run}/searches/{self.scenario.name}/{self.seed}/{self.goal}/{name}"


def plan(spec: MctsSpec) -> Iterator[Target]:
    yield toolchain_target(spec.name, spec.line, spec.lean)
    rows = {ROWS: _goal_files(spec, ROWS), **run_files(spec.name, ROW_INDEX)}
    yield _target(spec, ROWS, {"bank": (spec.bank,)}, rows, {"goals": [*spec.goals]})
    toolchain = run_files(spec.name, "toolchain.json")
    for goal in spec.goals:
        # each row is shown to Lean by itself: an edit of the bank is one of the rows that it changes
        row, goal_file = _goal_files(spec, ROWS, goal), _goal_files(spec, "goals", goal)
        reads, limits = {"row": row, **toolchain}, {LIMITS: {"lean": spec.lean._asdict()}}
        yield _target(spec, f"{GOAL}.{goal}", reads, {"goal.json": goal_file}, limits, rooms=("lean",))
    if spec.guides.priors == LEDGER_PRIORS:
        # the ledger grows with every search: it is read once for each word, and for each run
        params = {"as_of": spec.guides.as_of, "run": spec.name, "ledger": spec.ledger}
        yield _target(spec, SHARES, toolchain, run_files(spec.name, "shares.json"), params)
    yield from (_search_target(spec, cell) for cell in search_cells(spec))
    yield _compare_target(spec)


def goal_of_target(target: Target) -> str:
    stage, _, rest = target.name.partition(":")[2].partition(".")
    return rest if stage == GOAL else rest.split(".", 2)[2]


def journal_path(target: Target) -> str:
    """The journal of a search that is not over; it is on the disk after each line."""
    return f"{noop.folder(target.run)}/journals/{target.name.partition(':')[2]}"


def search_cells(spec: MctsSpec) -> Iterator[SearchCell]:
    return starmap(SearchCell, product(spec.scenarios, spec.seeds, spec.goals))


def _search_target(spec: MctsSpec, cell: SearchCell) -> Target:
    scenario, seed, goal = cell
    shares = ("shares.json",) if spec.guides.priors == LEDGER_PRIORS else ()
    reads = {"goal.json": _goal_files(spec, "goals", goal), **run_files(spec.name, "toolchain.json", *shares)}
    writes = {port: (cell.path(spec.name, port),) for port in SEARCH_FILES}
    sessions = spec.lean.processes if scenario.time == REAL_TIME else 1
    params = {
        "rules": mode_as_json(scenario.rules(spec.rules, seed), scenario.time),  # as its journal begins
        "guides": {"priors": spec.guides.priors, "rewards": spec.guides.rewards, "seed": seed},
        LIMITS: {"lean": spec.lean._asdict(), "ledger": spec.ledger, "sessions": sessions},
    }
    return _target(spec, f"{SEARCH}.{scenario.name}.{seed}.{goal}", reads, writes, params, rooms=("lean",))


def _compare_target(spec: MctsSpec) -> Target:
    """The target of the comparison. Its params tell the origin of each summary, since summaries do not."""
    cells = [*search_cells(spec)]
    params = {
        "cells": [[cell.scenario.name, cell.seed, cell.goal] for cell in cells],
        "goals": [*spec.goals],
        "scenarios": {each.name: scenario_settings(each) for each in spec.scenarios},
        "budget": spec.rules.budget._asdict(),
        "shared": shared_settings(spec),
        "bank": spec.bank,
    }
    summaries = tuple(cell.path(spec.name, "summary.json") for cell in cells)
    own = run_files(spec.name, ROW_INDEX, "toolchain.json")
    reads = {"summaries": summaries, "goals": _goal_files(spec, "goals"), **own}
    return _target(spec, COMPARE, reads, run_files(spec.name, *COMPARE_FILES), params)


def shared_settings(spec: MctsSpec) -> dict[str, Any]:
    """Settings that decide all searches alike, as a spec calls them."""
    policy, attempts = spec.rules.expansion
    guides = {key: word for key, word in spec.guides._asdict().items() if word}
    return {**spec.rules.maths._asdict(), "expansion_policy": policy, "attempts": attempts, **guides}


def scenario_settings(scenario: Scenario) -> dict[str, Any]:
    """Settings of a scenario for the comparison, with the seeds that all of its searches share."""
    if scenario.steering is None:
        return {"mode": scenario.mode}
    block, delay, reroute = scenario.interventions
    between = {"block": block._asdict(), "delay": delay._asdict()}
    for group, settings in between.items():
        if f"{group}.seed" not in scenario.explicit_keys:
            del settings["seed"]
    return {"mode": scenario.mode, **scenario.steering._asdict(), "time": scenario.time, **between, "reroute": reroute}


Files = Mapping[str, tuple[str, ...]]


def _target(
    spec: MctsSpec, name: str, reads: Files, writes: Files, params: Mapping[str, Any], rooms: tuple[str, ...] = ()
) -> Target:
    stage, ports = name.partition(".")[0], (tuple(reads.items()), tuple(writes.items()))
    return Target(f"{spec.name}:{name}", stage, *ports, params, Limits(rooms=rooms), spec.line)


def _goal_files(spec: MctsSpec, folder: str, *goals: str) -> tuple[str, ...]:
    """The file of each of these goals; of all, where none is named."""
    return tuple(f"runs/{spec.name}/{folder}/{goal}.json" for goal in goals or spec.goals)
