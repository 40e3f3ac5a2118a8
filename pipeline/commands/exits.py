"""Exit codes, and the one line that says what is wrong.

Imports next to nothing, as a build with nothing to do does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from pipeline.errors import UNAVAILABLE, RunLocked, SpecError, Unavailable

FAILED, BAD_INPUT, BROKEN, LOCKED = 1, 2, 3, 75
OUTPUT_CLOSED = 128 + 13  # as if SIGPIPE had ended us


def exit_code_of(answer: Callable[[], int], bad_input: tuple[type[Exception], ...] = (SpecError,)) -> int:
    """Exit code of `answer`; what is wrong takes one line, unless it is our own mistake."""
    try:
        code = answer()
        sys.stdout.flush()  # in here, while it can still be answered that nobody reads it
    except BrokenPipeError:
        return discard_output()
    except bad_input as error:
        return refuse(str(error), BAD_INPUT)
    except RunLocked as error:
        return refuse(str(error), LOCKED)
    except Unavailable as error:
        return refuse(str(error), UNAVAILABLE)
    except OSError as error:
        from pipeline.machine.failures import describe_unwritten

        return refuse(describe_unwritten(error), FAILED)
    except Exception:  # noqa: BLE001 - the whole trace is printed
        from traceback import format_exc

        with suppress(OSError):
            sys.stderr.write(format_exc())
        return refuse("this is a mistake in Coppice itself, please report it", BROKEN)
    return code


def discard_output() -> int:
    """Send the rest of the output nowhere, silently: nobody reads it any more, as with `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OUTPUT_CLOSED


def refuse(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    with suppress(OSError):  # nor that; the exit code still tells
        sys.stderr.write(f"coppice: {line}\n")
        sys.stderr.flush()
    return code
