"""What there is in a process that is ready: environments, states, and how much memory they take."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from pipeline.edge.lean import memory
from pipeline.edge.lean.model import NotElaborated, Stop

ENVIRONMENTS = 32  # more are forgotten as soon as nobody needs them
PREPARING = 60.0  # seconds for commands that stand before a theorem
GROWTH = 1.25  # a process that is as large as it may be when it starts may yet grow by so much
WATCH = 0.5  # seconds between looks at how large it is
_SORRY = re.compile(r"^declaration uses .sorry.")


class Ask(Protocol):
    def __call__(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]: ...


class Warm:
    """None of its numbers means anything in another process.  `most`: bytes that it may have."""

    def __init__(self, ask: Ask, pid: int, most: int) -> None:
        self.ask = ask
        self.freed: deque[list[int]] = deque()  # states of sessions that are closed
        self._environments: dict[tuple[str, ...], int] = {(): 0}
        self._family = memory.family(pid)
        self._most = max(most, int(GROWTH * memory.resident(self._family)))
        self._looked = time.monotonic()

    def has_grown(self) -> bool:
        now = time.monotonic()
        if now - self._looked < WATCH:
            return False
        self._looked = now
        return memory.resident(self._family) > self._most

    def environment(self, before: tuple[str, ...], stop: Stop | None) -> int:
        """After these commands, which are elaborated once a process."""
        for count in range(1, len(before) + 1):
            if before[:count] not in self._environments:
                self._environments[before[:count]] = self._after(before[: count - 1], before[count - 1], stop)
        return self._environments[before]

    def _after(self, before: tuple[str, ...], text: str, stop: Stop | None) -> int:
        request = {"cmd": "cmd", "env": self._environments[before], "text": text}
        answer = self.ask(request, PREPARING, stop)
        if wrong := _wrong(answer):
            raise NotElaborated(f"{text.strip()}: {wrong}")
        return int(answer["env"])

    def tidy(self, alone: bool, stop: Stop | None) -> None:
        """Let go of what closed sessions left; `alone`: nobody else has anything here."""
        if alone and len(self._environments) > ENVIRONMENTS:
            self._environments = {(): 0}
            self.freed.clear()
            self.ask({"cmd": "forget"}, PREPARING, stop)
        elif self.freed:
            freed = [self.freed.popleft() for _ in range(len(self.freed))]
            self.ask({"cmd": "drop", "sids": [sid for sids in freed for sid in sids]}, PREPARING, stop)


def _wrong(answer: Mapping[str, Any]) -> str:
    """With commands: they were refused, one has an error, or leaves something to be proved."""
    errors = [message["data"] for message in answer.get("messages", ()) if _is_wrong(message)]
    return str(answer.get("error") or next(iter(errors), ""))


def _is_wrong(message: Mapping[str, Any]) -> bool:
    """No proof could rest on what Lean only warns of."""
    return message["severity"] == "error" or _SORRY.search(message["data"]) is not None
