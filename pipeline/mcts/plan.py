"""Targets of an mcts run: a pure function of the spec.

A search is known by its goal, its rules and its Lean: when its scenario gets another name, it is not made again. Each
row of the bank is a file of its own, so that an edit of the bank is one of the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.core.graph import Limits, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.backends.keys import toolchain_target
from pipeline.mcts.search.agents import Block, Delay
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
    rows = {ROWS: _paths(spec, ROWS), ROW_INDEX: _run_path(spec, ROW_INDEX)}
    yield _target(spec, ROWS, {"bank": (spec.bank,)}, rows, {"goals": [*spec.goals]})
    yield from (_goal_target(spec, goal) for goal in spec.goals)
    if spec.guides.priors == LEDGER_PRIORS:
        toolchain = {"toolchain.json": _run_path(spec, "toolchain.json")}
        yield _target(spec, SHARES, toolchain, {"shares.json": _run_path(spec, "shares.json")}, _snapshot_params(spec))
    yield from (_search_target(spec, cell) for cell in search_cells(spec))
    yield _compare_target(spec)


def goal_of_target(target: Target) -> str:
    """The goal of a target."""
    stage, _, rest = target.name.partition(":")[2].partition(".")
    return rest if stage == GOAL else rest.split(".", 2)[2]


def journal_path(target: Target) -> str:
    """The journal of a search that is not over; it is on the disk after each line."""
    return f"{noop.folder(target.run)}/journals/{target.name.partition(':')[2]}"


def search_cells(spec: MctsSpec) -> Iterator[SearchCell]:
    for scenario in spec.scenarios:
        for seed in spec.seeds:
            yield from (SearchCell(scenario, seed, goal) for goal in spec.goals)


def _goal_target(spec: MctsSpec, goal: str) -> Target:
    """Each row is shown to Lean by itself: an edit of the bank is one of the rows that it changes."""
    reads = {"row": (_path(spec, ROWS, goal),), "toolchain.json": _run_path(spec, "toolchain.json")}
    writes = {"goal.json": (_path(spec, "goals", goal),)}
    return _target(spec, f"{GOAL}.{goal}", reads, writes, {LIMITS: {"lean": spec.lean._asdict()}}, rooms=("lean",))


def _search_target(spec: MctsSpec, cell: SearchCell) -> Target:
    shares = _run_path(spec, "shares.json") if spec.guides.priors == LEDGER_PRIORS else ()
    reads = {"goal.json": (_path(spec, "goals", cell.goal),), "toolchain.json": _run_path(spec, "toolchain.json")}
    writes = {port: (cell.path(spec.name, port),) for port in SEARCH_FILES}
    name = f"{SEARCH}.{cell.scenario.name}.{cell.seed}.{cell.goal}"
    reads |= {"shares.json": shares} if shares else {}
    return _target(spec, name, reads, writes, _search_params(spec, cell), rooms=("lean",))


def _search_params(spec: MctsSpec, cell: SearchCell) -> Mapping[str, Any]:
    sessions = spec.lean.processes if cell.scenario.time == REAL_TIME else 1
    limits = {"lean": spec.lean._asdict(), "ledger": spec.ledger, "sessions": sessions}
    guides = {"priors": spec.guides.priors, "rewards": spec.guides.rewards, "seed": cell.seed}
    return {"rules": search_rules(spec, cell), "guides": guides, LIMITS: limits}


def search_rules(spec: MctsSpec, cell: SearchCell) -> Mapping[str, Any]:
    """Rules of the search, as its journal begins with them."""
    return mode_as_json(cell.scenario.rules(spec.rules, cell.seed), cell.scenario.time)


def _compare_target(spec: MctsSpec) -> Target:
    """The target of the comparison. Its params tell the origin of each summary, since summaries do not."""
    asked = [*search_cells(spec)]
    params = {
        "cells": [[cell.scenario.name, cell.seed, cell.goal] for cell in asked],
        "goals": [*spec.goals],
        "scenarios": {each.name: scenario_settings(each) for each in spec.scenarios},
        "budget": spec.rules.budget._asdict(),
        "shared": shared_settings(spec),
        "bank": spec.bank,
    }
    summaries = tuple(cell.path(spec.name, "summary.json") for cell in asked)
    own = {name: _run_path(spec, name) for name in (ROW_INDEX, "toolchain.json")}
    reads = {"summaries": summaries, "goals": _paths(spec, "goals"), **own}
    return _target(spec, COMPARE, reads, {port: _run_path(spec, port) for port in COMPARE_FILES}, params)


def shared_settings(spec: MctsSpec) -> dict[str, Any]:
    """Settings that decide all searches alike, as a spec calls them."""
    policy, attempts = spec.rules.expansion
    guides = {key: word for key, word in spec.guides._asdict().items() if word}
    return {**spec.rules.maths._asdict(), "expansion_policy": policy, "attempts": attempts, **guides}


def scenario_settings(scenario: Scenario) -> dict[str, Any]:
    """Settings of a scenario for the comparison, with the seeds that all of its searches share."""
    settings: dict[str, Any] = {"mode": scenario.mode}
    if scenario.steering is None:
        return settings
    block, delay, reroute = scenario.interventions
    settings |= {**scenario.steering._asdict(), "time": scenario.time}
    return settings | {
        "block": _intervention_settings(scenario, "block", block),
        "delay": _intervention_settings(scenario, "delay", delay),
        "reroute": reroute,
    }


def _intervention_settings(scenario: Scenario, group: str, rule: Block | Delay) -> dict[str, Any]:
    said = rule._asdict()
    return said if f"{group}.seed" in scenario.explicit_keys else {key: said[key] for key in said if key != "seed"}


def _target(
    spec: MctsSpec,
    name: str,
    reads: Mapping[str, tuple[str, ...]],
    writes: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Any],
    rooms: tuple[str, ...] = (),
) -> Target:
    stage, ports = name.partition(".")[0], (tuple(reads.items()), tuple(writes.items()))
    return Target(f"{spec.name}:{name}", stage, *ports, params, Limits(rooms=rooms), spec.line)


def _snapshot_params(spec: MctsSpec) -> Mapping[str, Any]:
    """The ledger grows with every search: it is read once for each word, and for each run."""
    return {"as_of": spec.guides.as_of, "run": spec.name, "ledger": spec.ledger}


def _paths(spec: MctsSpec, folder: str) -> tuple[str, ...]:
    return tuple(_path(spec, folder, goal) for goal in spec.goals)


def _path(spec: MctsSpec, folder: str, goal: str) -> str:
    return f"runs/{spec.name}/{folder}/{goal}.json"


def _run_path(spec: MctsSpec, name: str) -> tuple[str, ...]:
    return (f"runs/{spec.name}/{name}",)
