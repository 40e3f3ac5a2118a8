"""What a command line speaks of, and how a mistake in it is told.  Without doit: some questions need nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from pipeline.build import project
from pipeline.errors import Locked, SpecError

FAILED, BAD_INPUT, LOCKED = 1, 2, 75
UNREAD = 128 + 13  # as if SIGPIPE had ended us


def run_of(word: str) -> str:
    """The run that a word on the command line speaks of: `run`, `run:target` or `runs/run/output`."""
    parts = os.path.normpath(word).split("/")
    if len(parts) > 2 and parts[0] == "runs":
        return parts[1]
    return word.partition(":")[0]


def plans_for(words: list[str]) -> dict[str, project.RunPlan]:
    """The plans of all runs that the command line speaks of; of every run when it names none."""
    return project.load(sorted({run_of(word) for word in words}) or project.specs())


def count_targets(words: list[str]) -> int:
    print(f"{len(project.graph(plans_for(words)).targets)} targets")
    return 0


def told(answer: Callable[[], int], bad_input: tuple[type[Exception], ...] = (SpecError,)) -> int:
    """The exit code of `answer`; what is wrong is said in one line."""
    try:
        code = answer()
        sys.stdout.flush()  # in here, while it can still be answered that nobody reads it
    except BrokenPipeError:
        return unread()
    except bad_input as error:
        return refuse(str(error), BAD_INPUT)
    except Locked as error:
        return refuse(str(error), LOCKED)
    except OSError as error:
        return refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILED)
    return code


def unread() -> int:
    """Nobody reads what we print any more, as with `| head`: the rest goes nowhere, and no word is said of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD


def refuse(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        unread()
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    with suppress(OSError):  # nor that; the exit code still tells
        sys.stderr.write(f"coppice: {line}\n")
        sys.stderr.flush()
    return code
