"""Is a target fresh?  If not, exactly why: which input or key, and its old and new value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Receipt(NamedTuple):
    """What was recorded after a target's outputs were in place.  Contents are sha256."""

    key: str
    recipe: Mapping[str, Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    start: float
    end: float
    attempts: int
    exit: int
    how: str
    unsettled: tuple[str, ...] = ()  # inputs that changed while it ran: the result is of no known contents


class Reason(NamedTuple):
    """One difference between what was recorded and what is."""

    what: str
    where: str
    old: Any = None
    new: Any = None


def reasons(
    receipt: Receipt | None,
    recipe: Mapping[str, Any],
    inputs: Mapping[str, str | None],
    outputs: Mapping[str, str | None],
) -> Iterator[Reason]:
    """Nothing, when the target is fresh.  A content of None stands for a missing file."""
    if receipt is None:
        yield Reason("never built", "")
        return
    for path in receipt.unsettled:
        yield Reason("input changed while it ran", path)
    yield from _recipe(receipt.recipe, recipe)
    yield from _inputs(receipt.inputs, inputs)
    for path, now in outputs.items():
        old = receipt.outputs.get(path)
        if now is None:
            yield Reason("output missing", path, old, now)
        elif now != old:
            yield Reason("output changed", path, old, now)


def intact(receipt: Receipt, outputs: Mapping[str, str | None]) -> bool:
    """Is every output there, as it was recorded?"""
    return all(now is not None and receipt.outputs.get(path) == now for path, now in outputs.items())


def _recipe(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Reason]:
    """What the kind put in is told without the word it stands under."""
    yield from _differences("recipe", {**old, "params": {}}, {**new, "params": {}})
    yield from _differences("recipe", old.get("params", {}), new.get("params", {}))


def _inputs(old: Mapping[str, str], new: Mapping[str, str | None]) -> Iterator[Reason]:
    """Inputs count by place in the list, so that a renamed run or a moved slot is no difference."""
    if list(old.values()) == list(new.values()):
        return
    for path in old:
        if path not in new:
            yield Reason("input no longer read", path, old[path])
    for path, now in new.items():
        if path not in old:
            yield Reason("input newly read", path, None, now)
        elif old[path] != now:
            yield Reason("input missing" if now is None else "input changed", path, old[path], now)
    if dict(old) == dict(new):
        yield Reason("inputs reordered", "", list(old), list(new))


def _differences(what: str, old: Any, new: Any, where: str = "") -> Iterator[Reason]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield from _differences(what, old.get(name), new.get(name), f"{where}.{name}" if where else name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differences(what, a, b, f"{where}[{i}]")
    elif old != new:
        yield Reason(f"{what} changed", where, old, new)
