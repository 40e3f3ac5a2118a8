"""The display of a build on a terminal: what runs, how far it is, how long it takes still."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from threading import Lock
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome
from pipeline.views.events import Build
from pipeline.views.frame import STYLE, Line, frame, look_of, painted
from pipeline.views.lines import clean, details, said
from pipeline.views.progress import Progress
from pipeline.views.screen import Screen


class Live:
    """Takes events from the main thread while the screen's own thread draws."""

    def __init__(self, stream: Any, shown: Collection[str], build: Build) -> None:
        self.shown = shown
        self.look = look_of(stream.encoding, os.environ)
        self.progress = Progress(build, time.monotonic())
        self.screen = Screen(stream, self._block)
        self._lock = Lock()

    def open(self) -> None:
        self.screen.open()

    def close(self, last: str) -> None:
        self.screen.say(last)
        self.screen.close()

    def stopping(self, why: str) -> None:
        self.progress.stopping = why  # from a signal handler: the lock may be taken

    def started(self, target: Target) -> None:
        with self._lock:
            self.progress.started(target, time.monotonic())
        self.screen.changed()

    def said(self, target: Target, line: str) -> None:
        with self._lock:
            self.progress.said(target, clean(line))
        self.screen.changed()

    def ended(self, target: Target, outcome: Outcome) -> None:
        with self._lock:
            if outcome.status in self.shown and self.progress.worth_a_line(target, outcome):
                self._say(said(target.name, outcome), outcome)
            self.progress.ended(target, outcome)
        self.screen.changed()

    def _say(self, text: str, outcome: Outcome) -> None:
        word, rest = text[: len(outcome.status)], text[len(outcome.status) :]
        self.screen.say(painted(word, STYLE[outcome.status], self.look) + rest)
        for line in details(outcome):
            self.screen.say(line)

    def _block(self, width: int, height: int) -> list[Line]:
        with self._lock:
            return frame(self.progress, time.monotonic(), width, height - 1, self.look)
