"""Estimates in words, with the interval or why there is none."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.mcts.comparison.intervals import Estimate

NONE = "-"


def share(number: float) -> str:
    return f"{100 * number:.1f} %"


def points(number: float) -> str:
    """Percentage points."""
    return f"{100 * number:+.1f}"


def amount(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def ratio(number: float) -> str:
    return f"{number:.3g}"


def told(estimate: Estimate, write: Callable[[float], str], seeds: int) -> str:
    return " ".join(parts(estimate, write, seeds))


def parts(estimate: Estimate, write: Callable[[float], str], seeds: int) -> tuple[str, str]:
    """The mean, and in brackets how far to trust it: one that lacks some of the seeds says so."""
    if estimate["mean"] is None:
        return NONE, ""
    lacking = f"; {len(estimate['of'])} of {seeds} seeds" if len(estimate["of"]) < seeds else ""
    return write(estimate["mean"]), f"({_interval(estimate, write)}{lacking})"


def interval(estimate: Estimate) -> tuple[float, float] | None:
    return None if estimate["low"] is None else (estimate["low"], estimate["high"])


def _interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    if estimate["low"] is None:
        return "one seed"
    if estimate["same"]:
        return "all seeds alike"
    return f"{write(estimate['low'])} to {write(estimate['high'])}"
