"""A graph as a picture: one self-contained SVG, light or dark as the reader prefers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from pipeline.core.layout import Layout, Point, Spacing, layout
from pipeline.core.outcome import FAILED, FRESH, IGNORED, STALE
from pipeline.core.words import count
from pipeline.views.chart import STATUSES, Box, Chart, counts

MARGIN = 28
HEAD = 64  # title and legend
LETTER = 7.9  # of the monospace names, at 13 px
SMALL_LETTER = 6.4  # of the line below them, at 11.5 px
TALL, FLAT = 50, 26  # a step; a single target in a large picture
STACK = 4  # how far the sheets behind a step of many targets stick out
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto-start-reverse"><path class="tip" d="M0.5 0.8 7.5 4 0.5 7.2z"/></marker></defs>'
)
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "card": "#ffffff", "edge": "#c6ccd3", "line": "#9aa4af",
    FRESH: "#2da44e", STALE: "#d4a72c", FAILED: "#cf222e", IGNORED: "#9aa4af",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "faint": "#9198a1", "card": "#161b22", "edge": "#3d444d", "line": "#6e7681",
    FRESH: "#3fb950", STALE: "#d29922", FAILED: "#f85149", IGNORED: "#6e7681",
}  # fmt: skip


def as_svg(chart: Chart) -> str:
    flat = all(box.size == 1 for box in chart.boxes) and len(chart.boxes) > 20
    sizes = [(_width(box, flat), FLAT if flat else TALL) for box in chart.boxes]
    edges = sorted({(min(a, b), max(a, b)) for b, box in enumerate(chart.boxes) for a in box.reads})
    placed = layout(sizes, edges, Spacing(110, 8, 8, centred=True) if flat else Spacing(64, 18, 10))
    width = max(placed.width, _head_width(chart)) + 2 * MARGIN + STACK
    height = placed.height + HEAD + 2 * MARGIN + STACK
    size = f'width="{width:.0f}" height="{height:.0f}"'
    view = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>',
        f'<title id="title">{escape(_headline(chart))}</title>',
        f"<style>{_style(LIGHT)} @media (prefers-color-scheme: dark) {{ {_style(DARK)} }}</style>",
        TIP,
        f'<rect class="paper" {size}/>',
        *_head(chart),
        f'<g transform="translate({MARGIN} {MARGIN + HEAD})">',
        *_arrows(chart, placed),
        *(line for v, box in enumerate(chart.boxes) for line in _box(box, placed.boxes[v], sizes[v][1], flat)),
        "</g>",
        "</svg>",
        "",
    ])  # fmt: skip


def _style(colours: Mapping[str, str]) -> str:
    """Plain rules rather than variables: more programs can draw them."""
    return " ".join([
        f".paper {{ fill: {colours['paper']} }}",
        f"text {{ fill: {colours['ink']}; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}",
        f"text.small {{ fill: {colours['faint']}; font: 11.5px system-ui, -apple-system, 'Segoe UI', sans-serif }}",
        "text.title { font: 600 17px system-ui, -apple-system, 'Segoe UI', sans-serif }",
        f".card {{ fill: {colours['card']}; stroke: {colours['edge']} }}",
        f".arrow {{ fill: none; stroke: {colours['line']}; stroke-width: 1.3 }} .tip {{ fill: {colours['line']} }}",
        *(f".{status} {{ fill: {colours[status]} }}" for status in STATUSES),
    ])  # fmt: skip


def _headline(chart: Chart) -> str:
    return f"{chart.title}: {count(chart.statuses.total())}"


def _head_width(chart: Chart) -> float:
    legend = sum(26 + SMALL_LETTER * len(text) for _, text in _legend(chart))
    return max(legend, 10 * len(_headline(chart)))


def _legend(chart: Chart) -> list[tuple[str, str]]:
    total = chart.statuses
    return [(status, f"{total[status]} {status}") for status in STATUSES if total[status]]


def _head(chart: Chart) -> Iterator[str]:
    yield f'<text class="title" x="{MARGIN}" y="{MARGIN + 12}">{escape(_headline(chart))}</text>'
    x = float(MARGIN)
    for status, text in _legend(chart):
        yield f'<circle class="{status}" cx="{x + 5:.1f}" cy="{MARGIN + 32}" r="4.5"/>'
        yield f'<text class="small" x="{x + 15:.1f}" y="{MARGIN + 36}">{text}</text>'
        x += 26 + SMALL_LETTER * len(text)


def _width(box: Box, flat: bool) -> float:
    name = LETTER * len(box.label)
    return name + 34 if flat else max(name, SMALL_LETTER * len(counts(box.statuses))) + 28


def _box(box: Box, place: tuple[float, float, float], height: float, flat: bool) -> Iterator[str]:
    left, top, width = place
    yield f'<g transform="translate({left:.1f} {top:.1f})">'
    yield f"<title>{escape(chr(10).join((box.label, *box.facts)))}</title>"
    for sheet in (2, 1) if box.size > 1 else ():
        by = sheet * STACK / 2
        yield f'<rect class="card" x="{by}" y="{by}" width="{width:.1f}" height="{height}" rx="7"/>'
    yield f'<rect class="card" width="{width:.1f}" height="{height}" rx="7"/>'
    yield from _flat(box, height) if flat else _tall(box, width, height)
    yield "</g>"


def _flat(box: Box, height: float) -> Iterator[str]:
    yield f'<circle class="{next(iter(box.statuses))}" cx="13" cy="{height / 2}" r="4.5"/>'
    yield f'<text x="24" y="{height / 2 + 4.5}">{escape(box.label)}</text>'


def _tall(box: Box, width: float, height: float) -> Iterator[str]:
    """Name, counts, and a bar with the share of each status."""
    yield f'<text x="14" y="20">{escape(box.label)}</text>'
    yield f'<text class="small" x="14" y="35">{counts(box.statuses)}</text>'
    x, whole = 14.0, width - 28
    for status, n in box.statuses.items():
        share = whole * n / box.size
        yield f'<rect class="{status}" x="{x:.1f}" y="{height - 9}" width="{share:.1f}" height="3" rx="1.5"/>'
        x += share


def _arrows(chart: Chart, placed: Layout) -> Iterator[str]:
    for b, box in enumerate(chart.boxes):
        for a in box.reads:
            if a < b:
                yield f'<path class="arrow" d="{_curve(placed.routes[a, b])}" marker-end="url(#tip)"/>'
            else:  # steps that take turns: this arrow leads back
                yield f'<path class="arrow" d="{_curve(placed.routes[b, a])}" marker-start="url(#tip)"/>'


def _curve(route: list[Point]) -> str:
    """Bends between columns, straight lines through them."""
    x, y = route[0]
    steps = [f"M{x:.1f} {y:.1f}"]
    for i, (to_x, to_y) in enumerate(route[1:]):
        half = (x + to_x) / 2
        straight = i % 2 == 1 or abs(to_y - y) < 0.5
        bend = "L" if straight else f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} "
        steps.append(f"{bend}{to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(steps)
