"""`python -m benchmarks.trust.picture FIGURES.json docs/trust.svg`: false promotions by method, and power by effect."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, TOP, BOTTOM = 860, 360, 60, 310
LEFT = (60, 400)  # from where to where the panels reach
RIGHT = (500, 830)
METHODS = ("coppice", "percentile bootstrap", "mean > 2 SE", "paired t over configs", "weighted_means")
IDEAS, BLOCKS, ALPHA = 7, 20, 5
COLORS = {5: "#9ecae1", 10: "#6baed6", 20: "#3182bd", 50: "#08519c"}
BESIDE = {5: 4, 10: 4, 20: 11, 50: 1}  # by how much the name of a line is below its end: they are close
EFFECTS = (1, 2, 3, 4)

Row = Mapping[str, Any]


def _rows(figures: Mapping[str, Any], study: str) -> list[Row]:
    return next(each["rows"] for each in figures["studies"] if each["study"] == study)


def _height(percent: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * percent / 100


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, how: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {how}/>'


def _frame(panel: tuple[int, int], title: str) -> Iterator[str]:
    for percent in (0, 25, 50, 75, 100):
        yield _line(panel[0], _height(percent), panel[1], _height(percent), 'stroke="#ddd"')
        yield _text(panel[0] - 6, _height(percent) + 4, f"{percent}", "end", 11)
    yield _text((panel[0] + panel[1]) / 2, 24, title, size=14)


def false_promotions(figures: Mapping[str, Any]) -> Iterator[str]:
    wanted = {"noise": "normal", "K": IDEAS, "B": BLOCKS}
    row = next(r for r in _rows(figures, "errors") if all(r[name] == value for name, value in wanted.items()))
    yield from _frame(LEFT, "Depths in which luck is promoted, %")
    yield _text(sum(LEFT) / 2, 42, f"{IDEAS} ideas without effect, {BLOCKS} blocks", size=11)
    step = (LEFT[1] - LEFT[0]) / len(METHODS)
    for n, method in enumerate(METHODS):
        x, percent = LEFT[0] + n * step, row[method]["percent"]
        color = COLORS[50] if method == METHODS[0] else "#c6c6c6"
        size = f'width="{0.7 * step:.1f}" height="{BOTTOM - _height(percent):.1f}"'
        yield f'<rect x="{x + 0.15 * step:.1f}" y="{_height(percent):.1f}" {size} fill="{color}"/>'
        yield _text(x + step / 2, _height(percent) - 5, f"{percent:.1f}", size=11)
        for line, word in enumerate(_in_two(method)):
            yield _text(x + step / 2, BOTTOM + 16 + 12 * line, word, size=9)
    yield _line(LEFT[0], _height(ALPHA), LEFT[1], _height(ALPHA), 'stroke="#d62728" stroke-dasharray="5 3"')


def _in_two(words: str) -> list[str]:
    first, _, rest = words.replace(">", "&gt;").partition(" ")
    return [first, rest] if rest else [first]


def power(figures: Mapping[str, Any]) -> Iterator[str]:
    rows = [r for r in _rows(figures, "power") if r["K"] == IDEAS and r["spread"] != 1.0]
    yield from _frame(RIGHT, "A real effect is found, %")
    yield _text(sum(RIGHT) / 2, 42, f"one of {IDEAS} ideas is better, by so many standard errors", size=11)
    for effect in EFFECTS:
        yield _text(_place(effect), BOTTOM + 16, str(effect))
    for blocks, color in COLORS.items():
        mine = [next(r for r in rows if r["B"] == blocks and r["effect"] == effect) for effect in EFFECTS]
        points = [_height(row["coppice"]["percent"]) for row in mine]
        yield _curve(points, f'stroke="{color}" stroke-width="2.5"')
        yield _text(RIGHT[1] - 14, points[-1] + BESIDE[blocks], f"{blocks}", "start", 11)
        if blocks == BLOCKS:
            oracle = [_height(row["oracle"]["percent"]) for row in mine]
            yield _curve(oracle, 'stroke="#555" stroke-dasharray="4 3"')
            yield _text(_place(EFFECTS[1]) - 4, oracle[1] - 8, "who knows the noise", "end", 11)
    yield _text(RIGHT[1] + 4, BOTTOM - 8, "lines: blocks", "end", 11)


def _place(effect: int) -> float:
    return RIGHT[0] + 20 + (RIGHT[1] - RIGHT[0] - 40) * (effect - EFFECTS[0]) / (EFFECTS[-1] - EFFECTS[0])


def _curve(heights: Sequence[float], how: str) -> str:
    points = " ".join(f"{_place(effect):.1f},{y:.1f}" for effect, y in zip(EFFECTS, heights, strict=True))
    return f'<polyline points="{points}" fill="none" {how}/>'


def svg(figures: Mapping[str, Any]) -> str:
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" fill="#222">'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, ground, *false_promotions(figures), *power(figures), "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(svg(json.loads(Path(sys.argv[1]).read_text())))
