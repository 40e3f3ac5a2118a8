"""View of a pipeline: its targets by step, its builds with what they waited for, and the details of one target.

It tells what is recorded; whether an edit since then has made something stale is a question for `coppice plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pipeline.core.graph import Graph, Target, step_of
from pipeline.core.outcome import needs_message
from pipeline.core.projection import (
    KILLED,
    TARGET_FAILED,
    TARGET_LEFT_OUT,
    TARGET_MADE,
    TARGET_OPEN,
    TARGET_QUEUED,
    TARGET_RECALLED,
    TARGET_RUNNING,
    TARGET_WAITS,
    Block,
    Column,
    Figure,
    Moment,
    Picture,
    Projection,
    Row,
    RunState,
    Table,
    TargetState,
)
from pipeline.core.text import BLANK, count_words, duration, plural, target_count
from pipeline.errors import SpecError, did_you_mean
from pipeline.steps.describe import describe
from pipeline.store import noop
from pipeline.store.receipts import Receipts, target_states
from pipeline.store.steering import steering_path
from pipeline.views.blocks import (
    build_blocks,
    count_states,
    failure_table,
    last_ended,
    latest,
    made_count,
    own_name,
    own_seconds,
    recorded_time,
    run_state,
    running_figure,
    running_table,
    target_blocks,
)
from pipeline.views.graph import chart_picture, make_chart

MEANING = (
    "A target is made from the contents of what it reads, and never again from the same. This is what the last builds "
    "have recorded; what an edit since then has made stale is told by `coppice plan`."
)
MOST_DRAWN = 80


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    states = standing_states(run, targets, moment)
    counts, ends = count_states(states), [each.at for each in states.values()]
    state = run_state(run, moment, counts, ends=ends)
    at, numbers = latest(ends, state), [*_figures(counts, states, moment, state)]
    headline = f"{made_count(counts)} of {target_count(len(targets))} made: {state.why}."
    blocks = [*_blocks(run, targets, states, moment)]
    return Projection(run, "steps", headline, state, numbers, MEANING, blocks, f"coppice watch {run}", at)


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    del targets
    return [Receipts.path_of(run), f"{noop.folder(run)}/builds", steering_path(run)]


def standing_states(run: str, targets: Sequence[Target], moment: Moment) -> dict[str, TargetState]:
    """How targets stand: as recorded, and by what else is known of those that were not made.

    What needs one that failed was skipped; to the others a build that goes on will come."""
    graph, running = Graph(targets), {each.name for each in moment.running}
    states = target_states(run, [each.name for each in targets], running, moment.cut_off)
    began = moment.builds[-1].at if moment.builds and moment.is_building else 0.0
    blocked: set[str] = set()  # that failed in a build before is tried again by one that goes on
    for i, target in enumerate(graph.targets):
        state = states[target.name]
        needs = [name for j in graph.above(i) if (name := graph.targets[j].name) in blocked]
        if state.failure and state.status in (TARGET_FAILED, TARGET_WAITS) and state.failure.end >= began:
            blocked.add(target.name)
        elif state.status == TARGET_OPEN and needs:
            blocked.add(target.name)
            why = needs_message([own_name(name) for name in needs])
            states[target.name] = state._replace(status=TARGET_LEFT_OUT, why=why)
        elif state.status == TARGET_OPEN and moment.is_building:
            states[target.name] = state._replace(status=TARGET_QUEUED)
    return {each.name: states[each.name] for each in targets}


def _figures(
    counts: Mapping[str, int], states: Mapping[str, TargetState], moment: Moment, state: RunState
) -> Iterator[Figure]:
    made, failed = made_count(counts), counts.get(TARGET_FAILED, 0)
    yield Figure(
        "made", f"{made} of {len(states)}", made, "higher", f"{counts.get(TARGET_RECALLED, 0)} of them recalled"
    )
    yield Figure("failed", str(failed), failed, "lower")
    yield from running_figure(moment)
    if last := last_ended(moment.builds):
        took, done = own_seconds(last) or 0.0, count_words(last.counts)
        if state.word == KILLED:
            yield Figure("last build", "killed", None, "lower", f"build {last.number} took {duration(took)}: {done}")
        else:
            yield Figure("last build", duration(took), took, "lower", f"build {last.number}: {done}")
    saved = sum(each.saved for each in moment.builds)
    if saved:
        note = f"by {plural(len(moment.builds), 'build')}, which recalled instead of running"
        yield Figure("work saved", duration(saved), saved, "higher", note)
    work = [seconds for each in states.values() if (seconds := each.seconds) is not None]
    if work:
        yield Figure(
            "work in it", duration(sum(work)), sum(work), note=f"of {target_count(len(work))}, as they last ran"
        )


# --- Blocks.


def _blocks(
    run: str,
    targets: Sequence[Target],
    states: Mapping[str, TargetState],
    moment: Moment,
) -> Iterator[Block]:
    if moment.running:
        yield running_table(moment)
    yield _target_table(targets, states)
    yield from failure_table(run, states)
    yield _graph_picture(run, targets, states)
    yield from build_blocks(run, moment)


def _target_table(targets: Sequence[Target], states: Mapping[str, TargetState]) -> Table:
    """Steps with their targets below them; a step of one target is a row."""
    steps: dict[str, list[str]] = {}
    for each in targets:
        steps.setdefault(step_of(each.name), []).append(each.name)
    rows = [row for step, names in steps.items() for row in _step_rows(step, names, states)]
    columns = [Column("target"), Column("state"), Column("took", True), Column("ended"), Column("attempts", True)]
    columns.append(Column("why"))
    sentence = f"{plural(len(steps), 'step')} with {target_count(len(targets))}."
    return Table("targets", "Targets", sentence, columns, rows)


def _step_rows(step: str, names: Sequence[str], states: Mapping[str, TargetState]) -> Iterator[Row]:
    if len(names) > 1 or names[0] != step:
        found = [states[name] for name in names]
        counts = Counter(each.status for each in found)
        work = [seconds for each in found if (seconds := each.seconds) is not None]
        words = [step.partition(":")[2], count_words(counts), duration(sum(work)) if work else BLANK, *[BLANK] * 3]
        yield Row(words, status=next(word for word in _BY_WEIGHT if counts[word]))
    for name in names:
        each = states[name]
        record = each.receipt or each.failure
        took = duration(each.seconds) if each.seconds is not None else BLANK
        cells = [
            own_name(name),
            each.status,
            took,
            recorded_time(each.at),
            str(record.attempts) if record else BLANK,
            each.why or BLANK,
        ]
        yield Row(cells, name, each.status, 0 if name == step else 1)


# Of several targets the first of these that one has is the step's.
_BY_WEIGHT = (
    *(TARGET_FAILED, TARGET_WAITS, TARGET_RUNNING, TARGET_QUEUED, TARGET_OPEN),
    *(TARGET_LEFT_OUT, TARGET_MADE, TARGET_RECALLED),
)


def _graph_picture(run: str, targets: Sequence[Target], states: Mapping[str, TargetState]) -> Picture:
    graph = Graph(targets, in_order=True)
    status = {i: states[each.name].status for i, each in enumerate(graph.targets)}
    chart = make_chart(run, graph, status, full=len(targets) <= MOST_DRAWN)
    said = f"{chart.headline}, {count_words(chart.statuses)}; arrows lead from what is read to what reads it."
    return Picture("graph", "Graph", said, chart_picture(chart))


# --- One target.


def details(run: str, targets: Sequence[Target], item: str) -> Sequence[Block]:
    by_name = {each.name: each for each in targets}
    target = by_name.get(item) or by_name.get(f"{run}:{item}")
    if target is None:
        raise SpecError(f"{run} has no target '{item}'{did_you_mean(item, by_name)}")
    state = standing_states(run, targets, Moment())[target.name]
    return [*target_blocks(target, state, describe(target), noop.folder(run))]
