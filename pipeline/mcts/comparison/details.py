"""The tables of a comparison that have no picture: what it took, where it went, how it ended, and of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from pipeline.banks.pages.framing import table
from pipeline.core.words import plural
from pipeline.mcts.comparison.intervals import Estimate
from pipeline.mcts.comparison.measures import OUTCOMES
from pipeline.mcts.comparison.searches import Record
from pipeline.mcts.comparison.spoken import of_scenario, spoken
from pipeline.mcts.comparison.wording import NONE, amount, parts, share


def note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>'


def cell(comparison: Record, estimate: Estimate, write: Callable[[float], str]) -> str:
    mean, trust = parts(estimate, write, len(comparison["seeds"]))
    return f"{escape(mean)} <small>{escape(trust)}</small>"


def effort(comparison: Record) -> Iterator[str]:
    yield "<h2>What it took</h2>"
    yield note(
        "Up to the proof: of goals that were solved alone, which flatters a scenario that solves only what is easy. "
        "For a goal: solved or not, all that its search spent; one that is hindered or at a dead end may spend little. "
        "For a proof: all calls of a seed, those for goals that were not solved too, for each proof."
    )
    head = ["scenario"]
    head += [f"{what} up to the proof: {which}" for what in ("iterations", "calls") for which in ("median", "mean")]
    rows = ([escape(name), *_spent(comparison, each)] for name, each in comparison["scenarios"].items())
    yield table((*head, "iterations for a goal", "calls for a goal", "calls for a proof"), rows)


def _spent(comparison: Record, each: Record) -> Iterator[str]:
    for what in ("iterations", "calls"):
        middle = each["to_proof"][what]["median"]
        yield NONE if middle is None else amount(middle)
        yield cell(comparison, each["to_proof"][what]["mean"], amount)
    for estimate in (each["spent"]["iterations"], each["spent"]["calls"], each["calls_per_proof"]):
        yield cell(comparison, estimate, amount)


def iterations(comparison: Record) -> Iterator[str]:
    """Without columns in which there is nothing."""
    every = comparison["scenarios"]
    spent: dict[str, Mapping[str, Estimate]] = {
        title: {name: each["iterations"][what] for name, each in every.items()}
        for title, what in (("blocked, delayed or idle", "nothing"), ("idle", "idle"))
    }
    for reason in next(iter(every.values()))["iterations"]["reasons"]:
        spent[reason] = {name: each["iterations"]["reasons"][reason] for name, each in every.items()}
    shown = {title: part for title, part in spent.items() if any(each["mean"] for each in part.values())}
    yield "<h2>Where iterations went</h2>"
    yield note(
        "As shares of all iterations of a seed. blocked, delayed or idle: what was spent on nothing. "
        "idle: there was nothing to do for the agent; part of no_expansion, the rest of which tried tactics in vain."
    )
    rows = ([escape(name), *(cell(comparison, part[name], share) for part in shown.values())] for name in every)
    yield table(("scenario", *map(escape, shown)), rows)


def outcomes(comparison: Record) -> Iterator[str]:
    yield "<h2>How searches ended</h2>"
    yield note(
        "open: the budget was spent. dead: no tactic was left to try. "
        "unverified: what was found did not hold. Only solved counts as solved; all count."
    )
    every = comparison["scenarios"].items()
    rows = ([escape(name), *(str(each["outcomes"][what]) for what in OUTCOMES)] for name, each in every)
    yield table(("scenario", *OUTCOMES), rows, range(1, 1 + len(OUTCOMES)))
    wrong = [(name, one) for name, each in every for one in each["wrong"]]
    if wrong:
        rows = (
            [escape(name), *(escape(str(one[what])) for what in ("goal", "seed", "outcome", "error"))]
            for name, one in wrong
        )
        yield table(("scenario", "goal", "seed", "", "what was wrong"), rows)


def goals(comparison: Record) -> Iterator[str]:
    """Those that nobody solved come first."""
    by_goal, seeds = comparison["by_goal"], len(comparison["seeds"])
    never = sum(not any(each.values()) for each in by_goal.values())
    yield "<h2>Goals</h2>"
    yield note(f"With how many of the seeds each was solved. Those that nobody solved come first: {never}.")
    ordered = sorted(by_goal, key=lambda name: any(by_goal[name].values()))  # else as they are
    rows = (
        [escape(name), *(f"{len(by_goal[name][each])} of {seeds}" for each in comparison["scenarios"])]
        for name in ordered
    )
    yield table(("goal", *map(escape, comparison["scenarios"])), rows)


def settings(comparison: Record) -> Iterator[str]:
    yield "<h2>Scenarios</h2>"
    yield note("As a spec would have them; what is not said is as it is by default.")
    every = comparison["scenarios"].items()
    rows = ([escape(name), escape(spoken(of_scenario(each["settings"])))] for name, each in every)
    yield table(("scenario", "settings"), rows)


def refused(rows: Sequence[Record]) -> Iterator[str]:
    if rows:
        yield f"<h2>{plural(len(rows), 'row')} of the bank not counted</h2>"
        yield table(("row", "why"), ([escape(each["goal"]), escape(each["error"])] for each in rows))
