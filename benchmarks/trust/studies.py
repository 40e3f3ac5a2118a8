"""The studies, by the names that `--only` knows."""

from __future__ import annotations

from benchmarks.trust.best import BEST
from benchmarks.trust.cascade import CASCADE
from benchmarks.trust.cost import COST
from benchmarks.trust.coverage import COVERAGE
from benchmarks.trust.errors import ERRORS, SERIES
from benchmarks.trust.guards import GUARDS
from benchmarks.trust.momentum import MOMENTUM
from benchmarks.trust.power import POWER
from benchmarks.trust.repeats import REPEATS
from benchmarks.trust.runs import RUNS
from benchmarks.trust.study import Found, Params

STUDIES = {
    "errors": ERRORS,
    "series": SERIES,
    "power": POWER,
    "runs": RUNS,
    "cascade": CASCADE,
    "repeats": REPEATS,
    "guards": GUARDS,
    "best": BEST,
    "coverage": COVERAGE,
    "cost": COST,
    "momentum": MOMENTUM,
}


def cell(name: str, depths: int, params: Params) -> Found:
    return STUDIES[name].measure(depths, **params)
