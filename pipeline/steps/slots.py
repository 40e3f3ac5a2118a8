"""The targets of a steps run to be: their names, and their outputs, each written by one alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, NoReturn

from pipeline.core.globs import PATTERN
from pipeline.core.graph import Ports
from pipeline.core.templates import filled
from pipeline.errors import clipped
from pipeline.steps.model import File, Matrix, Step

_NAME = "[A-Za-z0-9_+-][A-Za-z0-9_.+-]*+"
_SAFE = re.compile(f"{_NAME}(?:/{_NAME})*+")
_SHORT = 200

Group = tuple[str, ...]


class Slots(NamedTuple):
    """The targets of one step by columns: the paths of a port are a column for each file."""

    step: Step
    names: Sequence[str]
    writes: Sequence[tuple[str, Sequence[Sequence[str]]]]

    def groups(self) -> list[tuple[str, Sequence[Group]]]:
        """The paths of each port, together for each target."""
        return [(port, [*zip(*files, strict=True)] or [()] * len(self.names)) for port, files in self.writes]


def ports(groups: Iterable[tuple[str, Iterable[Group]]], size: int) -> Iterable[Ports]:
    """The same for each target, its ports together."""
    columns = [zip(repeat(port), column) for port, column in groups]
    return zip(*columns, strict=True) if columns else repeat((), size)


def slots(run: str, step: Step, folder: str) -> Slots:
    start = f"{run}:{step.name}"
    names = [f"{start}.{label}" for label in step.matrix.labels] if step.matrix.columns else [start]
    if long := [name for name in names if len(name.encode()) > _SHORT]:
        step.item.wrong(f"{clipped(long[0])} is too long for the name of a target: at most 200 bytes")
    if len({*names}) < len(names):
        _same_name(step, names)
    writes = [(port, [_outputs(file, step, folder) for file in files]) for port, files in step.writes.items()]
    return Slots(step, names, writes)


def _same_name(step: Step, names: Sequence[str]) -> NoReturn:
    seen: dict[str, int] = {}
    second = next(i for i, name in enumerate(names) if seen.setdefault(name, i) != i)
    both = f"{shown(step.matrix.row(seen[names[second]]))} and {shown(step.matrix.row(second))}"
    step.item.wrong(f"step {step.name}: the values {both} both make target {names[second]}")


def shown(row: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())


def _outputs(file: File, step: Step, folder: str) -> Sequence[str]:
    paths = filled(file.path, step.matrix)
    if not _all_safe(file, step.matrix, paths):
        for path in paths:
            _check_output(path, file, step)
    return [*map(folder.__add__, paths)]


def _all_safe(file: File, matrix: Matrix, paths: Sequence[str]) -> bool:
    """A path that is safe with a letter in each place is so with any safe names in them: one look for all."""
    values = {value for name in file.path.names for value in matrix.columns[name]}
    with_letters = file.path.form % tuple("x" for _ in file.path.names)
    return _SAFE.fullmatch("/".join([with_letters, *values])) is not None and max(map(len, paths)) < _SHORT


def _check_output(path: str, file: File, step: Step) -> None:
    if _SAFE.fullmatch(path) and len(path) < _SHORT:
        return
    wrong = f"step {step.name}: writes: '{clipped(path)}'"
    if posixpath.isabs(path) or ".." in path.split("/"):
        file.item.wrong(f"{wrong} is outside the run's folder; give a path below it, without ..")
    if not path or path.endswith("/") or path == "." or posixpath.normpath(path) != path:
        file.item.wrong(f"{wrong} is not the plain path of a file; a folder is no output, list its files or pack them")
    if path.partition("/")[0].casefold() == ".coppice":
        file.item.wrong(f"{wrong}: .coppice/ holds Coppice's own records; choose another folder")
    if PATTERN.search(path) or not path.isprintable():
        file.item.wrong(f"{wrong} has a character that is a pattern or cannot be printed")
    if any(len(part.encode()) > 240 for part in path.split("/")) or len(path.encode()) > 1000:
        file.item.wrong(f"{wrong} is too long: at most 240 bytes a name and 1000 in all")


def written(every: Iterable[Slots]) -> dict[str, str]:
    """All outputs, to be looked up: no two the same, none below another."""
    every = [*every]
    paths = [path for slots in every for _, files in slots.writes for column in files for path in column]
    found = dict(zip(paths, paths, strict=True))
    above = {path.rpartition("/")[0] for path in paths}
    while above:
        if len(found) < len(paths) or not above.isdisjoint(found):
            _clash(every)
        above = {folder.rpartition("/")[0] for folder in above} - {""}
    return found


def _clash(every: Sequence[Slots]) -> NoReturn:
    writer: dict[str, tuple[Step, str]] = {}
    for path, step, name in _each_output(every):
        if path in writer:
            step.at("writes").wrong(
                f"{path} is written by both {_told(writer[path])} and {name};"
                " give each its own, for instance with the names of its `for:` in the path"
            )
        writer[path] = (step, name)
    for folder, (step, name) in {posixpath.dirname(path): by for path, by in writer.items()}.items():
        for above in (above for above in _upwards(folder) if above in writer):
            other = f"{above} is an output of {_told(writer[above])}"
            step.at("writes").wrong(f"{other} and also the folder of an output of {name}; rename one")
    raise AssertionError("no two outputs are in each other's way")


def _each_output(every: Iterable[Slots]) -> Iterator[tuple[str, Step, str]]:
    for slots in every:
        for name, *groups in zip(slots.names, *[column for _, column in slots.groups()], strict=True):
            yield from ((path, slots.step, name) for group in groups for path in group)


def _told(writer: tuple[Step, str]) -> str:
    return f"{writer[1]} (line {writer[0].item.line})"


def _upwards(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
