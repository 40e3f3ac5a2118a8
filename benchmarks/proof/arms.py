"""Kinds of move as strategies of the worker `micro`: what a bandit has to choose between."""

from __future__ import annotations

from collections.abc import Mapping

WHOLE = "all"
BUDGET = 2.5  # CPU seconds that each has on a goal

# None stands for all families.  All but the first are searches, and each tries the finishers on every goal it meets.
ARMS: Mapping[str, tuple[str, ...] | None] = {
    "quick": ("finishers",),
    "logic": ("finishers", "logic", "witnesses", "cases"),
    "induct": ("finishers", "logic", "cases", "induction"),
    "rewrite": ("finishers", "logic", "rewriting", "specialising"),
    "bound": ("finishers", "logic", "bounds", "products"),
    "residue": ("finishers", "logic", "residues", "powers", "factors", "divisibility"),
    WHOLE: None,
}
