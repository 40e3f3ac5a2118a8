"""Warm Python processes that call functions of the user's files: no interpreter start for each target."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import local
from typing import IO, Any, NamedTuple

from pipeline.edge.child import has_ended
from pipeline.edge.process import Processes
from pipeline.edge.redact import copy_redacted, redacted, unnamed
from pipeline.errors import writing


class Reply(NamedTuple):
    """`error` is empty when the call went well; `dead` when the process ended instead of answering."""

    error: str
    dead: int | None = None
    timed_out: bool = False


class _Worker(NamedTuple):
    process: subprocess.Popen[bytes]
    env: dict[str, str]
    printed: IO[bytes]  # what the functions print, of one call at a time


class Workers:
    """A worker for each thread that asks, started when first needed and again after it died.

    A worker serves one environment; a call that needs another one gets a new worker."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._mine = local()

    def call(
        self,
        request: dict[str, Any],
        env: Mapping[str, str],
        log: str,
        timeout: float | None,
        secrets: Mapping[str, str],
    ) -> Reply:
        worker = self._worker(env)
        with self._processes.deadline(worker.process, timeout) as late:
            answer = _asked(worker.process, request)
        if answer is not None and not late.is_set():
            try:
                _move_printed(worker.printed, log, secrets)
            except OSError:
                if not answer:  # otherwise it is the same disk that the function tells of
                    raise
            return Reply(redacted(answer, secrets) if answer else "")
        self._processes.end(worker.process)
        _move_printed(worker.printed, log, secrets)
        return Reply("the worker process ended", worker.process.returncode, late.is_set())

    def _worker(self, env: Mapping[str, str]) -> _Worker:
        worker: _Worker | None = getattr(self._mine, "worker", None)
        if worker is not None and not has_ended(worker.process) and worker.env == env:
            return worker
        if worker is not None:
            self._processes.end(worker.process)
            _close(worker)
        printed = unnamed()
        script = os.path.join(os.path.dirname(__file__), "worker.py")
        process = self._processes.start(
            [sys.executable, "-B", script], env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
        )
        self._mine.worker = worker = _Worker(process, dict(env), printed)
        return worker


def _asked(process: subprocess.Popen[bytes], request: dict[str, Any]) -> str | None:
    """The answer; None when it died before it was asked, or while."""
    assert process.stdin is not None
    assert process.stdout is not None
    message = marshal.dumps(request)
    try:
        process.stdin.write(len(message).to_bytes(4, "little") + message)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    head = process.stdout.read(4)
    size = int.from_bytes(head, "little")
    answer = process.stdout.read(size) if len(head) == 4 else b""
    return answer.decode() if len(head + answer) == 4 + size else None


def _move_printed(printed: IO[bytes], log: str, secrets: Mapping[str, str]) -> None:
    """Most calls print nothing, and then no log is made."""
    if os.fstat(printed.fileno()).st_size:
        with writing(log), open(log, "ab") as file:
            copy_redacted(printed.fileno(), file, secrets)
        os.ftruncate(printed.fileno(), 0)


def _close(worker: _Worker) -> None:
    worker.printed.close()
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # it ended before it read all that we had asked
                pipe.close()
