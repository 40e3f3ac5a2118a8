"""From a stale target up to what made it so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.freshness import Reason
from pipeline.core.graph import Graph


class Chain(NamedTuple):
    """The shortest way from a target up to one that is stale by itself; both are on `path`."""

    path: tuple[int, ...]
    reasons: tuple[Reason, ...]
    alike: int  # how many more targets above are stale for the very same reasons


class Causes:
    """Of targets in graph order: which are stale, and by themselves or because of what is above them.

    `found` has for each target that is in doubt what is different from its receipt."""

    def __init__(self, graph: Graph, found: Mapping[int, Sequence[Reason]]) -> None:
        self.graph = graph
        self.own: dict[int, tuple[Reason, ...]] = {}
        self.via: dict[int, list[int]] = {}
        for i in sorted(found):
            above = [j for j in graph.above(i) if j in self.own]
            if found[i] or above:
                self.own[i] = tuple(r for r in found[i] if not self._from_above(r))
                self.via[i] = above

    def above(self, wanted: Iterable[int]) -> list[int]:
        """Of all that `wanted` needs, the targets that are stale by themselves."""
        needed = self.graph.needed(wanted)
        return [i for i, own in self.own.items() if own and i in needed]

    def chains(self, i: int) -> list[Chain]:
        """Nearest cause first; causes that are alike in one."""
        found: dict[tuple[Reason, ...], Chain] = {}
        for path in self._paths(i):
            reasons = self.own[path[-1]]
            known = found.get(reasons)
            found[reasons] = known._replace(alike=known.alike + 1) if known else Chain(path, reasons, 0)
        return list(found.values())

    def _paths(self, i: int) -> Iterator[tuple[int, ...]]:
        """Breadth first, up to and not beyond what is stale by itself."""
        below: dict[int, int | None] = {i: None}
        for j in (front := [i]):
            if self.own[j]:
                yield _path(below, j)
                continue
            fresh = [k for k in self.via[j] if k not in below]
            below.update(dict.fromkeys(fresh, j))
            front.extend(fresh)

    def _from_above(self, reason: Reason) -> bool:
        """The input differs, but what makes it is stale itself and may put it right."""
        return reason.what in ("input changed", "input missing") and self.graph.writer.get(reason.where) in self.own


def _path(below: Mapping[int, int | None], last: int) -> tuple[int, ...]:
    walk = [last]
    while (step := below[walk[-1]]) is not None:
        walk.append(step)
    return tuple(reversed(walk))
