"""What the targets of a step read: files of the project, and outputs of other steps."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from itertools import chain

from pipeline.core.globs import PATTERN
from pipeline.core.templates import filled
from pipeline.errors import instead
from pipeline.steps.model import File, Gather
from pipeline.steps.slots import Group, Slots, shown

Row = tuple[str, ...]


class Reads:
    """Finds them, with what more than one step reads looked up once."""

    def __init__(self, folder: str, by_step: Mapping[str, Slots], written: Mapping[str, str]) -> None:
        self.folder, self.by_step, self.written = folder, by_step, written
        self.gathered: dict[tuple[str, str | None, Row], dict[Row, Group]] = {}

    def of(self, slots: Slots) -> dict[str, Sequence[Group]]:
        """By ports, the paths together that each target reads."""
        return {port: self._port(sources, slots) for port, sources in slots.step.reads.items()}

    def _port(self, sources: Sequence[File | Gather], slots: Slots) -> Sequence[Group]:
        if not sources:
            return [()] * len(slots.names)
        columns = [
            self._gather(source, slots) if isinstance(source, Gather) else self._file(source, slots)
            for source in sources
        ]
        return [*map(_joined, zip(*columns, strict=True))] if len(columns) > 1 else columns[0]

    def _file(self, file: File, slots: Slots) -> Sequence[Group]:
        """Outputs of this run, or files of the project."""
        folder, written = self.folder, self.written
        paths = filled(file.path, slots.step.matrix)
        if not file.path.names:
            paths = paths[:1]
        found = [(written.get(folder + path) or self._of_project(path, file),) for path in paths]
        return found if file.path.names else found * len(slots.names)

    def _of_project(self, path: str, file: File) -> str:
        path = posixpath.normpath(path) if path else file.item.wrong("reads: an empty path")
        if path in self.written:
            return path
        if f"{path}/".startswith(self.folder):
            file.item.wrong(f"reads: no step of this run writes {path}{instead(path, self.written)}")
        if path == "runs" or (path.startswith("runs/") and PATTERN.search(path)):
            file.item.wrong(f"reads: {path} means outputs of runs; name the files, or a step: {{step: …}}")
        return path

    def _gather(self, gather: Gather, slots: Slots) -> Sequence[Group]:
        """Outputs of another step, found by the values of the names both steps have."""
        if gather.step not in self.by_step:
            gather.item.wrong(f"reads: there is no step '{gather.step}'{instead(gather.step, self.by_step)}")
        others, matrix = self.by_step[gather.step], slots.step.matrix
        written = others.step.writes
        if gather.port is not None and gather.port not in written:
            gather.item.wrong(f"reads: step {gather.step} has no port '{gather.port}'{instead(gather.port, written)}")
        common = tuple(name for name in others.step.matrix.columns if name in matrix.columns)
        key = (gather.step, gather.port, common)
        if key not in self.gathered:
            self.gathered[key] = _by_values(others, gather.port, common)
        index = self.gathered[key]
        rows = _rows(slots, common)
        for i, values in enumerate(rows):
            if not index.get(values):
                asked = shown(dict(zip(common, values, strict=True)))
                name = slots.names[i]
                gather.item.wrong(f"reads: step {gather.step} has no target with {asked}, which {name} asks for")
        return [*map(index.__getitem__, rows)]


def _joined(groups: Sequence[Group]) -> Group:
    return tuple(chain(*groups))


def _rows(slots: Slots, names: Sequence[str]) -> Sequence[Row]:
    """The values of these names, one row for each target."""
    return [*zip(*[slots.step.matrix.columns[name] for name in names], strict=True)] or [()] * len(slots.names)


def _by_values(slots: Slots, port: str | None, names: Row) -> dict[Row, Group]:
    """The outputs of a step, or of one of its ports, by the values of some names."""
    found: dict[Row, list[str]] = {}
    groups = [column for name, column in slots.groups() if port in (None, name)]
    for values, *written in zip(_rows(slots, names), *groups, strict=True):
        found.setdefault(values, []).extend(chain(*written))
    return {values: tuple(paths) for values, paths in found.items()}
