"""Options of `coppice mcts`: a scenario, and the policy by which goals are expanded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.declared import Flag, choice
from pipeline.mcts.options import OPTIONS, PREFIX
from pipeline.mcts.read import POLICIES

POLICY = "expansion_policy"
# By the key of a scenario.
OF_SCENARIO = {
    key: Flag(
        PREFIX + option.flag.replace("-", "_"),
        option.read,
        None,
        option.value,
        option.help,
        inverse=option.inverse,
    )
    for key, option in OPTIONS.items()
}
FLAGS = (
    *OF_SCENARIO.values(),
    Flag(
        PREFIX + POLICY,
        lambda item, what: choice(item, what, POLICIES),
        None,
        "NAME",
        "after what applies, other tactics are left for later, or all are tried: first-success or all-successes",
    ),
)
VARIABLES = ()


def of_scenario(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that tell of one, by its keys."""
    return {key: values[flag.key] for key, flag in OF_SCENARIO.items() if flag.key in values}
