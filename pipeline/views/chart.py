"""A graph as boxes and arrows: whole steps or single targets, with how many are fresh, stale, failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.graph import Graph, Target, step_of
from pipeline.core.outcome import FAILED, FRESH, IGNORED, STALE
from pipeline.core.words import count, listed

STATUSES = (FRESH, STALE, FAILED, IGNORED)


class Box(NamedTuple):
    """A step or a target.  `reads` are the places of other boxes in the chart; `facts`, what there is to say of it."""

    name: str
    statuses: Mapping[str, int]
    reads: tuple[int, ...]
    facts: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(self.statuses.values())

    @property
    def label(self) -> str:
        return self.name if self.size == 1 else f"{self.name} x{self.size}"


class Chart(NamedTuple):
    title: str
    boxes: Sequence[Box]

    @property
    def statuses(self) -> Counter[str]:
        return sum((Counter(box.statuses) for box in self.boxes), Counter())


def chart(title: str, graph: Graph, shown: Iterable[int], status: Mapping[int, str], full: bool = False) -> Chart:
    """`shown` are targets in graph order.  Names go without their run as long as there is only one."""
    groups: dict[str, list[int]] = {}
    for i in shown:
        name = graph.targets[i].name
        groups.setdefault(name if full else step_of(name), []).append(i)
    place = {i: n for n, group in enumerate(groups.values()) for i in group}
    one_run = len({graph.targets[i].run for i in place}) == 1
    names = [name.partition(":")[2] if one_run else name for name in groups]
    pairs = zip(names, groups.values(), strict=True)
    return Chart(title, [_box(graph, name, group, place, status) for name, group in pairs])


def _box(graph: Graph, name: str, group: Sequence[int], place: Mapping[int, int], status: Mapping[int, str]) -> Box:
    here = place[group[0]]
    reads = {place[j] for i in group for j in graph.above(i) if j in place} - {here}
    numbers = Counter(status[i] for i in group)
    counted = {s: numbers[s] for s in STATUSES if numbers[s]}
    return Box(name, counted, tuple(sorted(reads)), _facts(graph, group, status))


def _facts(graph: Graph, group: Sequence[int], status: Mapping[int, str]) -> tuple[str, ...]:
    targets = [graph.targets[i] for i in group]
    files = dict.fromkeys(path for t in targets for path in t.inputs)
    outputs = [path for t in targets for path in t.outputs]
    reads = [f"reads {listed(list(files))}"] if files else []
    return (*_standing(targets, [status[i] for i in group]), *reads, f"writes {listed(outputs)}")


def _standing(targets: Sequence[Target], statuses: Sequence[str]) -> Iterator[str]:
    """Of many, those are named that are not fresh."""
    if len(targets) == 1:
        yield f"{targets[0].name}: {statuses[0]}"
        return
    yield count(len(targets))
    for wrong in (FAILED, STALE, IGNORED):
        if names := [t.name for t, status in zip(targets, statuses, strict=True) if status == wrong]:
            yield f"{wrong}: {listed(names)}"


def counts(statuses: Mapping[str, int]) -> str:
    """`23 fresh, 1 stale`; only the word when it is about a single target."""
    if sum(statuses.values()) == 1:
        return next(iter(statuses))
    return ", ".join(f"{n} {status}" for status, n in statuses.items())
