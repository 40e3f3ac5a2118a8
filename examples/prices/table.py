"""All the backtests of the grid as one CSV table, a row a portfolio."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

WHOLE = ("lookback", "top")
ROUNDED = ("sharpe", "cagr", "max_drawdown", "gain", "gain_low", "gain_high")


def row(result: dict[str, float], digits: int) -> list[str]:
    return [f"{result[name]:d}" for name in WHOLE] + [f"{result[name]:.{digits}f}" for name in ROUNDED]


def make_table(reads: Sequence[str], writes: Sequence[str], digits: int) -> None:
    """Called by Coppice in a worker that stays warm: no interpreter to start, no command line to parse."""
    results = [json.loads(Path(path).read_text()) for path in reads]
    results.sort(key=lambda result: [result[name] for name in WHOLE])
    with Path(writes[0]).open("w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(WHOLE + ROUNDED)
        table.writerows(row(result, digits) for result in results)
