"""The studies, by the names that `--only` knows."""

from __future__ import annotations

from benchmarks.trust.errors import ERRORS, SERIES
from benchmarks.trust.power import POWER
from benchmarks.trust.runs import RUNS
from benchmarks.trust.study import Found, Params

STUDIES = {"errors": ERRORS, "series": SERIES, "power": POWER, "runs": RUNS}


def cell(name: str, depths: int, params: Params) -> Found:
    return STUDIES[name].measure(depths, **params)
