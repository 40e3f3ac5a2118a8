"""Events of a search as a list for people: builds and how they ended, requests of people, waits for models,
retries, stops, takeovers.

Pure.  Logs from before builds were events tell of the rest alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline.core.text import duration, join_names, plural
from pipeline.store.steering import ANSWERED, IDEA_GIVEN, PAUSED, RESUMED
from pipeline.tree.report.markdown import clip_text, plain_text
from pipeline.tree.run.records import EVENT_BUILD, EVENT_BUILD_ENDED, EVENT_REQUEUED

Event = Mapping[str, Any]
# Of many builds the first and the last ones are told.
FIRST_BUILDS, LAST_BUILDS = 2, 8
WHY_WIDTH = 100
# Events that people cause, and a stop for which a model is the reason, each in words.
SINGLE_EVENTS = {
    "lock_takeover": "the run was taken over from another process",
    PAUSED: "paused",
    RESUMED: "resumed",
    IDEA_GIVEN: "a person gave an idea",
    ANSWERED: "a person answered",
    "stopped": "the search stopped",
}


def happening_lines(events: Sequence[Event], is_over: bool) -> list[str]:
    """A list of what happened, in its order; sums of what happens often.  `is_over`: the search has stopped."""
    told = sorted([*_builds(events, is_over), *_single_events(events)])  # by their places in the log
    return [f"- {line}" for line in (*(line for _, line in told), *_sums(events))]


def _builds(events: Sequence[Event], is_over: bool) -> Iterator[tuple[int, str]]:
    """A line for each build, with its place; one that has no end was killed, unless it is the last one."""
    told = [(n, event) for n, event in enumerate(events) if event.get("event") in (EVENT_BUILD, EVENT_BUILD_ENDED)]
    lines = []
    for n, (place, event) in enumerate(told):
        if event["event"] == EVENT_BUILD:
            after = told[n + 1][1] if n + 1 < len(told) else None
            what = f"a build of {plural(event.get('targets', 0), 'target')}"
            lines.append((place, f"{_moment(event)}: {what}, {_end(after, is_over)}"))
    if len(lines) > FIRST_BUILDS + LAST_BUILDS:
        left = lines[FIRST_BUILDS:-LAST_BUILDS]
        between = (left[0][0], f"{plural(len(left), 'build')} between them")
        lines = [*lines[:FIRST_BUILDS], between, *lines[-LAST_BUILDS:]]
    yield from lines


def _end(after: Event | None, is_over: bool) -> str:
    if after is None:  # the summary is one of the last things that a build makes
        return "which wrote this" if is_over else "not at its end when this was written"
    if after["event"] == EVENT_BUILD:
        return "**killed**: it has no end"
    failed = f", {plural(after['failed'], 'target')} failed" if after.get("failed") else ""
    return f"{'stopped early' if after.get('stopped') else 'ended'} after {duration(after['seconds'])}{failed}"


def _single_events(events: Sequence[Event]) -> Iterator[tuple[int, str]]:
    for place, event in enumerate(events):
        if words := SINGLE_EVENTS.get(event.get("event", "")):
            why = ": ".join(str(event[name]) for name in ("stop_reason", "why") if event.get(name))
            where = f" for {plain_text(str(event['slot']))}" if event.get("slot") else ""
            reason = f": {clip_text(plain_text(why), WHY_WIDTH)}" if why else ""
            yield place, f"{_moment(event)}: {words}{where}{reason}"


def _sums(events: Sequence[Event]) -> Iterator[str]:
    waits: defaultdict[str, list[float]] = defaultdict(list)
    again: Counter[str] = Counter()
    for event in events:
        if event.get("event") == "waiting":
            waits[str(event.get("kind", "model"))].append(float(event.get("seconds") or 0.0))
        if event.get("event") == EVENT_REQUEUED:
            again[event["eval_id"]] += 1
    for kind, seconds in sorted(waits.items()):
        yield f"waited for a model, {plain_text(kind)}: {plural(len(seconds), 'time')}, {duration(sum(seconds))}"
    if again:
        yield f"{plural(sum(again.values()), 'evaluation')} begun again: {join_names(sorted(again))}"


def _moment(event: Event) -> str:
    return datetime.fromtimestamp(event.get("at", 0.0), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
