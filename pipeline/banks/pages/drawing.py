"""What charts are drawn with: colours, dashes and marks, bars for intervals, the scale below, the picture around it.

Lines differ in each of the first three, so that none of them is needed to tell lines apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from pipeline.banks.pages.scales import Scale

WIDTH, RIGHT, FOOT = 860, 24, 44  # the scale below takes the foot
LETTER = 6.6  # about as wide, at 12 px
CAP = 4  # half as long, at the ends of a bar
LIGHT = ("#0b62b5", "#c2410c", "#0f7b55", "#8b3fa8", "#7a5c00", "#0e7490", "#c02671", "#57606a")
DARK = ("#6cb6ff", "#ff9b6a", "#56d39b", "#d2a8ff", "#e3b341", "#56d4dd", "#ff8cc6", "#a5adb7")
# How many there are of each has no common factor: there are many combinations.
SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.5 5 4h-10z",
    "M0-6 6 0 0 6-6 0z",
    "M0 5.5 5-4h-10z",
    "M-1.7-6h3.4v4.3h4.3v3.4h-4.3v4.3h-3.4v-4.3h-4.3v-3.4h4.3z",
    "M-2-6h4v12h-4z",
)
DASHES = ("", "7 4", "2 3", "11 3 2 3", "14 5")


def style() -> str:
    return (
        "svg .mark { fill: currentColor; stroke: Canvas; } svg .one { fill: none; stroke: currentColor; }\n"
        "svg .line { fill: none; stroke: currentColor; stroke-width: 2; } svg .bar { stroke: currentColor; }\n"
        "svg .faint { stroke: #8884; } svg .axis { stroke: #888; }\n"
        f"{_rules(LIGHT)}\n@media (prefers-color-scheme: dark) {{ {_rules(DARK)} }}"
    )


def _rules(colours: Sequence[str]) -> str:
    return " ".join(f"svg .look{number} {{ color: {colour}; }}" for number, colour in enumerate(colours))


def picture(title: str, height: float, parts: Iterable[str]) -> str:
    inside = "\n".join(parts)
    view = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}"'
    return f"<svg {view}>\n{inside}\n</svg>"


def group(look: int, parts: Iterable[str], told: str = "") -> str:
    """`told` is read where the pointer rests on it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<g class="look{look % len(LIGHT)}">{title}{"".join(parts)}</g>'


def mark(look: int, x: float, y: float) -> str:
    return f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{SHAPES[look % len(SHAPES)]}"/>'


def line(look: int, points: Iterable[tuple[float, float]]) -> str:
    dashes = DASHES[look % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line"{dashed} points="{drawn}"/>'


def straight(kind: str, x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def upright_bar(x: float, low: float, high: float) -> Iterator[str]:
    yield straight("bar", x, low, x, high)
    yield from (straight("bar", x - CAP, y, x + CAP, y) for y in (low, high))


def flat_bar(y: float, low: float, high: float) -> Iterator[str]:
    yield straight("bar", low, y, high, y)
    yield from (straight("bar", x, y - CAP, x, y + CAP) for x in (low, high))


def text(x: float, y: float, words: str, anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>{escape(words)}</text>'


def foot(scale: Scale, x: Callable[[float], float], top: float, bottom: float) -> Iterator[str]:
    """The scale below, with a line up from each of its ticks."""
    for tick in scale.ticks:
        yield straight("axis" if not tick else "faint", x(tick), top, x(tick), bottom)
        yield text(x(tick), bottom + 17, scale.told(tick))
    yield text((x(scale.low) + x(scale.high)) / 2, bottom + 36, scale.title)
