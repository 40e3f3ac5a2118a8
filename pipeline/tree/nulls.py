"""Where differences that mean nothing are found: what a search would promote of them is promoted by mistake.

Best is the same code measured again with other seeds.  Else what evaluations differ from their parents by, less the
mean, which may be an effect.  Else how configs of the baseline differ from their mean: a stand-in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from pipeline.errors import SpecError
from pipeline.tree.judging import sheet, wanted_by
from pipeline.tree.layout import Layout
from pipeline.tree.pairs import by_block, by_config
from pipeline.tree.records import load_if_whole, read_bytes
from pipeline.tree.results import Checked, Expected, complete, told
from pipeline.tree.scoring import SIGN
from pipeline.tree.slots import ROOT, slots_of
from pipeline.trust.blocks import differences, reduce
from pipeline.trust.rounding import steady

SEEDS, EVALUATIONS, CONFIGS, BLOCKS = "seeds", "evaluations", "configs", "blocks"
FEWEST_EVALUATIONS = 3
FEWEST_CONFIGS = 3

Rows = list[list[float]]  # a number a block


class Nulls(NamedTuple):
    """`rows` by metric, more is better; `states`: they are measurements, not differences.  `seeded`: how many seeds
    were tried, be they of use or not."""

    source: str
    rows: Mapping[str, Rows]
    blocks: tuple[str, ...]
    configs: int
    seeded: int

    @property
    def states(self) -> bool:
        return self.source == SEEDS

    def deltas(self, metric: str) -> Rows:
        rows = self.rows[metric]
        return [differences(row, rows[0]) for row in rows[1:]] if self.states else rows


class Baseline(NamedTuple):
    """The root's results, and those with other seeds."""

    checked: Checked
    wanted: Expected
    again: tuple[Checked, ...]


def nulls(run: str, config: Mapping[str, Any], again: Sequence[str]) -> Nulls:
    """`again`: the results with other seeds."""
    base = _baseline(run, config, again)
    signs = {metric["name"]: SIGN[metric["better"]] for metric in config["metrics"]}
    sources = {SEEDS: _seeds(base, signs), EVALUATIONS: _evaluations(run, config, base.wanted.blocks, signs)}
    sources |= {CONFIGS: _configs(base, signs), BLOCKS: _blocks(base, signs)}
    found = next((name for name, rows in sources.items() if _moves(rows[config["primary"]])), BLOCKS)
    return Nulls(found, sources[found], base.wanted.blocks, len(base.wanted.ids), len(again))


def _moves(rows: Rows) -> bool:
    """Is there anything but zeros, or more than one and the same row?"""
    return any(any(row) for row in rows) and (len(rows) == 1 or any(row != rows[0] for row in rows))


def _baseline(run: str, config: Mapping[str, Any], again: Sequence[str]) -> Baseline:
    path = Layout(run).csv(ROOT)
    if not os.path.exists(path):
        raise SpecError(f"{run}: there is no baseline yet; `coppice {run}:{ROOT}.sweep` measures it")
    root = sheet(config, read_bytes(path))
    wanted = wanted_by(config, root)
    sheets = {path: root, **{each: sheet(config, read_bytes(each)) for each in again}}
    found = {path: complete(each, wanted) for path, each in sheets.items()}
    for name, checked in found.items():
        if checked.defects:
            raise SpecError(f"{name} is not complete: {told(checked.defects)}")
    return Baseline(found[path], wanted, tuple(found[each] for each in again))


def _seeds(base: Baseline, signs: Mapping[str, float]) -> dict[str, Rows]:
    states = [base.checked, *base.again] if base.again else []
    return {name: [_series(each, base.wanted, name, sign) for each in states] for name, sign in signs.items()}


def _series(checked: Checked, wanted: Expected, metric: str, sign: float) -> list[float]:
    return [sign * value for value in by_block(checked.rows, wanted.blocks, metric)]


def _evaluations(
    run: str, config: Mapping[str, Any], blocks: Sequence[str], signs: Mapping[str, float]
) -> dict[str, Rows]:
    records = [*_measured(run, config, [*blocks])]
    found: dict[str, Rows] = {}
    for name, sign in signs.items():
        every = [differences(each[name]["own"], each[name]["parent"], sign) for each in records]
        found[name] = [_centred(row) for row in every]
    return found if len(records) >= FEWEST_EVALUATIONS else {name: [] for name in signs}


def _measured(run: str, config: Mapping[str, Any], blocks: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Series of evaluations that differ from their parent, and not alike in all blocks; the same code counts once."""
    seen: list[Any] = []
    for depth in range(config["max_depth"]):
        for slot in slots_of(depth, config["beam_width"], config["ideas_per_node"]):
            record = load_if_whole(Layout(run).of_eval(slot, "pairs.json"))
            if record is None or record["blocks"] != blocks or not record["series"]:
                continue
            series = record["series"][config["primary"]]
            if series not in seen and not steady(differences(series["own"], series["parent"])):
                seen.append(series)
                yield record["series"]


def _configs(base: Baseline, signs: Mapping[str, float]) -> dict[str, Rows]:
    if len(base.wanted.ids) < FEWEST_CONFIGS:
        return {name: [] for name in signs}
    rows, blocks = base.checked.rows, base.wanted.blocks
    return {name: _off_the_mean(by_config(rows, blocks, name), sign) for name, sign in signs.items()}


def _off_the_mean(rows: Rows, sign: float) -> Rows:
    """Block by block, so that what moves all configs is no difference."""
    means = reduce(rows)
    return [_centred(differences(row, means, sign)) for row in rows]


def _blocks(base: Baseline, signs: Mapping[str, float]) -> dict[str, Rows]:
    return {name: [_centred(_series(base.checked, base.wanted, name, sign))] for name, sign in signs.items()}


def _centred(row: Sequence[float]) -> list[float]:
    mean = fsum(row) / len(row)
    return differences(row, [mean] * len(row))
