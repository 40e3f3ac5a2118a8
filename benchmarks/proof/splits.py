"""Orders of arms on goals that they were not learnt from: some goals are learnt from, the others proved, all by turns.

A bandit learns as in a search: only from arms that it chose itself, until one proved the goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from benchmarks.proof.bernoulli import Curve, Mean, curve, mean
from benchmarks.proof.recorded import Ended, Item, best_order, ended, oracle, played, shuffled
from pipeline.proof.schedule.bandits import BANDITS

PARTS = 5
REPEATS = 20
LIMITS = (1.0, 2.5, 5.0, 10.0)  # CPU seconds a goal
POINTS = tuple(0.1 * n for n in range(1, 101))

Fold = tuple[Sequence[Item], Sequence[Item], Random]  # learnt from, and not
Policy = Callable[[Fold], list[Ended]]


def folds(items: Sequence[Item], repeats: int = REPEATS) -> Iterator[list[Fold]]:
    """The goals in another order each time, each of them once among those not learnt from."""
    for seed in range(repeats):
        rng = Random(seed)
        order = rng.sample([*items], len(items))
        parts = [order[n::PARTS] for n in range(PARTS)]
        yield [([one for other in parts if other is not part for one in other], part, rng) for part in parts]


def learnt(name: str) -> Policy:
    def play(fold: Fold) -> list[Ended]:
        bandit = BANDITS[name]()
        for item in fold[0]:
            played(item, bandit)
        return [played(item, bandit) for item in fold[1]]

    return play


def fixed(fold: Fold) -> list[Ended]:
    """The best order for the goals that were learnt from, of which it knows what every arm does."""
    order = best_order(fold[0])
    return [ended(item, order) for item in fold[1]]


POLICIES: Mapping[str, Policy] = {
    **{name: learnt(name) for name in BANDITS},
    "best fixed order": fixed,
    "any order": lambda fold: [ended(item, shuffled(item, fold[2])) for item in fold[1]],
    "who knows": lambda fold: [ended(item, oracle(item)) for item in fold[1]],
}


def lost(items: Sequence[Item], seeds: int) -> dict[str, Curve]:
    """CPU seconds to proofs so far, beyond those of the fixed order that is the best for all of these goals.

    Nothing is known before the first goal, and they come in any order.  Those that no arm proves cost the same in any
    order of arms: they are played, and not counted."""
    best = best_order(items)
    return {name: curve([_lost(name, items, best, Random(seed)) for seed in range(seeds)]) for name in BANDITS}


def _lost(name: str, items: Sequence[Item], best: Sequence[str], rng: Random) -> list[float]:
    bandit, total, found = BANDITS[name](), 0.0, []
    for item in rng.sample([*items], len(items)):
        seconds = played(item, bandit).seconds
        if item.provable:
            total += seconds - ended(item, best).seconds
            found.append(total)
    return found


class Found(NamedTuple):
    """Of a policy: goals proved within each limit, seconds to a proof of those that can be proved, and the curve."""

    within: dict[float, Mean]
    seconds: Mean
    curve: list[tuple[float, float]]


def compared(items: Sequence[Item], repeats: int = REPEATS) -> dict[str, Found]:
    splits = [*folds(items, repeats)]
    return {name: _found([_ended(policy, of) for of in splits]) for name, policy in POLICIES.items()}


def _ended(policy: Policy, of: Sequence[Fold]) -> list[Ended]:
    return [each for fold in of for each in policy(fold)]


def _found(runs: Sequence[Sequence[Ended]]) -> Found:
    proofs = [[each.seconds for each in run if each.success] for run in runs]
    within = {limit: mean([_count(run, limit) for run in proofs]) for limit in LIMITS}
    seconds = mean([sum(run) / max(1, len(run)) for run in proofs])
    return Found(within, seconds, [(at, sum(_count(run, at) for run in proofs) / len(proofs)) for at in POINTS])


def _count(seconds: Sequence[float], limit: float) -> int:
    return sum(each <= limit for each in seconds)
