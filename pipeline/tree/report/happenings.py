"""Events of a search for people: what it does now, a list of what happened, lines for a terminal as it goes on.

Told are builds and how they ended, requests of people, waits for what is out, stops, takeovers.  Pure.

Logs from before builds were events tell of the rest alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.projection import Moment
from pipeline.core.text import BLANK, duration, join_names, plural
from pipeline.store.steering import ANSWERED, IDEA_GIVEN, PAUSED, RESUMED, RETRIED
from pipeline.tree.report.markdown import (
    clip_text,
    format_chance,
    format_change,
    format_money,
    markdown_text,
    table_cell,
)
from pipeline.tree.rules.beam import RANK, SAME_CODE
from pipeline.tree.rules.positions import ASKING_STAGES
from pipeline.tree.run.records import (
    EVENT_BUILD,
    EVENT_BUILD_ENDED,
    EVENT_COMPLETED,
    EVENT_FAILED,
    EVENT_QUEUED,
    EVENT_REQUEUED,
    EVENT_STOPPED,
    EVENT_WAITING,
    EVENT_WORKING,
)
from pipeline.trust.evidence import PROMOTED
from pipeline.views.lines import time_text

Event = Mapping[str, Any]
# Of many builds, or of many waits, the first and the last ones are told.
FIRST_LINES, LAST_LINES = 2, 8
WHY_WIDTH = 100
MOST_WHY = 1000  # of a reason below a table, of which candidates choose the words
# Events that people cause, and stops, each in words.
REQUESTED = {
    "lock_takeover": "the run was taken over from another process",
    PAUSED: "paused",
    RESUMED: "resumed",
    IDEA_GIVEN: "a person gave an idea",
    ANSWERED: "a person answered",
    RETRIED: "a retry was begun",
}
SINGLE_EVENTS = {**REQUESTED, EVENT_STOPPED: "the search stopped"}
# Waits for something else than a model, by their kinds.
NO_MODEL = {"disk full": "room on a disk", "killed": "a command that is killed from outside"}


# Events of what has waited by which it has got on; and events that end all waits.
GOT_ON = {EVENT_QUEUED, EVENT_REQUEUED, EVENT_COMPLETED, EVENT_FAILED}
ENDS_WAITS = {EVENT_BUILD, EVENT_BUILD_ENDED, EVENT_STOPPED}


class WaitSpan(NamedTuple):
    """A time for which something was out.  `until`: when that was over, None while it goes on; `next_try`: at last;
    `paused`: seconds of that for which anybody waited, each counted once; `waiting`: the evaluations that have not got
    on, of which an empty one is the start."""

    kind: str
    since: float
    tries: int
    next_try: float
    paused: float
    until: float | None
    waiting: frozenset[str]


def wait_spans(events: Sequence[Event]) -> list[WaitSpan]:
    """The times for which something was out, in the order in which they began."""
    spans: list[WaitSpan] = []
    now: dict[str, int] = {}  # by kind, the place of the span that goes on
    for event in events:
        at, name = _time(event), event.get("event")
        if name == EVENT_WAITING:
            kind, who = str(event.get("kind", "model")), frozenset([event.get("eval_id") or ""])
            if kind not in now:
                now[kind] = len(spans)
                spans.append(WaitSpan(kind, at, 0, at, 0.0, None, who))
            span = spans[now[kind]]
            next_try = max(span.next_try, at + float(event.get("seconds") or 0.0))
            paused = span.paused + next_try - min(next_try, max(span.next_try, at))
            spans[now[kind]] = WaitSpan(kind, span.since, span.tries + 1, next_try, paused, None, span.waiting | who)
            continue
        for kind, place in [*now.items()]:
            span = spans[place]
            if name in ENDS_WAITS or (span.waiting & {event.get("eval_id"), ""} and _got_on(event)):
                cut = max(0.0, span.next_try - at)  # whoever got on before then waited no longer
                spans[place] = span._replace(until=at, paused=max(0.0, span.paused - cut), waiting=frozenset())
                del now[kind]
    return spans


def _got_on(event: Event) -> bool:
    """Check if an event says that an evaluation has got what it waited for: an answer, or room on a disk."""
    works = event.get("event") == EVENT_WORKING and event.get("stage") not in ASKING_STAGES
    return works or event.get("event") in GOT_ON


def standing_text(events: Sequence[Event], running: Collection[str], moment: Moment) -> str:
    """The state of a search that has not stopped: paused, waiting, or going on.  `running`: its evaluations at work.

    Whether it is paused is told by the moment: events have a request only once a build has heeded it."""
    is_building, paused = moment.is_building, f"since {time_text(_time(moment.pause))}" if moment.pause else ""
    build, end = last_build_events(events)
    if build and not end and not is_building:
        killed = "**Not at its end**: no build of it runs, the last one was killed"
        return f"{killed}; **paused** {paused}" if paused else killed
    if paused:
        return f"**Paused** {paused}"
    out = [span for span in wait_spans(events) if span.until is None]
    if out and {*running} <= {name for span in out for name in span.waiting}:
        first = min(out, key=lambda span: span.since)
        tried = f"next try at {time_text(max(span.next_try for span in out))}"
        return f"**Waits** since {time_text(first.since)} for {_what(first.kind)}, {tried}"
    return "**Still going on**" if is_building and not end else "**Not at its end**: no build of it runs"


def last_build_events(events: Sequence[Event]) -> tuple[Event | None, Event | None]:
    """The beginning and the end of the last build; None for what no event tells."""
    end = None
    for event in reversed(events):
        if event.get("event") == EVENT_BUILD:
            return event, end
        if event.get("event") == EVENT_BUILD_ENDED:
            end = end or event
    return None, end


def pause_request(events: Sequence[Event]) -> Event | None:
    """The request to pause that holds, if there is one."""
    last = next((event for event in reversed(events) if event.get("event") in (PAUSED, RESUMED)), None)
    return last if last and last["event"] == PAUSED else None


def waiting_slots(events: Sequence[Event]) -> frozenset[str]:
    """The evaluations that wait for what is out."""
    return frozenset().union(*(span.waiting for span in wait_spans(events) if span.until is None)) - {""}


def wait_rows(events: Sequence[Event]) -> list[tuple[list[str], bool]]:
    """Each time for which something was out, in cells, and whether it is over."""
    rows = []
    for span in wait_spans(events):
        until = BLANK if span.until is None else time_text(span.until)
        cells = [time_text(span.since), _what(span.kind), str(span.tries), duration(span.paused), until]
        rows.append((cells, span.until is not None))
    return rows


TOLD_FIELDS = ("verdict", "stage", "node_id", "promoted_from_eval_id", "slot", "kind", "stop_reason", "why")


def event_line(event: Event) -> str:
    """An event on one line."""
    name, parts = str(event.get("event")), []
    words = SINGLE_EVENTS.get(name, name.replace("_", " "))
    if event.get("after") is not None and event.get("before") is not None:
        parts.append(format_change(event["before"], event["after"]))
    error = event.get("error") or {}
    told = [event[key] for key in TOLD_FIELDS if event.get(key)] + [*filter(None, [error.get("why")])]
    parts += [clip_text(str(each), WHY_WIDTH) for each in told]
    if event.get("seconds"):
        parts.append(duration(event["seconds"]))
    if event.get("targets"):
        parts.append(plural(event["targets"], "target"))
    where = f"{event['eval_id']} " if event.get("eval_id") else ""
    return f"{time_text(_time(event))}  {where}{words}{': ' if parts else ''}{', '.join(parts)}"


class FoldedEvent(NamedTuple):
    """An event that was told of so many `times`, at last at `until`."""

    first: Event
    times: int
    until: float

    @property
    def line(self) -> str:
        again = f" ({self.times} times, last at {time_text(self.until)})" if self.times > 1 else ""
        return f"{event_line(self.first)}{again}"


def folded_events(events: Iterable[Event]) -> list[FoldedEvent]:
    """Events, of which those that tell the same of an evaluation again, as of an attempt after an attempt, are one."""
    folded: list[FoldedEvent] = []
    last: dict[Any, int] = {}  # by whom it is told of, its last event
    for event in events:
        who, place = event.get("eval_id"), last.get(event.get("eval_id"), -1)
        if who and place >= 0 and _is_repeat(folded[place].first, event):
            folded[place] = FoldedEvent(folded[place].first, folded[place].times + 1, _time(event))
            continue
        last[who] = len(folded)
        folded.append(FoldedEvent(event, 1, _time(event)))
    return folded


def _is_repeat(before: Event, event: Event) -> bool:
    return event.get("event") == before.get("event") == EVENT_WORKING and event.get("stage") == before.get("stage")


def _what(kind: str) -> str:
    """The thing that is out, by the kind of a wait."""
    if kind in NO_MODEL:
        return NO_MODEL[kind]
    return f"a model ({markdown_text(kind)})"


def happening_lines(events: Sequence[Event], is_over: bool, is_building: bool) -> list[str]:
    """A list of what happened, in the order of time.  `is_over`: the search has stopped."""
    builds, waits = _clipped(_builds(events, is_over, is_building), "build"), _clipped(_waits(events), "wait")
    told = [*builds, *waits, *_single_events(events)]
    return [f"- {line}" for line in (*(line for _, line in sorted(told, key=lambda each: each[0])), *_sums(events))]


def _clipped(lines: Iterable[tuple[float, str]], what: str) -> list[tuple[float, str]]:
    """Lines with their times; of many the first and the last ones, and the number of those between them."""
    found = [*lines]
    if len(found) <= FIRST_LINES + LAST_LINES:
        return found
    left = found[FIRST_LINES:-LAST_LINES]
    return [*found[:FIRST_LINES], (left[0][0], f"{plural(len(left), what)} between them"), *found[-LAST_LINES:]]


def _waits(events: Sequence[Event]) -> Iterator[tuple[float, str]]:
    for span in wait_spans(events):
        tries = plural(span.tries, "pause")
        if span.until is None:
            how = f"waits for {_what(span.kind)}: {tries} up to now, next try at {time_text(span.next_try)}"
        else:
            how = f"waited {duration(span.paused)} for {_what(span.kind)}: {tries}"
        yield span.since, f"{time_text(span.since)}: {how}"


def _builds(events: Sequence[Event], is_over: bool, is_building: bool) -> Iterator[tuple[float, str]]:
    """A line for each build, with its time; one that has no end was killed, unless it is the last one and runs."""
    told = [event for event in events if event.get("event") in (EVENT_BUILD, EVENT_BUILD_ENDED)]
    for n, event in enumerate(told):
        if event["event"] == EVENT_BUILD:
            after = told[n + 1] if n + 1 < len(told) else None
            what = f"a build of {plural(event.get('targets', 0), 'target')}"
            yield _time(event), f"{time_text(_time(event))}: {what}, {_end(after, is_over, is_building)}"


def _end(after: Event | None, is_over: bool, is_building: bool) -> str:
    if after is None and (is_over or is_building):  # the summary is one of the last things that a build makes
        return "which wrote this" if is_over else "not at its end when this was written"
    if after is None or after["event"] == EVENT_BUILD:
        return "**killed**: it has no end"
    failed = f", {plural(after['failed'], 'target')} failed" if after.get("failed") else ""
    return f"{'stopped early' if after.get('stopped') else 'ended'} after {duration(after['seconds'])}{failed}"


def _single_events(events: Sequence[Event]) -> Iterator[tuple[float, str]]:
    for event in events:
        if words := SINGLE_EVENTS.get(event.get("event", "")):
            why = ": ".join(str(event[name]) for name in ("stop_reason", "why") if event.get(name))
            slots = [str(event["slot"])] if event.get("slot") else [*map(str, event.get("slots") or [])]
            where = f" for {markdown_text(clip_text(join_names(slots), WHY_WIDTH))}" if slots else ""
            reason = f": {markdown_text(clip_text(why, WHY_WIDTH))}" if why else ""
            yield _time(event), f"{time_text(_time(event))}: {words}{where}{reason}"


def _sums(events: Sequence[Event]) -> Iterator[str]:
    again = {event["eval_id"] for event in events if event.get("event") == EVENT_REQUEUED and event.get("begun", True)}
    if again:
        yield f"{plural(len(again), 'evaluation')} begun again: {join_names(sorted(again))}"


def _time(event: Event) -> float:
    at: float = event.get("at", 0.0)
    return at


def failure_lines(manifest: Mapping[str, Any]) -> list[str]:
    """A list of the evaluations that failed, and why; of limits, what is to be done once they were raised."""
    failed = {name: error for name, each in manifest["evaluations"].items() if (error := each["error"])}
    lines = [f"- {n}: {table_cell(clip_text(e['why'], MOST_WHY))} (log: {e['log']})" for n, e in failed.items()]
    if any("limit: " in error["why"] for error in failed.values()):
        again = f"`coppice retry {manifest['tree_run_id']}` measures these again"
        lines += ["", f"Limits are no part of what makes a result stale: once `limits:` allow more, {again}."]
    return lines


# --- Lines for a terminal as a search goes on, at most LINE_WIDTH columns each; candidates choose some of their words.

LINE_WIDTH = 120
TITLE_WIDTH, SHORTEST_TITLE, LINE_WHY_WIDTH = 40, 12, 50

Entry = Mapping[str, Any]


def idea_line(run: str, entry: Entry, primary: str, recalled: bool = False) -> str:
    """The end of an idea: its verdict, the primary metric before and after, p, cost, time; why, if it failed.

    By blocks there are two: what was measured, and the verdict, once all of the depth can be weighed."""
    scores, measured, spent = entry["scoring_summary"], entry["primary"], entry["spent"]
    parts = [verdict_word(entry)]
    if entry["error"]:
        parts = [f"failed: {clip_text(entry['error']['why'], LINE_WHY_WIDTH)}"]
    if measured:
        parts.append(f"{clip_text(primary, 24)} {format_change(measured['before'], measured['after'])}")
    if scores and (evidence := scores["recommendation"]["evidence"]):
        parts.append(f"p {format_chance(evidence['p'])}")
    if entry["partial"]:
        parts.append("partial")
    if spent and (spent["usd"] or spent["unknown_calls"]):
        parts.append(format_money(spent["usd"], spent["unknown_calls"], "${:.4g}"))
    if spent and spent["seconds"]:
        parts.append(duration(spent["seconds"]))
    return _titled_line(run, entry["eval_id"], entry["idea_title"], [*parts, *(["recalled"] if recalled else [])])


def _titled_line(run: str, slot: str, title: str, parts: list[str]) -> str:
    where, rest = f"{run}:{slot}", ", ".join(parts)
    room = min(TITLE_WIDTH, max(SHORTEST_TITLE, LINE_WIDTH - len(where) - len(rest) - 4))
    return clip_text(": ".join(filter(None, [" ".join([where, clip_text(title, room)]).strip(), rest])), LINE_WIDTH)


def stopped_line(run: str, slot: str, stage: str, why: str) -> str:
    """A target of an evaluation failed by a fault that is not the candidate's."""
    return clip_text(f"{run}:{slot} did not end: {stage}: {why}", LINE_WIDTH)


def verdict_word(entry: Entry) -> str:
    """The verdict in a word: of the statistics, or the grade; `passed` until it is known what becomes a node."""
    scores = entry["scoring_summary"]
    if not scores:
        return "measured" if entry["primary"] else "not to be compared" if entry["defects"] else str(entry["status"])
    evidence = scores["recommendation"]["evidence"]
    if evidence is None:
        return str(scores["recommendation"]["grade"])
    return "passed" if evidence["verdict"] == PROMOTED else str(evidence["verdict"])


def measured_fields(entry: Entry) -> dict[str, Any]:
    """Fields of the event with which an evaluation ends."""
    spent, measured = entry["spent"] or {}, entry["primary"] or {}
    amounts = {name: spent.get(name) for name in ("usd", "unknown_calls", "tokens", "seconds")}
    return {"before": measured.get("before"), "after": measured.get("after"), **amounts}


def score_fields(entry: Entry) -> dict[str, Any]:
    parent = entry["scoring_summary"]["recommendation"]
    evidence = parent["evidence"]
    return {"verdict": verdict_word(entry), "score": parent["score"], "p": evidence and evidence["p"]}


def depth_line(run: str, depth: int, promoted: Mapping[str, Any]) -> str:
    """The end of a depth: which ideas became nodes, and how many passed and did not."""
    nodes = [f"{beam['promoted_from_eval_id']} -> {node}" for node, beam in promoted["beam"].items() if beam["commit"]]
    counts = Counter(decision["failed_check"] for decision in promoted["decisions"].values())
    parts = [join_names(nodes) or "nothing promoted"]
    for check, words in ((RANK, "passed, outranked"), (SAME_CODE, "passed, same code as another")):
        parts += [f"{counts[check]} {words}"] if counts[check] else []
    parts += [f"stops: {promoted['stop_reason']}"] if promoted["stop_reason"] else []
    return clip_text(f"{run}: depth {depth}: {'; '.join(parts)}", LINE_WIDTH)
