"""Which tactics are tried on a goal, how likely each is to be of use, and how long it may run.

All priors take their tactics from the same portfolio and differ in what they think of them.  One by a model that writes
tactics would be another function of the same type: it has to give the same for the same goal, since a search that goes
on in another process asks it once more how long a tactic may run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import exp
from typing import NamedTuple

from pipeline.edge.ledger.model import Attempt
from pipeline.mcts.choices import demand
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


def uniform(goal: PrintedGoal) -> list[Proposal]:
    """All alike, so that the cheap come first only because they were named first."""
    return [_proposal(move, 1.0) for move in _portfolio(goal)]


def by_cost(goal: PrintedGoal) -> list[Proposal]:
    return [_proposal(move, exp(-move.cost / TEMPERATURE)) for move in _portfolio(goal)]


def by_record(goal: PrintedGoal, shares: Mapping[str, float]) -> list[Proposal]:
    """By cost, and by how often the family of the tactic had a part in a proof."""
    known = [(move, shares.get(move.family, HALF)) for move in _portfolio(goal)]
    return [_proposal(move, share * exp(-move.cost / TEMPERATURE)) for move, share in known]


def shares(attempts: Iterable[Attempt]) -> dict[str, float]:
    """Of each family of tactics: in how many of the attempts that used it, it had a part in a verified proof.

    As if each had one success and one failure more.  An attempt that does not tell its families counts for nothing."""
    used, proved = Counter[str](), Counter[str]()
    for attempt in attempts:
        part = {*attempt.metadata.get("families", ())} if attempt.success and attempt.verified else set()
        used.update(part.union(attempt.metadata.get("seconds_by_family", ())))
        proved.update(part)
    return {family: (proved[family] + 1) / (tried + 2) for family, tried in sorted(used.items())}


def _portfolio(goal: PrintedGoal) -> Iterator[Move]:
    """What may end it, then what leads on."""
    yield from finishers.first(goal)
    yield from moves.propose(goal)


def _proposal(move: Move, prior: float) -> Proposal:
    return Proposal(move.tactic, prior, move.budget, move.closing)


PRIORS: Mapping[str, Callable[[Mapping[str, float]], Priors]] = {
    "uniform": lambda _: uniform,
    "moves": lambda _: by_cost,
    "ledger": lambda known: partial(by_record, shares=known),
}
SEAMS = {"generator": "a model that writes tactics for a goal"}


def chosen(name: str, known: Mapping[str, float] | None = None) -> Priors:
    """`known`: the shares that `ledger` goes by.  They are part of what decides a search: keep them with it."""
    demand("priors", name, PRIORS, SEAMS)
    return PRIORS[name](known or {})
