"""What a verdict by blocks is made from: a candidate, its parent and the root on the same configs and blocks.

Configs are reduced first: they share their data, so they are no repetitions of each other; blocks are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.tree.results import Checked, Defect, Row
from pipeline.trust.blocks import reduce


def by_block(rows: Sequence[Row], blocks: Sequence[str], metric: str) -> list[float]:
    """Means over the configs, of rows that are complete."""
    return reduce(by_config(rows, blocks, metric))


def by_config(rows: Sequence[Row], blocks: Sequence[str], metric: str) -> list[list[float]]:
    """A row a config, a column a block."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row.config_id, {})[row.block] = row.metrics[metric]
    return [[cells[block] for block in blocks] for cells in found.values()]


def other_seeds(own: Checked, parent: Checked) -> Iterator[Defect]:
    """A candidate that draws its luck anew is not measured on what its parent was measured on."""
    seeds = {(row.config_id, row.block): row.seed for row in parent.rows}
    for row in own.rows:
        if row.seed != (seed := seeds[row.config_id, row.block]):
            yield Defect(row.config_id, "seed", f"'{row.seed}' instead of the parent's '{seed}'", row.block)
