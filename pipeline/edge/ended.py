"""How a command ended, or why it did not start, in words for people."""

from __future__ import annotations

import errno

from pipeline.edge.process import Exit

LATE = 124  # the exit status of what ran out of time, as of `timeout` in a shell
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_MISSING = (errno.ENOENT, errno.EACCES, errno.ENOTDIR)
# There is none, it may not be started, is none, or gets too many words.
UNSTARTED = (*_MISSING, errno.ENOEXEC, errno.E2BIG)


def verdict(ended: Exit, timeout: float | None) -> tuple[str, int]:
    """What went wrong, empty when nothing did; and the exit status as a shell has it."""
    if ended.timed_out:
        return f"timed out after {timeout:g} s", LATE
    if ended.code < 0:
        return f"killed by signal {-ended.code}", 128 - ended.code
    return f"exit status {ended.code}" if ended.code else "", ended.code


def unstarted(error: OSError, program: str) -> tuple[str, int]:
    """The same of one that did not start.  An error that is not about the program is raised again."""
    if error.errno not in UNSTARTED:
        raise error
    status = NOT_FOUND if error.errno in _MISSING else NOT_EXECUTABLE
    return f"cannot start '{program}': {error.strerror}", status
