"""YAML -> TreeSpec: the keys of `kind: tree`, and what must fit together among them.

The only reader of the kind that looks at the disk: `repo:` must be a folder, and may be a git repository or plain."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pipeline import spec_fields as fields
from pipeline.core.cages import CAGE, CageKeys, cage_in
from pipeline.core.graph import JUNK_FOLDERS, Leavings
from pipeline.errors import SpecError, cut_text
from pipeline.spec import Item
from pipeline.spec_engines import ENGINE_FIELDS, read_engine
from pipeline.spec_fields import Field, FieldTable, Reader, Values, choice
from pipeline.store.state import signature
from pipeline.tree.rules.assignment import DEDUPE_SCOPES
from pipeline.tree.rules.budget import BudgetLimits, Ceiling
from pipeline.tree.rules.positions import GIVEN_IDEAS, RunLayout
from pipeline.tree.rules.scoring import RUN
from pipeline.tree.spec import sweep
from pipeline.tree.spec.model import (
    MANUAL,
    PATCHES,
    CheckoutCommand,
    CommandDefaults,
    GivenBaseline,
    KeepKeys,
    Loop,
    ProtectKeys,
    SearchShape,
    Sweep,
    TreeSpec,
)
from pipeline.tree.spec.roles import FREE_PRICE, PAID_BACKENDS, PROGRAM_BACKENDS, ROLES_READER, is_price_unknown
from pipeline.tree.spec.score import METRICS_SCHEMA, SCORE, read_rules

PARALLEL_BACKENDS = ("threads",)
MOST_EACH = 1000  # of each: a typo must not become a plan of millions of targets
MOST_EVALUATIONS = 50_000  # evaluations


def _repo(item: Item, what: str) -> str:
    path = os.path.normpath(os.path.expanduser(fields.folder_path(item, what)))
    if not os.path.isdir(path):
        how = "is a file" if os.path.exists(path) else "does not exist"
        item.wrong(f"{what}: {path} {how}; name a folder, the code that the search starts from")
    if not _is_repository(path) and os.path.realpath("runs").startswith(f"{os.path.realpath(path)}/"):
        item.wrong(
            f"{what}: {path} holds runs/, which a search changes; name a folder beside it, or run `git init` there"
        )
    return path


def _is_repository(path: str) -> bool:
    return os.path.lexists(f"{path}/.git")


AMOUNTS = (
    Field(
        "usd",
        fields.number(0),
        "what backends may cost, by what they say of it or by `price:`; one of these each "
        "role must have that is asked for money",
    ),
    Field("tokens", fields.count(0), "input and output together"),
    Field("time", fields.SECONDS, "of evaluations, added up: `4h`"),
)
PER_EVAL = FieldTable(*AMOUNTS)
BUDGET = FieldTable(
    *AMOUNTS,
    Field("per_eval", Reader(PER_EVAL.read, PER_EVAL.schema),
          "`usd`, `tokens` and `time` that one evaluation costs at most: so much is reserved before it starts"),
)  # fmt: skip
DEDUPE = FieldTable(
    Field("similar", fields.SHARE, "share of words and pairs of words that both have, in what they change", needed=True)
)


def _folder_names(item: Item, what: str) -> list[str]:
    for name in item.items(what):
        if not re.fullmatch(r"[\w.-]+", name.text(what)) or name.text(what) in (".", "..", ".git"):
            name.wrong(f"{what}: '{cut_text(name.text(what))}' is no name of a folder, such as build")
    return [name.text(what) for name in item.items(what)]


LEAVE_OUT = FieldTable(
    Field("file_mb", fields.number(0), "the largest new file that counts, in MB", 5.0),
    Field("change_mb", fields.number(0), "new files together, in MB: of more, the largest are left out", 50.0),
    Field("folders", Reader(_folder_names, fields.TEXTS),
          f"names of folders beside the usual ones, which are {fields.quoted(JUNK_FOLDERS)}", without="none"),
)  # fmt: skip
SPEC = FieldTable(
    fields.kind_field("tree"),
    Field("repo", Reader(_repo, fields.TEXT.schema), needed=True, help=
          "the code that the search starts from: a path, from the project's folder"),
    Field("ideas_per_node", fields.count(1, MOST_EVALUATIONS), "ideas tried on each node", needed=True, value="K"),
    Field("beam_width", fields.count(1, MOST_EACH), "nodes promoted at each depth, over all of it", 1, value="B"),
    Field("max_depth", fields.count(1, MOST_EACH), "how many times nodes are promoted", needed=True, value="D"),
    Field("roles", ROLES_READER, "who has ideas, plans, codes and reviews: [backends.md](backends.md)", needed=True),
    Field("max_review_rounds", fields.count(0, 20), "how often the coder may answer to a review", 0),
    Field("proceed_on_max_review_rounds", fields.BOOLEAN, default=False, help=
          "measure also what the last review did not approve; it counts as approved then"),
    Field("max_test_rounds", fields.count(0, 20), "how often the coder is told that `tests` failed, with the end of "
          "their output. Not part of what makes a result stale", 1),
    Field("constraints", fields.TEXT, "text: rules that every idea has to keep, for whoever has them", ""),
    Field("tests", fields.as_item(sweep.COMMAND.schema),
          "a command that must end with 0 before a candidate is measured"),
    Field("checks", fields.as_item(fields.names_of(sweep.CHECK.schema, least=1)),
          "name: command, each of which must end with 0 before the sweep: [below](#keys-of-a-check)"),
    Field("sweep", fields.as_item(sweep.SWEEP.schema), "the command that measures, and the configs", needed=True),
    Field("baseline_csv", fields.as_item(fields.SOME_TEXT),
          "a file with the results of the start, which are then not measured: [below](#a-given-baseline)"),
    Field("sweep_config_limit", fields.count(1), without="all", value="N", help=
          "sweep and score only configs with a `config_id` below it, on both sides of every comparison"),
    Field("cascade", fields.as_item(sweep.CASCADE.schema), "which ideas are measured on all blocks, see below"),
    Field("holdout", fields.as_item(sweep.HOLDOUT.schema),
          "what the search does not see, for one look after its end: see below"),
    Field("protect", sweep.PROTECT, default=ProtectKeys(), help=
          "paths that no candidate may touch: files, folders or patterns of `repo`, and `\"{project}/…\"` of the "
          "project. One that does is void: it is not scored"),
    Field("metrics", fields.as_item(METRICS_SCHEMA), "the columns that count", needed=True),
    Field("score", fields.as_item(SCORE.schema), "the numbers behind a verdict"),
    Field("max_total_idea_evals", fields.count(0), without="no limit", value="M", help=
          "evaluations in all of the search at most"),
    Field("budget", Reader(BUDGET.read, BUDGET.schema), "what the run may cost", without="no limit"),
    Field("stop_on_empty_frontier", fields.BOOLEAN, "stop when nothing of a depth was promoted", True, switch=True,
          inverse=True),
    Field("dedupe_scope", fields.choice(DEDUPE_SCOPES), value="SCOPE", help=
          f"among which ideas the same one is not tried twice: {fields.quoted(DEDUPE_SCOPES)}"),
    Field("dedupe", Reader(DEDUPE.read, DEDUPE.schema), without="only equal ideas are duplicates", help=
          "`{similar: 0.9}`: within `dedupe_scope`, an idea so alike an earlier one is not tried either, before "
          "anything is paid for it"),
    Field("leave_out", Reader(LEAVE_OUT.read, LEAVE_OUT.schema), without="as below", help=
          "which new files and folders of a coder that edits files are no part of its change: "
          "[below](#keys-of-leave_out)"),
    Field("replicate", fields.count(1), without="none", help=
          "number of a repetition of the same search: models are asked anew, and what was measured of equal code is "
          "used again"),
    Field("keep_rejected_worktrees", fields.BOOLEAN, default=False, switch=True, help=
          "keep checkouts of what was not promoted, in `runs/RUN/cand/`"),
    Field("keep_failed_artifacts", fields.BOOLEAN, default=False, switch=True, help=
          "keep what failed evaluations left in their output folders"),
    Field("max_parallel_evals", fields.count(1, MOST_EACH), "evaluations at the same time", 1, value="N"),
    Field("max_parallel_per_node", fields.count(1), "of these on one node", without="no limit", value="N"),
    Field("parallel_backend", fields.choice(PARALLEL_BACKENDS), default=PARALLEL_BACKENDS[0], value="NAME", help=
          "where evaluations run: `threads`, also called `threadpool` on the command line; another by `engine:`"),
    Field("eval_retries", fields.count(0, MOST_EACH), default=0, value="N", help=
          "times that a command or a backend that failed for outer reasons is tried again at once"),
    Field("patience", fields.PAUSE, default=7200.0, without="2h", help=
          "how long a model that is out, or a full disk, is waited for before the run stops: `2h`; 0 does not wait at "
          "all"),
    Field("eval_timeout_seconds", fields.SECONDS, without="none", value="S", help=
          "how long a command of an evaluation may take that has no `timeout` of its own: `90`, `90s`, `10m`, `2h`"),
    Field("strict_fail", fields.BOOLEAN, default=False, switch=True, help=
          "stop the search at the end of a depth in which an evaluation failed"),
    Field("dry_run", fields.BOOLEAN, default=False, switch=True, help=
          "no model, no sweep: ideas, code and results are made up, always the same. For a new run, or a dry one"),
    *fields.cage_fields("`auto`: the strongest that the machine has", "`local`; under landlock `none`; for `roles`, "
                        "of which only a key of their own says another, `full`"),
    fields.STORE,
    *ENGINE_FIELDS,
    defaults=SearchShape._field_defaults,
)  # fmt: skip


def read(item: Item, name: str) -> TreeSpec:
    top = SPEC.read(item, "spec", "")
    cage, repo = fields.read_cage(top), top["repo"]
    defaults = CommandDefaults(top["eval_timeout_seconds"], cage)
    measured = sweep.read_sweep(top["sweep"], top["sweep_config_limit"], defaults)
    rules = read_rules(top["metrics"], top["score"], measured.blocks is not None)
    paired, held = rules.paired is not None, None
    if "holdout" in top:
        measured, held = sweep.read_holdout(top["holdout"], measured, paired)
    _ = top["parallel_backend"]  # checked, and nothing else: there is one
    shape, loop, tests = top.record(SearchShape), _caged_loop(top, cage), _read_tests(top, defaults)
    _check_truth(top.at("sweep"), measured, repo)
    sources, given = _given_ideas(name)
    spec: TreeSpec = top.record(
        TreeSpec,
        name=name,
        line=item.line,
        repo=repo,
        plain=not _is_repository(repo),
        shape=shape,
        loop=loop,
        tests=tests,
        sweep=measured,
        rules=rules,
        budget=BudgetLimits(evals=top["max_total_idea_evals"], **_amounts(top["budget"])),
        ceiling=_ceiling(top, loop),
        per_node=top["max_parallel_per_node"],
        at_once=top["max_parallel_evals"],
        retries=top["eval_retries"],
        patience=top["patience"],
        engine=read_engine(top),
        keep=KeepKeys(top["keep_rejected_worktrees"], top["keep_failed_artifacts"]),
        dry_run=top["dry_run"],
        checks=sweep.read_checks(top["checks"], defaults) if "checks" in top else (),
        cascade=sweep.read_cascade(top["cascade"], measured, paired) if "cascade" in top else None,
        holdout=held,
        sources=sources,
        given=given,
        replicate=top["replicate"],
        similar=top["dedupe"]["similar"] if "dedupe" in top else None,
        leave_out=_leavings(top["leave_out"]) if "leave_out" in top else None,
    )
    _check(spec, top)
    spec = spec._replace(refusal=_budget_refusal(spec, top))
    return _with_baseline(spec, top["baseline_csv"]) if "baseline_csv" in top else spec


def _read_tests(top: Values, defaults: CommandDefaults) -> CheckoutCommand | None:
    if "tests" not in top:
        return None
    return sweep.read_command(sweep.COMMAND.read(top["tests"], "tests"), "tests", sweep.COMMON_NAMES, defaults)


def _caged_loop(top: Values, cage: CageKeys) -> Loop:
    """The loop with what the spec says of all that is started; network and paths are for what measures."""
    loop: Loop = top.record(Loop)
    outer, places = cage._replace(network="", visible=()), dict(top.at("roles").pairs("roles"))
    roles: dict[str, Mapping[str, Any]] = {}
    for name, role in loop.roles.items():
        own = cage_in(role).within(outer) if role["backend"] in PROGRAM_BACKENDS else CageKeys()
        if why := fields.cage_mistake(own):
            places[name].wrong(f"role {name}: network: {why}")
        folder = {"folder": os.path.expanduser(role["folder"])} if "folder" in role else {}
        roles[name] = {**role, **folder, **({CAGE: own.record} if any(own) else {})}
    return loop._replace(roles=roles)


def _with_baseline(spec: TreeSpec, item: Item) -> TreeSpec:
    """The spec with the file of the root's results, checked unless it is yet to be made, or a dry run needs none."""
    path = os.path.normpath(item.text("baseline_csv"))
    spec = spec._replace(baseline=GivenBaseline(path, item.line))
    if spec.dry_run or path.startswith("runs/"):
        return spec
    from pipeline.tree.run.nodes import baseline_mistake  # here: most specs give no results
    from pipeline.tree.targets.builder import TargetBuilder

    seen = signature(path)  # before it is read
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        item.wrong(f"baseline_csv: {path}: {error.strerror}; name a CSV with the results of the start")
    if why := baseline_mistake(TargetBuilder(spec).completeness_params(), path, content):
        raise SpecError(why)
    return spec._replace(sources={**spec.sources, path: seen})


def _check_truth(item: Item, measured: Sweep, repo: str) -> None:
    """Refuse what a judge apart would read of the code itself; of a repository, files that are not in it are fine."""
    if measured.judge is None or _is_repository(repo):
        return
    for path in (path for paths in measured.judge.reads.values() for path in paths):
        if os.path.realpath(path).startswith(f"{os.path.realpath(repo)}/"):
            dict(item.pairs("sweep"))["judge"].wrong(
                f"sweep: judge: reads: {path} lies in `repo:`, so that every candidate has it; put it beside {repo}, "
                "or name it without `reads:`, as a file of the judge's checkout"
            )


def _given_ideas(run: str) -> tuple[dict[str, int], frozenset[str]]:
    """The slots that a person gave an idea for; and their folder, which decides the plan, as it was before."""
    folder = RunLayout(run).of_run(GIVEN_IDEAS)
    sources = {folder: signature(folder)}
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sources, frozenset(name.removesuffix(".md") for name in names if name.endswith(".md"))


def _ceiling(top: Values, loop: Loop) -> Ceiling:
    """The most that an evaluation costs.  Without a word of it and without a model to pay, it is free."""
    per_eval = top["budget"]["per_eval"] if "budget" in top else None
    asked = [role for role in loop.roles.values() if role["backend"] in PAID_BACKENDS]
    free: dict[str, Any] = {} if asked else {"tokens": 0}
    free |= {} if any(role.get("price") != FREE_PRICE for role in asked) else {"usd": 0.0}
    return Ceiling(1, **{**free, **_amounts(per_eval)})


def _leavings(keys: Values) -> Leavings:
    return Leavings(keys["file_mb"], keys["change_mb"], tuple(keys["folders"]) if "folders" in keys else ())


def _amounts(given: Values | None) -> dict[str, Any]:
    names = {each.key: each.key.replace("time", "seconds") for each in AMOUNTS}
    return {name: given[key] for key, name in names.items() if key in given} if given else {}


def _budget_refusal(spec: TreeSpec, top: Values) -> str:
    """The mistake of a budget that no evaluation fits into, or that a role spends from and nobody knows how much.

    Searches were begun by such specs once: what is recorded of them can be read."""
    try:
        _check_per_eval(spec, top)
        _check_prices(spec, top)
    except SpecError as error:
        return str(error)
    return ""


def _check_per_eval(spec: TreeSpec, top: Values) -> None:
    for name, most in _amounts(top["budget"]).items():
        each, key = getattr(spec.ceiling, name), name.replace("seconds", "time")
        if each is not None and each > most:
            unit = f" {name}" if key == "time" else ""
            top["budget"]["per_eval"].wrong(
                key,
                f"budget: per_eval: {key}: {each:g}{unit} for one evaluation is more than the {most:g}{unit} of the "
                f"whole budget, so none could start; give `budget: {key}` {each:g} or more, or lower `per_eval`",
            )


def _check_prices(spec: TreeSpec, top: Values) -> None:
    if spec.budget.usd is None or spec.dry_run:
        return
    places = dict(top.at("roles").pairs("roles"))
    for name, role in spec.loop.roles.items():
        if is_price_unknown(role):
            told = "`usage: {usd: …}` if it prints its cost as JSON, " if role["backend"] == "command" else ""
            places[name].wrong(
                f"role {name}: `budget: usd` is {spec.budget.usd:g}, and nobody knows what {role['backend']} costs; "
                f"add `price: {{input: …, output: …}}` in USD for a million tokens, {told}or `price: {FREE_PRICE}`"
            )
        if isinstance(role.get("price"), dict) and role["backend"] == "command":
            lacking = [each for each in ("input_tokens", "output_tokens") if each not in role.get("usage", {})]
            if lacking and "usd" not in role.get("usage", {}):
                places[name].wrong(f"role {name}: `price:` needs tokens to count; add `usage: {{{lacking[0]}: …}}`")


def _check(spec: TreeSpec, top: Values) -> None:
    """Refuse what only shows when the keys are seen together."""
    shape, backends = spec.shape, {name: role["backend"] for name, role in spec.loop.roles.items()}
    evaluations = shape.slot_count
    if evaluations > MOST_EVALUATIONS:
        top.wrong(
            "max_depth",
            f"ideas_per_node, beam_width and max_depth make {evaluations} evaluations; {MOST_EVALUATIONS} is most",
        )
    if backends["coder"] == PATCHES and backends["ideas"] == MANUAL:
        top.wrong("roles", "roles: coder: patches needs recorded ideas; use manual, or what asks a model")
    if backends["coder"] == PATCHES and backends["ideas"] != PATCHES:
        top.wrong("roles", "roles: coder: patches applies the recorded changes of `ideas: {backend: patches, …}`")
    if spec.similar is not None and shape.dedupe_scope == "none":
        top.wrong("dedupe", "dedupe: similar compares nothing with `dedupe_scope: none`; drop one of them")
    paired = spec.rules.paired
    if paired and paired.alpha_over == RUN and paired.alpha * (paired.draws + 1) < shape.max_depth:
        top.wrong(
            "score" if "score" in top else "max_depth",
            f"score: alpha of {paired.alpha:g} over {shape.max_depth} depths needs more draws than {paired.draws}",
        )
    if spec.sweep.limit is not None and spec.sweep.grid is not None and spec.sweep.limit > spec.sweep.grid:
        top.wrong(
            "sweep_config_limit",
            f"sweep_config_limit: {spec.sweep.limit} is more than the {spec.sweep.grid} configs of the sweep",
        )


# --- Options of `coppice tree` that stand for keys of the spec.
OTHER_NAMES = {"threadpool": "threads"}  # on the command line alone


def _backend(item: Item, what: str) -> str:
    name: str = choice([*PARALLEL_BACKENDS, *OTHER_NAMES])(item, what)
    return OTHER_NAMES.get(name, name)


FLAGS = tuple(
    field._replace(read=Reader(_backend, {})) if field.key == "parallel_backend" else field for field in SPEC.flags
)
