"""Projections: a run as numbers and blocks, from which the terminal, the page and JSON are drawn.

A kind makes them from its records (`view` of each kind); nobody else counts or judges, so that no two screens can
disagree.  A projection is small: what only one who opens an item wants to see are its `details`, asked for by name.
Texts are for people and plain: whoever draws them escapes them for his medium.

A change of a projection is a delta, which `apply_delta` adds to the JSON of the one before: blocks are known by their
names, rows of a table by their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from pipeline.core.freshness import FailureRecord, Receipt
from pipeline.core.outcome import PastBuild

Json = dict[str, Any]

# --- What stands of a run.

EMPTY, LIVE, PAUSED, STOPPED, KILLED, FAILED_RUN, DONE = (
    "empty",
    "live",
    "paused",
    "stopped",
    "killed",
    "failed",
    "done",
)
RUN_STATES: Mapping[str, str] = {
    EMPTY: "nothing was built yet",
    LIVE: "a build of it goes on",
    PAUSED: "a person has paused it: nothing that costs is started",
    STOPPED: "no build goes on, and there is more to do",
    KILLED: "its last build has no end, and no process works on it",
    FAILED_RUN: "no build goes on; targets of the last one failed",
    DONE: "all is made",
}
# How an item stands, each with the sign that tells it apart without colours.
STATUSES: Mapping[str, str] = {
    "promoted": "▲", "proved": "▲", "done": "●", "passed": "◆", "indecisive": "◇", "rejected": "▽", "failed": "✕",
    "refused": "⊘", "running": "▶", "waiting": "…", "queued": "·", "skipped": "~", "open": "○", "stale": "≠",
    "recalled": "↺", "measured": "◐",
}  # fmt: skip


class RunState(NamedTuple):
    """One of RUN_STATES; `why`: the same for this run; `since`: seconds of the epoch, None where it is not known."""

    word: str
    why: str = ""
    since: float | None = None


# How a target stands, by words of STATUSES.
TARGET_RUNNING, TARGET_FAILED, TARGET_WAITS, TARGET_OPEN = "running", "failed", "waiting", "open"
TARGET_MADE, TARGET_RECALLED, TARGET_LEFT_OUT, TARGET_QUEUED = "done", "recalled", "skipped", "queued"


class TargetState(NamedTuple):
    """How a target stands: a word of STATUSES, and what was recorded of it; `why`, where the records do not say it."""

    status: str
    receipt: Receipt | None = None
    failure: FailureRecord | None = None
    why: str = ""

    @property
    def seconds(self) -> float | None:
        record = self.receipt or self.failure
        return record.end - record.start if record and record.end else None

    @property
    def at(self) -> float | None:
        record = self.failure or self.receipt
        return record.end if record and record.end else None


class Figure(NamedTuple):
    """A number of the top line.  `text` is all of it with its unit; `value` is for programs, None where there is none.

    `better`: `higher` or `lower`, where one of them is; `note`: a few words below it.  Of what goes on, in seconds of
    the epoch: `since`: the text is the time from there on; `until`: it is expected to end then.  Whoever draws and has
    a clock counts both on."""

    name: str
    text: str
    value: float | None = None
    better: str = ""
    note: str = ""
    since: float | None = None
    until: float | None = None


# --- Blocks, of which a projection and the details of an item are made.


class Text(NamedTuple):
    """Paragraphs, parted by empty lines."""

    name: str
    title: str
    text: str


class Column(NamedTuple):
    """A column of a table.  `is_number`: its cells stand at the right.

    `is_since`: its cells are seconds of the epoch.  Whoever draws and has a clock shows how long ago that is, and
    counts on; without a clock, the time."""

    title: str
    is_number: bool = False
    unit: str = ""
    better: str = ""
    is_since: bool = False


class Row(NamedTuple):
    """A row of a table.  `item`: whose details it opens; `status`: one of STATUSES; `depth`: how far it is indented."""

    cells: Sequence[str]
    item: str = ""
    status: str = ""
    depth: int = 0


class Table(NamedTuple):
    """A table, or with depths of its rows a tree.  `sentence`: what it says, for whoever does not see it."""

    name: str
    title: str
    sentence: str
    columns: Sequence[Column]
    rows: Sequence[Row]


class Picture(NamedTuple):
    """An SVG of `views/pages`; what has `data-item` opens those details."""

    name: str
    title: str
    sentence: str
    svg: str


class HeatRow(NamedTuple):
    title: str
    values: Sequence[float | None]
    item: str = ""


class Heat(NamedTuple):
    """Numbers by row and column; None is what was not measured.  `centre`: the value that is neither good nor bad."""

    name: str
    title: str
    sentence: str
    columns: Sequence[str]
    rows: Sequence[HeatRow]
    unit: str = ""
    better: str = ""
    centre: float | None = None


class Code(NamedTuple):
    """Text in a fixed width: `look` is `diff`, `log`, `lean` or `text`; `path` has all of it; `left_out`: bytes."""

    name: str
    title: str
    text: str
    look: str = "text"
    path: str = ""
    left_out: int = 0


Block = Text | Table | Picture | Heat | Code
KINDS: Mapping[type, str] = {Text: "text", Table: "table", Picture: "picture", Heat: "heat", Code: "code"}


class Projection(NamedTuple):
    """A run as it stands.  `meaning`: what its result means, and what it does not; `headline`: its state in a sentence.

    `command` shows this very run in a terminal; `at`: the time of what is shown, of the records and not of now."""

    run: str
    kind: str
    headline: str
    state: RunState
    figures: Sequence[Figure]
    meaning: str
    blocks: Sequence[Block]
    command: str = ""
    at: float | None = None


class RunningTarget(NamedTuple):
    """A target that a build is making; `says`: what Coppice last told of its progress, if anything; what its command
    prints is in its log."""

    name: str
    since: float
    says: str = ""


class Moment(NamedTuple):
    """Facts that no record has: does a build work on the run, and on what; is it paused; and what time is it.

    `left`: seconds until that build ends, as far as it can tell; `builds`: all that are remembered; `is_told`: the
    build itself tells what it works on, be it nothing; `unasked`: the lock that this user may not ask, so that nobody
    knows whether a build works on the run.  Of a build that was killed: `cut_off`: what it worked on when it last told;
    `heard`: when it was last heard of."""

    is_building: bool = False
    pause: Mapping[str, Any] | None = None
    now: float = 0.0
    running: Sequence[RunningTarget] = ()
    left: float | None = None
    builds: Sequence[PastBuild] = ()
    is_told: bool = False
    unasked: str = ""
    cut_off: Sequence[RunningTarget] = ()
    heard: float | None = None


# --- As JSON, and changes of it.


def as_json(value: Any) -> Any:
    """A projection, a block or a part of one, as JSON: fields by their names, blocks with `is`.

    What is no number is missing: JSON has no word for it, and it would never be equal to itself."""
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)):
        kind: Json = {"is": KINDS[type(value)]} if type(value) in KINDS else {}
        return kind | {name: as_json(each) for name, each in zip(names, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


_PLAIN = (str, int, bool, type(None))  # first: ten thousand rows have a quarter of a million of them


MOST_NUMBER = 1e300  # of JSON from elsewhere: what is larger is no number any more when something is added to it


def is_json_of(value: Any, kind: Any) -> bool:
    """Check that JSON from elsewhere is what `as_json` makes of a value of this type."""
    if (names := getattr(kind, "_fields", None)) is not None:
        own = {"is": KINDS[kind]} if kind in KINDS else {}
        if not isinstance(value, dict) or value.keys() != {*own, *names} or any(value[key] != own[key] for key in own):
            return False
        return all(is_json_of(value[name], hint) for name, hint in _hints_of(kind).items())
    if isinstance(kind, UnionType):
        return any(is_json_of(value, each) for each in get_args(kind))
    if get_origin(kind) is Sequence:
        return isinstance(value, list) and all(is_json_of(each, get_args(kind)[0]) for each in value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and abs(value) < MOST_NUMBER
    return type(value) is kind


@lru_cache
def _hints_of(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def is_delta(change: Any) -> bool:
    """Check the form of a change from elsewhere; whether it fits a projection is seen by `apply_delta`."""
    if not isinstance(change, dict):
        return False
    blocks, order = change.get("blocks", {}), change.get("order", [])
    plain = {name: value for name, value in change.items() if name not in ("blocks", "order")}
    hints = _hints_of(Projection)
    return (
        all(name in hints and is_json_of(value, hints[name]) for name, value in plain.items())
        and isinstance(blocks, dict)
        and all(is_json_of(each, Block) or _is_row_delta(each) for each in blocks.values())
        and is_json_of(order, Sequence[str])
    )


def _is_row_delta(block: Any) -> bool:
    if not isinstance(block, dict) or block.keys() != {"rows", "count"} or not isinstance(block["rows"], dict):
        return False
    return is_json_of(block["count"], int) and all(is_json_of(row, Row) for row in block["rows"].values())


def delta(before: Json, after: Json) -> Json:
    """The change that makes the JSON of one projection that of another; empty if they are the same.

    `blocks` has those that are new or different; of a table of the same columns the different rows by their places,
    and how many there are; `order`: the names of all, if they are not the same as before."""
    changed = {name: value for name, value in after.items() if name != "blocks" and before.get(name) != value}
    old = {block["name"]: block for block in before.get("blocks", [])}
    new = {block["name"]: block for block in after["blocks"]}
    blocks = {name: _block_delta(old.get(name), block) for name, block in new.items() if old.get(name) != block}
    if blocks:
        changed["blocks"] = blocks
    if [*old] != [*new]:
        changed["order"] = [*new]
    return changed


def _block_delta(old: Json | None, new: Json) -> Json:
    rest = [{name: value for name, value in (each or {}).items() if name != "rows"} for each in (old, new)]
    if old is None or new["is"] != KINDS[Table] or rest[0] != rest[1]:
        return new
    rows = {str(at): row for at, row in enumerate(new["rows"]) if at >= len(old["rows"]) or old["rows"][at] != row}
    return {"rows": rows, "count": len(new["rows"])}


def apply_delta(before: Json, change: Json) -> Json:
    """The JSON of the projection after a change."""
    blocks = {block["name"]: block for block in before.get("blocks", [])}
    for name, block in change.get("blocks", {}).items():
        if "is" not in block and blocks[name]["is"] != KINDS[Table]:
            raise KeyError(name)
        blocks[name] = block if "is" in block else blocks[name] | {"rows": _changed_rows(blocks[name]["rows"], block)}
    order: Iterable[str] = change.get("order", [*blocks])
    plain = {name: value for name, value in change.items() if name not in ("blocks", "order")}
    return {**before, **plain, "blocks": [blocks[name] for name in order]}


def _changed_rows(rows: Sequence[Json], change: Json) -> list[Json]:
    return [change["rows"].get(str(at)) or rows[at] for at in range(change["count"])]
