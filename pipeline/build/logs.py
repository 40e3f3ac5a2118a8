"""Logs of targets: where they are, and the lines of ours in them."""

from __future__ import annotations

import os

from pipeline.core.graph import Target
from pipeline.edge import state
from pipeline.errors import writing


def log_path(target: Target) -> str:
    return f"{state.folder(target.run)}/logs/{target.name.partition(':')[2]}.log"


def note(log: str, text: str) -> None:
    """A line of ours between the attempts, whose output is all in one log."""
    with writing(log), open(log, "a+b") as file:
        file.seek(max(0, file.tell() - 1))
        broken_off = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * broken_off + f"---- {text} ----\n".encode(errors="backslashreplace"))


def kept_log(path: str) -> str:
    """The log, unless nothing was ever printed: then there is none."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return ""
    if not size:
        os.unlink(path)
    return path if size else ""
