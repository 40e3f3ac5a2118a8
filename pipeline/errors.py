"""How a mistake in the input is put into words.  Light: every command imports it."""

from __future__ import annotations

from collections.abc import Iterable


class SpecError(Exception):
    """The input is wrong, not the tool: shown as one line, exit code 2."""


class Locked(Exception):
    """Another process builds the run; the message says which."""


def clipped(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}…"


def instead(name: str, allowed: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """What would be right, for a message: the closest, or if none is close, all of them, or what is to be `listed`."""
    from difflib import get_close_matches

    allowed = sorted(allowed)
    name = name[:200]
    if close := get_close_matches(name, allowed[:2000], 1):
        return f"; did you mean '{close[0]}'?"
    allowed = allowed if listed is None else sorted(listed)
    return f"; allowed: {', '.join(allowed[:20])}{', …' if len(allowed) > 20 else ''}" if allowed else ""
