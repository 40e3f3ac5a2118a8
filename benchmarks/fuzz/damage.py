"""What only Coppice must stand: damage to its own records, its other commands, and bad input."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.fuzz.memory import Memory
from benchmarks.fuzz.model import SOURCES
from benchmarks.fuzz.moments import Moment
from benchmarks.fuzz.operations import Operation
from benchmarks.fuzz.start import Start
from benchmarks.fuzz.tools import Coppice
from benchmarks.fuzz.world import World

BAD_INPUT = 2


def tear_receipts(world: World) -> str:
    """As a power cut may: the end is missing, from any byte on."""
    path = world.root / f"runs/{world.rng.choice(world.project.runs).name}/.coppice/receipts"
    if not path.exists():
        return ""
    size = path.stat().st_size
    cut = world.rng.randrange(size + 1) if world.rng.random() < 0.5 else max(0, size - world.rng.randint(1, 400))
    os.truncate(path, cut)
    return f"{path.parent.parent.name} at {cut} of {size}"


def damage_entry(world: World) -> str:
    memory, path = _memory(world), _some(world, "results")
    if path is None:
        return ""
    memory.entry_damaged(path.name)
    return f"{path.name[:8]} {_damage(world, path)}"


def damage_object(world: World) -> str:
    memory, path = _memory(world), _some(world, "objects")
    if path is None:
        return ""
    memory.object_damaged(path.name)
    return f"{path.name[:8]} {_damage(world, path)}"


def forget(world: World) -> str:
    name = world.rng.choice([*world.truths()])
    _command(world, "forget", name)
    return name


def clean(world: World) -> str:
    name = world.rng.choice([*world.truths()])
    _command(world, "clean", name)
    return name


def collect(world: World) -> str:
    """Garbage: drops what no receipt speaks of, and nothing else."""
    _command(world, "gc")
    _memory(world).collected(world)
    if drafts := [*(world.root / world.project.store).glob("drafts/*")]:
        world.find("leftover", f"after gc: {drafts}")
    return "done"


def look(world: World) -> str:
    """Questions change nothing, whatever they have to plan anew."""
    name = world.rng.choice([*world.truths()])
    words = world.rng.choice(
        (["list", "--all", "--status"], ["plan"], ["why", name], ["info", name], ["graph", name.split(":")[0]])
    )
    _command(world, *words, codes=(0, 1))
    return " ".join(words)


def _command(world: World, *words: str, codes: tuple[int, ...] = (0,)) -> None:
    Start(world, list(words), idle=True).end(*codes)


def _memory(world: World) -> Memory:
    assert isinstance(world.tool, Coppice)
    return world.tool.memory


def _some(world: World, part: str) -> Path | None:
    there = sorted(path for path in (world.root / world.project.store / part).glob("*/*"))
    return world.rng.choice(there) if there else None


def _damage(world: World, path: Path) -> str:
    body = path.read_bytes()
    path.chmod(0o644)
    how = world.rng.choice(("deleted", "emptied", "cut", "changed"))
    if how == "deleted":
        path.unlink()
    elif how == "changed":
        at = world.rng.randrange(len(body) or 1)
        path.write_bytes(body[:at] + b"\xff" + body[at + 1 :])
    else:
        path.write_bytes(b"" if how == "emptied" else body[: len(body) // 2])
    return how


def broken_spec(world: World) -> None:
    _refused(world, world.rng.choice(sorted((world.root / "specs").iterdir())), cut=True)


def missing_source(world: World) -> None:
    read = sorted({path for truth in world.truths().values() for path in truth.inputs if path in SOURCES})
    if read:
        _refused(world, world.root / world.rng.choice(read), cut=False)


def _refused(world: World, path: Path, cut: bool) -> None:
    """Bad input of runs that are named: nothing is executed.  Where none is named, the others are built."""
    body = path.read_bytes()
    world.log(f"{path.relative_to(world.root)} is {'cut in half' if cut else 'gone'} for a moment")
    path.write_bytes(body[: len(body) // 2]) if cut else path.unlink()
    named = [run.name for run in world.project.runs] if not cut or world.rng.random() < 0.5 else []
    Start(world, ["run", *named], idle=bool(named)).end(BAD_INPUT)
    path.write_bytes(body)


RECORDS = {
    "tear receipts": Operation(3, tear_receipts),
    "damage store entry": Operation(3, damage_entry),
    "damage store object": Operation(2, damage_object),
    "forget": Operation(1, forget),
    "clean": Operation(1, clean),
    "gc": Operation(1, collect),
    "look": Operation(3, look),
}

BAD_INPUTS = {
    "broken spec": Moment(1, broken_spec),
    "missing source": Moment(1, missing_source),
}
