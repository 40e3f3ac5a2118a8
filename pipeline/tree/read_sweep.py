"""The keys `sweep:` and `tests:` of a tree spec: commands that run in a checkout, and the grid of configs."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Any

from pipeline.core.templates import Template, shell_template
from pipeline.declared import NAME, checked_name, checked_variable, choice, with_braces
from pipeline.errors import instead
from pipeline.spec import Item
from pipeline.tree.literal_keys import is_key_of
from pipeline.tree.model import PER_CONFIG, WHOLE, Command, Sweep
from pipeline.tree.read_blocks import blocks

COMMAND_KEYS = ("run", "reads", "env", "timeout")
SWEEP_KEYS = (*COMMAND_KEYS, "mode", "configs", "seed", "blocks")
# What a command may name in braces besides the files it reads.
EVERYWHERE = ("project", "tree")
SWEEPING = ("results", "output", "limit", "configs", "blocks")
BY_CONFIG = ("results", "output", "config_id", "config", "blocks")
MOST_CONFIGS = 100_000
SEED = "seed"  # in braces; or the name of a value in `configs:`, which then is what the word stands for
MOST_SEED = 2**31 - 1


def tests(item: Item, timeout: float | None) -> Command:
    keys = item.fields("tests", COMMAND_KEYS, ("run",))
    return read_command(item, keys, "tests", EVERYWHERE, timeout)


def sweep(item: Item, limit: int | None, timeout: float | None) -> Sweep:
    keys = item.fields("sweep", SWEEP_KEYS, ("run",))
    mode = choice(keys["mode"], "sweep: mode", (WHOLE, PER_CONFIG)) if "mode" in keys else WHOLE
    configs = _configs(keys["configs"]) if "configs" in keys else None
    if mode == PER_CONFIG and configs is None:
        item.wrong("sweep: mode per_config runs a command a config; say in `configs:` which there are")
    values = {name for config in configs or () for name in config} if mode == PER_CONFIG else set()
    names = (*EVERYWHERE, SEED, *(BY_CONFIG if mode == PER_CONFIG else SWEEPING), *sorted(values))
    command = read_command(item, keys, "sweep", names, timeout)
    repeated = blocks(keys["blocks"]) if "blocks" in keys else None
    _check_whole(keys["run"], command, mode, configs, limit)
    if "blocks" in command.uses and (repeated is None or repeated.ids is None):
        keys["run"].wrong("sweep: run: {blocks} stands for the ids of the blocks; say in `blocks:` which there are")
    return Sweep(command, mode, configs, limit, repeated, _seed(keys, command, values))


def _seed(keys: dict[str, Item], command: Command, values: Collection[str]) -> int | None:
    named = SEED in command.uses and SEED not in values
    if SEED in keys and not named:
        keys[SEED].wrong("sweep: seed: the command never names {seed}, which stands for it")
    if not named:
        return None
    return keys[SEED].count("sweep: seed", 0, MOST_SEED) if SEED in keys else 0


def _check_whole(
    run: Item, command: Command, mode: str, configs: tuple[Mapping[str, Any], ...] | None, limit: int | None
) -> None:
    if "limit" in command.uses and limit is None and configs is None:
        run.wrong(
            "sweep: run: {limit} stands for `sweep_config_limit:` or the number of `configs:`; the spec has neither"
        )
    if mode == WHOLE and configs and configs[0] and "configs" not in command.uses:
        or_number = f"or give their number alone, `configs: {len(configs)}`"
        run.wrong(f"sweep: run: it never names {{configs}}, the file with the values of `configs:`; {or_number}")
    if "configs" in command.uses and configs is None:
        run.wrong("sweep: run: {configs} stands for a file with the `configs:` of the sweep; say which there are")
    if mode == PER_CONFIG and not command.uses & {"config_id", "config", *(configs or ({},))[0]}:
        run.wrong("sweep: run: a command for each config must name what it is about: {config_id}, or a value of it")


def read_command(item: Item, keys: dict[str, Item], what: str, names: Iterable[str], timeout: float | None) -> Command:
    reads = paths_by_port(keys["reads"], f"{what}: reads") if "reads" in keys else {}
    if taken := {*reads} & {*names}:
        keys["reads"].wrong(f"{what}: reads: {{{min(taken)}}} has a meaning of its own; give the port another name")
    words, parsed = _words(keys["run"], f"{what}: run")
    env, passed = _env(keys["env"], f"{what}: env") if "env" in keys else ({}, ())
    known = {*names, *reads}
    texts = [*((keys["run"], text) for text in parsed), *((keys.get("env", item), text) for text in env.values())]
    for where, text in texts:
        for name in text.names:
            if name not in known:
                where.wrong(f"{what}: '{{{name}}}' is not known here{instead(name, known)}")
    return Command(
        words,
        reads,
        {name: _written(text) for name, text in env.items()},
        passed,
        keys["timeout"].seconds(f"{what}: timeout") if "timeout" in keys else timeout,
        frozenset(name for _, text in texts for name in text.names),
        keys["run"].line,
    )


def _written(text: Template) -> str:
    """As it stood in the spec: names in braces, other braces twice."""
    parts = ((literal.replace("{", "{{").replace("}", "}}"), name) for literal, name in text.parts)
    return "".join(literal if name is None else f"{literal}{{{name}}}" for literal, name in parts)


def _words(run: Item, what: str) -> tuple[dict[str, Any], list[Template]]:
    if run.is_list:
        items = run.items(what)
        if not items:
            run.wrong(f"{what}: the list is empty; give the command and its arguments")
        return {"argv": [word.text(what) for word in items]}, [with_braces(word, what) for word in items]
    parsed = with_braces(run, what, shell_template)
    if not run.text(what).strip():
        run.wrong(f"{what}: an empty line; give the command and its arguments")
    return {"shell": run.text(what)}, [parsed]


def paths_by_port(item: Item, what: str) -> dict[str, tuple[str, ...]]:
    if item.is_map and not item.is_bare_name:
        return {checked_name(name, value, what): _paths(value, f"{what}: {name}") for name, value in item.pairs(what)}
    return {"in": _paths(item, what)}


def _paths(item: Item, what: str) -> tuple[str, ...]:
    items = item.items(what) if item.is_list else [item]
    return tuple(posixpath.normpath(each.text(what) or each.wrong(f"{what}: an empty path")) for each in items)


def _env(item: Item, what: str) -> tuple[dict[str, Template], tuple[str, ...]]:
    """A list of names to pass through; or a map, in which a name without a value is passed through."""
    if item.is_list:
        return {}, tuple(sorted(checked_variable(name.text(what), name, what) for name in item.items(what)))
    pairs = [(checked_variable(name, value, what), value) for name, value in item.pairs(what)]
    for name, value in pairs:
        if not value.is_null and is_key_of(name, value.text(f"{what}: {name}")):
            value.wrong(f"{what}: {name}: a literal key; leave the value out, and it is passed through by name")
    fixed = {name: with_braces(value, f"{what}: {name}") for name, value in pairs if not value.is_null}
    return fixed, tuple(sorted(name for name, value in pairs if value.is_null))


def _configs(item: Item) -> tuple[Mapping[str, Any], ...]:
    """How many there are; or a value for each name, every combination of them; or a list of configs."""
    what = "sweep: configs"
    if item.is_list:
        rows = tuple({_value_name(n, v): _value(v, what) for n, v in row.pairs(what)} for row in item.items(what))
        if len({frozenset(row) for row in rows}) > 1:
            item.wrong(f"{what}: all configs must have the same names")
    elif item.is_map:
        listed = {_value_name(n, v): v.items(f"{what}: {n}") for n, v in item.pairs(what)}
        columns = {name: [_value(each, what) for each in values] for name, values in listed.items()}
        rows = tuple(dict(zip(columns, row, strict=True)) for row in product(*columns.values()))
    else:
        rows = tuple({} for _ in range(item.count(what, 1, MOST_CONFIGS)))
    if not rows or len(rows) > MOST_CONFIGS:
        item.wrong(f"{what}: {len(rows)} configs; there must be from 1 to {MOST_CONFIGS}")
    return rows


def _value(item: Item, what: str) -> Any:
    """Text becomes a word of a command as it is; lists and mappings are written as JSON."""
    value = item.plain()
    return item.text(what) if isinstance(value, str) else value


def _value_name(name: str, item: Item) -> str:
    if not NAME.fullmatch(name) or name in (*EVERYWHERE, *SWEEPING, *BY_CONFIG):
        item.wrong(f"sweep: configs: '{name}' cannot be the name of a value; use letters, digits, _ and -")
    return name
