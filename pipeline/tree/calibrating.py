"""A search held against noise before it is paid for: what it would promote by mistake, and what it would find."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.tree import reseeding
from pipeline.tree.calibrated import lines, warnings
from pipeline.tree.nulls import Nulls, nulls
from pipeline.tree.records import Record
from pipeline.tree.scoring import PAIRED
from pipeline.tree.weighing import level
from pipeline.trust.calibration import Cell, Rule, Share, measured, powered
from pipeline.trust.noninferiority import ERRORS, guard
from pipeline.trust.rounding import significant
from pipeline.trust.surrogates import FEWEST_BLOCKS, Noise, fit

__all__ = ["calibrate", "lines", "needed", "seeds"]

TIMES = (1, 2, 4)  # the blocks there are
OF_SMALLEST = (0.25, 0.5, 1.0, 2.0)
OF_ERROR = (1.0, 2.0, 3.0, 4.0)
DEPTHS, LEAST_DEPTHS, WORK = 2000, 200, 40_000  # where nobody says how many; at most so many ideas in all of them
POWER_DEPTHS = 0.25  # of those by which false promotions are counted


def seeds(run: str, targets: Sequence[Target], count: int) -> list[Target]:
    """The root measured again, where the spec allows it."""
    _check(run, _config(targets))
    return reseeding.with_seeds(run, targets, count)


def needed(run: str, again: Sequence[Target]) -> list[str]:
    """The targets that there must be; nothing that is paid for is among them or above them."""
    return [f"{run}:{reseeding.BASELINE}", *reseeding.asked(run, again)]


def calibrate(run: str, targets: Sequence[Target], again: Sequence[Target], depths: int, seed: int) -> Record:
    config = _config(targets)
    found = nulls(run, config, reseeding.results(run, again))
    rows = found.rows[config["primary"]]
    noise = fit(rows, found.states) if len(found.blocks) >= FEWEST_BLOCKS else None
    rule = _rule(config)
    record = {
        "run": run,
        "method": config["method"],
        "noise": _noise(found, noise, config["primary"]),
        "rule": {**rule._asdict(), "alpha_over": config["score"].get("alpha_over"), "max_depth": config["max_depth"]},
        "cells": [_cell(*each) for each in _cells(config, found, noise, rule, _Draws(depths, _seed(rows, seed)))],
        "guards": [*_guards(config, found)] if noise and rule.tested else [],
    }
    return record | {"warnings": warnings(record)}


def _config(targets: Sequence[Target]) -> Mapping[str, Any]:
    return next(target.params for target in targets if target.stage == "report")


def _check(run: str, config: Mapping[str, Any]) -> None:
    if not config["blocks"]:
        raise SpecError(
            f"{run}: only blocks tell chance from progress, and its sweep has none; say in `sweep: blocks:` what"
            " repeats a measurement (folds, seeds, periods), and write a row of results for each"
        )


def _rule(config: Mapping[str, Any]) -> Rule:
    """Of the first depth: of those after it the level is the same, or more when one before it left no place."""
    if config["method"] != PAIRED:
        return Rule(1.0, tested=False)
    score = config["score"]
    return Rule(level(config, []), score["smallest_effect"], config["ordered"], config["rho"])


class _Draws(NamedTuple):
    asked: int
    seed: int

    def depths(self, ideas: int) -> int:
        return self.asked or min(DEPTHS, max(LEAST_DEPTHS, WORK // ideas))


def _seed(rows: Sequence[Sequence[float]], seed: int) -> int:
    return int.from_bytes(sha256(json.dumps([rows, seed]).encode()).digest()[:8], "big")


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """How many ideas are weighed together: in the first depth those of one node, later those of the whole beam."""
    ideas, last = config["ideas_per_node"], config["max_depth"] - 1
    if config["beam_width"] == 1 or not last:
        yield (f"0-{last}" if last else "0"), ideas
        return
    yield "0", ideas
    yield (f"1-{last}" if last > 1 else "1"), ideas * config["beam_width"]


def _cells(
    config: Mapping[str, Any], found: Nulls, noise: Noise | None, rule: Rule, draws: _Draws
) -> Iterator[tuple[str, int, Cell]]:
    effects: Sequence[float] = ()
    for depths, ideas in _shapes(config) if noise else ():
        for times in TIMES:
            assert noise is not None
            count = draws.depths(ideas)
            cell = measured(noise, rule, ideas, times * len(found.blocks), count, draws.seed)
            effects = effects or _effects(rule, cell.error)
            if rule.tested:
                cell = powered(cell, noise, rule, effects, max(1, round(count * POWER_DEPTHS)), draws.seed)
            yield depths, times, cell


def _effects(rule: Rule, error: float) -> list[float]:
    """The same for any number of blocks."""
    unit, times = (rule.smallest_effect, OF_SMALLEST) if rule.smallest_effect else (error, OF_ERROR)
    return [float(f"{unit * each:.3g}") for each in times]


def _cell(depths: str, times: int, cell: Cell) -> Record:
    return {
        "depths": depths,
        "ideas": cell.ideas,
        "times": times,
        "blocks": cell.blocks,
        "passed": _share(cell.passed),
        "promoted": _share(cell.promoted),
        "error": significant(cell.error),
        "power": [
            {"effect": each.effect, "passed": _share(each.passed), "promoted": _share(each.promoted)}
            for each in cell.power
        ],
        "detectable": None if cell.detectable is None else significant(cell.detectable),
    }


def _share(share: Share) -> Record:
    low, high = share.interval
    return {"hits": share.hits, "of": share.of, "rate": share.rate, "low": round(low, 6), "high": round(high, 6)}


def _noise(found: Nulls, noise: Noise | None, metric: str) -> Record:
    about = {
        "metric": metric,
        "source": found.source,
        "rows": len(found.rows[metric]),
        "seeds": found.seeded,
        "configs": found.configs,
        "blocks": len(found.blocks),
    }
    if noise is None:
        return about
    told = {
        "size": noise.size,
        "neighbours": noise.seen_rho,
        "neighbours_error": noise.rho_error,
        "neighbours_used": noise.rho,
        "skewness": noise.skewness,
        "roughness": noise.rough,
        "level": noise.level,
    }
    return about | {name: significant(number) for name, number in told.items()}


def _guards(config: Mapping[str, Any], found: Nulls) -> Iterator[Record]:
    """What their margins are worth: that of a harmless change must be some standard errors."""
    for metric in config["metrics"]:
        if metric["guard"] and metric["name"] != config["primary"]:
            time = {"ordered": config["ordered"], "rho": config["rho"]}
            errors = [each.se for each in guard(found.deltas(metric["name"]), metric["margin"], **time)]
            error = (sum(each * each for each in errors) / len(errors)) ** 0.5
            yield {
                "name": metric["name"],
                "margin": metric["margin"],
                "error": significant(error),
                "least_margin": significant(ERRORS * error),
            }
