"""Planner of `kind: steps`: the spec as targets, a pure function of it.

First the names and outputs of each step's targets, each output written by one alone (`TargetColumns`); then their reads
(`ReadFinder`): files of the project, and outputs of other steps; then the targets.  It works by columns, with an entry
for each target of a step: a `zip` of columns costs a fifth of a loop over rows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any, NamedTuple, NoReturn

from pipeline.core.cages import CAGE, PLAIN
from pipeline.core.graph import GLOB, Ports, Target
from pipeline.core.templates import Template, fill, fill_shell_values, fill_values, parse_template
from pipeline.errors import cut_text, did_you_mean
from pipeline.steps.spec.model import File, Gather, Matrix, Step, StepsSpec

_NAME = "[A-Za-z0-9_+-][A-Za-z0-9_.+-]*+"
_SAFE = re.compile(f"{_NAME}(?:/{_NAME})*+")
_SHORT = 200

Group = tuple[str, ...]


class TargetColumns(NamedTuple):
    """Targets of one step by columns: the paths of a port are a column for each file."""

    step: Step
    names: Sequence[str]
    writes: Sequence[tuple[str, Sequence[Sequence[str]]]]

    def groups(self) -> list[tuple[str, Sequence[Group]]]:
        """The paths of each port, together for each target."""
        return [(port, [*zip(*files, strict=True)] or [()] * len(self.names)) for port, files in self.writes]


def row_ports(groups: Iterable[tuple[str, Iterable[Group]]], size: int) -> Iterable[Ports]:
    """The ports of each target, from groups by column."""
    columns = [zip(repeat(port), column) for port, column in groups]
    return zip(*columns, strict=True) if columns else repeat((), size)


def target_columns(run: str, step: Step, folder: str) -> TargetColumns:
    start = f"{run}:{step.name}"
    names = [f"{start}.{label}" for label in step.matrix.labels] if step.matrix.columns else [start]
    if long := [name for name in names if len(name.encode()) > _SHORT]:
        step.keys.item.wrong(f"{cut_text(long[0])} is too long for the name of a target: at most 200 bytes")
    if len({*names}) < len(names):
        seen: dict[str, int] = {}
        second = next(i for i, name in enumerate(names) if seen.setdefault(name, i) != i)
        both = f"{row_text(step.matrix.row(seen[names[second]]))} and {row_text(step.matrix.row(second))}"
        step.keys.item.wrong(f"step {step.name}: the values {both} both make target {names[second]}")
    writes = [(port, [_outputs(file, step, folder) for file in files]) for port, files in step.writes.items()]
    return TargetColumns(step, names, writes)


def row_text(row: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())


def _outputs(file: File, step: Step, folder: str) -> Sequence[str]:
    paths = fill(file.path, step.matrix.columns, step.matrix.size)
    # a path that is safe with a letter for each name is so with any safe values
    values = {value for name in file.path.names for value in step.matrix.columns[name]}
    with_letters = file.path.form % tuple("x" for _ in file.path.names)
    if not _SAFE.fullmatch("/".join([with_letters, *values])) or max(map(len, paths)) >= _SHORT:
        for path in paths:
            _check_output(path, file, step)
    return [*map(folder.__add__, paths)]


def _check_output(path: str, file: File, step: Step) -> None:
    if _SAFE.fullmatch(path) and len(path) < _SHORT:
        return
    wrong = f"step {step.name}: writes: '{cut_text(path)}'"
    if posixpath.isabs(path) or path.startswith("~/") or ".." in path.split("/"):
        file.item.wrong(f"{wrong} is outside the run's folder; give a path below it, without ..")
    if not path or path.endswith("/") or path == "." or posixpath.normpath(path) != path:
        file.item.wrong(f"{wrong} is not the plain path of a file; a folder is no output, list its files or pack them")
    if path.partition("/")[0].casefold() == ".coppice":
        file.item.wrong(f"{wrong}: .coppice/ holds Coppice's own records; choose another folder")
    if GLOB.search(path) or not path.isprintable():
        file.item.wrong(f"{wrong} has a character that is a pattern or cannot be printed")
    if any(len(part.encode()) > 240 for part in path.split("/")) or len(path.encode()) > 1000:
        file.item.wrong(f"{wrong} is too long: at most 240 bytes a name and 1000 in all")


def output_paths(every: Iterable[TargetColumns]) -> dict[str, str]:
    """The outputs of all steps, for look-up: no two the same, none below another."""
    every = [*every]
    paths = [path for slots in every for _, files in slots.writes for column in files for path in column]
    found = dict(zip(paths, paths, strict=True))
    above = {path.rpartition("/")[0] for path in paths}
    while above:
        if len(found) < len(paths) or not above.isdisjoint(found):
            _refuse_clash(every)
        above = {folder.rpartition("/")[0] for folder in above} - {""}
    return found


def _refuse_clash(every: Sequence[TargetColumns]) -> NoReturn:
    writer: dict[str, tuple[Step, str]] = {}
    for slots in every:
        for name, *groups in zip(slots.names, *[column for _, column in slots.groups()], strict=True):
            for path in chain(*groups):
                if path in writer:
                    slots.step.keys.at("writes").wrong(
                        f"{path} is written by both {_writer_text(writer[path])} and {name};"
                        " give each its own, for instance with the names of its `for:` in the path"
                    )
                writer[path] = (slots.step, name)
    for folder, (step, name) in {posixpath.dirname(path): by for path, by in writer.items()}.items():
        above = folder
        while above:
            if above in writer:
                other = f"{above} is an output of {_writer_text(writer[above])}"
                step.keys.at("writes").wrong(f"{other} and also the folder of an output of {name}; rename one")
            above = posixpath.dirname(above)
    raise AssertionError("no two outputs are in each other's way")


def _writer_text(writer: tuple[Step, str]) -> str:
    return f"{writer[1]} (line {writer[0].keys.item.line})"


Row = tuple[str, ...]


class ReadFinder:
    """Finds the reads of steps, looking up once what more than one step reads."""

    def __init__(self, folder: str, by_step: Mapping[str, TargetColumns], written: Mapping[str, str]) -> None:
        self.folder, self.by_step, self.written = folder, by_step, written
        self.gathered: dict[tuple[str, str | None, Row], dict[Row, Group]] = {}

    def find(self, slots: TargetColumns) -> dict[str, Sequence[Group]]:
        """The paths that each target reads, by port."""
        return {port: self._port(sources, slots) for port, sources in slots.step.reads.items()}

    def _port(self, sources: Sequence[File | Gather], slots: TargetColumns) -> Sequence[Group]:
        if not sources:
            return [()] * len(slots.names)
        found = [
            self._gather(source, slots) if isinstance(source, Gather) else self._file(source, slots)
            for source in sources
        ]
        return [tuple(chain(*groups)) for groups in zip(*found, strict=True)] if len(found) > 1 else found[0]

    def _file(self, file: File, slots: TargetColumns) -> Sequence[Group]:
        """Outputs of this run, or files of the project."""
        folder, written = self.folder, self.written
        paths = fill(file.path, slots.step.matrix.columns, len(slots.names))
        if not file.path.names:
            paths = paths[:1]
        found = [(written.get(folder + path) or self._of_project(path, file),) for path in paths]
        return found if file.path.names else found * len(slots.names)

    def _of_project(self, path: str, file: File) -> str:
        path = posixpath.normpath(path) if path else file.item.wrong("reads: an empty path")
        if path in self.written:
            return path
        if f"{path}/".startswith(self.folder):
            file.item.wrong(f"reads: no step of this run writes {path}{did_you_mean(path, self.written)}")
        if path == "runs" or (path.startswith("runs/") and GLOB.search(path)):
            file.item.wrong(f"reads: {path} means outputs of runs; name the files, or a step: {{step: …}}")
        return path

    def _gather(self, gather: Gather, slots: TargetColumns) -> Sequence[Group]:
        """Outputs of another step, found by the values of the names both steps have."""
        if gather.step not in self.by_step:
            gather.item.wrong(f"reads: there is no step '{gather.step}'{did_you_mean(gather.step, self.by_step)}")
        others, matrix = self.by_step[gather.step], slots.step.matrix
        written = others.step.writes
        if gather.port is not None and gather.port not in written:
            gather.item.wrong(
                f"reads: step {gather.step} has no port '{gather.port}'{did_you_mean(gather.port, written)}"
            )
        common = tuple(name for name in others.step.matrix.columns if name in matrix.columns)
        key = (gather.step, gather.port, common)
        if key not in self.gathered:
            self.gathered[key] = _by_values(others, gather.port, common)
        index = self.gathered[key]
        rows = _rows(slots, common)
        for i, values in enumerate(rows):
            if not index.get(values):
                asked = row_text(dict(zip(common, values, strict=True)))
                name = slots.names[i]
                gather.item.wrong(f"reads: step {gather.step} has no target with {asked}, which {name} asks for")
        return [*map(index.__getitem__, rows)]


def _rows(slots: TargetColumns, names: Sequence[str]) -> Sequence[Row]:
    """The values of these names, one row for each target."""
    return [*zip(*[slots.step.matrix.columns[name] for name in names], strict=True)] or [()] * len(slots.names)


def _by_values(slots: TargetColumns, port: str | None, names: Row) -> dict[Row, Group]:
    """The outputs of a step, or of one of its ports, by the values of some names."""
    found: dict[Row, list[str]] = {}
    groups = [column for name, column in slots.groups() if port in (None, name)]
    for values, *written in zip(_rows(slots, names), *groups, strict=True):
        found.setdefault(values, []).extend(chain(*written))
    return {values: tuple(paths) for values, paths in found.items()}


def plan(spec: StepsSpec) -> Iterator[Target]:
    folder = f"runs/{spec.name}/"
    by_step = {step.name: target_columns(spec.name, step, folder) for step in spec.steps}
    if (count := sum(len(group.names) for group in by_step.values())) > spec.max_targets:
        too_many = f"the run has {count} targets, more than the {spec.max_targets} allowed"
        spec.steps[0].keys.item.wrong(f"{too_many}; if that is meant, raise `max_targets:`")
    reads = ReadFinder(folder, by_step, output_paths(by_step.values()))
    for group in by_step.values():
        yield from _targets(group, reads.find(group), folder)


def _targets(group: TargetColumns, reads: Mapping[str, Sequence[Group]], folder: str) -> Sequence[Target]:
    step, size = group.step, len(group.names)
    stage, code = ("call", [("code", repeat((step.call.rpartition(":")[0],), size))]) if step.call else ("run", [])
    rows = zip(
        group.names,
        repeat(stage, size),
        row_ports([*reads.items(), *code], size),
        row_ports(group.groups(), size),
        _params(step, reads, folder),
        repeat(step.limits, size),
        repeat(step.keys.at("reads").line, size),
        strict=True,
    )
    targets = [*map(tuple.__new__, repeat(Target), rows)]  # half of what Target(*row) takes
    if step.argv is not None:
        _check_words(step, step.argv, targets)
    return targets


def _params(step: Step, reads: Mapping[str, Sequence[Group]], folder: str) -> Sequence[Mapping[str, Any]]:
    columns = _action(step)
    if step.env.fixed:
        fixed = {name: fill(text, step.matrix.columns, step.matrix.size) for name, text in step.env.fixed.items()}
        columns["env"] = _records(fixed, step.matrix.size)
    if step.env.passed:
        columns["pass"] = repeat([*step.env.passed])
    if record := step.cage.record:
        from pipeline.core.recipe import LIMITS  # here: most plans need nothing of what it loads

        columns[LIMITS] = repeat({CAGE: record})
    if asked := step.cage.recipe(unnamed=PLAIN):
        columns[CAGE] = repeat(asked)
    words = step.argv if step.argv is not None else (step.shell,) if step.shell else ()
    names = {name for word in words for name in word.names}
    seen = () if step.by_content else {*reads} if step.call or "in" in names else {*reads} & names
    if seen:  # a command that sees a path may print it, so the path counts, but for the name of the run
        own = len(folder)
        neutral = {
            port: [["{run}/" + path[own:] if path.startswith(folder) else path for path in group] for group in column]
            for port, column in reads.items()
            if port in seen
        }
        columns["paths"] = _records(neutral, step.matrix.size)
    return _records(columns, step.matrix.size)


def _records(columns: Mapping[str, Iterable[Any]], size: int) -> list[dict[str, Any]]:
    """A dict for each row, from columns."""
    records: list[dict[str, Any]] = [{} for _ in range(size)]
    for key, column in columns.items():
        for record, value in zip(records, column, strict=False):  # `column` may be a repetition without end
            record[key] = value
    return records


def _action(step: Step) -> dict[str, Iterable[Any]]:
    if step.call:
        return {"call": repeat(step.call.rpartition(":")[2]), "with": _arguments(step.arguments, step.matrix)}
    columns, size = step.matrix.columns, step.matrix.size
    if step.shell:
        return {"shell": fill_shell_values(step.shell, columns, size)}
    return {"argv": map(list, zip(*[fill_values(word, columns, size) for word in step.argv or ()], strict=True))}


def _arguments(value: Any, matrix: Matrix) -> Iterable[Any]:
    """Fill the values of each row into `with:`.  A text that is just {name} keeps the value's type."""
    if not _has_names(value):
        return repeat(value)  # one for all
    if isinstance(value, dict):
        return _records({name: _arguments(inner, matrix) for name, inner in value.items()}, matrix.size)
    if isinstance(value, list):
        return islice(map(list, zip(*[_arguments(inner, matrix) for inner in value], strict=False)), matrix.size)
    name = value[1:-1]
    if name in matrix.columns and value == f"{{{name}}}":
        return [matrix.plain(name, i) for i in range(matrix.size)]
    return fill(parse_template(value), matrix.columns, matrix.size)


def _has_names(value: Any) -> bool:
    if isinstance(value, str):
        return bool(parse_template(value).names)
    return any(map(_has_names, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()))


def _check_words(step: Step, words: Sequence[Template], targets: Iterable[Target]) -> None:
    """Check that a port inside a longer word stands for one file."""
    inside = {name for word in words for name in word.names if word.parts != (("", name),)}
    for target in targets if inside - {*step.matrix.columns} else ():
        # a pattern counts as several
        reads = {port: 2 if any(map(GLOB.search, group)) else len(group) for port, group in target.reads}
        writes = {port: len(group) for port, group in target.writes}
        counts = {"in": sum(reads.values()), "out": sum(writes.values()), **reads, **writes}
        for name in (name for word in words for name in word.names if name in inside):
            if counts.get(name, 1) != 1:
                step.keys.wrong("run", f"run: {{{name}}} may stand for several files; give it a word of its own")
