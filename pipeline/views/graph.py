"""A graph as boxes and arrows, for the terminal and as one self-contained SVG.

Boxes are whole steps or single targets, with how many are fresh, stale, failed.  In the terminal a line for each step,
after the steps it reads from.  The picture is light or dark as the reader prefers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.graph import Graph, Target, step_of
from pipeline.core.outcome import FAILED, FRESH, IGNORED, STALE
from pipeline.core.projection import (
    TARGET_FAILED,
    TARGET_LEFT_OUT,
    TARGET_MADE,
    TARGET_OPEN,
    TARGET_QUEUED,
    TARGET_RECALLED,
    TARGET_RUNNING,
    TARGET_WAITS,
)
from pipeline.core.text import count_words, join_names, target_count
from pipeline.views.layout import Layout, Spacing, layout
from pipeline.views.pages.drawing import html_text

STATUSES = (FRESH, STALE, FAILED, IGNORED)  # of a plan
RECORDED = (  # of a run that is looked at: words of projections
    *(TARGET_MADE, TARGET_RECALLED, TARGET_RUNNING, TARGET_WAITS),
    *(TARGET_OPEN, TARGET_QUEUED, TARGET_FAILED, TARGET_LEFT_OUT),
)
UNMADE = (
    *(FAILED, STALE, IGNORED, TARGET_RUNNING, TARGET_WAITS),
    *(TARGET_QUEUED, TARGET_OPEN, TARGET_LEFT_OUT),
)


class Box(NamedTuple):
    """Step or target.  `reads` are the places of other boxes in the chart; `facts` are remarks on it."""

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
    statuses: Mapping[str, int]

    @property
    def headline(self) -> str:
        return f"{self.title}: {target_count(sum(self.statuses.values()))}"


def count_statuses(statuses: Iterable[str]) -> dict[str, int]:
    """Number of targets of each status, in the order of STATUSES, or of RECORDED."""
    numbers = Counter(statuses)
    return {status: numbers[status] for status in dict.fromkeys((*STATUSES, *RECORDED)) if numbers[status]}


def make_chart(title: str, graph: Graph, status: Mapping[int, str], full: bool = False) -> Chart:
    """Make a chart of targets by their status, in graph order.  Names go without their run if there is only one."""
    groups: dict[str, list[int]] = {}
    for i in status:
        name = graph.targets[i].name
        groups.setdefault(name if full else step_of(name), []).append(i)
    place = {i: n for n, group in enumerate(groups.values()) for i in group}
    one_run = len({graph.targets[i].run for i in place}) == 1
    names = [name.partition(":")[2] if one_run else name for name in groups]
    boxes = []
    for name, group in zip(names, groups.values(), strict=True):
        targets = [graph.targets[i] for i in group]
        reads = {place[j] for i in group for j in graph.above(i) if j in place} - {place[group[0]]}
        own = [status[i] for i in group]
        boxes.append(Box(name, count_statuses(own), tuple(sorted(reads)), tuple(_box_facts(targets, own))))
    return Chart(title, boxes, count_statuses(status.values()))


def _box_facts(targets: Sequence[Target], statuses: Sequence[str]) -> Iterator[str]:
    """Yield statuses and files; of many targets, those are named that are not fresh."""
    if len(targets) == 1:
        yield f"{targets[0].name}: {statuses[0]}"
    else:
        yield target_count(len(targets))
        for wrong in UNMADE:
            if names := [t.name for t, status in zip(targets, statuses, strict=True) if status == wrong]:
                yield f"{wrong}: {join_names(names)}"
    if files := list(dict.fromkeys(path for t in targets for path in t.inputs)):
        yield f"reads {join_names(files)}"
    yield f"writes {join_names([path for t in targets for path in t.outputs])}"


def counts_text(statuses: Mapping[str, int]) -> str:
    """Format counts: `23 fresh, 1 stale`; only the word when it is about a single target."""
    if sum(statuses.values()) == 1:
        return next(iter(statuses))
    return count_words(statuses)


def chart_text(chart: Chart) -> str:
    reads = [f"<- {join_names([chart.boxes[i].name for i in box.reads])}" if box.reads else "" for box in chart.boxes]
    names, arrows = (max(map(len, texts), default=0) for texts in ([box.label for box in chart.boxes], reads))
    rows = zip(chart.boxes, reads, strict=True)
    lines = [f"  {box.label:{names}}  {above:{arrows}}  {counts_text(box.statuses)}" for box, above in rows]
    return "\n".join([f"{chart.headline}, {count_words(chart.statuses)}", "", *lines])


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


def chart_picture(chart: Chart) -> str:
    """The chart for a page, which has its looks: `.graph` in its style."""
    width, height, inside = _draw(chart)
    view = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html_text(chart.headline)}"'
    return "\n".join([f'<svg class="graph" {view}>', TIP, *inside, "</svg>"])


def chart_svg(chart: Chart) -> str:
    """The chart as a file of its own."""
    width, height, inside = _draw(chart)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    view = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>',
        f'<title id="title">{html_text(chart.headline)}</title>',
        f"<style>{_style_rules(LIGHT)} @media (prefers-color-scheme: dark) {{ {_style_rules(DARK)} }}</style>",
        TIP,
        f'<rect class="paper" {size}/>',
        *inside,
        "</svg>",
        "",
    ])  # fmt: skip


def _draw(chart: Chart) -> tuple[float, float, list[str]]:
    """The width, the height and the pieces of a chart."""
    flat = all(box.size == 1 for box in chart.boxes) and len(chart.boxes) > 20
    tall = FLAT if flat else TALL
    edges = sorted({(min(a, b), max(a, b)) for b, box in enumerate(chart.boxes) for a in box.reads})
    spacing = Spacing(110, 8, 8, centred=True) if flat else Spacing(64, 18, 10)
    names = [LETTER * len(box.label) for box in chart.boxes]
    counts = [SMALL_LETTER * len(counts_text(box.statuses)) for box in chart.boxes]
    widths = [name + 34 if flat else max(name, count) + 28 for name, count in zip(names, counts, strict=True)]
    placed = layout([(width, tall) for width in widths], edges, spacing)
    legend, legend_width = _legend(chart)
    width = max(placed.width, legend_width, 10 * len(chart.headline)) + 2 * MARGIN + STACK
    height = placed.height + HEAD + 2 * MARGIN + STACK
    inside = [
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 12}">{html_text(chart.headline)}</text>',
        *legend,
        f'<g transform="translate({MARGIN} {MARGIN + HEAD})">',
        *_arrows(chart, placed),
        *(line for v, box in enumerate(chart.boxes) for line in _box_svg(box, placed.boxes[v], tall, flat)),
        "</g>",
    ]
    return width, height, inside


def _style_rules(colours: Mapping[str, str]) -> str:
    """Rules of style.  Plain rules rather than variables: more programs can draw them."""
    return " ".join([
        f".paper {{ fill: {colours['paper']} }}",
        f"text {{ fill: {colours['ink']}; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}",
        f"text.small {{ fill: {colours['faint']}; font: 11.5px system-ui, -apple-system, 'Segoe UI', sans-serif }}",
        "text.title { font: 600 17px system-ui, -apple-system, 'Segoe UI', sans-serif }",
        f".card {{ fill: {colours['card']}; stroke: {colours['edge']} }}",
        f".arrow {{ fill: none; stroke: {colours['line']}; stroke-width: 1.3 }} .tip {{ fill: {colours['line']} }}",
        *(f".{status} {{ fill: {colours[status]} }}" for status in STATUSES),
    ])  # fmt: skip


def _legend(chart: Chart) -> tuple[list[str], float]:
    """The legend and its width."""
    lines, width = [], 0.0
    for status, number in chart.statuses.items():
        x, text = MARGIN + width, f"{number} {status}"
        lines.append(f'<circle class="{status}" cx="{x + 5:.1f}" cy="{MARGIN + 32}" r="4.5"/>')
        lines.append(f'<text class="small" x="{x + 15:.1f}" y="{MARGIN + 36}">{text}</text>')
        width += 26 + SMALL_LETTER * len(text)
    return lines, width


def _box_svg(box: Box, place: tuple[float, float, float], height: float, flat: bool) -> Iterator[str]:
    """Draw a target by its status; a step with name, counts, and a bar with the share of each status."""
    left, top, width = place
    yield f'<g transform="translate({left:.1f} {top:.1f})">'
    yield f"<title>{html_text(chr(10).join((box.label, *box.facts)))}</title>"
    for sheet in (2, 1) if box.size > 1 else ():
        by = sheet * STACK / 2
        yield f'<rect class="card" x="{by}" y="{by}" width="{width:.1f}" height="{height}" rx="7"/>'
    yield f'<rect class="card" width="{width:.1f}" height="{height}" rx="7"/>'
    if flat:
        yield f'<circle class="{next(iter(box.statuses))}" cx="13" cy="{height / 2}" r="4.5"/>'
        yield f'<text x="24" y="{height / 2 + 4.5}">{html_text(box.label)}</text>'
    else:
        yield f'<text x="14" y="20">{html_text(box.label)}</text>'
        yield f'<text class="small" x="14" y="35">{counts_text(box.statuses)}</text>'
        x, whole = 14.0, width - 28
        for status, n in box.statuses.items():
            share = whole * n / box.size
            yield f'<rect class="{status}" x="{x:.1f}" y="{height - 9}" width="{share:.1f}" height="3" rx="1.5"/>'
            x += share
    yield "</g>"


def _arrows(chart: Chart, placed: Layout) -> Iterator[str]:
    """Draw arrows: bends between columns, straight lines through them."""
    for b, box in enumerate(chart.boxes):
        for a in box.reads:  # of steps that take turns an arrow leads back
            ((x, y), *points), end = (placed.routes[a, b], "end") if a < b else (placed.routes[b, a], "start")
            path = [f"M{x:.1f} {y:.1f}"]
            for i, (to_x, to_y) in enumerate(points):
                half = (x + to_x) / 2
                straight = i % 2 == 1 or abs(to_y - y) < 0.5
                bend = "L" if straight else f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} "
                path.append(f"{bend}{to_x:.1f} {to_y:.1f}")
                x, y = to_x, to_y
            yield f'<path class="arrow" d="{" ".join(path)}" marker-{end}="url(#tip)"/>'
