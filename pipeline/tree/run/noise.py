"""Measure noise: run the root again with other seeds, or estimate it from evaluations.

A search that promotes such a difference promotes it by mistake.  The best source is the same code measured again with
other seeds; else the differences of evaluations to their parents, less their mean, which may be an effect; else the
differences of the baseline's configs to their mean, a stand-in.  The targets are like those of the baseline, apart from
the seed and their outputs' paths; they are built for `coppice calibrate` alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from pipeline.core.graph import Ports, Target
from pipeline.errors import SpecError
from pipeline.store.files import read_bytes
from pipeline.tree.rules.positions import CALIBRATION_FOLDER, CALIBRATION_PREFIX, ROOT, RunLayout, slots_of
from pipeline.tree.rules.scoring import SIGN, block_means, config_rows
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, check_rows, defects_text
from pipeline.tree.run.records import load_if_intact
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import Params
from pipeline.trust.series import differences, is_constant, reduce_configs

SEEDS, EVALUATIONS, CONFIGS, BLOCKS = "seeds", "evaluations", "configs", "blocks"
FEWEST_EVALUATIONS = 3
FEWEST_CONFIGS = 3

Rows = list[list[float]]  # a number a block


class NoiseSamples(NamedTuple):
    """Noise by metric, more is better.  `states`: rows are measurements, not differences.  `seed_count`: the seeds
    tried, of use or not.  `root`: the root's own numbers by block, for each metric."""

    source: str
    rows: Mapping[str, Rows]
    blocks: tuple[str, ...]
    configs: int
    seed_count: int
    root: Rows

    @property
    def states(self) -> bool:
        return self.source == SEEDS

    def deltas(self, metric: str) -> Rows:
        rows = self.rows[metric]
        return [differences(row, rows[0]) for row in rows[1:]] if self.states else rows


def find_noise(run: str, config: Params, again: Sequence[str]) -> NoiseSamples:
    """Find the best source of noise; `again`: the results with other seeds."""
    root, wanted, reseeded = _baselines(run, config, again)
    evaluations = _recorded_series(run, config, [*wanted.blocks])
    sources: dict[str, dict[str, Rows]] = {name: {} for name in (SEEDS, EVALUATIONS, CONFIGS, BLOCKS)}
    for metric in config["metrics"]:
        name, sign = metric["name"], SIGN[metric["better"]]
        measured = (block_means(each.rows, wanted.blocks, name) for each in (root, *reseeded))
        own, *others = ([sign * value for value in means] for means in measured)
        every = [differences(each[name]["own"], each[name]["parent"], sign) for each in evaluations]
        table = config_rows(root.rows, wanted.blocks, name)
        mean = reduce_configs(table)  # block by block: a move of all configs is no difference
        sources[SEEDS][name] = [own, *others] if others else []
        sources[EVALUATIONS][name] = [*map(_centred, every)] if len(every) >= FEWEST_EVALUATIONS else []
        off_the_mean = [_centred(differences(row, mean, sign)) for row in table]
        sources[CONFIGS][name] = off_the_mean if len(table) >= FEWEST_CONFIGS else []
        sources[BLOCKS][name] = [_centred(own)]
    best = next((name for name, rows in sources.items() if _moves(rows[config["primary"]])), BLOCKS)
    own_rows = [block_means(root.rows, wanted.blocks, metric["name"]) for metric in config["metrics"]]
    return NoiseSamples(best, sources[best], wanted.blocks, len(wanted.ids), len(again), own_rows)


def _moves(rows: Rows) -> bool:
    """True for rows that are not all zeros, nor all the same row."""
    return any(any(row) for row in rows) and (len(rows) == 1 or any(row != rows[0] for row in rows))


def _baselines(run: str, config: Params, again: Sequence[str]) -> tuple[CheckedRows, ExpectedRows, list[CheckedRows]]:
    """The root's rows, those that are expected, and the root's rows with other seeds."""
    path = RunLayout(run).csv(ROOT)
    if not os.path.exists(path):
        raise SpecError(f"{run}: there is no baseline yet; `coppice {run}:{ROOT}.sweep` measures it")
    sheets = {each: sheet_of(config, read_bytes(each)) for each in (path, *again)}
    wanted = expected_by_sheet(config, sheets[path])
    checked = {name: check_rows(sheet, wanted) for name, sheet in sheets.items()}
    for name, rows in checked.items():
        if rows.defects:
            raise SpecError(f"{name} is not complete: {defects_text(rows.defects)}")
    return checked[path], wanted, [checked[each] for each in again]


def _recorded_series(run: str, config: Params, blocks: Sequence[str]) -> list[Mapping[str, Any]]:
    """Series of evaluations that differ from their parent, by more than a constant; the same code counts once."""
    found: list[Mapping[str, Any]] = []
    seen: list[Any] = []
    for depth in range(config["max_depth"]):
        for slot in slots_of(depth, config["beam_width"], config["ideas_per_node"]):
            record = load_if_intact(RunLayout(run).of_eval(slot, "pairs.json"))
            if record is None or record["blocks"] != blocks or not record["series"]:
                continue
            series = record["series"][config["primary"]]
            if series not in seen and not is_constant(differences(series["own"], series["parent"])):
                seen.append(series)
                found.append(record["series"])
    return found


def _centred(row: Sequence[float]) -> list[float]:
    mean = fsum(row) / len(row)
    return differences(row, [mean] * len(row))


_TWO_PARTS = re.compile(r"([A-Za-z]*)([0-9]+)[^A-Za-z0-9]*([A-Za-z]*)([0-9]+)")
_REPEAT_WORDS = {"r", "rep", "repeat", "repetition", "round", "iter"}
_FOLD_WORDS = {"f", "fold", "k", "split", "cv"}


class RepeatsGuess(NamedTuple):
    """Repeats of a split that blocks may be.  `key`: what would say so in the spec; `by_name`: their names do;
    `listed`: so do the words in their names."""

    repeats: tuple[int, ...]
    key: str
    by_name: bool = False
    listed: bool = False


def guess_repeats(blocks: Sequence[str]) -> list[RepeatsGuess]:
    """Guesses of the repeats that blocks may be, by their names; or by their number, where names are numbers."""
    if all(name.isdigit() for name in blocks):
        counts = [n for n in range(2, len(blocks) // 2 + 1) if len(blocks) % n == 0]
        return [RepeatsGuess(tuple(b * n // len(blocks) for b in range(len(blocks))), str(n)) for n in counts]
    found = [_TWO_PARTS.fullmatch(name) for name in blocks]
    parts = [match.groups() for match in found if match]
    if len(parts) < len(blocks) or len({(a, c) for a, _, c, _ in parts}) != 1:
        return []
    firsts, lasts = ([*dict.fromkeys(part[place] for part in parts)] for place in (1, 3))
    if min(len(firsts), len(lasts)) < 2 or len(firsts) * len(lasts) != len({(b, d) for _, b, _, d in parts}):
        return []
    one, other = parts[0][0], parts[0][2]
    listed = {one.lower() in _REPEAT_WORDS: one, other.lower() in _REPEAT_WORDS: other}.get(True)
    guesses = []
    for place, names, word, pattern in ((1, firsts, one, f"^{one}([0-9]+)"), (3, lasts, other, f"{other}([0-9]+)$")):
        if listed is None or word == listed:
            is_listed = listed is not None and {one.lower(), other.lower()} & _FOLD_WORDS != set()
            numbers = tuple(names.index(part[place]) for part in parts)
            guesses.append(RepeatsGuess(numbers, f"'{pattern}'", True, is_listed))
    return guesses


BASELINE_TARGET = f"{ROOT}.sweep"
# Stages that come before the root is measured.
PREPARING_STAGES = {"root", "test", "checks", "protected"}
SEED_PARAM = "seed"


def measuring_targets(run: str, targets: Sequence[Target]) -> list[Target]:
    """The targets that make the root's baseline, in order."""
    writer = {path: target for target in targets for path in target.outputs}
    wanted = {f"{run}:{BASELINE_TARGET}"}
    for target in reversed(targets):
        if target.name in wanted:
            above = (writer[path] for path in target.inputs if path in writer)
            wanted |= {each.name for each in above if each.stage not in PREPARING_STAGES}
    return [target for target in targets if target.name in wanted]


def reseeded_targets(run: str, targets: Sequence[Target], count: int) -> list[Target]:
    """The targets that measure the root again, `count` times; none when the sweep does not take a seed."""
    base = measuring_targets(run, targets)
    first = next((target.params[SEED_PARAM] for target in base if SEED_PARAM in target.params), None)
    return [] if first is None else [each for n in range(1, count + 1) for each in _reseeded(run, base, n, first + n)]


def _reseeded(run: str, base: Sequence[Target], number: int, seed: int) -> Iterator[Target]:
    folder, at = f"{RunLayout(run).of_run(CALIBRATION_FOLDER)}/{number}", f"{run}:{CALIBRATION_PREFIX}.seed.{number}"
    inside = RunLayout(run).of_node(ROOT, "")
    outputs = [path for target in base for path in target.outputs]
    names = [path.removeprefix(inside) if path.startswith(inside) else os.path.basename(path) for path in outputs]
    paths = {path: f"{folder}/{name}" for path, name in zip(outputs, names, strict=True)}
    for target in base:
        own = target.name.removeprefix(f"{run}:{ROOT}.")
        yield target._replace(
            name=at if own == "sweep" else f"{at}.{own}",
            reads=_moved_ports(target.reads, paths),
            writes=_moved_ports(target.writes, paths),
            params={**target.params, SEED_PARAM: seed} if SEED_PARAM in target.params else target.params,
        )


def _moved_ports(ports: Ports, paths: dict[str, str]) -> Ports:
    return tuple((port, tuple(paths.get(path, path) for path in group)) for port, group in ports)


def seed_results(run: str, aside: Sequence[Target]) -> dict[str, str]:
    """The CSV of each seed, in order, by the name of the target that ends its measurement."""
    before = f"{run}:{CALIBRATION_PREFIX}.seed."
    return {each.name: dict(each.writes)["csv"][0] for each in aside if each.name.removeprefix(before).isdigit()}
