"""Layout of a graph: boxes in columns as they read from each other, with few and short crossings.

Pure.  Layers by longest path, order by barycentre, heights by least squares: Sugiyama's method in its plainest form."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

Edge = tuple[int, int]
Point = tuple[float, float]
SWEEPS = 12
CENTRING = 6
PULL_OF_LINES = 4.0  # how much more a line that only passes through wants to be straight


class Spacing(NamedTuple):
    """Distances.  `centred`: boxes in the middle of all their neighbours; else arrows as straight as they can be."""

    column: float
    row: float
    line: float  # between arrows that pass side by side
    centred: bool = False


class Layout(NamedTuple):
    """Places: `boxes` are (left, top, width); `routes` are the points of each arrow, always rightwards."""

    boxes: list[tuple[float, float, float]]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def layout(sizes: Sequence[tuple[float, float]], edges: Iterable[Edge], spacing: Spacing) -> Layout:
    """Lay out a graph.  Box `a` of an edge (a, b) must come before `b` in `sizes`."""
    edges = list(edges)
    grid = _Grid(layers(len(sizes), edges), edges)
    grid.sort()
    middles = _middles(grid, [size[1] for size in sizes], spacing)
    widths = [max((sizes[v][0] for v in column if v < len(sizes)), default=0.0) for column in grid.columns]
    lefts = [sum(widths[:i]) + spacing.column * i for i in range(len(widths))]
    spans = [(lefts[layer], lefts[layer] + widths[layer]) for layer in grid.layer]
    boxes = [(spans[v][0], middles[v] - height / 2, widths[grid.layer[v]]) for v, (_, height) in enumerate(sizes)]
    routes: dict[Edge, list[Point]] = {}
    for edge, (first, *bends, last) in grid.ways.items():
        passed = [(x, middles[bend]) for bend in bends for x in spans[bend]]
        routes[edge] = [(spans[first][1], middles[first]), *passed, (spans[last][0], middles[last])]
    bottom = max((top + size[1] for (_, top, _), size in zip(boxes, sizes, strict=True)), default=0.0)
    lowest = max((y for route in routes.values() for _, y in route), default=0.0)
    return Layout(boxes, routes, lefts[-1] + widths[-1] if widths else 0.0, max(bottom, lowest))


def layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Column of each box: one after the last it reads; right before its first reader if it reads nothing."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        above[b].append(a)
        below[a].append(b)
    layer = [0] * count
    for b in range(count):
        layer[b] = max((layer[a] + 1 for a in above[b]), default=0)
    for a in range(count):
        if not above[a] and below[a]:
            layer[a] = min(layer[b] for b in below[a]) - 1
    return layer


class _Grid:
    """Columns of vertices: the boxes, and a bend for each column that an arrow passes through."""

    def __init__(self, layer: Sequence[int], edges: Sequence[Edge]) -> None:
        self.layer = list(layer)
        self.ways: dict[Edge, list[int]] = {}
        for a, b in edges:
            between = range(self.layer[a] + 1, self.layer[b])
            self.ways[a, b] = [a, *range(len(self.layer), len(self.layer) + len(between)), b]
            self.layer.extend(between)
        self.columns: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
        for v, place in enumerate(self.layer):
            self.columns[place].append(v)
        self.before: list[list[int]] = [[] for _ in self.layer]
        self.after: list[list[int]] = [[] for _ in self.layer]
        for way in self.ways.values():
            for a, b in pairwise(way):
                self.after[a].append(b)
                self.before[b].append(a)

    def sort(self) -> None:
        """Move each vertex to the mean place of its neighbours, to and fro; the best order stays."""
        best = [list(column) for column in self.columns]
        fewest = self._crossings()
        for sweep in range(SWEEPS):
            rightwards = sweep % 2 == 0
            near = self.before if rightwards else self.after
            for column in self.columns if rightwards else reversed(self.columns):
                place = self._places()
                mean = {v: sum(place[u] for u in near[v]) / len(near[v]) if near[v] else place[v] for v in column}
                column.sort(key=lambda v: (mean[v], place[v]))
            if (crossings := self._crossings()) < fewest:
                fewest, best = crossings, [list(column) for column in self.columns]
        self.columns = best

    def _places(self) -> dict[int, int]:
        return {v: i for column in self.columns for i, v in enumerate(column)}

    def _crossings(self) -> int:
        place = self._places()
        total = 0
        for column in self.columns:
            seen: list[int] = []
            for b in (place[b] for a in column for b in sorted(self.after[a], key=place.__getitem__)):
                total += len(seen) - bisect_right(seen, b)
                insort(seen, b)
        return total


def _middles(grid: _Grid, heights: Sequence[float], spacing: Spacing) -> list[float]:
    """Height of each vertex: as near to its neighbours as their order and their distances allow."""
    tall = [*heights, *[0.0] * (len(grid.layer) - len(heights))]
    pull = [1.0] * len(heights) + [PULL_OF_LINES] * (len(tall) - len(heights))
    middles = [0.0] * len(tall)
    gaps: list[list[float]] = []
    for column in grid.columns:
        pairs = [(a, b, spacing.row if min(a, b) < len(heights) else spacing.line) for a, b in pairwise(column)]
        gaps.append([(tall[a] + tall[b]) / 2 + apart for a, b, apart in pairs])
    both = [before + after for before, after in zip(grid.before, grid.after, strict=True)]
    for sweep in range(SWEEPS + (CENTRING if spacing.centred else 1)):
        rightwards = sweep % 2 == 0
        near = both if spacing.centred and sweep >= SWEEPS else grid.before if rightwards else grid.after
        for i in range(len(grid.columns)) if rightwards else reversed(range(len(grid.columns))):
            column = grid.columns[i]
            wanted = [sum(middles[u] for u in near[v]) / len(near[v]) if near[v] else middles[v] for v in column]
            for v, middle in zip(column, space_out(wanted, gaps[i], [pull[v] for v in column]), strict=True):
                middles[v] = middle
    top = min((m - t / 2 for m, t in zip(middles, tall, strict=True)), default=0.0)
    return [middle - top for middle in middles]


def space_out(wanted: Sequence[float], gaps: Sequence[float], pull: Sequence[float]) -> list[float]:
    """Places nearest to `wanted` (least squares, weighted) that are at least `gaps` apart, in the given order."""
    shift = [0.0]
    for gap in gaps:
        shift.append(shift[-1] + gap)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members: places that push each other move together
    for want, by, weight in zip(wanted, shift, pull, strict=False):
        block = (want - by, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, more, members = blocks.pop()
            total = more + block[1]
            block = ((mean * more + block[0] * block[1]) / total, total, members + block[2])
        blocks.append(block)
    flat = [mean for mean, _, members in blocks for _ in range(members)]
    return [mean + by for mean, by in zip(flat, shift, strict=False)]
