"""FLAGS: options of `coppice tree` that stand for keys of the spec, read as `read` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.spec import Item
from pipeline.spec_fields import SpecFlag, boolean, choice
from pipeline.tree.read import MOST_EACH, MOST_EVALUATIONS, PARALLEL_BACKENDS
from pipeline.tree.rules.assignment import DEDUPE_SCOPES
from pipeline.tree.spec.model import SearchShape

OTHER_NAMES = {"threadpool": "threads"}


def _count(least: int, most: int | None = None) -> Callable[[Item, str], Any]:
    return lambda item, what: item.count(what, least, most)


def _scope(item: Item, what: str) -> str:
    return choice(item, what, DEDUPE_SCOPES)


def _backend(item: Item, what: str) -> str:
    name = choice(item, what, [*PARALLEL_BACKENDS, *OTHER_NAMES])
    return OTHER_NAMES.get(name, name)


def _seconds(item: Item, what: str) -> float:
    return item.seconds(what)


_SHAPE = SearchShape._field_defaults
FLAGS = (
    SpecFlag("ideas_per_node", _count(1, MOST_EVALUATIONS), None, "K", "ideas tried on each node"),
    SpecFlag("beam_width", _count(1, MOST_EACH), 1, "B", "nodes promoted at each depth [1]"),
    SpecFlag("max_depth", _count(1, MOST_EACH), None, "D", "how many times nodes are promoted"),
    SpecFlag("sweep_config_limit", _count(1), None, "N", "sweep and score only configs with an id below N"),
    SpecFlag("max_total_idea_evals", _count(0), None, "M", "evaluations in all of the search at most"),
    SpecFlag("stop_on_empty_frontier", boolean, True, "", "stop when nothing is promoted [yes]", inverse=True),
    SpecFlag(
        "dedupe_scope", _scope, _SHAPE["dedupe_scope"], "SCOPE", f"what no idea may repeat: {', '.join(DEDUPE_SCOPES)}"
    ),
    SpecFlag("keep_rejected_worktrees", boolean, False, "", "keep checkouts of what was not promoted"),
    SpecFlag("keep_failed_artifacts", boolean, False, "", "keep what failed evaluations left"),
    SpecFlag("max_parallel_evals", _count(1, MOST_EACH), 1, "N", "evaluations at the same time [1]"),
    SpecFlag("max_parallel_per_node", _count(1), None, "N", "of these on one node"),
    SpecFlag("parallel_backend", _backend, PARALLEL_BACKENDS[0], "NAME", "threads, also called threadpool"),
    SpecFlag(
        "eval_retries", _count(0, MOST_EACH), 0, "N", "times that what failed for outer reasons is tried again [0]"
    ),
    SpecFlag(
        "eval_timeout_seconds", _seconds, None, "S", "how long a command of an evaluation may take: 90, 90s, 10m, 2h"
    ),
    SpecFlag("strict_fail", boolean, False, "", "stop the search at the end of a depth in which an evaluation failed"),
    SpecFlag("dry_run", boolean, False, "", "no model, no sweep: ideas, code and results are made up, always the same"),
)
