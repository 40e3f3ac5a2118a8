"""Targets of a proof run in words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.core.text import duration


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """A word, and the lines beside it."""
    search = target.params.get("search", {})
    words = {name: [_as_json(value)] for name, value in target.params.items() if name not in (LIMITS, "search")}
    limits = {name: [_as_json(value)] for name, value in target.params.get(LIMITS, {}).items()}
    return {"stage": [target.stage], **words, **{name: [_as_json(value)] for name, value in search.items()}, **limits}


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def outlook(targets: Sequence[Target]) -> Sequence[str]:
    """The longest time that one goal may take, in words."""
    search = next(target.params["search"] for target in targets if target.stage == "prove")
    budgets = [sum(search["strategies"].values()) * search["level_factor"] ** n for n in range(search["levels"])]
    most = f"at most {duration(search['samples'] * sum(budgets))} of attempts on a goal"
    whole = f", {duration(search['timeout'])} in all" if search["timeout"] is not None else ""
    return [f"{most}, in {len(budgets)} level{'s' if len(budgets) > 1 else ''}{whole}; what the ledger has is recalled"]
