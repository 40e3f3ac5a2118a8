"""Targets of a proof run in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.recipe import describe_params
from pipeline.core.text import duration


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """Describe a target: a word, and the lines beside it."""
    return describe_params(target, spread="search")


def outlook(targets: Sequence[Target]) -> Sequence[str]:
    """The longest time that one goal may take, in words."""
    search = next(target.params["search"] for target in targets if target.stage == "prove")
    budgets = [sum(search["strategies"].values()) * search["level_factor"] ** n for n in range(search["levels"])]
    most = f"at most {duration(search['samples'] * sum(budgets))} of attempts on a goal"
    whole = f", {duration(search['timeout'])} in all" if search["timeout"] is not None else ""
    return [f"{most}, in {len(budgets)} level{'s' if len(budgets) > 1 else ''}{whole}; what the ledger has is recalled"]
