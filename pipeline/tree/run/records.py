"""Records of a run: JSON files, evaluations as JSON, and the event log with the life of each evaluation.

JSON is sorted and indented, so that equal records are equal files and people can read them.  A NamedTuple is a record
by its fields (`as_json`, `from_json`).  An evaluation is recorded without its slot: the same work gives the same
summary in every slot.

events.jsonl has a line an event, only ever appended to, by the one coordinator of a run; a torn line was never written.
States of an evaluation, each with the event that leads to it:

    (none) -> queued              queued
    queued -> running             started; `working`, with the id of its process, as each command of it starts
    running -> completed, failed  completed, failed: its last command has ended, and when
    running, failed -> queued     requeued: the build that ran it is gone, or what it needs is out
    completed, failed             scored: its comparison is known, by blocks only when all of its depth have ended

A build begins with `build` and ends with `build_ended`; one that was killed has no end.  `waiting` says that a target
waits for what is out, `stopped` that a search ended, or that a build of it was stopped by an outage."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pipeline.core.outcome import OUTAGE_WORDS
from pipeline.errors import NO_ROOM
from pipeline.git.commits import Candidate
from pipeline.store.files import append_lines, open_plain, read_bytes, whole_lines
from pipeline.store.records import is_time, record_of
from pipeline.tree.rules import scoring
from pipeline.tree.rules.beam import Evaluation
from pipeline.tree.rules.positions import NO_SLOT, EvalSlot

Record = dict[str, Any]


class Origin(NamedTuple):
    """The origin of the node at a place.  `empty`: why there is none; `closed`: why nothing is tried on it."""

    empty: str
    closed: str
    from_eval: str | None
    parent_node: str | None
    ancestors: Sequence[str]


class SlotTask(NamedTuple):
    """The input of an implementation.  It has no position: the same idea on the same code is the same work.

    `lacking`: the parts of the budget that did not suffice when its turn came."""

    idea: str
    empty: str
    why: str
    lacking: Sequence[str] | None = None


class CandidateRecord(NamedTuple):
    """The end of an implementation.  Beside it in the file is the Candidate, empty where there is none.

    `test_rounds`: how often the coder was told that tests failed; `partial`: why it ended before it was done;
    `left_out`: what the coder left behind that is no part of it, if anything."""

    status: str
    why: str
    approved: bool
    rounds: int
    test_rounds: int | None = None
    partial: str | None = None
    left_out: Sequence[str] | None = None


NO_CANDIDATE = Candidate("", "", "", "", 0, 0, 0)


class StepRecord(NamedTuple):
    """The end of the tests or of the checks; `checks`: each of them."""

    status: str
    why: str
    exit: int
    checks: Sequence[Record] | None = None


class SweepRecord(NamedTuple):
    """The end of a sweep: it ties code and results together.  `stopped_after`: the blocks measured before a cascade
    stopped it, or 0.  `given`: the results are from a file, and were not measured here."""

    status: str
    why: str
    exit: int
    tree: str
    csv_sha256: str
    stopped_after: int | None = None
    given: bool | None = None


class CommandCost(NamedTuple):
    """The cost of a command; `sandbox` and `network`: the grade of its cage and what it reached, as they held."""

    seconds: float
    attempts: int
    exit: int
    sandbox: str | None = None
    network: str | None = None


T = TypeVar("T", bound=NamedTuple)


def as_json(record: NamedTuple) -> Record:
    """A typed record as JSON; a field that may be missing is, when it is None."""
    return {k: v for k, v in record._asdict().items() if v is not None or k not in record._field_defaults}


def from_json(kind: type[T], record: Mapping[str, Any]) -> T:
    """A typed record from JSON, which may have more fields."""
    make: Callable[..., T] = kind
    return make(**{name: record[name] for name in kind._fields if name in record})


def load_as(kind: type[T], path: str) -> T:
    return from_json(kind, load(path))


def dump_record(record: Mapping[str, Any]) -> bytes:
    """A record as bytes; file names that are not Unicode keep Python's escapes."""
    return (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def load(path: str) -> Record:
    with open_plain(path) as file:
        record: Record = json.loads(file.read())
    return record


def load_if_intact(path: str) -> Record | None:
    """Load a record; None when it is missing or damaged: its target makes it again in its turn."""
    try:
        return load(path)
    except (FileNotFoundError, ValueError):
        return None


def save(path: str, record: Mapping[str, Any] | NamedTuple) -> None:
    write(path, dump_record(record if isinstance(record, Mapping) else as_json(record)))


def read_text(path: str) -> str:
    return read_bytes(path).decode(errors="replace")


def write(path: str, content: bytes | str) -> None:
    with open(path, "wb") as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)


# Fields of an evaluation that its summary has under the same name.
SUMMARY_FIELDS = ("status", "why", "commit", "tree", "approved", "defects", "rows_used", "rows_expected")


def scoring_rules(params: Mapping[str, Any]) -> scoring.ScoringRules:
    metrics = tuple(scoring.Metric(**metric) for metric in params["metrics"])
    if params["method"] == scoring.PAIRED:
        return scoring.ScoringRules(params["primary"], metrics, paired=scoring.PairedConstants(**params["score"]))
    return scoring.ScoringRules(params["primary"], metrics, scoring.MeansConstants(**params["score"]))


def recommendation(comparison: scoring.Comparison) -> Record:
    return comparison._asdict() | {"metrics": [detail._asdict() for detail in comparison.metrics]}


def summary_of(evaluation: Evaluation) -> Record:
    """The summary of an evaluation, without its slot."""
    score = evaluation.score
    return {
        **{name: getattr(evaluation, name) for name in SUMMARY_FIELDS},
        "results_sha256": evaluation.results,
        "baseline_sha256": evaluation.baseline,
        "scoring_summary": score
        and {"recommendation": recommendation(score.parent), "root_recommendation": recommendation(score.root)},
    }


def evaluation_of(summary: Mapping[str, Any], slot: EvalSlot = NO_SLOT) -> Evaluation:
    fields = {name: summary[name] for name in SUMMARY_FIELDS} | {"defects": tuple(summary["defects"])}
    fields |= {"results": summary["results_sha256"], "baseline": summary["baseline_sha256"]}
    if scores := summary["scoring_summary"]:
        fields["score"] = scoring.Score(*map(_comparison, (scores["recommendation"], scores["root_recommendation"])))
    return Evaluation(slot, **fields)


def _comparison(record: Mapping[str, Any]) -> scoring.Comparison:
    details = tuple(scoring.MetricComparison(**detail) for detail in record["metrics"])
    return scoring.Comparison(**{**record, "reasons": tuple(record["reasons"]), "metrics": details})


Event = dict[str, Any]


def read_events(path: str) -> Iterator[Event]:
    """Read the events of a log; a torn line was never written."""
    if not os.path.exists(path):
        return
    with open_plain(path) as file:
        yield from filter(None, map(event_of, whole_lines(file)))


def event_of(line: bytes) -> Event:
    """The event in a line of a log; empty where it lacks what each has, as anybody may write there."""
    event = record_of(line)
    return event if isinstance(event.get("event"), str) and is_time(event.get("at")) else {}


def append_event(path: str, event: Mapping[str, Any], at: float | None = None) -> Event:
    whole = {"at": round(time.time() if at is None else at, 3), **event}
    append_lines(path, json.dumps(whole, sort_keys=True).encode() + b"\n")
    return whole


class EventLog:
    """The event log of a run, for its one writer.  Events for which a disk has no room are written before the next."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._unwritten: list[Event] = []

    def append(self, event: Mapping[str, Any], at: float | None = None) -> Event:
        whole = {"at": round(time.time() if at is None else at, 3), **event}
        self._unwritten.append(whole)
        try:
            self.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
        return whole

    def flush(self) -> None:
        while self._unwritten:
            append_event(self._path, self._unwritten[0])
            del self._unwritten[0]


EVENT_QUEUED, EVENT_STARTED, EVENT_REQUEUED = "queued", "started", "requeued"
EVENT_COMPLETED, EVENT_FAILED = "completed", "failed"
EVENT_WORKING, EVENT_SCORED = "working", "scored"
EVENT_BUILD, EVENT_BUILD_ENDED = "build", "build_ended"
EVENT_WAITING, EVENT_STOPPED = "waiting", "stopped"
QUEUED, RUNNING = "queued", "running"
TASK_STATES = {EVENT_QUEUED: QUEUED, EVENT_STARTED: RUNNING, EVENT_REQUEUED: QUEUED}
TASK_STATES |= {EVENT_COMPLETED: "completed", EVENT_FAILED: "failed"}


def outage_stop(events: Iterable[Event]) -> Event | None:
    """The event of an outage that stopped the last build of a run; None where another build has begun since."""
    ends = [event for event in events if event["event"] == EVENT_BUILD or event.get("stop_reason") in OUTAGE_WORDS]
    return ends[-1] if ends and ends[-1]["event"] == EVENT_STOPPED else None


NEW_LIFE: dict[str, Any] = dict.fromkeys(("queued_at", "started_at", "finished_at", "scored_at", "worker_pid"))
NEW_LIFE |= {"attempt": 0, "task_state": None}

Life = dict[str, Any]
LIFE_TIMES = ("queued_at", "started_at", "finished_at", "scored_at")
LIFE_EVENTS = {*TASK_STATES, EVENT_WORKING, EVENT_SCORED}


def lives_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Life]:
    """The lives of all evaluations that a log of events tells of."""
    lives: dict[str, Life] = {}
    for event in events:
        if event.get("event") in LIFE_EVENTS and "eval_id" in event:
            note_event(lives, event)
    return lives


def note_event(lives: dict[str, Life], event: Mapping[str, Any]) -> None:
    """Change the life of an evaluation by an event of it."""
    kind, at, life = event["event"], event["at"], lives.get(event["eval_id"], NEW_LIFE)
    changes: Life = {"task_state": TASK_STATES.get(kind, life["task_state"])}
    if kind in (EVENT_QUEUED, EVENT_REQUEUED):
        changes |= {**dict.fromkeys(LIFE_TIMES), "queued_at": at, "worker_pid": None}
        if life["task_state"] == RUNNING and not event.get("begun", True):
            changes["attempt"] = life["attempt"] - 1
    elif kind == EVENT_STARTED:
        times = {"started_at": at, "finished_at": None, "scored_at": None}
        changes |= {**times, "worker_pid": event["pid"], "attempt": life["attempt"] + 1}
    elif kind == EVENT_WORKING:
        changes |= {"worker_pid": event["pid"]}
    elif kind == EVENT_SCORED:
        changes |= {"scored_at": at}
    else:
        changes |= {"finished_at": at}
    lives[event["eval_id"]] = life | changes
