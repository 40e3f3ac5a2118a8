"""What each recorded idea does to the strategy: as the search of specs/momentum.yaml sees it, and each by itself.

Usage: ENVIRONMENT/bin/python measure.py prices.csv numbers.md

Every cell is measured here: tests, checks and sweep are run as a search would run them, and Coppice's own rule weighs
what came of it. Configs are averaged and never count as evidence; years do.
"""

import csv
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # the checkout's own coppice

from pipeline.tree.run.canary import parse_data, run_canary  # noqa: E402
from pipeline.tree.run.command import NOTHING_RAN, CheckoutRun  # noqa: E402
from pipeline.tree.spec.model import Canary  # noqa: E402
from pipeline.trust.evidence import Evidence, JointTest, depth_alpha, verdict  # noqa: E402
from pipeline.trust.rule import weigh  # noqa: E402
from pipeline.trust.series import differences, reduce_configs  # noqa: E402

IDEAS = sorted(path.name for path in (HERE / "ideas").iterdir())
# What the search compares with what, going by what it promotes: see specs/momentum.yaml.
DEPTHS = (((), IDEAS[:4]), (("01-all-places",), [IDEAS[i] for i in (4, 6, 7)]))
KEPT = ((), ("01-all-places",), ("01-all-places", "05-equal-parts"))  # states of the code for the tables of all ideas
ALPHA = 0.05  # of the whole search
CANARY = Canary("prices", "", 5, 1e-9, 0.5)
METRICS = ("sharpe", "max_drawdown", "turnover", "annual_return")
HEAD = (
    "| idea | tests | cuts that change decisions | decisions go by the config's number | configs that ran | Sharpe "
    "| gain | SE | T | p | configs better | drawdown | turnover | return | verdict |\n"
    "|---|---|---|---|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---|"
)
Row = dict[str, str]
Years = dict[str, dict[str, float]]  # of a config: metrics by year


@dataclass(frozen=True)
class Measured:
    """A state of the code; years by config, of those that ran."""

    tests_pass: bool
    cuts: str
    labels: bool
    configs: int  # that were to run
    years: dict[str, Years]

    def series(self, metric: str) -> list[list[float]]:
        return [[year[metric] for year in years.values()] for years in self.years.values()]

    def mean(self, metric: str) -> float:
        return fmean(reduce_configs(self.series(metric)))

    @property
    def refused(self) -> str:
        reasons = (
            ("refused: fails its tests", not self.tests_pass),
            ("refused: looks ahead", not self.cuts.startswith("0 ")),
            ("refused: goes by the config's number", self.labels),
            ("refused: configs are missing", len(self.years) < self.configs),
        )
        return next((words for words, holds in reasons if holds), "")


def patched(ideas: Sequence[str], folder: Path) -> bool:
    """A copy of the code with the ideas in it; False if one does not apply."""
    shutil.copytree(HERE / "repo", folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    patches = [HERE / "ideas" / idea / "change.patch" for idea in ideas]
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}  # within a checkout, git would skip the files
    return all(
        subprocess.run(["git", "apply", each], cwd=folder, env=env, check=False).returncode == 0 for each in patches
    )


def runner(code: Path, out: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    env = os.environ | {"AGENTIC_OUTPUT_DIR": str(out), "AGENTIC_RESULTS_CSV": str(out / "results.csv")}

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=code, env=env, capture_output=True, text=True, check=False)

    return run


def looks_ahead(run: Callable[..., subprocess.CompletedProcess[str]], out: Path, prices: Path) -> str:
    """How many of the cuts change a decision."""
    data = parse_data(prices.read_text(), CANARY.column)
    cut, decisions = out / "cut.csv", out / "decisions.csv"

    def decide(until: str) -> CheckoutRun:
        cut.write_text(data.until(until))
        ended = run("decisions.py", "--prices", cut, "--out", decisions)
        return NOTHING_RAN._replace(results=decisions.read_bytes(), why=ended.stderr[-200:])

    found = run_canary(CANARY, data, "", decide).cuts
    return f"{sum(bool(each.change) for each in found)} of {len(found)}"


@cache
def measured(ideas: tuple[str, ...], prices: Path) -> Measured | None:
    """None if an idea does not apply on top of the others."""
    with TemporaryDirectory() as scratch:
        code, out = Path(scratch).resolve() / "code", Path(scratch).resolve() / "out"
        if not patched(ideas, code):
            return None
        run = runner(code, out)
        sweep = run("sweep.py", "--prices", prices)
        if sweep.returncode:
            sys.exit(sweep.stderr)
        tests, labels = run("-m", "unittest"), run("labels.py", "--prices", prices)
        cuts = looks_ahead(run, out, prices)
        with (out / "results.csv").open(newline="") as lines:
            return told(tests.returncode == 0, cuts, labels.returncode != 0, list(csv.DictReader(lines)))


def told(tests_pass: bool, cuts: str, labels: bool, table: list[Row]) -> Measured:
    years: dict[str, Years] = {}
    for row in table:
        if row["status"] == "ok":
            years.setdefault(row["config_id"], {})[row["block"]] = {name: float(row[name]) for name in METRICS}
    return Measured(tests_pass, cuts, labels, len({row["config_id"] for row in table}), years)


def deltas(mine: Measured, parent: Measured) -> list[float]:
    return list(differences(reduce_configs(mine.series("sharpe")), reduce_configs(parent.series("sharpe"))))


def weighed(found: Iterable[Measured], parent: Measured, alpha: float) -> JointTest:
    return weigh([deltas(mine, parent) for mine in found], alpha=alpha, seed=1, ordered=True, draws=10_000)


def line(name: str, mine: Measured | None, parent: Measured, evidence: Evidence | None, alpha: float) -> str:
    if mine is None:
        return f"| {name} |{' |' * 13} refused: does not apply |"
    passed = f"{'pass' if mine.tests_pass else 'fail'} | {mine.cuts} | {'yes' if mine.labels else 'no'}"
    start = f"{name} | {passed} | {len(mine.years)} of {mine.configs}"
    if not mine.years:
        return f"| {start} |{' |' * 9} {mine.refused} |"
    gain = f"{mine.mean('sharpe') - parent.mean('sharpe'):+.3f}" if mine is not parent else ""
    se, t, p = (f"{evidence.se:.3f}", f"{evidence.t:.2f}", f"{evidence.p:.4f}") if evidence else ("", "", "")
    words = verdict(evidence, alpha).verdict if evidence else mine.refused
    better = sum(mean(years) > mean(parent.years[i]) for i, years in mine.years.items()) if mine is not parent else ""
    means = f"{mine.mean('max_drawdown'):.3f} | {mine.mean('turnover'):.2f} | {mine.mean('annual_return'):.1%}"
    return f"| {start} | {mine.mean('sharpe'):.3f} | {gain} | {se} | {t} | {p} | {better} | {means} | {words} |"


def mean(years: Years) -> float:
    return fmean(year["sharpe"] for year in years.values())


def depth(number: int, prices: Path, alpha: float) -> str:
    """All its ideas in one test, as the search does it."""
    on, ideas = DEPTHS[number]
    parent, found = measured(on, prices), {idea: measured((*on, idea), prices) for idea in ideas}
    assert parent is not None
    compared = {idea: mine for idea, mine in found.items() if mine is not None and not mine.refused}
    joint = weighed(compared.values(), parent, alpha)
    evidence = dict(zip(compared, joint.ideas, strict=True))
    rows = [line(idea, mine, parent, evidence.get(idea), alpha) for idea, mine in found.items()]
    about = (
        f"{len(compared)} ideas compared over {joint.blocks} years; alpha {alpha:g}, critical T {joint.critical:.2f}"
    )
    title = f"## Depth {number + 1}\n\n{about}.\n\n"
    return title + "\n".join([HEAD, line(" + ".join(["base", *on]), parent, parent, None, alpha), *rows])


def table(on: tuple[str, ...], prices: Path) -> str:
    """Each idea as if it were the only one."""
    parent, alpha = measured(on, prices), ALPHA / len(DEPTHS)
    assert parent is not None
    rows = [line(" + ".join(["base", *on]), parent, parent, None, alpha)]
    for idea in IDEAS:
        mine = measured((*on, idea), prices) if idea not in on else None
        if idea not in on:
            whole = mine is not None and not mine.refused
            evidence = weighed([mine], parent, alpha).ideas[0] if whole and mine else None
            rows.append(line(idea, mine, parent, evidence, alpha))
    title = f"## Each by itself, on {' and '.join(on) if on else 'the base'}\n\n"
    return title + "\n".join([HEAD, *rows])


def main(prices: Path, out: Path) -> None:
    about = f"""\
# What the recorded ideas do

Made by `measure.py`, with Python {platform.python_version()} and numpy {np.__version__}.

- Metrics are means over configs and calendar years. The Sharpe ratio is that of the twelve months of a year, which is
  higher on average than that of all years together.
- Gain, SE, T and p compare with the first line of a table, by Coppice's paired rule: a gain a year, the years in the
  order of time. T is made smaller where years lean to losses. An idea that is refused before is not compared.
- A drawdown is that within a year, negative: closer to zero is better.
- By itself means: as the only idea of its depth, at the alpha of depth 1. That is easier than in the company of others,
  by which the search has to reckon with the best of several, and knows more of how alike neighbouring years are.
"""
    spent = [False] * len(DEPTHS)  # each depth fills one of the two places of the beam
    depths = [depth(n, prices, depth_alpha(ALPHA, len(DEPTHS), spent[:n])) for n in range(len(DEPTHS))]
    out.write_text("\n".join([about, *(f"{each}\n" for each in [*depths, *(table(on, prices) for on in KEPT)])]))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
