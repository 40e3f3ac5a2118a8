"""Table of workers: those that are built, those that are not, profiles of them, and how one is made.

A worker is `async (goal, timeout) -> WorkerResult`. It keeps to `timeout` seconds by itself and may raise anything.
When it is cancelled, it ends what it started before it lets the cancellation through.

The module of a built worker is imported when it is asked for. It has `CODE`, raised when the worker's results change,
and `worker_on(lean)`, which makes one. A worker that knows families of moves has `worker_on(lean, options)`, with the
families to use and the weight of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

from pipeline.errors import SpecError, did_you_mean
from pipeline.goals.bank import Goal
from pipeline.lean.model import Lean
from pipeline.proof.schedule.records import WorkerResult
from pipeline.proof.spec.model import StrategyWorker
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.tactics.moves import ALL_FAMILIES, FAMILIES

if TYPE_CHECKING:
    from pipeline.proof.run.attempt import Worker


# By name, what the worker does, and what that takes.
UNBUILT_WORKERS = {
    # `tactics`: the script that was found, not `search_proof` itself; `metadata`: the premises selected
    "copilot": (
        "runs LeanCopilot's search_proof",
        "a project that depends on LeanCopilot, through the backend leandojo",
    ),
    # `metadata`: `premises`, the names of those in the prompt
    "reprover": ("generates tactics from retrieved premises", "the models of ReProver and an index of premises"),
    # `subgoals`: the steps that are open; success only when none is, for a plausible sketch is no proof
    "sketch": (
        "asks a model for the steps of a proof",
        "a model to ask, and a search that proves the steps as goals of their own",
    ),
}
BUILT_WORKERS = ("micro",)
WORKERS = (*BUILT_WORKERS, *UNBUILT_WORKERS)
# By ORCH_PROFILE; a number above the last is the last.
PROFILES = (("micro",), ("micro", "copilot", "sketch"), WORKERS)


def profile_workers(number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The built workers of a profile, and those not built: the caller warns of these once."""
    names = PROFILES[min(number, len(PROFILES) - 1)]
    return tuple(n for n in names if n in BUILT_WORKERS), tuple(n for n in names if n in UNBUILT_WORKERS)


def check_worker_built(name: str) -> None:
    """Raise a SpecError where there is no such worker, before anything runs; the reader of the spec adds the line."""
    if name in UNBUILT_WORKERS:
        does, takes = UNBUILT_WORKERS[name]
        raise SpecError(f"worker '{name}' is not built yet: it {does}, which takes {takes}")
    if name not in BUILT_WORKERS:
        raise SpecError(f"worker '{name}' is unknown{did_you_mean(name, WORKERS)}")


def worker_code(way: StrategyWorker) -> str:
    """Everything that decides an attempt, besides goal, budget and Lean."""
    return " ".join([str(_worker_module(way.worker).CODE), *way.families])


def make_workers(
    strategies: Iterable[str], params: Mapping[str, Any], lean: Lean, seeds: Mapping[str, str]
) -> dict[str, Worker]:
    """Workers by strategy, from the params of a target. `seeds`: of goals; another one tries moves in another order."""

    def make(way: StrategyWorker, seed: str) -> Worker:
        options = [search_options(way, seed)] if way.families or seed else []
        worker: Worker = _worker_module(way.worker).worker_on(lean, *options)
        return worker

    ways = {name: StrategyWorker(**params.get("ways", {}).get(name, {"worker": name})) for name in strategies}
    return {name: seeded_worker(partial(make, way), seeds) for name, way in ways.items()}


def seeded_worker(make: Callable[[str], Worker], seeds: Mapping[str, str]) -> Worker:
    """A worker that does at a goal as one made with the goal's seed."""
    made = cache(make)

    async def run(goal: Goal, timeout: float) -> WorkerResult:
        return await made(seeds.get(goal.id, ""))(goal, timeout)

    return run


def search_options(way: StrategyWorker, seed: str) -> SearchOptions:
    """A seed makes each family up to twice as dear or as cheap: nothing else in the search is random."""
    rng = Random(seed)
    weights = {family: 2 ** rng.uniform(-1, 1) for family in FAMILIES} if seed else {}
    return SearchOptions(frozenset(way.families) or ALL_FAMILIES, weights)


def _worker_module(worker: str) -> Any:
    return import_module(f"pipeline.proof.workers.{worker}")
