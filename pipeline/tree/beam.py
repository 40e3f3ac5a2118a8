"""Global beam search: rank what passed the gate against the root, and say of every evaluation why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import NamedTuple

from pipeline.tree.budget import REACHED
from pipeline.tree.gate import ENDED, Evaluation, Failure, gate
from pipeline.tree.rounding import relative, significant
from pipeline.tree.slots import Place, Slot, places_of

# Checks besides those of the gate: among all that passed it.
SAME_CODE, RANK = "same_code", "rank"
STRICT_FAILURE, MAX_DEPTH, EMPTY_FRONTIER = "strict_depth_failure", "max_depth_reached", "empty_frontier"


class Decision(NamedTuple):
    """Of one evaluation: where it goes, or the check that it failed; `why` is never empty."""

    slot: Slot
    promoted_to: Place | None
    failed: str
    why: str


class Promoted(NamedTuple):
    """A place of the next beam, and the evaluation it comes from; None when it stays empty."""

    place: Place
    source: Slot | None
    commit: str
    why: str


class Promotion(NamedTuple):
    """The next beam, best first, and a decision on every evaluation in slot order."""

    slots: tuple[Promoted, ...]
    decisions: tuple[Decision, ...]

    @property
    def empty(self) -> bool:
        return all(slot.source is None for slot in self.slots)


def rank(evaluation: Evaluation) -> tuple[float, float]:
    """More is better: the root score, else the root's primary delta, else nothing; ties by that delta."""
    root = evaluation.score.root if evaluation.score else None
    delta = significant(root.primary_delta) if root and isfinite(root.primary_delta) else -inf
    score = root.score if root else None
    return (relative(score) if score is not None and isfinite(score) else delta), delta


def promote(evaluations: Iterable[Evaluation], beam_width: int, slots: Sequence[Slot]) -> Promotion:
    """`slots`: all of the depth.  Promoting some of them before the others have ended would lose these for good."""
    ended = _ended(evaluations, slots)
    failures = {e.slot: failure for e in ended if (failure := gate(e))}
    # Ties go to the earlier slot: sorting is stable.
    passed = sorted((e for e in ended if e.slot not in failures), key=rank, reverse=True)
    first = {code_of(e): e.slot for e in reversed(passed)}
    best = [e for e in passed if first[code_of(e)] == e.slot]
    again = {e.slot: _same_code(where) for e in passed if (where := first[code_of(e)]) != e.slot}
    beaten = {e.slot: Failure(RANK, _beaten(e, n, best[:beam_width])) for n, e in enumerate(best) if n >= beam_width}
    beam = _beam(best, places_of(ended[0].slot.depth + 1, beam_width), len(ended))
    goes_to = {each.source: each for each in beam if each.source}
    failures |= again | beaten
    return Promotion(beam, tuple(_decision(e.slot, goes_to, failures) for e in ended))


def _ended(evaluations: Iterable[Evaluation], slots: Sequence[Slot]) -> list[Evaluation]:
    """In slot order, one for each slot of the depth."""
    found = sorted(evaluations, key=lambda e: e.slot)
    if [e.slot for e in found] != sorted(slots) or not slots:
        different = {e.slot for e in found} ^ {*slots}
        raise ValueError(f"not one evaluation for each slot: {', '.join(map(str, sorted(different))) or 'doubles'}")
    if waiting := [str(e.slot) for e in found if e.status not in ENDED]:
        raise ValueError(f"promotion waits for all of a depth; {', '.join(waiting)} have not ended")
    if len({slot.depth for slot in slots}) > 1:
        raise ValueError("promotion is for one depth at a time")
    return found


def code_of(evaluation: Evaluation) -> str:
    """Two ideas applied in either order may give the same files: one node is enough for them."""
    return evaluation.tree or evaluation.commit


def _same_code(where: Slot) -> Failure:
    return Failure(SAME_CODE, f"the same code as {where}, which comes before it")


def _beaten(evaluation: Evaluation, place: int, beam: Sequence[Evaluation]) -> str:
    last = f"; the last of them has {_ranked(beam[-1])}" if beam else ""
    return f"{_ranked(evaluation)} is number {place + 1}, the beam has {len(beam)}{last}"


def _ranked(evaluation: Evaluation) -> str:
    score, delta = rank(evaluation)
    return f"rank {score:+.6g} (primary {delta:+.6g}) against the root"


def _beam(best: Sequence[Evaluation], places: Sequence[Place], among: int) -> tuple[Promoted, ...]:
    none = f"{len(best)} of {among} evaluations passed the gate with code of their own"
    filled = [Promoted(p, e.slot, e.commit, _ranked(e)) for p, e in zip(places, best, strict=False)]
    return (*filled, *(Promoted(place, None, "", none) for place in places[len(filled) :]))


def _decision(slot: Slot, goes_to: Mapping[Slot, Promoted], failures: Mapping[Slot, Failure]) -> Decision:
    if there := goes_to.get(slot):
        return Decision(slot, there.place, "", there.why)
    return Decision(slot, None, *failures[slot])


class Progress(NamedTuple):
    """What decides, after a depth has been promoted, whether there is another one.

    `cut`: what of the budget left slots of this depth empty.  `short`: what does not suffice for one more."""

    depth: int
    max_depth: int
    empty: bool
    failed: bool = False
    strict: bool = False
    stop_on_empty: bool = True
    cut: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


# In this order: an empty frontier after a depth that the budget cut is the budget's doing.
STOPS: tuple[Callable[[Progress], str], ...] = (
    lambda p: STRICT_FAILURE if p.strict and p.failed else "",
    lambda p: MAX_DEPTH if p.depth + 1 >= p.max_depth else "",
    lambda p: next((REACHED[name] for name in REACHED if name in p.cut), ""),
    lambda p: EMPTY_FRONTIER if p.empty and p.stop_on_empty else "",
    lambda p: next((REACHED[name] for name in REACHED if name in p.short), ""),
)


def stop_reason(progress: Progress) -> str:
    """Empty: go on.  Whatever it says, the depth has been promoted before it is asked: what was paid for is ranked."""
    return next(filter(None, (stop(progress) for stop in STOPS)), "")
