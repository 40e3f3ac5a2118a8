"""Samples of a goal: each a search of its own, which a seed makes another one."""

import asyncio

import pytest
from proof_searches import goal

from pipeline.goals.model import Goal
from pipeline.proof.attempting import Worker
from pipeline.proof.making import options_of, sampled
from pipeline.proof.model import Result
from pipeline.proof.proving import Sample, config_of, seed_of
from pipeline.proof.settings import Way
from pipeline.proof.workers.search import Options
from pipeline.tactics.goal import read
from pipeline.tactics.moves import propose

PRINTED = read("n m k : Nat\nh : n = m\nh1 : n < 5\n⊢ n * k ≤ 5 * k")
SAMPLES = [Sample(goal(number), n) for number in range(2) for n in range(3)]


def moves(seed: str, *families: str) -> list[str]:
    options = options_of(Way("micro", families), seed)
    return [move.tactic for move in propose(PRINTED, options.families, options.weights)]


def test_the_first_sample_is_what_a_search_without_samples_is() -> None:
    assert [seed_of(0, seed) for seed in (0, 7)] == ["", ""]
    assert options_of(Way("micro"), "") == Options()
    assert config_of({"micro": "micro 1"}, SAMPLES, 7)(goal(0), "micro") == "micro 1"


@pytest.mark.parametrize("families", [(), ("induction", "cases", "rewriting", "bounds")])
def test_the_others_try_the_same_moves_in_another_order(families: tuple[str, ...]) -> None:
    orders = [moves(seed_of(n, 0), *families) for n in range(6)]
    assert len({tuple(order) for order in orders}) > 2
    assert {frozenset(order) for order in orders} == {frozenset(orders[0])}
    assert orders == [moves(seed_of(n, 0), *families) for n in range(6)]


def test_another_seed_makes_other_samples_and_other_attempts() -> None:
    assert options_of(Way("micro"), seed_of(1, 0)) != options_of(Way("micro"), seed_of(1, 1))
    kept = {config_of({"micro": "micro 1"}, SAMPLES, seed)(Goal("g0#1", ""), "micro") for seed in (0, 1)}
    kept |= {config_of({"micro": "micro 1"}, SAMPLES, 0)(Goal(name, ""), "micro") for name in ("g0", "g0#2")}
    assert len(kept) == 4


def test_a_goal_is_given_to_the_workers_of_its_sample() -> None:
    def says(word: str) -> Worker:
        async def worker(_goal: Goal, _timeout: float) -> Result:
            return Result(True, "micro", (word,))

        return worker

    workers = sampled({n: {"micro": says(f"{n}")} for n in range(3)}, {each.name: each.number for each in SAMPLES})
    found = [asyncio.run(workers["micro"](Goal(each.name, ""), 1.0)) for each in SAMPLES]
    assert [result.tactics for result in found] == [(f"{each.number}",) for each in SAMPLES]
