"""Priors over tactics and rewards of open goals.

All priors take their tactics from the same portfolio. Priors by a model have to give the same for the same goal: a
search that goes on in another process asks them once more how long a tactic may run.

A reward is how near an open goal looks to being proved, between 0 and 1. That a tactic applied is worth nothing: the
goals that it left count, by kind, length and number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import exp
from typing import NamedTuple

from pipeline.errors import SpecError, did_you_mean
from pipeline.goals.attempts import Attempt
from pipeline.mcts.search.agents import draw
from pipeline.tactics import moves
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import SHORT, TacticMove


def check_guide_built(what: str, name: str, built: Mapping[str, object], seams: Mapping[str, str]) -> None:
    """Raise a SpecError where there is no such guide; the reader of the spec adds the line.  `seams`: unbuilt ones."""
    if name in seams:
        raise SpecError(f"{what} '{name}' is not built yet: it takes {seams[name]}; use {' or '.join(sorted(built))}")
    if name not in built:
        raise SpecError(f"{what} '{name}' is unknown{did_you_mean(name, built)}")


COST_TEMPERATURE = 0.7  # a tactic that costs so much more is e times less likely
UNKNOWN_SHARE = 0.5  # of the goals: the share of a family that was never tried


class Proposal(NamedTuple):
    """`closing`: it proves the goal or is of no use."""

    tactic: str
    prior: float = 1.0
    seconds: float = SHORT
    closing: bool = False


Priors = Callable[[PrintedGoal], Sequence[Proposal]]
# The weight of a tactic: how likely it is to be of use, by the shares of families too.
Weigh = Callable[[TacticMove, Mapping[str, float]], float]


def propose_tactics(goal: PrintedGoal, weigh: Weigh, shares: Mapping[str, float], seed: int) -> list[Proposal]:
    """Proposals for a goal: finishing moves, then the others; of equal weights the cheap come first.

    A seed other than 0 weighs families, from half to twice: nothing else in a search by a portfolio is random."""
    found = []
    for move in (*moves.finishing_moves(goal), *moves.propose_moves(goal)):
        factor = 2.0 ** (2 * draw(seed, "prior", move.family) - 1) if seed else 1.0
        found.append(Proposal(move.tactic, weigh(move, shares) * factor, move.budget, move.closing))
    return found


def cost_weight(move: TacticMove, _shares: Mapping[str, float] | None = None) -> float:
    return exp(-move.cost / COST_TEMPERATURE)


def ledger_weight(move: TacticMove, shares: Mapping[str, float]) -> float:
    """Weight by cost, and by how often the family of the tactic had a part in a proof."""
    return shares.get(move.family, UNKNOWN_SHARE) * cost_weight(move)


def family_shares(attempts: Iterable[Attempt]) -> dict[str, float]:
    """Share of each family: in how many of the attempts that used it, it had a part in a verified proof.

    As if each had one success and one failure more.  An attempt that does not tell its families counts for nothing."""
    used, proved = Counter[str](), Counter[str]()
    for attempt in attempts:
        part = {*attempt.metadata.get("families", ())} if attempt.success and attempt.verified else set()
        used.update(part.union(attempt.metadata.get("seconds_by_family", ())))
        proved.update(part)
    return {family: (proved[family] + 1) / (tried + 2) for family, tried in sorted(used.items())}


LEDGER_PRIORS = "ledger"
PRIORS: Mapping[str, Weigh] = {"uniform": lambda move, shares: 1.0, "moves": cost_weight, LEDGER_PRIORS: ledger_weight}
UNBUILT_PRIORS = {"generator": "a model that writes tactics for a goal"}


def choose_priors(name: str, known: Mapping[str, float] | None = None, seed: int = 0) -> Priors:
    """`known`: the shares that `ledger` goes by.  They are part of what decides a search: keep them with it."""
    check_guide_built("priors", name, PRIORS, UNBUILT_PRIORS)
    return partial(propose_tactics, weigh=PRIORS[name], shares=known or {}, seed=seed)


# By the weakest sign of the target; an atom has OTHER_REWARD.
KIND_REWARDS = {
    "∀": 0.8, "→": 0.8, "∧": 0.7, "↔": 0.6, "∨": 0.5, "∃": 0.4, "¬": 0.6, "≠": 0.6, "=": 0.7, "≤": 0.7, "<": 0.7,
}  # fmt: skip
OTHER_REWARD = 0.6
FALSE_REWARD = 0.5  # `False`, which has to follow from the hypotheses
CLOSED_REWARD = 0.9  # nothing varies: to be computed
HALVING_LENGTH = 400.0  # characters: a goal so long is worth half of what a short one is
SIBLING_FACTOR = 0.95  # for each goal that is left beside it

Rewards = Callable[[PrintedGoal, int], float]


def printed_reward(goal: PrintedGoal, goals: int) -> float:
    """kind / (1 + length / LENGTH) * BESIDE ** (goals - 1); `goals`: that the tactic left, this one among them."""
    if not goal.hypotheses and goal.connective not in ("∀", "→", "∃"):
        kind = CLOSED_REWARD
    else:
        kind = FALSE_REWARD if goal.target == "False" else KIND_REWARDS.get(goal.connective, OTHER_REWARD)
    return kind / (1 + len(goal.text) / HALVING_LENGTH) * SIBLING_FACTOR ** (goals - 1)


REWARDS: Mapping[str, Rewards] = {"printed": printed_reward}
UNBUILT_REWARDS = {"model": "a model that was trained on goals and on whether they were proved"}


def choose_rewards(name: str) -> Rewards:
    check_guide_built("rewards", name, REWARDS, UNBUILT_REWARDS)
    return REWARDS[name]


class Guide(NamedTuple):
    """Priors of tactics and rewards of goals."""

    priors: Priors
    rewards: Rewards
