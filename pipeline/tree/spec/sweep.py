"""The keys `sweep`, `tests`, `checks`, `protect`, `cascade`, `holdout`: what is measured, what must be right before.

Commands run in a checkout; names in braces are known here or refused with a suggestion.  With `answer` and `judge` in
place of `run`, the candidate's code answers, and the root's files score what it answered.  Checks are commands that
must end well; a canary among them must decide the same when later data is cut off.  `cascade` measures all ideas on the
first blocks and the best on the rest.  `holdout` takes blocks or configs out of what the search sees."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from pipeline import spec_fields as fields
from pipeline.core.cages import TRUSTED
from pipeline.core.graph import pattern_error
from pipeline.core.templates import Template, parse_shell_template
from pipeline.errors import did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import NAME, Field, FieldTable, Reader, Values, checked_name, read_template
from pipeline.tree.spec.model import (
    ANSWER,
    ANSWERS,
    JUDGE,
    PER_CONFIG,
    WHOLE,
    Canary,
    Cascade,
    CheckCommand,
    CheckoutCommand,
    CommandDefaults,
    HoldoutKeys,
    ProtectKeys,
    Sweep,
)
from pipeline.tree.spec.roles import is_api_key_value
from pipeline.tree.spec.score import BLOCKS_READER
from pipeline.trust.evidence import FEWEST_BLOCKS

# What a command may name in braces besides the files it reads.
COMMON_NAMES = ("project", "tree")
RESULTS = "results"
SWEEP_NAMES = (RESULTS, "output", "limit", "configs", "blocks")
CONFIG_NAMES = (RESULTS, "output", "config_id", "config", "blocks")
MOST_CONFIGS = 100_000
SEED = "seed"  # in braces; or the name of a value in `configs:`, which then is what the word stands for
MOST_SEED = 2**31 - 1


def read_sweep(item: Item, limit: int | None, defaults: CommandDefaults) -> Sweep:
    keys = SWEEP.read(item, "sweep")
    defaults = defaults._replace(cage=fields.read_cage(keys, defaults.cage))
    mode, configs = keys["mode"], keys["configs"]
    if mode == PER_CONFIG and configs is None:
        item.wrong("sweep: mode per_config runs a command a config; say in `configs:` which there are")
    values = {name for config in configs or () for name in config} if mode == PER_CONFIG else set()
    names = (*COMMON_NAMES, SEED, *(CONFIG_NAMES if mode == PER_CONFIG else SWEEP_NAMES), *sorted(values))
    run, command, judge = _sweep_commands(keys, names, defaults)
    repeated = keys["blocks"]
    found = Sweep(command, mode, configs, limit, repeated, exclusive=keys["exclusive"], judge=judge)
    _check_whole(run, found)
    if "blocks" in found.uses and (repeated is None or repeated.ids is None):
        run.wrong("sweep: run: {blocks} stands for the ids of the blocks; say in `blocks:` which there are")
    takes_seed = SEED in found.uses - values
    if SEED in keys and not takes_seed:
        keys.wrong(SEED, "seed: the command never names {seed}, which stands for it")
    return found._replace(seed=keys[SEED]) if takes_seed else found


def _sweep_commands(
    keys: Values, names: Sequence[str], defaults: CommandDefaults
) -> tuple[Item, CheckoutCommand, CheckoutCommand | None]:
    """The candidate's command, with its place, and the judge's where it is apart."""
    parts = [part for part in (ANSWER, JUDGE) if part in keys]
    if not parts:
        if "run" not in keys:
            keys.item.wrong("sweep: 'run' is missing; or give `answer:` and `judge:`, a judge apart from the judged")
        if defaults.cage.sandbox == TRUSTED:
            keys.wrong("sandbox", "sandbox: trusted needs a judge apart: `answer:` and `judge:` in place of `run:`")
        return keys.at("run"), read_command(keys, "sweep", names, defaults), None
    if len(parts) == 1:
        other = JUDGE if parts == [ANSWER] else ANSWER
        keys.wrong(parts[0], f"{parts[0]}: it needs `{other}:` beside it; give both, or `run:` alone")
    for field in PLAIN_COMMAND_FIELDS:
        if field.key == "run" and "run" in keys:
            keys.wrong("run", "run: `answer:` and `judge:` are there in its place; drop it, or the two")
        if field.key in keys:
            keys.wrong(field.key, f"{field.key}: with a judge apart it stands in `answer:` or in `judge:`")
    answer, judge = (COMMAND.read(keys[part], f"sweep: {part}") for part in (ANSWER, JUDGE))
    own = [name for name in names if name != RESULTS]  # the judge writes them
    answers = _command_of_two(answer, own, defaults, "where it has to write what it answers")
    return answer.at("run"), answers, _command_of_two(judge, names, defaults, "with what it has to judge")


def _command_of_two(keys: Values, names: Iterable[str], defaults: CommandDefaults, folder: str) -> CheckoutCommand:
    command = read_command(keys, keys.before.removesuffix(": "), [*names, ANSWERS], defaults)
    if ANSWERS not in command.uses:
        keys.wrong("run", f"run: it never names {{answers}}, the folder {folder}")
    return command


def _check_whole(run: Item, sweep: Sweep) -> None:
    uses, mode, configs = sweep.uses, sweep.mode, sweep.configs
    if "limit" in uses and sweep.limit is None and configs is None:
        neither = "`sweep_config_limit:` or the number of `configs:`; the spec has neither"
        run.wrong(f"sweep: run: {{limit}} stands for {neither}")
    if mode == WHOLE and configs and configs[0] and "configs" not in uses:
        or_number = f"or give their number alone, `configs: {len(configs)}`"
        run.wrong(f"sweep: run: it never names {{configs}}, the file with the values of `configs:`; {or_number}")
    if "configs" in uses and configs is None:
        run.wrong("sweep: run: {configs} stands for a file with the `configs:` of the sweep; say which there are")
    if mode == PER_CONFIG and not sweep.command.uses & {"config_id", "config", *(configs or ({},))[0]}:
        run.wrong("sweep: run: a command for each config must name what it is about: {config_id}, or a value of it")


def read_command(keys: Values, what: str, names: Iterable[str], defaults: CommandDefaults) -> CheckoutCommand:
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
    timeout, cage = keys["timeout"] or defaults.timeout, fields.read_cage(keys, defaults.cage)
    return CheckoutCommand(words, reads, fixed, passed, timeout, uses, keys.at("run").line, cage)


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
    if not NAME.fullmatch(name) or name in (*COMMON_NAMES, *SWEEP_NAMES, *CONFIG_NAMES, ANSWERS):
        item.wrong(f"sweep: configs: '{name}' cannot be the name of a value; use letters, digits, _ and -")
    return name


PORTS = fields.any_of(fields.TEXTS, fields.names_of(fields.TEXTS))
PLAIN_COMMAND_FIELDS = (
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
COMMAND_FIELDS = (*PLAIN_COMMAND_FIELDS, *fields.cage_fields("that of the spec", "that of the spec"))
COMMAND = FieldTable(*COMMAND_FIELDS)
_CONFIG_ROWS = fields.list_of({"type": "object"}, minItems=1, maxItems=MOST_CONFIGS)
SWEEP = FieldTable(
    COMMAND["run"]._replace(needed=False, without="needed, or `answer` and `judge`"),
    *COMMAND_FIELDS[1:],
    Field(ANSWER, fields.as_item(COMMAND.schema), needs=(JUDGE,), help=
          "of a sweep, with `judge` in place of `run`: a command (`run`, `reads`, `env`, `timeout`) that runs in the "
          "candidate's checkout and writes answers into `{answers}`: [below](#the-judge-apart)"),
    Field(JUDGE, fields.as_item(COMMAND.schema), needs=(ANSWER,), help=
          "the command that scores these answers, in a checkout of the start: nothing of the candidate runs there. "
          "What it alone reads, such as the truth, no command of a candidate is given"),
    Field("mode", fields.choice((WHOLE, PER_CONFIG)), default=WHOLE, help=
          "of a sweep: `whole` is one command that writes all rows; `per_config` runs it for each config, in parallel, "
          "each row recalled by itself"),
    Field("configs", Reader(_configs, fields.any_of(
              fields.count(1, MOST_CONFIGS).schema, fields.object_of(fields.list_of({}, minItems=1)), _CONFIG_ROWS)),
          "of a sweep: how many there are; or name: values, every combination of them; or a list of mappings. A "
          "`whole` sweep gets values by `{configs}` only"),
    Field("blocks", BLOCKS_READER,
          "of a sweep: what repeats the measurement of a config, see below"),
    Field(SEED, fields.count(0, MOST_SEED), default=0, help=
          "of a sweep: what `{seed}` stands for in its command. `coppice calibrate` measures the root with others too"),
    Field("exclusive", fields.BOOLEAN, default=False, help=
          "of a sweep: `true` when it times things. It then runs alone on its machine: "
          "[below](#sweeps-that-time-things)"),
    rules={
        "if": {"properties": {"mode": {"const": PER_CONFIG}}, "required": ["mode"]},
        "then": {"required": ["configs"]},
        "oneOf": [
            {"required": ["run"]},
            {"required": [ANSWER, JUDGE], "properties": {field.key: False for field in PLAIN_COMMAND_FIELDS}},
        ],
    },
)  # fmt: skip


FEWEST_FIRST_BLOCKS = 2
MOST_KEPT = 50_000
CASCADE = FieldTable(
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
    if "blocks" not in sweep.shared_uses:
        where = "`sweep: run:`" if sweep.judge is None else "`run:` of both `answer:` and `judge:`"
        item.wrong(f"{what}: the sweep must be told what to measure: name {{blocks}} in {where}")
    return sweep.blocks.ids


HOLDOUT = FieldTable(
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
        known = {name for command in sweep.commands for name in command.reads}
        if port not in known:
            keys.wrong("reads", f"reads: the sweep reads no '{port}'{did_you_mean(port, known)}")
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
    what, grid, uses = "holdout: configs", sweep.grid, sweep.shared_uses
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


CHECK_NAMES = (*COMMON_NAMES, "output")
# What it writes is read by a canary only.
CANARY_NAMES = (*CHECK_NAMES, "results")
MOST_CUTS = 100


FRACTION = fields.checked(
    fields.number(0), lambda value: value < 1, "expected a part of the rows, from 0 to below 1", exclusiveMaximum=1
)
CANARY_FIELDS = (
    Field("cut", fields.TEXT, "which of its `reads` is cut: one CSV with a header, its rows in the order of time",
          needs=("reads",)),
    Field("column", fields.TEXT, default="", without="the first", needs=("cut",), help=
          "of that file: where the time stands, written so that it sorts, as 2001-12-31 does"),
    Field("cuts", fields.count(1, MOST_CUTS), "how many cuts", 5, needs=("cut",)),
    Field("tolerance", fields.number(0), default=1e-9, without="1e-9", needs=("cut",), help=
          "by how much a number may differ; of numbers above one, by so much of their size"),
    Field("from", FRACTION, "the earliest cut, as a part of the rows", 0.5, needs=("cut",)),
)  # fmt: skip
CHECK = FieldTable(*COMMAND_FIELDS, *CANARY_FIELDS)


def read_checks(item: Item, defaults: CommandDefaults) -> tuple[CheckCommand, ...]:
    found: list[CheckCommand] = []
    for name, each in item.pairs("checks"):
        what = f"checks: {checked_name(name, each, 'checks')}"
        keys = CHECK.read(each, what)
        is_canary = "cut" in keys
        for field in CANARY_FIELDS:
            if field.key in keys and not is_canary:
                keys.wrong(field.key, f"{field.key} is said of a canary; name in `cut:` which of its reads is cut")
        command = read_command(keys, what, CANARY_NAMES if is_canary else CHECK_NAMES, defaults)
        found.append(CheckCommand(name, command, _canary(keys, command) if is_canary else None))
    return tuple(found) or item.wrong("checks: there are none; give name: {run: …}, or leave the key out")


def _canary(keys: Values, command: CheckoutCommand) -> Canary:
    reads, port = command.reads, keys["cut"]
    if port not in reads:
        known = f"one of {', '.join(sorted(reads))}" if reads else "the name of one of its `reads:`; it has none"
        keys.wrong("cut", f"cut: '{port}' is not read by it; give {known}")
    if len(reads[port]) > 1:
        keys.wrong("cut", f"cut: '{port}' is several files; one can be cut")
    if port not in command.uses:
        keys.wrong("run", f"run: it never names {{{port}}}, so that it would not see that this is cut")
    return Canary(port, *(keys[each.key] for each in CANARY_FIELDS[1:]))


_PROJECT = "{project}"


def _protect(item: Item, what: str) -> ProtectKeys:
    items = item.items(what) if item.is_list else [item]
    if not items:
        item.wrong("protect: the list is empty; name files or patterns of `repo:`, or leave the key out")
    read = [_protected_path(each) for each in items]
    # in one order, whichever they are named in: nothing is measured anew for that
    repo, project = (tuple(sorted({path for own, path in read if own is kind})) for kind in (False, True))
    return ProtectKeys(repo, project, item.line)


def _protected_path(item: Item) -> tuple[bool, str]:
    """Check if it is of the project, and the path from there on."""
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


PROTECT = Reader(_protect, fields.any_of(fields.SOME_TEXT, fields.list_of(fields.SOME_TEXT, minItems=1)))
