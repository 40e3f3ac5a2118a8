"""What the table shows, for a reader: the grid, and what it is not evidence of.

Usage: python3 report.py table.csv hold.json RESULTS.md
"""

import csv
import json
import math
import sys
from pathlib import Path

Row = dict[str, float]


def read_table(path: Path) -> list[Row]:
    with path.open(newline="") as lines:
        return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(lines)]


def grid(rows: list[Row], measure: str, form: str) -> str:
    """A Markdown table, a line a lookback and a column a portfolio size."""
    cells = {(row["lookback"], row["top"]): format(row[measure], form) for row in rows}
    lookbacks, tops = (sorted(set(values)) for values in zip(*cells, strict=True))
    head = ["lookback", *(f"top {top:.0f}" for top in tops)]
    body = [[f"{lookback:.0f} days", *(cells[lookback, top] for top in tops)] for lookback in lookbacks]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---:"] * len(head), *body])


def interval(row: Row) -> str:
    return f"{row['gain']:+.2f} (95 % interval {row['gain_low']:+.2f} to {row['gain_high']:+.2f})"


def remarks(rows: list[Row], hold: Row) -> str:
    best = max(rows, key=lambda row: row["sharpe"])
    higher = sum(row["gain"] > 0 for row in rows)
    better = sum(row["gain_low"] > 0 for row in rows)
    worse = sum(row["gain_high"] < 0 for row in rows)
    return f"""\
- **The yardstick is holding all twenty.** Equal parts of every stock, same costs: Sharpe {hold["sharpe"]:.3f},
  {hold["cagr"]:.1%} a year, drawdown {hold["max_drawdown"]:.1%}. Of the {len(rows)} portfolios {higher} have a higher
  Sharpe ratio. By their intervals {better} are better and {worse} worse; if there was nothing to find, about one in
  forty would still seem better, and as many worse.
- **The best of {len(rows)} is not evidence.** It is lookback {best["lookback"]:.0f}, top {best["top"]:.0f}: Sharpe
  {best["sharpe"]:.3f}, a gain of {interval(best)} over the yardstick.
  The interval does not know that this row was picked from {len(rows)} after looking.
- **Only survivors are in the data.** All twenty companies were still traded at the end of 2022. Nobody could have
  known that list in 1990: every return here, the yardstick's too, is better than what could have been earned.
- **What is left out.** Taxes, borrowing, and the time between seeing a close and trading at it. Costs are 0.1 % of
  the value bought or sold; the Sharpe ratio is over cash that earns nothing. It is a demonstration, not advice."""


def report(rows: list[Row], hold: Row) -> str:
    mean = {measure: math.fsum(row[measure] for row in rows) / len(rows) for measure in rows[0]}
    worst = min(row["max_drawdown"] for row in rows)
    return f"""\
# Momentum on twenty S&P 500 stocks

Every month hold, in equal parts, the stocks that rose most over the lookback. Daily prices, 1990 to 2022 (from the
skfolio package, BSD 3-Clause); every portfolio trades over the same days. Means over the {len(rows)} portfolios:
Sharpe {mean["sharpe"]:.3f}, {mean["cagr"]:.1%} a year, drawdown {mean["max_drawdown"]:.1%} (worst {worst:.1%}).

## Sharpe ratio

{grid(rows, "sharpe", ".3f")}

## Sharpe ratio, gain over holding all twenty

{grid(rows, "gain", "+.3f")}

## Growth a year

{grid(rows, "cagr", ".1%")}

## Deepest drawdown

{grid(rows, "max_drawdown", ".1%")}

## How to read this

{remarks(rows, hold)}
"""


def main(table: str, hold: str, out: str) -> None:
    Path(out).write_text(report(read_table(Path(table)), json.loads(Path(hold).read_text())))


if __name__ == "__main__":
    main(*sys.argv[1:])
