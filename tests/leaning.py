"""A Lean for the tests: the toolchain that everyone has, made when it is not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.edge.lean import process
from pipeline.edge.lean.process import Command, Repl
from pipeline.edge.lean.toolchain import ready
from pipeline.edge.process import Processes

REPL = Path(process.__file__).with_name("Repl.lean")


def command() -> Command:
    return ready().command(REPL)


@contextmanager
def started() -> Iterator[Repl]:
    """A process of it, to which one speaks the protocol itself."""
    repl = Repl(command(), Processes(["lean"]))
    try:
        repl.await_ready()
        yield repl
    finally:
        repl.end()
