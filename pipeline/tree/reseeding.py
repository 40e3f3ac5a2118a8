"""The root measured again with other seeds: what then differs is chance, and nothing else.

Targets like those of its baseline, apart from the seed and from where they write.  No search is made from them: they
are built for `coppice calibrate` alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pipeline.core.graph import Ports, Target
from pipeline.tree.layout import CALIBRATED, Layout
from pipeline.tree.positions import AGAIN
from pipeline.tree.slots import ROOT

BASELINE = f"{ROOT}.sweep"
# What is decided or prepared before the root is measured.
BEFORE = {"root", "test", "checks", "protected"}
SEED = "seed"


def measuring(run: str, targets: Sequence[Target]) -> list[Target]:
    """The targets that make the root's baseline, in order."""
    writer = {path: target for target in targets for path in target.outputs}
    wanted = {f"{run}:{BASELINE}"}
    for target in reversed(targets):
        if target.name in wanted:
            above = (writer[path] for path in target.inputs if path in writer)
            wanted |= {each.name for each in above if each.stage not in BEFORE}
    return [target for target in targets if target.name in wanted]


def with_seeds(run: str, targets: Sequence[Target], count: int) -> list[Target]:
    """Nothing when the sweep does not take a seed."""
    known = measuring(run, targets)
    first = next((target.params[SEED] for target in known if SEED in target.params), None)
    return [] if first is None else [each for n in range(1, count + 1) for each in _again(run, known, n, first + n)]


def _again(run: str, known: Sequence[Target], number: int, seed: int) -> Iterator[Target]:
    folder, at = f"{Layout(run).of_run(CALIBRATED)}/{number}", f"{run}:{AGAIN}.seed.{number}"
    paths = {path: f"{folder}/{_within(run, path)}" for target in known for path in target.outputs}
    for target in known:
        own = target.name.removeprefix(f"{run}:{ROOT}.")
        yield target._replace(
            name=at if own == "sweep" else f"{at}.{own}",
            reads=_moved(target.reads, paths),
            writes=_moved(target.writes, paths),
            params={**target.params, SEED: seed} if SEED in target.params else target.params,
        )


def _within(run: str, path: str) -> str:
    folder = Layout(run).of_node(ROOT, "")
    return path.removeprefix(folder) if path.startswith(folder) else os.path.basename(path)


def _moved(ports: Ports, paths: dict[str, str]) -> Ports:
    return tuple((port, tuple(paths.get(path, path) for path in group)) for port, group in ports)


def asked(run: str, aside: Sequence[Target]) -> list[str]:
    """Names of those that end a measurement."""
    return [target.name for target in aside if target.name.removeprefix(f"{run}:{AGAIN}.seed.").isdigit()]


def results(run: str, aside: Sequence[Target]) -> list[str]:
    """The CSV of each seed, in order."""
    ends = {*asked(run, aside)}
    return [dict(target.writes)["csv"][0] for target in aside if target.name in ends]
