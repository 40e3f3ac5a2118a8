"""results.html: what a search for proofs came to, as one page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from pipeline.core.words import duration, plural
from pipeline.proof.results import FRONTIER, OPEN, PROVED, grouped, headline

Record = Mapping[str, Any]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --done: #2a7f4f; --left: #b0552a; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre, code { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.proved { color: var(--done); } .open, .frontier { color: var(--left); }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
""".strip()
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 280, 50, 20, 20, 40


def page(run: str, results: Record, bank: Record, found: Sequence[Record]) -> str:
    title = f"{run}: {headline(results)}"
    parts = [*_head(title), *_figures(results), *_curve(results), *_strategies(results), *_goals(found)]
    return "\n".join([*parts, *_refused(bank["refused"]), "</html>"]) + "\n"


def _head(title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title><style>\n{STYLE}\n</style>"
    yield f"<h1>{escape(title)}</h1>"


def _figures(results: Record) -> Iterator[str]:
    """A line for each figure that is one number."""
    times = ", ".join(
        f"{name[1:]} % within {duration(seconds, 2)}"
        for name, seconds in results["time_to_proof"].items()
        if seconds is not None
    )
    chances = ", ".join(f"pass@{k} {chance:.3f}" for k, chance in results["pass_at"].items() if chance is not None)
    rows = [
        ("chance of a proof", chances or "-"),
        ("time to proof, of what was proved", times or "-"),
        ("the search took", duration(results["seconds"]) + (f", {results['stopped']}" if results["stopped"] else "")),
        ("Lean", results["toolchain"]),
        ("settings", ", ".join(f"{name} {_plain(value)}" for name, value in results["config"].items())),
        ("ended", f"{results['timestamp']} UTC"),
    ]
    yield _table((), ([escape(name), escape(value)] for name, value in rows))


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _curve(results: Record) -> Iterator[str]:
    """How many goals have a proof within so many seconds of attempts; the seconds on a logarithmic scale."""
    times = sorted(each["seconds"] for each in results["goals"] if each["seconds"] is not None)
    if not times:
        return
    most, total = max(10.0, times[-1]), results["goals_total"]
    points = [(_across(0.01, most), _up(0, total))]
    for solved, seconds in enumerate(times, start=1):
        x = _across(seconds, most)
        points += [(x, points[-1][1]), (x, _up(solved, total))]
    points.append((_across(most, most), points[-1][1]))
    yield "<h2>Proved within so many seconds</h2>"
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="goals proved by seconds of attempts">'
    yield from _axes(most, total)
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{drawn}" fill="none" stroke="#2a7f4f" stroke-width="2.5"/></svg>'


def _axes(most: float, total: int) -> Iterator[str]:
    for part in range(5):
        count = round(total * part / 4)
        y = _up(count, total)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count}</text>'
    seconds = 0.01
    while seconds <= most:
        yield f'<text x="{_across(seconds, most):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{seconds:g} s</text>'
        seconds = round(seconds * 10, 2)


def _across(seconds: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (log10(max(seconds, 0.01)) + 2) / (log10(most) + 2)


def _up(count: int, total: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / total


def _strategies(results: Record) -> Iterator[str]:
    yield "<h2>Strategies</h2>"
    counts = results["strategies"].items()
    rows = ([escape(name), str(count["used"]), str(count["succeeded"])] for name, count in counts)
    yield _table(("strategy", "attempts", "proofs"), rows)


def _goals(found: Sequence[Record]) -> Iterator[str]:
    """A row for each goal: what came of the sample that has a proof, or else of the first."""
    groups = grouped(found)
    yield f"<h2>{plural(len(groups), 'goal')}</h2>"
    yield _table(("goal", "", "seconds", "attempts", "by"), (_goal(name, each) for name, each in groups.items()))


def _goal(name: str, samples: Sequence[Record]) -> list[str]:
    shown = next((one for one in samples if one["status"] == PROVED), samples[0])
    statement = "\n".join([*shown["of"]["context"], shown["of"]["text"]])
    below = "\n".join(shown["tactics"]) if shown["status"] == PROVED else shown["why"]
    opened = (
        f"<details><summary>{escape(name)}</summary><pre>{escape(statement)}</pre><pre>{escape(below)}</pre></details>"
    )
    status = f'<span class="{shown["status"]}">{_STATUS[shown["status"]]}</span>'
    tried = str(sum(len(one["attempts"]) for one in samples))
    return [opened, status, f"{shown['seconds']:.2f}", tried, escape(shown["strategy"] or "-")]


_STATUS = {PROVED: "proved", OPEN: "not proved", FRONTIER: "not tried to the end"}


def _refused(rows: Sequence[Record]) -> Iterator[str]:
    if rows:
        yield f"<h2>{plural(len(rows), 'row')} of the bank not counted</h2>"
        yield _table(("line", "row", "why"), ([str(r["line"]), escape(r["id"]), escape(r["why"])] for r in rows))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>\n{f'<tr>{top}</tr>' if head else ''}\n{body}\n</table>"
