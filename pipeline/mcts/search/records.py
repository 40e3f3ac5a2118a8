"""Records of a search: goals, moves, attempts, questions and answers, and the rules of both policies."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

PUCT, UCT = "puct", "uct"
MINIMUM, PRODUCT = "minimum", "product"
FIRST_SUCCESS, ALL_SUCCESSES = "first-success", "all-successes"
EXPLORE = {PUCT: 1.5, UCT: sqrt(2)}


class WeightedMove(NamedTuple):
    """A tactic to try.  Of the priors of a goal's moves only the ratios count; they are above 0."""

    tactic: str
    prior: float = 1.0


class Subgoal(NamedTuple):
    """`key` is the same for goals that mean the same; `names`: what its text calls things, since a proof is text.

    `value` is how near it is to being proved, between 0 and 1, neither included.  `moves` may be left for when the goal
    is first worked at, which most never are."""

    key: str
    names: str = ""
    value: float = 0.5
    moves: tuple[WeightedMove, ...] | None = None


class TacticAttempt(NamedTuple):
    """Result of a tactic: the goals that are left, all of which are needed, or why it failed."""

    tactic: str
    goals: tuple[Subgoal, ...] = ()
    error: str = ""


class ExpandOutcome(NamedTuple):
    """The answer to an `Expand`.  `moves`: more of them for the goal; for one that had none yet, all.

    `no_goal`: the goal could not be taken up, so that nothing was tried.  `units` of virtual time that it took."""

    iteration: int
    attempts: tuple[TacticAttempt, ...] = ()
    moves: tuple[WeightedMove, ...] = ()
    no_goal: bool = False
    units: float = 1.0


class Expand(NamedTuple):
    """Try tactics on a goal, at most `limit`; `path` is the way to it, from the root to itself.

    Without `tactics` its moves are to be found first, and the first of them in order of prior to be tried.  With
    `first_success` what comes after the first that applies is left for later."""

    iteration: int
    agent: int
    node: int
    path: tuple[int, ...]
    tactics: tuple[str, ...]
    limit: int = 1
    first_success: bool = True


class SelectionRules(NamedTuple):
    """Rules of selection and backup.

    A goal may have one more tactic that leads on while those are fewer than `widen` * visits ** `alpha`; both are above
    0, so that in the end every tactic is tried."""

    selection: str = PUCT
    explore: float = EXPLORE[PUCT]
    backup: str = MINIMUM
    widen: float = 1.0
    alpha: float = 0.5


class Budget(NamedTuple):
    """Limits of a search; the first that is reached ends it.  A call is one tactic run by Lean."""

    iterations: int
    calls: int | None = None


class Expansion(NamedTuple):
    """Number of tactics that an iteration may try; `first-success` leaves the rest for later once one applies."""

    policy: str = FIRST_SUCCESS
    attempts: int = 1


class SearchRules(NamedTuple):
    """Rules of a search, for both policies."""

    budget: Budget
    maths: SelectionRules = SelectionRules()
    expansion: Expansion = Expansion()


def order_moves(moves: Iterable[WeightedMove]) -> list[WeightedMove]:
    """Moves in the order of trying: by prior, ties as they came; of equal tactics the likelier counts."""
    found: dict[str, WeightedMove] = {}
    for move in sorted(moves, key=lambda move: -move.prior):
        found.setdefault(move.tactic, move)
    return list(found.values())
