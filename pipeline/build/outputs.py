"""Log, staged outputs and input contents of a target.

States of an output: staged (beside its place) -> synced and looked at once (a plain file, nothing else) -> in place, by
a rename.  One that something else has changed since is restored from the store before others read it; when the store
has it no longer, the target that reads it fails."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from pipeline.core.graph import Graph, Ports, Target
from pipeline.core.recipe import suffix
from pipeline.errors import unreadable_message, writing
from pipeline.machine.job import StageFailed
from pipeline.store import noop
from pipeline.store.files import Files, append_lines
from pipeline.store.receipts import Receipts
from pipeline.store.results import OutputFile, Store, read_output


def log_path(target: Target) -> str:
    return f"{noop.folder(target.run)}/logs/{target.name.partition(':')[2]}.log"


def append_note(log: str, text: str) -> None:
    """Append a line of ours between the attempts, whose output is all in one log."""
    with writing(log):
        append_lines(log, f"---- {text} ----\n".encode(errors="backslashreplace"))


def log_if_any(path: str) -> str:
    """Path of the log; empty if nothing was ever printed, and then the file is removed."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return ""
    if not size:
        os.unlink(path)
    return path if size else ""


# What file systems allow for a name, in bytes.
LONGEST_NAME = 255


class Staging:
    """Paths that a target writes to before its outputs are put in place; removed afterwards."""

    def __init__(self, target: Target, own_folder: bool, attempt: int = 1) -> None:
        # What an earlier attempt left running must not write into this one's.
        top = f"{noop.folder(target.run)}/stage" + (f"/{attempt}" if attempt > 1 else "")
        self.again = attempt > 1
        name = target.name.partition(":")[2]
        own = len(f"runs/{target.run}/")
        self.folder = f"{top}/{name}" if own_folder else ""
        if not own_folder:
            self.paths = [f"{top}/{_flat_name(name, n, path)}" for n, path in enumerate(target.outputs)]
        elif len(target.outputs) == 1:
            self.paths = [f"{self.folder}/{os.path.basename(target.outputs[0])}"]
        else:
            self.paths = [f"{self.folder}/{p[own:]}" for p in target.outputs]

    def __enter__(self) -> Staging:
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


def _flat_name(name: str, n: int, path: str) -> str:
    """Name for a staged output without a folder of its own; the suffix stays, since programs go by it."""
    whole = f"{name}~{n}~{os.path.basename(path)}"
    return whole if len(whole.encode()) <= LONGEST_NAME else f"{name}~{n}{suffix(path)[-40:]}"


def sync_output(staged: str, final: str) -> OutputFile:
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
        with writing(final):
            os.fsync(fd)
        return read_output(fd, status)
    finally:
        os.close(fd)


def put_in_place(staged: str, final: str) -> None:
    try:
        os.rename(staged, final)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(staged, final)
    except IsADirectoryError:
        raise StageFailed(f"{final} is a folder; remove it, this target writes a file there", 1) from None


class Inputs:
    """Contents of inputs.  `contents` has outputs as their makers recorded them, looked up when asked for."""

    def __init__(
        self, graph: Graph, files: Files, receipts: Mapping[str, Receipts], stores: Mapping[str, Store]
    ) -> None:
        self._graph, self._files, self._receipts, self._stores = graph, files, receipts, stores
        self.contents: dict[str, str | None] = {}
        self._restoring = Lock()

    def content(self, path: str, seen: str | None) -> str | None:
        """Give the sha256 of an input that may be used, None when there is nothing.

        `seen`: its content when it was last used, which was checked against its maker then."""
        try:
            found = self._files.content(path)
        except OSError as error:
            raise StageFailed(unreadable_message(path, error), 2) from error
        if found == seen and path not in self.contents:
            return found
        recorded = self._recorded_content(path)
        if recorded is None or found == recorded:
            return found
        with self._restoring:
            if self._files.content(path) != recorded:
                self._restore(path, recorded)
        return recorded

    def _recorded_content(self, path: str) -> str | None:
        """Content as its maker recorded it; None for what no target makes."""
        if path not in self.contents:
            if path in self._graph.writer:
                maker = self._graph.targets[self._graph.writer[path]]
                receipt = self._receipts[maker.run].receipt(maker.name)
                self.contents |= receipt.outputs if receipt else {}
            self.contents.setdefault(path)
        return self.contents[path]

    def _restore(self, path: str, recorded: str) -> None:
        """Restore an output.  Only what is wrong is written: others may be reading the rest."""
        maker = self._graph.targets[self._graph.writer[path]]
        at = maker.outputs.index(path)
        receipt, store = self._receipts[maker.run].receipt(maker.name), self._stores[maker.run]
        result = store.get(receipt.key) if receipt else None
        with Staging(maker, own_folder=False) as staged:
            same = receipt and result and result.contents[at : at + 1] == (recorded,)
            if not (same and receipt and result and store.take(receipt.key, result, staged.paths)):
                staged.drop()
                raise StageFailed(f"{path} was changed by something else after {maker.name} made it; build again", 1)
            put_in_place(staged.paths[at], path)
            staged.drop()
        self._files.note_written(path, recorded)
        append_note(log_path(maker), f"{path} was changed by something else; what was made is in its place again")
