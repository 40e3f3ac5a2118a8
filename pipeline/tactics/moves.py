"""All moves for a goal: a table of families, each a function from a goal to its moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from pipeline.tactics.families import (
    bounds,
    divisors,
    equations,
    lemmas,
    logic,
    powers,
    products,
    residues,
    sequences,
    structure,
    witnesses,
)
from pipeline.tactics.families import logic as families_logic
from pipeline.tactics.families import powers as families_powers
from pipeline.tactics.families import products as families_products
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.move import TacticMove

FAMILIES: dict[str, Callable[[PrintedGoal], Iterator[TacticMove]]] = {
    "finishers": families_logic.propose_finishers,
    "logic": logic.propose_logic,
    "witnesses": witnesses.propose_witnesses,
    "induction": structure.propose_induction,
    "cases": structure.propose_cases,
    "rewriting": lemmas.propose_rewriting,
    "specialising": lemmas.propose_specialising,
    "quotients": divisors.propose_quotients,
    "definitions": structure.propose_definitions,
    "laws": lemmas.propose_laws,
    "gathering": families_products.propose_gathering,
    "sequences": sequences.propose_sequences,
    "residues": residues.propose_residues,
    "powers": powers.propose_powers,
    "bounds": bounds.propose_bounds,
    "factors": divisors.propose_factors,
    "linear": equations.propose_linear,
    "roots": families_powers.propose_roots,
    "polynomials": equations.propose_polynomials,
    "products": products.propose_products,
    "divisibility": divisors.propose_divisibility,
}

ALL_FAMILIES = frozenset(FAMILIES)
PORTFOLIO = 1  # raised when other tactics are proposed for some goal, or otherwise


def propose_moves(
    goal: PrintedGoal, families: Collection[str] = ALL_FAMILIES, weights: Mapping[str, float] | None = None
) -> list[TacticMove]:
    """The cheapest first; where a move that cannot be wrong exists, it alone.  `weights` multiply a family's costs."""
    if forced := next(logic.forced_moves(goal), None):
        return [forced]
    found = (move for family in FAMILIES if family in families for move in FAMILIES[family](goal))
    return sorted(distinct_moves(weigh_moves(found, weights or {})), key=lambda move: move.cost)


def weigh_moves(moves: Iterable[TacticMove], weights: Mapping[str, float]) -> Iterator[TacticMove]:
    for move in moves:
        yield move._replace(cost=move.cost * weights.get(move.family, 1.0))


def distinct_moves(moves: Iterable[TacticMove]) -> list[TacticMove]:
    """Of the same tactic the cheapest."""
    best: dict[str, TacticMove] = {}
    for move in moves:
        if move.tactic not in best or move.cost < best[move.tactic].cost:
            best[move.tactic] = move
    return list(best.values())
