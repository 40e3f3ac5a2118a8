"""The console command: decides "nothing to do" before anything is imported that is not built in.

bin/coppice calls `noop` first, without site-packages; the rest of the package is imported by `main` alone."""

from __future__ import annotations

import os
import sys


def replace_closed_streams() -> None:
    """Put /dev/null in the place of a closed stream, and of the output a pipe that nobody reads, as with `| head`.

    Else the next file that is opened would have its number, and be written into."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (above := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        os.set_inheritable(above, True)
    os.close(above)
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)
        os.close(writer)
    streams = zip(("stdin", "stdout", "stderr"), "rww", strict=True)
    for fd, (name, mode) in enumerate(streams):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode))  # noqa: SIM115 - as long as this process


def noop(words: list[str]) -> bool:
    """Check if this is a plain build of whole runs with nothing to do, and then say so."""
    from pipeline.store.noop import up_to_date

    words = words[1:] if words[:1] == ["run"] else words
    if "-n" in words[:-1]:  # how many at once makes no difference when there is nothing to do
        at = words.index("-n")
        words = words[:at] + words[at + 2 :] if words[at + 1].isdecimal() else words
    try:
        specs = {n.rpartition(".")[0] for n in os.listdir("specs") if n.endswith((".yaml", ".yml")) and n[0] != "."}
    except OSError:
        return False
    if not specs or not specs.issuperset(words):
        return False
    count = up_to_date(words or sorted(specs))
    if count is not None:
        sys.stdout.write(f"up to date: {count} {'target' if count == 1 else 'targets'}\n")
    return count is not None


def main() -> int:
    replace_closed_streams()
    words = sys.argv[1:]
    if noop(words):
        return 0
    from pipeline.commands.main import main as full

    return full(words)
