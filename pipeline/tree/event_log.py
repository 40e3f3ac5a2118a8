"""events.jsonl: a line an event, only ever appended to, by the one coordinator of a run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from pipeline.edge.files import line_break

Event = dict[str, Any]


class EventLog:
    def __init__(self, path: str) -> None:
        self.path = path
        self._torn = True  # until somebody has looked: a line may have been cut short

    def read(self) -> Iterator[Event]:
        """A torn line was never written."""
        if os.path.exists(self.path):
            with open(self.path, "rb") as file:
                yield from (event for line in file if (event := _parsed(line)) is not None)

    def append(self, event: Mapping[str, Any], at: float | None = None) -> Event:
        whole = {"at": round(time.time() if at is None else at, 3), **event}
        line = json.dumps(whole, sort_keys=True).encode() + b"\n"
        with open(self.path, "a+b") as file:
            file.write(self._ended(file) + line)
        return whole

    def _ended(self, file: IO[bytes]) -> bytes:
        torn, self._torn = self._torn, False
        return line_break(file) if torn else b""


def _parsed(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and line.endswith(b"\n") else None
