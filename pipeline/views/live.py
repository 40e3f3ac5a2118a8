"""The display of a build on a terminal: what runs, how far it is, how long it takes still."""

from __future__ import annotations

import os
import time
from threading import Lock
from typing import Any

from pipeline.core.graph import Target
from pipeline.views.events import Build, Result
from pipeline.views.frame import STYLE, Line, frame, look_of, painted
from pipeline.views.lines import details, said
from pipeline.views.progress import Progress
from pipeline.views.screen import Screen


class Live:
    """Takes events from the main thread while the screen's own thread draws."""

    def __init__(self, stream: Any, build: Build) -> None:
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

    def ended(self, result: Result) -> None:
        with self._lock:
            if (text := said(result)) and self.progress.worth_a_line(result):
                self._say(text, result)
            self.progress.ended(result)
        self.screen.changed()

    def _say(self, text: str, result: Result) -> None:
        word, rest = text[: len(result.status)], text[len(result.status) :]
        self.screen.say(painted(word, STYLE[result.status], self.look) + rest)
        for line in details(result):
            self.screen.say(line)

    def _block(self, width: int, height: int) -> list[Line]:
        with self._lock:
            return frame(self.progress, time.monotonic(), width, height - 1, self.look)
