"""What can happen to the specs of a project between two builds."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from benchmarks.fuzz.model import FOLDERS, PORTS, VALUES, Project, Read, Run, Step
from benchmarks.fuzz.model import draw as draw_project
from benchmarks.fuzz.operations import Operation
from benchmarks.fuzz.world import World


def edit_spec(world: World) -> str:
    """One step otherwise: a constant in its command, the size of its output, its number of outputs, an input more."""
    run, step = _some_step(world)
    change = world.rng.choice((
        {"salt": step.salt % 3 + 1}, {"lines": 61 - step.lines}, {"timeout": 90 - step.timeout},
        {"salt": step.salt % 3 + 1}, {"room": 1}, {"timeout": 90 - step.timeout},
        {"told": step.axes}, {"reads": step.reads[1:]}, {"reads": (*step.reads[:3], Read(world.rng.choice(FOLDERS)))},
    ))  # fmt: skip
    replace_step(world, run, replace(step, **change))
    return f"{run.name}:{step.name} {change}"


def edit_ports(world: World) -> str:
    """Outputs come, go, get another suffix or another order."""
    run, step = _some_step(world)
    ports = tuple(world.rng.sample(PORTS, world.rng.randint(1, len(PORTS))))
    steps = [replace(each, reads=_still_there(each.reads, step.name, ports)) for each in run.steps]
    steps[run.steps.index(step)] = replace(step, ports=ports)
    _replace_run(world, replace(run, steps=tuple(steps)))
    return f"{run.name}:{step.name} {ports}" if ports != step.ports else ""


def rename_outputs(world: World) -> str:
    """To a name of their own, or two steps swap theirs."""
    run, step = _some_step(world)
    other = world.rng.choice(run.steps)
    taken = {each.stem for each in run.steps}
    own = next(stem for times in count() if (stem := step.name + "x" * times) not in taken)
    stems = {other.name: step.stem, step.name: other.stem if other is not step else own}
    steps = tuple(replace(each, stem=stems.get(each.name, each.stem)) for each in run.steps)
    _replace_run(world, replace(run, steps=steps))
    return f"{run.name} {stems}"


def edit_axis(world: World) -> str:
    """Targets are added or go."""
    axis = world.rng.choice("ij")
    values = tuple(world.rng.sample(VALUES, world.rng.choice((1, 1, 2, 3))))
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
    taken = names | {step.stem for step in run.steps}
    drawn = draw_project(world.rng, world.project.store).runs[0].steps[-1]
    name = next(f"u{number}" for number in range(99) if f"u{number}" not in taken)
    reads = tuple(replace(read, port="") for read in drawn.reads if not read.step or read.step in names)
    _replace_run(world, replace(run, steps=(*run.steps, replace(drawn, name=name, stem=name, reads=reads))))
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


def _still_there(reads: tuple[Read, ...], step: str, ports: tuple[str, ...]) -> tuple[Read, ...]:
    """What reads a port that is gone reads all that are left; where only one is left it goes without a name."""
    known = ports if len(ports) > 1 else ()
    return tuple(
        replace(read, port="") if read.step == step and read.run is None and read.port not in known else read
        for read in reads
    )


def _some_step(world: World) -> tuple[Run, Step]:
    run = world.rng.choice(world.project.runs)
    return run, world.rng.choice(run.steps)


def replace_step(world: World, run: Run, step: Step) -> Run:
    steps = tuple(step if each.name == step.name else each for each in run.steps)
    return _replace_run(world, replace(run, steps=steps))


def _replace_run(world: World, run: Run) -> Run:
    project: Project = world.project
    world.respell(replace(project, runs=tuple(run if each.name == run.name else each for each in project.runs)))
    return run


SPECS = {
    "edit spec": Operation(4, edit_spec),
    "edit outputs in spec": Operation(3, edit_ports),
    "rename outputs in spec": Operation(3, rename_outputs),
    "edit axis": Operation(3, edit_axis),
    "edit spec, nothing that counts": Operation(1, edit_cosmetic),
    "drop step": Operation(1, drop_step),
    "add step": Operation(1, add_step),
    "rename run": Operation(3, rename_run),
}
