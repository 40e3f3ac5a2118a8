"""What `coppice calibrate` tells of noise whose truth is known: `python -m benchmarks.trust_calibration [--quick]`

Of each process many baselines are drawn, and each is calibrated by itself.  Beside what they tell on average is the
truth: depths of ideas without effect that the process itself makes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from pipeline.trust.calibration import Proportion, Rule, SimulatedSetting, measure_promotions, with_power
from pipeline.trust.noise import Noise, fit_noise

ALPHA, IDEAS, SEEDS, EVALUATIONS = 0.05, 7, 6, 7
EFFECT = 3.0  # true standard errors
AGREES = 2.0  # percent: how far what is told may be from the truth, on average, for normal noise

Array = Any


class Process(NamedTuple):
    """`rho`: of neighbouring blocks; `ordered`: whether the spec says so; `level`: moves all blocks of a state."""

    draw: Callable[[np.random.Generator, tuple[int, ...]], Array]
    rho: float = 0.0
    ordered: bool = False
    level: float = 0.0

    def states(self, rng: np.random.Generator, count: int, rows: int, blocks: int) -> Array:
        x = self.draw(rng, (count, rows, blocks))
        for b in range(1, blocks if self.rho else 0):
            x[..., b] = self.rho * x[..., b - 1] + (1 - self.rho**2) ** 0.5 * x[..., b]
        return x + self.level * rng.standard_normal((count, rows, 1))

    def deltas(self, rng: np.random.Generator, count: int, ideas: int, blocks: int) -> Array:
        states = self.states(rng, count, ideas + 1, blocks)
        return states[:, 1:] - states[:, :1]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


PROCESSES = {
    "normal": Process(normal),
    "t3": Process(lambda rng, shape: rng.standard_t(3, shape) / 3**0.5),
    "left-skewed": Process(lambda rng, shape: 1 - rng.standard_exponential(shape)),
    "AR(1) .4, taken for unordered": Process(normal, 0.4),
    "AR(1) .4, `order: time`": Process(normal, 0.4, ordered=True),
    "seeds move all blocks, by .5": Process(normal, level=0.5),
}


class Told(NamedTuple):
    """Of all baselines: false promotions and power on average, and in how many the rule was said to be broken."""

    false: list[float]
    found: list[float]
    broken: Proportion


def calibrated(noises: list[Noise], rule: Rule, blocks: int, effect: float, depths: int) -> Told:
    cells = [measure_promotions(noise, rule, IDEAS, blocks, depths, i) for i, noise in enumerate(noises)]
    power = [powered_at(*pair, rule, effect, depths // 4, i) for i, pair in enumerate(zip(cells, noises, strict=True))]
    broken = sum(cell.passed.interval[0] > ALPHA for cell in cells)
    return Told([cell.passed.rate for cell in cells], power, Proportion(broken, len(cells)))


def powered_at(cell: SimulatedSetting, noise: Noise, rule: Rule, effect: float, depths: int, seed: int) -> float:
    return with_power(cell, noise, rule, [effect], depths, seed).power[0].passed.rate


def row(name: str, source: str, blocks: int, baselines: int, depths: int) -> tuple[list[str], float]:
    """The line of the table, and how far what is told is from the truth."""
    process, rng = PROCESSES[name], np.random.default_rng(blocks)
    rule = Rule(ALPHA, ordered=process.ordered)
    truth = process.deltas(rng, 4000, IDEAS, blocks)
    effect = EFFECT * float(truth.mean(axis=2).std())
    true = [share(rule.passes(truth, 1).any(axis=1)), share(rule.passes(planted(truth, effect), 1)[:, 0])]
    if source == "seeds":
        drawn = process.states(rng, baselines, SEEDS, blocks)
    else:
        drawn = process.deltas(rng, baselines, EVALUATIONS, blocks)
    noises = [noise for rows in drawn if (noise := fit_noise(rows, states=source == "seeds"))]
    told = calibrated(noises, rule, blocks, effect, depths)
    cells = [name, source, str(blocks), shown(true[0]), average(told.false), f"{100 * true[1].rate:.0f}"]
    off = 100 * abs(float(np.mean(told.false)) - true[0].rate)
    return [*cells, average(told.found), shown(told.broken)], off


def planted(depths: Array, effect: float) -> Array:
    found = depths.copy()
    found[:, 0] += effect
    return found


def share(hits: Array) -> Proportion:
    return Proportion(int(hits.sum()), len(hits))


def shown(found: Proportion) -> str:
    low, high = found.interval
    return f"{100 * found.rate:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def average(rates: list[float]) -> str:
    error = float(np.std(rates, ddof=1)) / len(rates) ** 0.5
    return f"{100 * np.mean(rates):.1f} ± {196 * error:.1f}"


HEAD = ["noise", "from", "blocks", "false promotions, %: true", "told", f"power at {EFFECT:g} SE, %: true", "told"]
HEAD += ["baselines that are warned, %"]


def grid(quick: bool) -> Iterator[tuple[str, str, int]]:
    for name, process in PROCESSES.items():
        for source in ("seeds", "evaluations"):
            if source == "seeds" or not process.level:  # evaluations cannot tell a level from an effect
                yield from ((name, source, blocks) for blocks in ((20,) if quick else (10, 20, 50)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust_calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 blocks only, 30 baselines")
    asked = parser.parse_args()
    baselines, depths = (30, 400) if asked.quick else (100, 400)
    print(f"## Calibration: {IDEAS} ideas, alpha 5 %, {baselines} baselines, {depths} made-up depths for each\n")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    start, missed = time.process_time(), 0
    for name, source, blocks in grid(asked.quick):
        cells, off = row(name, source, blocks, baselines, depths)
        missed += name == "normal" and off > AGREES
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{time.process_time() - start:.0f} s CPU")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
