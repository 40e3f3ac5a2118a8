"""Reader of `kind: steps`: YAML -> StepsSpec, with the values of `for:` and all names in braces checked.

`for:` is every combination of the values of some names, or a list of rows; it is kept by columns.  Every name in braces
means one thing, and a command names what it must write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, NoReturn, Protocol

from pipeline.core.graph import Limits, pattern_error
from pipeline.core.templates import Template, TemplateError, parse_shell_template, template_names
from pipeline.errors import did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import boolean, checked_name, checked_variable, read_template
from pipeline.steps.spec.model import NO_MATRIX, Env, File, Gather, Matrix, Step, StepsSpec


class _Value(Protocol):
    def plain(self) -> Any: ...


class _Number(NamedTuple):
    """A value of a range."""

    value: int

    def plain(self) -> int:
        return self.value


def read_matrix(item: Item, what: str, most: int) -> Matrix:
    what = f"{what}: for"
    return _rows(item, what, most) if item.is_list else _crossed(item, what, most)


def _crossed(item: Item, what: str, most: int) -> Matrix:
    """Every combination of the values of some names; the last one changes fastest."""
    values = {checked_name(n, v, what): _values(v, f"{what}: {n}", most) for n, v in item.pairs(what)}
    if (size := prod(map(len, values.values()))) > most:
        _too_many(item, f"{what} makes {size} targets", most)
    crossed = dict(zip(values, zip(*product(*values.values()), strict=True), strict=True))
    columns = {name: [text for text, _ in column] for name, column in crossed.items()}
    return Matrix(columns, size, _labels(columns), lambda name, i: crossed[name][i][1].plain())


def _rows(item: Item, what: str, most: int) -> Matrix:
    """A list of rows, all with the same names."""
    columns = _alike(item, what) or _looked_at_closely(item, what)
    if not columns:
        item.wrong(f"{what}: the list is empty; give it rows such as - {{a: 1, b: x}}")
    if (size := len(item.node.value)) > most:
        _too_many(item, f"{what} makes {size} targets", most)
    return Matrix(columns, size, _labels(columns), lambda name, i: dict(item.entry(i).pairs(what))[name].plain())


def _alike(item: Item, what: str) -> dict[str, list[str]] | None:
    """The columns of rows that are all written alike, as most are."""
    if not item.node.value or not item.entry(0).is_map:
        return None
    names = [checked_name(name, item.entry(0), what) for name, _ in item.entry(0).pairs(what)]
    columns = item.columns(names)
    return dict(zip(names, columns, strict=True)) if columns else None


def _looked_at_closely(item: Item, what: str) -> dict[str, list[str]]:
    rows: list[dict[str, str]] = []
    names: list[str] = []
    for entry in item.items(what):
        row = dict(entry.pairs(what))
        if not rows:
            names = [checked_name(name, entry, what) for name in row]
        elif row.keys() != {*names}:
            entry.wrong(f"{what}: this row has {', '.join(row)}; the first one has {', '.join(names)}")
        rows.append({name: value.text(f"{what}: {name}") for name, value in row.items()})
    return {name: [row[name] for row in rows] for name in names}


def _values(item: Item, what: str, most: int) -> list[tuple[str, _Value]]:
    """A list of values, or {range: N}, {range: [from, to]}, {range: [from, to, step]}."""
    if item.is_map:
        return [(str(i), _Number(i)) for i in _range(item.fields(what, ("range",), ("range",))["range"], what, most)]
    values: list[tuple[str, _Value]] = [(v.text(what), v) for v in item.items(what)]
    if not values:
        item.wrong(f"{what}: the list is empty")
    return values


def _range(item: Item, what: str, most: int) -> range:
    numbers = [v.plain() for v in item.items(what)] if item.is_list else [item.plain()]
    if not 1 <= len(numbers) <= 3 or not all(type(n) is int for n in numbers) or (len(numbers) == 3 and not numbers[2]):
        item.wrong(f"{what}: range takes N, [from, to] or [from, to, step], whole numbers; `to` is left out")
    values = range(*numbers)
    if not values:
        item.wrong(f"{what}: this range has no values")
    if (count := (values[-1] - values[0]) // values.step + 1) > most:
        _too_many(item, f"{what}: this range makes {count} targets", most)
    return values


def _labels(columns: Mapping[str, Sequence[str]]) -> Sequence[str]:
    words = [[*map({value: _word(value) for value in {*column}}.__getitem__, column)] for column in columns.values()]
    return [*map(".".join, zip(*words, strict=True))]


def _word(value: str) -> str:
    return value if value.isalnum() else re.sub(r"[^\w.+-]+", "-", value) or "-"


def _too_many(item: Item, what: str, most: int) -> NoReturn:
    item.wrong(f"{what}, more than the {most} allowed; if that is meant, raise `max_targets:`")


FILES = ("in", "out")


def check_names(step: Step, what: str) -> None:
    """Every name in braces means one thing; and a command names what it must write."""
    _check_ports(step, what)
    words = [*(step.argv or ()), *([step.shell] if step.shell else [])]
    _check_words(step, words, what)
    for file in (f for group in (*step.reads.values(), *step.writes.values()) for f in group if isinstance(f, File)):
        for name in file.path.names:
            if name not in step.matrix.columns:
                file.item.wrong(
                    f"{what}: '{{{name}}}' is not a name of its `for:`{did_you_mean(name, step.matrix.columns)}"
                )
    for variable, text in step.env.fixed.items():
        for name in text.names:
            if name not in step.matrix.columns:
                step.at("env").wrong(f"{what}: env {variable}: '{{{name}}}' is not a name of its `for:`")
    _check_arguments(step, step.arguments, what)


def _check_ports(step: Step, what: str) -> None:
    for name in step.matrix.columns:
        if name in {*step.reads, *step.writes, *FILES}:
            step.at("for").wrong(f"{what}: for: '{name}' is also the name of a port; rename one")
    if "out" in step.reads:
        step.at("reads").wrong(f"{what}: reads: 'out' stands for what the step writes; give the port another name")
    if "in" in step.writes:
        step.at("writes").wrong(f"{what}: writes: 'in' stands for what the step reads; give the port another name")
    if double := {*step.reads} & {*step.writes}:
        step.at("reads").wrong(f"{what}: port '{min(double)}' is both read and written; rename one")


def _check_words(step: Step, words: list[Template], what: str) -> None:
    known = {*step.matrix.columns, *step.reads, *step.writes, *FILES}
    used = {name for word in words for name in word.names}
    for name in sorted(used - known):
        step.at("run").wrong(f"{what}: run: '{{{name}}}' is not known here{did_you_mean(name, known)}")
    if step.argv is not None and not step.argv:
        step.at("run").wrong(f"{what}: run: the list is empty; give the command and its arguments")
    if step.shell is not None and not step.shell.parts:
        step.at("run").wrong(f"{what}: run: an empty line; give the command and its arguments")
    if "in" in used and not step.reads:
        step.at("run").wrong(f"{what}: run: {{in}} stands for nothing; the step has no `reads:`")
    if words and "out" not in used and (unnamed := [port for port in step.writes if port not in used]):
        step.at("run").wrong(
            f"{what}: run: the command never names its output; write to the path that {{{unnamed[0]}}} stands for"
        )


def _check_arguments(step: Step, value: Any, what: str) -> None:
    if isinstance(value, str):
        try:
            unknown = sorted(template_names([value]) - {*step.matrix.columns})
        except TemplateError as error:
            step.at("with").wrong(f"{what}: with: {error}")
        if unknown:
            step.at("with").wrong(f"{what}: with: '{{{unknown[0]}}}' is not a name of its `for:`")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_arguments(step, inner, what)


KEYS = ("kind", "store", "max_targets", "rooms", "env", "steps")
STEP_KEYS = (
    "run", "call", "with", "for", "reads", "writes", "env", "timeout", "retries", "room", "by_content",
)  # fmt: skip
MAX_TARGETS = 5000


def read(item: Item, name: str) -> StepsSpec:
    top = item.fields("spec", KEYS, ("kind", "steps"))
    most = top["max_targets"].count("max_targets", 1) if "max_targets" in top else MAX_TARGETS
    named = top["rooms"].pairs("rooms") if "rooms" in top else ()
    rooms = {checked_name(n, v, "rooms"): v.count(f"room {n}", 1) for n, v in named}
    env = _env(top["env"], "env") if "env" in top else Env({})
    seen: dict[int, Matrix] = {}
    steps = tuple(_step(n, v, env, rooms, most, seen) for n, v in top["steps"].pairs("steps"))
    if not steps:
        top["steps"].wrong("steps: there is none; name one, with `run:` and `writes:`")
    store = top["store"].text("store") if "store" in top else None
    if store == "":
        top["store"].wrong("store: expected the path of a folder, found ''")
    for step in steps:
        for own in filter(lambda room: room.startswith("step "), step.limits.rooms):
            rooms[own] = int(own.rpartition(" ")[2])
    return StepsSpec(name, steps, rooms, store, most)


def _step(name: str, item: Item, env: Env, rooms: dict[str, int], most: int, seen: dict[int, Matrix]) -> Step:
    checked_name(name, item, "steps")
    what = f"step {name}"
    keys = item.fields(what, STEP_KEYS, ("writes",))
    if "with" in keys and not keys["with"].is_map:
        keys["with"].wrong(f"{what}: with: expected a mapping (name: value), found {keys['with'].summary()}")
    if ("run" in keys) == ("call" in keys):
        item.wrong(f"{what}: give it `run:` (a command) or `call:` (a Python function), one of the two")
    if "with" in keys and "call" not in keys:
        keys["with"].wrong(f"{what}: `with:` goes with `call:`; a command gets its values in {{braces}}")
    run = keys.get("run")
    step = Step(
        name=name,
        item=item,
        keys=keys,
        matrix=_shared_matrix(keys["for"], what, most, seen) if "for" in keys else NO_MATRIX,
        argv=tuple(read_template(w, f"{what}: run") for w in run.items(f"{what}: run"))
        if run and run.is_list
        else None,
        shell=read_template(run, f"{what}: run", parse_shell_template) if run and not run.is_list else None,
        call=_call(keys["call"], what) if "call" in keys else None,
        arguments=keys["with"].plain() if "with" in keys else {},
        reads=_ports(keys["reads"], f"{what}: reads", "in") if "reads" in keys else {},
        writes=_writes(keys["writes"], f"{what}: writes"),
        env=_merged(env, _env(keys["env"], f"{what}: env")) if "env" in keys else env,
        limits=_limits(keys, what, rooms),
        by_content=boolean(keys["by_content"], f"{what}: by_content") if "by_content" in keys else False,
    )
    check_names(step, what)
    return step


def _shared_matrix(item: Item, what: str, most: int, seen: dict[int, Matrix]) -> Matrix:
    """Steps that share their rows by an alias have them read once."""
    if id(item.node) not in seen:
        seen[id(item.node)] = read_matrix(item, what, most)
    return seen[id(item.node)]


def _ports(item: Item, what: str, default: str) -> dict[str, tuple[File | Gather, ...]]:
    """A path, a list, or a map of ports; `{step: s}` stands for all outputs of another step."""
    if item.is_map and not item.is_bare_name and not _is_gather(item):
        return {checked_name(n, v, what): _sources(v, f"{what}: {n}") for n, v in item.pairs(what)}
    return {default: _sources(item, what)}


def _sources(item: Item, what: str) -> tuple[File | Gather, ...]:
    if item.is_list:
        return tuple(source for entry in item.items(what) for source in _sources(entry, what))
    if not item.is_map or item.is_bare_name:
        path = read_template(item, what)
        if error := pattern_error(item.text(what)):
            item.wrong(f"{what}: '{item.text(what)}' is not a pattern: {error}")
        return (File(item, path),)
    keys = item.fields(what, ("step", "port"), ("step",))
    port = keys["port"].text(f"{what}: port") if "port" in keys else None
    return (Gather(item, keys["step"].text(f"{what}: step"), port),)


def _is_gather(item: Item) -> bool:
    return any(name == "step" for name, _ in item.pairs("reads"))


def _writes(item: Item, what: str) -> dict[str, tuple[File, ...]]:
    groups = item.pairs(what) if item.is_map and not item.is_bare_name else [("out", item)]
    out: dict[str, tuple[File, ...]] = {}
    for name, value in groups:
        files = value.items(what) if value.is_list else [value]
        out[checked_name(name, value, what)] = tuple(File(f, read_template(f, what)) for f in files)
    if not any(out.values()):
        item.wrong(f"{what}: nothing; a step without an output can never be up to date")
    return out


def _env(item: Item, what: str) -> Env:
    if item.is_list:
        return Env({}, tuple(checked_variable(v.text(what), v, what) for v in item.items(what)))
    pairs = [(checked_variable(n, v, what), v) for n, v in item.pairs(what)]
    return Env(
        {n: read_template(v, f"{what}: {n}") for n, v in pairs if not v.is_null},
        tuple(n for n, v in pairs if v.is_null),
    )


def _merged(outer: Env, inner: Env) -> Env:
    fixed = {n: v for n, v in {**outer.fixed, **inner.fixed}.items() if n not in inner.passed}
    return Env(fixed, tuple(sorted({*outer.passed, *inner.passed} - {*fixed})))


def _limits(keys: dict[str, Item], what: str, rooms: dict[str, int]) -> Limits:
    timeout = keys["timeout"].seconds(f"{what}: timeout") if "timeout" in keys else None
    retries = keys["retries"].count(f"{what}: retries", 0, 1000) if "retries" in keys else 0
    return Limits(timeout, retries, (_room(keys["room"], what, rooms),) if "room" in keys else ())


def _room(item: Item, what: str, rooms: dict[str, int]) -> str:
    """A number is a room of the step's own; a word is one of the spec's rooms."""
    if isinstance(item.plain(), int):
        return f"{what} {item.count(f'{what}: room', 1)}"
    name = item.text(f"{what}: room")
    if name not in rooms:
        item.wrong(f"{what}: room '{name}' is not one of the spec's `rooms:`{did_you_mean(name, rooms)}")
    return name


def _call(item: Item, what: str) -> str:
    text = item.text(f"{what}: call")
    if not re.fullmatch(r"[^:\0]+\.py:[A-Za-z_][A-Za-z0-9_]*", text):
        item.wrong(f"{what}: call: '{text}' is not FILE.py:FUNCTION")
    return text
