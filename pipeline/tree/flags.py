"""Options of `coppice tree` that stand for keys of the spec, read as `read` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.declared import Flag, choice, flag
from pipeline.spec import Item
from pipeline.tree.ideas import SCOPES
from pipeline.tree.model import Shape
from pipeline.tree.read import BACKENDS, LARGEST, MOST

OTHER_NAMES = {"threadpool": "threads"}


def _count(least: int, most: int | None = None) -> Callable[[Item, str], Any]:
    return lambda item, what: item.count(what, least, most)


def _scope(item: Item, what: str) -> str:
    return choice(item, what, SCOPES)


def _backend(item: Item, what: str) -> str:
    name = choice(item, what, [*BACKENDS, *OTHER_NAMES])
    return OTHER_NAMES.get(name, name)


def _seconds(item: Item, what: str) -> float:
    return item.seconds(what)


_SHAPE = Shape._field_defaults
FLAGS = (
    Flag("ideas_per_node", _count(1, LARGEST), None, "K", "ideas tried on each node"),
    Flag("beam_width", _count(1, MOST), 1, "B", "nodes promoted at each depth [1]"),
    Flag("max_depth", _count(1, MOST), None, "D", "how many times nodes are promoted"),
    Flag("sweep_config_limit", _count(1), None, "N", "sweep and score only configs with an id below N"),
    Flag("max_total_idea_evals", _count(0), None, "M", "evaluations in all of the search at most"),
    Flag("stop_on_empty_frontier", flag, True, "", "stop when nothing is promoted [yes]", inverse=True),
    Flag("dedupe_scope", _scope, _SHAPE["dedupe_scope"], "SCOPE", f"what no idea may repeat: {', '.join(SCOPES)}"),
    Flag("keep_rejected_worktrees", flag, False, "", "keep checkouts of what was not promoted"),
    Flag("keep_failed_artifacts", flag, False, "", "keep what failed evaluations left"),
    Flag("max_parallel_evals", _count(1, MOST), 1, "N", "evaluations at the same time [1]"),
    Flag("max_parallel_per_node", _count(1), None, "N", "of these on one node"),
    Flag("parallel_backend", _backend, BACKENDS[0], "NAME", "threads, also called threadpool"),
    Flag("eval_retries", _count(0, MOST), 0, "N", "times that what failed for outer reasons is tried again [0]"),
    Flag("eval_timeout_seconds", _seconds, None, "S", "how long a command of an evaluation may take: 90, 90s, 10m, 2h"),
    Flag("strict_fail", flag, False, "", "stop the search at the end of a depth in which an evaluation failed"),
    Flag("dry_run", flag, False, "", "no model, no sweep: ideas, code and results are made up, always the same"),
)
