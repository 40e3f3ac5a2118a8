"""The comparison of a run's scenarios as blocks, and as comparison.html, which needs no file beside it.

The marks and colours of a scenario are the same in all charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.projection import Block as ViewBlock
from pipeline.core.projection import Column, Picture, Row, Table, Text
from pipeline.core.text import BLANK, plural
from pipeline.mcts.report.compare import comparison_headline
from pipeline.mcts.report.figures import COSTS, OUTCOMES, Estimate
from pipeline.mcts.search.agents import Block, ReservationRules
from pipeline.mcts.search.journal import REAL_TIME
from pipeline.mcts.spec.model import BLOCK_FIELDS, DELAY_FIELDS, STEERING_FIELDS
from pipeline.views.pages.charts import ChartLine, ChartMark, ChartRow, line_chart, rows_chart, stairs
from pipeline.views.pages.drawing import (
    Scale,
    amount_scale,
    blocks_html,
    difference_scale,
    html_page,
    share_scale,
)

# comparison.json, as it was made or read again.
Comparison = Mapping[str, Any]
Write = Callable[[float], str]
Head = Sequence[Column | str]

MOST_LISTED = 20  # goals in a list; all are in comparison.json
SEEDLESS = "With one seed nothing is known of what another would give: there are no intervals."
INTERVALS = (
    "Intervals hold 95 % over seeds, by Student's t from one value for each seed, cut off where no such number can be. "
    "They say what other seeds would give on the same goals, and nothing of other goals."
)


def comparison_page(run: str, comparison: Comparison) -> str:
    return html_page(f"{run}: {comparison_headline(comparison)}", blocks_html(comparison_blocks(comparison)), "")


def comparison_blocks(comparison: Comparison) -> Iterator[ViewBlock]:
    """The comparison as blocks, of which its page and the views of the run are made."""
    about_goals = (
        _solved_section, _paired_section, _within_section, _effort_section,
        _robustness_section, _iterations_section, _outcomes_section, _goals_section,
    )  # fmt: skip
    sections = (_about_section, *(about_goals if comparison["goals"] else ()), _settings_section, _refused_section)
    for section in sections:
        yield from section(comparison)


def _cell(comparison: Comparison, estimate: Estimate, write: Write) -> str:
    return " ".join(estimate_parts(estimate, write, len(comparison["seeds"]))).strip()


def _mark(comparison: Comparison, x: float, label: str, estimate: Estimate, write: Write) -> ChartMark:
    if estimate["mean"] is None:
        raise ValueError(f"{label}: there is no figure to draw")
    return ChartMark(x, estimate["mean"], interval_ends(estimate), f"{label}: {_cell(comparison, estimate, write)}")


def _figure_range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Range of everything that is drawn of them."""
    ends = [end for each in estimates for end in (each["mean"], each["low"], each["high"]) if end is not None]
    every = [*ends, *(value for each in estimates for value in each["of"].values())]
    return min(every), max(every)


def _rows_chart(
    comparison: Comparison, across: Scale, title: str, estimates: Mapping[str, Estimate], write: Write
) -> str:
    looks = [*comparison["scenarios"]]
    rows = []
    for name, each in estimates.items():
        mark = _mark(comparison, 0.0, name, each, write)
        rows.append(ChartRow(name, looks.index(name), mark.y, mark.interval, [*each["of"].values()], mark.tooltip))
    return rows_chart(title, across, rows)


def _table(name: str, title: str, sentence: str, head: Head, rows: Iterable[Sequence[str]]) -> Table:
    columns = [each if isinstance(each, Column) else Column(each) for each in head]
    return Table(name, title, sentence, columns, [Row(row) for row in rows])


def _about_section(comparison: Comparison) -> Iterator[ViewBlock]:
    spent = ", ".join(f"{number} {what}" for what, number in comparison["budget"].items() if number is not None)
    seeds = ", ".join(map(str, comparison["seeds"]))
    said = [f"Each search may spend {spent}; seeds: {seeds or BLANK}.", "Only proofs that held when checked count."]
    said.append(SEEDLESS if len(comparison["seeds"]) == 1 else INTERVALS)
    lean = comparison["lean"]
    origin = f"Lean: {lean['version']} ({lean['backend']}); bank: {comparison['bank']}; "
    yield Text("about", "About", f"{' '.join(said)}\n\n{origin}{settings_line(comparison['shared'])}.")


def _solved_section(comparison: Comparison) -> Iterator[ViewBlock]:
    every = comparison["scenarios"].items()
    shares = {name: each["share"] for name, each in every}
    title = "share of goals solved"
    yield Picture(
        "solved",
        "Solved",
        "The mean over seeds and its interval, which has no width where all seeds are alike. "
        "Below, a ring for each seed; equal ones lie on each other. More is better.",
        _rows_chart(comparison, share_scale(title), f"{title}, by scenario", shares, format_share),
    )
    rows = (
        [name, ", ".join(map(str, each["solved"].values())), _cell(comparison, each["share"], format_share)]
        for name, each in every
    )
    head = f"of {plural(len(comparison['goals']), 'goal')}, with each seed"
    share = Column("share solved (interval)", better="higher")
    yield _table("solved-by", "Solved, by scenario", "", ("scenario", head, share), rows)


def _paired_section(comparison: Comparison) -> Iterator[ViewBlock]:
    paired, first = comparison["paired"], comparison["first"]
    if not paired:
        return
    differences = {name: each["difference"] for name, each in paired.items()}
    title = f"difference to {first} in the share of goals solved"
    low, high = _figure_range([*differences.values()])
    scale = difference_scale(title, min(low, -0.1), max(high, 0.1))
    yield Picture(
        "paired",
        f"Against {first}",
        "Goal by goal and seed by seed; above 0 is better than it. Where the interval holds 0, the seeds do not tell "
        "the two apart.",
        _rows_chart(comparison, scale, title, differences, format_points),
    )
    rows, alone = [], []
    for name, each in paired.items():
        here, there = each["only_here"], each["only_there"]
        counts = map(str, (each["both"], len(here), len(there), each["neither"]))
        difference = _cell(comparison, each["difference"], format_points)
        rows.append([name, difference, *counts, _cell(comparison, each["calls_ratio"], format_ratio)])
        alone.append([name, _goal_list(here), _goal_list(there)])
    counted = (Column(each, True) for each in ("both", "only this", f"only {first}", "neither"))
    head: Head = ("scenario", "difference, percentage points (interval)", *counted)
    ratio = "calls where both solved, as a ratio (interval)"
    yield _table("paired-by", f"Against {first}, by scenario", "", (*head, Column(ratio, better="lower")), rows)
    yield _table(
        "alone", "Goals that only one of the two solved", "", ("scenario", "only this", f"only {first}"), alone
    )


def _goal_list(solved: Sequence[Mapping[str, Any]]) -> str:
    """Each with its seeds."""
    seeds: dict[str, list[str]] = {}
    for each in solved:
        seeds.setdefault(each["goal"], []).append(str(each["seed"]))
    listed = [f"{goal} (seed {', '.join(some)})" for goal, some in seeds.items()]
    more = [f"and {len(listed) - MOST_LISTED} more in comparison.json"] if len(listed) > MOST_LISTED else []
    return "; ".join([*listed[:MOST_LISTED], *more]) or BLANK


def _within_section(comparison: Comparison) -> Iterator[ViewBlock]:
    at, every, steps = (comparison["within"][what] for what in ("at", "shares", "steps"))
    if not any(steps.values()):
        return
    lines = []
    for name, shares in every.items():
        marks = [
            _mark(comparison, calls, f"{name}, {calls} calls", each, format_share)
            for calls, each in zip(at, shares, strict=True)
            if each["mean"]
        ]
        lines.append(ChartLine(name, stairs(steps[name], at[0], at[-1]), marks))
    across = Scale("calls", at[0], max(at[-1], 10 * at[0]), at, logarithmic=True)
    yield Picture(
        "within",
        "Solved within so many calls",
        "The steps are of all seeds together; marks with intervals stand side by side where the table has a column. "
        "A call is one tactic run by Lean. Higher and further to the left is better.",
        line_chart("share of goals solved within so many calls", across, share_scale("share solved"), lines),
    )
    rows = ([name, *(_cell(comparison, each, format_share) for each in some)] for name, some in every.items())
    head = ("scenario", *(plural(calls, "call") for calls in at))
    yield _table("within-by", "Solved within so many calls, by scenario", "", head, rows)


def _effort_section(comparison: Comparison) -> Iterator[ViewBlock]:
    rows = []
    for name, each in comparison["scenarios"].items():
        cells = [name]
        for proofs in (each["to_proof"][what] for what in COSTS):
            median = BLANK if proofs["median"] is None else format_amount(proofs["median"])
            cells += [median, _cell(comparison, proofs["mean"], format_amount)]
        others = (*(each["spent"][what] for what in COSTS), each["calls_per_proof"])
        rows.append([*cells, *(_cell(comparison, estimate, format_amount) for estimate in others)])
    head = [f"{what} up to the proof: {which}" for what in COSTS for which in ("median", "mean")]
    head += [f"{what} for a goal" for what in COSTS]
    sentence = (
        "Up to the proof: of goals that were solved alone, which flatters a scenario that solves only what is easy. "
        "For a goal: solved or not, all that its search spent; one that is hindered or at a dead end may spend little. "
        "For a proof: all calls of a seed, those for goals that were not solved too, for each proof. Less is better."
    )
    yield _table("effort", "What it took", sentence, ("scenario", *head, "calls for a proof"), rows)


def _robustness_section(comparison: Comparison) -> Iterator[ViewBlock]:
    points = [(line, one) for line, on_it in comparison["robustness"].items() for one in on_it]
    if not points:
        return
    _, most = _figure_range([one["calls"] for _, one in points])
    alike = "On a line are scenarios that differ in nothing but the fraction of goals that is blocked."
    share = _robustness_chart(comparison, "share", share_scale("share solved"), format_share)
    said = f"{alike} Marks of several lines at the same fraction stand side by side."
    yield Picture("robustness", "Robustness", said, share)
    calls = _robustness_chart(comparison, "calls", amount_scale("calls for a goal", most), format_amount)
    yield Picture("robustness-calls", "Robustness: calls", "All that was spent for a goal, solved or not.", calls)
    rows = []
    for line, one in points:
        figures = [_cell(comparison, one["share"], format_share), _cell(comparison, one["calls"], format_amount)]
        rows.append([line, f"{100 * one['fraction']:g} %", one["scenario"], *figures])
    head: Head = ("line", Column("blocked", True), "scenario", "share solved (interval)", "calls for a goal (interval)")
    yield _table("robustness-by", "Robustness, by scenario", alike, head, rows)


def _robustness_chart(comparison: Comparison, figure: str, up: Scale, write: Write) -> str:
    lines = []
    for name, on_it in comparison["robustness"].items():
        marks = [
            _mark(comparison, one["fraction"], one["scenario"], one[figure], write)
            for one in on_it
            if one[figure]["mean"] is not None
        ]
        lines.append(ChartLine(name, [(each.x, each.y) for each in marks], marks))
    most = max(one["fraction"] for on_it in comparison["robustness"].values() for one in on_it)
    across = difference_scale("goals blocked", 0.0, most)
    return line_chart(f"{up.title}, by the fraction of goals blocked", across, up, lines)


def _iterations_section(comparison: Comparison) -> Iterator[ViewBlock]:
    """Section of iterations, without empty columns."""
    uses: dict[str, dict[str, Estimate]] = {}
    for name, each in comparison["scenarios"].items():
        spent = each["iterations"]
        uses[name] = {"blocked, delayed or idle": spent["nothing"], "idle": spent["idle"], **spent["reasons"]}
    columns = [title for title in next(iter(uses.values())) if any(each[title]["mean"] for each in uses.values())]
    sentence = (
        "As shares of all iterations of a seed. blocked, delayed or idle: what was spent on nothing. "
        "idle: there was nothing to do for the agent; part of no_expansion, the rest of which tried tactics in vain."
    )
    rows = ([name, *(_cell(comparison, each[title], format_share) for title in columns)] for name, each in uses.items())
    yield _table("iterations", "Where iterations went", sentence, ("scenario", *columns), rows)


def _outcomes_section(comparison: Comparison) -> Iterator[ViewBlock]:
    sentence = (
        "open: the budget was spent. dead: no tactic was left to try. "
        "unverified: what was found did not hold. Only solved counts as solved; all count."
    )
    every = comparison["scenarios"].items()
    rows = ([name, *(str(each["outcomes"][what]) for what in OUTCOMES)] for name, each in every)
    head: Head = ("scenario", *(Column(each, True) for each in OUTCOMES))
    yield _table("outcomes", "How searches ended", sentence, head, rows)
    keys = ("goal", "seed", "outcome", "error")
    wrong = [[name, *(str(one[key]) for key in keys)] for name, each in every for one in each["wrong"]]
    if wrong:
        columns = ("scenario", "goal", "seed", "outcome", "what was wrong")
        yield _table("wrong", "What did not hold", "Nothing of this counts as solved.", columns, wrong)


def _goals_section(comparison: Comparison) -> Iterator[ViewBlock]:
    """Section of goals; those that nobody solved come first."""
    by_goal, seeds = comparison["by_goal"], len(comparison["seeds"])
    never = sum(not any(each.values()) for each in by_goal.values())
    sentence = f"With how many of the seeds each was solved. Those that nobody solved come first: {never}."
    ordered = sorted(by_goal.items(), key=lambda goal: any(goal[1].values()))  # else as they are
    rows = [
        Row(
            [name, *(f"{len(some)} of {seeds}" for some in each.values())],
            goal_item(name),
            "proved" if any(each.values()) else "open",
        )
        for name, each in ordered
    ]
    yield Table("goals", "Goals", sentence, [Column("goal"), *map(Column, comparison["scenarios"])], rows)


def goal_item(goal: str) -> str:
    """The item of a goal is the name of the target that checks it."""
    return f"goal.{goal}"


def _settings_section(comparison: Comparison) -> Iterator[ViewBlock]:
    every = comparison["scenarios"].items()
    rows = ([name, settings_line(spec_settings(each["settings"]))] for name, each in every)
    sentence = "As a spec would have them; what is not said is as it is by default."
    yield _table("scenarios", "Scenarios", sentence, ("scenario", "settings"), rows)


def _refused_section(comparison: Comparison) -> Iterator[ViewBlock]:
    return refused_block([(each["goal"], each["error"]) for each in comparison["refused"]])


def refused_block(refused: Sequence[tuple[str, str]]) -> Iterator[ViewBlock]:
    """Rows that count nowhere, with why; nothing where there are none."""
    if refused:
        rows = [Row(pair, status="refused") for pair in refused]
        title = f"{plural(len(refused), 'row')} of the bank not counted"
        yield Table("refused", title, "", [Column("row"), Column("why")], rows)


def format_share(number: float) -> str:
    return f"{100 * number:.1f} %"


def format_points(number: float) -> str:
    """Format percentage points."""
    return f"{100 * number:+.1f}"


def format_amount(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def format_ratio(number: float) -> str:
    return f"{number:.3g}"


def estimate_parts(estimate: Estimate, write: Write, seeds: int) -> tuple[str, str]:
    """The mean, and in brackets how far to trust it: one that lacks some of the seeds says so."""
    if estimate["mean"] is None:
        return BLANK, ""
    interval = "one seed"
    if ends := interval_ends(estimate):
        interval = "all seeds alike" if estimate["same"] else " to ".join(map(write, ends))
    lacking = f"; {len(estimate['of'])} of {seeds} seeds" if len(estimate["of"]) < seeds else ""
    return write(estimate["mean"]), f"({interval}{lacking})"


def interval_ends(estimate: Estimate) -> tuple[float, float] | None:
    low, high = estimate["low"], estimate["high"]
    return None if low is None or high is None else (low, high)


Settings = Mapping[str, Any]

# A seed is there only if it was given.
_BLOCK_DEFAULTS = {field: value for field, value in Block()._asdict().items() if field != "seed"}


def settings_line(values: Settings) -> str:
    """Settings in the words of a spec, on one line."""
    return ", ".join(f"{key}: {_value_text(value)}" for key, value in values.items())


def spec_settings(settings: Settings) -> dict[str, Any]:
    """Settings by their keys in a spec."""
    found = {"mode": settings["mode"], **_changed_settings(settings, STEERING_FIELDS, ReservationRules._field_defaults)}
    block, delay = settings.get("block", {}), settings.get("delay", {})
    if settings.get("time") == REAL_TIME:
        found["deterministic_inference"] = False
    if block.get("fraction"):
        found["block"] = _changed_settings(block, BLOCK_FIELDS, _BLOCK_DEFAULTS)
    if settings.get("reroute"):
        found["reroute"] = {"blocked": True, "max": settings["reroute"]}
    if delay.get("prob"):
        found["delay"] = _changed_settings(delay, DELAY_FIELDS, {})
    return found


def _changed_settings(settings: Settings, fields: Mapping[str, str], defaults: Settings) -> dict[str, Any]:
    changed = {field for field, value in settings.items() if value != defaults.get(field)}
    return {key: settings[field] for key, field in fields.items() if field in changed}


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{settings_line(value)}}}"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
