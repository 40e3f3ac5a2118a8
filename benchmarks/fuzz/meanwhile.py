"""What can happen to the files and the specs of a project while one of its targets runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.fuzz import specs
from benchmarks.fuzz.action import EVERY
from benchmarks.fuzz.model import CODE, FOLDERS, KEPT, SOURCES, Read, Run, Step
from benchmarks.fuzz.moments import Moment, give_work
from benchmarks.fuzz.oracle import Truth, behind, snapshot
from benchmarks.fuzz.start import Start
from benchmarks.fuzz.world import World

EDITED = 1  # the exit code when a target's inputs were edited while it ran
SETTLED = 0.1  # seconds; a file written just now is read again by the next build whatever else is known of it
NEW = "data/late.txt"  # in most folders and patterns
NAMES = (NEW, "data/late.md", "data/sub/late.txt", "data/new/late.txt", "data/new/deep/late.txt")
OF_SPECS = ("edit spec", "edit outputs in spec", "rename outputs in spec", "edit axis", "add step")

Change = Callable[[Start, list[str]], str]
Choice = Callable[[World, Truth], list[str]]


def edited(world: World) -> None:
    give_work(world)
    _while_one_runs(world, world.rng.choice((_edit, _edit_and_undo)), _files, (EDITED,))


def folder_edited(world: World) -> None:
    """Below a folder or pattern that several targets read: some are made before, some after."""
    _share_a_folder(world)
    _while_one_runs(world, world.rng.choice((_edit, _remove, _edit_and_undo)), _below_folders, (EDITED,))


def between_looks(world: World) -> None:
    """After one target looked into a folder, and before another does, by other words: whom it does not disturb is
    built, and what it read is no longer there when the build ends."""
    _read_around(world)
    change = world.rng.choice((_appear, _appear, _appear, _edit, _remove))
    _while_one_runs(world, change, _not_below_folders, (0, EDITED))


def spec_edited(world: World) -> None:
    """The build that is under way goes by the old one."""
    give_work(world)
    _while_one_runs(world, _edit_spec, lambda *_: [*OF_SPECS], (0,))


def _while_one_runs(world: World, change: Change, choice: Choice, codes: tuple[int, ...]) -> None:
    """Make a change to something of its choice; `codes` are what the build may end with then."""
    world.tell("hold", EVERY)  # none is past its hold before it is known which one is to wait
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
    start.end(*(codes if happened else (0,)))


def _edit(start: Start, paths: list[str]) -> str:
    world = start.world
    path = world.rng.choice(paths)
    old = (world.root / path).read_bytes() if (world.root / path).exists() else b""
    world.write(path, old + b"# edited meanwhile\n")
    start.changed()
    return f"{path} edited"


def _remove(start: Start, paths: list[str]) -> str:
    there = [path for path in paths if path not in KEPT and (start.world.root / path).exists()]
    if not there:
        return _edit(start, paths)
    path = start.world.rng.choice(there)
    (start.world.root / path).unlink()
    start.changed()
    return f"{path} removed"


def _appear(start: Start, _paths: list[str]) -> str:
    return _edit(start, [start.world.rng.choice(NAMES)])


def _edit_and_undo(start: Start, paths: list[str]) -> str:
    """Others may see it in between."""
    path = start.world.rng.choice([path for path in paths if (start.world.root / path).exists()])
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
    reads = [read for read in truth.target.reads if read in FOLDERS]
    return sorted({path for read in reads for path in (*behind(read, there), *behind(read, dict.fromkeys(NAMES, b"")))})


def _not_below_folders(world: World, truth: Truth) -> list[str]:
    """What is there for others to read, if it reads none of it itself."""
    return [] if {*FOLDERS} & {*truth.target.reads} else behind("data/", snapshot(world.root))


def _share_a_folder(world: World) -> None:
    """Two steps read it from now on, by the same words or by others, and are otherwise new, too."""
    run = world.rng.choice(world.project.runs)
    words = [Read(word) for word in world.rng.choice((world.rng.sample(FOLDERS, 2), [world.rng.choice(FOLDERS)] * 2))]
    steps = world.rng.sample(run.steps, min(2, len(run.steps)))
    for step, word in zip(steps, words, strict=False):
        run = _reading(world, run, step, word, new=True)


def _read_around(world: World) -> None:
    """Of three steps the first and the last read the folder, and the one in the middle runs in between."""
    while len(world.project.runs[-1].steps) < 3:
        specs.add_step(world)
    run = world.project.runs[-1]
    first, middle, last = sorted(world.rng.sample(range(len(run.steps)), 3))
    one, other = world.rng.sample(FOLDERS, 2)
    names = [run.steps[at].name for at in (first, middle, last)]
    run = _reading(world, run, run.steps[first], Read(one), new=world.rng.random() < 0.6)
    free = tuple(read for read in run.steps[middle].reads if read.path not in FOLDERS)
    run = specs.replace_step(world, run, replace(run.steps[middle], reads=free))
    run = _reading(world, run, run.steps[middle], Read(step=names[0]), new=True)
    run = _reading(world, run, run.steps[last], Read(step=names[1]), new=True)
    _reading(world, run, run.steps[last], Read(other), new=False)


def _reading(world: World, run: Run, step: Step, read: Read, new: bool) -> Run:
    """The run with that step reading this, too; `new`: and with another result."""
    reads = (read, *(each for each in step.reads if each != read))
    world.log(f"{run.name}:{step.name} reads {read.path or read.step}{', and is new' if new else ''}")
    return specs.replace_step(world, run, replace(step, salt=(step.salt % 3 + 1) if new else step.salt, reads=reads))


MOMENTS = {
    "edit while it runs": Moment(2, edited),
    "edit of a shared folder while it runs": Moment(2, folder_edited),
    "edit of a shared folder between two looks": Moment(5, between_looks),
    "edit of the spec while it runs": Moment(2, spec_edited),
}
