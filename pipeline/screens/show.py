"""A recorded run as a show: projections come at their times, which are shortened so that it takes seconds.

A recording is a file, gzip of JSON: `run`, `kind`, `start` (a projection), `changes` (pairs of seconds since the start
and a delta), `details` (blocks of items, as they were at the end).  Or it is made from the records of a run."""

from __future__ import annotations

import gzip
import json
import shlex
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from pipeline import kinds
from pipeline.build import project
from pipeline.core.projection import DONE, Block, Json, Projection, apply_delta, as_json, delta, is_delta, is_json_of
from pipeline.core.text import byte_text, duration, one_line
from pipeline.errors import SpecError
from pipeline.screens.feed import Page, followed_page, readable
from pipeline.store.files import write_output
from pipeline.store.records import is_time

# Of a show at speed 1: all of it, and the longest time without any change.
SHOW_SECONDS, LONGEST_SILENCE = 20.0, 1.5
_HALVINGS = 60
MOST_BYTES = 256 << 20  # of a recording, unpacked
RECORDED = "a recording, as it went"


class Feed(Protocol):
    """Projections of a run as it changes.

    now: as it stands
    poll: the delta since the last `now` or `poll`; empty when nothing changed
    details: blocks of an item that a row names; SpecError when there is none"""

    def now(self) -> Json: ...
    def poll(self) -> Json: ...
    def details(self, item: str) -> list[Json]: ...


class Steering(Protocol):
    """The effect of the key `p`.

    question: what is asked first; empty where nothing needs to be
    act: does it; what was done"""

    def question(self) -> str: ...
    def act(self) -> str: ...


class Show(NamedTuple):
    """A recorded run.  `changes`: seconds since the start, never less than those before, and a delta."""

    run: str
    kind: str
    start: Json
    changes: Sequence[tuple[float, Json]]
    details: Mapping[str, list[Json]]

    @property
    def seconds(self) -> float:
        return self.changes[-1][0] if self.changes else 0.0

    def frames(self) -> Iterator[tuple[float, Json]]:
        """Every projection with its seconds."""
        projection = self.start
        yield 0.0, projection
        for seconds, change in self.changes:
            projection = apply_delta(projection, change)
            yield seconds, projection


# --- Recordings.


Details = Callable[[str], Iterable[Block]]


def record_show(run: str, kind: str, moments: Iterable[Projection], details: Details | None = None) -> Show:
    """Record projections, each `at` a later time than the one before, and details of all items, if they are asked for.

    SpecError where a run has none."""
    frames = iter(moments)
    first = next(frames, None)
    if first is None:
        raise SpecError(f"{run} has nothing to show yet; `coppice {run}` builds it")
    begin, seconds = first.at or 0.0, 0.0
    start = before = as_json(first)
    changes: list[tuple[float, Json]] = []
    for frame in frames:
        after = as_json(frame)
        seconds = max(seconds, round((frame.at or begin) - begin, 3))
        if change := delta(before, after):
            changes.append((seconds, change))
        before = after
    items = {row["item"]: None for block in before["blocks"] if block["is"] == "table" for row in block["rows"]}
    blocks = {item: as_json([*details(item)]) for item in items if item} if details else {}
    return Show(run, kind, start, changes, blocks)


def record_run(run: str, with_details: bool) -> tuple[Show, Details]:
    """Record a run from what is on the disk of it, and who tells of its items."""
    plan = project.load([run], keep=False)[run]
    if plan.kind not in kinds.SHOW.kinds:
        raise SpecError(f"{plan.spec}:1: kind: {plan.kind} does not tell how it came about; `kind: tree` does")
    details: Details = partial(kinds.ability_module(plan.kind, kinds.VIEW).details, run, plan.targets)
    moments = kinds.ability_module(plan.kind, kinds.SHOW).moments(run, plan.targets)
    with readable(run):
        return record_show(run, plan.kind, moments, details if with_details else None), details


def write_show(path: str, show: Show) -> int:
    """Write a recording; its size in bytes.  Equal shows are equal files."""
    text = json.dumps(show._asdict(), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if len(text) > MOST_BYTES:
        raise SpecError(f"{path}: the recording has more than {byte_text(MOST_BYTES)}, which nobody would read")
    content = gzip.compress(text.encode(), mtime=0)
    write_output(path, content)
    return len(content)


def read_show(path: str, run: str) -> Show:
    """Read a recording of a run; SpecError for anything else."""
    try:
        with gzip.open(path) as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise SpecError(f"{path}: is no recording of a run: it has more than {byte_text(MOST_BYTES)}")
        record = json.loads(text)
    except (FileNotFoundError, IsADirectoryError):
        raise SpecError(f"{path}: is no file; `coppice replay {run} --show --save {path}` makes it") from None
    except (EOFError, OSError, RecursionError, ValueError, zlib.error) as error:
        raise SpecError(f"{path}: cannot be read as a recording: {error}; {_how_to_make(run)}") from error
    if not _is_show(record):
        raise SpecError(f"{path}: is no recording of a run, or one of another version; {_how_to_make(run)}")
    if others := [name for name in (record["run"], record["start"]["run"]) if name != run]:
        raise SpecError(f"{path}: is a recording of run '{one_line(str(others[0]), 100)}', not of '{run}'")
    changes = [(seconds, change) for seconds, change in record["changes"]]
    show = Show(run, record["kind"], record["start"], changes, record["details"])
    try:
        deque(show.frames(), maxlen=0)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise SpecError(f"{path}: has a change that fits nothing before it; {_how_to_make(run)}") from error
    return show


def _how_to_make(run: str) -> str:
    return f"`coppice replay {run} --show --save FILE` makes one"


def _is_show(record: Any) -> bool:
    """Check the form of a recording, of which all may come from anybody."""
    if not isinstance(record, dict) or {*record} != {*Show._fields} or not isinstance(record["changes"], list):
        return False
    start, details = record["start"], record["details"]
    if not is_json_of(start, Projection) or not isinstance(details, dict):
        return False
    pairs = [each for each in record["changes"] if isinstance(each, list) and len(each) == 2]
    times = [0.0, *(seconds for seconds, change in pairs if is_time(seconds) and is_delta(change))]
    told = [start, *(change for _, change in pairs if isinstance(change, dict))]
    moments = [each.get("at") for each in told] + [each["state"]["since"] for each in told if "state" in each]
    return (
        len(times) - 1 == len(pairs) == len(record["changes"])
        and all(a <= b for a, b in pairwise(times))
        and all(at is None or is_time(at) for at in moments)
        and not any("run" in change for change in told[1:])
        and all(is_json_of(blocks, Sequence[Block]) for blocks in details.values())
    )


# --- Its times.


def show_times(times: Sequence[float]) -> list[float]:
    """Times in the show of what happened at these: all are shortened alike, but no silence stays longer than the limit.

    What takes less than a show is left as it was."""
    gaps = [max(0.0, after - before) for before, after in pairwise([0.0, *times])]
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS if _shortened(gaps, high) > SHOW_SECONDS else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if _shortened(gaps, middle) > SHOW_SECONDS else (middle, high)
    at, shown = 0.0, []
    for gap in gaps:
        at += min(gap * high, LONGEST_SILENCE)
        shown.append(at)
    return shown


def _shortened(gaps: Sequence[float], factor: float) -> float:
    return sum(min(gap * factor, LONGEST_SILENCE) for gap in gaps)


class RecordedFeed:
    """Feed that plays a show by a clock, from the first time that it is asked.

    `command` is shown as the one that shows this; `details` tells of items where the recording has none."""

    def __init__(
        self,
        show: Show,
        command: str,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        details: Details | None = None,
    ) -> None:
        self.show = show
        self._command, self._speed, self._clock, self._details = command, speed, clock, details
        self._times = show_times([seconds for seconds, _ in show.changes])
        self._played = 0  # changes
        self._projection = show.start
        self._shown: Json = {}
        self._begun: float | None = None
        self._held: float | None = None  # since then it is held

    def now(self) -> Json:
        if self._begun is None:
            self._begun = self._clock()
        self._go_on()
        self._shown = self._as_shown()
        return self._shown

    def poll(self) -> Json:
        before = self._shown or self.now()
        self.now()
        return delta(before, self._shown)

    def details(self, item: str) -> list[Json]:
        if item in self.show.details:
            return self.show.details[item]
        if self._details is None:
            raise SpecError(f"the recording of {self.show.run} has no details of '{item}'")
        with readable(f"{self.show.run}:{item}"):
            blocks: list[Json] = as_json([*self._details(item)])
        return blocks

    def log(self, path: str, start: int | None = None) -> Json:
        raise SpecError(f"{path} is not in the recording of {self.show.run}")

    def page(self, projection: Json) -> Page:
        """The page that begins with this projection and follows the show; nothing can be asked of the run by it."""
        return followed_page(self.show.run, projection, has_clock=False)

    @property
    def last(self) -> Json:
        """The projection that was given last."""
        return self._shown

    @property
    def is_over(self) -> bool:
        return self._played == len(self._times)

    def hold(self) -> str:
        """Hold the show, or let it go on; what it does now."""
        now = self._clock()
        if self._held is None:
            self._held = now
            return "the show is held; p lets it go on"
        self._begun, self._held = (self._begun or 0.0) + now - self._held, None
        return "the show goes on"

    def _go_on(self) -> None:
        now = self._clock() if self._held is None else self._held
        passed = (now - (self._begun or 0.0)) * self._speed
        while self._played < len(self._times) and self._times[self._played] <= passed:
            self._projection = apply_delta(self._projection, self.show.changes[self._played][1])
            self._played += 1

    def _as_shown(self) -> Json:
        """The projection, which says that it is recorded, and at which of its true times it stands."""
        at = self.show.changes[self._played - 1][0] if self._played else 0.0
        whole = duration(self.show.seconds, 0)
        clock = f"recorded, {duration(at, 0)} of {whole}" if not self.is_over else f"recorded, all of {whole}"
        state = self._projection["state"]
        if state["word"] != DONE:
            why = "" if state["why"] in self._projection["headline"] else state["why"]
            state = {**state, "why": f"{RECORDED}; {why}" if why else RECORDED}
        headline = f"{clock}: {self._projection['headline']}"
        return {**self._projection, "headline": headline, "state": state, "command": self._command}


def open_show(run: str, path: str = "", speed: str = "") -> RecordedFeed:
    """The feed of a recording, in a file or made now; its words are those of `--from` and `--speed`."""
    words = ["coppice", "replay", run, "--show", *(["--speed", speed] if speed else [])]
    if path:
        return RecordedFeed(read_show(path, run), shlex.join([*words, "--from", path]), float(speed or 1))
    show, details = record_run(run, with_details=False)
    return RecordedFeed(show, shlex.join(words), float(speed or 1), details=details)
