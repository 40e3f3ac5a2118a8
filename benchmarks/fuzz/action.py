"""What every step of a fuzzed project does: notes that it ran, then writes what follows from what it reads.

Copied into each project: commands start it as a script, `call:` steps call `make`. Only the standard library."""

from __future__ import annotations

import os
import sys
import time
from zlib import crc32

PATIENCE = 60.0
EVERY = "*"  # stands for the names of all


def content(salt: str, told: str, number: int, reads: list[tuple[str, bytes]], lines: int, coarse: bool) -> bytes:
    """Output `number`, from (name, contents) pairs; a coarse one tells few differences of them apart."""
    seen = [b"%08x" % crc32(b"%s\0%s" % (name.encode(), body)) for name, body in sorted(reads)]
    if coarse:
        seen = [b"%d" % (sum(len(body) for _, body in reads) % 3)]
    return b"\n".join([f"{salt} {told} {number}".encode(), *seen, b""]) * lines


def make(
    reads: list[str], writes: list[str] | dict[str, list[str]],
    outside: str, salt: str, told: str, lines: int, flags: str,
) -> None:  # fmt: skip
    """`outside` is a folder out of the project: who ran, who is to wait, who is to fail."""
    paths = [path for group in writes.values() for path in group] if isinstance(writes, dict) else writes
    mine = os.path.basename(paths[0]).rpartition("~")[2]  # it may be given another name until it is whole
    note(f"{outside}/ran", mine)
    if named(f"{outside}/fail", mine):
        raise SystemExit(1)
    run = f"runs/{paths[0].split('/')[1]}/"
    pairs = [(path.removeprefix(run), read(path)) for entry in reads for path in files(entry)]
    for number, path in enumerate(paths):
        write(path, content(salt, told, number, pairs, lines, "c" in flags), f"{outside}/hold", mine)
        if "x" in flags and not number:
            os.chmod(path, 0o755)


def files(path: str) -> list[str]:
    """A folder stands for all files in it."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]


def note(path: str, name: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, name.encode() + b"\n")
    os.close(fd)


def named(path: str, name: str) -> bool:
    try:
        return not {name, EVERY}.isdisjoint(read(path).decode().split())
    except FileNotFoundError:
        return False


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, body: bytes, hold: str, name: str) -> None:
    """In two halves, so that a kill in between leaves a partial output."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    deadline = time.monotonic() + PATIENCE
    with open(path, "wb", buffering=0) as file:
        file.write(body[: len(body) // 2])
        while named(hold, name):
            if time.monotonic() > deadline:
                raise SystemExit(3)
            time.sleep(0.004)
        file.write(body[len(body) // 2 :])


def main(outside: str, salt: str, told: str, lines: str, flags: str, *paths: str) -> None:
    cut = paths.index("--")
    make([*paths[cut + 1 :]], [*paths[:cut]], outside, salt, told, int(lines), flags)


if __name__ == "__main__":
    main(*sys.argv[1:])
