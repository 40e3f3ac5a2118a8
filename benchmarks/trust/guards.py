"""Guards: how often a metric passes that is worse by exactly its margin, and how often one that is unharmed.

Beside the product's guard, which learns rho and skewness from all ideas of the depth: what comes of learning them from
the one idea, of a rho that is known, of taking blocks in time order for unordered, of leaving the skewness out."""

from __future__ import annotations

from benchmarks.trust.errors import chunks
from benchmarks.trust.shares import Share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array, World
from pipeline.trust.distributions import t_quantile
from pipeline.trust.noninferiority import PASSED, judge_guard

IDEAS = 7
MARGIN = 3.0  # standard errors
PROMISED = 5.0


def _grid(quick: bool) -> list[Params]:
    noises = ("normal",) if quick else ("normal", "t3", "left")
    rhos = (0.0, 0.4) if quick else (0.0, 0.2, 0.4)
    cells = [{"noise": noise, "rho": rho, "B": b} for noise in noises for rho in rhos for b in (10, 20, 50)]
    return [cell | {"truth": truth} for truth in ("worse by the margin", "unharmed") for cell in cells]


def _measure(depths: int, noise: str, rho: float, B: int, truth: str) -> Found:  # noqa: N803 they are the columns' names
    counts: dict[str, int] = {}
    for deltas, error in chunks(World(IDEAS, B, noise, rho), depths, "guards", truth):
        blocks = deltas.mean(axis=2)
        margins = MARGIN * error[:, 0]
        blocks[:, 0] -= margins[:, None] * (truth != "unharmed")
        for depth, margin in zip(blocks, margins, strict=True):
            for name, passed in _ways(depth, float(margin), rho).items():
                counts[name] = counts.get(name, 0) + passed
    return {name: Share(count, depths) for name, count in counts.items()}


def _ways(depth: Array, margin: float, rho: float) -> dict[str, bool]:
    ideas, ordered = depth.tolist(), rho > 0
    ways = {
        "coppice": judge_guard(ideas, margin, ordered=ordered)[0],
        "by this idea alone": judge_guard(ideas[:1], margin, ordered=ordered)[0],
        "rho given": judge_guard(ideas, margin, ordered=ordered, rho=rho)[0],
        "taken for unordered": judge_guard(ideas, margin)[0],
    }
    passed = {name: found.verdict == PASSED for name, found in ways.items()}
    own = ways["coppice"]
    return passed | {"without skew guard": (own.mean + margin) / own.se > t_quantile(0.95, own.df)}


def _promises(params: Params, found: Found) -> list[Promise]:
    if params["noise"] != "normal" or params["truth"] == "unharmed" or (params["rho"] and params["B"] < 20):
        return []
    return [Promise(found["coppice"].within(PROMISED), f"passes at most {PROMISED} %: {found['coppice']}")]


GUARDS = Study(f"Guards that pass, %, with a margin of {MARGIN:.0f} SE", _grid, _measure, _promises)
