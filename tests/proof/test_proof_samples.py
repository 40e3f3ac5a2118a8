"""Samples of a goal: each a search of its own, which a seed makes another one."""

import asyncio

import pytest
from kit.proof_searches import goal

from pipeline.goals.bank import Goal
from pipeline.proof.records import Sample
from pipeline.proof.run.attempt import Worker
from pipeline.proof.schedule.records import WorkerResult
from pipeline.proof.search_stage import config_key, sample_seed
from pipeline.proof.spec.model import StrategyWorker
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.proof.workers.table import search_options, seeded_worker
from pipeline.tactics.moves import propose_moves
from pipeline.tactics.text.goal import read_goal

PRINTED = read_goal("n m k : Nat\nh : n = m\nh1 : n < 5\n⊢ n * k ≤ 5 * k")
SAMPLES = [Sample(goal(number), n) for number in range(2) for n in range(3)]


def seeds(seed: int) -> dict[str, str]:
    return {each.name: sample_seed(each.number, seed) for each in SAMPLES}


def moves(seed: str, *families: str) -> list[str]:
    options = search_options(StrategyWorker("micro", families), seed)
    return [move.tactic for move in propose_moves(PRINTED, options.families, options.weights)]


def test_the_first_sample_is_what_a_search_without_samples_is() -> None:
    assert [sample_seed(0, seed) for seed in (0, 7)] == ["", ""]
    assert search_options(StrategyWorker("micro"), "") == SearchOptions()
    assert config_key({"micro": "micro 1"}, seeds(7))(goal(0), "micro") == "micro 1"


@pytest.mark.parametrize("families", [(), ("induction", "cases", "rewriting", "bounds")])
def test_the_others_try_the_same_moves_in_another_order(families: tuple[str, ...]) -> None:
    orders = [moves(sample_seed(n, 0), *families) for n in range(6)]
    assert len({tuple(order) for order in orders}) > 2
    assert {frozenset(order) for order in orders} == {frozenset(orders[0])}
    assert orders == [moves(sample_seed(n, 0), *families) for n in range(6)]


def test_another_seed_makes_other_samples_and_other_attempts() -> None:
    assert search_options(StrategyWorker("micro"), sample_seed(1, 0)) != search_options(
        StrategyWorker("micro"), sample_seed(1, 1)
    )
    kept = {config_key({"micro": "micro 1"}, seeds(seed))(Goal("g0#1", ""), "micro") for seed in (0, 1)}
    kept |= {config_key({"micro": "micro 1"}, seeds(0))(Goal(name, ""), "micro") for name in ("g0", "g0#2")}
    assert len(kept) == 4


def test_a_goal_is_given_to_the_workers_of_its_sample() -> None:
    def says(word: str) -> Worker:
        async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
            return WorkerResult(True, "micro", (word,))

        return worker

    worker = seeded_worker(says, {each.name: f"{each.number}" for each in SAMPLES})
    found = [asyncio.run(worker(Goal(each.name, ""), 1.0)) for each in SAMPLES]
    assert [result.tactics for result in found] == [(f"{each.number}",) for each in SAMPLES]
