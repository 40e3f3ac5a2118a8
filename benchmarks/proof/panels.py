"""Line charts side by side, as one SVG file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDE, HIGH = 870, 250  # of a row of panels
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 36, 34
LEGEND = 28
COLORS = ("#3182bd", "#e6550d", "#31a354", "#756bb1", "#777777", "#111111", "#bbbbbb")
GRID = 4


class Line(NamedTuple):
    """`points` are x, y and half of y's interval, which is drawn as a band where it is not 0."""

    points: Sequence[tuple[float, float, float]]
    dashed: bool = False


class Panel(NamedTuple):
    """`floor`: the least that the y axis shows; `most`: the greatest, if it is not that of the lines."""

    title: str
    lines: Mapping[str, Line]
    floor: float = 0.0
    most: float | None = None


class Scale(NamedTuple):
    """Where the axes meet, how long the x axis is, and what the axes reach."""

    x: float
    y: float
    long: float
    width: float
    low: float
    high: float

    def at(self, x: float, y: float) -> str:
        across = self.x + self.long * x / self.width
        share = (min(max(y, self.low), self.high) - self.low) / (self.high - self.low)
        return f"{across:.1f},{self.y - (HIGH - TOP - BOTTOM) * share:.1f}"


def svg(panels: Sequence[Panel], across: int, x_title: str) -> str:
    rows = (len(panels) + across - 1) // across
    height = HIGH * rows + LEGEND
    size = f'width="{WIDE}" height="{height}" viewBox="0 0 {WIDE} {height}"'
    names = [*dict.fromkeys(name for panel in panels for name in panel.lines)]
    colors = dict(zip(names, COLORS, strict=False))
    drawn = [part for n, panel in enumerate(panels) for part in _panel(panel, n, across, colors, x_title)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" fill="#222">'
    ground = f'<rect width="{WIDE}" height="{height}" fill="white"/>'
    return "\n".join([head, ground, *drawn, *_legend(panels, colors, height), "</svg>"]) + "\n"


def _panel(panel: Panel, n: int, across: int, colors: Mapping[str, str], x_title: str) -> Iterator[str]:
    x, y = WIDE / across * (n % across), HIGH * (n // across)
    scale = _scale(panel, x, y, WIDE / across)
    yield _text(scale.x + scale.long / 2, y + 20, panel.title, size=12)
    yield _text(scale.x + scale.long / 2, y + HIGH - 4, x_title, size=10)
    yield from _grid(scale)
    for name, line in panel.lines.items():
        yield from _drawn(line, scale, colors[name])


def _scale(panel: Panel, x: float, y: float, wide: float) -> Scale:
    points = [point for line in panel.lines.values() for point in line.points]
    high = panel.most if panel.most is not None else max(value + half for _, value, half in points)
    widest = max(at for at, _, _ in points)
    return Scale(x + LEFT, y + HIGH - BOTTOM, wide - LEFT - RIGHT, widest, panel.floor, high)


def _grid(scale: Scale) -> Iterator[str]:
    for n in range(GRID + 1):
        value, at = scale.low + (scale.high - scale.low) * n / GRID, scale.width * n / GRID
        x, y = map(float, scale.at(0, value).split(","))
        yield f'<line x1="{x}" y1="{y}" x2="{x + scale.long}" y2="{y}" stroke="#ddd"/>'
        yield _text(x - 4, y + 4, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", "end", 10)
        yield _text(float(scale.at(at, 0).split(",")[0]), scale.y + 14, f"{at:g}", size=10)


def _drawn(line: Line, scale: Scale, color: str) -> Iterator[str]:
    if any(half for _, _, half in line.points):
        upper = [scale.at(x, y + half) for x, y, half in line.points]
        lower = [scale.at(x, y - half) for x, y, half in reversed(line.points)]
        yield f'<polygon points="{" ".join([*upper, *lower])}" fill="{color}" fill-opacity="0.18"/>'
    dash = ' stroke-dasharray="5 3"' if line.dashed else ""
    points = " ".join(scale.at(x, y) for x, y, _ in line.points)
    yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'


def _legend(panels: Sequence[Panel], colors: Mapping[str, str], height: float) -> Iterator[str]:
    dashed = {name for panel in panels for name, line in panel.lines.items() if line.dashed}
    x = 20.0
    for name, color in colors.items():
        dash = ' stroke-dasharray="5 3"' if name in dashed else ""
        across = f'x1="{x}" y1="{height - 12}" x2="{x + 22}" y2="{height - 12}"'
        yield f'<line {across} stroke="{color}" stroke-width="3"{dash}/>'
        yield _text(x + 27, height - 8, name, "start", 11)
        x += 42 + 6.2 * len(name)


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
