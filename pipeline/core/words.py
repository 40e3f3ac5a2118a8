"""How many, and which, in words."""

from __future__ import annotations

from collections.abc import Sequence

# A step may read from ten thousand others; so many of them are named.
NAMED = 3


def plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what[:-1]}ies" if what[-1] == "y" else f"{number} {what}s"


def count(targets: int) -> str:
    return plural(targets, "target")


def listed(names: Sequence[str], most: int = NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
