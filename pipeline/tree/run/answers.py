"""Answers of a candidate for a judge apart: copied from where a hostile command wrote them, plain files alone.

They may be anything: links, pipes, a million files, or changed while they are read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ELOOP, ENOTDIR
from itertools import islice
from typing import NamedTuple

from pipeline.tree.rules.protection import printable_path
from pipeline.tree.spec.model import ANSWERS


def answers_folder(output: str) -> str:
    """The folder for the answers in the output of a command that answers."""
    return f"{output}/{ANSWERS}"


# Of answers: files and folders, bytes of all, folders in folders, bytes of a path.
MOST_ANSWERS, LARGEST_ANSWERS, DEEPEST_ANSWERS, LONGEST_ANSWER = 10_000, 256 << 20, 20, 1000
NO_ANSWERS = "it ended without writing answers to {answers}"


class _BadAnswers(Exception):
    """Mistake in the answers that a command wrote."""


class AnswerRoom(NamedTuple):
    """Room that is left for answers: files and folders, and bytes."""

    entries: int
    size: int


WHOLE_ROOM = AnswerRoom(MOST_ANSWERS, LARGEST_ANSWERS)


def collect_answers(output: str, target: str, room: AnswerRoom = WHOLE_ROOM) -> str:
    """Copy the answers in the output of a command to a new folder; say what is wrong with them: they may be anything.

    Only plain files count that have no other name: a link would give the judge what the answerer cannot read.  Copies
    have modes and times of their own, so that equal answers are equal for whoever judges them."""
    try:
        with _opened_answer(output, "", os.O_DIRECTORY, None) as folder:
            left = _copy_answers(ANSWERS, target, room, "", folder)
    except _BadAnswers as error:
        return str(error)
    return NO_ANSWERS if left.entries == room.entries else ""


def _copy_answers(source: str, target: str, room: AnswerRoom, inside: str, above: int) -> AnswerRoom:
    """Copy a folder, without ever following a link: whoever wrote it may be at work still."""
    os.mkdir(target)
    with _opened_answer(source, inside, os.O_DIRECTORY, above) as folder:
        with os.scandir(folder) as entries:  # of a million, no more are listed than may be there
            names = sorted(entry.name for entry in islice(entries, room.entries + 1))
        if len(names) > room.entries:
            raise _BadAnswers(f"its answers are too many: {MOST_ANSWERS} files and folders are most")
        room = room._replace(entries=room.entries - len(names))
        for name in names:
            room = _copy_answer(name, f"{target}/{name}", room, f"{inside}{name}", folder)
    os.utime(target, (0, 0))
    os.chmod(target, 0o555)
    return room


def _copy_answer(name: str, target: str, room: AnswerRoom, where: str, folder: int) -> AnswerRoom:
    if where.count("/") >= DEEPEST_ANSWERS or len(os.fsencode(where)) > LONGEST_ANSWER:
        most = f"{DEEPEST_ANSWERS} folders deep, or at {LONGEST_ANSWER} bytes of a path"
        raise _BadAnswers(f"of its answers {printable_path(where)} lies more than {most}")
    try:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError as error:
        raise _unreadable(where, error) from error
    if stat.S_ISDIR(kind):
        return _copy_answers(name, target, room, f"{where}/", folder)
    if not stat.S_ISREG(kind):  # to open a device may do something
        raise _not_plain(where)
    with _opened_answer(name, where, os.O_NONBLOCK, folder) as source:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise _not_plain(where)
        if status.st_size > room.size:
            raise _too_large()
        return room._replace(size=room.size - _copy_bytes(source, target, room.size))


def _copy_bytes(source: int, target: str, room: int) -> int:
    """Copy an open file, which may grow meanwhile, and return its size."""
    size = 0
    with open(target, "xb") as copy:
        while part := os.read(source, 1 << 20):
            size += len(part)
            if size > room:
                raise _too_large()
            copy.write(part)
    os.utime(target, (0, 0))
    os.chmod(target, 0o444)
    return size


@contextmanager
def _opened_answer(path: str, where: str, flag: int, folder: int | None) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flag, dir_fd=folder)
    except OSError as error:
        if not where:
            raise _BadAnswers(NO_ANSWERS) from error
        raise _not_plain(where) if error.errno in (ELOOP, ENOTDIR) else _unreadable(where, error) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _too_large() -> _BadAnswers:
    return _BadAnswers(f"its answers are too large: {LARGEST_ANSWERS >> 20} MB are most")


def _unreadable(where: str, error: OSError) -> _BadAnswers:
    return _BadAnswers(f"of its answers {printable_path(where)} cannot be read: {error.strerror}")


def _not_plain(where: str) -> _BadAnswers:
    return _BadAnswers(f"of its answers {printable_path(where)} is no plain file of its own, nor a folder")
