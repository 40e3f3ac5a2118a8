"""A calibration for people: how it came about, a table, and what should be done before money is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.words import plural
from pipeline.tree.nulls import BLOCKS, CONFIGS, EVALUATIONS, SEEDS
from pipeline.tree.scoring import PAIRED, RUN
from pipeline.trust.student import quantile
from pipeline.trust.verdicts import FEWEST_BLOCKS

LEANING = -0.5  # a skewness from which on blocks are said to lean
CROWDED = 1.75  # times the effect that one idea alone would need
POWER = 0.8
CONFIDENCE = "with the 95 % interval of counting"

Record = Mapping[str, Any]

SOURCES = {
    SEEDS: "{rows} measurements of the root, each with its seed ({blocks} blocks of {configs}): they differ by chance",
    EVALUATIONS: "{rows} evaluations of this run ({blocks} blocks of {configs}): how each differs from its parent, less"
    " the mean, which may be an effect",
    CONFIGS: "the baseline alone: how its {configs} differ from their mean ({blocks} blocks). A stand-in: the noise of"
    " real ideas may be larger or smaller",
    BLOCKS: "the baseline alone: how its {blocks} blocks differ from their mean. A poor stand-in: what moves the"
    " baseline and an idea alike is taken for noise",
}
UNKNOWN = "its noise is not of the kind that the rule was made for: have more blocks"
NO_NOISE = (
    "there is no noise to hold anything against: all blocks are the same. Either the measurement is exact, then no test"
    " is needed, or its blocks repeat nothing"
)


def lines(record: Record) -> list[str]:
    return [*_about(record), *_table(record), *(f"warning: {text}" for text in record["warnings"])]


def _about(record: Record) -> Iterator[str]:
    noise = record["noise"]
    words = {"configs": plural(noise["configs"], "config"), "rows": noise["rows"], "blocks": noise["blocks"]}
    yield f"{record['run']}: the baseline against itself, by {noise['metric']}"
    yield f"noise: {SOURCES[noise['source']].format(**words)}"
    if noise["seeds"] and noise["source"] != SEEDS:
        yield f"       {noise['seeds']} other seeds changed nothing: measurements are the same again"
    if "size" in noise:
        yield (
            f"       a block differs by {noise['size']:.3g}; neighbouring blocks are correlated"
            f" {noise['neighbours']:.2f} ± {noise['neighbours_error']:.2f}; skewness {noise['skewness']:.1f}"
        )
    yield f"rule:  {_rule(record)}"


def _rule(record: Record) -> str:
    rule = record["rule"]
    if record["method"] != PAIRED:
        return f"{record['method']}, by the primary metric alone: a mean that is not worse passes"
    over = f" of {plural(rule['max_depth'], 'depth')}" if rule["alpha_over"] == RUN else ""
    return (
        f"{record['method']}, alpha {100 * rule['level']:.3g} % a depth ({rule['alpha_over']}{over});"
        f" smallest effect {rule['smallest_effect']:g}; without guards, which only refuse"
    )


def _table(record: Record) -> list[str]:
    if not record["cells"]:
        return []
    effects = [each["effect"] for each in record["cells"][0]["power"]]
    head = ["blocks", "ideas", "depth", "false promotions, %", *(f"finds {each:g}, %" for each in effects)]
    head += ["80 % tell"] if effects else []
    rows = [_row(record, cell) for cell in record["cells"]]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    table = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]]
    return ["", *table, "", *(_legend(record) if effects else ())]


def _legend(record: Record) -> Iterator[str]:
    yield f"false promotions: of ideas without any effect, {CONFIDENCE}; finds: an idea with that effect is promoted;"
    yield "80 % tell: the effect that is told from chance in four of five depths."
    if record["rule"]["smallest_effect"]:
        yield "To be promoted, what is measured must reach the smallest effect too: half of those that just have it do."


def _row(record: Record, cell: Record) -> list[str]:
    false = cell["promoted"]
    row = [str(cell["blocks"]), str(cell["ideas"]), cell["depths"]]
    row.append(f"{100 * false['rate']:.1f} ({100 * false['low']:.1f}-{100 * false['high']:.1f})")
    row += [f"{100 * each['promoted']['rate']:.0f}" for each in cell["power"]]
    if record["method"] == PAIRED:
        row.append("none" if cell["detectable"] is None else f"{cell['detectable']:.3g}")
    return row


def warnings(record: Record) -> list[str]:
    if not record["cells"]:
        few = record["noise"]["blocks"] < FEWEST_BLOCKS
        return [_too_few(record)] if few else [NO_NOISE]
    return [*_undecided(record), *_broken(record), *_tight(record["guards"])]


def _too_few(record: Record) -> str:
    return f"nothing is ever promoted by fewer than {FEWEST_BLOCKS} blocks, and there are {record['noise']['blocks']}"


def _undecided(record: Record) -> Iterator[str]:
    """Where the search cannot find what it is looking for."""
    if record["method"] != PAIRED:
        return
    if record["noise"]["blocks"] < FEWEST_BLOCKS:
        yield _too_few(record)
        return
    wanted = record["rule"]["smallest_effect"]
    for cell in (cell for cell in record["cells"] if cell["times"] == 1):
        where = f"with {plural(cell['ideas'], 'idea')} a depth"
        if cell["detectable"] is None:
            yield f"{where} no effect is told from chance in 80 % of depths, however large"
        elif wanted and cell["detectable"] > wanted:
            yield f"{where} the smallest effect worth having, {wanted:g}, may be missed: {_enough(record, cell)}"
        if (crowd := _crowd(record, cell["ideas"])) > CROWDED:
            yield f"{where} an effect must be {crowd:.1f} times as large as for one alone: have fewer, or more blocks"


def _enough(record: Record, cell: Record) -> str:
    wanted = record["rule"]["smallest_effect"]
    alike = [each for each in record["cells"] if each["ideas"] == cell["ideas"] and each["detectable"] is not None]
    enough = next((each["blocks"] for each in alike if each["detectable"] <= wanted), None)
    more = f"{enough} blocks would do" if enough else f"{alike[-1]['blocks']} blocks would not do either"
    return f"80 % of depths tell {cell['detectable']:.3g} from chance; {more}"


def _crowd(record: Record, ideas: int) -> float:
    """About how much the best of so many costs: by t and Bonferroni."""
    df, alpha = record["noise"]["blocks"] - 1, record["rule"]["level"]
    many, one = (quantile(1 - alpha / count, df) + quantile(POWER, df) for count in (ideas, 1))
    return many / one


def _broken(record: Record) -> Iterator[str]:
    """Where noise is promoted more often than was asked for."""
    cell = max((cell for cell in record["cells"] if cell["times"] == 1), key=lambda cell: cell["passed"]["rate"])
    rate = f"{100 * cell['passed']['rate']:.0f} % of depths"
    if record["method"] != PAIRED:
        yield f"{rate} promote noise: with `score: {{method: paired}}` it would be as many as alpha says"
    elif cell["passed"]["low"] > record["rule"]["level"]:
        causes = [*_causes(record["noise"], record["rule"])] or [UNKNOWN]
        yield f"{rate} promote noise, alpha is {100 * record['rule']['level']:.3g} %: {'; '.join(causes)}"


def _causes(noise: Record, rule: Record) -> Iterator[str]:
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


def _tight(guards: Sequence[Record]) -> Iterator[str]:
    for guard in guards:
        if guard["margin"] < guard["least_margin"]:
            worth = guard["margin"] / guard["error"]
            yield (
                f"{guard['name']}: its margin of {guard['margin']:g} is {worth:.1f} standard errors: a harmless change"
                f" often stays undecided; {guard['least_margin']:.3g} or more, or more blocks, would decide"
            )
