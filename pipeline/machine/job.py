"""Job of a stage: the paths, processes, Python workers and shared resources that it is given.

Workers are warm Python processes that call functions of the user's files: no interpreter start for each target.
SharedResources are what is dear to make and serves many targets: made when first asked for, closed when the build
ends.  StageFailed is how a stage says that the candidate failed, not the tool; StageOutage, that neither did."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from threading import Lock, local
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from pipeline.core.cages import CageKeys
from pipeline.core.graph import Target
from pipeline.core.outcome import DISK_FULL, Wait
from pipeline.errors import UNAVAILABLE, writing
from pipeline.machine.process import Environment, Exit, Processes, has_ended
from pipeline.machine.redaction import copy_redacted, redact_text, unnamed_file


class _Worker(NamedTuple):
    process: subprocess.Popen[bytes]
    env: dict[str, str]
    printed: IO[bytes]  # what the functions print, of one call at a time


class Workers:
    """Workers, one for each thread that asks, started when first needed and again after it died.

    A worker serves one environment; a call that needs another one gets a new worker."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._of_thread = local()

    def call(self, request: dict[str, Any], env: Environment, log: str, timeout: float | None) -> str | Exit:
        """Make a call: what went wrong, empty when nothing did; or how the process ended instead of an answer."""
        worker = self._worker(env.variables)
        with self._processes.deadline(worker.process, timeout) as late:
            answer = _exchange(worker.process, request)
        if answer is not None and not late.is_set():
            try:
                _move_printed(worker.printed, log, env.secrets)
            except OSError:
                if not answer:  # otherwise it is the same disk that the function tells of
                    raise
            return redact_text(answer, env.secrets) if answer else ""
        self._processes.end(worker.process)
        _move_printed(worker.printed, log, env.secrets)
        return Exit(worker.process.returncode, late.is_set())

    def _worker(self, env: Mapping[str, str]) -> _Worker:
        worker: _Worker | None = getattr(self._of_thread, "worker", None)
        if worker is not None and not has_ended(worker.process) and worker.env == env:
            return worker
        if worker is not None:
            self._processes.end(worker.process)
            worker.printed.close()
            for pipe in filter(None, (worker.process.stdin, worker.process.stdout)):
                with suppress(BrokenPipeError):  # it ended before it read all that we had asked
                    pipe.close()
        printed = unnamed_file()
        script = os.path.join(os.path.dirname(__file__), "worker.py")
        process = self._processes.start(
            [sys.executable, "-B", script], env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
        )
        self._of_thread.worker = worker = _Worker(process, dict(env), printed)
        return worker


def _exchange(process: subprocess.Popen[bytes], request: dict[str, Any]) -> str | None:
    """Send a request; the answer, or None when the worker died before or while it worked."""
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
    """Move what was printed to the log.  Most calls print nothing; then no log is made."""
    if os.fstat(printed.fileno()).st_size:
        with writing(log), open(log, "ab") as file:
            copy_redacted(printed.fileno(), file, secrets)
        os.ftruncate(printed.fileno(), 0)


class Closeable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closeable)


class SharedResources:
    def __init__(self) -> None:
        self._lock = Lock()
        self._resources: dict[Hashable, Closeable] = {}

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """Give the resource of that name, which stands for its type too; made once."""
        with self._lock:
            if name not in self._resources:
                self._resources[name] = make()
            found: T = self._resources[name]  # type: ignore[assignment]
            return found

    def end(self, name: Hashable) -> None:
        """Close the resource of that name before the build ends, since nobody needs it any more."""
        with self._lock:
            found = self._resources.pop(name, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """Close all, the last first, also when one of them fails to."""
        with self._lock, ExitStack() as stack:
            for each in self._resources.values():
                stack.callback(each.close)
            self._resources.clear()


class JobFiles(Protocol):
    """Part of a job for stages that only make files from files: they start nothing and ask nobody."""

    @property
    def target(self) -> Target: ...
    @property
    def reads(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def writes(self) -> Mapping[str, Sequence[str]]: ...


class Places(Protocol):
    """Face of a build to the jobs of its targets: each has a place, and tells how it goes."""

    def lend(self, target: Target) -> AbstractContextManager[None]:
        """Let others have the place of a target that asks, while the block waits for what is out.

        It ends when there is a place again and the run is not paused.  What others may wait for, such as a lock, must
        not be held meanwhile."""

    def admit_asker(self, target: Target) -> bool:
        """Let a target ask models from now on until it ends; False where that would be one too many."""

    def is_paused(self, target: Target) -> bool:
        """Check that nobody is to be asked anything now."""

    def say(self, target: Target, line: str | Wait) -> None:
        """Show people one line of progress, or that a target waits for what is out."""

    def note_process(self, target: Target, pid: int) -> None:
        """Note that a process works on a target, perhaps of another machine."""


class NoPlaces:
    """Places of what is made outside of a build: there is always one.  `hear`: whoever wants to know what is said."""

    def __init__(self, hear: Callable[[str | Wait], object] = lambda _: None) -> None:
        self._hear = hear

    def lend(self, target: Target) -> AbstractContextManager[None]:
        return nullcontext()

    def admit_asker(self, target: Target) -> bool:
        return True

    def is_paused(self, target: Target) -> bool:
        return False

    def say(self, target: Target, line: str | Wait) -> None:
        self._hear(line)

    def note_process(self, target: Target, pid: int) -> None:
        return


class Job(NamedTuple):
    """Attempt at a target.  Outputs go to the paths in `writes`; they are put in place afterwards.

    `store`: the results, which a stage may keep others from reading.  `shared`: resources of the whole build.
    `take_in` names a file that counts though the target was planned without it: the result is used by this build, and
    neither stored nor fresh afterwards.  `add_wait` hears how many seconds it waited before it could begin, which are
    not counted as its own.  `project`: the project's folder; a stage may work in one that only looks like it."""

    target: Target
    reads: Mapping[str, Sequence[str]]
    writes: Mapping[str, Sequence[str]]
    log: str
    processes: Processes
    workers: Workers
    shared: SharedResources
    store: str = ""
    places: Places = NoPlaces()
    take_in: Callable[[str], None] = lambda _: None
    add_wait: Callable[[float], None] = lambda _: None
    project: str = "."

    def say(self, line: str | Wait) -> None:
        self.places.say(self.target, line)


def input_path(job: JobFiles, port: str) -> str:
    """Path of the one file at a port."""
    (path,) = job.reads[port]
    return path


def output_path(job: JobFiles, port: str) -> str:
    (path,) = job.writes[port]
    return path


class StageFailed(Exception):
    """Failure of the candidate, not of the tool; recorded with its exit status."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


class StageOutage(StageFailed):
    """Failure of nobody: what the stage needs is out.  It is no result, and is not tried again at once.

    `reason`: why a build stops by it, one of OUTAGE_WORDS."""

    def __init__(self, why: str, reason: str) -> None:
        super().__init__(why, UNAVAILABLE)
        self.reason = reason


class NoRoom(StageOutage):
    """Want of room on a disk: a target that has patience waits until there is some."""

    def __init__(self, why: str) -> None:
        super().__init__(why, DISK_FULL)


class Away(NamedTuple):
    """How a stage is made by another machine: in the project's own folder, which that machine sees too; or, if it has
    `records`, in one of its own.

    `records`: files of the run that it looks at besides its inputs, which are copied into that folder.  `settle`: makes
    what else of the run it needs there, given the project's folder."""

    records: Callable[[Target], Sequence[str]] | None = None
    settle: Callable[[Target, str], None] = lambda target, project: None


class Stage(NamedTuple):
    """Function that makes a target.  `code` stands for it in every recipe: change it when results change."""

    code: str
    do: Callable[[Job], None]
    own_folder: bool = False  # a command may leave scratch files beside its outputs
    passed: Callable[[Target], Sequence[str]] = lambda _: ()  # names of variables that it gets from whoever builds
    cages: Callable[[Target], Iterable[CageKeys]] = lambda _: ()  # of the commands that it runs, as the spec has them
    stored: bool = True  # False: its outputs tell of this checkout alone, and no other may recall them
    told_first: bool = False  # what reads from it starts only when followers of the run have heard how it ended
    minor: bool = False  # it only keeps the books: no line for people when it ends well
    paid: bool = False  # it costs money or hours: none is started while its run is paused
    asks: bool = False  # it asks models, and lends its place while it waits for one
    away: Away | None = None  # None: only its coordinator makes it
