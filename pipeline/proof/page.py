"""results.html: what a search for proofs came to, as one page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pipeline.banks.pages import drawing
from pipeline.banks.pages.charts import Line, chart, stairs
from pipeline.banks.pages.framing import framed, table
from pipeline.banks.pages.scales import Scale, amounts, decades
from pipeline.core.words import duration, plural
from pipeline.proof.results import FRONTIER, OPEN, PROVED, grouped, headline

Record = Mapping[str, Any]

STYLE = ".proved { color: var(--done); } .open, .frontier { color: var(--left); }"
FIRST = 0.01  # seconds, where the curve begins


def page(run: str, results: Record, bank: Record, found: Sequence[Record]) -> str:
    parts = [*_figures(results), *_curve(results), *_strategies(results), *_goals(found), *_refused(bank["refused"])]
    return framed(f"{run}: {headline(results)}", parts, f"{STYLE}\n{drawing.style()}")


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
    yield table((), ([escape(name), escape(value)] for name, value in rows))


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _curve(results: Record) -> Iterator[str]:
    """How many goals have a proof within so many seconds of attempts; the seconds on a logarithmic scale."""
    times = sorted(each["seconds"] for each in results["goals"] if each["seconds"] is not None)
    if not times:
        return
    most, total = max(10.0, times[-1]), results["goals_total"]
    grown = [(seconds, float(solved)) for solved, seconds in enumerate(times, start=1)]
    across = Scale("seconds of attempts", FIRST, most, [*decades(FIRST, most)], logarithmic=True, unit=" s")
    yield "<h2>Proved within so many seconds</h2>"
    points = stairs(grown, FIRST, most)
    yield chart("goals proved by seconds of attempts", across, amounts("goals", total), [Line("proved", points)])


def _strategies(results: Record) -> Iterator[str]:
    yield "<h2>Strategies</h2>"
    counts = results["strategies"].items()
    rows = ([escape(name), str(count["used"]), str(count["succeeded"])] for name, count in counts)
    yield table(("strategy", "attempts", "proofs"), rows)


def _goals(found: Sequence[Record]) -> Iterator[str]:
    """A row for each goal: what came of the sample that has a proof, or else of the first."""
    groups = grouped(found)
    yield f"<h2>{plural(len(groups), 'goal')}</h2>"
    yield table(("goal", "", "seconds", "attempts", "by"), (_goal(name, each) for name, each in groups.items()))


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
        yield table(("line", "row", "why"), ([str(r["line"]), escape(r["id"]), escape(r["why"])] for r in rows))
