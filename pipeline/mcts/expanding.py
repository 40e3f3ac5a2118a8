"""An `Expand` carried out: moves are found if there are none yet, and tried one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeline.mcts.model import Attempt, Expand, Move, Outcome, ordered

Propose = Callable[[Expand], Iterable[Move]]
Try = Callable[[Expand, str], Attempt]


def carried_out(expand: Expand, propose: Propose, attempt: Try) -> Outcome:
    """`propose` is asked for the moves of a goal once, `attempt` runs one tactic on it."""
    moves = () if expand.tactics else tuple(ordered(propose(expand)))
    tactics = expand.tactics or [move.tactic for move in moves[: expand.limit]]
    attempts: list[Attempt] = []
    for tactic in tactics:
        attempts.append(attempt(expand, tactic))
        if expand.first_success and not attempts[-1].error:
            break
    return Outcome(expand.iteration, tuple(attempts), moves)
