"""What commands about proofs do alike: what options and the environment say of a search."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import kinds
from pipeline.abilities import Flag
from pipeline.build.tree_flags import Typed, given
from pipeline.spec import parse

KIND = "proof"
FLAGS = kinds.flags(KIND)
VARIABLES = kinds.variables(KIND)
PROVING = kinds.able(KIND, kinds.PROVING)


def settled(command: str, spec: Any, params: Mapping[str, Any], variables: Sequence[Flag] = VARIABLES) -> Any:
    """Options go before the environment, that before the spec."""
    environment = {flag.key: _of_environment(flag) for flag in variables if os.environ.get(flag.variable, "")}
    typed = {each.flag.key: each.value for each in given(command, FLAGS, params)}
    return PROVING.overridden(spec, {**environment, **typed})


def _of_environment(flag: Flag) -> Any:
    text = os.environ[flag.variable]
    return flag.read(
        Typed("environment", parse(text.encode(errors="surrogateescape"), flag.variable).node), flag.variable
    )
