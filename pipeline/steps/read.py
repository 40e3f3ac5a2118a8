"""YAML -> StepsSpec: the keys of `kind: steps` and what each may hold."""

from __future__ import annotations

import re

from pipeline.core.globs import pattern_error
from pipeline.core.graph import Limits
from pipeline.core.templates import shell_template
from pipeline.declared import checked_name, checked_variable, flag, with_braces
from pipeline.errors import instead
from pipeline.spec import Item
from pipeline.steps.matrix import matrix
from pipeline.steps.model import NO_MATRIX, Env, File, Gather, Matrix, Step, StepsSpec
from pipeline.steps.names import check_names

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
        keys["with"].wrong(f"{what}: with: expected a mapping (name: value), found {keys['with'].found()}")
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
        argv=tuple(with_braces(w, f"{what}: run") for w in run.items(f"{what}: run")) if run and run.is_list else None,
        shell=with_braces(run, f"{what}: run", shell_template) if run and not run.is_list else None,
        call=_call(keys["call"], what) if "call" in keys else None,
        arguments=keys["with"].plain() if "with" in keys else {},
        reads=_ports(keys["reads"], f"{what}: reads", "in") if "reads" in keys else {},
        writes=_writes(keys["writes"], f"{what}: writes"),
        env=_merged(env, _env(keys["env"], f"{what}: env")) if "env" in keys else env,
        limits=_limits(keys, what, rooms),
        by_content=flag(keys["by_content"], f"{what}: by_content") if "by_content" in keys else False,
    )
    check_names(step, what)
    return step


def _shared_matrix(item: Item, what: str, most: int, seen: dict[int, Matrix]) -> Matrix:
    """Steps that share their rows by an alias have them read once."""
    if id(item.node) not in seen:
        seen[id(item.node)] = matrix(item, what, most)
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
        path = with_braces(item, what)
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
        out[checked_name(name, value, what)] = tuple(File(f, with_braces(f, what)) for f in files)
    if not any(out.values()):
        item.wrong(f"{what}: nothing; a step without an output can never be up to date")
    return out


def _env(item: Item, what: str) -> Env:
    if item.is_list:
        return Env({}, tuple(checked_variable(v.text(what), v, what) for v in item.items(what)))
    pairs = [(checked_variable(n, v, what), v) for n, v in item.pairs(what)]
    return Env(
        {n: with_braces(v, f"{what}: {n}") for n, v in pairs if not v.is_null}, tuple(n for n, v in pairs if v.is_null)
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
        item.wrong(f"{what}: room '{name}' is not one of the spec's `rooms:`{instead(name, rooms)}")
    return name


def _call(item: Item, what: str) -> str:
    text = item.text(f"{what}: call")
    if not re.fullmatch(r"[^:\0]+\.py:[A-Za-z_][A-Za-z0-9_]*", text):
        item.wrong(f"{what}: call: '{text}' is not FILE.py:FUNCTION")
    return text
