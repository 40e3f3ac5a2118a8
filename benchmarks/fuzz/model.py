"""A small project drawn at random: runs made of steps, and the targets they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import NamedTuple

VALUES = (1, 2, 3)
PORTS = ("a", "b", "c")
SOURCES = ("src/1.txt", "src/2.txt", "src/3.txt", "src/a.txt", "src/b.txt")
FOLDERS = ("data/", "data/**/*.txt", "data/*.txt", "data/sub/", "data/sub/*.txt", "data/*/*.txt")
KEPT = ("data/keep.txt", "data/sub/keep.txt")  # no folder is ever without a file, and no pattern without a match
CODE = "steps.py"


@dataclass(frozen=True)
class Read:
    """A path of the project, or the outputs of an earlier step: of this run, or of run number `run`."""

    path: str = ""
    step: str = ""
    port: str = ""
    run: int | None = None


@dataclass(frozen=True)
class Step:
    name: str
    how: str  # run, shell or call
    axes: tuple[str, ...]
    told: tuple[str, ...]  # the axes that the command sees; the others are in the names of outputs only
    salt: int
    reads: tuple[Read, ...]
    ports: tuple[str, ...]  # one output each
    stem: str  # the folder of its outputs and what their names begin with
    lines: int
    flags: str  # c: coarse, x: executable
    timeout: int
    room: str | int  # none, the one of the spec, or one of its own


@dataclass(frozen=True)
class Run:
    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Project:
    runs: tuple[Run, ...]
    axes: dict[str, tuple[int, ...]]
    store: str
    note: int = 0  # a comment in the spec
    backwards: bool = False  # the spec lists steps before those they read from


class Target(NamedTuple):
    """`reads` may hold folders and patterns; `outputs` start at the project's root."""

    run: str
    name: str
    step: Step
    told: str
    reads: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def mark(self) -> str:
        """What its action notes when it runs: unique in a project."""
        return self.outputs[0].rpartition("/")[2]


def draw(rng: Random, store: str) -> Project:
    runs: list[Run] = []
    for number in range(rng.choice((1, 1, 2))):
        steps: list[Step] = []
        for count in range(rng.randint(2, 5)):
            steps.append(_step(rng, f"{'st'[number]}{count}", steps, runs))
        runs.append(Run("ab"[number], tuple(steps)))
    axes = {name: tuple(sorted(rng.sample(VALUES, rng.choice((1, 1, 2))))) for name in "ij"}
    return Project(tuple(runs), axes, store, backwards=rng.random() < 0.3)


def _step(rng: Random, name: str, above: list[Step], others: list[Run]) -> Step:
    axes = rng.choice(((), (), ("i",), ("i",), ("j",), ("i", "j")))
    reads = {_read(rng, axes, above, others): None for _ in range(rng.choice((0, 1, 2, 2, 3)))}
    return Step(
        name=name,
        how=rng.choice(("run", "shell", "call")),
        axes=axes,
        told=tuple(axis for axis in axes if rng.random() < 0.7),
        salt=rng.randint(1, 3),
        reads=tuple(reads),
        ports=PORTS[: rng.choice((1, 1, 2))],
        stem=name,
        lines=rng.choice((1, 1, 60)),
        flags=rng.choice(("-", "-", "c", "x")),
        timeout=rng.choice((30, 60)),
        room=rng.choice(("", "", "narrow", 2)),
    )


def _read(rng: Random, axes: tuple[str, ...], above: list[Step], others: list[Run]) -> Read:
    kind = rng.random()
    if above and kind < 0.5:
        step = rng.choice(above)
        return Read(step=step.name, port=rng.choice(("", *step.ports)) if len(step.ports) > 1 else "")
    if others and kind < 0.65:
        number = rng.randrange(len(others))
        return Read(step=rng.choice(others[number].steps).name, run=number)
    if kind < 0.8:
        return Read(rng.choice(FOLDERS))
    return Read(rng.choice((*SOURCES, *(f"src/{{{axis}}}.txt" for axis in axes))))


def targets(project: Project) -> list[Target]:
    """In an order in which each comes after all it reads from."""
    return [target for run in project.runs for step in run.steps for target in _targets(project, run, step)]


def rows(project: Project, step: Step) -> Iterator[dict[str, int]]:
    for values in product(*(project.axes[axis] for axis in step.axes)):
        yield dict(zip(step.axes, values, strict=True))


def _targets(project: Project, run: Run, step: Step) -> Iterator[Target]:
    for row in rows(project, step):
        reads = tuple(path for read in step.reads for path in reading(project, run, read, row))
        name = ".".join([step.name, *map(str, row.values())])
        told = "/".join(str(row[axis]) for axis in step.told)
        yield Target(run.name, name, step, f"told:{told}", reads, tuple(outputs(run, step, row)))


def outputs(run: Run, step: Step, row: dict[str, int], port: str = "") -> Iterator[str]:
    for each in (port,) if port else step.ports:
        yield f"runs/{run.name}/{step.stem}/" + "-".join([step.stem, *map(str, row.values())]) + f".{each}"


def reading(project: Project, run: Run, read: Read, row: dict[str, int]) -> list[str]:
    """The paths that `read` stands for in a target with the values `row`: those of a step that agree with it."""
    if read.path:
        return [read.path.format(**row)]
    other = run if read.run is None else project.runs[read.run]
    step = next(step for step in other.steps if step.name == read.step)
    common = {} if read.run is not None else row
    agreeing = (
        each for each in rows(project, step) if all(common.get(axis, value) == value for axis, value in each.items())
    )
    return [path for each in agreeing for path in outputs(other, step, each, read.port)]
