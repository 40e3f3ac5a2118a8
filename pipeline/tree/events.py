"""The life of each evaluation, folded from the lines of events.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

QUEUED, STARTED, COMPLETED, FAILED, REQUEUED = "queued", "started", "completed", "failed", "requeued"
STATES = {QUEUED: "queued", STARTED: "running", COMPLETED: "completed", FAILED: "failed", REQUEUED: "queued"}
NEW: dict[str, Any] = {
    "queued_at": None,
    "started_at": None,
    "finished_at": None,
    "worker_pid": None,
    "attempt": 0,
    "task_state": None,
}

Event = dict[str, Any]
Life = dict[str, Any]


def lives(events: Iterable[Mapping[str, Any]]) -> dict[str, Life]:
    """By evaluation."""
    found: dict[str, Life] = {}
    for event in events:
        if event["event"] in STATES and "eval_id" in event:
            life = found.get(event["eval_id"], NEW)
            found[event["eval_id"]] = life | after(life, event)
    return found


def after(life: Mapping[str, Any], event: Mapping[str, Any]) -> Life:
    what, at = event["event"], event["at"]
    changes: Life = {"task_state": STATES[what]}
    if what in (QUEUED, REQUEUED):
        changes |= {"queued_at": at, "started_at": None, "finished_at": None, "worker_pid": None}
    elif what == STARTED:
        changes |= {"started_at": at, "finished_at": None, "worker_pid": event["pid"], "attempt": life["attempt"] + 1}
    else:
        changes |= {"finished_at": at}
    return changes


def is_open(life: Mapping[str, Any] | None) -> bool:
    """It was begun and nobody knows how it ended: whoever was at it is gone."""
    return life is not None and life["task_state"] == STATES[STARTED]
