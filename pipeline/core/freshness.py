"""Freshness of a target: if it is stale, which input or key differs, and from which target above that comes.

`stale_reasons` compares a receipt with what is there now.  `Causes` walks from a stale target up to the nearest ones
that are stale by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.graph import Graph
from pipeline.core.recipe import compact_json

NEVER_BUILT, FAILED_BEFORE, FORGOTTEN = "never built", "failed", "forgotten"
OTHER_FILES, REGROUPED = "reads other files", "reads the same files by other names or in another order"
PATHS_COUNT = "the paths of what it reads count now, or no longer"
# What the kind keeps under these words is called something else in a spec.
SPEC_WORDS = {"argv": "run", "shell": "run", "pass": "env passed through"}


class Receipt(NamedTuple):
    """Record of a target whose outputs were put in place.  Contents are sha256."""

    key: str
    recipe: Mapping[str, Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    start: float
    end: float
    attempts: int
    exit: int
    how: str
    # inputs that changed while it ran: the result is of no known contents; and files that it was planned without
    unsettled: tuple[str, ...] = ()


class FailureRecord(NamedTuple):
    """Record of a target's last failure; `outage`: which kind of outage it was, empty for one of its own."""

    why: str
    exit: int = 1
    attempts: int = 0
    start: float = 0.0
    end: float = 0.0
    log: str = ""
    outage: str = ""


class Reason(NamedTuple):
    """Difference between a record and what is there now.  Hashable: targets with the same ones are listed together."""

    what: str
    where: str
    old: Any = None
    new: Any = None


CAME_LATER = "it used a file that came after it was planned:"


def stale_reasons(
    receipt: Receipt, recipe: Mapping[str, Any], inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]
) -> Iterator[Reason]:
    """Yield why a target is stale; nothing when it is fresh.  A content of None stands for a missing file."""
    unplanned = [path for path in receipt.unsettled if path not in receipt.inputs]
    yield from (Reason(CAME_LATER, path) for path in unplanned)
    yield from (Reason("input changed while it ran", path) for path in receipt.unsettled if path in receipt.inputs)
    old, new = _Parts.split(receipt.recipe), _Parts.split(recipe)  # which files are read is in recipe and inputs
    found = [*_differences(old.others, new.others), *_input_reasons(receipt.inputs, inputs, old.grouped(new))]
    if not found and compact_json(receipt.recipe) != compact_json(recipe):
        found = [Reason(PATHS_COUNT, "")]
    yield from () if unplanned else found  # the plan with that file is another one in many ways
    for path, now in outputs.items():
        was = receipt.outputs.get(path)
        if now is None or now != was:
            yield Reason("output missing" if now is None else "output changed", path, was, now)


class _Parts(NamedTuple):
    """A recipe: the files it reads, by ports and by the paths that a command sees; and all else, as it is spoken of."""

    reads: Any
    by_port: Any
    others: Mapping[str, Any]

    @classmethod
    def split(cls, recipe: Mapping[str, Any]) -> _Parts:
        """Split a recipe; parameters of the kind are called as they are in a spec."""
        params = recipe.get("params", {})
        params = {SPEC_WORDS.get(word, word): value for word, value in params.items() if word != "paths"}
        others = {word: value for word, value in recipe.items() if word not in ("reads", "params")}
        return cls(recipe.get("reads"), recipe.get("params", {}).get("paths"), {**others, **params})

    def grouped(self, new: _Parts) -> bool:
        """Check if files are read by other ports or paths now, whether named in the command or not."""
        named = None not in (self.by_port, new.by_port) and {*self.by_port} == {*new.by_port}
        return compact_json(self.reads) != compact_json(new.reads) or (
            named and compact_json(self.by_port) != compact_json(new.by_port)
        )


def _input_reasons(old: Mapping[str, str], new: Mapping[str, str | None], grouped: bool) -> Iterator[Reason]:
    """Compare inputs by their place in the list, so that a renamed run or a moved slot is no difference.

    A file that is newly read may be missing still; its name is enough."""
    if not grouped and list(old.values()) == list(new.values()):
        return
    gone, added = (tuple(path for path in a if path not in b) for a, b in ((old, new), (new, old)))
    if gone or added:
        yield Reason(OTHER_FILES, "", gone, added)
    elif grouped or list(old) != list(new):
        yield Reason(REGROUPED, "")
    for path, now in new.items():
        if old.get(path, now) != now:
            yield Reason("input missing" if now is None else "input changed", path, old[path], now)


def _differences(old: Any, new: Any, where: str = "") -> Iterator[Reason]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            inner = f"{where}.{name}" if where else name
            if name in old and name in new:
                yield from _differences(old[name], new[name], inner)
            else:
                before, after = (_plain(side[name]) if name in side else None for side in (old, new))
                yield Reason("recipe changed", inner, before, after)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differences(a, b, f"{where}[{i}]")
    elif compact_json(old) != compact_json(new):  # 1, 1.0 and true are equal, but not the same
        yield Reason("recipe changed", where, _plain(old), _plain(new))


def _plain(value: Any) -> Any:
    """Lists and mappings as a spec may spell them; None is kept for what is not there."""
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False, default=str)


class StalePath(NamedTuple):
    """The shortest way from a target up to one that is stale by itself; both are on `path`."""

    path: tuple[int, ...]
    reasons: tuple[Reason, ...]
    alike: int  # how many more targets above are stale for the very same reasons


class Causes:
    """Division of stale targets, in graph order, into those stale by themselves and those stale because of others.

    `differences` has, for each target in doubt, its differences from its receipt."""

    def __init__(self, graph: Graph, differences: Mapping[int, Sequence[Reason]]) -> None:
        self.graph = graph
        self.own: dict[int, tuple[Reason, ...]] = {}
        self.via: dict[int, list[int]] = {}
        for i in sorted(differences):
            above = [j for j in graph.above(i) if j in self.own]
            if differences[i] or above:
                self.own[i] = tuple(reason for reason in differences[i] if not self._is_from_above(reason))
                self.via[i] = above

    def above(self, wanted: Iterable[int]) -> list[int]:
        """List the targets that are stale by themselves among all that `wanted` needs."""
        needed = self.graph.upstream(wanted)
        return [i for i, own in self.own.items() if own and i in needed]

    def chains(self, i: int) -> list[StalePath]:
        """Nearest cause first; causes that are alike in one."""
        found: dict[tuple[Reason, ...], StalePath] = {}
        for path in self._paths(i):
            reasons = self.own[path[-1]]
            known = found.get(reasons)
            found[reasons] = known._replace(alike=known.alike + 1) if known else StalePath(path, reasons, 0)
        return list(found.values())

    def _paths(self, i: int) -> Iterator[tuple[int, ...]]:
        """Walk breadth first, up to what is stale by itself and not beyond."""
        below: dict[int, int | None] = {i: None}
        for j in (front := [i]):
            if self.own[j]:
                walk = [j]
                while (step := below[walk[-1]]) is not None:
                    walk.append(step)
                yield tuple(reversed(walk))
                continue
            fresh = [k for k in self.via[j] if k not in below]
            below.update(dict.fromkeys(fresh, j))
            front.extend(fresh)

    def _is_from_above(self, reason: Reason) -> bool:
        """Check if what makes the input that differs is stale itself and may put it right."""
        return reason.what in ("input changed", "input missing") and self.graph.writer.get(reason.where) in self.own
