"""All moves for a goal: a table of families, each a function from a goal to its moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from pipeline.tactics import (
    bounds,
    cases,
    definitions,
    divisibility,
    factors,
    finishers,
    gathering,
    induction,
    laws,
    linear,
    logic,
    polynomials,
    powers,
    products,
    quotients,
    residues,
    rewriting,
    roots,
    sequences,
    specialising,
    witnesses,
)
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import Move

FAMILIES: dict[str, Callable[[PrintedGoal], Iterator[Move]]] = {
    "finishers": finishers.propose,
    "logic": logic.propose,
    "witnesses": witnesses.propose,
    "induction": induction.propose,
    "cases": cases.propose,
    "rewriting": rewriting.propose,
    "specialising": specialising.propose,
    "quotients": quotients.propose,
    "definitions": definitions.propose,
    "laws": laws.propose,
    "gathering": gathering.propose,
    "sequences": sequences.propose,
    "residues": residues.propose,
    "powers": powers.propose,
    "bounds": bounds.propose,
    "factors": factors.propose,
    "linear": linear.propose,
    "roots": roots.propose,
    "polynomials": polynomials.propose,
    "products": products.propose,
    "divisibility": divisibility.propose,
}

EVERY = frozenset(FAMILIES)
PORTFOLIO = 1  # raised when other tactics are proposed for some goal, or otherwise


def propose(
    goal: PrintedGoal, families: Collection[str] = EVERY, weights: Mapping[str, float] | None = None
) -> list[Move]:
    """The cheapest first; where a move that cannot be wrong exists, it alone.  `weights` multiply a family's costs."""
    if forced := next(logic.forced(goal), None):
        return [forced]
    found = (move for family in FAMILIES if family in families for move in FAMILIES[family](goal))
    return sorted(distinct(weighted(found, weights or {})), key=lambda move: move.cost)


def weighted(moves: Iterable[Move], weights: Mapping[str, float]) -> Iterator[Move]:
    for move in moves:
        yield move._replace(cost=move.cost * weights.get(move.family, 1.0))


def distinct(moves: Iterable[Move]) -> list[Move]:
    """Of the same tactic the cheapest."""
    best: dict[str, Move] = {}
    for move in moves:
        if move.tactic not in best or move.cost < best[move.tactic].cost:
            best[move.tactic] = move
    return list(best.values())
