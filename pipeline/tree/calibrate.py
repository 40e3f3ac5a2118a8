"""Calibration: how often a search promotes noise and finds an effect, as a record and as text.

It runs before anything is paid for.  Noise comes from `run/noise.py`; the rule is that of the first depth (at later
ones its level is the same, or higher when a depth before left no place).  Cells: ideas x 1, 2, 4 times the blocks.
Imports numpy through `trust`; only `coppice calibrate` imports this module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from pipeline.core.graph import Target
from pipeline.core.text import plural
from pipeline.errors import SpecError
from pipeline.tree.rules.scoring import PAIRED, RUN
from pipeline.tree.run import noise as run_noise
from pipeline.tree.run.noise import BLOCKS, CONFIGS, EVALUATIONS, SEEDS, NoiseSamples, Rows, find_noise, guess_repeats
from pipeline.tree.run.records import Record
from pipeline.tree.run.verdicts import alpha_for_depth, dependence_params
from pipeline.tree.spec.model import Params
from pipeline.tree.targets.builder import planned_config
from pipeline.trust.calibration import Proportion, Rule, SimulatedSetting, measure_promotions, with_power
from pipeline.trust.distributions import t_quantile
from pipeline.trust.evidence import FEWEST_BLOCKS, POWER
from pipeline.trust.noise import FEWEST_NOISE_BLOCKS, Noise, fit_noise, likeness_of_repeats
from pipeline.trust.noninferiority import MARGIN_ERRORS, judge_guard
from pipeline.trust.series import round_significant

LEANING = -0.5  # the skewness from which on a warning says that blocks lean
UNTOLD_FROM = 0.05  # at most so often chance makes repeats as alike; then blocks are taken for repeats of a split
CROWDED = 1.75  # times the effect that one idea alone needs; from then on there is a warning

SOURCE_SENTENCES = {
    SEEDS: "{rows} measurements of the root, each with its seed ({blocks} blocks of {configs}): they differ by chance",
    EVALUATIONS: "{rows} evaluations of this run ({blocks} blocks of {configs}): how each differs from its parent, less"
    " the mean, which may be an effect",
    CONFIGS: "the baseline alone: how its {configs} differ from their mean ({blocks} blocks). A stand-in: the noise of"
    " real ideas may be larger or smaller",
    BLOCKS: "the baseline alone: how its {blocks} blocks differ from their mean. A poor stand-in: what moves the"
    " baseline and an idea alike is taken for noise",
}
UNKNOWN_NOISE = "its noise is not of the kind that the rule was made for: have more blocks"
NO_NOISE = (
    "there is no noise to hold anything against: all blocks are the same. Either the measurement is exact, then no test"
    " is needed, or its blocks repeat nothing"
)


def calibration_lines(record: Params) -> list[str]:
    noise = record["noise"]
    words = {"configs": plural(noise["configs"], "config"), "rows": noise["rows"], "blocks": noise["blocks"]}
    lines = [f"{record['run']}: the baseline against itself, by {noise['metric']}"]
    lines.append(f"noise: {SOURCE_SENTENCES[noise['source']].format(**words)}")
    if noise["seeds"] and noise["source"] != SEEDS:
        lines.append(f"       {noise['seeds']} other seeds changed nothing: measurements are the same again")
    if "size" in noise:
        alike = f"; neighbouring blocks are correlated {noise['neighbours']:.2f} ± {noise['neighbours_error']:.2f}"
        alike = alike if record["rule"]["repeats"] == 1 else ""
        lines.append(f"       a block differs by {noise['size']:.3g}{alike}; skewness {noise['skewness']:.1f}")
    lines.append(f"rule:  {_rule_text(record)}")
    return [*lines, *_table(record), *(f"warning: {text}" for text in record["warnings"])]


def _rule_text(record: Params) -> str:
    rule = record["rule"]
    if record["method"] != PAIRED:
        return f"{record['method']}, by the primary metric alone: a mean that is not worse passes"
    over = f" of {plural(rule['max_depth'], 'depth')}" if rule["alpha_over"] == RUN else ""
    over += f"; blocks are {rule['repeats']} repeats of a split" if rule["repeats"] > 1 else ""
    return (
        f"{record['method']}, alpha {100 * rule['level']:.3g} % a depth ({rule['alpha_over']}{over});"
        f" smallest effect {rule['smallest_effect']:g}; without guards, which only refuse"
    )


def _table(record: Params) -> list[str]:
    if not record["cells"]:
        return []
    effects = [each["effect"] for each in record["cells"][0]["power"]]
    head = ["blocks", "ideas", "depth", "false promotions, %", *(f"finds {each:g}, %" for each in effects)]
    rows = [head + (["80 % tell"] if effects else [])]
    for cell in record["cells"]:
        rate, low, high = (100 * cell["promoted"][name] for name in ("rate", "low", "high"))
        row = [str(cell["blocks"]), str(cell["ideas"]), cell["depths"], f"{rate:.1f} ({low:.1f}-{high:.1f})"]
        row += [f"{100 * each['promoted']['rate']:.0f}" for each in cell["power"]]
        if record["method"] == PAIRED:
            row.append("none" if cell["detectable"] is None else f"{cell['detectable']:.3g}")
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows]
    return ["", *table, "", *(_legend(record) if effects else ())]


def _legend(record: Params) -> Iterator[str]:
    yield (
        "false promotions: of ideas without any effect, with the 95 % interval of counting; "
        "finds: an idea with that effect is promoted;"
    )
    yield "80 % tell: the effect that is told from chance in four of five depths."
    if record["rule"]["smallest_effect"]:
        yield "To be promoted, what is measured must reach the smallest effect too: half of those that just have it do."


def calibration_warnings(record: Params) -> list[str]:
    blocks = record["noise"]["blocks"]
    few = f"nothing is ever promoted by fewer than {FEWEST_BLOCKS} blocks, and there are {blocks}"
    if not record["cells"]:
        return [few if blocks < FEWEST_BLOCKS else NO_NOISE]
    warnings: list[str] = []
    if record["method"] == PAIRED:
        warnings += [few] if blocks < FEWEST_BLOCKS else _power_warnings(record)
    warnings += [*_alpha_warnings(record), *_repeats_warnings(record)]
    narrow = (each for each in record["guards"] if each["margin"] < each["least_margin"])
    return warnings + [
        f"{each['name']}: its margin of {each['margin']:g} is {each['margin'] / each['error']:.1f} standard"
        " errors: a harmless change often stays undecided;"
        f" {each['least_margin']:.3g} or more, or more blocks, would decide"
        for each in narrow
    ]


def _power_warnings(record: Params) -> Iterator[str]:
    """Warnings that the search cannot find the effects that it looks for."""
    wanted = record["rule"]["smallest_effect"]
    for cell in (cell for cell in record["cells"] if cell["times"] == 1):
        where = f"with {plural(cell['ideas'], 'idea')} a depth"
        if cell["detectable"] is None:
            yield f"{where} no effect is told from chance in 80 % of depths, however large"
        elif wanted and cell["detectable"] > wanted:
            yield f"{where} the smallest effect worth having, {wanted:g}, may be missed: {_blocks_needed(record, cell)}"
        if (crowd := _crowd_factor(record, cell["ideas"])) > CROWDED:
            yield f"{where} an effect must be {crowd:.1f} times as large as for one alone: have fewer, or more blocks"


def _blocks_needed(record: Params, cell: Params) -> str:
    wanted = record["rule"]["smallest_effect"]
    alike = [each for each in record["cells"] if each["ideas"] == cell["ideas"] and each["detectable"] is not None]
    enough = next((each["blocks"] for each in alike if each["detectable"] <= wanted), None)
    more = f"{enough} blocks would do" if enough else f"{alike[-1]['blocks']} blocks would not do either"
    return f"80 % of depths tell {cell['detectable']:.3g} from chance; {more}"


def _crowd_factor(record: Params, ideas: int) -> float:
    """The factor by which an effect must be larger among so many ideas, about: by t and Bonferroni."""
    df, alpha = record["noise"]["blocks"] - 1, record["rule"]["level"]
    many, one = (t_quantile(1 - alpha / count, df) + t_quantile(POWER, df) for count in (ideas, 1))
    return many / one


def _alpha_warnings(record: Params) -> Iterator[str]:
    """Warnings that noise is promoted more often than alpha."""
    cell = max((cell for cell in record["cells"] if cell["times"] == 1), key=lambda cell: cell["passed"]["rate"])
    rate = f"{100 * cell['passed']['rate']:.0f} % of depths"
    if record["method"] != PAIRED:
        yield f"{rate} promote noise: with `score: {{method: paired}}` it would be as many as alpha says"
    elif cell["passed"]["low"] > record["rule"]["level"]:
        causes = [*_causes(record["noise"], record["rule"])] or [UNKNOWN_NOISE]
        yield f"{rate} promote noise, alpha is {100 * record['rule']['level']:.3g} %: {'; '.join(causes)}"


def _repeats_warnings(record: Params) -> Iterator[str]:
    """A warning that blocks repeat a split of the same data, and that the spec does not say so."""
    if not (found := record.get("repeats_seen")):
        return
    blocks, count = record["noise"]["blocks"], found["repeats"]
    if found["listed"]:
        why = "their names say so"
    else:
        why = f"the means of the repeats are closer than chance makes them (p {found['p']:.2g})"
    why += " and their names look like it" if found["by_name"] and not found["listed"] else ""
    yield (
        f"the {blocks} blocks look like {count} repeats of a split into {blocks // count} folds: {why}. Repeats measure"
        f" the same data again, and promote noise far more often than alpha says: say `repeats: {found['key']}` in"
        " `sweep: blocks:`, beside `ids`"
    )


def _causes(noise: Params, rule: Params) -> Iterator[str]:
    rho = noise["neighbours_used"]
    if rho and not rule["ordered"]:
        yield f"neighbouring blocks are correlated {rho:.1f}: say `order: time`, or make them longer"
    elif rho and rule["rho"] is not None and rule["rho"] < rho:
        yield f"neighbouring blocks are correlated {rho:.1f}, more than `rho: {rule['rho']:g}`"
    elif rho:
        yield f"neighbouring blocks are correlated {rho:.1f}: make them longer, or have more of them"
    if noise["level"]:
        yield (
            f"a seed moves all blocks together, by {noise['level']:.3g}: blocks do not tell that from an effect;"
            " measure each block with several seeds"
        )
    if noise["skewness"] < LEANING:
        yield f"blocks lean to rare large losses (skewness {noise['skewness']:.1f}): have more of them"


TIMES = (1, 2, 4)  # multiples of the blocks there are
OF_SMALLEST = (0.25, 0.5, 1.0, 2.0)
OF_ERROR = (1.0, 2.0, 3.0, 4.0)
MOST_DEPTHS, LEAST_DEPTHS, WORK = 2000, 200, 40_000  # by default; WORK: ideas in all of them
POWER_DEPTHS = 0.25  # of the depths by which false promotions are counted


def seed_targets(run: str, targets: Sequence[Target], count: int) -> list[Target]:
    """The targets that measure the root again, where the spec allows it."""
    if not planned_config(targets)["blocks"]:
        raise SpecError(
            f"{run}: only blocks tell chance from progress, and its sweep has none; say in `sweep: blocks:` what"
            " repeats a measurement (folds, seeds, periods), and write a row of results for each"
        )
    return run_noise.reseeded_targets(run, targets, count)


def needed_targets(run: str, again: Sequence[Target]) -> list[str]:
    """The targets that calibration needs; nothing that is paid for is among them or above them."""
    return [f"{run}:{run_noise.BASELINE_TARGET}", *run_noise.seed_results(run, again)]


def calibrate(run: str, targets: Sequence[Target], again: Sequence[Target], depths: int, seed: int) -> Record:
    config = planned_config(targets)
    found = find_noise(run, config, [*run_noise.seed_results(run, again).values()])
    rows = found.rows[config["primary"]]
    repeats = config.get("repeats")
    noise = fit_noise(rows, found.states, repeats) if len(found.blocks) >= FEWEST_NOISE_BLOCKS else None
    score, rule = config["score"], Rule(1.0, tested=False)
    if config["method"] == PAIRED:  # of the first depth; later ones have the same level, or a higher one
        rule = Rule(alpha_for_depth(config, []), score["smallest_effect"], config["ordered"], config["rho"])
        rule = rule._replace(repeats=len({*repeats}) if repeats else 1)
    draw = int.from_bytes(sha256(json.dumps([rows, seed]).encode()).digest()[:8], "big")
    record = {
        "run": run,
        "method": config["method"],
        "noise": _noise(found, noise, config["primary"]),
        "rule": {**rule._asdict(), "alpha_over": score.get("alpha_over"), "max_depth": config["max_depth"]},
        "cells": [*_cells(config, len(found.blocks), noise, rule, depths, draw)] if noise else [],
        "guards": [*_guards(config, found)] if noise and rule.tested else [],
    }
    if noise and rule.tested and not config["ordered"] and not repeats:
        record |= _untold_repeats(found, rows)
    return record | {"warnings": calibration_warnings(record)}


def _untold_repeats(samples: NoiseSamples, rows: Rows) -> Record:
    """The repeats that blocks seem to be, by the root and the rows of the primary metric, though no spec says so."""
    guesses, rows = guess_repeats(samples.blocks), [*samples.root, *rows]
    seen = [(likeness_of_repeats(rows, guess.repeats) * len(guesses), guess) for guess in guesses]
    told = [(p, guess) for p, guess in seen if guess.listed or p <= UNTOLD_FROM]
    if not told:
        return {}
    # six repeats are two of three times the folds, too: where chance makes neither, the most are what they are
    p, guess = max(told, key=lambda each: (each[1].listed, -each[0] / len(guesses), len({*each[1].repeats})))
    about = {"by_name": guess.by_name, "listed": guess.listed, "p": round(min(1.0, p), 6)}
    return {"repeats_seen": {"repeats": len({*guess.repeats}), "key": guess.key, **about}}


def _cells(config: Params, blocks: int, noise: Noise, rule: Rule, depths: int, seed: int) -> Iterator[Record]:
    # the ideas weighed together: in the first depth those of one node, later those of the beam
    per_node, width, last = config["ideas_per_node"], config["beam_width"], config["max_depth"] - 1
    if width == 1 or not last:
        shapes = {f"0-{last}" if last else "0": per_node}
    else:
        shapes = {"0": per_node, f"1-{last}" if last > 1 else "1": per_node * width}
    effects: Sequence[float] = ()  # to look for, the same for any number of blocks
    for where, ideas in shapes.items():
        for times in TIMES:
            count = depths or min(MOST_DEPTHS, max(LEAST_DEPTHS, WORK // ideas))
            own = rule._replace(repeats=rule.repeats * times) if rule.repeats > 1 else rule
            cell = measure_promotions(noise, own, ideas, times * blocks, count, seed)
            if not effects:
                least = rule.smallest_effect
                sizes = [least * n for n in OF_SMALLEST] if least else [cell.error * n for n in OF_ERROR]
                effects = [float(f"{size:.3g}") for size in sizes]
            if rule.tested:
                cell = with_power(cell, noise, own, effects, max(1, round(count * POWER_DEPTHS)), seed)
            yield _cell_record(where, times, cell)


def _cell_record(depths: str, times: int, cell: SimulatedSetting) -> Record:
    return {
        "depths": depths,
        "ideas": cell.ideas,
        "times": times,
        "blocks": cell.blocks,
        "passed": _share(cell.passed),
        "promoted": _share(cell.promoted),
        "error": round_significant(cell.error),
        "power": [{"effect": e.effect, "passed": _share(e.passed), "promoted": _share(e.promoted)} for e in cell.power],
        "detectable": None if cell.detectable is None else round_significant(cell.detectable),
    }


def _share(share: Proportion) -> Record:
    low, high = share.interval
    return {"hits": share.hits, "of": share.of, "rate": share.rate, "low": round(low, 6), "high": round(high, 6)}


def _noise(samples: NoiseSamples, noise: Noise | None, metric: str) -> Record:
    about = {
        "metric": metric,
        "source": samples.source,
        "rows": len(samples.rows[metric]),
        "seeds": samples.seed_count,
        "configs": samples.configs,
        "blocks": len(samples.blocks),
    }
    if noise is None:
        return about
    numbers = {
        "size": noise.size,
        "neighbours": noise.seen_rho,
        "neighbours_error": noise.rho_error,
        "neighbours_used": noise.rho,
        "skewness": noise.skewness,
        "roughness": noise.rough,
        "level": noise.level,
    }
    return about | {name: round_significant(number) for name, number in numbers.items()}


def _guards(config: Params, samples: NoiseSamples) -> Iterator[Record]:
    """Margins of guards beside the least that they should be: some standard errors of a harmless change."""
    for metric in config["metrics"]:
        if metric["guard"] and metric["name"] != config["primary"]:
            deltas, how = samples.deltas(metric["name"]), dependence_params(config)
            errors = [each.se for each in judge_guard(deltas, metric["margin"], **how)]
            error = (sum(each * each for each in errors) / len(errors)) ** 0.5
            yield {
                "name": metric["name"],
                "margin": metric["margin"],
                "error": round_significant(error),
                "least_margin": round_significant(MARGIN_ERRORS * error),
            }
