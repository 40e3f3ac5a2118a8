"""How long targets take, going by their receipts and by what is stored with their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pipeline.build.session import Session
from pipeline.core.graph import Target, step_of
from pipeline.core.outcome import BUILT

# Of a step that nothing is known of below, so many others are asked: enough for a mean.
SIBLINGS = 20


def last_run(session: Session, target: Target) -> float | None:
    """A recalled result took as long as it did where it was made."""
    receipt = session.maker.receipts[target.run].receipt(target.name)
    if receipt is None:
        return None
    if receipt.how == BUILT:
        return receipt.end - receipt.start
    stored = session.maker.stores[target.run].look(receipt.key)
    return stored.seconds if stored else None


def usual(session: Session, steps: Iterable[str]) -> dict[str, float]:
    """The mean time of each of these steps, as far as any of its targets ever ran."""
    found: dict[str, list[float]] = {step: [] for step in steps}
    for target in session.graph.targets:
        times = found.get(step_of(target.name))
        if times is not None and len(times) < SIBLINGS and (seconds := last_run(session, target)) is not None:
            times.append(seconds)
    return {step: sum(times) / len(times) for step, times in found.items() if times}


def expected(session: Session, todo: Iterable[int]) -> Iterator[tuple[int, float | None, bool]]:
    """(target, seconds, guessed): its own last time, or else what is usual in its step."""
    own: Mapping[int, float | None] = {i: last_run(session, session.graph.targets[i]) for i in todo}
    steps = {step_of(session.graph.targets[i].name) for i, seconds in own.items() if seconds is None}
    means = usual(session, steps) if steps else {}
    for i, seconds in own.items():
        mean = means.get(step_of(session.graph.targets[i].name))
        yield (i, seconds, False) if seconds is not None else (i, mean, mean is not None)
