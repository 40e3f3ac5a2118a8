"""comparison.html: what the scenarios of a run came to, as one page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from pipeline.banks.pages import drawing
from pipeline.banks.pages.framing import framed, table
from pipeline.core.words import plural
from pipeline.mcts.comparison import charts
from pipeline.mcts.comparison.comparing import headline
from pipeline.mcts.comparison.details import cell, effort, goals, iterations, note, outcomes, refused, settings
from pipeline.mcts.comparison.searches import Record
from pipeline.mcts.comparison.spoken import spoken
from pipeline.mcts.comparison.wording import NONE, amount, points, ratio, share

NAMED = 20  # goals in a list; all are in comparison.json
STYLE = """
figure { margin: 1rem 0; } figcaption, .note, small { opacity: .8; } h2 { margin-top: 2.2rem; }
.made { opacity: .8; font-size: .85em; } td:first-child, small { white-space: nowrap; } details { margin: .3rem 0; }
@media (max-width: 60rem) { table { display: block; overflow-x: auto; } }
"""
SEEDLESS = "With one seed nothing is known of what another would give: there are no intervals."
INTERVALS = (
    "Intervals hold 95 % over seeds, by Student's t from one value for each seed, cut off where no such number can be. "
    "They say what other seeds would give on the same goals, and nothing of other goals."
)


def page(run: str, comparison: Record) -> str:
    parts = [*_about(comparison)]
    if comparison["goals"]:
        parts += [*_solved(comparison), *_paired(comparison), *_within(comparison), *effort(comparison)]
        parts += [*_robustness(comparison), *iterations(comparison), *outcomes(comparison), *goals(comparison)]
    parts += [*settings(comparison), *refused(comparison["refused"])]
    return framed(f"{run}: {headline(comparison)}", parts, f"{STYLE}\n{drawing.style()}")


def _about(comparison: Record) -> Iterator[str]:
    spent = ", ".join(f"{number} {what}" for what, number in comparison["budget"].items() if number is not None)
    seeds = ", ".join(map(str, comparison["seeds"]))
    yield f"<p>Each search may spend {escape(spent)}; seeds: {seeds or NONE}. Only proofs that held when checked count."
    yield f"{SEEDLESS if len(comparison['seeds']) == 1 else escape(INTERVALS)}</p>"
    lean = comparison["lean"]
    made = f"Lean: {lean['version']} ({lean['backend']}); bank: {comparison['bank']}; {spoken(comparison['shared'])}."
    yield f'<p class="made">{escape(made)}</p>'


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _solved(comparison: Record) -> Iterator[str]:
    yield "<h2>Solved</h2>"
    caption = (
        "The mean over seeds and its interval, which has no width where all seeds are alike. "
        "Below, a ring for each seed; equal ones lie on each other."
    )
    yield _figure(charts.solved_chart(comparison), caption)
    rows = (
        [escape(name), ", ".join(map(str, each["solved"].values())), cell(comparison, each["share"], share)]
        for name, each in comparison["scenarios"].items()
    )
    head = f"of {plural(len(comparison['goals']), 'goal')}, with each seed"
    yield table(("scenario", head, "share solved (interval)"), rows)


def _paired(comparison: Record) -> Iterator[str]:
    if not comparison["paired"]:
        return
    first = escape(comparison["first"])
    yield f"<h2>Against {first}</h2>"
    caption = "Goal by goal and seed by seed. Where the interval holds 0, the seeds do not tell the two apart."
    yield _figure(charts.differences_chart(comparison), caption)
    head = ("scenario", "difference, percentage points (interval)", "both", "only this", f"only {first}", "neither")
    ratio_head = "calls where both solved, as a ratio (interval)"
    paired = comparison["paired"].items()
    rows = (_pair(comparison, name, each) for name, each in paired)
    yield table((*head, ratio_head), rows, numbers=(2, 3, 4, 5))
    yield "<details><summary>Goals that only one of the two solved</summary>"
    alone = ([escape(name), _goals(each["only_here"]), _goals(each["only_there"])] for name, each in paired)
    yield f"{table(('scenario', 'only this', f'only {first}'), alone)}</details>"


def _pair(comparison: Record, name: str, each: Record) -> list[str]:
    counts = (each["both"], len(each["only_here"]), len(each["only_there"]), each["neither"])
    difference, calls = (
        cell(comparison, each[what], how) for what, how in (("difference", points), ("calls_ratio", ratio))
    )
    return [escape(name), difference, *map(str, counts), calls]


def _goals(found: Sequence[Record]) -> str:
    """Each with its seeds."""
    named: dict[str, list[str]] = {}
    for each in found:
        named.setdefault(each["goal"], []).append(str(each["seed"]))
    listed = [f"{goal} (seed {', '.join(seeds)})" for goal, seeds in named.items()]
    more = [f"and {len(listed) - NAMED} more in comparison.json"] if len(listed) > NAMED else []
    return escape("; ".join([*listed[:NAMED], *more])) or NONE


def _within(comparison: Record) -> Iterator[str]:
    if not any(comparison["within"]["steps"].values()):
        return
    yield "<h2>Solved within so many calls</h2>"
    caption = (
        "The steps are of all seeds together; marks with intervals stand side by side where the table has a column. "
        "A call is one tactic run by Lean."
    )
    yield _figure(charts.within_chart(comparison), caption)
    at = comparison["within"]["at"]
    rows = (
        [escape(name), *(cell(comparison, each, share) for each in shares)]
        for name, shares in comparison["within"]["shares"].items()
    )
    yield table(("scenario", *(f"{plural(calls, 'call')}" for calls in at)), rows)


def _robustness(comparison: Record) -> Iterator[str]:
    if not comparison["robustness"]:
        return
    yield "<h2>Robustness</h2>"
    yield note("On a line are scenarios that differ in nothing but the fraction of goals that is blocked.")
    caption = "Marks of several lines at the same fraction stand side by side."
    yield _figure(charts.robustness_chart(comparison), caption)
    yield _figure(charts.spent_chart(comparison), "All that was spent for a goal, solved or not.")
    rows = (
        [escape(line), f"{100 * one['fraction']:g} %", escape(one["scenario"])]
        + [cell(comparison, one[what], how) for what, how in (("share", share), ("calls", amount))]
        for line, on_it in comparison["robustness"].items()
        for one in on_it
    )
    yield table(("line", "blocked", "scenario", "share solved (interval)", "calls for a goal (interval)"), rows, (1,))
