"""Results of a proof run: results.json, a CSV row for each goal, a page, and the proofs as a Lean file.

Made from the records of the search and of the last check alone, so that they come out the same however often they are
made. A proof that failed the last check counts as none. The page needs no file beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb
from typing import Any, NamedTuple, TypeVar

from pipeline.core.projection import Block, Code, Column, Picture, Row, Table, Text
from pipeline.core.text import BLANK, duration, plural
from pipeline.errors import cut_text
from pipeline.goals.bank import Bank, Refusal, theorem_of
from pipeline.goals.lean_files import Proof
from pipeline.proof.records import FOUND, FRONTIER, OPEN, PROVED, AttemptRecord, SampleRecord, SearchRecord
from pipeline.views.blocks import facts_table
from pipeline.views.pages.charts import ChartLine, ChartMark, line_chart, stairs
from pipeline.views.pages.drawing import Scale, amount_scale, blocks_html, decades, html_page

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
    """The first sample of a goal that has a proof, checked or not yet, or else the first."""
    return next((one for one in samples if one.has_script), samples[0])


def time_to_proof(samples: Sequence[SampleRecord]) -> float | None:
    """Seconds of attempts until the first proof, of the first sample that has one."""
    best = best_sample(samples)
    return best.seconds if best.has_script else None


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


# --- Blocks, of which the page of results and the views of the run are made.

CURVE_START = 0.01  # seconds, where the curve begins
MOST_POINTS = 240
# How a goal stands, by a word of STATUSES and in words.
STANDINGS = {
    PROVED: ("proved", "proved"),
    FOUND: ("waiting", "found, not yet checked"),
    OPEN: ("open", "not proved"),
    FRONTIER: ("queued", "not tried to the end"),
}


class Trying(NamedTuple):
    """An attempt as it ended, in the order of the search."""

    strategy: str
    goal: str
    success: bool


def results_page(run: str, results: Record, bank: Bank, records: Sequence[SampleRecord]) -> str:
    groups = group_by_goal(records)
    blocks: list[Block] = [
        facts_block(results),
        *solved_curve(records),
        strategies_block(results["strategies"]),
        goals_block(records),
        *refused_block(bank.refused),
    ]
    parts = blocks_html(blocks, {name: [*goal_blocks(samples)] for name, samples in groups.items()})
    return html_page(f"{run}: {results_headline(results)}", parts, "")


def facts_block(results: Record) -> Table:
    """A line for each figure that is one number, and the settings."""
    times = ", ".join(
        f"{name[1:]} % within {duration(seconds, 2)}"
        for name, seconds in results["time_to_proof"].items()
        if seconds is not None
    )
    chances = ", ".join(f"pass@{k} {chance:.3f}" for k, chance in results["pass_at"].items() if chance is not None)
    config: Record = results["config"]
    facts = {
        "chance of a proof": chances or BLANK,
        "time to proof, of what was proved": times or BLANK,
        "the search took": duration(results["seconds"]) + (f", {results['stopped']}" if results["stopped"] else ""),
        "Lean": results["toolchain"],
        "settings": ", ".join(f"{name} {'none' if value is None else value}" for name, value in config.items()),
        "ended": f"{results['timestamp']} UTC",
    }
    return facts_table("search", "The search", facts)


def solved_curve(records: Sequence[SampleRecord]) -> Iterator[Picture]:
    """A curve of the goals proved within so many seconds of attempts, on a logarithmic scale."""
    groups = group_by_goal(records)
    times = sorted(time for each in groups.values() if (time := time_to_proof(each)) is not None)
    if not times:
        return
    is_checked = all(each.status != FOUND for each in records)
    word = "proved" if is_checked else "found"
    most, total = max(10.0, times[-1]), len(groups)
    grown = [(seconds, float(solved)) for solved, seconds in enumerate(times, start=1)]
    across = Scale("seconds of attempts", CURVE_START, most, [*decades(CURVE_START, most)], logarithmic=True, unit=" s")
    points = stairs(thin_out(grown, MOST_POINTS), CURVE_START, most)
    sentence = (
        f"{len(times)} of {plural(total, 'goal')} {word}, half of them within "
        f"{duration(sorted_quantile(times, 0.5) or 0.0, 2)} of attempts; the steeper to the left, the better."
    )
    sentence += "" if is_checked else " What was found is not checked yet."
    svg = line_chart(f"goals {word} by seconds of attempts", across, amount_scale("goals", total),
                     [ChartLine(word, points)])  # fmt: skip
    yield Picture("curve", f"{word.capitalize()} within so many seconds", sentence, svg)


T = TypeVar("T")


def thin_out(points: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly, the last one among them."""
    every = -(-len(points) // most) or 1
    return [*points[-1::-every]][::-1]


def strategies_block(counts: Mapping[str, Mapping[str, int]], is_checked: bool = True) -> Table:
    """Attempts and proofs by strategy; `is_checked`: the last check has decided what a proof is."""
    rows = []
    for name, count in counts.items():
        share = f"{100 * count['succeeded'] / count['used']:.0f} %" if count["used"] and is_checked else BLANK
        rows.append(Row([name, str(count["used"]), str(count["succeeded"]) if is_checked else BLANK, share]))
    columns = [Column("strategy"), Column("attempts", True), Column("proofs", True, better="higher")]
    sentence = "Share: of its attempts, those whose proof holds. A strategy that is asked last gets what is hard."
    return Table("strategies", "Strategies", sentence, [*columns, Column("share", True)], rows)


def goals_block(records: Sequence[SampleRecord]) -> Table:
    """A row for each goal, from the sample that has a proof, or else the first."""
    groups = group_by_goal(records)
    rows = [_goal_row(name, each) for name, each in groups.items()]
    columns = [Column("goal"), Column("stands"), Column("seconds", True, better="lower"), Column("attempts", True)]
    sentence = "Seconds are those of attempts, up to the proof where there is one."
    columns += [Column("by"), Column("level", True), Column("why not")]
    return Table("goals", plural(len(groups), "goal"), sentence, columns, rows)


def _goal_row(name: str, samples: Sequence[SampleRecord]) -> Row:
    best = best_sample(samples)
    status, words = STANDINGS[best.status]
    tried = sum(len(one.attempts) for one in samples)
    took, level = (f"{best.seconds:.2f}", str(best.level)) if best.attempts else (BLANK, BLANK)
    why = "" if best.has_script else cut_text(best.why)
    return Row([name, words, took, str(tried), best.strategy or BLANK, level, why or BLANK], name, status)


def goal_blocks(samples: Sequence[SampleRecord]) -> Iterator[Block]:
    """Details of a goal: its statement, and of each sample the proof, or why there is none, and its attempts."""
    goal = samples[0].of.goal
    yield Code("statement", "Statement", "\n".join([*goal.context, goal.text]), "lean")
    for each in samples:
        number = f" of sample {each.of.number}" if len(samples) > 1 else ""
        mark = f"-{each.of.number}" if len(samples) > 1 else ""
        if each.has_script:
            unsure = "" if each.is_proved else ", not yet checked"
            yield Code(f"proof{mark}", f"Proof{number}{unsure}", "\n".join(each.tactics), "lean")
        else:
            yield Text(f"proof{mark}", f"No proof{number}", each.why or STANDINGS[each.status][1])
        yield _attempts_block(f"attempts{mark}", f"Attempts{number}", each.attempts)


def _attempts_block(name: str, title: str, attempts: Sequence[AttemptRecord]) -> Table:
    rows = [
        Row(
            [each.strategy, str(each.level), duration(each.budget), duration(each.seconds, 2),
             "found a proof" if each.success else cut_text(each.error) or "failed", "yes" if each.recalled else "no"],
            status="done" if each.success else "failed",
        )
        for each in attempts
    ]  # fmt: skip
    columns = [Column("strategy"), Column("level", True), Column("budget", True), Column("took", True)]
    return Table(name, title, "", [*columns, Column("ended"), Column("recalled")], rows)


def refused_block(refused: Sequence[Refusal]) -> Iterator[Table]:
    if refused:
        rows = [Row([str(row.line), row.id or BLANK, row.why], status="refused") for row in refused]
        columns = [Column("line", True), Column("row"), Column("why")]
        yield Table("refused", f"{plural(len(refused), 'row')} of the bank not counted", "", columns, rows)


def bandit_picture(tried: Sequence[Trying], names: Sequence[str]) -> Iterator[Picture]:
    """How often each strategy was asked as the search went on, with a mark at each proof that it found."""
    if not tried:
        return
    shown = [*dict.fromkeys((*names, *(each.strategy for each in tried)))]
    counts = dict.fromkeys(shown, 0)
    points: dict[str, list[tuple[float, float]]] = {name: [(0.0, 0.0)] for name in shown}
    marks: dict[str, list[ChartMark]] = {name: [] for name in shown}
    for x, each in enumerate(tried, 1):
        counts[each.strategy] += 1
        place = float(x), float(counts[each.strategy])
        points[each.strategy].append(place)
        if each.success:
            marks[each.strategy].append(ChartMark(*place, None, f"{each.strategy}: {each.goal}", each.goal))
    used = [name for name in shown if counts[name]]
    lines = [
        ChartLine(
            name,
            [*thin_out(points[name], MOST_POINTS), (float(len(tried)), float(counts[name]))],
            thin_out(marks[name], MOST_POINTS // len(used)) if marks[name] else (),
        )
        for name in used
    ]
    told = "; ".join(f"{name} {counts[name]}, {len(marks[name])} of them with a proof" for name in used)
    left = " Not all marks are drawn." if any(len(line.marks) < len(marks[line.name]) for line in lines) else ""
    sentence = f"Attempts by strategy over {plural(len(tried), 'attempt')}, with marks where one found a proof: {told}."
    up = amount_scale("attempts of the strategy", max(counts.values()))
    svg = line_chart("attempts by strategy", amount_scale("attempts", len(tried)), up, lines)
    yield Picture("bandit", "How strategies were chosen", sentence + left, svg)
