"""The example to search: its data, its sweep, and that each recorded idea does what is said of it."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from hashlib import sha256
from itertools import combinations, permutations
from pathlib import Path
from statistics import fmean

import pytest
import yaml
from kit.project import ROOT, Project
from kit.searches import files

from pipeline.core.cages import ISOLATED, LANDLOCK, PLAIN, CageKeys
from pipeline.machine.grades import lacking

EXAMPLE = ROOT / "examples/momentum"
IDEAS = sorted(path.name for path in (EXAMPLE / "ideas").iterdir())
FIRST, SECOND = "01-all-places", "05-equal-parts"  # what the search promotes
LOOK_AHEAD, FAILS_TESTS, FAILS_CONFIGS, LUCK = "02-monthly-bars", "04-twice-as-many", "07-position-cap", "15-own-luck"
TWINS = ("03-momentum", "06-momentum-again")
PLACES = (FIRST, FAILS_TESTS, "12-concentrate")
HONEST = [idea for idea in IDEAS if idea not in (LOOK_AHEAD, FAILS_TESTS, FAILS_CONFIGS, LUCK)]
# What cannot be combined: these change the same lines, and two that no search would keep change the same function.
CONFLICTS = {*map(frozenset, (TWINS, (LOOK_AHEAD, LUCK))), *map(frozenset, combinations(PLACES, 2))}
FEW = "6"  # configs of the sweep: with each number of places, also the one with which an idea fails
COUNTS = r"targets: (\d+) built, (\d+) recalled, (\d+) fresh"
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
    """Made where one was left half made."""
    folder = tmp_path_factory.mktemp("momentum") / "environment"
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text("home = nowhere\n")
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


def judged_apart(run: Run, code: Path) -> Path:
    """The results of the start's judge, of what this code decides for the first configs."""
    answers, judge = code / "answers", code.with_name(f"{code.name}.judge")
    shutil.copytree(EXAMPLE / "repo", judge, ignore=shutil.ignore_patterns("__pycache__", "results"))
    paths = [str(answers / name) for name in ("decisions.csv", "errors.csv")]
    for folder, words in ((code, ["decisions.py", "--out"]), (judge, ["judge.py", "--decisions"])):
        ended = run(folder, *words, paths[0], "--errors", paths[1], "--config-limit", FEW)
        assert ended.returncode == 0, ended.stderr
    return judge / "results"


def sharpe(rows: list[Row]) -> float:
    """The mean over configs and years."""
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


def test_an_environment_that_is_not_whole_is_made_anew(environment: Path) -> None:
    assert "nowhere" not in (environment / "pyvenv.cfg").read_text()
    assert subprocess.run([environment / "bin/python", "-c", "import numpy"], check=False).returncode == 0


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
    years = [str(year) for year in range(1991, 2023)]
    expected = [(str(i), year, "ok") for i in range(24) for year in years]
    assert [(row["config_id"], row["block"], row["status"]) for row in whole] == expected
    assert swept(run, code, "--config-limit", "3") == whole[: 3 * len(years)]
    assert swept(run, code, "--config-id", "17") == [row for row in whole if row["config_id"] == "17"]
    assert run(code, "sweep.py", "--config-id", "24").returncode == 2


@pytest.mark.parametrize(
    "ideas", [[], [FIRST, SECOND], [FIRST, FAILS_CONFIGS], [LOOK_AHEAD], [FIRST, "13-dither", "14-inverse-volatility"]]
)
def test_the_judge_apart_writes_the_bytes_of_the_sweep(
    run: Run, patched: Callable[..., Path], ideas: list[str]
) -> None:
    """To the last digit: decisions are written down as exactly as they were made."""
    code = patched(*ideas)
    swept(run, code, "--config-limit", FEW)
    apart = judged_apart(run, code)
    for name in ("results.csv", "returns.csv"):
        assert (apart / name).read_bytes() == (code / "results" / name).read_bytes()


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
    together = [idea for idea in HONEST if idea not in (TWINS[1], "12-concentrate")]
    for ideas in [[], [LOOK_AHEAD], [LUCK], [FIRST, FAILS_CONFIGS], together]:
        assert run(patched(*ideas), "-m", "unittest").returncode == 0, ideas
    failed = run(patched(FAILS_TESTS), "-m", "unittest")
    assert "test_no_more_stocks_are_held_than_asked_for" in failed.stderr
    assert failed.returncode == 1


@pytest.mark.parametrize("idea", [None, *HONEST])
def test_honest_decisions_go_by_no_number_of_a_config(run: Run, patched: Callable[..., Path], idea: str | None) -> None:
    code = patched(*[idea] if idea else [])
    labels = run(code, "labels.py")
    assert (labels.returncode, labels.stdout[:9]) == (0, "0 of 384 "), labels


def test_the_gain_of_the_idea_that_fails_on_some_configs_is_their_absence(
    run: Run, patched: Callable[..., Path]
) -> None:
    parent, child = (swept(run, patched(FIRST, SECOND, *more)) for more in ([], [FAILS_CONFIGS]))
    failed = [row for row in child if row["status"] == "error"]
    assert {row["params"] for row in failed} == {row["params"] for row in parent if '"top": 3}' in row["params"]}
    assert {row["error"].split(":")[0] for row in failed} == {"ValueError"}
    assert sharpe(child) > sharpe(parent)
    assert [row for row in child if row["status"] == "ok"] == [
        row for row in parent if '"top": 3}' not in row["params"]
    ]


def test_the_figures_are_those_of_this_code(run: Run, patched: Callable[..., Path]) -> None:
    first = (EXAMPLE / "numbers.md").read_text().partition("## Depth 1")[2]
    for idea in (None, "03-momentum"):
        line = re.search(rf"^\| {idea or 'base'} \|.*$", first, re.MULTILINE)
        assert line
        assert f"{sharpe(swept(run, patched(*[idea] if idea else []))):.3f}" == line[0].split(" | ")[5]


# -- the search of specs/momentum.yaml, as it runs


def project_of(root: Path, prices: Path, environment: Path) -> Project:
    """The example and its spec, with the prices and the numpy that there are already."""
    project = Project(root)
    shutil.copytree(
        EXAMPLE, project.root / "examples/momentum", ignore=shutil.ignore_patterns("__pycache__", "results")
    )
    spec = (ROOT / "specs/momentum.yaml").read_text()
    spec = spec.replace("{project}/runs/momentum-environment/venv", str(environment))
    project.spec("momentum", spec.replace("runs/momentum-environment/", "").replace("runs/prices/", ""))
    shutil.copy(prices, project.root / "prices.csv")
    shutil.copy(environment.with_name("record"), project.root / "python.json")
    return project


@pytest.fixture(scope="module")
def searched(prices: Path, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With one idea more in its first depth, a cheat."""
    project = project_of(tmp_path_factory.mktemp("search") / "project", prices, environment)
    ideas = project.root / "examples/momentum/ideas"
    (ideas / LUCK).rename(ideas / "00-own-luck")
    project.spec("momentum", project.read("specs/momentum.yaml").replace("ideas_per_node: 4", "ideas_per_node: 5"))
    said = project.call("run", "momentum")
    assert said.code == 0, said
    return project


Small = Callable[..., Project]


@pytest.fixture
def small(prices: Path, environment: Path, tmp_path: Path) -> Small:
    """The smallest search that promotes an idea: one depth, the first four configs, and no other check than `labels`.

    `forgers`: what is added to `decide`, by idea; `keys`: keys of the spec that are others."""

    def small(name: str, forgers: Mapping[str, str] = {}, **keys: object) -> Project:
        project = project_of(tmp_path / name, prices, environment)
        ideas = project.root / "examples/momentum/ideas"
        for idea in set(IDEAS) - {FIRST}:
            shutil.rmtree(ideas / idea)
        for idea, lines in forgers.items():
            _write_forger(project, idea, lines)
        spec = yaml.safe_load(project.read("specs/momentum.yaml"))
        del spec["checks"]["look-ahead"]
        sizes = {"ideas_per_node": 1 + len(forgers), "beam_width": 1, "max_depth": 1, "sweep_config_limit": 4}
        project.spec("momentum", yaml.safe_dump({**spec, **sizes, **keys}, sort_keys=False))
        said = project.call("run", "momentum")
        assert said.code == 0, said
        return project

    return small


def _write_forger(project: Project, idea: str, lines: str) -> None:
    path = "examples/momentum/repo/strategy.py"
    before = project.read(path)
    head, mark, body = before.partition('    """The weight of every stock on this day."""\n')
    after = head + mark + "".join(f"    {line}\n" for line in lines.splitlines()) + body
    change = unified_diff(before.splitlines(True), after.splitlines(True), "a/strategy.py", "b/strategy.py")
    folder = f"examples/momentum/ideas/{idea}"
    project.write(f"{folder}/idea.md", f"IDEA: {idea}\n\nRATIONALE: Why not.\n\nREQUIRED_CHANGES:\n- In `decide`.\n")
    project.write(f"{folder}/change.patch", "".join(change))


def judged(searched: Project, depth: int) -> dict[str, tuple[str, str]]:
    """What became of each idea on the best node of a depth, and why."""
    manifest = json.loads(searched.read("runs/momentum/manifest.json"))
    found = [each for each in manifest["evaluations"].values() if each["parent_node_id"] == f"d{depth}.n0"]
    titles = {re.match(r"IDEA: (.+?)\.?\n", written(idea))[1]: idea for idea in IDEAS}  # type: ignore[index]
    named = [(each["idea_title"].rstrip("."), each["decision"]) for each in found]
    return {titles.get(title, title): _decided(decision) for title, decision in named}


def _decided(decision: dict[str, str | None]) -> tuple[str, str]:
    return str(decision["promoted_to_node_id"] or decision["failed_check"]), str(decision["why"])


def test_an_honest_improvement_is_promoted_and_the_cheats_are_refused(searched: Project) -> None:
    first = judged(searched, 0)
    assert first[FIRST][0] == "d1.n0"
    assert first[LOOK_AHEAD][1].startswith("failed: checks: look-ahead: a decision changes when the data after ")
    assert first[LOOK_AHEAD][1].endswith("(so with 3 of 3 cuts)")
    assert first[LUCK] == ("completed", "failed: checks: labels: exit status 1")
    assert "when it has another number" in searched.read("runs/momentum/eval/d0.n0.i0/checks.log")
    assert first[TWINS[0]][1].startswith("indecisive: could_be_chance ")
    assert first[FAILS_TESTS][1].startswith("failed: tests: exit status 1")


def test_depth_after_depth_what_is_real_is_kept(searched: Project) -> None:
    second = judged(searched, 1)
    assert second[SECOND][0] == "d2.n0"
    assert second[TWINS[1]][1].startswith("skipped: the same idea as d0.n0.")
    assert second[FAILS_CONFIGS][0] == "rows"
    assert second["08-volatility-target"][0] in ("primary", "recommended")
    assert second["09-skip-month"][1].startswith("indecisive: could_be_chance ")


def test_an_undone_edit_redoes_the_report_alone(searched: Project) -> None:
    """As the README has it."""
    spec = searched.read("specs/momentum.yaml")
    found = []
    for text in (spec.replace("margin: 0.05", "margin: 0.01"), spec):
        searched.spec("momentum", text)
        found += re.findall(COUNTS, searched.call("run", "momentum").out)
    (judged, _, fresh), undone = (tuple(map(int, counts)) for counts in found)
    assert undone == (2, judged - 2, fresh)
    told = (ROOT / "README.md").read_text().partition("scripts/run\n93 targets: 18 built")
    (judged, _, fresh), undone = (tuple(map(int, counts)) for counts in re.findall(COUNTS, "".join(told[1:])))
    assert undone == (2, judged - 2, fresh)


FORGED = """\
import atexit, os, sys
def forge():
    lines = ["config_id,block,status,sharpe,max_drawdown,seed"]
    lines += [f"{i},{year},ok,{9 + i / 9 + year % 7},-0.01,1" for i in range(4) for year in range(1991, 2023)]
    with open(os.environ.get("AGENTIC_RESULTS_CSV", os.environ["AGENTIC_OUTPUT_DIR"] + "/results.csv"), "w") as file:
        file.write("\\n".join(lines) + "\\n")
if "AGENTIC_OUTPUT_DIR" in os.environ and len(closes) > 8000 and not hasattr(sys, "forged"):
    sys.forged = atexit.register(forge)
"""
PATCHED = """\
import sys
for module in map(sys.modules.get, ("__main__", "sweep", "backtest")):
    if len(closes) > 8000 and hasattr(module, "metrics"):
        module.metrics = lambda history: {"sharpe": 9, "max_drawdown": 0, "turnover": 1, "annual_return": 1}
"""
BORROWED = """\
if len(closes) > 8000:
    return 5 * np.eye(closes.shape[1])[int(np.argmin(closes[day]))]
"""
BAD_ANSWER = """\
import atexit, sys
if "--errors" in sys.argv and not hasattr(sys, "forged"):
    sys.forged = atexit.register(lambda: open(sys.argv[sys.argv.index("--out") + 1], "a").write("2000-01-03,0,1\\n"))
"""
FORGERS = {"02-forged": FORGED, "03-patched": PATCHED, "04-borrowed": BORROWED, "05-bad-answer": BAD_ANSWER}


def test_a_forger_is_judged_by_what_it_decided(small: Small) -> None:
    """Where one process decides and judges, it would have won."""
    project = small("apart", FORGERS)
    found, results = judged(project, 0), "runs/momentum/artifacts/d0.n0{}.csv"
    assert found[FIRST][0] == "d1.n0"
    for slot, forger in ((".i1", "02-forged"), (".i2", "03-patched")):
        assert found[forger][0] != "d1.n0"
        assert project.read(results.format(slot)) == project.read(results.format(""))
    assert found["04-borrowed"][0] == "rows"
    assert "more is invested than there is" in project.read(results.format(".i3"))
    assert found["05-bad-answer"][1].startswith("failed: sweep: bad answer: exit status 1: ValueError: decisions.csv:")


def test_in_one_process_forgers_win(small: Small, environment: Path) -> None:
    spec = yaml.safe_load((ROOT / "specs/momentum.yaml").read_text())
    answer = spec["sweep"].pop("answer")
    del spec["sweep"]["judge"]
    words = ["{environment}", str(environment), "--", "sweep.py", "--prices", "{prices}", "--config-limit", "{limit}"]
    reads = {port: Path(path).name if port != "environment" else path for port, path in answer["reads"].items()}
    sweep = {**spec["sweep"], "run": ["python3", *words], "reads": reads}
    forgers = {name: FORGERS[name] for name in ("02-forged", "03-patched")}
    found = judged(small("one", forgers, sweep=sweep, beam_width=2), 0)
    assert {found[forger][0] for forger in forgers} == {"d1.n0", "d1.n1"}


def test_every_grade_of_a_cage_comes_to_the_same_bytes(small: Small) -> None:
    """Results, answers, records and commits; but for what says how long it took, and in which cage."""
    grades = [grade for grade in (PLAIN, LANDLOCK, ISOLATED) if not lacking(CageKeys(sandbox=grade))]
    found = {}
    for grade in grades:
        project = small(grade, {"02-forged": FORGED}, sandbox=grade)
        folder = project.root / "runs/momentum"
        written = files(
            folder, "artifacts/*.csv", "depths/**/*.json", "eval/**/*.json", "eval/*/out*/**/*.csv", "*.json"
        )
        timed = [path for path in written if path.endswith(".cost.json") or path == "manifest.json"]
        held = {json.loads(written[path])["sandbox"] for path in timed if path.endswith("sweep.cost.json")}
        assert held == {"trusted" if grade == ISOLATED else grade}
        found[grade] = {path: content for path, content in written.items() if path not in timed}
        promoted = json.loads(found[grade].pop("depths/0/promoted.json"))
        seconds = [spent.pop() for spent in promoted["spent"].values()]
        assert min(seconds) > 0
        found[grade]["promoted"] = json.dumps(promoted).encode()
        refs = ["git", "-C", str(folder / "repo.git"), "for-each-ref"]
        found[grade]["refs"] = subprocess.run(refs, capture_output=True, check=True).stdout
        assert judged(project, 0)[FIRST][0] == "d1.n0"
    assert len(found[PLAIN]) > 20
    for grade in grades:
        assert {path for path in found[PLAIN] if found[PLAIN][path] != found[grade].get(path)} == set(), grade
        assert found[grade].keys() == found[PLAIN].keys()


def test_the_look_ahead_would_have_won_by_far(run: Run, patched: Callable[..., Path]) -> None:
    before, after = (swept(run, patched(FIRST, *more)) for more in ([], [LOOK_AHEAD]))
    assert sharpe(after) > sharpe(before) + 1.5
    for config in range(24):
        of_it = [[row for row in rows if row["config_id"] == str(config)] for rows in (before, after)]
        assert sharpe(of_it[1]) > sharpe(of_it[0])
