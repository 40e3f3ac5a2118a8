"""What a command line speaks of, and how a mistake in it is told.  Without doit: some questions need nothing else."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from pipeline.build import project
from pipeline.edge.files import is_pattern
from pipeline.errors import Locked, SpecError

FAILED, BAD_INPUT, BROKEN, LOCKED = 1, 2, 3, 75
UNREAD = 128 + 13  # as if SIGPIPE had ended us


def run_of(word: str) -> str:
    """The run that a word on the command line speaks of: `run`, `run:target` or `runs/run/output`."""
    parts = os.path.normpath(word).split("/")
    if len(parts) > 2 and parts[0] == "runs":
        return parts[1]
    return word.partition(":")[0]


def plans_for(words: list[str]) -> dict[str, project.RunPlan]:
    """The plans of all runs that the command line speaks of; of every run when it names none."""
    known = project.specs()
    return project.load(sorted({run for word in words for run in runs_of(word, known)}) or known)


def runs_of(word: str, known: Iterable[str]) -> Sequence[str]:
    """All that a pattern matches; what matches none is refused when it is loaded."""
    run = run_of(word)
    return fnmatch.filter(known, run) or [run] if is_pattern(run) else [run]


def count_targets(words: list[str]) -> int:
    number = len(project.graph(plans_for(words)).targets)
    print(f"{number} target{'s' if number != 1 else ''}")
    return 0


def told(answer: Callable[[], int], bad_input: tuple[type[Exception], ...] = (SpecError,)) -> int:
    """The exit code of `answer`; what is wrong is said in one line, unless it is wrong with us."""
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
    except Exception:  # noqa: BLE001 - the whole trace is printed
        from traceback import format_exc

        with suppress(OSError):
            sys.stderr.write(format_exc())
        return refuse("this is a mistake in Coppice itself, please report it", BROKEN)
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
