"""Store of results by key, shared between checkouts and verified on every read.

results/ab/<key>   first line: sha256 of the rest, and a signature if it has one; the rest: JSON, small outputs inside
objects/ab/<sha>   larger outputs, by their own sha256
roots/<checkout>   the keys a checkout refers to, a line each after one that says where it is: what `gc` keeps
damaged/           entries that did not verify, set aside
lock               shared by those who put and take, exclusive for `gc`

A checksum shows damage, and no more: whoever can write here can make one. A store with a key believes only what was
signed with it, under the name that it has."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import socket
import stat
from binascii import a2b_base64, b2a_base64
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import file_digest, sha256
from itertools import count
from math import inf
from threading import Lock
from typing import IO, Any, NamedTuple

from pipeline.core.recipe import compact_json
from pipeline.errors import writing
from pipeline.store.files import Version, append_all, file_sha256, file_version, missing_newline, sync_path, write_all
from pipeline.store.flock import file_lock
from pipeline.store.folders import delete_tree, remove_file, restore_access, restore_store
from pipeline.store.secret import is_signed, signature

# Somebody's gc of a large store takes minutes, and so does a copy of a large output, for which gc waits.
PATIENCE = 600.0
SMALL = 2048
LARGEST_ENTRY = 64 << 20  # bytes: the small outputs of twenty thousand
DAMAGED, UNSIGNED, FOREIGN = "damaged", "not signed", "signed with another key"
_ME = f"{socket.gethostname()}.{os.getpid()}"
_COUNT = count()
SHA = re.compile(r"[0-9a-f]{64}")


class Result(NamedTuple):
    """A stored result, with the sha256 of each output in order, its bytes if small, and if it is executable."""

    contents: tuple[str, ...]
    small: tuple[bytes | None, ...]
    runnable: tuple[bool, ...]
    seconds: float

    @property
    def objects(self) -> list[str]:
        return [content for content, small in zip(self.contents, self.small, strict=True) if small is None]


class OutputFile(NamedTuple):
    """Output as it was found: its sha256, its bytes if small, if it is executable, the version of the file."""

    content: str
    inside: bytes | None
    runnable: bool
    version: Version


def read_output(fd: int, status: os.stat_result) -> OutputFile:
    """Read an open file once; `status` is its stat from before."""
    runnable = bool(status.st_mode & 0o100)
    if status.st_size > SMALL:
        with open(fd, "rb", buffering=0, closefd=False) as file:
            return OutputFile(file_digest(file, "sha256").hexdigest(), None, runnable, file_version(status))
    inside = os.read(fd, SMALL + 1)
    return OutputFile(sha256(inside).hexdigest(), inside, runnable, file_version(status))


class Store:
    """A folder of results.  Writers never overwrite in place, so any number of them may share it."""

    def __init__(self, folder: str, patience: float = PATIENCE, secret: bytes | None = None) -> None:
        self.folder, self._patience, self._secret = folder, patience, secret
        self._refused: dict[str, set[str]] = defaultdict(set)
        restore_store(folder)
        self._root_fd: int | None = None
        self._folders: set[str] = set()
        self._mutex = Lock()
        self._shared: ExitStack | None = None  # with the lock, while it is held together with others
        self._users = 0

    def put(self, key: str, paths: Sequence[str], outputs: Sequence[OutputFile], seconds: float, target: str) -> None:
        """Store `outputs`, which lie at `paths`."""
        with writing(self.folder), self._sharing():
            self._add_reference(key)
            rows: list[Any] = []
            for path, (content, inside, runnable, _) in zip(paths, outputs, strict=True):
                if inside is None and not self._keep_object(path, content):
                    return  # changed behind our back: nothing to keep
                text = None if inside is None else b2a_base64(inside, newline=False).decode()
                rows.append([content, text, runnable])
            body = compact_json({"outputs": rows, "seconds": round(seconds, 6), "target": target}).encode()
            head = sha256(body).hexdigest() + (f" {signature(self._secret, key, body)}" if self._secret else "")
            entry = b"%b\n%b" % (head.encode(), body)
            if len(entry) <= LARGEST_ENTRY:  # a larger one is not read: such a target is made each time
                self._write(self.place("results", key), entry)

    def _keep_object(self, path: str, content: str) -> bool:
        """Copy a large output in, under the sha256 of the copy itself."""
        place = self.place("objects", content)
        if os.path.exists(place):
            return True
        if not os.path.isfile(path):  # removed meanwhile
            return False
        draft = self._draft()
        try:
            shutil.copyfile(path, draft)
            if file_sha256(draft) != content:
                return False
            os.chmod(draft, 0o444)
            os.rename(draft, self._with_folder(place))
        finally:
            remove_file(draft)
        return True

    def get(self, key: str) -> Result | None:
        """Load the result if it is there, undamaged and signed, as far as can be seen before its objects are copied."""
        found = self._load(key)
        if not isinstance(found, str):
            return found
        self._refused[found].add(key)
        if found == DAMAGED:  # what others signed may be of use to them
            with self._sharing():
                self._set_aside(self.place("results", key))
        return None

    def peek(self, key: str) -> Result | None:
        """Load the result, if all its objects are there.  Changes nothing."""
        found = self._load(key)
        if found is None or isinstance(found, str):
            return None
        return found if all(os.path.exists(self.place("objects", each)) for each in found.objects) else None

    def _load(self, key: str) -> Result | str | None:
        """The result, None when there is none, or why it is not believed."""
        raw = self.read_entry(key)
        result = parse_result(raw) if raw else None
        if raw is None or result is None:
            return None if raw is None else DAMAGED
        if self._secret is None:
            return result
        head, _, body = raw.partition(b"\n")
        claimed = head.partition(b" ")[2]
        if is_signed(self._secret, key, body, claimed):
            return result
        return FOREIGN if claimed else UNSIGNED

    def read_entry(self, key: str) -> bytes | None:
        """The bytes of an entry of results/; None when there is none, and none of what is no file or cannot be read."""
        place = self.place("results", key)
        if not os.path.lexists(place):  # the usual case, and much cheaper than an exception
            return None
        try:
            with _opened_file(place) as fd:
                if os.fstat(fd).st_size > LARGEST_ENTRY:
                    return b""
                with open(fd, "rb", buffering=0, closefd=False) as file:
                    return file.read()
        except FileNotFoundError:  # dropped meanwhile
            return None
        except OSError as error:
            if error.errno in _NO_FILE:
                return b""
            raise

    def refusals(self) -> str:
        """Words for what was there and not believed; empty if there was no such thing."""
        if not self._refused:
            return ""
        counts = [f"{len(keys)} {why}" for why, keys in self._refused.items()]
        aside = f"; what was damaged lies in {self.folder}/damaged" if DAMAGED in self._refused else ""
        return f"{self.folder}: results that were not believed, and are made again: {', '.join(counts)}{aside}"

    def take(self, key: str, result: Result, paths: Sequence[str]) -> bool:
        """Write the outputs of `result` to `paths`; False if their number differs or an object is damaged."""
        if len(paths) != len(result.contents):
            return False
        with self._sharing():
            self._add_reference(key)
            if not os.path.exists(self.place("results", key)):
                return False
            rows = zip(paths, result.contents, result.small, result.runnable, strict=True)
            return all(self._write_output(*row) for row in rows)

    def _write_output(self, path: str, content: str, inside: bytes | None, runnable: bool) -> bool:
        if inside is not None:
            write_all(path, inside, durable=True)
        elif not self._copy_object(content, path):
            return False
        if runnable:
            os.chmod(path, os.stat(path).st_mode | 0o111)
        return True

    def _copy_object(self, content: str, path: str) -> bool:
        place = self.place("objects", content)
        try:
            with _opened_file(place) as fd, writing(path), open(fd, "rb", closefd=False) as source:
                _copy_to(path, source)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _NO_FILE or error.filename == path:
                raise
            self._refuse_object(content)
            return False
        if file_sha256(path) != content:
            self._refuse_object(content)
            return False
        sync_path(path)
        return True

    def _refuse_object(self, content: str) -> None:
        self._refused[DAMAGED].add(content)
        self._set_aside(self.place("objects", content))

    def _add_reference(self, key: str) -> None:
        """Add `key` to this checkout's references before the result is there, so that gc elsewhere leaves it."""
        with writing(self.root):
            append_all(self._root(), f"{key}\n".encode())

    def _root(self) -> int:
        with self._mutex:
            if self._root_fd is None:
                restore_store(self.folder, write=True)
                restore_access([self.root], write=True)
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._root_fd = os.open(self._with_folder(self.root), flags, 0o666)
                head = b"" if os.fstat(self._root_fd).st_size else f"# {checkout_name()}\n".encode()
                append_all(self._root_fd, missing_newline(self._root_fd) + head)
            return self._root_fd

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        """Hold the lock together with others, from the reference to the last byte; kept until `release`."""
        with self._mutex:
            if self._shared is None:
                with ExitStack() as stack:
                    stack.enter_context(file_lock(f"{self.folder}/lock", self._patience, fcntl.LOCK_SH, shared=True))
                    self._shared = stack.pop_all()
            self._users += 1
        try:
            yield
        finally:
            with self._mutex:
                self._users -= 1

    def release(self) -> None:
        """Release the lock unless somebody puts or takes; to be called now and then.  Never waits."""
        if self._mutex.acquire(blocking=False):
            try:
                if self._shared is not None and not self._users:
                    self._shared.close()
                    self._shared = None
            finally:
                self._mutex.release()

    def lock_alone(self) -> AbstractContextManager[int]:
        """Hold the lock alone, for gc: from the first reference it reads to the last entry it drops.

        All others hold it from the reference to the last byte, so a result without a reference gets none meanwhile."""
        self.release()
        return file_lock(f"{self.folder}/lock", self._patience, shared=True)

    @property
    def root(self) -> str:
        """File with this checkout's references."""
        return f"{self.folder}/roots/{sha256(checkout_name().encode()).hexdigest()[:16]}"

    def close(self) -> None:
        self.release()
        if self._root_fd is not None:
            os.close(self._root_fd)
            self._root_fd = None

    def place(self, part: str, name: str) -> str:
        return f"{self.folder}/{part}/{name[:2]}/{name}"

    def _with_folder(self, path: str) -> str:
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            os.makedirs(folder, exist_ok=True)
            self._folders.add(folder)
        return path

    def _write(self, place: str, content: bytes) -> None:
        """Write whole or not at all.  Not synced: after a power cut a torn entry fails its check and is made again."""
        draft = self._draft()
        try:
            write_all(draft, content)
            os.rename(draft, self._with_folder(place))
        except BaseException:
            remove_file(draft)
            raise

    def _draft(self) -> str:
        """Path for a draft that nobody else has."""
        return self._with_folder(f"{self.folder}/drafts/{_ME}.{next(_COUNT)}")

    def _set_aside(self, place: str) -> None:
        """Move an entry to where people can look at it, in place of an earlier one of its name."""
        aside = self._with_folder(f"{self.folder}/damaged/{os.path.basename(place)}")
        with suppress(FileNotFoundError):  # another process set it aside first
            if os.path.isdir(aside) or os.path.isdir(place):  # neither takes the place of the other
                delete_tree(aside)
            os.replace(place, aside)

    def entry_names(self, part: str) -> Iterator[str]:
        """Yield the names of all entries of `results` or `objects`."""
        top = f"{self.folder}/{part}"
        for folder in sorted(os.listdir(top)) if os.path.isdir(top) else ():
            if os.path.isdir(f"{top}/{folder}"):
                yield from filter(SHA.fullmatch, sorted(os.listdir(f"{top}/{folder}")))


# What the opening of an entry is answered with where something else took its place.
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENODEV)


def _copy_to(path: str, source: IO[bytes]) -> None:
    with open(path, "wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)


@contextmanager
def _opened_file(path: str) -> Iterator[int]:
    """Open a plain file: never a link, which may lead anywhere, nor a pipe, which would be waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        yield fd
    finally:
        os.close(fd)


def parse_result(raw: bytes) -> Result | None:
    """Parse a file of results/; None when it is damaged or not of our form: a right hash proves nothing."""
    head, _, body = raw.partition(b"\n")
    if sha256(body).hexdigest().encode() != head.partition(b" ")[0]:
        return None
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match fields:
        case {"seconds": bool()}:
            pass
        case {"outputs": [*rows], "seconds": int() | float() as seconds} if 0 <= seconds < inf:
            outputs = [output for row in rows if (output := _parse_output(row))]
            if len(outputs) == len(rows):
                contents, small, runnable = zip(*outputs, strict=True) if outputs else ((), (), ())
                return Result(contents, small, runnable, seconds)
    return None


def _parse_output(row: Any) -> tuple[str, bytes | None, bool] | None:
    """Check the row of one output: its sha256, which names a file, its bytes if inside, if it is executable."""
    match row:
        case [str(content), None, bool(runnable)] if SHA.fullmatch(content):
            return content, None, runnable
        case [str(content), str(text), bool(runnable)]:
            with suppress(ValueError):
                inside = a2b_base64(text)
                return (content, inside, runnable) if sha256(inside).hexdigest() == content else None
    return None


def checkout_name() -> str:
    """Name of this checkout among those that share a store."""
    return f"{socket.gethostname()}:{os.getcwd()}"
