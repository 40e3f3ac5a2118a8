"""Steering of a run while it is built: the log of what people asked for, and ideas that they gave in place of asking.

Whoever steers appends a line to steering.jsonl; the build only reads it.  A request is known by its number, so each is
told once, whatever was killed meanwhile.  States of a run:

    going -> paused    the request `paused`: what runs ends, nothing that costs is started
    paused -> going    the request `resumed`

A slot has one idea, asked for or given.  States of a slot, changed under one lock:

    free -> claimed    a build is about to ask for its idea
    claimed -> free    the next build begins: one that was killed before it had an answer asks again
    free -> given      a person has put a file in place; a build takes it, whenever it was planned"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pipeline.store.files import append_lines, whole_lines, write_all, write_whole
from pipeline.store.flock import file_lock
from pipeline.store.noop import folder
from pipeline.store.records import is_time, record_of

PAUSED, RESUMED, IDEA_GIVEN, ANSWERED, RETRIED = "paused", "resumed", "idea_given", "answered", "retried"
STEERING_LOG = "steering.jsonl"


def steering_path(run: str) -> str:
    return f"runs/{run}/{STEERING_LOG}"


def append_request(run: str, event: str, **more: Any) -> None:
    """Append a request; it is on the disk when this returns."""
    path = steering_path(run)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    record = {"at": round(time.time(), 3), "event": event, **more}
    append_lines(path, json.dumps(record, sort_keys=True).encode() + b"\n", durable=True)


class SteeringLog:
    """The requests of one run, read again only when the log has grown: it is asked before each start of a target."""

    def __init__(self, run: str) -> None:
        self._path = steering_path(run)
        self._size = 0
        self._requests: list[Mapping[str, Any]] = []

    def requests(self) -> list[Mapping[str, Any]]:
        """All requests so far, in order."""
        try:
            size = os.stat(self._path).st_size
            if size != self._size:
                self._requests = _read_requests(self._path) if size else []
                self._size = size
        except (FileNotFoundError, IsADirectoryError):
            self._requests, self._size = [], 0
        return self._requests

    def pause(self) -> Mapping[str, Any] | None:
        """The request by which the run is paused; None while it goes."""
        last: Mapping[str, Any] | None = None
        for request in self.requests():
            if request["event"] in (PAUSED, RESUMED):
                last = request if request["event"] == PAUSED else None
        return last


def _read_requests(path: str) -> list[Mapping[str, Any]]:
    """The requests of a log; a torn line was never written, and one that is no request asks for nothing."""
    with open(path, "rb") as file:
        requests = map(record_of, whole_lines(file))
        return [each for each in requests if isinstance(each.get("event"), str) and is_time(each.get("at"))]


def claim_slot(run: str, slot: str, given: str) -> bool:
    """Claim a slot for the build that is about to ask for its idea; False when a person gave one, the file `given`."""
    with file_lock(f"{folder(run)}/given.lock"):
        if os.path.exists(given):
            return False
        mark = _claim_path(run, slot)
        os.makedirs(os.path.dirname(mark), exist_ok=True)
        write_all(mark, b"")
        return True


def is_claimed(run: str, slot: str) -> bool:
    return os.path.exists(_claim_path(run, slot))


def drop_claims(run: str) -> None:
    """Drop the claims of builds before: by a build that has the run's lock, before it asks for anything."""
    with file_lock(f"{folder(run)}/given.lock"), suppress(FileNotFoundError):
        for slot in os.listdir(os.path.dirname(_claim_path(run, ""))):
            os.unlink(_claim_path(run, slot))


def _claim_path(run: str, slot: str) -> str:
    return f"{folder(run)}/claims/{slot}"


def put_given(run: str, choose: Callable[[], str], content: bytes) -> None:
    """Put an idea where `choose` says, which is asked while no build can claim a slot."""
    with file_lock(f"{folder(run)}/given.lock"):
        path = choose()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, content)
