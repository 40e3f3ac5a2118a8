"""Format estimates, intervals and settings for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeline.mcts.report.figures import Estimate
from pipeline.mcts.search.agents import Block, ReservationRules
from pipeline.mcts.search.journal import REAL_TIME
from pipeline.mcts.spec.model import BLOCK_FIELDS, DELAY_FIELDS, STEERING_FIELDS

NONE = "-"


def format_share(number: float) -> str:
    return f"{100 * number:.1f} %"


def format_points(number: float) -> str:
    """Format percentage points."""
    return f"{100 * number:+.1f}"


def format_amount(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def format_ratio(number: float) -> str:
    return f"{number:.3g}"


def estimate_parts(estimate: Estimate, write: Callable[[float], str], seeds: int) -> tuple[str, str]:
    """The mean, and in brackets how far to trust it: one that lacks some of the seeds says so."""
    if estimate["mean"] is None:
        return NONE, ""
    interval = "one seed"
    if ends := interval_ends(estimate):
        interval = "all seeds alike" if estimate["same"] else " to ".join(map(write, ends))
    lacking = f"; {len(estimate['of'])} of {seeds} seeds" if len(estimate["of"]) < seeds else ""
    return write(estimate["mean"]), f"({interval}{lacking})"


def interval_ends(estimate: Estimate) -> tuple[float, float] | None:
    low, high = estimate["low"], estimate["high"]
    return None if low is None or high is None else (low, high)


Settings = Mapping[str, Any]

# A seed is there only if it was given.
_BLOCK_DEFAULTS = {field: value for field, value in Block()._asdict().items() if field != "seed"}


def settings_line(values: Settings) -> str:
    """Settings in the words of a spec, on one line."""
    return ", ".join(f"{key}: {_value_text(value)}" for key, value in values.items())


def spec_settings(settings: Settings) -> dict[str, Any]:
    """Settings by their keys in a spec."""
    found = {"mode": settings["mode"], **_changed_settings(settings, STEERING_FIELDS, ReservationRules._field_defaults)}
    block, delay = settings.get("block", {}), settings.get("delay", {})
    if settings.get("time") == REAL_TIME:
        found["deterministic_inference"] = False
    if block.get("fraction"):
        found["block"] = _changed_settings(block, BLOCK_FIELDS, _BLOCK_DEFAULTS)
    if settings.get("reroute"):
        found["reroute"] = {"blocked": True, "max": settings["reroute"]}
    if delay.get("prob"):
        found["delay"] = _changed_settings(delay, DELAY_FIELDS, {})
    return found


def _changed_settings(settings: Settings, fields: Mapping[str, str], defaults: Settings) -> dict[str, Any]:
    changed = {field for field, value in settings.items() if value != defaults.get(field)}
    return {key: settings[field] for key, field in fields.items() if field in changed}


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{settings_line(value)}}}"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
