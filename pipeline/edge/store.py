"""Results kept by key: hash(recipe + contents read) -> contents written.  May be shared; every read is verified.

    results/ab/<key>   first line: sha256 of the rest; the rest: JSON, small outputs inside it
    objects/ab/<sha>   larger outputs, by their own sha256
    roots/<checkout>   the keys a checkout refers to, a line each: what `gc` keeps
    damaged/           entries that did not verify, set aside
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

from pipeline.core.recipe import compact
from pipeline.edge.files import sha_of, sync, write_all

SMALL = 2048
_ME = f"{socket.gethostname()}.{os.getpid()}"
_COUNT = count()


class Result(NamedTuple):
    """What a stored result holds for each output, in order: its sha256, the bytes if they are few, may it be run."""

    contents: tuple[str, ...]
    small: tuple[bytes | None, ...]
    runnable: tuple[bool, ...]


class Store:
    """A folder of results.  Writers never overwrite in place, so any number of them may share it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._root_fd: int | None = None
        self._made: set[str] = set()

    def put(self, key: str, outputs: Sequence[tuple[str, str]], seconds: float, target: str) -> None:
        """Keep `outputs` (path, sha256)."""
        self.refer([key])
        rows: list[Any] = []
        for path, content in outputs:
            status = os.stat(path)
            runnable = bool(status.st_mode & 0o100)
            if status.st_size <= SMALL:
                with open(path, "rb", buffering=0) as file:
                    inside = file.read()
                if sha256(inside).hexdigest() != content:
                    return  # changed behind our back: nothing to keep
                rows.append([content, b2a_base64(inside, newline=False).decode(), runnable])
            elif self._keep(path, content):
                rows.append([content, None, runnable])
            else:
                return
        body = compact({"outputs": rows, "seconds": round(seconds, 6), "target": target}).encode()
        self._write(self._path("results", key), b"%b\n%b" % (sha256(body).hexdigest().encode(), body))

    def _keep(self, path: str, content: str) -> bool:
        """Copy a large output in, under the sha256 that the copy itself has."""
        place = self._path("objects", content)
        if os.path.exists(place):
            return True
        with self._draft() as draft:
            shutil.copyfile(path, draft)
            if sha_of(draft) != content:
                os.unlink(draft)
                return False
            os.chmod(draft, 0o444)
            os.rename(draft, self._ready(place))
        return True

    def get(self, key: str) -> Result | None:
        """The result, if it is there and undamaged as far as it can be seen before its objects are copied."""
        place = self._path("results", key)
        try:
            with open(place, "rb", buffering=0) as file:
                raw = file.read()
        except FileNotFoundError:
            return None
        sign, _, body = raw.partition(b"\n")
        if sha256(body).hexdigest().encode() != sign:
            self._set_aside(place)
            return None
        fields = json.loads(body)
        rows = fields["outputs"]
        small = tuple(a2b_base64(inside) if inside is not None else None for _, inside, _ in rows)
        return Result(tuple(row[0] for row in rows), small, tuple(row[2] for row in rows))

    def take(self, key: str, result: Result, paths: Sequence[str]) -> bool:
        """Write the outputs of `result` to `paths`; False when an object is missing or damaged."""
        self.refer([key])
        for path, content, inside, runnable in zip(paths, *result, strict=True):
            if inside is not None:
                write_all(path, inside, durable=True)
            elif not self._copied(content, path):
                return False
            if runnable:
                os.chmod(path, os.stat(path).st_mode | 0o111)
        return True

    def _copied(self, content: str, path: str) -> bool:
        place = self._path("objects", content)
        try:
            shutil.copyfile(place, path)
        except FileNotFoundError:
            return False
        if sha_of(path) != content:
            self._set_aside(place)
            return False
        sync(path)
        return True

    def refer(self, keys: Sequence[str]) -> None:
        """Note that this checkout uses `keys`, before they are there: gc in another checkout then leaves them."""
        if self._root_fd is None:
            self._root_fd = os.open(self._ready(self.root), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(self._root_fd, "".join(f"{key}\n" for key in keys).encode())

    @property
    def root(self) -> str:
        """The file with this checkout's references."""
        here = f"{socket.gethostname()}:{os.getcwd()}"
        return f"{self.folder}/roots/{sha256(here.encode()).hexdigest()[:16]}"

    def close(self) -> None:
        if self._root_fd is not None:
            os.close(self._root_fd)
            self._root_fd = None

    def _path(self, part: str, name: str) -> str:
        return f"{self.folder}/{part}/{name[:2]}/{name}"

    def _ready(self, path: str) -> str:
        folder = os.path.dirname(path)
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            self._made.add(folder)
        return path

    def _write(self, place: str, content: bytes) -> None:
        """Whole or not at all; not synced: after a power cut a torn entry fails its own check and is made again."""
        with self._draft() as draft:
            write_all(draft, content)
            os.rename(draft, self._ready(place))

    @contextmanager
    def _draft(self) -> Iterator[str]:
        """A name of one's own in the drafts folder, gone afterwards unless it was renamed."""
        path = self._ready(f"{self.folder}/drafts/{_ME}.{next(_COUNT)}")
        try:
            yield path
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise

    def _set_aside(self, place: str) -> None:
        aside = self._ready(f"{self.folder}/damaged/{os.path.basename(place)}")
        try:
            os.replace(place, aside)
        except FileNotFoundError:
            return  # another process set it aside first

    def stored(self, part: str) -> Iterator[str]:
        """The names of all entries of `results` or `objects`."""
        top = f"{self.folder}/{part}"
        for two in sorted(os.listdir(top)) if os.path.isdir(top) else ():
            yield from sorted(os.listdir(f"{top}/{two}"))

