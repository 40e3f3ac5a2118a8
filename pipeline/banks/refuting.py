"""Whether a statement is false, as far as small tries show: what counts is that Lean takes a proof of the opposite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.banks.counterexamples import Instance, instances
from pipeline.edge.lean.model import (
    Lean,
    LeanCrash,
    LeanError,
    NotElaborated,
    ProofFinished,
    Session,
    TacticState,
    Theorem,
)
from pipeline.tactics.goal import INACCESSIBLE, Hypothesis, read

SECONDS = 5.0  # for one tactic, so that nothing hangs: what ends the others is how much they may do
BUDGET = 20_000  # heartbeats; where they cannot be counted, as many as take the seconds
OUTRIGHT = ("decide", "decide +kernel", "simp", "omega")
ANYWHERE = ("decide",)
AT_FEW = ("simp", "omega", "grind")
POINTS, FEW = 30, 3


def introduced(session: Session, state: TacticState) -> tuple[Hypothesis, ...]:
    """What the statement says "for all" of, in its order; also what Lean puts before it, such as an unknown `α`."""
    after = session.run_tac(state, "intros", SECONDS)
    return read(after.goals[0]).hypotheses if isinstance(after, TacticState) else ()


def refuted(theorem: Theorem, before: TacticState, variables: Sequence[Hypothesis], lean: Lean) -> str:
    """How it is seen to be false; "" when it is not."""
    bound = "".join(f"∀ {{{one.name} : {_sort(one.type)}}}, " for one in read(before.goals[0]).hypotheses)
    opposite = Theorem(theorem.name, f"_root_.Not ({bound}\n{theorem.statement}\n)", theorem.before)
    try:
        session, state = lean.open(opposite)
    except (NotElaborated, LeanCrash):
        return ""  # of no other sort than a proposition that Lean took before: it cannot be denied in its place
    try:
        return _refuted(session, state, instances(variables, theorem.statement, POINTS))
    except LeanCrash:
        return ""
    finally:
        session.close()


def _sort(type_: str) -> str:
    """Of types of all sizes the small ones will do."""
    return "Type" if type_.startswith("Type ") else type_


def _refuted(session: Session, state: TacticState, points: Sequence[Instance]) -> str:
    for how, tactic in _tries(points):
        answer = session.run_tac(state, tactic, SECONDS, BUDGET)
        if isinstance(answer, ProofFinished):
            return how
        if isinstance(answer, LeanError) and answer.kind in ("crash", "timeout"):
            return ""  # too large to look at; it would be for the others, too
    return ""


def _tries(points: Sequence[Instance]) -> Iterator[tuple[str, str]]:
    for tactic in OUTRIGHT:
        yield f"by `{tactic}`", tactic
    for place, point in enumerate(points):
        for tactic in (*ANYWHERE, *AT_FEW) if place < FEW else ANYWHERE:
            yield _told(point, tactic), _at(point, tactic)


def _at(point: Instance, tactic: str) -> str:
    terms = " ".join(f"({value})" for _, value in point)
    return f"exact fun all => absurd (@all {terms}) (by {tactic})"


def _told(point: Instance, tactic: str) -> str:
    where = ", ".join(f"{name.strip(INACCESSIBLE)} := {value}" for name, value in point)
    return f"for {where}, by `{tactic}`" if point else f"by `{tactic}`"
