"""What can happen to the files of a project between two builds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz.model import CODE, SOURCES
from benchmarks.fuzz.world import World


class Operation(NamedTuple):
    """`do` says what it did, or nothing when there was nothing to do."""

    weight: int
    do: Callable[[World], str]


def edit(world: World) -> str:
    path = world.rng.choice(SOURCES)
    world.write(path, f"edit {world.rng.randrange(1000)}\n".encode() * world.rng.randint(1, 3))
    return path


def touch(world: World) -> str:
    path = world.rng.choice((*SOURCES, CODE, "data/keep.txt", *_specs(world)))
    os.utime(world.root / path)
    return path


def swap(world: World) -> str:
    """By renaming, so that both keep their times; or by writing.  Rather two that one target reads."""
    together = [read for truth in world.truths().values() if len(read := {*truth.inputs} & {*SOURCES}) > 1]
    among = sorted(world.rng.choice(together)) if together and world.rng.random() < 0.7 else SOURCES
    one, two = world.rng.sample(among, 2)
    a, b = world.root / one, world.root / two
    if world.rng.random() < 0.5:
        a.rename(a.with_suffix(".moving"))
        b.rename(a)
        a.with_suffix(".moving").rename(b)
        return f"{one} {two} renamed"
    old = a.read_bytes()
    world.write(one, b.read_bytes())
    world.write(two, old)
    return f"{one} {two} rewritten"


def revert(world: World) -> str:
    changed = sorted(path for path in world.history if (world.root / path).exists())
    if not changed:
        return ""
    path = world.rng.choice(changed)
    world.write(path, world.rng.choice(world.history[path]))
    return path


def tamper_source(world: World) -> str:
    """Other contents of the same size under the same time."""
    path = world.rng.choice(SOURCES)
    _disguised(world.root / path, _flipped(world, (world.root / path).read_bytes()))
    return path


def code(world: World) -> str:
    body = (world.root / CODE).read_bytes().partition(b"# version")[0]
    world.write(CODE, body + b"# version %d\n" % world.rng.randint(1, 3))
    return CODE


def folder(world: World) -> str:
    """Files that come and go where folders and patterns are read."""
    rng, data = world.rng, world.root / "data"
    there = sorted(path for path in data.rglob("*") if path.is_file() and path.name != "keep.txt")
    if there and rng.random() < 0.6:
        path = rng.choice(there)
        if rng.random() < 0.5:
            path.unlink()
            return f"removed {path.relative_to(world.root)}"
        new = path.with_name(f"moved{rng.randint(1, 3)}.txt")
        path.rename(new)
        return f"{path.relative_to(world.root)} became {new.name}"
    name = rng.choice(("data/more.txt", "data/more.md", "data/sub/more.txt", "data/new/deep/x.txt"))
    world.write(name, f"more {rng.randint(1, 3)}\n".encode())
    return f"wrote {name}"


def delete_output(world: World) -> str:
    return _to_output(world, "deleted", lambda path: path.unlink())


def truncate_output(world: World) -> str:
    return _to_output(world, "cut", lambda path: os.truncate(path, world.rng.choice((0, path.stat().st_size // 2))))


def tamper_output(world: World) -> str:
    return _to_output(world, "changed", lambda path: path.write_bytes(path.read_bytes() + b"more\n"))


def disguise_output(world: World) -> str:
    def flip(path: Path) -> None:
        _disguised(path, _flipped(world, path.read_bytes()))

    return _to_output(world, "changed under its old time", flip)


def forget_caches(world: World) -> str:
    return world.tool.forget_caches(world)


def _specs(world: World) -> list[str]:
    return [f"specs/{path.name}" for path in sorted((world.root / "specs").iterdir())]


def _to_output(world: World, what: str, do: Callable[[Path], object]) -> str:
    there = sorted(path for path in world.outputs if (world.root / path).exists())
    if not there:
        return ""
    path = world.rng.choice(there)
    do(world.root / path)
    return f"{path} {what}"


def _flipped(world: World, body: bytes) -> bytes:
    if not body:
        return body
    at = world.rng.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def _disguised(path: Path, body: bytes) -> None:
    before = path.stat()
    path.write_bytes(body)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


FILES = {
    "edit": Operation(6, edit),
    "touch": Operation(2, touch),
    "swap": Operation(3, swap),
    "revert": Operation(6, revert),
    "tamper source": Operation(2, tamper_source),
    "edit code": Operation(2, code),
    "edit folder": Operation(4, folder),
    "delete output": Operation(3, delete_output),
    "truncate output": Operation(3, truncate_output),
    "tamper output": Operation(2, tamper_output),
    "tamper output, mtime and size kept": Operation(3, disguise_output),
    "delete caches": Operation(3, forget_caches),
}
