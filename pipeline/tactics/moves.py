"""Moves for a goal: a table of families, each a function from a goal to its moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from pipeline.tactics.families import bounds, divisibility, equations, lemmas, logic, products, residues, sequences
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import TacticMove

FAMILIES: dict[str, Callable[[PrintedGoal], Iterator[TacticMove]]] = {
    "finishers": logic.propose_finishers,
    "logic": logic.propose_logic,
    "witnesses": logic.propose_witnesses,
    "induction": logic.propose_induction,
    "cases": logic.propose_cases,
    "rewriting": lemmas.propose_rewriting,
    "specialising": lemmas.propose_specialising,
    "quotients": divisibility.propose_quotients,
    "definitions": logic.propose_definitions,
    "laws": lemmas.propose_laws,
    "gathering": products.propose_gathering,
    "sequences": sequences.propose_sequences,
    "residues": residues.propose_residues,
    "powers": products.propose_powers,
    "bounds": bounds.propose_bounds,
    "factors": divisibility.propose_factors,
    "linear": equations.propose_linear,
    "roots": products.propose_roots,
    "polynomials": equations.propose_polynomials,
    "products": products.propose_products,
    "divisibility": divisibility.propose_divisibility,
}

ALL_FAMILIES = frozenset(FAMILIES)
# Raised when other tactics are proposed for some goal, or otherwise; not for goals on which it raised an error: nothing
# is kept of those.
PORTFOLIO = 1


def finishing_moves(goal: PrintedGoal) -> list[TacticMove]:
    """The moves that are tried before all others: each proves the goal or is of no use."""
    return [move._replace(family="finishers") for move in logic.finishing_moves(goal)]


def propose_moves(
    goal: PrintedGoal, families: Collection[str] = ALL_FAMILIES, weights: Mapping[str, float] | None = None
) -> list[TacticMove]:
    """The moves of a goal, the cheapest first, each tactic once; a move that cannot be wrong stands alone.

    `weights` multiply the costs of families."""
    if forced := next(logic.forced_moves(goal), None):
        return [forced._replace(family="logic")]
    best: dict[str, TacticMove] = {}
    for family in filter(families.__contains__, FAMILIES):
        weight = (weights or {}).get(family, 1.0)
        for move in FAMILIES[family](goal):
            if move.tactic not in best or move.cost * weight < best[move.tactic].cost:
                best[move.tactic] = move._replace(cost=move.cost * weight, family=family)
    return sorted(best.values(), key=lambda move: move.cost)
