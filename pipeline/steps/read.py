"""Reader of `kind: steps`: YAML -> StepsSpec, with the values of `for:` and all names in braces checked.

`for:` is every combination of the values of some names, or a list of rows; it is kept by columns.  Every name in braces
means one thing, and a command names what it must write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, NoReturn

from pipeline import spec_fields as fields
from pipeline.core.cages import FULL, ISOLATED, PLAIN, TRUSTED, CageKeys
from pipeline.core.graph import Limits, pattern_error
from pipeline.core.templates import Template, TemplateError, parse_shell_template, parse_template
from pipeline.errors import did_you_mean
from pipeline.spec import Item
from pipeline.spec_engines import ENGINE_FIELDS, read_engine
from pipeline.spec_fields import Field, FieldTable, Reader, Values, checked_name, read_template
from pipeline.steps.spec.model import NO_MATRIX, Env, File, Gather, Matrix, Step, StepsSpec


def _crossed(item: Item, what: str, most: int) -> Matrix:
    """Every combination of the values of some names; the last one changes fastest."""
    values = {checked_name(n, v, what): _values(v, f"{what}: {n}", most) for n, v in item.pairs(what)}
    if (size := prod(map(len, values.values()))) > most:
        _too_many(item, f"{what} makes {size} targets", most)
    crossed = dict(zip(values, zip(*product(*values.values()), strict=True), strict=True))
    columns = {name: [text for text, _ in column] for name, column in crossed.items()}

    def plain(name: str, i: int) -> Any:
        _, value = crossed[name][i]
        return value if isinstance(value, int) else value.plain()

    return Matrix(columns, size, _labels(columns), plain)


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


def _values(item: Item, what: str, most: int) -> list[tuple[str, Item | int]]:
    """A list of values, or {range: N}, {range: [from, to]}, {range: [from, to, step]}."""
    if item.is_map:
        return [(str(i), i) for i in _range(item.fields(what, ("range",), ("range",))["range"], what, most)]
    return [(v.text(what), v) for v in item.items(what)] or item.wrong(f"{what}: the list is empty")


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


def check_names(step: Step) -> None:
    """Every name in braces means one thing; and a command names what it must write."""
    _check_ports(step)
    words = [*(step.argv or ()), *([step.shell] if step.shell else [])]
    _check_words(step, words)
    for file in (f for group in (*step.reads.values(), *step.writes.values()) for f in group if isinstance(f, File)):
        for name in file.path.names:
            if name not in step.matrix.columns:
                near = did_you_mean(name, step.matrix.columns)
                file.item.wrong(f"step {step.name}: '{{{name}}}' is not a name of its `for:`{near}")
    for variable, text in step.env.fixed.items():
        for name in text.names:
            if name not in step.matrix.columns:
                step.keys.wrong("env", f"env {variable}: '{{{name}}}' is not a name of its `for:`")
    _check_arguments(step, step.arguments)


def _check_ports(step: Step) -> None:
    for name in step.matrix.columns:
        if name in {*step.reads, *step.writes, *FILES}:
            step.keys.wrong("for", f"for: '{name}' is also the name of a port; rename one")
    if "out" in step.reads:
        step.keys.wrong("reads", "reads: 'out' stands for what the step writes; give the port another name")
    if "in" in step.writes:
        step.keys.wrong("writes", "writes: 'in' stands for what the step reads; give the port another name")
    if double := {*step.reads} & {*step.writes}:
        step.keys.wrong("reads", f"port '{min(double)}' is both read and written; rename one")


def _check_words(step: Step, words: list[Template]) -> None:
    known = {*step.matrix.columns, *step.reads, *step.writes, *FILES}
    used = {name for word in words for name in word.names}
    for name in sorted(used - known):
        step.keys.wrong("run", f"run: '{{{name}}}' is not known here{did_you_mean(name, known)}")
    if step.argv is not None and not step.argv:
        step.keys.wrong("run", "run: the list is empty; give the command and its arguments")
    if step.shell is not None and not step.shell.parts:
        step.keys.wrong("run", "run: an empty line; give the command and its arguments")
    if "in" in used and not step.reads:
        step.keys.wrong("run", "run: {in} stands for nothing; the step has no `reads:`")
    if words and "out" not in used and (unnamed := [port for port in step.writes if port not in used]):
        step.keys.wrong(
            "run", f"run: the command never names its output; write to the path that {{{unnamed[0]}}} stands for"
        )


def _check_arguments(step: Step, value: Any) -> None:
    if isinstance(value, str):
        try:
            unknown = sorted({*parse_template(value).names} - {*step.matrix.columns})
        except TemplateError as error:
            step.keys.wrong("with", f"with: {error}")
        if unknown:
            step.keys.wrong("with", f"with: '{{{unknown[0]}}}' is not a name of its `for:`")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_arguments(step, inner)


MAX_TARGETS = 5000


def read(item: Item, name: str) -> StepsSpec:
    top = SPEC.read(item, "spec", "")
    most, rooms, env = top["max_targets"], top["rooms"] or {}, top["env"]
    seen: dict[int, Matrix] = {}
    run = _RunKeys(env, rooms, fields.read_cage(top, grade=PLAIN), most)
    steps = tuple(_step(n, v, run, seen) for n, v in top["steps"])
    if not steps:
        top.wrong("steps", "steps: there is none; name one, with `run:` and `writes:`")
    for step in steps:
        for own in filter(lambda room: room.startswith("step "), step.limits.rooms):
            rooms[own] = int(own.rpartition(" ")[2])
    return StepsSpec(name, steps, rooms, top["store"], most, engine=read_engine(top))


class _RunKeys(NamedTuple):
    """Keys of the spec that hold for all of its steps."""

    env: Env
    rooms: dict[str, int]
    cage: CageKeys
    most: int


def _step(name: str, item: Item, run: _RunKeys, seen: dict[int, Matrix]) -> Step:
    checked_name(name, item, "steps")
    what = f"step {name}"
    keys = STEP.read(item, what)
    if ("run" in keys) == ("call" in keys):
        item.wrong(f"{what}: give it `run:` (a command) or `call:` (a Python function), one of the two")
    if "with" in keys and "call" not in keys:
        keys.wrong("with", "`with:` goes with `call:`; a command gets its values in {braces}")
    matrix = NO_MATRIX
    if "for" in keys:  # steps that share their rows by an alias have them read once
        columns, place = keys["for"], id(keys["for"].node)
        read_columns = _rows if columns.is_list else _crossed
        matrix = seen[place] = seen.get(place) or read_columns(columns, f"{what}: for", run.most)
    argv, shell = keys["run"]
    room = (_room(keys["room"], what, run.rooms),) if "room" in keys else ()
    step = Step(
        name=name,
        keys=keys,
        matrix=matrix,
        argv=argv,
        shell=shell,
        call=keys["call"],
        arguments=keys["with"],
        reads=keys["reads"],
        writes=keys["writes"],
        env=_env_within(keys["env"], run.env) if "env" in keys else run.env,
        limits=Limits(keys["timeout"], keys["retries"], room, exclusive=keys["exclusive"]),
        by_content=keys["by_content"],
        cage=_cage(keys, run.cage),
    )
    check_names(step)
    return step


def _env_within(own: Env, outer: Env) -> Env:
    """The environment of a step, with what the spec says for all where the step says nothing."""
    fixed = {n: v for n, v in {**outer.fixed, **own.fixed}.items() if n not in own.passed}
    return Env(fixed, tuple(sorted({*outer.passed, *own.passed} - {*fixed})))


def _cage(keys: Values, outer: CageKeys) -> CageKeys:
    """The cage of a command.  Calls of functions have none: they share a process of ours."""
    if "call" in keys:
        _check_call(keys, outer)
        return CageKeys()
    cage = fields.read_cage(keys, outer, PLAIN)
    return cage._replace(sandbox=ISOLATED) if cage.sandbox == TRUSTED else cage  # nothing judges a step


def _check_call(keys: Values, outer: CageKeys) -> None:
    """Refuse a call that is to be held by something, by a word of its own or of the whole spec."""
    why = "a function runs in a process of Coppice, which nothing can hold; use `run:`"
    for key in fields.CAGE_FIELDS:
        if keys[key] not in (None, PLAIN, FULL):
            keys.wrong(key, f"{key}: {why}, or drop `{key}:`")
    inherited = {"sandbox": outer.sandbox not in ("", PLAIN), "limits": bool(outer.limits)}
    if held := [key for key, is_there in inherited.items() if is_there]:
        freed = {"sandbox": PLAIN, **({"network": FULL} if outer.network not in ("", FULL) else {})}
        if lacking := " and ".join(f"`{key}: {word}`" for key, word in freed.items() if keys[key] != word):
            keys.wrong("call", f"call: `{held[0]}:` of the spec is for it too, and {why}, or add {lacking}")


def _reads(item: Item, what: str) -> dict[str, tuple[File | Gather, ...]]:
    """A path, a list, or a map of ports; `{step: s}` stands for all outputs of another step."""
    if item.is_map and not item.is_bare_name and all(name != "step" for name, _ in item.pairs("reads")):
        return {checked_name(n, v, what): _sources(v, f"{what}: {n}") for n, v in item.pairs(what)}
    return {"in": _sources(item, what)}


def _sources(item: Item, what: str) -> tuple[File | Gather, ...]:
    if item.is_list:
        return tuple(source for entry in item.items(what) for source in _sources(entry, what))
    if not item.is_map or item.is_bare_name:
        path = read_template(item, what)
        if error := pattern_error(item.text(what)):
            item.wrong(f"{what}: '{item.text(what)}' is not a pattern: {error}")
        return (File(item, path),)
    keys = GATHER.read(item, what)
    return (Gather(item, keys["step"], keys["port"]),)


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
    fixed, passed = fields.environment(item, what)
    return Env({name: read_template(value, f"{what}: {name}") for name, value in fixed.items()}, passed)


def _room(item: Item, what: str, rooms: dict[str, int]) -> str:
    """A number is a room of the step's own; a word is one of the spec's rooms."""
    if isinstance(item.plain(), int):
        return f"{what} {item.count(f'{what}: room', 1)}"
    name = item.text(f"{what}: room")
    if name not in rooms:
        item.wrong(f"{what}: room '{name}' is not one of the spec's `rooms:`{did_you_mean(name, rooms)}")
    return name


def _call(item: Item, what: str) -> str:
    text = item.text(what)
    if not re.fullmatch(r"[^:\0]+\.py:[A-Za-z_][A-Za-z0-9_]*", text):
        item.wrong(f"{what}: '{text}' is not FILE.py:FUNCTION")
    return text


def _run(item: Item, what: str) -> tuple[tuple[Template, ...] | None, Template | None]:
    """Words, or a line of shell."""
    if item.is_list:
        return tuple(read_template(word, what) for word in item.items(what)), None
    return None, read_template(item, what, parse_shell_template)


def _with(item: Item, what: str) -> Any:
    return (
        item.plain() if item.is_map else item.wrong(f"{what}: expected a mapping (name: value), found {item.summary()}")
    )


def _rooms(item: Item, what: str) -> dict[str, int]:
    return {checked_name(name, each, what): each.count(f"room {name}", 1) for name, each in item.pairs(what)}


GATHER = FieldTable(
    Field("step", fields.TEXT, "all outputs of another step, of those targets that agree in the `for` names both have",
          needed=True),
    Field("port", fields.TEXT, "only that port"),
)  # fmt: skip
SOURCES = fields.any_of(
    fields.SOME_TEXT, GATHER.schema, fields.list_of(fields.any_of(fields.SOME_TEXT, GATHER.schema, {"type": "array"}))
)
READS = fields.any_of(SOURCES, {**fields.names_of(SOURCES, "out"), "not": {"required": ["step"]}})
WRITES = fields.any_of(
    fields.SOME_TEXT, fields.list_of(fields.SOME_TEXT, minItems=1), fields.names_of(fields.TEXTS, "in", least=1)
)
_RANGE = {"range": fields.any_of({"type": "integer"}, fields.list_of({"type": "integer"}, minItems=1, maxItems=3))}
_VALUES = fields.any_of(
    fields.list_of(fields.TEXT.schema, minItems=1),
    {"type": "object", "properties": _RANGE, "required": ["range"], "additionalProperties": False},
)
_ROW = fields.names_of(fields.TEXT.schema, *FILES, least=1)
MATRIX = fields.any_of(fields.names_of(_VALUES, *FILES), fields.list_of(_ROW, minItems=1))
_CALL_IS_PLAIN = {"sandbox": {"const": PLAIN}, "network": {"const": FULL}, "limits": False, "visible": False}
STEP = FieldTable(
    Field("run", Reader(_run, fields.COMMAND_SCHEMA), default=(None, None), without="this", help=
          "a command: a list of words, or one line for `/bin/sh`"),
    Field("call", Reader(_call, {"type": "string", "pattern": r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$"}),
          "a Python function: `FILE.py:FUNCTION`", without="or this"),
    Field("with", Reader(_with, {"type": "object"}), "mapping: further arguments of `call`", {}, needs=("call",)),
    Field("for", fields.as_item(MATRIX), "the values to make targets for"),
    Field("reads", Reader(_reads, READS), "what it is made from", {}),
    Field("writes", Reader(_writes, WRITES), "what it makes", needed=True),
    Field("env", Reader(_env, fields.ENV_SCHEMA), "environment variables, set or passed through"),
    Field("timeout", fields.SECONDS, without="none", help=
          "`90`, `90s`, `10m`, `2h`, `1d`: then the command and its children are ended, and it has failed"),
    Field("retries", fields.count(0, 1000), "how often a failure is tried again at once", 0),
    Field("room", fields.as_item(fields.any_of(fields.count(1).schema, {"type": "string"})),
          "at most so many of this step at once: a number, or the name of a room of `rooms`"),
    Field("exclusive", fields.BOOLEAN, default=False, help=
          "`true`: it times things, so it runs alone: beside nothing else of its build, nor beside what is exclusive "
          "in other builds of the same user on this machine"),
    Field("by_content", fields.BOOLEAN, "`true`: names of the inputs do not count, only their contents", False),
    *fields.cage_fields("that of the spec", "that of the spec"),
    rules={"oneOf": [{"required": ["run"]}, {"required": ["call"], "properties": _CALL_IS_PLAIN}]},
)  # fmt: skip
SPEC = FieldTable(
    fields.kind_field("steps"),
    Field("steps", Reader(lambda item, what: item.pairs(what), fields.names_of(STEP.schema, least=1)),
          "name: step. A name has letters, digits, `_` and `-`, a letter first", needed=True),
    Field("env", Reader(_env, fields.ENV_SCHEMA), "defaults for `env` of every step", Env({})),
    Field("rooms", Reader(_rooms, fields.names_of(fields.count(1).schema)),
          "name: how many targets at once, for steps that say `room: NAME`"),
    *fields.cage_fields("`plain`", "`local` in a cage; under landlock `none`"),
    fields.STORE,
    *ENGINE_FIELDS,
    Field("max_targets", fields.count(1), default=MAX_TARGETS, help=
          "a matrix that makes more is an error, since it is mostly an accident"),
)  # fmt: skip
