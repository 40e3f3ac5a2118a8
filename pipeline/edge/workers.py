"""Warm Python processes that call functions of the user's files: no interpreter start for each target."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from tempfile import TemporaryFile
from threading import local
from typing import Any, BinaryIO, NamedTuple

from pipeline.edge.process import Processes
from pipeline.edge.redact import copy_redacted, redacted


class Reply(NamedTuple):
    """`error` is empty when the call went well; `dead` when the process ended instead of answering."""

    error: str
    dead: int | None = None
    timed_out: bool = False


class _Worker(NamedTuple):
    process: subprocess.Popen[bytes]
    env: dict[str, str]
    printed: BinaryIO  # what the functions print, of one call at a time


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
            answer = self._asked(worker.process, request)
        if answer is not None and not late.is_set():
            self._move_printed(worker.printed, log, secrets)
            return Reply(redacted(answer, secrets))
        self._processes.end(worker.process)
        self._move_printed(worker.printed, log, secrets)
        return Reply("the worker process ended", worker.process.returncode, late.is_set())

    @staticmethod
    def _asked(process: subprocess.Popen[bytes], request: dict[str, Any]) -> str | None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            message = marshal.dumps(request)
            process.stdin.write(len(message).to_bytes(4, "little") + message)
            process.stdin.flush()
            size = process.stdout.read(4)
            return process.stdout.read(int.from_bytes(size, "little")).decode() if len(size) == 4 else None
        except (BrokenPipeError, ValueError):
            return None  # it died before or while it was asked

    @staticmethod
    def _move_printed(printed: BinaryIO, log: str, secrets: Mapping[str, str]) -> None:
        """Most calls print nothing, and then no log is made."""
        if os.fstat(printed.fileno()).st_size:
            printed.seek(0)
            with open(log, "ab") as file:
                copy_redacted(printed, file, secrets)
            os.ftruncate(printed.fileno(), 0)

    def _worker(self, env: Mapping[str, str]) -> _Worker:
        worker: _Worker | None = getattr(self._mine, "worker", None)
        if worker is not None and worker.process.poll() is None and worker.env == env:
            return worker
        if worker is not None:
            self._processes.end(worker.process)
            worker.printed.close()
        printed = TemporaryFile("a+b")  # noqa: SIM115 - appended to: we empty it while the worker holds it open
        script = os.path.join(os.path.dirname(__file__), "worker.py")
        # Compiled files are trusted by size and second: a module edited twice in a second would be an old one.
        python = [sys.executable, "-B", "-X", f"pycache_prefix={os.devnull}"]
        process = self._processes.start(
            [*python, script], env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
        )
        self._mine.worker = worker = _Worker(process, dict(env), printed)
        return worker
