"""Settings in the words of a spec, without what is as it is by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.mcts.interventions import Block
from pipeline.mcts.journal import REAL_TIME
from pipeline.mcts.keys import BLOCK, DELAY, STEERING
from pipeline.mcts.steering import Steering

Settings = Mapping[str, Any]

# A seed is there only if it was given.
_OF_BLOCK = {field: value for field, value in Block()._asdict().items() if field != "seed"}


def spoken(values: Settings) -> str:
    """As it would stand in a spec, on one line."""
    return ", ".join(f"{key}: {_word(value)}" for key, value in values.items())


def of_scenario(settings: Settings) -> dict[str, Any]:
    """By key, as it may be given."""
    return {"mode": settings["mode"], **_changed(settings, STEERING, Steering._field_defaults), **dict(_rest(settings))}


def _rest(settings: Settings) -> Iterator[tuple[str, Any]]:
    block, delay = settings.get("block", {}), settings.get("delay", {})
    if settings.get("time") == REAL_TIME:
        yield "deterministic_inference", False
    if block.get("fraction"):
        yield "block", _changed(block, BLOCK, _OF_BLOCK)
    if settings.get("reroute"):
        yield "reroute", {"blocked": True, "max": settings["reroute"]}
    if delay.get("prob"):
        yield "delay", _changed(delay, DELAY, {})


def _changed(settings: Settings, fields: Mapping[str, str], defaults: Settings) -> dict[str, Any]:
    told = {key: field for key, field in fields.items() if field in settings}
    return {key: settings[field] for key, field in told.items() if settings[field] != defaults.get(field)}


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{spoken(value)}}}"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
