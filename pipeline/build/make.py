"""Making one target: find it fresh, recall its result, or run its stage and put the outputs in place."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipeline.core import recipe as recipes
from pipeline.core.freshness import Receipt, intact
from pipeline.core.graph import Ports, Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, RECALLED, Outcome
from pipeline.edge import state
from pipeline.edge.files import Files, Version, matches
from pipeline.edge.job import Job, Stage, StageFailed
from pipeline.edge.process import Processes, Stopping
from pipeline.edge.receipts import Receipts
from pipeline.edge.store import Store, Written, written
from pipeline.edge.workers import Workers


class Maker:
    """Makes targets, in any thread.  What has been read once is not read again while it stays the same."""

    def __init__(
        self,
        files: Files,
        receipts: Mapping[str, Receipts],
        stores: Mapping[str, Store],
        stages: Mapping[str, Mapping[str, Stage]],
        locks: Sequence[int] = (),
        always: bool = False,
    ) -> None:
        self.files, self.receipts, self.stores, self.stages, self.always = files, receipts, stores, stages, always
        self.processes = Processes([*receipts], locks)
        self.workers = Workers(self.processes)

    def recipe(self, target: Target) -> dict[str, Any]:
        return recipes.recipe(target, self.stages[target.run][target.stage].code)

    def make(self, target: Target) -> Outcome:
        try:
            return self._made(target)
        except StageFailed as error:  # outside of any attempt: a folder in the way of an output
            return Outcome(FAILED, why=str(error), exit=error.status)

    def _made(self, target: Target) -> Outcome:
        inputs = {path: self.files.content(path) for path in target.inputs}
        for path, content in inputs.items():
            if content is None:
                return Outcome(FAILED, why=f"{path} is missing", exit=2)
        recipe = self.recipe(target)
        key = recipes.key(recipe, inputs.values())  # type: ignore[arg-type]
        if not self.always:
            if self.is_fresh(target, key):
                return Outcome(FRESH)
            if recalled := self._recalled(target, key, recipe, inputs):
                return recalled
        return self._run(target, key, recipe, inputs)

    def is_fresh(self, target: Target, key: str) -> bool:
        receipt = self.receipts[target.run].receipt(target.name)
        if receipt is None or receipt.key != key or receipt.unsettled:
            return False
        return intact(receipt, {path: self.files.content(path) for path in target.outputs})

    def _recalled(self, target: Target, key: str, recipe: Any, inputs: Any) -> Outcome | None:
        if self.receipts[target.run].forgotten(target.name):
            return None
        store = self.stores[target.run]
        start = time.time()
        result = store.get(key)
        if result is None or len(result.contents) != len(target.outputs):
            return None
        with _Stage(target, own_folder=False) as staged:
            if not store.take(key, result, staged.paths):
                staged.drop()
                return None
            self._publish(target, staged.paths, result.contents, [None] * len(result.contents))
        return self._outcome(RECALLED, key, recipe, inputs, target, result.contents, start, 0)

    def _run(self, target: Target, key: str, recipe: Any, inputs: Any) -> Outcome:
        start = time.time()
        stage = self.stages[target.run][target.stage]
        log = log_path(target)
        if os.path.exists(log):
            os.unlink(log)
        marks = self.files.marks(inputs)
        attempt = 0
        while True:
            attempt += 1
            try:
                with _Stage(target, stage.own_folder, attempt) as staged:
                    self._do(target, stage, staged, log)
                    if self.processes.stopping:
                        raise Stopping  # it may have answered our signal by ending well, half done
                    outputs = [_settled(path, final) for path, final in zip(staged.paths, target.outputs, strict=True)]
                    contents = [output.content for output in outputs]
                    unsettled = tuple(path for path, mark in marks.items() if self.files.touched(path, mark))
                    kept = None if unsettled else self._kept(target, key, staged.paths, outputs, start)
                    self._publish(target, staged.paths, contents, [output.version for output in outputs])
                built = self._outcome(BUILT, key, recipe, inputs, target, contents, start, attempt, unsettled, log)
                return built._replace(fault=kept)
            except StageFailed as error:
                if self.processes.stopping:
                    raise Stopping from error
                if attempt > target.limits.retries:
                    return Outcome(FAILED, None, str(error), error.status, attempt, start, time.time(), kept_log(log))

    def _kept(
        self, target: Target, key: str, paths: Sequence[str], outputs: Sequence[Written], start: float
    ) -> OSError | None:
        """A store that cannot be written must not cost the result: it is put in place, and the fault raised after."""
        try:
            self.stores[target.run].put(key, paths, outputs, time.time() - start, target.name)
        except OSError as error:
            return error
        return None

    def _do(self, target: Target, stage: Stage, staged: _Stage, log: str) -> None:
        reads = {port: [m for path in group for m in matches(path)] for port, group in target.reads}
        writes = staged.by_port(target.writes)
        stage.do(Job(target, reads, writes, log, self.processes, self.workers))

    def _publish(
        self, target: Target, staged: Sequence[str], contents: Sequence[str], versions: Sequence[Version | None]
    ) -> None:
        for path, final, content, version in zip(staged, target.outputs, contents, versions, strict=True):
            _rename(path, final)
            self.files.wrote(final, content, version)

    def _outcome(
        self, status: str, key: str, recipe: Any, inputs: Any, target: Target, contents: Sequence[str],
        start: float, attempts: int, unsettled: tuple[str, ...] = (), log: str = "",
    ) -> Outcome:  # fmt: skip
        end = time.time()
        outputs = dict(zip(target.outputs, contents, strict=True))
        receipt = Receipt(key, recipe, inputs, outputs, round(start, 3), round(end, 3), attempts, 0, status, unsettled)
        if not unsettled:
            return Outcome(status, receipt, "", 0, attempts, start, end, kept_log(log))
        why = f"{unsettled[0]} was edited while it ran; build again"
        return Outcome(FAILED, receipt, why, 1, attempts, start, end, kept_log(log))


class _Stage:
    """Where a target writes its outputs before they are put in place; gone afterwards."""

    def __init__(self, target: Target, own_folder: bool, attempt: int = 1) -> None:
        # What an earlier attempt left running must not write into this one's.
        top = f"{state.folder(target.run)}/stage" + (f"/{attempt}" if attempt > 1 else "")
        self.again = attempt > 1
        name = target.name.partition(":")[2]
        own = len(f"runs/{target.run}/")
        self.folder = f"{top}/{name}" if own_folder else ""
        if not own_folder:
            self.paths = [f"{top}/{name}~{n}~{os.path.basename(p)}" for n, p in enumerate(target.outputs)]
        elif len(target.outputs) == 1:
            self.paths = [f"{self.folder}/{os.path.basename(target.outputs[0])}"]
        else:
            self.paths = [f"{self.folder}/{p[own:]}" for p in target.outputs]

    def __enter__(self) -> _Stage:
        if self.folder or self.again:
            for folder in {os.path.dirname(path) for path in self.paths}:
                os.makedirs(folder, exist_ok=True)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif kind is not None:
            self.drop()

    def drop(self) -> None:
        for path in self.paths:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def by_port(self, ports: Ports) -> dict[str, list[str]]:
        left = iter(self.paths)
        return {port: [next(left) for _ in group] for port, group in ports}


def log_path(target: Target) -> str:
    return f"{state.folder(target.run)}/logs/{target.name.partition(':')[2]}.log"


def kept_log(path: str) -> str:
    """The log, unless nothing was ever printed: then there is none."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return ""
    if not size:
        os.unlink(path)
    return path if size else ""


def _settled(staged: str, final: str) -> Written:
    """Sync what the stage wrote and look at it once; anything but a plain file is the stage's failure."""
    try:
        fd = os.open(staged, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise StageFailed(f"it ended well but did not write {final}: {{out}} stands for the path to write", 1) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StageFailed(f"what it wrote as {final} is not a plain file but a symbolic link", 1) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StageFailed(f"what it wrote as {final} is not a plain file", 1)
        os.fsync(fd)
        return written(fd, status)
    finally:
        os.close(fd)


def _rename(staged: str, final: str) -> None:
    try:
        os.rename(staged, final)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(staged, final)
    except IsADirectoryError:
        raise StageFailed(f"{final} is a folder; remove it, this target writes a file there", 1) from None
