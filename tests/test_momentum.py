"""The example to search: its data, its sweep, and that each recorded idea does what is said of it."""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import combinations, permutations
from pathlib import Path
from statistics import fmean

import pytest
from conftest import ROOT

EXAMPLE = ROOT / "examples/momentum"
IDEAS = sorted(path.name for path in (EXAMPLE / "ideas").iterdir())
LOOK_AHEAD, FAILS_TESTS, FAILS_CONFIGS = "02-monthly-bars", "04-twice-as-many", "07-position-cap"
TWINS = ("03-inverse-volatility", "06-inverse-volatility-again")
HONEST = [idea for idea in IDEAS if idea not in (LOOK_AHEAD, FAILS_TESTS, FAILS_CONFIGS)]
# What cannot be combined: the twins change the same lines, and so do two that no search would keep.
CONFLICTS = {frozenset(TWINS), frozenset((FAILS_TESTS, "12-concentrate"))}
PRICES_SHA256 = "5f769c6d7be57f62a4dfd1f553995855462a17c92b21a4af4245439c6115617f"

Ended = subprocess.CompletedProcess[str]
Run = Callable[..., Ended]
Row = dict[str, str]


def downloaded(*words: str | Path) -> None:
    """Without a package index there is nothing to test; any other failure is one."""
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    if "pip could not" in ended.stderr:
        pytest.skip(ended.stderr.strip().splitlines()[-1].partition(" (")[0])
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prices") / "prices.csv"
    requirement = re.search(r"skfolio==[\d.]+", (ROOT / "specs/prices.yaml").read_text())
    assert requirement
    downloaded(ROOT / "examples/prices/fetch.py", requirement[0], out)
    return out


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("momentum") / "environment"
    downloaded(EXAMPLE / "environment.py", folder, folder.with_name("record"))
    return folder


@pytest.fixture(scope="module")
def run(prices: Path, environment: Path) -> Run:
    def run(code: Path, *words: str, **env: str) -> Ended:
        command = [environment / "bin/python", *words]
        where = {"MOMENTUM_PRICES": str(prices), "AGENTIC_OUTPUT_DIR": str(code / "results")}
        every = {**os.environ, **where, **env}
        return subprocess.run(command, cwd=code, env=every, capture_output=True, text=True, timeout=120, check=False)

    return run


def applied(code: Path, idea: str, *options: str) -> bool:
    command = ["git", "apply", *options, str(EXAMPLE / "ideas" / idea / "change.patch")]
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(code.parent)}
    return subprocess.run(command, cwd=code, env=env, capture_output=True, check=False).returncode == 0


@pytest.fixture
def patched(tmp_path: Path) -> Callable[..., Path]:
    """The code with ideas applied, in this order."""
    numbers: Iterator[int] = iter(range(1000))

    def patched(*ideas: str) -> Path:
        code = tmp_path / f"code{next(numbers)}"
        shutil.copytree(EXAMPLE / "repo", code, ignore=shutil.ignore_patterns("__pycache__", "results"))
        assert all(applied(code, idea) for idea in ideas), ideas
        return code

    return patched


def table(code: Path) -> list[Row]:
    with (code / "results/results.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def swept(run: Run, code: Path, *words: str) -> list[Row]:
    ended = run(code, "sweep.py", *words)
    assert ended.returncode == 0, ended.stderr
    return table(code)


def sharpe(rows: list[Row]) -> float:
    return fmean(float(row["sharpe"]) for row in rows if row["status"] == "ok")


def written(idea: str) -> str:
    return (EXAMPLE / "ideas" / idea / "idea.md").read_text()


def test_the_prices_are_the_ones_measured(prices: Path) -> None:
    assert sha256(prices.read_bytes()).hexdigest() == PRICES_SHA256
    assert [len(prices.read_text().splitlines()), len(prices.open().readline().split(","))] == [8314, 21]


def test_the_environment_is_made_once(environment: Path) -> None:
    record, stamp = environment.with_name("record"), environment / "made-from"
    before = record.read_text(), stamp.stat().st_mtime_ns
    downloaded(EXAMPLE / "environment.py", environment, record)
    assert (record.read_text(), stamp.stat().st_mtime_ns) == before
    assert str(environment.parent) not in record.read_text()


def test_an_environment_that_is_not_whole_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "pyvenv.cfg").write_text("home = nowhere\n")
    downloaded(EXAMPLE / "environment.py", half, "--", "-c", "import numpy")


def test_a_folder_of_somebody_else_is_not_replaced_by_an_environment(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    command = [sys.executable, EXAMPLE / "environment.py", tmp_path, "--", "-c", ""]
    assert "something else" in subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert (tmp_path / "thesis.txt").exists()


def test_every_sweep_writes_the_same_bytes(run: Run, patched: Callable[..., Path]) -> None:
    one, other = patched(), patched()
    swept(run, one)
    again = other / "elsewhere/table.csv"
    assert run(other, "sweep.py", AGENTIC_RESULTS_CSV=str(again), PYTHONHASHSEED="7").returncode == 0
    assert again.read_bytes() == (one / "results/results.csv").read_bytes()
    assert (other / "results/returns.csv").read_bytes() == (one / "results/returns.csv").read_bytes()


def test_a_part_of_the_sweep_has_the_rows_of_the_whole(run: Run, patched: Callable[..., Path]) -> None:
    code = patched()
    whole = swept(run, code)
    assert [(row["config_id"], row["status"]) for row in whole] == [(str(i), "ok") for i in range(24)]
    assert swept(run, code, "--config-limit", "3") == whole[:3]
    assert swept(run, code, "--config-id", "17") == [whole[17]]
    assert run(code, "sweep.py", "--config-id", "24").returncode == 2


def test_an_idea_says_what_why_and_how() -> None:
    for idea in IDEAS:
        assert re.fullmatch(r"IDEA: .+\n\nRATIONALE: [^\n].*\n\nREQUIRED_CHANGES:\n.+", written(idea), re.DOTALL), idea


def test_the_twins_differ_in_bullets_and_case_only() -> None:
    def plain(text: str) -> list[str]:
        return [line.strip().lstrip("-* ").lower() for line in text.splitlines() if line.strip()]

    texts = [plain(written(idea)) for idea in IDEAS]
    assert plain(written(TWINS[0])) == plain(written(TWINS[1]))
    assert written(TWINS[0]) != written(TWINS[1])
    assert len({tuple(text) for text in texts}) == len(IDEAS) - 1


def test_every_idea_applies_and_after_every_other(patched: Callable[..., Path]) -> None:
    trees = {idea: patched(idea) for idea in IDEAS}
    pairs = permutations(IDEAS, 2)
    refused = {frozenset((first, then)) for first, then in pairs if not applied(trees[first], then, "--check")}
    assert refused == CONFLICTS


def test_every_idea_applies_after_two_that_a_search_may_keep(patched: Callable[..., Path]) -> None:
    kept = [idea for idea in HONEST if idea not in (TWINS[1], "12-concentrate")]
    for two in combinations(kept, 2):
        code = patched(*two)
        others = [idea for idea in IDEAS if idea not in two and not CONFLICTS & {frozenset((idea, one)) for one in two}]
        assert [idea for idea in others if not applied(code, idea, "--check")] == []


def test_only_the_idea_that_breaks_the_rules_fails_its_tests(run: Run, patched: Callable[..., Path]) -> None:
    for ideas in [[], [LOOK_AHEAD], [FAILS_CONFIGS], [idea for idea in HONEST if idea != TWINS[1]]]:
        assert run(patched(*ideas), "-m", "unittest").returncode == 0, ideas
    failed = run(patched(FAILS_TESTS), "-m", "unittest")
    assert "test_no_more_stocks_are_held_than_asked_for" in failed.stderr
    assert failed.returncode == 1


@pytest.mark.parametrize("idea", [None, *HONEST])
def test_honest_decisions_stay_when_the_future_is_cut_off(
    run: Run, patched: Callable[..., Path], idea: str | None
) -> None:
    canary = run(patched(*[idea] if idea else []), "canary.py")
    assert (canary.returncode, canary.stdout[:8]) == (0, "0 of 32 "), canary


def test_decisions_that_look_ahead_change_when_the_future_is_cut_off(run: Run, patched: Callable[..., Path]) -> None:
    canary = run(patched(LOOK_AHEAD), "canary.py")
    assert (canary.returncode, canary.stdout[:9]) == (1, "32 of 32 "), canary


def test_the_gain_of_the_idea_that_fails_on_some_configs_is_their_absence(
    run: Run, patched: Callable[..., Path]
) -> None:
    parent, child = (swept(run, patched("01-equal-parts", *more)) for more in ([], [FAILS_CONFIGS]))
    failed = [row for row in child if row["status"] == "error"]
    assert {row["params"] for row in failed} == {row["params"] for row in parent if '"top": 3}' in row["params"]}
    assert {row["error"].split(":")[0] for row in failed} == {"ValueError"}
    assert sharpe(child) > sharpe(parent)
    assert [row for row in child if row["status"] == "ok"] == [
        row for row in parent if '"top": 3}' not in row["params"]
    ]


def test_the_figures_are_those_of_this_code(run: Run, patched: Callable[..., Path]) -> None:
    on_the_base = (EXAMPLE / "numbers.md").read_text().partition("## On the base")[2]
    for idea in (None, "05-momentum"):
        line = re.search(rf"^\| {idea or 'base'} \|.*$", on_the_base, re.MULTILINE)
        assert line
        assert f"{sharpe(swept(run, patched(*[idea] if idea else []))):.3f}" == line[0].split(" | ")[4]
