"""A canary from the first run to the last: on all of the data, then with its end cut off, as often as the spec says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pipeline.tree.canary import Data, Decisions, Unusable, cuts, decisions_of, difference
from pipeline.tree.commands import Ran
from pipeline.tree.model import Canary

LARGEST = 64 << 20  # of decisions

# Runs the command on the data up to a time.
Run = Callable[[str], Ran]


class Cut(NamedTuple):
    """`change`: the first decision that is another one when the data after `time` is cut off; or empty."""

    time: str
    change: str


class Watched(NamedTuple):
    """`decisions`: how many were made with all of the data.  `why`: what is wrong."""

    why: str
    exit: int
    decisions: int = 0
    cuts: tuple[Cut, ...] = ()


class _Failed(Exception):
    """A run that brought no decisions."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def watched(canary: Canary, data: Data, seed: str, run: Run) -> Watched:
    try:
        whole = _decisions(data, data.last, run)
        times = cuts(whole, data, canary.start, canary.cuts, seed)
        found = tuple(_cuts(canary, data, whole, times, run))
    except _Failed as failed:
        return Watched(str(failed), failed.status)
    why = "nothing is decided at a time after which the data could be cut" if not found else _why(found)
    return Watched(why, 0, len(whole.rows), found)


def _cuts(canary: Canary, data: Data, whole: Decisions, times: list[str], run: Run) -> Iterator[Cut]:
    for time in times:
        part = _decisions(data, time, run)
        yield Cut(time, difference(whole.until(time, data), part, canary.tolerance))


def _why(found: tuple[Cut, ...]) -> str:
    changed = [cut for cut in found if cut.change]
    if not changed:
        return ""
    first = changed[0]
    many = f"so with {len(changed)} of {len(found)} cuts"
    return f"a decision changes when the data after {first.time} is cut off: {first.change} ({many})"


def _decisions(data: Data, until: str, run: Run) -> Decisions:
    where = "with all of the data" if until == data.last else f"with the data up to {until}"
    done = run(until)
    if not done.ok:
        raise _Failed(done.why if done.void else f"{where}: {done.why}", done.exit)
    if len(done.results) > LARGEST:
        raise _Failed(f"{where}: more than {LARGEST >> 20} MB of decisions", 0)
    try:
        return decisions_of(done.results.decode("utf-8-sig", errors="replace"), data, until)
    except Unusable as error:
        raise _Failed(f"{where}: its decisions cannot be used: {error}", 0) from error
