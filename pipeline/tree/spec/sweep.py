"""The keys `sweep`, `tests`, `blocks`, `cascade`, `holdout`: what is measured, on which part of the data.

Commands run in a checkout; names in braces are known here or refused with a suggestion.  `blocks` repeat the
measurement of a config (folds, seeds, periods).  `cascade` measures all ideas on the first of them and the best on the
rest.  `holdout` takes blocks or configs out of the sweep that the search sees."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from pipeline import spec_fields as fields
from pipeline.core.templates import Template, parse_shell_template
from pipeline.errors import did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import NAME, Field, Reader, Table, Values, checked_name, read_template
from pipeline.tree.rules.sheet import NEEDED_COLUMNS
from pipeline.tree.spec.model import PER_CONFIG, WHOLE, Blocks, Cascade, CheckoutCommand, HoldoutKeys, Sweep
from pipeline.tree.spec.roles import is_api_key_value
from pipeline.trust.evidence import FEWEST_BLOCKS
from pipeline.trust.series import LARGEST_RHO

NO_ORDER, TIME_ORDER = "none", "time"
BLOCK_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,60}")
MOST_BLOCKS = 10_000
MOST_IN_TIME = 1_000  # their coordinates grow with the square of it


def _block_column(item: Item, what: str) -> str:
    name = item.text(what)
    if not name or name in NEEDED_COLUMNS:
        item.wrong(f"{what}: '{name}' cannot be it; name the column that tells blocks apart")
    return name


def _ids(item: Item, what: str) -> tuple[str, ...]:
    if not item.is_list:
        return tuple(map(str, range(item.count(what, 1, MOST_BLOCKS))))
    ids: dict[str, None] = {}
    for each in item.items(what):
        name = each.text(what)
        if not BLOCK_ID.fullmatch(name):
            each.wrong(f"{what}: '{name}' cannot be the name of a block; use letters, digits and _ . : + -")
        if name in ids:
            each.wrong(f"{what}: {name} is there twice")
        ids[name] = None
    if not 1 <= len(ids) <= MOST_BLOCKS:
        item.wrong(f"{what}: {len(ids)} blocks; there must be from 1 to {MOST_BLOCKS}")
    return tuple(ids)


IDS = Reader(
    _ids,
    fields.any_of(
        fields.count(1, MOST_BLOCKS).schema,
        fields.list_of({**fields.TEXT.schema, "pattern": f"^{BLOCK_ID.pattern}$"}, minItems=1, maxItems=MOST_BLOCKS),
    ),
)
RHO = fields.checked(
    fields.number(0),
    lambda rho: rho <= LARGEST_RHO,
    f"must be from 0 to {LARGEST_RHO}; blocks more alike are one: make them longer",
    maximum=LARGEST_RHO,
)
REPEATS = fields.as_item(
    fields.any_of(fields.count(2).schema, {"type": "string", "minLength": 1}),
)
BLOCKS = Table(
    Field("ids", IDS, without="the root's", help=
          "how many there are (called 0, 1, …), or their names in a list. A command may then name `{blocks}`: their "
          "names with commas between. Without `ids` those of the root's baseline are the rule"),
    Field("column", Reader(_block_column, {**fields.SOME_TEXT, "not": {"enum": [*NEEDED_COLUMNS]}}), default="block",
          help="the column that has the name of the block"),
    Field("order", fields.choice((NO_ORDER, TIME_ORDER)), default=NO_ORDER, help=
          "`time`: they follow each other in time, as listed, or else by their names; neighbours may then be alike"),
    Field("rho", RHO, without="estimated", needs=("order",), help=
          f"with `order: time`: the correlation of neighbours, if it is known; at most {LARGEST_RHO}"),
    Field("repeats", REPEATS, without="none", needs=("ids",), help=
          "blocks are folds of a split that is repeated, as by `RepeatedKFold`: how often, if `ids` has one repeat "
          "after the other; or a pattern that finds the repeat in the name of a block, such as `r([0-9]+)`. Repeats "
          "measure the same data again: [trust.md](trust.md#repeated-splits)"),
)  # fmt: skip


def _blocks(item: Item, what: str) -> Blocks:
    """A number of blocks or a list of their ids is short for a mapping with `ids`."""
    if not item.is_map or item.is_bare_name:
        return Blocks(_ids(item, what))
    keys = BLOCKS.read(item, what)
    ordered, ids = keys["order"] == TIME_ORDER, keys["ids"]
    if ordered and ids and len(ids) > MOST_IN_TIME:
        keys.wrong("ids", f"ids: {len(ids)} blocks in the order of time; make them longer, {MOST_IN_TIME} is most")
    if "rho" in keys and not ordered:
        keys.wrong("rho", "rho: how alike neighbours are means something with `order: time` only")
    found = Blocks(ids, keys["column"], ordered, keys["rho"])
    return found._replace(repeats=_repeats(keys, found)) if "repeats" in keys else found


def _repeats(keys: Values, blocks: Blocks) -> tuple[int, ...]:
    """The repeat that each block is of."""
    item, what = keys["repeats"], f"{keys.before}repeats"
    if blocks.ordered:
        item.wrong(f"{what}: folds of a split that is repeated are in no order of time; leave one of the two out")
    ids = blocks.ids or ()
    if not ids:
        item.wrong(f"{what}: say in `ids:` which blocks there are: the number of all folds, or their names")
    if isinstance(item.plain(), int):
        count = item.count(what, 2)
        if len(ids) % count:
            item.wrong(f"{what}: {len(ids)} blocks are not {count} times the same number of folds")
        names = [str(n * count // len(ids)) for n in range(len(ids))]
    else:
        names = _repeat_names(item, what, ids)
    sizes = Counter(names)  # in the order of their first folds
    number = {name: n for n, name in enumerate(sizes)}
    if len({*sizes.values()}) > 1:
        few, most = (pick(sizes, key=lambda name: sizes[name]) for pick in (min, max))
        item.wrong(f"{what}: repeat {few} has {sizes[few]} folds and {most} has {sizes[most]}; all must have as many")
    if len(sizes) < 2 or len(ids) < 2 * len(sizes):
        folds = len(ids) // max(1, len(sizes))
        item.wrong(f"{what}: {len(sizes)} repeats of {folds} folds; there must be two or more of each")
    return tuple(number[name] for name in names)


def _repeat_names(item: Item, what: str, ids: Sequence[str]) -> list[str]:
    try:
        pattern = re.compile(item.text(what))
    except re.error as error:
        item.wrong(f"{what}: not a pattern: {error}; such as r([0-9]+)")
    if pattern.groups != 1:
        item.wrong(f"{what}: one part of the pattern must stand in (...), the name of the repeat; {pattern.groups} do")
    found = {name: pattern.search(name) for name in ids}
    if without := [name for name, match in found.items() if not match or not match[1]]:
        item.wrong(f"{what}: the pattern finds no repeat in the block {without[0]}")
    return [match[1] for match in found.values() if match]


# What a command may name in braces besides the files it reads.
COMMON_NAMES = ("project", "tree")
SWEEP_NAMES = ("results", "output", "limit", "configs", "blocks")
CONFIG_NAMES = ("results", "output", "config_id", "config", "blocks")
MOST_CONFIGS = 100_000
SEED = "seed"  # in braces; or the name of a value in `configs:`, which then is what the word stands for
MOST_SEED = 2**31 - 1


def read_sweep(item: Item, limit: int | None, timeout: float | None) -> Sweep:
    keys = SWEEP.read(item, "sweep")
    mode, configs = keys["mode"], keys["configs"]
    if mode == PER_CONFIG and configs is None:
        item.wrong("sweep: mode per_config runs a command a config; say in `configs:` which there are")
    values = {name for config in configs or () for name in config} if mode == PER_CONFIG else set()
    names = (*COMMON_NAMES, SEED, *(CONFIG_NAMES if mode == PER_CONFIG else SWEEP_NAMES), *sorted(values))
    command = read_command(keys, "sweep", names, timeout)
    repeated = keys["blocks"]
    found = Sweep(command, mode, configs, limit, repeated, exclusive=keys["exclusive"])
    _check_whole(keys.at("run"), found)
    if "blocks" in command.uses and (repeated is None or repeated.ids is None):
        keys.wrong("run", "run: {blocks} stands for the ids of the blocks; say in `blocks:` which there are")
    takes_seed = SEED in command.uses - values
    if SEED in keys and not takes_seed:
        keys.wrong(SEED, "seed: the command never names {seed}, which stands for it")
    return found._replace(seed=keys[SEED]) if takes_seed else found


def _check_whole(run: Item, sweep: Sweep) -> None:
    uses, mode, configs = sweep.command.uses, sweep.mode, sweep.configs
    if "limit" in uses and sweep.limit is None and configs is None:
        neither = "`sweep_config_limit:` or the number of `configs:`; the spec has neither"
        run.wrong(f"sweep: run: {{limit}} stands for {neither}")
    if mode == WHOLE and configs and configs[0] and "configs" not in uses:
        or_number = f"or give their number alone, `configs: {len(configs)}`"
        run.wrong(f"sweep: run: it never names {{configs}}, the file with the values of `configs:`; {or_number}")
    if "configs" in uses and configs is None:
        run.wrong("sweep: run: {configs} stands for a file with the `configs:` of the sweep; say which there are")
    if mode == PER_CONFIG and not uses & {"config_id", "config", *(configs or ({},))[0]}:
        run.wrong("sweep: run: a command for each config must name what it is about: {config_id}, or a value of it")


def read_command(keys: Values, what: str, names: Iterable[str], timeout: float | None) -> CheckoutCommand:
    reads = keys["reads"]
    if taken := {*reads} & {*names}:
        keys.wrong("reads", f"reads: {{{min(taken)}}} has a meaning of its own; give the port another name")
    words, parsed = keys["run"]
    env, passed = keys["env"]
    known = {*names, *reads}
    texts = [*((keys.at("run"), text) for text in parsed), *((keys.at("env"), text) for _, text in env.values())]
    for where, text in texts:
        for name in text.names:
            if name not in known:
                where.wrong(f"{what}: '{{{name}}}' is not known here{did_you_mean(name, known)}")
    uses = frozenset(name for _, text in texts for name in text.names)
    fixed = {name: text for name, (text, _) in env.items()}
    return CheckoutCommand(words, reads, fixed, passed, keys["timeout"] or timeout, uses, keys.at("run").line)


def _words(run: Item, what: str) -> tuple[dict[str, Any], list[Template]]:
    if not run.is_list:
        parsed = read_template(run, what, parse_shell_template)
        if not run.text(what).strip():
            run.wrong(f"{what}: an empty line; give the command and its arguments")
        return {"shell": run.text(what)}, [parsed]
    items = run.items(what)
    if not items:
        run.wrong(f"{what}: the list is empty; give the command and its arguments")
    return {"argv": [word.text(what) for word in items]}, [read_template(word, what) for word in items]


def paths_by_port(item: Item, what: str) -> dict[str, tuple[str, ...]]:
    if item.is_map and not item.is_bare_name:
        return {checked_name(name, value, what): _paths(value, f"{what}: {name}") for name, value in item.pairs(what)}
    return {"in": _paths(item, what)}


def _paths(item: Item, what: str) -> tuple[str, ...]:
    items = item.items(what) if item.is_list else [item]
    return tuple(posixpath.normpath(each.text(what) or each.wrong(f"{what}: an empty path")) for each in items)


def _env(item: Item, what: str) -> tuple[dict[str, tuple[str, Template]], tuple[str, ...]]:
    """The values of variables, each as it stands and parsed; and the names that are passed through."""
    fixed, passed = fields.environment(item, what)
    values: dict[str, tuple[str, Template]] = {}
    for name, value in fixed.items():
        text = value.text(f"{what}: {name}")
        if is_api_key_value(name, text):
            value.wrong(f"{what}: {name}: a literal key; leave the value out, and it is passed through by name")
        values[name] = text, read_template(value, f"{what}: {name}")
    return values, tuple(sorted(passed))


def _configs(item: Item, what: str) -> tuple[Mapping[str, Any], ...]:
    """A number of configs; or values for each name, every combination of them; or a list of configs."""
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
    """A value: text becomes a word of a command as it is; lists and mappings are written as JSON."""
    value = item.plain()
    return item.text(what) if isinstance(value, str) else value


def _value_name(name: str, item: Item) -> str:
    if not NAME.fullmatch(name) or name in (*COMMON_NAMES, *SWEEP_NAMES, *CONFIG_NAMES):
        item.wrong(f"sweep: configs: '{name}' cannot be the name of a value; use letters, digits, _ and -")
    return name


PORTS = fields.any_of(fields.TEXTS, fields.names_of(fields.TEXTS))
COMMAND_FIELDS = (
    Field("run", Reader(_words, fields.COMMAND_SCHEMA), needed=True, help=
          "a list of words, or one line for `/bin/sh`; it runs in the candidate's checkout"),
    Field("reads", Reader(paths_by_port, PORTS), default={}, help=
          "files of the project that it reads, or outputs of other runs (`runs/prices/prices.csv`): a path, a list, or "
          "name: path"),
    Field("env", Reader(_env, fields.ENV_SCHEMA), default=({}, ()), help=
          "variables that it sees besides PATH, HOME and the locale: name: value, or names to pass through"),
    Field("timeout", fields.SECONDS, without="none", help=
          "then it is ended with all that it started, and has failed"),
)  # fmt: skip
COMMAND = Table(*COMMAND_FIELDS)
_CONFIG_ROWS = fields.list_of({"type": "object"}, minItems=1, maxItems=MOST_CONFIGS)
SWEEP = Table(
    *COMMAND_FIELDS,
    Field("mode", fields.choice((WHOLE, PER_CONFIG)), default=WHOLE, help=
          "of a sweep: `whole` is one command that writes all rows; `per_config` runs it for each config, in parallel, "
          "each row recalled by itself"),
    Field("configs", Reader(_configs, fields.any_of(
              fields.count(1, MOST_CONFIGS).schema, fields.object_of(fields.list_of({}, minItems=1)), _CONFIG_ROWS)),
          "of a sweep: how many there are; or name: values, every combination of them; or a list of mappings. A "
          "`whole` sweep gets values by `{configs}` only"),
    Field("blocks", Reader(_blocks, fields.any_of(IDS.schema, BLOCKS.schema)),
          "of a sweep: what repeats the measurement of a config, see below"),
    Field(SEED, fields.count(0, MOST_SEED), default=0, help=
          "of a sweep: what `{seed}` stands for in its command. `coppice calibrate` measures the root with others too"),
    Field("exclusive", fields.BOOLEAN, default=False, help=
          "of a sweep: `true` when it times things. It then runs alone on its machine: "
          "[below](#sweeps-that-time-things)"),
    rules={
        "if": {"properties": {"mode": {"const": PER_CONFIG}}, "required": ["mode"]},
        "then": {"required": ["configs"]},
    },
)  # fmt: skip


FEWEST_FIRST_BLOCKS = 2
MOST_KEPT = 50_000
CASCADE = Table(
    Field("blocks", fields.count(1), needed=True, help=
          f"how many blocks come first, in the order of `ids`; at least {FEWEST_FIRST_BLOCKS}, since what one lacks is "
          "judged by the noise of its own blocks"),
    Field("keep", fields.count(1, MOST_KEPT), needed=True, help=
          "how many ideas of a depth go on, by their t against their parents. Ideas with the same files take one "
          "place; what is not complete on the first blocks does not go on"),
)  # fmt: skip


def read_cascade(item: Item, sweep: Sweep, paired: bool) -> Cascade:
    keys = CASCADE.read(item, "cascade")
    if not paired:
        item.wrong("cascade: it needs `score: method: paired`: what is stopped early must still count among the ideas")
    ids = _measured_blocks(item, "cascade", sweep, ", so that the first of them can be asked for")
    if sweep.blocks and sweep.blocks.repeats:
        item.wrong("cascade: with `blocks: repeats:` one repeat measures all of the data already; drop one of the two")
    first = keys["blocks"]
    if first < FEWEST_FIRST_BLOCKS:
        keys.wrong(
            "blocks",
            f"blocks: {FEWEST_FIRST_BLOCKS} is least: one block does not show the noise of an idea, "
            "without which nothing is told of the blocks that it lacks",
        )
    if first >= len(ids):
        keys.wrong("blocks", f"blocks: {first} of {len(ids)} blocks leave nothing to save; use fewer")
    return Cascade(first, keys["keep"])


def _measured_blocks(item: Item, what: str, sweep: Sweep, why: str = "") -> tuple[str, ...]:
    """The ids of blocks, of a sweep that can be told which of them to measure."""
    if sweep.blocks is None or sweep.blocks.ids is None:
        item.wrong(f"{what}: say in `sweep: blocks:` which blocks there are{why}")
    if "blocks" not in sweep.command.uses:
        item.wrong(f"{what}: the sweep must be told what to measure: name {{blocks}} in `sweep: run:`")
    return sweep.blocks.ids


HOLDOUT = Table(
    Field("blocks", fields.as_item(fields.list_of(fields.TEXT.schema, minItems=1)),
          "ids of `sweep: blocks:`; the search's `{blocks}` are all others. With `method: paired` "
          f"{FEWEST_BLOCKS} or more, since fewer can decide nothing"),
    Field("configs", fields.as_item(fields.list_of(fields.count(0).schema, minItems=1)),
          "ids of `sweep: configs:`, which keep their numbers: with `mode: per_config`, or for a command that names "
          "`{configs}`. One that names `{limit}` can only have the last ones held out, and measures those before again "
          "when they are opened"),
    Field("reads", Reader(paths_by_port, PORTS), default={}, help=
          "port: path, as in `sweep: reads:`; what is read in place of these ports when the held-out part is "
          "measured. Data that lies sealed in a file of its own is hidden from commands that keep to what they are "
          "given, not only left unasked for. The output of another run is not made before the seal is open"),
    rules={"oneOf": [{"required": ["blocks"]}, {"required": ["configs"]}]},
)  # fmt: skip


def read_holdout(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, HoldoutKeys]:
    """The holdout, and the sweep as the search sees it."""
    keys = HOLDOUT.read(item, "holdout")
    if ("blocks" in keys) == ("configs" in keys):
        item.wrong("holdout: name what is held out, either `blocks: [...]` or `configs: [...]`")
    for port in keys["reads"]:
        if port not in sweep.command.reads:
            keys.wrong("reads", f"reads: the sweep reads no '{port}'{did_you_mean(port, sweep.command.reads)}")
    if "blocks" in keys:
        left, held = _hold_out_blocks(keys["blocks"], sweep, paired)
    else:
        left, held = _hold_out_configs(keys["configs"], sweep)
    return left, held._replace(reads=keys["reads"], line=item.line)


def _hold_out_blocks(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, HoldoutKeys]:
    what = "holdout: blocks"
    ids, held = _measured_blocks(item, what, sweep), set[str]()
    if sweep.blocks and sweep.blocks.repeats:
        item.wrong(
            f"{what}: with `blocks: repeats:` each repeat measures all of the data, and nothing would be held out"
        )
    for each in item.items(what):
        held.add(name := each.text(what))
        if name not in ids:
            each.wrong(f"{what}: '{name}' is none of the blocks{did_you_mean(name, ids)}")
    left = tuple(name for name in ids if name not in held)
    if not held or not left:
        item.wrong(f"{what}: {len(held)} of {len(ids)} blocks; some must be held out, and some searched")
    if paired and len(held) < FEWEST_BLOCKS:
        item.wrong(f"{what}: {len(held)} can decide nothing; hold out {FEWEST_BLOCKS} or more")
    assert sweep.blocks is not None
    order = tuple(name for name in ids if name in held)
    return sweep._replace(blocks=sweep.blocks._replace(ids=left)), HoldoutKeys(blocks=order)


def _hold_out_configs(item: Item, sweep: Sweep) -> tuple[Sweep, HoldoutKeys]:
    what, grid, uses = "holdout: configs", sweep.grid, sweep.command.uses
    if grid is None:
        item.wrong(f"{what}: say in `sweep: configs:` which configs there are")
    held: set[int] = {each.count(what, 0, grid - 1) for each in item.items(what)}
    if not held:
        item.wrong(f"{what}: name the ids of those that are held out")
    if sweep.mode == PER_CONFIG or "configs" in uses:
        left = sweep._replace(held=tuple(sorted(held)))
    elif "limit" not in uses:
        item.wrong(f"{what}: the sweep must be told what to measure: `mode: per_config`, or name {{configs}}")
    elif held == {*range(min(held), grid)}:
        left = sweep._replace(limit=min(*held, sweep.limit or grid))
    else:
        item.wrong(f"{what}: by {{limit}} only the last ones can be held out, such as [..., {grid - 1}]")
    if left.limit == 0 or not left.ids:
        item.wrong(f"{what}: no config is left to be searched")
    return left, HoldoutKeys(configs=tuple(sorted(held)))
