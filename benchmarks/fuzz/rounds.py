"""Rounds of disturbances and builds, and after each what must hold."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.fuzz import damage, meanwhile, moments, operations, specs
from benchmarks.fuzz.start import Start
from benchmarks.fuzz.tools import TOOLS
from benchmarks.fuzz.world import World, Wrong

ROUNDS_A_PROJECT = 8


class Failure(NamedTuple):
    """`seed` alone brings the project and its sequence back, as far as timing allows."""

    seed: int
    sequence: list[str]
    wrong: list[Wrong]
    folder: Path


class Summary(NamedTuple):
    """`rounds_with` says in how many rounds something happened, `wrong_with` in how many of those that went wrong."""

    counts: Counter[str]
    rounds_with: Counter[str]
    wrong_with: Counter[str]
    failures: list[Failure]
    slowest_end: float


def fuzz(rounds: int, seed: int, against: str, folder: Path, most_failures: int) -> Summary:
    """A new project every few rounds, each from a seed of its own."""
    worlds: list[World] = []
    failures: list[Failure] = []
    for number in range(0, rounds, ROUNDS_A_PROJECT):
        own = folder / str(seed)
        world = _project(seed, min(ROUNDS_A_PROJECT, rounds - number), against, own)
        worlds.append(world)
        if not world.wrong:
            shutil.rmtree(own)
        else:
            failures.append(Failure(seed, world.sequence, world.wrong, world.root))
            (own / "told").write_text(told(failures[-1]))
            if len(failures) == most_failures:
                break
        seed += 1
    return _summed(worlds, failures)


def _summed(worlds: list[World], failures: list[Failure]) -> Summary:
    counts = sum((world.counts for world in worlds), Counter[str]())
    rounds_with = Counter(name for world in worlds for happened in world.rounds for name in happened)
    wrong_with = Counter(name for world in worlds if world.wrong for name in world.rounds[-1])
    return Summary(counts, rounds_with, wrong_with, failures, max((world.slowest_end for world in worlds), default=0.0))


def _project(seed: int, rounds: int, against: str, folder: Path) -> World:
    world = World(folder, TOOLS[against](), Random(seed))
    try:
        for number in range(rounds):
            world.log(f"round {number + 1}")
            world.rounds.append(set())
            _round(world)
            world.counts["rounds"] += 1
            if world.wrong:
                break
    finally:
        world.end_all()
    return world


def _round(world: World) -> None:
    rng, ours = world.rng, world.tool.name == "coppice"
    happenings: Mapping[str, Any] = {**operations.FILES, **specs.SPECS, **(damage.RECORDS if ours else {})}
    builds: Mapping[str, Any] = {**moments.MOMENTS, **meanwhile.MOMENTS, **(damage.BAD_INPUTS if ours else {})}
    for _ in range(rng.choice((1, 1, 1, 2))):
        for _ in range(rng.randint(0, 4)):
            name = _drawn(rng, happenings)
            if said := happenings[name].do(world):
                world.begin(name)
                world.log(f"{name}: {said}")
        name = _drawn(rng, builds)
        world.begin(name)
        world.log(f"{name}:")
        builds[name].do(world)
    _settle(world)


def _drawn(rng: Random, table: Mapping[str, Any]) -> str:
    return rng.choices([*table], [entry.weight for entry in table.values()])[0]


def _settle(world: World) -> None:
    """A last build gives what a build from nothing gives, and after that there is nothing to do."""
    Start(world, world.rng.choice(([], ["run"], ["-n", "2"]))).end(0)
    for truth in world.truths().values():
        for path in truth.outputs:
            if how := world.differs(truth, path):
                world.find("wrong state", f"{path}: {how}")
    before = _signatures(world)
    for _ in range(world.rng.choice((1, 1, 1, 2))):
        again = Start(world, world.rng.choice(([], [], ["-n", "8"])))
        again.allowed = set()
        again.end(0)
    if _signatures(world) != before:
        world.find("not a no-op", "a build with nothing to do wrote outputs or receipts")
    world.all_gone()
    world.tool.check(world)
    if world.tool.name == "coppice" and world.rng.random() < 0.5:
        _all_fresh(world)


def _all_fresh(world: World) -> None:
    listed = Start(world, ["list", "--all", "--status"], idle=True)
    listed.end(0)
    stale = [line for line in listed.log.read_text().splitlines() if line and not line.startswith("U ")]
    if stale:
        world.find("list", f"not up to date: {stale}")


def _signatures(world: World) -> dict[str, tuple[int, int]]:
    receipts = [f"runs/{run.name}/.coppice/receipts" for run in world.project.runs]
    paths = [path for truth in world.truths().values() for path in truth.outputs]
    there = [world.root / path for path in (*receipts, *paths) if (world.root / path).exists()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in there}


def told(failure: Failure) -> str:
    return "\n".join([
        f"seed {failure.seed}, kept in {failure.folder}",
        *(f"  {line}" for line in failure.sequence),
        *(f"WRONG {wrong.kind}: {wrong.what}" for wrong in failure.wrong),
    ])  # fmt: skip


def _blamed(summary: Summary) -> dict[str, str]:
    """What happened in the rounds that went wrong, and in how many of all rounds with it; the worst first."""
    shares = {name: (wrong, summary.rounds_with[name]) for name, wrong in summary.wrong_with.items()}
    worst = sorted(shares.items(), key=lambda item: (-item[1][0] / item[1][1], -item[1][0]))
    return {name: f"{wrong} of {rounds}" for name, (wrong, rounds) in worst}


def report(summary: Summary, against: str, seed: int, seconds: float, cpu: float) -> str:
    kinds = Counter(kind for failure in summary.failures for kind in {wrong.kind for wrong in failure.wrong})
    return json.dumps(
        {
            "against": against,
            "seed": seed,
            "counts": dict(sorted(summary.counts.items())),
            "wrong": dict(sorted(kinds.items())),
            "rounds that went wrong with": _blamed(summary),
            "slowest end of all processes, seconds": round(summary.slowest_end, 2),
            "wall seconds": round(seconds, 1),
            "cpu seconds": round(cpu, 1),
            "rounds a cpu minute": round(60 * summary.counts["rounds"] / cpu, 1),
        },
        indent=1,
    )
