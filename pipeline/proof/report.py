"""Results of a proof run: results.json, a CSV row for each goal, a page, and the proofs as a Lean file.

Made from the records of the search and of the last check alone, so that they come out the same however often they are
made. A proof that failed the last check counts as none. The page needs no file beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb
from typing import Any

from pipeline.core.text import duration, plural
from pipeline.goals.bank import Bank, Refusal, theorem_of
from pipeline.goals.lean_files import Proof
from pipeline.proof.records import FRONTIER, OPEN, PROVED, SampleRecord, SearchRecord
from pipeline.views.pages.charts import ChartLine, line_chart, stairs
from pipeline.views.pages.drawing import Scale, amount_scale, decades, html_page, html_table, html_text

Record = Mapping[str, Any]

COLUMNS = (
    "config_id", "sample", "status", "solved", "seconds", "attempts", "goal", "line", "difficulty", "strategy", "level",
    "category", "topic",
)  # fmt: skip
QUANTILES = (0.5, 0.9, 1.0)


def check_fields(wrong: str | None) -> dict[str, Any]:
    """The fields of a sample that the last check changes: a proof that did not pass it is none."""
    return {"status": OPEN, "why": f"not verified: {wrong}"} if wrong else {}


def with_check_results(records: Sequence[SampleRecord], checked: Mapping[str, str]) -> list[SampleRecord]:
    """The samples after the last check."""
    return [each._replace(**check_fields(checked.get(each.of.name))) for each in records]


def results_record(
    bank: Bank, search: SearchRecord, records: Sequence[SampleRecord], pass_at: Sequence[int]
) -> dict[str, Any]:
    """The record results.json; `records` has a record for each sample of each goal."""
    by_goal = group_by_goal(records)
    times = sorted(time for each in by_goal.values() if (time := time_to_proof(each)) is not None)
    return {
        "timestamp": search.timestamp,
        "goals_total": len(by_goal),
        "goals_processed": sum(all(one.status != FRONTIER for one in each) for each in by_goal.values()),
        "goals_solved": len(times),
        "strategies": strategy_counts(records, search.strategies),
        "config": search.config,
        "pass_at": {str(k): pass_at_k(by_goal.values(), k) for k in pass_at},
        "time_to_proof": {f"p{100 * q:g}": sorted_quantile(times, q) for q in QUANTILES},
        "seconds": search.seconds,
        "stopped": search.stopped,
        "samples": search.samples,
        "toolchain": search.toolchain,
        "goals_refused": len(bank.refused),
        # the different mistakes of workers that ended attempts, in the order in which they came up
        "raised": [*dict.fromkeys(each.error for one in records for each in one.attempts if each.raised)],
        "goals": [_goal_record(name, each) for name, each in by_goal.items()],
    }


def results_headline(results: Record) -> str:
    total, solved, half = results["goals_total"], results["goals_solved"], results["time_to_proof"]["p50"]
    often = f", half of them within {duration(half, 2)}" if half is not None else ""
    open_ = total - results["goals_processed"]
    left = f"; {open_} not tried to the end ({results['stopped']})" if open_ else ""
    mistaken = results["raised"]
    faults = f"; attempts were ended by mistakes in their workers: {mistaken[0]}" if mistaken else ""
    return f"{solved} of {plural(total, 'goal')} proved{often}{left}{faults}"


def group_by_goal(records: Iterable[SampleRecord]) -> dict[str, list[SampleRecord]]:
    """The samples of each goal."""
    groups: dict[str, list[SampleRecord]] = {}
    for each in records:
        groups.setdefault(each.of.goal.id, []).append(each)
    return groups


def strategy_counts(records: Iterable[SampleRecord], names: Iterable[str]) -> dict[str, dict[str, int]]:
    """Attempts of each strategy, and those of them whose proof holds."""
    counts = {name: {"used": 0, "succeeded": 0} for name in names}
    for each in records:
        for attempt in each.attempts:
            count = counts.setdefault(attempt.strategy, {"used": 0, "succeeded": 0})
            count["used"] += 1
            count["succeeded"] += attempt.success and each.is_proved
    return counts


def pass_at_k(goals: Iterable[Sequence[SampleRecord]], k: int) -> float | None:
    """The chance that one of `k` samples is a proof, without bias from there being more; the mean over all goals.

    A sample that was not made counts as one that failed."""
    chances = [1 - comb(sum(not one.is_proved for one in each), k) / comb(len(each), k) for each in goals]
    return round(sum(chances) / len(chances), 6) if chances else None


def best_sample(samples: Sequence[SampleRecord]) -> SampleRecord:
    """The first sample of a goal that has a proof, or else the first."""
    return next((one for one in samples if one.is_proved), samples[0])


def time_to_proof(samples: Sequence[SampleRecord]) -> float | None:
    """Seconds of attempts until the first proof, of the first sample that has one."""
    best = best_sample(samples)
    return best.seconds if best.is_proved else None


def sorted_quantile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest that at least this part of them does not exceed."""
    return ordered[max(0, -(-len(ordered) * round(100 * part) // 100) - 1)] if ordered else None


def _goal_record(name: str, samples: Sequence[SampleRecord]) -> dict[str, Any]:
    won = best_sample(samples)
    return {
        "id": name,
        "solved": won.is_proved,
        "proved": sum(one.is_proved for one in samples),
        "strategy": won.strategy,
        "seconds": time_to_proof(samples),
        "spent": round(sum(one.seconds for one in samples), 3),
        "attempts": sum(len(one.attempts) for one in samples),
    }


def results_csv(records: Iterable[SampleRecord]) -> str:
    """A row for each sample of each goal, such as `kind: tree` takes for the results of a sweep."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    numbers: dict[str, int] = {}
    for each in records:
        goal = each.of.goal
        # no more of it: a bank's own words may be called like a column
        topic = {name: goal.metadata.get(name, "") for name in ("category", "topic")}
        row = {"config_id": numbers.setdefault(goal.id, len(numbers)), **each.as_json(), **topic}
        status = "ok" if each.status != FRONTIER else "not tried to the end"
        writer.writerow({**row, "status": status, "solved": int(each.is_proved), "attempts": len(each.attempts)})
    return text.getvalue()


def proofs_of(records: Iterable[SampleRecord]) -> list[Proof]:
    """The proofs to be written as Lean, the first of each goal, in the order of the bank."""
    return [
        Proof(best.of.goal.id, theorem_of(best.of.goal), best.tactics, f"{best.strategy}, {best.seconds:.3g} s")
        for best in map(best_sample, group_by_goal(records).values())
        if best.is_proved
    ]


PAGE_STYLE = ".proved { color: var(--done); } .open, .frontier { color: var(--left); }"
CURVE_START = 0.01  # seconds, where the curve begins


def results_page(run: str, results: Record, bank: Bank, records: Sequence[SampleRecord]) -> str:
    parts = [
        *_figures_table(results),
        *_solved_curve(results),
        *_strategies_table(results),
        *_goals_table(records),
        *_refused_table(bank.refused),
    ]
    return html_page(f"{run}: {results_headline(results)}", parts, PAGE_STYLE)


def _figures_table(results: Record) -> Iterator[str]:
    """A line for each figure that is one number."""
    times = ", ".join(
        f"{name[1:]} % within {duration(seconds, 2)}"
        for name, seconds in results["time_to_proof"].items()
        if seconds is not None
    )
    chances = ", ".join(f"pass@{k} {chance:.3f}" for k, chance in results["pass_at"].items() if chance is not None)
    config: Record = results["config"]
    rows = [
        ("chance of a proof", chances or "-"),
        ("time to proof, of what was proved", times or "-"),
        ("the search took", duration(results["seconds"]) + (f", {results['stopped']}" if results["stopped"] else "")),
        ("Lean", results["toolchain"]),
        ("settings", ", ".join(f"{name} {'none' if value is None else value}" for name, value in config.items())),
        ("ended", f"{results['timestamp']} UTC"),
    ]
    yield html_table((), ([html_text(name), html_text(value)] for name, value in rows))


def _solved_curve(results: Record) -> Iterator[str]:
    """A curve of the goals proved within so many seconds of attempts, on a logarithmic scale."""
    times = sorted(each["seconds"] for each in results["goals"] if each["seconds"] is not None)
    if not times:
        return
    most, total = max(10.0, times[-1]), results["goals_total"]
    grown = [(seconds, float(solved)) for solved, seconds in enumerate(times, start=1)]
    across = Scale("seconds of attempts", CURVE_START, most, [*decades(CURVE_START, most)], logarithmic=True, unit=" s")
    yield "<h2>Proved within so many seconds</h2>"
    points = stairs(grown, CURVE_START, most)
    yield line_chart(
        "goals proved by seconds of attempts", across, amount_scale("goals", total), [ChartLine("proved", points)]
    )


def _strategies_table(results: Record) -> Iterator[str]:
    yield "<h2>Strategies</h2>"
    counts = results["strategies"].items()
    rows = ([html_text(name), str(count["used"]), str(count["succeeded"])] for name, count in counts)
    yield html_table(("strategy", "attempts", "proofs"), rows)


def _goals_table(records: Sequence[SampleRecord]) -> Iterator[str]:
    """A row for each goal, from the sample that has a proof, or else the first."""
    groups = group_by_goal(records)
    yield f"<h2>{plural(len(groups), 'goal')}</h2>"
    rows = (_goal_row(name, each) for name, each in groups.items())
    yield html_table(("goal", "", "seconds", "attempts", "by"), rows)


def _goal_row(name: str, samples: Sequence[SampleRecord]) -> list[str]:
    first = best_sample(samples)
    goal = first.of.goal
    statement = "\n".join([*goal.context, goal.text])
    below = "\n".join(first.tactics) if first.is_proved else first.why
    inside = "".join(f"<pre>{html_text(text)}</pre>" for text in (statement, below))
    opened = f"<details><summary>{html_text(name)}</summary>{inside}</details>"
    status = f'<span class="{first.status}">{_STATUS[first.status]}</span>'
    tried = str(sum(len(one.attempts) for one in samples))
    return [opened, status, f"{first.seconds:.2f}", tried, html_text(first.strategy or "-")]


_STATUS = {PROVED: "proved", OPEN: "not proved", FRONTIER: "not tried to the end"}


def _refused_table(refused: Sequence[Refusal]) -> Iterator[str]:
    if refused:
        yield f"<h2>{plural(len(refused), 'row')} of the bank not counted</h2>"
        rows = ([str(row.line), html_text(row.id), html_text(row.why)] for row in refused)
        yield html_table(("line", "row", "why"), rows)
