"""The keys `sweep`, `tests`, `checks`, `blocks`, `cascade`, `holdout`, `protect`: what is measured, how safely.

Commands run in a checkout; names in braces are known here or refused with a suggestion.  `blocks` repeat the
measurement of a config (folds, seeds, periods).  `cascade` measures all ideas on the first of them and the best on the
rest.  `holdout` takes blocks or configs out of the sweep that the search sees.  `checks` must end well before the
sweep; a canary among them must decide the same when later data is cut off.  `protect` names what no candidate may
touch."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Any

from pipeline.core.graph import pattern_error
from pipeline.core.templates import Template, parse_shell_template
from pipeline.errors import did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import NAME, checked_name, checked_variable, choice, number, read_template
from pipeline.tree.rules.results import NEEDED_COLUMNS
from pipeline.tree.spec.model import (
    PER_CONFIG,
    WHOLE,
    Blocks,
    Canary,
    Cascade,
    CheckCommand,
    CheckoutCommand,
    HoldoutKeys,
    ProtectKeys,
    Sweep,
)
from pipeline.tree.spec.roles import is_api_key_value
from pipeline.trust.evidence import FEWEST_BLOCKS
from pipeline.trust.series import LARGEST_RHO

BLOCKS_KEYS = ("ids", "column", "order", "rho")
NO_ORDER, TIME_ORDER = "none", "time"
BLOCK_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,60}")
MOST_BLOCKS = 10_000
MOST_IN_TIME = 1_000  # their coordinates grow with the square of it


def read_blocks(item: Item) -> Blocks:
    """A number of blocks or a list of their ids is short for a mapping with `ids`."""
    if not item.is_map or item.is_bare_name:
        return Blocks(_ids(item, "sweep: blocks"))
    keys = item.fields("sweep: blocks", BLOCKS_KEYS)
    ordered = "order" in keys and choice(keys["order"], "sweep: blocks: order", (NO_ORDER, TIME_ORDER)) == TIME_ORDER
    ids = _ids(keys["ids"], "sweep: blocks: ids") if "ids" in keys else None
    if ordered and ids and len(ids) > MOST_IN_TIME:
        keys["ids"].wrong(
            f"sweep: blocks: ids: {len(ids)} blocks in the order of time; make them longer, {MOST_IN_TIME} is most"
        )
    if "rho" in keys and not ordered:
        keys["rho"].wrong("sweep: blocks: rho: how alike neighbours are means something with `order: time` only")
    return Blocks(
        ids,
        _block_column(keys["column"]) if "column" in keys else "block",
        ordered,
        _rho(keys["rho"]) if "rho" in keys else None,
    )


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


def _block_column(item: Item) -> str:
    name = item.text("sweep: blocks: column")
    if not name or name in NEEDED_COLUMNS:
        item.wrong(f"sweep: blocks: column: '{name}' cannot be it; name the column that tells blocks apart")
    return name


def _rho(item: Item) -> float:
    rho = number(item, "sweep: blocks: rho", 0)
    if rho > LARGEST_RHO:
        item.wrong(f"sweep: blocks: rho: must be from 0 to {LARGEST_RHO}; blocks more alike are one: make them longer")
    return rho


COMMAND_KEYS = ("run", "reads", "env", "timeout")
SWEEP_KEYS = (*COMMAND_KEYS, "mode", "configs", "seed", "blocks")
# What a command may name in braces besides the files it reads.
COMMON_NAMES = ("project", "tree")
SWEEP_NAMES = ("results", "output", "limit", "configs", "blocks")
CONFIG_NAMES = ("results", "output", "config_id", "config", "blocks")
MOST_CONFIGS = 100_000
SEED = "seed"  # in braces; or the name of a value in `configs:`, which then is what the word stands for
MOST_SEED = 2**31 - 1


def read_tests(item: Item, timeout: float | None) -> CheckoutCommand:
    keys = item.fields("tests", COMMAND_KEYS, ("run",))
    return read_command(item, keys, "tests", COMMON_NAMES, timeout)


def read_sweep(item: Item, limit: int | None, timeout: float | None) -> Sweep:
    keys = item.fields("sweep", SWEEP_KEYS, ("run",))
    mode = choice(keys["mode"], "sweep: mode", (WHOLE, PER_CONFIG)) if "mode" in keys else WHOLE
    configs = _configs(keys["configs"]) if "configs" in keys else None
    if mode == PER_CONFIG and configs is None:
        item.wrong("sweep: mode per_config runs a command a config; say in `configs:` which there are")
    values = {name for config in configs or () for name in config} if mode == PER_CONFIG else set()
    names = (*COMMON_NAMES, SEED, *(CONFIG_NAMES if mode == PER_CONFIG else SWEEP_NAMES), *sorted(values))
    command = read_command(item, keys, "sweep", names, timeout)
    repeated = read_blocks(keys["blocks"]) if "blocks" in keys else None
    _check_whole(keys["run"], command, mode, configs, limit)
    if "blocks" in command.uses and (repeated is None or repeated.ids is None):
        keys["run"].wrong("sweep: run: {blocks} stands for the ids of the blocks; say in `blocks:` which there are")
    return Sweep(command, mode, configs, limit, repeated, _seed(keys, command, values))


def _seed(keys: dict[str, Item], command: CheckoutCommand, values: Collection[str]) -> int | None:
    named = SEED in command.uses and SEED not in values
    if SEED in keys and not named:
        keys[SEED].wrong("sweep: seed: the command never names {seed}, which stands for it")
    if not named:
        return None
    return keys[SEED].count("sweep: seed", 0, MOST_SEED) if SEED in keys else 0


def _check_whole(
    run: Item, command: CheckoutCommand, mode: str, configs: tuple[Mapping[str, Any], ...] | None, limit: int | None
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


def read_command(
    item: Item, keys: dict[str, Item], what: str, names: Iterable[str], timeout: float | None
) -> CheckoutCommand:
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
                where.wrong(f"{what}: '{{{name}}}' is not known here{did_you_mean(name, known)}")
    return CheckoutCommand(
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
        return {"argv": [word.text(what) for word in items]}, [read_template(word, what) for word in items]
    parsed = read_template(run, what, parse_shell_template)
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
        if not value.is_null and is_api_key_value(name, value.text(f"{what}: {name}")):
            value.wrong(f"{what}: {name}: a literal key; leave the value out, and it is passed through by name")
    fixed = {name: read_template(value, f"{what}: {name}") for name, value in pairs if not value.is_null}
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
    if not NAME.fullmatch(name) or name in (*COMMON_NAMES, *SWEEP_NAMES, *CONFIG_NAMES):
        item.wrong(f"sweep: configs: '{name}' cannot be the name of a value; use letters, digits, _ and -")
    return name


CASCADE_KEYS = ("blocks", "keep")
FEWEST_FIRST_BLOCKS = 2
MOST_KEPT = 50_000


def read_cascade(item: Item, sweep: Sweep, paired: bool) -> Cascade:
    keys = item.fields("cascade", CASCADE_KEYS, CASCADE_KEYS)
    if not paired:
        item.wrong("cascade: it needs `score: method: paired`: what is stopped early must still count among the ideas")
    if sweep.blocks is None or sweep.blocks.ids is None:
        item.wrong(
            "cascade: say in `sweep: blocks:` which blocks there are, so that the first of them can be asked for"
        )
    if "blocks" not in sweep.command.uses:
        item.wrong("cascade: the sweep must be told what to measure: name {blocks} in `sweep: run:`")
    count, first = len(sweep.blocks.ids), keys["blocks"].count("cascade: blocks", 1)
    if first < FEWEST_FIRST_BLOCKS:
        keys["blocks"].wrong(
            f"cascade: blocks: {FEWEST_FIRST_BLOCKS} is least: one block does not show the noise of an idea, "
            "without which nothing is told of the blocks that it lacks"
        )
    if first >= count:
        keys["blocks"].wrong(f"cascade: blocks: {first} of {count} blocks leave nothing to save; use fewer")
    return Cascade(first, keys["keep"].count("cascade: keep", 1, MOST_KEPT))


HOLDOUT_KEYS = ("blocks", "configs", "reads")


def read_holdout(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, HoldoutKeys]:
    """With the sweep as the search sees it."""
    keys = item.fields("holdout", HOLDOUT_KEYS)
    if ("blocks" in keys) == ("configs" in keys):
        item.wrong("holdout: name what is held out, either `blocks: [...]` or `configs: [...]`")
    sealed = _holdout_reads(keys["reads"], sweep) if "reads" in keys else {}
    if "blocks" in keys:
        left, held = _hold_out_blocks(keys["blocks"], sweep, paired)
    else:
        left, held = _hold_out_configs(keys["configs"], sweep)
    return left, held._replace(reads=sealed, line=item.line)


def _holdout_reads(item: Item, sweep: Sweep) -> dict[str, tuple[str, ...]]:
    found = paths_by_port(item, "holdout: reads")
    for port in found:
        if port not in sweep.command.reads:
            item.wrong(f"holdout: reads: the sweep reads no '{port}'{did_you_mean(port, sweep.command.reads)}")
    return found


def _hold_out_blocks(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, HoldoutKeys]:
    blocks = sweep.blocks
    if blocks is None or blocks.ids is None:
        item.wrong("holdout: blocks: say in `sweep: blocks:` which blocks there are")
    if "blocks" not in sweep.command.uses:
        item.wrong("holdout: blocks: the sweep must be told what to measure: name {blocks} in `sweep: run:`")
    names = [(each, each.text("holdout: blocks")) for each in item.items("holdout: blocks")]
    for each, name in names:
        if name not in blocks.ids:
            each.wrong(f"holdout: blocks: '{name}' is none of the blocks{did_you_mean(name, blocks.ids)}")
    held = {name for _, name in names}
    left = tuple(name for name in blocks.ids if name not in held)
    if not held or not left:
        item.wrong(
            f"holdout: blocks: {len(held)} of {len(blocks.ids)} blocks; some must be held out, and some searched"
        )
    if paired and len(held) < FEWEST_BLOCKS:
        item.wrong(f"holdout: blocks: {len(held)} can decide nothing; hold out {FEWEST_BLOCKS} or more")
    order = tuple(name for name in blocks.ids if name in held)
    return sweep._replace(blocks=blocks._replace(ids=left)), HoldoutKeys(blocks=order)


def _hold_out_configs(item: Item, sweep: Sweep) -> tuple[Sweep, HoldoutKeys]:
    grid = sweep.grid
    if grid is None:
        item.wrong("holdout: configs: say in `sweep: configs:` which configs there are")
    held: set[int] = {each.count("holdout: configs", 0, grid - 1) for each in item.items("holdout: configs")}
    if not held:
        item.wrong("holdout: configs: name the ids of those that are held out")
    if sweep.mode == PER_CONFIG or "configs" in sweep.command.uses:
        left = sweep._replace(held=tuple(sorted(held)))
    elif "limit" in sweep.command.uses and held == {*range(min(held), grid)}:
        left = sweep._replace(limit=min(*held, sweep.limit or grid))
    elif "limit" in sweep.command.uses:
        item.wrong(f"holdout: configs: by {{limit}} only the last ones can be held out, such as [..., {grid - 1}]")
    else:
        item.wrong("holdout: configs: the sweep must be told what to measure: `mode: per_config`, or name {configs}")
    if left.limit == 0 or not left.ids:
        item.wrong("holdout: configs: no config is left to be searched")
    return left, HoldoutKeys(configs=tuple(sorted(held)))


CANARY_KEYS = ("cut", "column", "cuts", "tolerance", "from")
CHECK_KEYS = (*COMMAND_KEYS, *CANARY_KEYS)
CHECK_NAMES = (*COMMON_NAMES, "output")
# What it writes is read by a canary only.
CANARY_NAMES = (*CHECK_NAMES, "results")
DEFAULT_CUTS, DEFAULT_TOLERANCE, DEFAULT_FROM = 5, 1e-9, 0.5
MOST_CUTS = 100

Keys = dict[str, Item]


def read_checks(item: Item, timeout: float | None) -> tuple[CheckCommand, ...]:
    found = tuple(_read_check(checked_name(name, each, "checks"), each, timeout) for name, each in item.pairs("checks"))
    return found or item.wrong("checks: there are none; give name: {run: …}, or leave the key out")


def _read_check(name: str, item: Item, timeout: float | None) -> CheckCommand:
    what = f"checks: {name}"
    keys = item.fields(what, CHECK_KEYS, ("run",))
    alone = next((key for key in CANARY_KEYS[1:] if key in keys and "cut" not in keys), "")
    if alone:
        keys[alone].wrong(f"{what}: {alone} is said of a canary; name in `cut:` which of its reads is cut")
    command = read_command(item, keys, what, CANARY_NAMES if "cut" in keys else CHECK_NAMES, timeout)
    return CheckCommand(name, command, _canary(keys, what, command) if "cut" in keys else None)


def _canary(keys: Keys, what: str, command: CheckoutCommand) -> Canary:
    reads = command.reads
    port = keys["cut"].text(f"{what}: cut")
    if port not in reads:
        known = f"one of {', '.join(sorted(reads))}" if reads else "the name of one of its `reads:`; it has none"
        keys["cut"].wrong(f"{what}: cut: '{port}' is not read by it; give {known}")
    if len(reads[port]) > 1:
        keys["cut"].wrong(f"{what}: cut: '{port}' is several files; one can be cut")
    if port not in command.uses:
        keys["run"].wrong(f"{what}: run: it never names {{{port}}}, so that it would not see that this is cut")
    return Canary(
        port,
        keys["column"].text(f"{what}: column") if "column" in keys else "",
        keys["cuts"].count(f"{what}: cuts", 1, MOST_CUTS) if "cuts" in keys else DEFAULT_CUTS,
        number(keys["tolerance"], f"{what}: tolerance", 0) if "tolerance" in keys else DEFAULT_TOLERANCE,
        _fraction(keys["from"], f"{what}: from") if "from" in keys else DEFAULT_FROM,
    )


def _fraction(item: Item, what: str) -> float:
    value = number(item, what, 0)
    return value if value < 1 else item.wrong(f"{what}: expected a part of the rows, from 0 to below 1")


_PROJECT = "{project}"


def read_protect(item: Item) -> ProtectKeys:
    items = item.items("protect") if item.is_list else [item]
    if not items:
        item.wrong("protect: the list is empty; name files or patterns of `repo:`, or leave the key out")
    read = [_protected_path(each) for each in items]
    # in one order, whichever they are named in: nothing is measured anew for that
    repo, project = (tuple(sorted({path for own, path in read if own is kind})) for kind in (False, True))
    return ProtectKeys(repo, project, item.line)


def _protected_path(item: Item) -> tuple[bool, str]:
    """Is it of the project?  And the path from there on."""
    text = item.text("protect")
    own = text == _PROJECT or text.startswith(f"{_PROJECT}/")
    path = text.removeprefix(_PROJECT).lstrip("/") if own else text
    if "{" in path or "}" in path:
        item.wrong(f"protect: '{text}': only {_PROJECT}/ at the beginning may stand in braces")
    if path.startswith(("/", "~")):
        item.wrong(f"protect: '{text}' is not a path of `repo:`; what is beside it is {_PROJECT}/…")
    if ".." in path.split("/"):
        item.wrong(f"protect: '{text}' leads out by '..'; only what is in `repo:` or in the project can be protected")
    if not path or posixpath.normpath(path) == ".":
        item.wrong(f"protect: '{text}' is all there is: nothing could be changed; name what measures")
    if error := pattern_error(path):
        item.wrong(f"protect: '{text}' is not a pattern: {error}")
    path = posixpath.normpath(path)
    if own and path.split("/")[0] == "runs":
        item.wrong(f"protect: '{text}': Coppice itself looks after runs/; name what a command reads of it in `reads:`")
    return own, path
