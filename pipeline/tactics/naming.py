"""Names for what has none that a tactic could use."""

from __future__ import annotations

import re
from itertools import count

from pipeline.tactics import syntax
from pipeline.tactics.goal import INACCESSIBLE, PrintedGoal


def new_names(goal: PrintedGoal) -> list[str]:
    """For each hypothesis that has none, in order, as `rename_i` wants them; induction hypotheses keep theirs."""
    found: list[str] = []
    for hidden in goal.inaccessible:
        stem = _stem(hidden)
        names = (f"{stem}{number or ''}" for number in count())
        found.append(next(name for name in names if name not in found and not syntax.mentions(name, goal.text)))
    return found


def _stem(hidden: str) -> str:
    letters = re.sub(r"[^\w]|\d", "", hidden.split(INACCESSIBLE, maxsplit=1)[0])
    return "ih" if "ih" in letters else letters or "v"
