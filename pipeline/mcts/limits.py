"""How long a tactic may run, and another go, with more time, for one that ran out of it.

Time is counted in heartbeats, the work that Lean does: so it runs out at the same point however busy the machine is.
What does no work that counts, as with numbers of thousands of digits, is ended by the clock, many times later: more
time would be of no use to it.

That go is a move of its own, so its text has to differ: it ends in a comment that says so and that Lean never sees."""

from __future__ import annotations

import re
from math import exp

from pipeline.edge.lean.model import A_SECOND
from pipeline.mcts.model import Move

FACTOR = 5  # so many times as long
UNTIL = 30.0  # seconds: what had so long has no other go
SHARE = exp(-1)  # of its prior
PATIENCE = 10.0  # times as long by the clock
_MARK = re.compile(r" /- again (\d+) -/$")


def parted(text: str) -> tuple[str, int]:
    """The tactic, and how often it ran out of time before."""
    mark = _MARK.search(text)
    return (text[: mark.start()], int(mark[1])) if mark else (text, 0)


def seconds(first: float, times: int) -> float:
    return float(min(first * FACTOR**times, UNTIL))


def heartbeats(seconds: float) -> int:
    return round(seconds * A_SECOND)


def by_the_clock(seconds: float) -> float:
    return PATIENCE * seconds


def once_more(text: str, prior: float, first: float) -> list[Move]:
    """None for what had all the time that there is."""
    tactic, times = parted(text)
    if seconds(first, times) >= UNTIL:
        return []
    return [Move(f"{tactic} /- again {times + 1} -/", prior * SHARE ** (times + 1))]
