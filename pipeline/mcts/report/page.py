"""comparison.html: the scenarios of a run as one page with tables and charts, which needs no file beside it.

The marks and colours of a scenario are the same in all charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from pipeline.core.text import plural
from pipeline.mcts.report.compare import comparison_headline
from pipeline.mcts.report.figures import OUTCOMES, Estimate, Record
from pipeline.mcts.report.wording import (
    NONE,
    estimate_parts,
    estimate_text,
    format_amount,
    format_points,
    format_ratio,
    format_share,
    interval_ends,
    settings_line,
    spec_settings,
)
from pipeline.views.pages.charts import ChartLine, ChartMark, ChartRow, line_chart, rows_chart, stairs
from pipeline.views.pages.drawing import Scale, amount_scale, difference_scale, html_page, html_table, share_scale


def note_line(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>'


def estimate_cell(comparison: Record, estimate: Estimate, write: Callable[[float], str]) -> str:
    mean, trust = estimate_parts(estimate, write, len(comparison["seeds"]))
    return f"{escape(mean)} <small>{escape(trust)}</small>"


def effort_section(comparison: Record) -> Iterator[str]:
    yield "<h2>What it took</h2>"
    yield note_line(
        "Up to the proof: of goals that were solved alone, which flatters a scenario that solves only what is easy. "
        "For a goal: solved or not, all that its search spent; one that is hindered or at a dead end may spend little. "
        "For a proof: all calls of a seed, those for goals that were not solved too, for each proof."
    )
    head = ["scenario"]
    head += [f"{what} up to the proof: {which}" for what in ("iterations", "calls") for which in ("median", "mean")]
    rows = ([escape(name), *_effort_cells(comparison, each)] for name, each in comparison["scenarios"].items())
    yield html_table((*head, "iterations for a goal", "calls for a goal", "calls for a proof"), rows)


def _effort_cells(comparison: Record, each: Record) -> Iterator[str]:
    for what in ("iterations", "calls"):
        middle = each["to_proof"][what]["median"]
        yield NONE if middle is None else format_amount(middle)
        yield estimate_cell(comparison, each["to_proof"][what]["mean"], format_amount)
    for estimate in (each["spent"]["iterations"], each["spent"]["calls"], each["calls_per_proof"]):
        yield estimate_cell(comparison, estimate, format_amount)


def iterations_section(comparison: Record) -> Iterator[str]:
    """Section of iterations, without empty columns."""
    every = comparison["scenarios"]
    spent: dict[str, Mapping[str, Estimate]] = {
        title: {name: each["iterations"][what] for name, each in every.items()}
        for title, what in (("blocked, delayed or idle", "nothing"), ("idle", "idle"))
    }
    for reason in next(iter(every.values()))["iterations"]["reasons"]:
        spent[reason] = {name: each["iterations"]["reasons"][reason] for name, each in every.items()}
    columns = {title: part for title, part in spent.items() if any(each["mean"] for each in part.values())}
    yield "<h2>Where iterations went</h2>"
    yield note_line(
        "As shares of all iterations of a seed. blocked, delayed or idle: what was spent on nothing. "
        "idle: there was nothing to do for the agent; part of no_expansion, the rest of which tried tactics in vain."
    )
    rows = (
        [escape(name), *(estimate_cell(comparison, part[name], format_share) for part in columns.values())]
        for name in every
    )
    yield html_table(("scenario", *map(escape, columns)), rows)


def outcomes_section(comparison: Record) -> Iterator[str]:
    yield "<h2>How searches ended</h2>"
    yield note_line(
        "open: the budget was spent. dead: no tactic was left to try. "
        "unverified: what was found did not hold. Only solved counts as solved; all count."
    )
    every = comparison["scenarios"].items()
    rows = ([escape(name), *(str(each["outcomes"][what]) for what in OUTCOMES)] for name, each in every)
    yield html_table(("scenario", *OUTCOMES), rows, range(1, 1 + len(OUTCOMES)))
    wrong = [(name, one) for name, each in every for one in each["wrong"]]
    if wrong:
        rows = (
            [escape(name), *(escape(str(one[what])) for what in ("goal", "seed", "outcome", "error"))]
            for name, one in wrong
        )
        yield html_table(("scenario", "goal", "seed", "", "what was wrong"), rows)


def goals_section(comparison: Record) -> Iterator[str]:
    """Section of goals; those that nobody solved come first."""
    by_goal, seeds = comparison["by_goal"], len(comparison["seeds"])
    never = sum(not any(each.values()) for each in by_goal.values())
    yield "<h2>Goals</h2>"
    yield note_line(f"With how many of the seeds each was solved. Those that nobody solved come first: {never}.")
    ordered = sorted(by_goal, key=lambda name: any(by_goal[name].values()))  # else as they are
    rows = (
        [escape(name), *(f"{len(by_goal[name][each])} of {seeds}" for each in comparison["scenarios"])]
        for name in ordered
    )
    yield html_table(("goal", *map(escape, comparison["scenarios"])), rows)


def settings_section(comparison: Record) -> Iterator[str]:
    yield "<h2>Scenarios</h2>"
    yield note_line("As a spec would have them; what is not said is as it is by default.")
    every = comparison["scenarios"].items()
    rows = ([escape(name), escape(settings_line(spec_settings(each["settings"])))] for name, each in every)
    yield html_table(("scenario", "settings"), rows)


def refused_section(rows: Sequence[Record]) -> Iterator[str]:
    if rows:
        yield f"<h2>{plural(len(rows), 'row')} of the bank not counted</h2>"
        yield html_table(("row", "why"), ([escape(each["goal"]), escape(each["error"])] for each in rows))


def solved_chart(comparison: Record) -> str:
    seeds = len(comparison["seeds"])
    figures = {name: each["share"] for name, each in comparison["scenarios"].items()}
    rows = [
        _estimate_row(name, look, each, f"{name}: {estimate_text(each, format_share, seeds)}")
        for look, (name, each) in enumerate(figures.items())
    ]
    return rows_chart("share of goals solved, by scenario", share_scale("share of goals solved"), rows)


def differences_chart(comparison: Record) -> str:
    looks = {name: look for look, name in enumerate(comparison["scenarios"])}
    figures = {name: each["difference"] for name, each in comparison["paired"].items()}
    seeds = len(comparison["seeds"])
    rows = [
        _estimate_row(name, looks[name], each, f"{name}: {estimate_text(each, format_points, seeds)}")
        for name, each in figures.items()
    ]
    title = f"difference to {comparison['first']} in the share of goals solved"
    low, high = _figure_range(list(figures.values()))
    return rows_chart(title, difference_scale(title, min(low, -0.1), max(high, 0.1)), rows)


def within_chart(comparison: Record) -> str:
    within, seeds = comparison["within"], len(comparison["seeds"])
    at = within["at"]
    lines = []
    for name in comparison["scenarios"]:
        shares = [(calls, each) for calls, each in zip(at, within["shares"][name], strict=True) if each["mean"]]
        words = (f"{name}, {calls} calls: {estimate_text(each, format_share, seeds)}" for calls, each in shares)
        marks = [ChartMark(calls, each["mean"], interval_ends(each), next(words)) for calls, each in shares]
        lines.append(ChartLine(name, stairs(within["steps"][name], at[0], at[-1]), marks))
    across = Scale("calls", at[0], max(at[-1], 10 * at[0]), at, logarithmic=True)
    return line_chart("share of goals solved within so many calls", across, share_scale("share solved"), lines)


def robustness_chart(comparison: Record) -> str:
    return _robustness_figure(comparison, "share", share_scale("share solved"))


def spent_chart(comparison: Record) -> str:
    every = [point["calls"] for on_it in comparison["robustness"].values() for point in on_it]
    return _robustness_figure(comparison, "calls", amount_scale("calls for a goal", _figure_range(every)[1]))


def _robustness_figure(comparison: Record, figure: str, up: Scale) -> str:
    write, seeds = format_share if figure == "share" else format_amount, len(comparison["seeds"])
    lines = []
    for name, on_it in comparison["robustness"].items():
        known = [(point["fraction"], point["scenario"], point[figure]) for point in on_it]
        marks = [
            ChartMark(at, each["mean"], interval_ends(each), f"{scenario}: {estimate_text(each, write, seeds)}")
            for at, scenario, each in known
            if each["mean"] is not None
        ]
        lines.append(ChartLine(name, [(one.x, one.y) for one in marks], marks))
    most = max(point["fraction"] for on_it in comparison["robustness"].values() for point in on_it)
    return line_chart(
        f"{up.title}, by the fraction of goals blocked", difference_scale("goals blocked", 0.0, most), up, lines
    )


def _estimate_row(name: str, look: int, each: Estimate, words: str) -> ChartRow:
    return ChartRow(name, look, each["mean"], interval_ends(each), [*each["of"].values()], words)


def _figure_range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Range of everything that is drawn of them."""
    every = [each[what] for each in estimates for what in ("mean", "low", "high") if each[what] is not None]
    every += [value for each in estimates for value in each["of"].values()]
    return min(every), max(every)


MOST_LISTED = 20  # goals in a list; all are in comparison.json
PAGE_STYLE = """
figure { margin: 1rem 0; } figcaption, .note, small { opacity: .8; } h2 { margin-top: 2.2rem; }
.made { opacity: .8; font-size: .85em; } td:first-child, small { white-space: nowrap; } details { margin: .3rem 0; }
@media (max-width: 60rem) { table { display: block; overflow-x: auto; } }
"""
SEEDLESS = "With one seed nothing is known of what another would give: there are no intervals."
INTERVALS = (
    "Intervals hold 95 % over seeds, by Student's t from one value for each seed, cut off where no such number can be. "
    "They say what other seeds would give on the same goals, and nothing of other goals."
)


def comparison_page(run: str, comparison: Record) -> str:
    about_goals = (
        _solved_section, _paired_section, _within_section, effort_section,
        _robustness_section, iterations_section, outcomes_section, goals_section,
    )  # fmt: skip
    sections = (_about_section, *(about_goals if comparison["goals"] else ()), settings_section)
    parts = [part for section in sections for part in section(comparison)]
    parts += refused_section(comparison["refused"])
    return html_page(f"{run}: {comparison_headline(comparison)}", parts, PAGE_STYLE)


def _about_section(comparison: Record) -> Iterator[str]:
    spent = ", ".join(f"{number} {what}" for what, number in comparison["budget"].items() if number is not None)
    seeds = ", ".join(map(str, comparison["seeds"]))
    yield f"<p>Each search may spend {escape(spent)}; seeds: {seeds or NONE}. Only proofs that held when checked count."
    yield f"{SEEDLESS if len(comparison['seeds']) == 1 else escape(INTERVALS)}</p>"
    lean = comparison["lean"]
    origin = f"Lean: {lean['version']} ({lean['backend']}); bank: {comparison['bank']}; "
    origin += f"{settings_line(comparison['shared'])}."
    yield f'<p class="made">{escape(origin)}</p>'


def _captioned(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _solved_section(comparison: Record) -> Iterator[str]:
    yield "<h2>Solved</h2>"
    caption = (
        "The mean over seeds and its interval, which has no width where all seeds are alike. "
        "Below, a ring for each seed; equal ones lie on each other."
    )
    yield _captioned(solved_chart(comparison), caption)
    rows = (
        [
            escape(name),
            ", ".join(map(str, each["solved"].values())),
            estimate_cell(comparison, each["share"], format_share),
        ]
        for name, each in comparison["scenarios"].items()
    )
    head = f"of {plural(len(comparison['goals']), 'goal')}, with each seed"
    yield html_table(("scenario", head, "share solved (interval)"), rows)


def _paired_section(comparison: Record) -> Iterator[str]:
    if not comparison["paired"]:
        return
    first = escape(comparison["first"])
    yield f"<h2>Against {first}</h2>"
    caption = "Goal by goal and seed by seed. Where the interval holds 0, the seeds do not tell the two apart."
    yield _captioned(differences_chart(comparison), caption)
    head = ("scenario", "difference, percentage points (interval)", "both", "only this", f"only {first}", "neither")
    ratio_head = "calls where both solved, as a ratio (interval)"
    paired = comparison["paired"].items()
    rows = (_pair_row(comparison, name, each) for name, each in paired)
    yield html_table((*head, ratio_head), rows, numbers=(2, 3, 4, 5))
    yield "<details><summary>Goals that only one of the two solved</summary>"
    alone = ([escape(name), _goal_list(each["only_here"]), _goal_list(each["only_there"])] for name, each in paired)
    yield f"{html_table(('scenario', 'only this', f'only {first}'), alone)}</details>"


def _pair_row(comparison: Record, name: str, each: Record) -> list[str]:
    counts = (each["both"], len(each["only_here"]), len(each["only_there"]), each["neither"])
    difference, calls = (
        estimate_cell(comparison, each[what], how)
        for what, how in (("difference", format_points), ("calls_ratio", format_ratio))
    )
    return [escape(name), difference, *map(str, counts), calls]


def _goal_list(found: Sequence[Record]) -> str:
    """Each with its seeds."""
    named: dict[str, list[str]] = {}
    for each in found:
        named.setdefault(each["goal"], []).append(str(each["seed"]))
    listed = [f"{goal} (seed {', '.join(seeds)})" for goal, seeds in named.items()]
    more = [f"and {len(listed) - MOST_LISTED} more in comparison.json"] if len(listed) > MOST_LISTED else []
    return escape("; ".join([*listed[:MOST_LISTED], *more])) or NONE


def _within_section(comparison: Record) -> Iterator[str]:
    if not any(comparison["within"]["steps"].values()):
        return
    yield "<h2>Solved within so many calls</h2>"
    caption = (
        "The steps are of all seeds together; marks with intervals stand side by side where the table has a column. "
        "A call is one tactic run by Lean."
    )
    yield _captioned(within_chart(comparison), caption)
    at = comparison["within"]["at"]
    rows = (
        [escape(name), *(estimate_cell(comparison, each, format_share) for each in shares)]
        for name, shares in comparison["within"]["shares"].items()
    )
    yield html_table(("scenario", *(f"{plural(calls, 'call')}" for calls in at)), rows)


def _robustness_section(comparison: Record) -> Iterator[str]:
    if not comparison["robustness"]:
        return
    yield "<h2>Robustness</h2>"
    yield note_line("On a line are scenarios that differ in nothing but the fraction of goals that is blocked.")
    caption = "Marks of several lines at the same fraction stand side by side."
    yield _captioned(robustness_chart(comparison), caption)
    yield _captioned(spent_chart(comparison), "All that was spent for a goal, solved or not.")
    figures = (("share", format_share), ("calls", format_amount))
    rows = (
        [escape(line), f"{100 * one['fraction']:g} %", escape(one["scenario"])]
        + [estimate_cell(comparison, one[what], how) for what, how in figures]
        for line, on_it in comparison["robustness"].items()
        for one in on_it
    )
    head = ("line", "blocked", "scenario", "share solved (interval)", "calls for a goal (interval)")
    yield html_table(head, rows, (1,))
