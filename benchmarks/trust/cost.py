"""What judging a depth costs, from the rows of all configs to the evidence."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.trust.shares import seeded
from benchmarks.trust.study import Found, Params, Promise, Study
from pipeline.trust.rule import weigh
from pipeline.trust.series import differences, reduce_configs

ROUNDS = 15
MOST = 20.0  # ms


def _grid(quick: bool) -> list[Params]:
    sizes = ((7, 100, 50),) if quick else ((1, 24, 10), (7, 24, 10), (7, 100, 50), (20, 100, 50))
    return [{"K": k, "configs": c, "B": b, "order": order} for k, c, b in sizes for order in ("none", "time")]


def _measure(_depths: int, K: int, configs: int, B: int, order: str) -> Found:  # noqa: N803 they are the columns' names
    rows = seeded("cost").standard_normal((K + 1, configs, B)).tolist()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        parent, *ideas = [reduce_configs(side) for side in rows]
        deltas = [differences(idea, parent) for idea in ideas]
        weigh(deltas, alpha=0.05, seed=1, ordered=order == "time", draws=10_000)
        spent.append(1000 * (time.process_time() - start))
    return {"CPU, ms": round(median(spent), 1), "the first, ms": round(spent[0], 1)}


def _promises(params: Params, found: Found) -> list[Promise]:
    if (params["K"], params["configs"], params["B"]) != (7, 100, 50):
        return []
    return [Promise(found["CPU, ms"] <= MOST, f"at most {MOST} ms: {found['CPU, ms']}")]


COST = Study("Cost of judging a depth with 10,000 draws, reduction over configs included", _grid, _measure, _promises)
