"""What each recorded idea does to the strategy, alone and on top of those a search may keep: numbers.md.

Usage: ENVIRONMENT/bin/python measure.py prices.csv numbers.md

Every cell is measured here: tests, canary and sweep are run as a search would run them. The intervals come from
histories redrawn in blocks of a year, the same blocks for both sides; configs are averaged, never counted as evidence.
"""

import csv
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
IDEAS = sorted(path.name for path in (HERE / "ideas").iterdir())
KEPT = ("01-equal-parts", "03-inverse-volatility", "05-momentum")  # ideas below which a search may go on
BLOCK = 12  # months drawn together
DRAWS = 2000
METRICS = ("sharpe", "max_drawdown", "turnover", "annual_return")
HEAD = (
    "| idea | tests | decisions that look ahead | configs that ran | Sharpe | gain | 95 % interval | configs better "
    "| drawdown | turnover | return | verdict |\n|---|---|---|---|---:|---:|---|---:|---:|---:|---:|---|"
)
BLANKS = " |" * 10  # between the first cell and the last


@dataclass(frozen=True)
class Measured:
    """A state of the code; metrics and returns by config, of those that ran."""

    tests_pass: bool
    canary: str
    configs: int  # that were to run
    metrics: dict[str, dict[str, float]]
    returns: dict[str, Any]

    def mean(self, metric: str) -> float:
        return float(np.mean([row[metric] for row in self.metrics.values()]))


def patched(ideas: list[str], folder: Path) -> bool:
    """A copy of the code with the ideas in it; False if one does not apply."""
    shutil.copytree(HERE / "repo", folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    patches = [HERE / "ideas" / idea / "change.patch" for idea in ideas]
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}  # within a checkout, git would skip the files
    return all(
        subprocess.run(["git", "apply", each], cwd=folder, env=env, check=False).returncode == 0 for each in patches
    )


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def runner(code: Path, out: Path, prices: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    places = {"MOMENTUM_PRICES": prices, "AGENTIC_OUTPUT_DIR": out, "AGENTIC_RESULTS_CSV": out / "results.csv"}
    env = os.environ | {name: str(place) for name, place in places.items()}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=code, env=env, capture_output=True, text=True, check=False)

    return run


def measured(ideas: list[str], prices: Path) -> Measured | None:
    """None if an idea does not apply on top of the others."""
    with TemporaryDirectory() as scratch:
        code, out = Path(scratch).resolve() / "code", Path(scratch) / "out"
        if not patched(ideas, code):
            return None
        run = runner(code, out, prices)
        tests, canary, sweep = run("-m", "unittest"), run("canary.py"), run("sweep.py")
        if sweep.returncode:
            sys.exit(sweep.stderr)
        changed = canary.stdout.split(" decisions")[0]
        return told(tests.returncode == 0, changed, rows(out / "results.csv"), rows(out / "returns.csv"))


def told(tests_pass: bool, canary: str, table: list[dict[str, str]], monthly: list[dict[str, str]]) -> Measured:
    ran = {row["config_id"]: row for row in table if row["status"] == "ok"}
    metrics = {i: {name: float(row[name]) for name in METRICS} for i, row in ran.items()}
    returns = {i: np.array([float(row["return"]) for row in monthly if row["config_id"] == i]) for i in ran}
    return Measured(tests_pass, canary, len(table), metrics, returns)


def mean_sharpe(returns: Any) -> Any:
    return (returns.mean(axis=1) / returns.std(axis=1, ddof=1) * np.sqrt(12)).mean()


def interval(mine: Measured, parent: Measured) -> tuple[float, float]:
    """The middle 95 % of differences between the mean Sharpe ratios of both."""
    a, b = (np.array([each.returns[i] for i in sorted(parent.returns)]) for each in (mine, parent))
    rng = np.random.default_rng(1)
    months = a.shape[1]
    gains = []
    for _ in range(DRAWS):
        starts = rng.integers(0, months, months // BLOCK)
        picks = ((starts[:, None] + np.arange(BLOCK)) % months).ravel()
        gains.append(mean_sharpe(a[:, picks]) - mean_sharpe(b[:, picks]))
    low, high = np.percentile(gains, [2.5, 97.5])
    return float(low), float(high)


def verdict(mine: Measured, low: float, high: float) -> str:
    reasons = (
        ("refused: fails its tests", not mine.tests_pass),
        ("refused: looks ahead", not mine.canary.startswith("0 ")),
        ("better", low > 0),
        ("worse", high < 0),
        ("the same", low == high == 0),
        ("undecided", True),
    )
    return next(words for words, holds in reasons if holds)


def comparison(mine: Measured, parent: Measured) -> list[str]:
    gain = f"{mine.mean('sharpe') - parent.mean('sharpe'):+.3f}"
    better = sum(row["sharpe"] > parent.metrics[i]["sharpe"] for i, row in mine.metrics.items())
    if len(mine.metrics) < len(parent.metrics):
        return [gain, "", str(better), "refused: configs are missing"]
    low, high = interval(mine, parent)
    return [gain, f"{low:+.3f} to {high:+.3f}", str(better), verdict(mine, low, high)]


def line(name: str, mine: Measured | None, parent: Measured | None) -> str:
    if mine is None:
        return f"| {name} |{BLANKS} refused: does not apply |"
    gain, between, better, words = comparison(mine, parent) if parent else ["", "", "", ""]
    ran = f"{len(mine.metrics)} of {mine.configs}"
    means = f"{mine.mean('max_drawdown'):.3f} | {mine.mean('turnover'):.2f} | {mine.mean('annual_return'):.1%}"
    start = f"{name} | {'pass' if mine.tests_pass else 'fail'} | {mine.canary} | {ran} | {mine.mean('sharpe'):.3f}"
    return f"| {start} | {gain} | {between} | {better} | {means} | {words} |"


def table(on: list[str], prices: Path) -> str:
    parent = measured(on, prices)
    lines = [line(" + ".join(["base", *on]), parent, None)]
    lines += [line(idea, measured([*on, idea], prices), parent) for idea in IDEAS if idea not in on]
    return "\n".join([HEAD, *lines])


def numbers(prices: Path) -> str:
    return f"""\
# What the recorded ideas do

Made by `measure.py`, with Python {platform.python_version()} and numpy {np.__version__}.

- Metrics are means over the configs that ran. Gain, interval and verdict compare with the first line of a table.
- The interval is that of the gain in mean Sharpe over {DRAWS} histories redrawn in blocks of {BLOCK} months, the same
  for both sides. It is not corrected for how many ideas were tried: of forty that change nothing, one seems better.
- A drawdown is negative: closer to zero is better.

## On the base

{table([], prices)}
"""


def main(prices: Path, out: Path) -> None:
    deeper = [f"\n## On top of {idea}\n\n{table([idea], prices)}\n" for idea in KEPT]
    out.write_text(numbers(prices) + "".join(deeper))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
