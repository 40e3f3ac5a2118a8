"""Workers by name: those that are built, those that are not, profiles of them, and how one is made.

A worker is `async run_<name>(goal, timeout) -> WorkerResult`. It keeps to `timeout` seconds by itself, may raise what
it likes, and when cancelled ends what it started before it lets the cancellation through.

The module of a built worker is imported when it is asked for. It has `CODE`, raised when what the worker does
changes, and `worker_on(lean)`, which makes one; where it knows families of moves, `worker_on(lean, options)` does,
with those to use and what each counts.

Not built, their interface settled: `copilot`, LeanCopilot's search for a proof run as a tactic in the project's own
Lean; `reprover`, premises retrieved for a goal and tactics generated from both; `sketch`, a model's steps of a proof,
each a goal of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import SpecError, did_you_mean
from pipeline.goals.bank import Goal
from pipeline.lean.model import Lean
from pipeline.proof.schedule.records import WorkerResult
from pipeline.proof.spec.model import StrategyWorker
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.tactics.moves import ALL_FAMILIES, FAMILIES

if TYPE_CHECKING:
    from pipeline.proof.run.attempt import Worker


class WorkerNotBuilt(SpecError):
    """A spec asks for it."""


class UnbuiltWorker(NamedTuple):
    """What it will do, and what that takes."""

    name: str
    does: str
    takes: str

    def error(self) -> WorkerNotBuilt:
        return WorkerNotBuilt(f"worker '{self.name}' is not built yet: it {self.does}, which takes {self.takes}")


COPILOT = UnbuiltWorker(
    "copilot", "runs LeanCopilot's search_proof", "a project that depends on LeanCopilot, through the backend leandojo"
)


async def run_copilot(goal: Goal, timeout: float) -> WorkerResult:  # noqa: ARG001 the interface as it is documented
    """`tactics` is the script that the search found, not `search_proof` itself; `metadata` the premises it selected."""
    raise COPILOT.error()


REPROVER = UnbuiltWorker(
    "reprover", "generates tactics from retrieved premises", "the models of ReProver and an index of premises"
)


async def run_reprover(goal: Goal, timeout: float) -> WorkerResult:  # noqa: ARG001 the interface as it is documented
    """`tactics` is the script; `metadata` has `premises`, the names of those that were in the prompt."""
    raise REPROVER.error()


SKETCH = UnbuiltWorker(
    "sketch",
    "asks a model for the steps of a proof",
    "a model to ask, and a search that proves the steps as goals of their own",
)


async def run_sketch(goal: Goal, timeout: float) -> WorkerResult:  # noqa: ARG001 the interface as it is documented
    """`subgoals` are the steps that are open; success only when none is, so that a plausible sketch is no proof."""
    raise SKETCH.error()


BUILT_WORKERS = ("micro",)
UNBUILT_WORKERS = {lacking.name: lacking for lacking in (COPILOT, REPROVER, SKETCH)}
WORKERS = (*BUILT_WORKERS, *UNBUILT_WORKERS)
# By ORCH_PROFILE; more than the last is the last.
PROFILES = (("micro",), ("micro", "copilot", "sketch"), WORKERS)


def profile_workers(number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Its workers that there are, and those that are not built: whoever runs the profile says so once."""
    names = PROFILES[min(number, len(PROFILES) - 1)]
    return tuple(name for name in names if name in BUILT_WORKERS), tuple(
        name for name in names if name in UNBUILT_WORKERS
    )


def check_worker_built(name: str) -> None:
    """A SpecError where there is no such worker, before anything runs; whoever reads the spec adds the line."""
    if name in UNBUILT_WORKERS:
        raise UNBUILT_WORKERS[name].error()
    if name not in BUILT_WORKERS:
        raise SpecError(f"worker '{name}' is unknown{did_you_mean(name, WORKERS)}")


def worker_code(way: StrategyWorker) -> str:
    """What decides an attempt, besides goal, budget and Lean."""
    return " ".join([str(_worker_module(way.worker).CODE), *way.families])


def make_workers(strategies: Iterable[str], params: Mapping[str, Any], lean: Lean, seed: str = "") -> dict[str, Worker]:
    """By strategy; `params` are those of the target.  With another seed, moves are tried in another order."""
    ways = {name: StrategyWorker(**way) for name, way in params.get("ways", {}).items()}
    return {name: _make_worker(ways.get(name, StrategyWorker(name)), lean, seed) for name in strategies}


def sample_workers(by_sample: Mapping[int, Mapping[str, Worker]], samples: Mapping[str, int]) -> dict[str, Worker]:
    """Workers that do what those of the goal's sample do; `samples` has its number."""

    def of(strategy: str) -> Worker:
        async def run(goal: Goal, timeout: float) -> WorkerResult:
            return await by_sample[samples[goal.id]][strategy](goal, timeout)

        return run

    return {strategy: of(strategy) for strategy in by_sample[0]}


def _make_worker(way: StrategyWorker, lean: Lean, seed: str) -> Worker:
    options = [search_options(way, seed)] if way.families or seed else []
    worker: Worker = _worker_module(way.worker).worker_on(lean, *options)
    return worker


def search_options(way: StrategyWorker, seed: str) -> SearchOptions:
    """Seeds make families up to twice as dear or as cheap: a search by general moves has no other chance in it."""
    rng = Random(seed)
    weights = {family: 2 ** rng.uniform(-1, 1) for family in FAMILIES} if seed else {}
    return SearchOptions(frozenset(way.families) or ALL_FAMILIES, weights)


def _worker_module(worker: str) -> Any:
    return import_module(f"pipeline.proof.workers.{worker}")
