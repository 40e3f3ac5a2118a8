"""A tactic to try, with its cost and its seconds; the pieces that tactic text is put together from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# Seconds that a tactic may take.
QUICK, SHORT, MIDDLE, LONG = 0.5, 1.0, 2.5, 6.0


class TacticMove(NamedTuple):
    """`cost`: how far it may lead from the way, 0 for a move that cannot be wrong; `budget`: in seconds.

    `closing`: it proves the goal or is of no use, so that goals it leaves do not count. `family`: the row of
    `moves.FAMILIES` that proposed it, set there."""

    cost: float
    tactic: str
    budget: float = SHORT
    closing: bool = False
    family: str = ""


def ranked(
    cost: float, step: float, tactics: Iterable[str], budget: float = SHORT, *, closing: bool = False
) -> Iterator[TacticMove]:
    """Moves, each by a step dearer than the one before."""
    return (TacticMove(cost + step * place, one, budget, closing) for place, one in enumerate(tactics))


def chain(tactics: Iterable[str]) -> str:
    """Tactics one after another, as one tactic."""
    return "(" + "; ".join(f"({one})" for one in tactics) + ")"


def disjunction(propositions: Iterable[str]) -> str:
    return " ∨ ".join(propositions)


def case_split(name: str, count: int, found: str = "") -> str:
    """Take a disjunction apart; each case has the same name for what comes out, or is substituted: `rfl`."""
    return f"rcases {name} with {' | '.join([found or name] * count)}" if count > 1 else "skip"


def remainder_split(name: str, what: str, modulus: int) -> str:
    """A case for each remainder of `what`."""
    return chain([one_of(name, range(modulus), f"{what} % {modulus}"), case_split(name, modulus)])


def one_of(name: str, values: Iterable[int | str], what: str) -> str:
    """`have name : what = 0 ∨ what = 1 …`, which omega can see."""
    return f"have {name} : {disjunction(f'{what} = {number}' for number in values)} := by omega"


def decide_below(claim: str, limits: Mapping[str, int], key: str, proofs: Iterable[str]) -> tuple[str, str]:
    """Let the kernel find the claim true for all naturals below their limits; the step, and the claim as a term.

    `proofs`: tactics, or terms of proofs, that each is below its limit."""
    computed, proof = f"decide ({claim})", key
    for name, limit in reversed([*limits.items()]):
        computed = f"(List.range {limit}).all (fun {name} => {computed})"
    for name, below in zip(limits, proofs, strict=True):
        proof = f"List.all_eq_true.mp ({proof}) {name} (List.mem_range.mpr {below})"
    return f"have {key} : ({computed}) = true := by decide +kernel", f"of_decide_eq_true ({proof})"
