"""YAML -> TreeSpec: the keys of `kind: tree`, and what must fit together among them.

The only reader of the kind that looks at the disk: `repo:` must be a folder, and may be a git repository or plain."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pipeline.spec import Item
from pipeline.spec_fields import boolean, choice, number
from pipeline.tree.rules.assignment import DEDUPE_SCOPES
from pipeline.tree.rules.budget import BudgetLimits, Ceiling
from pipeline.tree.rules.scoring import RUN
from pipeline.tree.spec.model import MANUAL, PATCHES, KeepKeys, Loop, ProtectKeys, SearchShape, TreeSpec
from pipeline.tree.spec.roles import read_roles
from pipeline.tree.spec.score import read_rules
from pipeline.tree.spec.sweep import read_cascade, read_checks, read_holdout, read_protect, read_sweep, read_tests

SHAPE = ("ideas_per_node", "beam_width", "max_depth", "dedupe_scope", "stop_on_empty_frontier", "strict_fail")
PACE = ("max_parallel_evals", "max_parallel_per_node", "parallel_backend", "eval_retries", "eval_timeout_seconds")
KEEP = ("keep_rejected_worktrees", "keep_failed_artifacts")
LOOP = ("roles", "max_review_rounds", "proceed_on_max_review_rounds", "constraints")
MONEY = ("max_total_idea_evals", "budget")
MEASURE = ("sweep", "sweep_config_limit", "tests", "checks", "metrics", "score", "protect", "cascade", "holdout")
KEYS = ("kind", "store", "repo", *SHAPE, *LOOP, *MEASURE, *MONEY, *PACE, *KEEP, "dry_run")
NEEDED_KEYS = ("kind", "repo", "ideas_per_node", "max_depth", "roles", "sweep", "metrics")
PARALLEL_BACKENDS = ("threads",)
MOST_EACH = 1000  # of each: a typo must not become a plan of millions of targets
MOST_EVALUATIONS = 50_000  # evaluations

Keys = dict[str, Item]


def read(item: Item, name: str) -> TreeSpec:
    top = item.fields("spec", KEYS, NEEDED_KEYS)
    timeout = top["eval_timeout_seconds"].seconds("eval_timeout_seconds") if "eval_timeout_seconds" in top else None
    repo, dry = _repo(top["repo"]), _flag(top, "dry_run", False)
    measured = read_sweep(top["sweep"], _count(top, "sweep_config_limit", 1), timeout)
    method = read_rules(top["metrics"], top.get("score"), measured.blocks is not None)
    held = None
    if "holdout" in top:
        measured, held = read_holdout(top["holdout"], measured, method.paired is not None)
    if "parallel_backend" in top:
        choice(top["parallel_backend"], "parallel_backend", PARALLEL_BACKENDS)
    spec = TreeSpec(
        name=name,
        line=item.line,
        repo=repo,
        plain=not _is_repository(repo),
        shape=_shape(top),
        loop=_loop(top),
        tests=read_tests(top["tests"], timeout) if "tests" in top else None,
        sweep=measured,
        rules=method,
        budget=_budget(top),
        ceiling=_ceiling(top),
        per_node=_count(top, "max_parallel_per_node", 1),
        parallel=_count(top, "max_parallel_evals", 1, MOST_EACH) or 1,
        retries=_count(top, "eval_retries", 0, MOST_EACH) or 0,
        keep=KeepKeys(*(_flag(top, key, False) for key in KEEP)),
        dry_run=dry,
        store=top["store"].text("store") or top["store"].wrong("store: expected a folder") if "store" in top else None,
        checks=read_checks(top["checks"], timeout) if "checks" in top else (),
        protect=read_protect(top["protect"]) if "protect" in top else ProtectKeys(),
        cascade=read_cascade(top["cascade"], measured, method.paired is not None) if "cascade" in top else None,
        holdout=held,
    )
    _check(spec, top)
    return spec


def _repo(item: Item) -> str:
    path = os.path.normpath(item.text("repo"))
    if not os.path.isdir(path):
        what = "is a file" if os.path.exists(path) else "does not exist"
        item.wrong(f"repo: {path} {what}; name a folder, the code that the search starts from")
    if not _is_repository(path) and os.path.realpath("runs").startswith(f"{os.path.realpath(path)}/"):
        item.wrong(
            f"repo: {path} holds runs/, which a search changes; name a folder beside it, or run `git init` there"
        )
    return path


def _is_repository(path: str) -> bool:
    return os.path.lexists(f"{path}/.git")


def _shape(top: Keys) -> SearchShape:
    return SearchShape(
        top["ideas_per_node"].count("ideas_per_node", 1, MOST_EVALUATIONS),
        _count(top, "beam_width", 1, MOST_EACH) or 1,
        top["max_depth"].count("max_depth", 1, MOST_EACH),
        choice(top["dedupe_scope"], "dedupe_scope", DEDUPE_SCOPES)
        if "dedupe_scope" in top
        else SearchShape._field_defaults[SHAPE[3]],
        _flag(top, "stop_on_empty_frontier", True),
        _flag(top, "strict_fail", False),
    )


def _loop(top: Keys) -> Loop:
    return Loop(
        read_roles(top["roles"]),
        _count(top, "max_review_rounds", 0, 20) or 0,
        _flag(top, "proceed_on_max_review_rounds", False),
        top["constraints"].text("constraints") if "constraints" in top else "",
    )


def _budget(top: Keys) -> BudgetLimits:
    given = _money(top["budget"], "budget", (*AMOUNTS, "per_eval")) if "budget" in top else {}
    return BudgetLimits(evals=_count(top, "max_total_idea_evals", 0), **given)


def _ceiling(top: Keys) -> Ceiling:
    """What an evaluation costs at most.  Without a word of it and without a model to pay, it is free."""
    inner = top["budget"].fields("budget", (*AMOUNTS, "per_eval")) if "budget" in top else {}
    given = _money(inner["per_eval"], "budget: per_eval", AMOUNTS) if "per_eval" in inner else {}
    paid = any(role["backend"] in ("command", "openai") for role in read_roles(top["roles"]).values())
    free: dict[str, Any] = {} if paid else {"usd": 0.0, "tokens": 0}
    return Ceiling(1, **{**free, **given})


AMOUNTS: dict[str, tuple[str, Callable[[Item, str], Any]]] = {
    "usd": ("usd", lambda item, what: number(item, what, 0)),
    "tokens": ("tokens", lambda item, what: item.count(what, 0)),
    "time": ("seconds", lambda item, what: item.seconds(what)),
}


def _money(item: Item, what: str, allowed: tuple[str, ...] | dict[str, Any]) -> dict[str, Any]:
    given = item.fields(what, tuple(allowed))
    amounts = {name: AMOUNTS[name] for name in given if name in AMOUNTS}
    return {field: read(given[name], f"{what}: {name}") for name, (field, read) in amounts.items()}


def _count(top: Keys, key: str, least: int, most: int | None = None) -> int | None:
    return top[key].count(key, least, most) if key in top else None


def _flag(top: Keys, key: str, default: bool) -> bool:
    return boolean(top[key], key) if key in top else default


def _check(spec: TreeSpec, top: Keys) -> None:
    """What only shows when the keys are seen together."""
    shape, backends = spec.shape, {name: role["backend"] for name, role in spec.loop.roles.items()}
    evaluations = shape.ideas_per_node * (1 + shape.beam_width * (shape.max_depth - 1))
    if evaluations > MOST_EVALUATIONS:
        top["max_depth"].wrong(
            f"ideas_per_node, beam_width and max_depth make {evaluations} evaluations; {MOST_EVALUATIONS} is most"
        )
    if backends["coder"] == PATCHES and backends["ideas"] == MANUAL:
        top["roles"].wrong("roles: coder: patches needs recorded ideas; use manual, command or openai")
    if backends["coder"] == PATCHES and backends["ideas"] != PATCHES:
        top["roles"].wrong("roles: coder: patches applies the recorded changes of `ideas: {backend: patches, …}`")
    paired = spec.rules.paired
    if paired and paired.alpha_over == RUN and paired.alpha * (paired.draws + 1) < shape.max_depth:
        top.get("score", top["max_depth"]).wrong(
            f"score: alpha of {paired.alpha:g} over {shape.max_depth} depths needs more draws than {paired.draws}"
        )
    if spec.sweep.limit is not None and spec.sweep.grid is not None and spec.sweep.limit > spec.sweep.grid:
        top["sweep_config_limit"].wrong(
            f"sweep_config_limit: {spec.sweep.limit} is more than the {spec.sweep.grid} configs of the sweep"
        )
