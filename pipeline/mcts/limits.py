"""How long a tactic may run, and another go, with more time, for one that ran out of it.

That go is a move of its own, so its text has to differ: it ends in a comment that says so and that Lean never sees."""

from __future__ import annotations

import re
from math import exp

from pipeline.mcts.model import Move

FACTOR = 5  # so many times as long
UNTIL = 30.0  # seconds: what had so long has no other go
SHARE = exp(-1)  # of its prior
_MARK = re.compile(r" /- again (\d+) -/$")


def parted(text: str) -> tuple[str, int]:
    """The tactic, and how often it ran out of time before."""
    mark = _MARK.search(text)
    return (text[: mark.start()], int(mark[1])) if mark else (text, 0)


def seconds(first: float, times: int) -> float:
    return float(min(first * FACTOR**times, UNTIL))


def once_more(text: str, prior: float, first: float) -> list[Move]:
    """None for what had all the time that there is."""
    tactic, times = parted(text)
    if seconds(first, times) >= UNTIL:
        return []
    return [Move(f"{tactic} /- again {times + 1} -/", prior * SHARE ** (times + 1))]
