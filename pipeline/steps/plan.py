"""A steps spec as targets: a pure function of the spec.

It works by columns, with an entry for each target of a step: a `zip` of columns costs a fifth of a loop over rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from pipeline.core.globs import PATTERN
from pipeline.core.graph import Target
from pipeline.core.templates import Template, filled, half_filled, half_filled_line, mentioned, template
from pipeline.steps.model import Matrix, Step, StepsSpec
from pipeline.steps.reads import Reads
from pipeline.steps.slots import Group, Slots, ports, slots, written


def plan(spec: StepsSpec) -> Iterator[Target]:
    folder = f"runs/{spec.name}/"
    by_step = {step.name: slots(spec.name, step, folder) for step in spec.steps}
    if (count := sum(len(group.names) for group in by_step.values())) > spec.max_targets:
        too_many = f"the run has {count} targets, more than the {spec.max_targets} allowed"
        spec.steps[0].item.wrong(f"{too_many}; if that is meant, raise `max_targets:`")
    reads = Reads(folder, by_step, written(by_step.values()))
    for group in by_step.values():
        yield from _targets(group, reads.of(group), folder)


def _targets(group: Slots, reads: Mapping[str, Sequence[Group]], folder: str) -> Sequence[Target]:
    step, size = group.step, len(group.names)
    stage, code = ("call", [("code", repeat((step.call.rpartition(":")[0],), size))]) if step.call else ("run", [])
    rows = zip(
        group.names,
        repeat(stage, size),
        ports([*reads.items(), *code], size),
        ports(group.groups(), size),
        _params(step, reads, folder),
        repeat(step.limits, size),
        repeat(step.at("reads").line, size),
        strict=True,
    )
    targets = [*map(tuple.__new__, repeat(Target), rows)]  # half of what Target(*row) takes
    if step.argv is not None:
        _check_words(step, step.argv, targets)
    return targets


def _params(step: Step, reads: Mapping[str, Sequence[Group]], folder: str) -> Sequence[Mapping[str, Any]]:
    columns = {**_action(step), **_env(step)}
    shown = () if step.by_content else {*reads} & _named(step)
    if shown:
        neutral = {port: _neutral(column, folder) for port, column in reads.items() if port in shown}
        columns["paths"] = _records(neutral, step.matrix.size)
    return _records(columns, step.matrix.size)


def _records(columns: Mapping[str, Iterable[Any]], size: int) -> list[dict[str, Any]]:
    """Columns as a dict for each row."""
    records: list[dict[str, Any]] = [{} for _ in range(size)]
    for key, column in columns.items():
        for record, value in zip(records, column, strict=False):  # `column` may be a repetition without end
            record[key] = value
    return records


def _action(step: Step) -> dict[str, Iterable[Any]]:
    if step.call:
        return {"call": repeat(step.call.rpartition(":")[2]), "with": _arguments(step.arguments, step.matrix)}
    if step.shell:
        return {"shell": half_filled_line(step.shell, step.matrix)}
    return {"argv": map(list, zip(*[half_filled(word, step.matrix) for word in step.argv or ()], strict=True))}


def _env(step: Step) -> dict[str, Iterable[Any]]:
    fixed = {name: filled(text, step.matrix) for name, text in step.env.fixed.items()}
    passed: dict[str, Iterable[Any]] = {"pass": repeat([*step.env.passed])} if step.env.passed else {}
    return ({"env": _records(fixed, step.matrix.size)} if fixed else {}) | passed


def _named(step: Step) -> set[str]:
    """Ports that a command sees the paths of."""
    words = step.argv if step.argv is not None else (step.shell,) if step.shell else ()
    names = {name for word in words for name in word.names}
    return {*step.reads} if step.call or "in" in names else names


def _neutral(column: Sequence[Group], folder: str) -> Iterable[list[str]]:
    """A command that sees a path may print it, so the path counts; but not the name of the run in it."""
    start = len(folder)
    return [["{run}/" + path[start:] if path.startswith(folder) else path for path in group] for group in column]


def _arguments(value: Any, matrix: Matrix) -> Iterable[Any]:
    """`with:` with the values of each row put in.  A text that is just {name} keeps the value's type."""
    if not _has_names(value):
        return repeat(value)  # one for all
    if isinstance(value, dict):
        return _records({name: _arguments(inner, matrix) for name, inner in value.items()}, matrix.size)
    if isinstance(value, list):
        return islice(map(list, zip(*[_arguments(inner, matrix) for inner in value], strict=False)), matrix.size)
    name = value[1:-1]
    if name in matrix.columns and value == f"{{{name}}}":
        return [matrix.plain(name, i) for i in range(matrix.size)]
    return filled(template(value), matrix)


def _has_names(value: Any) -> bool:
    if isinstance(value, str):
        return bool(mentioned([value]))
    return any(map(_has_names, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()))


def _check_words(step: Step, words: Sequence[Template], targets: Iterable[Target]) -> None:
    """A port inside a longer word stands for one file."""
    inside = {name for word in words for name in word.names if word.parts != (("", name),)}
    for target in targets if inside - {*step.matrix.columns} else ():
        counts = _counts(target)
        for name in (name for word in words for name in word.names if name in inside):
            if counts.get(name, 1) != 1:
                step.at("run").wrong(
                    f"step {step.name}: run: {{{name}}} may stand for several files; give it a word of its own"
                )


def _counts(target: Target) -> dict[str, int]:
    """How many files each name may stand for: a pattern for several, as far as can be known here."""
    reads = {port: 2 if any(map(PATTERN.search, group)) else len(group) for port, group in target.reads}
    writes = {port: len(group) for port, group in target.writes}
    return {"in": sum(reads.values()), "out": sum(writes.values()), **reads, **writes}
