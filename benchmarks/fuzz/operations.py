"""What can happen to a project between two builds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz.model import CODE, SOURCES, VALUES, Project, Run, Step
from benchmarks.fuzz.model import draw as draw_project
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
    """By renaming, so that both keep their times; or by writing."""
    one, two = world.rng.sample(SOURCES, 2)
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


def edit_spec(world: World) -> str:
    """One step otherwise: a constant in its command, the size of its output, its number of outputs, an input more."""
    run, step = _some_step(world)
    change = world.rng.choice((
        {"salt": step.salt % 3 + 1}, {"lines": 61 - step.lines}, {"timeout": 90 - step.timeout},
        {"salt": step.salt % 3 + 1}, {"timeout": 90 - step.timeout}, {"told": step.axes}, {"reads": step.reads[1:]},
    ))  # fmt: skip
    _replace_step(world, run, replace(step, **change))
    return f"{run.name}:{step.name} {change}"


def edit_axis(world: World) -> str:
    """Targets are added or go."""
    axis = world.rng.choice("ij")
    values = tuple(world.rng.sample(VALUES, world.rng.randint(1, 3)))
    world.respell(replace(world.project, axes={**world.project.axes, axis: values}))
    return f"{axis} {values}"


def edit_cosmetic(world: World) -> str:
    project = world.project
    world.respell(replace(project, note=project.note + 1, backwards=project.backwards ^ (world.rng.random() < 0.5)))
    return "comment and order"


def drop_step(world: World) -> str:
    run = world.project.runs[-1]
    if len(run.steps) < 2:
        return ""
    _replace_run(world, replace(run, steps=run.steps[:-1]))
    return f"{run.name}:{run.steps[-1].name}"


def add_step(world: World) -> str:
    """The last step of another project drawn at random, as far as it fits into this one."""
    run = world.project.runs[-1]
    names = {step.name for step in run.steps}
    drawn = draw_project(world.rng, world.project.store).runs[0].steps[-1]
    name = next(f"u{number}" for number in range(99) if f"u{number}" not in names)
    reads = tuple(replace(read, port="") for read in drawn.reads if not read.step or read.step in names)
    _replace_run(world, replace(run, steps=(*run.steps, replace(drawn, name=name, reads=reads))))
    return f"{run.name}:{name}"


def rename_run(world: World) -> str:
    """With its folder, or leaving that behind; a former name may come back."""
    run = world.rng.choice(world.project.runs)
    taken = {each.name for each in world.project.runs}
    name = world.rng.choice([name for name in ("a", "b", "c", "d") if name not in taken])
    old, new = world.root / f"runs/{run.name}", world.root / f"runs/{name}"
    moved = old.exists() and not new.exists() and world.rng.random() < 0.5
    if moved:
        old.rename(new)
        world.outputs.update(path.replace(f"runs/{run.name}/", f"runs/{name}/", 1) for path in [*world.outputs])
    runs = tuple(replace(each, name=name) if each is run else each for each in world.project.runs)
    world.respell(replace(world.project, runs=runs))
    return f"{run.name} is now {name}{', folder and all' if moved else ''}"


def _specs(world: World) -> list[str]:
    return [f"specs/{path.name}" for path in sorted((world.root / "specs").iterdir())]


def _some_step(world: World) -> tuple[Run, Step]:
    run = world.rng.choice(world.project.runs)
    return run, world.rng.choice(run.steps)


def _replace_step(world: World, run: Run, step: Step) -> None:
    _replace_run(world, replace(run, steps=tuple(step if each.name == step.name else each for each in run.steps)))


def _replace_run(world: World, run: Run) -> None:
    project: Project = world.project
    world.respell(replace(project, runs=tuple(run if each.name == run.name else each for each in project.runs)))


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


OPERATIONS = {
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
    "edit spec": Operation(4, edit_spec),
    "edit axis": Operation(3, edit_axis),
    "edit spec, nothing that counts": Operation(1, edit_cosmetic),
    "drop step": Operation(1, drop_step),
    "add step": Operation(1, add_step),
    "rename run": Operation(3, rename_run),
}
