"""How it is told that a journal is not decided as it is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.errors import clipped


def differing(differences: Iterable[Mapping[str, Any]]) -> list[str]:
    """`differences` as they are told to tools, each with its path: a line for each."""
    return [
        f"{each['path']}:{each['line']}: recorded {clipped(each['recorded'])}, decided again {clipped(each['now'])}"
        for each in differences
    ]
