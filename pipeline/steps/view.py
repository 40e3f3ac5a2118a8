"""View of a pipeline: its targets by step, its builds with what they waited for, and the details of one target.

It tells what is recorded; whether an edit since then has made something stale is a question for `coppice plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core import outcome
from pipeline.core.freshness import FailureRecord, Receipt
from pipeline.core.graph import Graph, Target, step_of
from pipeline.core.outcome import PastBuild
from pipeline.core.projection import (
    DONE,
    EMPTY,
    FAILED_RUN,
    KILLED,
    LIVE,
    PAUSED,
    RUN_STATES,
    STOPPED,
    Block,
    Code,
    Column,
    Figure,
    Moment,
    Picture,
    Projection,
    Row,
    RunState,
    Table,
)
from pipeline.core.text import count_words, duration, plural, target_count
from pipeline.errors import SpecError, did_you_mean
from pipeline.steps.describe import describe
from pipeline.store import noop
from pipeline.store.receipts import Receipts
from pipeline.store.steering import steering_path
from pipeline.views.blocks import BLANK, build_blocks, file_block, last_ended, running_table, time_text
from pipeline.views.graph import chart_picture, make_chart
from pipeline.views.lines import clean_text

MEANING = (
    "A target is made from the contents of what it reads, and never again from the same. This is what the last builds "
    "have recorded; what an edit since then has made stale is told by `coppice plan`."
)
# How the records of a target stand, by words of STATUSES.
RUNNING, FAILED, OUT, RECALLED = "running", "failed", "waiting", "recalled"
MADE, LEFT_OUT, OPEN = "done", "skipped", "open"
CHART_STATUS = {MADE: outcome.FRESH, RECALLED: outcome.FRESH, FAILED: outcome.FAILED, LEFT_OUT: outcome.IGNORED}
MOST_DRAWN, MOST_SHOWN, LOG_BYTES = 80, 40, 8000


class TargetState(NamedTuple):
    """How a target stands: a word of STATUSES, and what was recorded of it."""

    status: str
    receipt: Receipt | None = None
    failure: FailureRecord | None = None

    @property
    def seconds(self) -> float | None:
        record = self.receipt or self.failure
        return record.end - record.start if record and record.end else None

    @property
    def at(self) -> float | None:
        record = self.failure or self.receipt
        return record.end if record and record.end else None


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    states = target_states(run, targets, moment)
    counts = Counter(each.status for each in states.values())
    state, last = run_state(moment, counts), last_ended(moment.builds)
    at = max((each.at for each in states.values() if each.at), default=None)
    numbers = [*_figures(counts, states, moment, last)]
    headline = f"{_made(counts)} of {target_count(len(targets))} made: {state.why}."
    blocks = [*_blocks(run, targets, states, moment)]
    return Projection(run, "steps", headline, state, numbers, MEANING, blocks, f"coppice watch {run}", at)


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    del targets
    return [Receipts.path_of(run), f"{noop.folder(run)}/builds", steering_path(run)]


def target_states(run: str, targets: Sequence[Target], moment: Moment) -> dict[str, TargetState]:
    receipts, running = Receipts(run), {each.name for each in moment.running}
    receipts.names()  # all of them are looked up
    return {each.name: _state_of(each.name, receipts, each.name in running) for each in targets}


def _state_of(name: str, receipts: Receipts, is_running: bool) -> TargetState:
    receipt, failure = receipts.receipt(name), receipts.failure(name)
    if is_running:
        return TargetState(RUNNING, receipt, failure)
    if receipts.is_ignored(name):
        return TargetState(LEFT_OUT, receipt, failure)
    if failure:
        return TargetState(OUT if failure.outage else FAILED, receipt, failure)
    if receipt is None or receipts.is_forgotten(name):
        return TargetState(OPEN, receipt)
    return TargetState(RECALLED if receipt.how == outcome.RECALLED else MADE, receipt)


def _made(counts: Mapping[str, int]) -> int:
    return counts.get(MADE, 0) + counts.get(RECALLED, 0)


def run_state(moment: Moment, counts: Mapping[str, int]) -> RunState:
    """How a run stands, by its builds and its targets."""
    last = moment.builds[-1] if moment.builds else None
    if moment.pause:
        return RunState(PAUSED, RUN_STATES[PAUSED], moment.pause.get("at"))
    if moment.is_building:
        working = f"{target_count(len(moment.running))} at work" if moment.running else RUN_STATES[LIVE]
        return RunState(LIVE, working, last.at if last and last.seconds is None else None)
    if last and last.seconds is None:
        return RunState(KILLED, RUN_STATES[KILLED], last.at)
    since = last.at + (last.seconds or 0.0) if last else None
    if failed := counts.get(FAILED, 0):
        return RunState(FAILED_RUN, f"{plural(failed, 'target')} failed", since)
    if not last and not _made(counts):
        return RunState(EMPTY, RUN_STATES[EMPTY])
    if counts.get(OPEN, 0) or counts.get(OUT, 0):
        stopped = f": {last.stopped}" if last and last.stopped else ""
        return RunState(STOPPED, f"{RUN_STATES[STOPPED]}{stopped}", since)
    return RunState(DONE, RUN_STATES[DONE], since)


def _figures(
    counts: Mapping[str, int], states: Mapping[str, TargetState], moment: Moment, last: PastBuild | None
) -> Iterator[Figure]:
    made, failed = _made(counts), counts.get(FAILED, 0)
    yield Figure("made", f"{made} of {len(states)}", made, "higher", f"{counts.get(RECALLED, 0)} of them recalled")
    yield Figure("failed", str(failed), failed, "lower")
    if moment.is_building:
        left = "" if moment.left is None else f"about {duration(moment.left, 0)} left"
        yield Figure("running", str(len(moment.running)), len(moment.running), note=left)
    if last and last.seconds is not None:
        yield Figure("last build", duration(last.seconds), last.seconds, "lower", count_words(last.counts))
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
    if failed := [name for name, each in states.items() if each.status in (FAILED, OUT)]:
        yield _failure_table(run, {name: states[name] for name in failed})
    yield _graph_picture(run, targets, states)
    yield from build_blocks(run, moment.builds)


def _target_table(targets: Sequence[Target], states: Mapping[str, TargetState]) -> Table:
    """Steps with their targets below them; a step of one target is a row."""
    steps: dict[str, list[str]] = {}
    for each in targets:
        steps.setdefault(step_of(each.name), []).append(each.name)
    rows = [row for step, names in steps.items() for row in _step_rows(step, names, states)]
    columns = [Column("target"), Column("state"), Column("took", True), Column("ended"), Column("attempts", True)]
    sentence = f"{plural(len(steps), 'step')} with {target_count(len(targets))}."
    return Table("targets", "Targets", sentence, columns, rows)


def _step_rows(step: str, names: Sequence[str], states: Mapping[str, TargetState]) -> Iterator[Row]:
    if len(names) > 1 or names[0] != step:
        found = [states[name] for name in names]
        counts = Counter(each.status for each in found)
        work = [seconds for each in found if (seconds := each.seconds) is not None]
        words = [step.partition(":")[2], count_words(counts), duration(sum(work)) if work else BLANK, BLANK, BLANK]
        yield Row(words, status=next(word for word in _BY_WEIGHT if counts[word]))
    for name in names:
        each = states[name]
        record = each.receipt or each.failure
        took = duration(each.seconds) if each.seconds is not None else BLANK
        cells = [
            name.partition(":")[2],
            each.status,
            took,
            time_text(each.at),
            str(record.attempts) if record else BLANK,
        ]
        yield Row(cells, name, each.status, 0 if name == step else 1)


# Of several targets the first of these that one has is the step's.
_BY_WEIGHT = (FAILED, OUT, RUNNING, OPEN, LEFT_OUT, MADE, RECALLED)


def _failure_table(run: str, failed: Mapping[str, TargetState]) -> Table:
    rows = []
    for name, each in failed.items():
        assert each.failure is not None
        why = each.failure.why + (f" ({outcome.OUTAGE_WORDS[each.failure.outage]})" if each.failure.outage else "")
        rows.append(Row([name.partition(":")[2], clean_text(why), each.failure.log or BLANK], name, each.status))
    sentence = f"{target_count(len(rows))} of {run} failed, or wait for what is out."
    return Table("failures", "Failures", sentence, [Column("target"), Column("why"), Column("log")], rows)


def _graph_picture(run: str, targets: Sequence[Target], states: Mapping[str, TargetState]) -> Picture:
    graph = Graph(targets, in_order=True)
    status = {i: CHART_STATUS.get(states[each.name].status, outcome.STALE) for i, each in enumerate(graph.targets)}
    chart = make_chart(run, graph, status, full=len(targets) <= MOST_DRAWN)
    said = f"{chart.headline}, {count_words(chart.statuses)}; arrows lead from what is read to what reads it."
    return Picture("graph", "Graph", said, chart_picture(chart))


# --- One target.


def details(run: str, targets: Sequence[Target], item: str) -> Sequence[Block]:
    by_name = {each.name: each for each in targets}
    target = by_name.get(item) or by_name.get(f"{run}:{item}")
    if target is None:
        raise SpecError(f"{run} has no target '{item}'{did_you_mean(item, by_name)}")
    receipts = Receipts(run)
    state = _state_of(target.name, receipts, is_running=False)
    return [*_detail_blocks(target, state)]


def _detail_blocks(target: Target, state: TargetState) -> Iterator[Block]:
    facts = {"state": state.status, "stage": target.stage, "line of the spec": str(target.line or BLANK)}
    if state.failure:
        facts |= {"why": clean_text(state.failure.why), "exit": str(state.failure.exit)}
    if record := state.receipt or state.failure:
        facts |= {"took": duration(record.end - record.start), "ended": time_text(record.end)}
        facts["attempts"] = str(record.attempts)
    if state.receipt:
        facts |= {"how": state.receipt.how, "key": state.receipt.key}
    words = {name: "\n".join(lines) for name, lines in describe(target).items() if lines}
    rows = [Row([name, value]) for name, value in (facts | words).items()]
    yield Table("facts", target.name, "", [Column("what"), Column("value")], rows)
    yield _files_table("reads", "Reads", target.inputs, state.receipt.inputs if state.receipt else {})
    yield _files_table("writes", "Writes", target.outputs, state.receipt.outputs if state.receipt else {})
    path = (state.failure.log if state.failure else "") or f"{noop.folder(target.run)}/logs/{own_name(target)}.log"
    yield from file_block("log", "The end of its log", path, "log", LOG_BYTES, at_end=True)
    yield Code("commands", "Commands", f"coppice why {target.name}\ncoppice info {target.name}\ncoppice {target.name}")


def own_name(target: Target) -> str:
    return target.name.partition(":")[2]


def _files_table(name: str, title: str, paths: Iterable[str], contents: Mapping[str, str]) -> Table:
    listed = [*paths]
    known = [*dict.fromkeys((*listed, *contents))][:MOST_SHOWN]
    rows = [Row([path, contents.get(path, BLANK)]) for path in known]
    more = len({*listed, *contents}) - len(known)
    sentence = f"{more} more are not shown." if more else ""
    return Table(name, title, sentence, [Column("path"), Column("sha256, as recorded")], rows)
