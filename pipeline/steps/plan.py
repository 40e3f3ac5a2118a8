"""A steps spec as targets: a pure function of the spec."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.core.graph import Ports, Target, paths
from pipeline.errors import clipped, instead
from pipeline.steps.model import File, Gather, Row, Step, StepsSpec
from pipeline.steps.templates import Template, filled, half_filled, mentioned

_SAFE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_+-][A-Za-z0-9_.+-]*)*")
_PATTERN = re.compile(r"[*?\[]")


class _Slot(NamedTuple):
    """A target to be: its name, its row of values, what it writes."""

    step: Step
    number: int
    name: str
    row: Row
    writes: Ports


def plan(spec: StepsSpec) -> Iterator[Target]:
    folder = f"runs/{spec.name}/"
    slots = {step.name: [*_slots(spec, step, folder)] for step in spec.steps}
    if (count := sum(map(len, slots.values()))) > spec.max_targets:
        too_many = f"the run has {count} targets, more than the {spec.max_targets} allowed"
        spec.steps[0].item.wrong(f"{too_many}; if that is meant, raise `max_targets:`")
    written = _written(slots)
    gathered: dict[tuple[str, str | None, tuple[str, ...]], dict[tuple[str, ...], list[str]]] = {}
    for step in spec.steps:
        build = _Builder(step, folder, slots, written, gathered)
        yield from map(build.target, slots[step.name])


def _slots(spec: StepsSpec, step: Step, folder: str) -> Iterator[_Slot]:
    seen: dict[str, Row] = {}
    for number, row in enumerate(step.matrix.rows):
        name = ".".join([f"{spec.name}:{step.name}", *(_word(row[n]) for n in step.matrix.names)])
        if len(name.encode()) > 200:
            step.item.wrong(f"{clipped(name)} is too long for the name of a target: at most 200 bytes")
        if name in seen:
            both = f"{_shown(seen[name])} and {_shown(row)}"
            step.item.wrong(f"step {step.name}: the values {both} both make target {name}")
        seen[name] = row
        writes = tuple(
            (port, tuple(folder + _output(file, row, step) for file in files)) for port, files in step.writes.items()
        )
        yield _Slot(step, number, name, row, writes)


def _written(slots: dict[str, list[_Slot]]) -> dict[str, str]:
    """Every output and who writes it: no two the same, none below another."""
    written: dict[str, _Slot] = {}
    for slot in (slot for group in slots.values() for slot in group):
        for path in paths(slot.writes):
            if path in written:
                other = written[path]
                slot.step.at("writes").wrong(
                    f"{path} is written by both {other.name} (line {other.step.item.line}) and {slot.name};"
                    " give each its own, for instance with the names of its `for:` in the path"
                )
            written[path] = slot
    for path, slot in {posixpath.dirname(path): slot for path, slot in written.items()}.items():
        folder = path
        while folder:
            if folder in written:
                above = f"{folder} is an output of {written[folder].name} (line {written[folder].step.item.line})"
                slot.step.at("writes").wrong(f"{above} and also the folder of an output of {slot.name}; rename one")
            folder = posixpath.dirname(folder)
    return {path: slot.name for path, slot in written.items()}


class _Builder:
    """Targets of one step, with what is the same for all of them worked out once."""

    def __init__(
        self,
        step: Step,
        folder: str,
        slots: dict[str, list[_Slot]],
        written: dict[str, str],
        gathered: dict[tuple[str, str | None, tuple[str, ...]], dict[tuple[str, ...], list[str]]],
    ) -> None:
        self.step, self.folder, self.slots, self.written, self.gathered = step, folder, slots, written, gathered
        words = step.argv if step.argv is not None else (step.shell,) if step.shell else ()
        self.words: tuple[Template, ...] = words
        self.seen = {*step.reads} if step.call or "in" in mentioned_in(words) else mentioned_in(words) & {*step.reads}
        self.env = dict(step.env.fixed)

    def target(self, slot: _Slot) -> Target:
        step = self.step
        reads = tuple((port, self._files(group, slot)) for port, group in step.reads.items())
        params = {**self._action(slot), **self._env(slot.row)}
        if not step.by_content and (shown := {p: [*map(self._neutral, g)] for p, g in reads if p in self.seen}):
            params["paths"] = shown
        if step.call:
            reads += (("code", (step.call.rpartition(":")[0],)),)
        stage, line = "call" if step.call else "run", step.at("reads").line
        target = Target(slot.name, stage, reads, slot.writes, params, step.limits, line)
        self._check_words(target)
        return target

    def _action(self, slot: _Slot) -> dict[str, Any]:
        step = self.step
        if step.call:
            return {"call": step.call.rpartition(":")[2], "with": _arguments(step.arguments, slot)}
        if step.shell:
            return {"shell": half_filled(step.shell, slot.row, shlex.quote)}
        return {"argv": [half_filled(word, slot.row) for word in self.words]}

    def _env(self, row: Row) -> dict[str, Any]:
        fixed = {name: filled(text, row) for name, text in self.env.items()}
        passed = {"pass": [*self.step.env.passed]} if self.step.env.passed else {}
        return ({"env": fixed} if fixed else {}) | passed

    def _neutral(self, path: str) -> str:
        """A command that sees a path may print it, so the path counts; but not the name of the run in it."""
        return "{run}/" + path[len(self.folder) :] if path.startswith(self.folder) else path

    def _files(self, sources: tuple[File | Gather, ...], slot: _Slot) -> tuple[str, ...]:
        out: list[str] = []
        for source in sources:
            if isinstance(source, Gather):
                out += self._gather(source, slot)
            else:
                out.append(self._file(source, slot.row))
        return tuple(out)

    def _file(self, file: File, row: Row) -> str:
        path = filled(file.path, row)
        own = self.folder + path
        if own in self.written:
            return own
        path = posixpath.normpath(path) if path else file.item.wrong("reads: an empty path")
        if f"{path}/".startswith(self.folder) and path not in self.written:
            file.item.wrong(f"reads: no step of this run writes {path}{instead(path, self.written)}")
        if path == "runs" or (path.startswith("runs/") and _PATTERN.search(path)):
            file.item.wrong(f"reads: {path} means outputs of runs; name the files, or a step: {{step: …}}")
        return path

    def _gather(self, gather: Gather, slot: _Slot) -> list[str]:
        """Outputs of another step, found by the values of the names both steps have."""
        if gather.step not in self.slots:
            gather.item.wrong(f"reads: there is no step '{gather.step}'{instead(gather.step, self.slots)}")
        others: list[_Slot] = self.slots[gather.step]
        ports = others[0].step.writes
        if gather.port is not None and gather.port not in ports:
            gather.item.wrong(f"reads: step {gather.step} has no port '{gather.port}'{instead(gather.port, ports)}")
        common = tuple(n for n in others[0].step.matrix.names if n in slot.row)
        index = self.gathered.get((gather.step, gather.port, common))
        if index is None:
            index = self.gathered[gather.step, gather.port, common] = {}
            for other in others:
                files = (path for port, group in other.writes if gather.port in (None, port) for path in group)
                index.setdefault(tuple(other.row[n] for n in common), []).extend(files)
        found = index.get(tuple(slot.row[n] for n in common))
        if not found:
            values = _shown({n: slot.row[n] for n in common})
            gather.item.wrong(f"reads: step {gather.step} has no target with {values}, which {slot.name} asks for")
        return found

    def _check_words(self, target: Target) -> None:
        """A port inside a longer word stands for one file."""
        if self.step.argv is None:
            return
        counts = {port: len(group) for port, group in target.reads + target.writes}
        for port, group in target.reads:
            if any(map(_PATTERN.search, group)):
                counts[port] = 2  # as far as can be known here: several
        counts.setdefault("in", sum(counts[port] for port, _ in target.reads))
        counts.setdefault("out", sum(len(g) for _, g in target.writes))
        for word in self.words:
            for name in word.names:
                if counts.get(name, 1) != 1 and word.parts != (("", name),):
                    self.step.at("run").wrong(
                        f"step {self.step.name}: run: {{{name}}} may stand for several files; give it a word of its own"
                    )


def mentioned_in(words: tuple[Template, ...]) -> set[str]:
    return {name for word in words for name in word.names}


def _arguments(value: Any, slot: _Slot) -> Any:
    """`with:` with the row's values put in; a text that is just {name} keeps the value's type."""
    if isinstance(value, dict):
        return {name: _arguments(inner, slot) for name, inner in value.items()}
    if isinstance(value, list):
        return [_arguments(inner, slot) for inner in value]
    if not isinstance(value, str) or not mentioned([value]):
        return value
    if value[1:-1] in slot.row and value == f"{{{value[1:-1]}}}":
        return slot.step.matrix.typed[slot.number][value[1:-1]].plain()
    return value.format_map(slot.row)


def _output(file: File, row: Row, step: Step) -> str:
    path = filled(file.path, row)
    if _SAFE.fullmatch(path) and len(path) < 200:
        return path
    wrong = f"step {step.name}: writes: '{clipped(path)}'"
    if posixpath.isabs(path) or ".." in path.split("/"):
        file.item.wrong(f"{wrong} is outside the run's folder; give a path below it, without ..")
    if not path or path.endswith("/") or path == "." or posixpath.normpath(path) != path:
        file.item.wrong(f"{wrong} is not the plain path of a file; a folder is no output, list its files or pack them")
    if path.split("/")[0].casefold() == ".coppice":
        file.item.wrong(f"{wrong}: .coppice/ holds Coppice's own records; choose another folder")
    if _PATTERN.search(path) or not path.isprintable():
        file.item.wrong(f"{wrong} has a character that is a pattern or cannot be printed")
    if any(len(part.encode()) > 240 for part in path.split("/")) or len(path.encode()) > 1000:
        file.item.wrong(f"{wrong} is too long: at most 240 bytes a name and 1000 in all")
    return path


def _word(value: str) -> str:
    """A value as part of a target's name."""
    return value if value.isalnum() and value.isascii() else re.sub(r"[^A-Za-z0-9_.+-]+", "-", value) or "-"


def _shown(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())
