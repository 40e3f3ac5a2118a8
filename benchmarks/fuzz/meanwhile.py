"""What can happen to the files and the specs of a project while one of its targets runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.fuzz import specs
from benchmarks.fuzz.model import CODE, FOLDERS, SOURCES, Read
from benchmarks.fuzz.moments import Moment, give_work
from benchmarks.fuzz.oracle import Truth, behind, snapshot
from benchmarks.fuzz.start import Start
from benchmarks.fuzz.world import World

EDITED = 1  # the exit code when a target's inputs were edited while it ran
SETTLED = 0.1  # seconds; a file written just now is read again by the next build whatever else is known of it
KEPT = "data/keep.txt"  # in every folder and pattern, so that none is ever empty
NEW = "data/late.txt"  # it would be, too
OF_SPECS = ("edit spec", "edit outputs in spec", "rename outputs in spec", "edit axis", "add step")

Change = Callable[[Start, list[str]], str]
Choice = Callable[[World, Truth], list[str]]


def edited(world: World) -> None:
    give_work(world)
    _while_one_runs(world, world.rng.choice((_edit, _edit_and_undo)), _files, EDITED)


def folder_edited(world: World) -> None:
    """Below a folder or pattern that several targets read: some are made before, some after."""
    _share_a_folder(world)
    _while_one_runs(world, world.rng.choice((_edit, _remove, _edit_and_undo)), _below_folders, EDITED)


def spec_edited(world: World) -> None:
    """The build that is under way goes by the old one."""
    give_work(world)
    _while_one_runs(world, _edit_spec, lambda *_: [*OF_SPECS], 0)


def _while_one_runs(world: World, change: Change, choice: Choice, code: int) -> None:
    """Make a change to something of its choice; `code` is what the build must end with then."""
    start = Start(world, world.tool.words(world.rng))
    choices = {name: found for name in start.to_do() if (found := choice(world, start.states[0][name]))}
    held = world.rng.choice([*choices]) if choices else ""
    marks = start.marks(held) if held else set()
    world.tell("hold", *marks)
    happened = bool(held) and start.until(lambda: start.one_of(marks))
    if happened:
        world.begin(f"{change.__name__.strip('_').replace('_', ' ')} while it ran")
        world.log(f"{change(start, choices[held])}, while {held} ran")
        time.sleep(world.rng.choice((0, SETTLED)))
    world.tell("hold")
    start.end(code if happened else 0)


def _edit(start: Start, paths: list[str]) -> str:
    world = start.world
    path = world.rng.choice(paths)
    old = (world.root / path).read_bytes() if (world.root / path).exists() else b""
    world.write(path, old + b"# edited meanwhile\n")
    start.changed()
    return f"{path} edited"


def _remove(start: Start, paths: list[str]) -> str:
    there = [path for path in paths if path not in (KEPT, NEW)]
    if not there:
        return _edit(start, paths)
    path = start.world.rng.choice(there)
    (start.world.root / path).unlink()
    start.changed()
    return f"{path} removed"


def _edit_and_undo(start: Start, paths: list[str]) -> str:
    """Others may see it in between."""
    path = start.world.rng.choice([path for path in paths if path != NEW])
    old = (start.world.root / path).read_bytes()
    said = _edit(start, [path])
    time.sleep(start.world.rng.uniform(0, 0.1))
    start.world.write(path, old)
    return f"{said} and that undone"


def _edit_spec(start: Start, names: list[str]) -> str:
    name = start.world.rng.choice(names)
    return f"{name}: {specs.SPECS[name].do(start.world)}"


def _files(_: World, truth: Truth) -> list[str]:
    """Its code is one of them."""
    return [path for path in truth.inputs if path in (*SOURCES, CODE)]


def _below_folders(world: World, truth: Truth) -> list[str]:
    there = snapshot(world.root)
    return sorted({path for read in truth.target.reads if read in FOLDERS for path in (*behind(read, there), NEW)})


def _share_a_folder(world: World) -> None:
    """Two steps read it from now on, and are otherwise new, too."""
    run = world.rng.choice(world.project.runs)
    folder = Read(world.rng.choice(FOLDERS))
    for step in world.rng.sample(run.steps, min(2, len(run.steps))):
        reads = (folder, *(read for read in step.reads if read != folder))
        run = specs.replace_step(world, run, replace(step, salt=step.salt % 3 + 1, reads=reads))
    world.log(f"{run.name}: two steps read {folder.path}")


MOMENTS = {
    "edit while it runs": Moment(2, edited),
    "edit of a shared folder while it runs": Moment(2, folder_edited),
    "edit of the spec while it runs": Moment(2, spec_edited),
}
