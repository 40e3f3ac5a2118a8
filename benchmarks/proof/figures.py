"""Tables and pictures of what the studies found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.proof.bernoulli import Curve
from benchmarks.proof.panels import Line, Panel, svg
from benchmarks.proof.recorded import Item
from benchmarks.proof.scheduler import Cost
from benchmarks.proof.splits import LIMITS, Found

BESIDE = ("by turns", "best fixed order", "any order", "who knows")  # who learns nothing, or knows too much
LOWEST = 0.7  # of the goals that can be proved: where a picture of the others begins
NAMES = {"recorded": "bench/bank.jsonl", "recorded-dev": "118 goals by others"}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def regret_table(found: Mapping[str, Mapping[str, Curve]], what: str) -> str:
    """At the end, with half of the 95 % interval."""
    names = [*next(iter(found.values()))]
    rows = [
        [title, *(f"{of[name][-1][1]:.0f} ± {of[name][-1][2]:.0f}" for name in names)] for title, of in found.items()
    ]
    return table([what, *names], rows)


def regret_svg(found: Mapping[str, Mapping[str, Curve]]) -> str:
    panels = []
    for title, of in found.items():
        lines = {name: Line(points, name in BESIDE) for name, points in of.items()}
        panels.append(Panel(title, lines))
    return svg(panels, 3, "attempts, or goals; upwards: what was lost")


def arms_table(items: Sequence[Item]) -> str:
    rows = []
    for arm in items[0].tried:
        won = [each.seconds for item in items if (each := item.tried[arm]).success]
        lost = [each.seconds for item in items if not (each := item.tried[arm]).success]
        rows.append([f"`{arm}`", len(won), _mean(won), _mean(lost)])
    either = sum(item.provable for item in items)
    return table(
        [f"arm, of {len(items)} goals", "proves", "CPU s each", "CPU s where it fails"],
        [*rows, ["any", either, "", ""]],
    )


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else ""


def kinds_table(found: Mapping[str, Found]) -> str:
    head = ["", "CPU s to a proof", *(f"within {limit:g} s" for limit in LIMITS)]
    rows = [
        [name, f"{of.seconds.mean:.2f} ± {of.seconds.half:.2f}", *(f"{of.within[limit].mean:.1f}" for limit in LIMITS)]
        for name, of in found.items()
    ]
    return table(head, rows)


def kinds_svg(found: Mapping[str, Mapping[str, Found]]) -> str:
    panels = []
    for key, of in found.items():
        lines = {name: Line([(at, count, 0.0) for at, count in one.curve], name in BESIDE) for name, one in of.items()}
        most = max(count for one in of.values() for _, count in one.curve)
        panels.append(Panel(key, lines, floor=round(LOWEST * most), most=most))
    return svg(panels, 2, "CPU seconds for each goal; upwards: goals proved")


def scheduler_table(found: Mapping[str, Mapping[int, Cost]]) -> str:
    head = ["bandit", "strategies", "add, ms", "decision, ms", "99 %", "slowest", "with journal"]
    rows = [
        [f"`{name}`", arms, *(f"{value:.3f}" for value in one)]
        for name, of in found.items()
        for arms, one in of.items()
    ]
    return table(head, rows)
