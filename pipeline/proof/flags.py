"""Options of `coppice bank` and `bg`, and variables of the environment, that go before what a spec says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.banks.read import share
from pipeline.declared import Flag
from pipeline.proof.read import MOST_AT_ONCE, cpu_target, whole_timeout
from pipeline.spec import Item


def _count(least: int, most: int | None = None) -> Callable[[Item, str], Any]:
    return lambda item, what: item.count(what, least, most)


FLAGS = (
    Flag("profile", _count(0), 1, "N", "strategies: 0 micro, 1 and copilot and sketch, 2 all of them", "ORCH_PROFILE"),
    Flag("timeout", whole_timeout, None, "S", "how long all of it may take: 90, 90s, 10m, 2h"),
)
VARIABLES = (
    *(flag for flag in FLAGS if flag.variable),
    Flag("cpu_target", cpu_target, 0.5, "X", "load per CPU above which attempts start more slowly", "ORCH_CPU_TARGET"),
    Flag("max_light", _count(1, MOST_AT_ONCE), 8, "N", "attempts at easy goals at once", "ORCH_MAX_LIGHT"),
    Flag("max_heavy", _count(1, MOST_AT_ONCE), 2, "N", "attempts at hard goals at once", "ORCH_MAX_HEAVY"),
    Flag("escalate_threshold", share, 0.6, "X", "difficulty of a hard goal", "ORCH_ESCALATE_THRESHOLD"),
)
