"""View of searches by scenario: their comparison, how each search stands, and the details of a search or a goal.

Scenarios are compared when all searches are over, by the stage that does so: half of them would favour whoever came
first.  Until then there are counts alone."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.core.graph import Target, path_of_port, target_of_stage
from pipeline.core.projection import (
    TARGET_MADE,
    TARGET_OPEN,
    TARGET_RECALLED,
    TARGET_RUNNING,
    Block,
    Code,
    Column,
    Figure,
    Moment,
    Projection,
    Row,
    Table,
    TargetState,
    Text,
)
from pipeline.core.text import BLANK, count_words, duration, join_names, one_line, plural
from pipeline.errors import SpecError, cut_text, did_you_mean
from pipeline.goals.bank import Refusal
from pipeline.mcts.plan import COMPARE, GOAL, ROW_INDEX, ROWS, SEARCH, TRACE, goal_of_target, journal_path
from pipeline.mcts.report.compare import comparison_headline
from pipeline.mcts.report.figures import DEAD, OPEN, REFUSED, SOLVED, UNVERIFIED, row_refusals
from pipeline.mcts.report.page import (
    comparison_blocks,
    estimate_parts,
    format_share,
    refused_block,
    settings_line,
    spec_settings,
)
from pipeline.store import noop
from pipeline.store.receipts import Receipts, target_states
from pipeline.store.records import Record, intact, load
from pipeline.store.state import signature
from pipeline.store.steering import steering_path
from pipeline.views.blocks import (
    build_blocks,
    count_states,
    facts_table,
    failure_table,
    file_block,
    latest,
    own_name,
    run_state,
    running_figure,
    running_table,
    target_blocks,
)

MEANING = (
    "Only proofs that Lean has checked as whole scripts count as solved. An open search has spent its budget, which "
    "says nothing of whether its goal is true. Scenarios are compared on the same goals and seeds, with intervals over "
    "seeds: they say what other seeds would give on these goals, and nothing of other goals."
)
# How a search stands, by the outcome that it has recorded.
STATUSES = {SOLVED: "proved", OPEN: "open", DEAD: "rejected", UNVERIFIED: "refused", REFUSED: "refused"}
MOST_STEPS, TRACE_BYTES, PROOF_BYTES, JOURNAL_BYTES = 30, 100_000, 16_000, 8_000
RESULTS = (TARGET_MADE, TARGET_RECALLED)


class SearchRow(NamedTuple):
    """A search of the run.  `summary`: its record, once it has ended; `why`: why its row of the bank is refused."""

    target: Target
    scenario: str
    seed: int
    goal: str
    state: TargetState
    summary: Record | None
    why: str = ""

    @property
    def outcome(self) -> str:
        """The outcome of a search that has ended; empty before."""
        if self.summary is None:
            return ""
        if self.why:
            return REFUSED
        is_false = self.summary["status"] == SOLVED and not self.summary["verified"]
        return UNVERIFIED if is_false else str(self.summary["status"])

    @property
    def status(self) -> str:
        """A word of STATUSES of projections."""
        if self.outcome:
            return STATUSES[self.outcome]
        return "queued" if self.state.status == TARGET_OPEN else self.state.status


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    running = {each.name for each in moment.running}
    states = target_states(run, [each.name for each in targets], running, moment.cut_off)
    refused = _refused_rows(targets)
    rows = [*_search_rows([each for each in targets if each.stage == SEARCH], states, refused)]
    ends = [each.at for each in states.values()]
    state = run_state(run, moment, count_states(states), any(each.summary for each in rows), ends)
    at = latest(ends, state)
    comparison = _comparison(targets)
    is_current = bool(comparison) and _is_current(targets, states, rows)
    headline = comparison_headline(comparison) if comparison and is_current else _standing(rows)
    numbers = [*_figures(rows, refused, comparison if is_current else None, moment)]
    blocks = [*_blocks(run, rows, refused, states, moment, comparison, is_current)]
    return Projection(run, "mcts", f"{headline}.", state, numbers, MEANING, blocks, f"coppice watch {run}", at)


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    comparison = path_of_port(target_of_stage(targets, COMPARE), "comparison.json")
    return [Receipts.path_of(run), f"{noop.folder(run)}/builds", steering_path(run), comparison]


# --- Records.


def _search_rows(
    targets: Sequence[Target], states: Mapping[str, TargetState], refused: Sequence[Refusal]
) -> Iterator[SearchRow]:
    reasons = {each.id: each.why for each in refused}
    for target in targets:
        _, scenario, seed, goal = own_name(target.name).split(".", 3)
        path, state = path_of_port(target, "summary.json"), states[target.name]
        is_over = state.status in RESULTS or (state.receipt is None and state.status == TARGET_OPEN)
        summary = _load_summary(path) if is_over and os.path.exists(path) else None
        yield SearchRow(target, scenario, int(seed), goal, state, summary, reasons.get(goal, ""))


def _load_summary(path: str) -> Record:
    with intact(path):
        summary = load(path)
        for name in ("status", "verified", "error", "to_proof", "reasons", "iterations", "calls", "nodes", "script"):
            if name not in summary:
                raise KeyError(name)
        return summary


def _refused_rows(targets: Sequence[Target]) -> Sequence[Refusal]:
    """Rows of the bank that count nowhere, as far as they were looked at."""
    index = path_of_port(target_of_stage(targets, ROWS), ROW_INDEX)
    goals = tuple((goal_of_target(each), path_of_port(each, "goal.json")) for each in targets if each.stage == GOAL)
    return _read_refusals(index, goals, signature(index), *(signature(path) for _, path in goals))


@lru_cache(2)
def _read_refusals(index: str, goals: Sequence[tuple[str, str]], *_signatures: int) -> Sequence[Refusal]:
    """Refusals, which details of each search need; read again when one of the files has changed."""
    if not os.path.exists(index):
        return []
    with intact(index):
        rows = load(index)
        there = {name: load(path) for name, path in goals if name in rows["lines"] and os.path.exists(path)}
        return row_refusals(rows, there)


def _comparison(targets: Sequence[Target]) -> Mapping[str, Any] | None:
    path = path_of_port(target_of_stage(targets, COMPARE), "comparison.json")
    if not os.path.exists(path):
        return None
    with intact(path):
        return load(path)


def _is_current(targets: Sequence[Target], states: Mapping[str, TargetState], rows: Sequence[SearchRow]) -> bool:
    """Check that what was compared are the searches that there are, as far as receipts can tell."""
    compared = states[target_of_stage(targets, COMPARE).name]
    if compared.status == TARGET_RUNNING or any(each.summary is None for each in rows):
        return False
    read = compared.receipt.inputs if compared.receipt else {}
    made = {
        path: content for each in rows if each.state.receipt for path, content in each.state.receipt.outputs.items()
    }
    return all(made.get(path, content) == content for path, content in read.items())


# --- Numbers.


def _standing(rows: Sequence[SearchRow]) -> str:
    ended, solved = (sum(bool(each.outcome) for each in rows), sum(each.outcome == SOLVED for each in rows))
    return f"{ended} of {len(rows)} searches ended, {solved} with a proof"


def _figures(
    rows: Sequence[SearchRow], refused: Sequence[Refusal], comparison: Mapping[str, Any] | None, moment: Moment
) -> Iterator[Figure]:
    ended = [each for each in rows if each.outcome]
    searched = [each for each in ended if each.outcome != REFUSED]
    solved = [each for each in searched if each.outcome == SOLVED]
    yield Figure("searches", f"{len(ended)} of {len(rows)} ended", len(ended))
    if searched:
        yield Figure(
            "solved", f"{len(solved)} of {len(searched)}", len(solved), "higher", "searches of goals that ended"
        )
        goals, proved = {each.goal for each in searched}, {each.goal for each in solved}
        text = f"{len(proved)} of {plural(len(goals), 'goal')}"
        yield Figure("goals proved", text, len(proved), "higher", "by any scenario")
    if comparison and comparison["goals"]:
        shares = {name: each["share"] for name, each in comparison["scenarios"].items() if each["share"]["of"]}
        best = max(shares, key=lambda name: shares[name]["mean"])
        mean, trust = estimate_parts(shares[best], format_share, len(comparison["seeds"]))
        alike = join_names([name for name in shares if shares[name]["mean"] == shares[best]["mean"]])
        yield Figure("most solved", f"{mean} {trust}".strip(), shares[best]["mean"], "higher", alike)
    if searched:
        calls = sum(each.summary["calls"] for each in searched if each.summary)
        yield Figure("calls of Lean", f"{calls:,}", calls, "lower", "by searches that ended")
    if ended:
        yield Figure("rows refused", str(len(refused)), len(refused), "lower", "no goals")
    yield from running_figure(moment)


# --- Blocks.


def _blocks(
    run: str,
    rows: Sequence[SearchRow],
    refused: Sequence[Refusal],
    states: Mapping[str, TargetState],
    moment: Moment,
    comparison: Mapping[str, Any] | None,
    is_current: bool,
) -> Iterator[Block]:
    if moment.running:
        yield running_table(moment)
    if not is_current:
        yield _progress_table(rows)
    if comparison and not is_current:
        yield Text(
            "earlier",
            "An earlier comparison",
            "What is compared below are searches of an earlier build: some have changed since, or are not over. They "
            f"are compared anew when all are; `coppice {run}` does that.",
        )
    if comparison:
        yield from comparison_blocks(comparison)
    yield searches_table(rows)
    if not comparison:
        yield from refused_block([(each.id or f"line {each.line}", each.why) for each in refused])
    yield from failure_table(run, states)
    yield from build_blocks(run, moment)


def _progress_table(rows: Sequence[SearchRow]) -> Table:
    """How far the searches of each scenario are."""
    by_scenario: dict[str, list[SearchRow]] = {}
    for each in rows:
        by_scenario.setdefault(each.scenario, []).append(each)
    cells = []
    for name, some in by_scenario.items():
        counts = Counter(each.outcome or each.status for each in some)
        ended = sum(bool(each.outcome) for each in some)
        cells.append(Row([name, f"{ended} of {len(some)}", count_words(counts)]))
    sentence = "They are compared when all are over: until then the counts are of different goals."
    columns = [Column("scenario"), Column("ended", True), Column("searches")]
    return Table("progress", "How far it is", sentence, columns, cells)


def searches_table(rows: Sequence[SearchRow]) -> Table:
    columns = [Column("scenario"), Column("goal"), Column("seed", True), Column("stands")]
    columns += [Column("calls", True), Column("calls to the proof", True, better="lower")]
    columns += [Column("iterations", True), Column("goals reached", True), Column("took", True), Column("why")]
    sentence = f"{len(rows)} in all, one for each scenario, goal and seed."
    return Table("searches", "Searches", sentence, columns, [_search_row(each) for each in rows])


def _search_row(each: SearchRow) -> Row:
    cells = [each.scenario, each.goal, str(each.seed), each.outcome or each.status]
    summary, took = each.summary, each.state.seconds
    if summary and each.outcome != REFUSED:
        proof = summary["to_proof"]["calls"] if each.outcome == SOLVED and summary["to_proof"] else None
        cells += [str(summary["calls"]), BLANK if proof is None else str(proof)]
        cells += [str(summary["iterations"]), str(summary["nodes"])]
    else:
        cells += [BLANK] * 4
    error = each.why or (summary["error"] if summary else each.state.failure.why if each.state.failure else "")
    cells += [duration(took) if took is not None and summary else BLANK, cut_text(one_line(error, 120)) or BLANK]
    return Row(cells, own_name(each.target.name), each.status)


# --- One search, one goal, any target.


def details(run: str, targets: Sequence[Target], item: str) -> list[Block]:
    """The blocks of a search, of a goal over all of its searches, or of another target."""
    by_name = {own_name(each.name): each for each in targets}
    target = by_name.get(item.removeprefix(f"{run}:"))
    if target is None:
        raise SpecError(f"{run} has no search or goal '{item}'{did_you_mean(item, by_name)}")
    blocks: list[Block] = []
    if target.stage == SEARCH:
        blocks += _search_details(run, targets, target)
    elif target.stage == GOAL:
        blocks += _goal_details(run, targets, target)
    (state,) = target_states(run, [target.name]).values()
    return [*blocks, *target_blocks(target, state, kinds.describe("mcts", target), noop.folder(run))]


def _search_details(run: str, targets: Sequence[Target], target: Target) -> Iterator[Block]:
    (row,) = _search_rows([target], target_states(run, [target.name]), _refused_rows(targets))
    params = target_of_stage(targets, COMPARE).params
    budget = {name: number for name, number in params["budget"].items() if number is not None}
    facts = {"scenario": row.scenario, "settings": settings_line(spec_settings(params["scenarios"][row.scenario]))}
    facts |= {"of all scenarios": settings_line(params["shared"]), "may spend": settings_line(budget)}
    facts |= {"goal": row.goal, "seed": str(row.seed), "stands": row.outcome or row.status, "why": row.why}
    if row.summary and row.outcome != REFUSED:
        summary = row.summary
        facts["why"] = summary["error"]
        spent = summary["to_proof"] if row.outcome == SOLVED else None
        if spent:
            facts["up to the proof"] = f"{plural(spent['iterations'], 'iteration')}, {plural(spent['calls'], 'call')}"
        facts["in all"] = f"{plural(summary['iterations'], 'iteration')}, {plural(summary['calls'], 'call')}"
        facts["goals reached"] = f"{summary['nodes']}, at most {summary['max_depth']} deep"
        facts["iterations ended"] = count_words(summary["reasons"])
    yield facts_table("search", f"{row.goal}, {row.scenario}, seed {row.seed}", {k: v for k, v in facts.items() if v})
    if row.summary and row.outcome == SOLVED:
        yield from file_block("proof", "Proof", path_of_port(target, "proof.lean"), "lean", PROOF_BYTES)
    if row.summary:
        yield from _trace_table(path_of_port(target, TRACE))
    else:  # it may be at work, or was stopped: it goes on from there
        title = "The end of its journal"
        yield from file_block("journal", title, journal_path(target), "log", JOURNAL_BYTES, at_end=True)


def _trace_table(path: str) -> Iterator[Table]:
    """The end of a trace: its last iterations, the last one first."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TRACE_BYTES))
        lines = file.read().splitlines()[1 if size > TRACE_BYTES else 0 :]
    with intact(path):
        rows = [_step_row(json.loads(line)) for line in lines[: -MOST_STEPS - 1 : -1]]
    columns = [Column("iteration", True), Column("agent", True), Column("reason"), Column("goal", True)]
    columns += [Column("depth", True), Column("visits", True), Column("value", True), Column("tactics")]
    sentence = f"The last {plural(len(rows), 'iteration')}, the newest first; a tactic with + has led to new goals."
    yield Table("trace", "The end of its trace", sentence, columns, rows)


def _step_row(step: Mapping[str, Any]) -> Row:
    node = step["node"]
    tried = [f"{'+' if each['applied'] else '-'} {one_line(each['tactic'], 60)}" for each in step["attempts"]]
    tried = tried or [one_line(tactic, 60) for tactic in step["tactics"]]
    cells = [step["iteration"], step["agent_id"], step["reason"], node["id"], node["depth"], node["visits"]]
    return Row([*map(str, cells), f"{node['value']:.3g}", "; ".join(tried) or BLANK])


def _goal_details(run: str, targets: Sequence[Target], target: Target) -> Iterator[Block]:
    goal = goal_of_target(target)
    searches = [each for each in targets if each.stage == SEARCH and goal_of_target(each) == goal]
    path = path_of_port(target, "goal.json")
    if os.path.exists(path):
        with intact(path):
            record = load(path)
            if REFUSED in record:
                yield Text("statement", "No goal", record[REFUSED])
            else:
                yield Code("statement", "Statement", "\n".join([*record["context"], record["text"]]), "lean")
    rows = [*_search_rows(searches, target_states(run, [each.name for each in searches]), _refused_rows(targets))]
    table = searches_table(rows)
    proved = [each for each in rows if each.outcome == SOLVED]
    sentence = f"{len(proved)} of {len(rows)} searches have a proof."
    yield table._replace(title=f"{goal} over scenarios and seeds", sentence=sentence)
    if shortest := min(proved, key=lambda each: len((each.summary or {})["script"]), default=None):
        title = f"The shortest proof: {shortest.scenario}, seed {shortest.seed}"
        yield from file_block("proof", title, path_of_port(shortest.target, "proof.lean"), "lean", PROOF_BYTES)
    yield Code("explain", "Explained", f"coppice explain {run}:{goal}")
