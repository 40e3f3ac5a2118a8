"""Blocks that runs of all kinds have: what is at work, failures, past builds, one target, files; and a run's state.

The state is that of kinds whose results are their targets; a search over code has events that tell more."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.outcome import OUTAGE_WORDS, PastBuild
from pipeline.core.projection import (
    DONE,
    EMPTY,
    FAILED_RUN,
    KILLED,
    LIVE,
    PAUSED,
    RUN_STATES,
    STOPPED,
    TARGET_FAILED,
    TARGET_MADE,
    TARGET_OPEN,
    TARGET_RECALLED,
    TARGET_WAITS,
    Block,
    Code,
    Column,
    Figure,
    Moment,
    Picture,
    Row,
    RunState,
    Table,
    TargetState,
)
from pipeline.core.text import BLANK, count_words, duration, plural, target_count, visible_text
from pipeline.views.lines import clean_text, time_text
from pipeline.views.pages.charts import ChartRow, rows_chart
from pipeline.views.pages.drawing import number_scale

SAYS = (
    "`says` is what Coppice last told of it, such as how many are proved, or what it waits for; `-`: nothing. What its "
    "command prints is in its log."
)
MOST_SPANS, MOST_BUILDS, MOST_FILES, LOG_BYTES = 30, 20, 40, 8000


def recorded_time(at: float | None) -> str:
    """A time of the records as all screens have it; `-` where there is none."""
    return time_text(at) if at else BLANK


def own_name(name: str) -> str:
    """A target's name without its run."""
    return name.partition(":")[2]


def made_count(counts: Mapping[str, int]) -> int:
    return counts.get(TARGET_MADE, 0) + counts.get(TARGET_RECALLED, 0)


def count_states(states: Mapping[str, TargetState]) -> Counter[str]:
    """The targets by how they stand."""
    return Counter(each.status for each in states.values())


def run_state(
    run: str,
    moment: Moment,
    counts: Mapping[str, int],
    has_records: bool = False,
    ends: Iterable[float | None] = (),
) -> RunState:
    """How a run stands, by its builds and by how many of its targets stand how.

    `has_records`: of results, which may be older than all builds that are remembered; `ends`: when targets ended."""
    last = moment.builds[-1] if moment.builds else None
    if moment.pause:
        return RunState(PAUSED, RUN_STATES[PAUSED], moment.pause.get("at"))
    if moment.is_building:
        working = f"{target_count(len(moment.running))} at work" if moment.running else RUN_STATES[LIVE]
        return RunState(LIVE, working, last.at if last and last.seconds is None else None)
    if moment.unasked and (not last or last.seconds is None):
        return RunState(STOPPED, unknown_text(moment), last.at if last else None)
    if last and last.seconds is None:
        heard = max(at for at in (last.at, moment.heard, *ends) if at is not None)
        return RunState(KILLED, f"{RUN_STATES[KILLED]}; `coppice {run}` goes on where it was", heard)
    since = last.at + (last.seconds or 0.0) if last else None
    if failed := counts.get(TARGET_FAILED, 0):
        return RunState(FAILED_RUN, f"{plural(failed, 'target')} failed", since)
    if not last and not made_count(counts):
        records = "it has records, though no build of it is remembered"
        return RunState(STOPPED, records) if has_records else RunState(EMPTY, RUN_STATES[EMPTY])
    if left := counts.get(TARGET_OPEN, 0) + counts.get(TARGET_WAITS, 0):
        why = f"{RUN_STATES[STOPPED]}: {last.stopped}; `coppice {run}` goes on" if last and last.stopped else ""
        asked = f"{plural(left, 'target')} that no build was asked for: `coppice {run}` makes all of it"
        return RunState(STOPPED, why or f"no build goes on; {asked}", since)
    return RunState(DONE, RUN_STATES[DONE], since)


def unknown_text(moment: Moment) -> str:
    return f"whether a build works on it is not known: {moment.unasked} may not be read"


def running_figure(moment: Moment) -> Iterator[Figure]:
    if moment.is_building:
        until = expected_end(moment)
        yield Figure("running", str(len(moment.running)), len(moment.running), until=until)


def expected_end(moment: Moment) -> float | None:
    return None if moment.left is None else round(moment.now + moment.left, 1)


def since_cell(at: float | None) -> str:
    """A cell of a column that is `is_since`."""
    return BLANK if at is None else f"{at:.3f}"


def running_table(moment: Moment) -> Table:
    rows = [
        Row(
            [own_name(each.name), since_cell(each.since), each.says or BLANK],
            each.name,
            "running",
        )
        for each in moment.running
    ]
    sentence = f"{target_count(len(rows))} at work. {SAYS}"
    columns = [Column("target"), Column("since", True, is_since=True), Column("says")]
    return Table("running", "Running", sentence, columns, rows)


def failure_table(run: str, states: Mapping[str, TargetState]) -> Iterator[Table]:
    """Targets that failed, or wait for what is out; nothing where there are none."""
    rows = []
    for name, each in states.items():
        if each.status in (TARGET_FAILED, TARGET_WAITS) and each.failure:
            why = each.failure.why + (f" ({OUTAGE_WORDS[each.failure.outage]})" if each.failure.outage else "")
            rows.append(Row([own_name(name), clean_text(why), each.failure.log or BLANK], name, each.status))
    if rows:
        told = Counter(row.status for row in rows)
        words = {TARGET_FAILED: "failed", TARGET_WAITS: "kept back by what is out"}
        counted = ", ".join(f"{target_count(told[status])} {word}" for status, word in words.items() if told[status])
        sentence = f"Of {run}: {counted}."
        yield Table("failures", "Failures", sentence, [Column("target"), Column("why"), Column("log")], rows)


def target_blocks(
    target: Target, state: TargetState, words: Mapping[str, Sequence[str]], folder: str
) -> Iterator[Block]:
    """Details of a target.  `words`: as its kind describes it; `folder`: where the records of its run lie."""
    facts = {"state": state.status, "stage": target.stage, "line of the spec": str(target.line or BLANK)}
    if state.why:
        facts["why"] = state.why
    if state.failure:
        facts |= {"why": clean_text(state.failure.why), "exit": str(state.failure.exit or BLANK)}
    if record := state.receipt or state.failure:
        facts |= {"took": duration(record.end - record.start), "ended": recorded_time(record.end)}
        facts["attempts"] = str(record.attempts)
    if state.receipt:
        facts |= {"how": state.receipt.how, "key": state.receipt.key}
    facts |= {name: "\n".join(lines) for name, lines in words.items() if lines}
    yield facts_table("facts", target.name, facts)
    yield _files_table("reads", "Reads", target.inputs, state.receipt.inputs if state.receipt else {})
    yield _files_table("writes", "Writes", target.outputs, state.receipt.outputs if state.receipt else {})
    path = (state.failure.log if state.failure else "") or f"{folder}/logs/{own_name(target.name)}.log"
    yield from file_block("log", "The end of its log", path, "log", LOG_BYTES, at_end=True)
    yield Code("commands", "Commands", f"coppice why {target.name}\ncoppice info {target.name}\ncoppice {target.name}")


def facts_table(name: str, title: str, facts: Mapping[str, str], sentence: str = "") -> Table:
    rows = [Row([what, value]) for what, value in facts.items()]
    return Table(name, title, sentence, [Column("what"), Column("value")], rows)


def _files_table(name: str, title: str, paths: Iterable[str], contents: Mapping[str, str]) -> Table:
    listed = [*paths]
    known = [*dict.fromkeys((*listed, *contents))][:MOST_FILES]
    rows = [Row([path, contents.get(path, BLANK)]) for path in known]
    more = len({*listed, *contents}) - len(known)
    sentence = f"{more} more are not shown." if more else ""
    return Table(name, title, sentence, [Column("path"), Column("sha256, as recorded")], rows)


def latest(ends: Iterable[float | None], state: RunState) -> float | None:
    """The time of what is shown: the last that anything is known of, such as how long it has stood like that."""
    return max((at for at in (*ends, state.since) if at), default=None)


def own_seconds(build: PastBuild) -> float | None:
    """Seconds from the first start to the last end of a run's targets: a build may have made those of other runs, too.

    None of one without an end."""
    if build.seconds is None or not build.targets:
        return build.seconds
    began = min(each.start for each in build.targets)
    return max(each.start + each.seconds for each in build.targets) - began


def last_ended(builds: Sequence[PastBuild]) -> PastBuild | None:
    return next((each for each in reversed(builds) if each.seconds is not None), None)


def build_blocks(run: str, moment: Moment) -> Iterator[Block]:
    """The builds of a run; of the last that has ended, what it waited for and what took long."""
    builds = moment.builds
    if builds:
        rows = [_build_row(each, moment.is_building and each is builds[-1]) for each in reversed(builds[-MOST_BUILDS:])]
        columns = [Column("build", True), Column("began"), Column("took", True), Column("did"), Column("saved", True)]
        cut = f", the last {len(rows)}" if len(rows) < len(builds) else ""
        sentence = f"{plural(len(builds), 'build')}{cut}."
        yield Table("builds", "Builds", sentence, columns, rows)
    if (last := last_ended(builds)) and last.targets:
        yield _spans(run, last)


def _build_row(build: PastBuild, goes_on: bool) -> Row:
    """Row of a build, with the time that its targets of this run took.  `goes_on`: it may have no end yet."""
    seconds = own_seconds(build)
    took = duration(seconds) if seconds is not None else BLANK
    endless = "goes on" if goes_on else "killed: no end is recorded"
    did = count_words(build.counts) or (endless if build.seconds is None else "nothing")
    did += f"; stopped: {build.stopped}" if build.stopped else ""
    saved = duration(build.saved) if build.saved else BLANK
    return Row([str(build.number), recorded_time(build.at), took, did, saved])


def _spans(run: str, build: PastBuild) -> Picture:
    """Targets of the critical path, and the slowest others, from their start to their end."""
    critical = {*build.critical}
    slowest = sorted(build.targets, key=lambda each: (each.name not in critical, -each.seconds))[:MOST_SPANS]
    shown = sorted(slowest, key=lambda each: (each.start, each.name))
    across = number_scale("seconds since the build began", [0.0, *(each.start + each.seconds for each in shown)], " s")
    rows = [
        ChartRow(
            f"{each.name}{' *' if each.name in critical else ''}",
            0 if each.name in critical else 1,
            each.start + each.seconds,
            (each.start, each.start + each.seconds),
            (),
            f"{each.name}: {each.status}, {duration(each.seconds)} from {duration(each.start)} on",
            f"{run}:{each.name}",
        )
        for each in shown
    ]
    waited = sum(build.places.values())
    places = f"; of these, targets waited {duration(waited)} in sum for a place" if waited else ""
    sentence = (
        f"Build {build.number} took {duration(build.seconds or 0.0)}. Marked * are the targets that waited for each "
        f"other until its end, the critical path{places}; the others are the slowest."
    )
    return Picture(
        "spans", "What took the time", sentence, rows_chart(f"targets of build {build.number}", across, rows)
    )


def file_block(name: str, title: str, path: str, look: str, most: int, at_end: bool = False) -> Iterator[Code]:
    """A file that is there and has something, its beginning or its end."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most) if at_end else 0)
        content = file.read(most)
    if content.strip():
        yield code_block(name, title, content, look, most, path, size - len(content))


def code_block(name: str, title: str, content: bytes, look: str, most: int, path: str, left_out: int = 0) -> Code:
    """A text that may be cut; `left_out`: bytes that were not read."""
    left_out += max(0, len(content) - most)
    text = content[:most].decode(errors="replace")
    if look == "log":  # of the machine they may name folders, which are nobody's business elsewhere
        text = clean_text(text).replace(f"{os.getcwd()}/", "").replace(os.path.expanduser("~"), "~")
    return Code(name, title, visible_text(text), look, path, left_out)
