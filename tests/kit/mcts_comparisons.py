"""Records of searches as a run of `kind: mcts` leaves them, made up: of scenarios that are hindered more and more."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pipeline.mcts.report.compare import comparison_record
from pipeline.mcts.report.figures import SearchFigures

Record = dict[str, Any]

TEAM = {"mode": "distributed", "agents": 4, "inflight": 2}
SCENARIOS: dict[str, Record] = {
    "centralized": {"mode": "centralized"},
    "baseline": TEAM,
    "damage-10": {**TEAM, "block": {"fraction": 0.1}},
    "damage-30": {**TEAM, "block": {"fraction": 0.3, "duration": -1}, "reroute": 0},
    "adapt-10": {**TEAM, "block": {"fraction": 0.1}, "reroute": 2},
    "adapt-30": {**TEAM, "block": {"fraction": 0.3}, "reroute": 2},
    "delayed": {**TEAM, "delay": {"prob": 0.2, "duration": 3}},
}
BUDGET = {"iterations": 200, "calls": 400}
SHARED = {"selection": "puct", "explore": 1.5, "priors": "moves"}
LEAN = {"backend": "wasm", "version": "4.28.0"}
FACTS = {"lean": LEAN, "bank": "bench/bank.jsonl", "budget": BUDGET, "shared": SHARED}
GOALS = [f"goal_{number}" for number in range(12)]


def figures(searches: Sequence[Record]) -> list[SearchFigures]:
    return [SearchFigures(**each) for each in searches]


def compared(
    searches: Sequence[Record], scenarios: Mapping[str, Record] = SCENARIOS, malformed: Sequence[Record] = ()
) -> Record:
    return comparison_record(scenarios, figures(searches), FACTS, malformed)


def search(goal: str = "a", scenario: str = "baseline", seed: int = 1, calls: int | None = 10, **fields: Any) -> Record:
    """That found a proof with so many calls, or with None used up its budget."""
    spent = BUDGET["iterations"] if calls is None else calls
    made: Record = {
        "goal": goal, "scenario": scenario, "seed": seed, "status": "open" if calls is None else "solved",
        "verified": calls is not None, "error": "", "iterations": spent, "calls": spent, "nodes": spent,
        "expansions": spent // 2, "max_depth": 5, "aborted": 0,
        "reasons": {"expanded": spent - spent // 3, "no_expansion": spent // 3}, "idle": spent // 5,
        "to_proof": None if calls is None else {"iterations": calls, "calls": calls}, "script": ["intro n", "rfl"],
    }  # fmt: skip
    return made | fields


def refused(goal: str = "odd", scenario: str = "baseline", seed: int = 1) -> Record:
    nothing = dict.fromkeys(("iterations", "calls", "nodes", "expansions", "max_depth", "aborted", "idle"), 0)
    fields = {"status": "refused", "verified": False, "reasons": {}, "error": "it is false, by `decide`", "script": []}
    return search(goal, scenario, seed, None) | nothing | fields


def made_up(scenarios: Mapping[str, Record] = SCENARIOS, seeds: Sequence[int] = (1, 2, 3)) -> list[Record]:
    """The larger the fraction that is blocked, the less is solved."""
    return [
        _made_up(scenario, settings, goal, seed)
        for scenario, settings in scenarios.items()
        for goal in GOALS
        for seed in seeds
    ]


def _made_up(scenario: str, settings: Record, goal: str, seed: int) -> Record:
    draw = Random(f"{scenario} {goal} {seed}")
    blocked = settings.get("block", {}).get("fraction", 0) / (1 + settings.get("reroute", 0))
    calls = int(3 + Random(goal).expovariate(1 / 90) * draw.uniform(0.5, 1.6) * (1 + 4 * blocked))
    made = search(goal, scenario, seed, calls if calls < BUDGET["iterations"] else None)
    stuck = int(blocked * made["iterations"])  # costs no calls
    worked = made["calls"] - stuck
    reasons = {**made["reasons"], "blocked": stuck, "expanded": made["reasons"]["expanded"] - stuck}
    return made | {
        "calls": worked,
        "reasons": reasons,
        "to_proof": made["to_proof"] and made["to_proof"] | {"calls": worked},
    }
