"""What a stage of `kind: mcts` is given that makes files of files."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.core.graph import Target


class Given(NamedTuple):
    target: Target
    reads: Mapping[str, Sequence[str]]
    writes: Mapping[str, Sequence[str]]
