"""Warm Python processes that call functions of the user's files: no interpreter start for each target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from threading import Timer, local
from typing import Any, NamedTuple

from pipeline.edge.process import Processes


class Reply(NamedTuple):
    """`error` is empty when the call went well; `dead` when the process ended instead of answering."""

    error: str
    dead: int | None = None
    timed_out: bool = False


class Workers:
    """A worker for each thread that asks, started when first needed and again after it died.

    A worker serves one environment; a call that needs another one gets a new worker."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._mine = local()

    def call(self, request: Mapping[str, Any], env: Mapping[str, str], timeout: float | None) -> Reply:
        worker = self._worker(env)
        late: list[bool] = []
        timer = Timer(timeout, lambda: (late.append(True), self._processes.end(worker))) if timeout else None
        if timer:
            timer.start()
        try:
            answer = self._asked(worker, request)
        finally:
            if timer:
                timer.cancel()
                timer.join()
        if answer and not late:
            return Reply(json.loads(answer)["error"])
        self._processes.end(worker)
        return Reply("the worker process ended", worker.returncode, bool(late))

    @staticmethod
    def _asked(worker: subprocess.Popen[bytes], request: Mapping[str, Any]) -> bytes:
        assert worker.stdin is not None and worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            worker.stdin.flush()
            return worker.stdout.readline()
        except (BrokenPipeError, ValueError):
            return b""  # it died before or while it was asked

    def _worker(self, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        worker: subprocess.Popen[bytes] | None = getattr(self._mine, "worker", None)
        if worker is not None and worker.poll() is None and self._mine.env == env:
            return worker
        if worker is not None:
            self._processes.end(worker)
        script = os.path.join(os.path.dirname(__file__), "worker.py")
        worker = self._processes.start(
            [sys.executable, script], env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._mine.worker, self._mine.env = worker, dict(env)
        return worker
