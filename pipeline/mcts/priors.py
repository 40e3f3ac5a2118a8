"""Which tactics are tried on a goal, how likely each is to be of use, and how long it may run.

All priors take their tactics from the same portfolio and differ in what they think of them.  One by a model that writes
tactics would be another function of the same type: it has to give the same for the same goal, since a search that goes
on in another process asks it once more how long a tactic may run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import exp
from typing import NamedTuple

from pipeline.edge.ledger.model import Attempt
from pipeline.mcts.choices import demand
from pipeline.mcts.draws import draw
from pipeline.tactics import finishers, moves
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import SHORT, Move

TEMPERATURE = 0.7  # a tactic that costs so much more is e times less likely
HALF = 0.5  # of the goals: what is known of a family that nobody has tried


class Proposal(NamedTuple):
    """`closing`: it proves the goal or is of no use."""

    tactic: str
    prior: float = 1.0
    seconds: float = SHORT
    closing: bool = False


Priors = Callable[[PrintedGoal], Sequence[Proposal]]
Weigh = Callable[[Move], float]


def proposed(goal: PrintedGoal, weigh: Weigh, seed: int) -> list[Proposal]:
    """What may end it, then what leads on: of those that weigh the same, the cheap come first."""
    portfolio = (*finishers.first(goal), *moves.propose(goal))
    return [
        Proposal(move.tactic, weigh(move) * chance(move.family, seed), move.budget, move.closing) for move in portfolio
    ]


def alike(_move: Move) -> float:
    return 1.0


def by_cost(move: Move) -> float:
    return exp(-move.cost / TEMPERATURE)


def by_record(move: Move, shares: Mapping[str, float]) -> float:
    """By cost, and by how often the family of the tactic had a part in a proof."""
    return shares.get(move.family, HALF) * by_cost(move)


def chance(family: str, seed: int) -> float:
    """Seeds make families up to twice as likely or half: a search by a portfolio has no other chance in it.

    With seed 0 all is as it is."""
    return 2.0 ** (2 * draw(seed, "prior", family) - 1) if seed else 1.0


def shares(attempts: Iterable[Attempt]) -> dict[str, float]:
    """Of each family of tactics: in how many of the attempts that used it, it had a part in a verified proof.

    As if each had one success and one failure more.  An attempt that does not tell its families counts for nothing."""
    used, proved = Counter[str](), Counter[str]()
    for attempt in attempts:
        part = {*attempt.metadata.get("families", ())} if attempt.success and attempt.verified else set()
        used.update(part.union(attempt.metadata.get("seconds_by_family", ())))
        proved.update(part)
    return {family: (proved[family] + 1) / (tried + 2) for family, tried in sorted(used.items())}


LEDGER = "ledger"
PRIORS: Mapping[str, Callable[[Mapping[str, float]], Weigh]] = {
    "uniform": lambda _: alike,
    "moves": lambda _: by_cost,
    LEDGER: lambda known: partial(by_record, shares=known),
}
SEAMS = {"generator": "a model that writes tactics for a goal"}


def chosen(name: str, known: Mapping[str, float] | None = None, seed: int = 0) -> Priors:
    """`known`: the shares that `ledger` goes by.  They are part of what decides a search: keep them with it."""
    demand("priors", name, PRIORS, SEAMS)
    return partial(proposed, weigh=PRIORS[name](known or {}), seed=seed)
