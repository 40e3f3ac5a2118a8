"""Exceptions for wrong input, and the words of their messages.  Light: every command imports it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# What a write is answered with where there is no room for it.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
UNAVAILABLE = 69  # the exit status of what was out for too long, as sysexits.h has it
_UNWRITTEN = (*NO_ROOM, errno.EFBIG, errno.EIO)


class SpecError(Exception):
    """Mistake in the input, not in the tool: shown as one line, exit code 2."""


class RunLocked(Exception):
    """Refusal because another process holds a lock; the message says which."""


class RunPaused(RunLocked):
    """Refusal because a person has paused the run."""


class Unavailable(Exception):
    """Outage of something that a command needs, such as a program that is missing: nothing is known of the rest."""


class BuildInterrupted(Exception):
    """Stop of a build by a signal; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number


def not_built(run: str, what: str = "it", how: str = "") -> SpecError:
    return SpecError(f"{run}: nothing is recorded of {what} yet; {how or f'`coppice {run}` builds it'}")


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Name `path` in an error of a write, which names no file; an error of a copy names the file it has read."""
    try:
        yield
    except OSError as error:
        if error.errno in _UNWRITTEN:
            error.filename, error.filename2 = path, None
        raise


def unreadable_message(path: str, error: OSError) -> str:
    """Message that names the file within `path` that cannot be opened; a read that fails names none."""
    return f"{error.filename or path} cannot be read: {error.strerror or error}"


def cut_text(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}…"


def did_you_mean(name: str, allowed: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """Hint for a message: the closest name; if none is close, all of them, or those `listed`."""
    from difflib import get_close_matches

    allowed = sorted(allowed)
    name = name[:200]
    if close := get_close_matches(name, allowed[:2000], 1):
        return f"; did you mean '{close[0]}'?"
    allowed = allowed if listed is None else sorted(listed)
    return f"; allowed: {', '.join(allowed[:20])}{', …' if len(allowed) > 20 else ''}" if allowed else ""
