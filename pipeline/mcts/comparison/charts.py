"""The pictures of a comparison.  The marks and colours of a scenario are the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.banks.pages.charts import Line, Mark, chart, stairs
from pipeline.banks.pages.rows import Row, rows_chart
from pipeline.banks.pages.scales import Scale, amounts, parts, shares
from pipeline.mcts.comparison.intervals import Estimate
from pipeline.mcts.comparison.searches import Record
from pipeline.mcts.comparison.wording import amount, interval, points, share, told


def solved_chart(comparison: Record) -> str:
    seeds = len(comparison["seeds"])
    figures = {name: each["share"] for name, each in comparison["scenarios"].items()}
    rows = [
        _row(name, look, each, f"{name}: {told(each, share, seeds)}")
        for look, (name, each) in enumerate(figures.items())
    ]
    return rows_chart("share of goals solved, by scenario", shares("share of goals solved"), rows)


def differences_chart(comparison: Record) -> str:
    looks = {name: look for look, name in enumerate(comparison["scenarios"])}
    figures = {name: each["difference"] for name, each in comparison["paired"].items()}
    seeds = len(comparison["seeds"])
    rows = [_row(name, looks[name], each, f"{name}: {told(each, points, seeds)}") for name, each in figures.items()]
    title = f"difference to {comparison['first']} in the share of goals solved"
    low, high = _ends(list(figures.values()))
    return rows_chart(title, parts(title, min(low, -0.1), max(high, 0.1)), rows)


def within_chart(comparison: Record) -> str:
    within, seeds = comparison["within"], len(comparison["seeds"])
    at = within["at"]
    lines = [
        Line(
            name,
            stairs(within["steps"][name], at[0], at[-1]),
            [
                Mark(calls, each["mean"], interval(each), f"{name}, {calls} calls: {told(each, share, seeds)}")
                for calls, each in zip(at, within["shares"][name], strict=True)
                if each["mean"]
            ],
        )
        for name in comparison["scenarios"]
    ]
    across = Scale("calls", at[0], max(at[-1], 10 * at[0]), at, logarithmic=True)
    return chart("share of goals solved within so many calls", across, shares("share solved"), lines)


def robustness_chart(comparison: Record) -> str:
    return _along(comparison, "share", shares("share solved"))


def spent_chart(comparison: Record) -> str:
    every = [point["calls"] for on_it in comparison["robustness"].values() for point in on_it]
    return _along(comparison, "calls", amounts("calls for a goal", _ends(every)[1]))


def _along(comparison: Record, figure: str, up: Scale) -> str:
    write, seeds = share if figure == "share" else amount, len(comparison["seeds"])
    lines = []
    for name, on_it in comparison["robustness"].items():
        known = [(point["fraction"], point["scenario"], point[figure]) for point in on_it]
        marks = [
            Mark(at, each["mean"], interval(each), f"{scenario}: {told(each, write, seeds)}")
            for at, scenario, each in known
            if each["mean"] is not None
        ]
        lines.append(Line(name, [(one.x, one.y) for one in marks], marks))
    most = max(point["fraction"] for on_it in comparison["robustness"].values() for point in on_it)
    return chart(f"{up.title}, by the fraction of goals blocked", parts("goals blocked", 0.0, most), up, lines)


def _row(name: str, look: int, each: Estimate, words: str) -> Row:
    return Row(name, look, each["mean"], interval(each), [*each["of"].values()], words)


def _ends(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Of all that is drawn of them."""
    every = [each[what] for each in estimates for what in ("mean", "low", "high") if each[what] is not None]
    every += [value for each in estimates for value in each["of"].values()]
    return min(every), max(every)
