"""The commands `tree` and `branches`: a search by its flags, and what it found as branches.

`tree` makes or checks the spec, then takes the search a depth further or only reports on it.
A new spec is made from a config file and flags, whole or not at all; from then on config and flags are held against
it, and a contradiction is an error that names both lines."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import NewCommand, OneRunCommand, opt_json, option, print_result, print_text
from pipeline.commands.exits import FAILED
from pipeline.commands.flags import FlagValue, check_agreed, check_same, flag_options, flag_values, long_name, yaml_text
from pipeline.commands.searches import advance, opt_force, opt_stale, takeover_by
from pipeline.commands.selection import ability_of, plans_for, plans_of_run
from pipeline.core.text import plural
from pipeline.errors import SpecError, did_you_mean
from pipeline.spec import Item, parse
from pipeline.store.files import write_all

TREE = "tree"
NOTHING_BELOW = "other keys cannot stand below its last line; write it as `key: value` lines, without `...` at the end"


def check_spec(run: str, spec: str, config: str | None, given: Sequence[FlagValue]) -> None:
    """Check that flags and config say what the spec says."""
    keys = _spec_keys(spec)
    if "kind" in keys and keys["kind"].text("kind") != TREE:
        keys["kind"].wrong(f"kind: {keys['kind'].text('kind')} is built by `coppice {run}`; this is for kind: {TREE}")
    check_agreed(given, spec, keys, whole=True)
    if config is not None:
        check_same(config, _spec_keys(config), spec, keys, kinds.flags(TREE))


def create_spec(run: str, config: str | None, given: Sequence[FlagValue]) -> None:
    """Create a spec; none is left behind when there is a mistake in it."""
    spec = f"specs/{run}.yaml"
    if not os.path.isdir("specs"):
        project.spec_paths()  # says so
    project.check_run_name(run, spec)
    if config is None:
        meant = did_you_mean(run, [name.rpartition(".")[0] for name in os.listdir("specs")], ())
        what = "give its repo, roles, sweep and metrics with --config FILE, or write that file"
        raise SpecError(f"there is no run '{run}': no {spec}{meant}; for a new one {what}")
    content = _spec_draft(run, config, given)
    fresh = not os.path.exists(f"runs/{run}")
    draft = f"specs/.{run}.yaml.{os.getpid()}"
    write_all(draft, content, durable=True)
    try:
        os.link(draft, spec)  # whole, or not at all
    except FileExistsError:
        check_spec(run, spec, config, given)  # somebody else did it meanwhile
        return
    finally:
        os.unlink(draft)
    try:
        project.graph(project.load([run]))
    except BaseException as error:
        os.unlink(spec)
        if fresh:
            shutil.rmtree(f"runs/{run}", ignore_errors=True)
        if isinstance(error, SpecError):
            raise SpecError(str(error).replace(f"{spec}:", f"{config}:")) from error
        raise


def _spec_draft(run: str, config: str, given: Sequence[FlagValue]) -> bytes:
    """Content of a new spec: the config as it is, and below it what the flags say, a line each."""
    keys = _spec_keys(config)
    check_agreed(given, config, keys, whole=False)
    added = {} if "kind" in keys else {"kind": TREE}
    added |= {each.flag.key: yaml_text(each.value) for each in given if each.flag.key not in keys}
    text, end = _open_mapping(_config_text(config), bool(added))
    between = b",\n" if end else b"\n"
    content = text + between.join(f"{key}: {value}".encode() for key, value in added.items())
    content += end or (b"\n" if added else b"")
    try:
        _check_content(run, config, content, {*keys, *added})
    except SpecError as error:
        match = re.match(rf"{re.escape(config)}:(\d+): (.*)", str(error), re.DOTALL)
        above = text.count(b"\n")
        if match is None or int(match[1]) <= above:
            raise
        key = [*added][int(match[1]) - above - 1]  # what is below the config's lines came from a flag
        raise SpecError(f"tree: --{long_name(key)}: {match[2].removeprefix(f'{key}: ')}") from error
    return content


def _config_text(path: str) -> bytes:
    """The text of a config; tabs of JSON, which stand between its words alone, are spaces: YAML refuses them."""
    text = project.file_content(path)
    return text.replace(b"\t", b" ") if text.lstrip().startswith(b"{") else text


def _open_mapping(text: bytes, is_added_to: bool) -> tuple[bytes, bytes]:
    """The text of a mapping up to where keys can be added, whole lines; and what closes it again, of JSON."""
    whole = text.rstrip()
    if is_added_to and whole.startswith(b"{") and whole.endswith(b"}"):
        inside = whole[:-1].rstrip().removesuffix(b",")
        return inside + (b"\n" if inside == b"{" else b",\n"), b"\n}\n"
    return text + (b"" if text.endswith(b"\n") else b"\n"), b""


def _check_content(run: str, config: str, content: bytes, keys: set[str]) -> None:
    try:
        item = parse(content, config)
        complete = {key for key, _ in item.pairs("spec")} == keys
    except SpecError as error:
        raise SpecError(f"{config}: {NOTHING_BELOW}") from error
    if not complete:
        raise SpecError(f"{config}: {NOTHING_BELOW}")
    kind = kinds.kind_of(item)
    if kind != TREE:
        item.wrong(f"kind: {kind} is not for this command, which makes specs of kind: {TREE}")
    if refusal := kinds.read(kind, item, run).refusal:
        raise SpecError(refusal)


def _spec_keys(path: str) -> dict[str, Item]:
    return dict(parse(_config_text(path), path).pairs("spec"))


TREE_FLAGS = kinds.flags(TREE)
NOTHING_RUNS = "--report-only and --validate-only take no lock: leave --force and --lock-stale-seconds out"


class TreeCommand(NewCommand):
    name = "tree"
    doc_usage = "--tree-run-id RUN"
    doc_purpose = "the same for a search given by flags, whose spec it writes"
    doc_description = (
        "Of a new search --config has what no flag says; config and flags become specs/RUN.yaml. From then on flags may"
        " be left out, and what is given must agree with the spec."
    )
    cmd_options = (
        option("tree_run_id", "which search", "", "RUN"),
        option("config", "YAML with the rest of a new spec: repo, roles, sweep, metrics and so on", None, "FILE"),
        *flag_options(TREE_FLAGS),
        opt_stale,
        opt_force,
        option("report_only", "run nothing; write TREE_SUMMARY.md from what is recorded"),
        option("validate_only", "run nothing; check what is recorded and write VALIDATION_REPORT.md"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        run, reports = params["tree_run_id"], params["report_only"] or params["validate_only"]
        if args:
            raise InvalidCommand(f"tree: no '{args[0]}': it takes options alone; see `coppice help tree`")
        if not run:
            raise InvalidCommand("tree: --tree-run-id is missing; name the search, such as --tree-run-id first")
        takeover = takeover_by(self.name, run, params)
        if reports and takeover:
            raise InvalidCommand(f"tree: {NOTHING_RUNS}")
        flags = flag_values(self.name, TREE_FLAGS, params)
        specs = [path for path in (f"specs/{run}.yaml", f"specs/{run}.yml") if os.path.exists(path)]
        if specs:
            check_spec(run, specs[0], params["config"], flags)
        elif not reports:
            create_spec(run, params["config"], flags)
        else:
            raise SpecError(f"there is no run '{run}': no specs/{run}.yaml, and nothing recorded to tell of")
        if not reports:
            return advance(run, 0, takeover)
        plan = plans_for([run])[run]
        kind = kinds.ability_module(plan.kind, kinds.ADVANCE)
        if params["report_only"]:
            print_text(kind.report(run, plan.targets))
        problems = 0
        if params["validate_only"]:
            path, problems = kind.validate(run, plan.targets)
            print(f"{path}: {plural(problems, 'problem')}")
        return FAILED if problems else 0


BRANCH_WORDS = {"create": "made", "move": "moved", "same": "is there"}
DRY_WORDS = {"create": "would make", "move": "would move", "same": "is there"}


class BranchesCommand(OneRunCommand):
    name = "branches"
    doc_purpose = "make a branch for each idea of the winning chain of a search, in the repository it started from"
    doc_description = (
        "Each is a commit on top of the one before, with the idea and its numbers as message. Branches that somebody"
        " else made or changed are refused; the work tree and the index are not touched."
    )
    cmd_options = (
        option("prefix", "the names begin with NAME [default: coppice/RUN]", "", "NAME"),
        option("dry_run", "only print what would be made"),
        opt_json,
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan = plans_of_run(self.name, args[0])[args[0]]
        kind = ability_of(plan, kinds.BRANCH, "has no ideas to make branches of")
        dry = params["dry_run"]
        made = kind.make_branches(plan.run, plan.targets, params["prefix"] or f"coppice/{plan.run}", dry)
        words, lines = DRY_WORDS if dry else BRANCH_WORDS, []
        for each in made["branches"]:
            lines.append(f"{words[each['change']]} {each['branch']}  {each['commit'][:12]}")
            lines += [f"    {line}" for line in each["message"].splitlines()] if dry else []
        print_result(made, lines, params["json"])
        return 0
