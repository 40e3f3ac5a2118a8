"""A tree search from end to end, through the command line, with a real Lean."""

import json
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from kit import leaning
from kit.project import PATIENCE, ROOT, Project, leans

from pipeline.store.ledger import LedgerReader

SCHEMA = json.loads((ROOT / "pipeline" / "mcts" / "search" / "trace.schema.json").read_text())
SPEC = """\
kind: mcts
bank: bank.jsonl
goals: [swap, empty, cantor, odd]
seeds: [3]
calls: 12
iterations: 60
attempts: 2
lean: {processes: 1}
scenarios:
  alone: {mode: centralized}
  team: {mode: distributed, agents: 3, inflight: 2}
  damage: {mode: distributed, agents: 3, inflight: 2, block: {fraction: 0.3, duration: 4}, delay: {prob: 0.1,
    duration: 2}}
"""
GOALS = {
    "swap": "∀ p q : Prop, p ∧ q → q ∧ p",
    "empty": "∀ (α : Type) (xs : List α), xs ++ [] = xs",
    # beyond anything that is tried here: the one costs little, the other lasts, so that it can be ended in the middle
    "cantor": "∀ (α : Type) (f : α → α → Prop), ∃ g : α → Prop, ∀ a, f a ≠ g",
    "fermat": "∀ a b c n : Nat, n > 2 → a ^ n + b ^ n = c ^ n → a * b * c = 0",
    "odd": "∀ n : Nat, n + 1 = n",
}
LEDGER = "runs/.ledger/ledger.db"


def bank(goals: dict[str, str]) -> str:
    return "".join(json.dumps({"id": name, "goal": goal}) + "\n" for name, goal in goals.items())


def made(root: Path, spec: str = SPEC) -> Project:
    project = Project(root)
    project.spec("x", spec)
    project.write("bank.jsonl", bank(GOALS))
    return project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = made(tmp_path_factory.mktemp("built") / "project")
    said = project.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    project.write("said.txt", said.stdout + said.stderr)
    return project


def cells(project: Project) -> list[Path]:
    return sorted((project.root / "runs/x/searches").glob("*/*/*"))


def files(project: Project, name: str) -> dict[str, str]:
    """What each search wrote, by where it is."""
    found = project.root.glob(f"runs/x/searches/*/*/*/*{name}")
    return {str(path.relative_to(project.root)): path.read_text() for path in found}


def summary(cell: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((cell / "summary.json").read_text())
    return found


def test_each_search_leaves_its_files_and_what_is_proved_is_verified(built: Project) -> None:
    assert len(cells(built)) == 3 * 4
    for cell in cells(built):
        goal, scenario = cell.name, cell.parts[-3]
        names = ["journal.jsonl", "proof.lean", "run_config.json", "run_status.json", "summary.json"]
        assert sorted(path.name for path in cell.iterdir()) == sorted([f"{goal}_mcts_trace.jsonl", *names])
        told = summary(cell)
        assert told["status"] in (
            ["solved", "open"]
            if scenario != "alone" and goal != "odd"
            else ["refused"]
            if goal == "odd"
            else ["open"]
            if goal == "cantor"
            else ["solved"]
        )
        assert told["verified"] == (told["status"] == "solved") == ("theorem" in (cell / "proof.lean").read_text())


def test_a_proof_is_a_file_that_lean_takes(built: Project, tmp_path: Path) -> None:
    proved = {cell.name: cell / "proof.lean" for cell in cells(built) if summary(cell)["verified"]}
    assert {*proved} == {"swap", "empty"}
    for name, file in proved.items():
        shutil.copy(file, tmp_path / f"{name}.lean")
    for name, said in leaning.says_each(tmp_path, [*proved]).items():
        assert said == [f"{name}.lean: ended"]


def test_every_line_of_a_trace_is_as_the_schema_says(built: Project) -> None:
    check = Draft202012Validator(SCHEMA)
    lines = [line for text in files(built, "_mcts_trace.jsonl").values() for line in text.splitlines()]
    assert len(lines) > 100
    for line in lines:
        check.validate(json.loads(line))
    assert {json.loads(line)["reason"] for line in lines} >= {"expanded", "blocked", "delayed"}


def test_a_row_that_is_no_goal_costs_only_its_own_searches(built: Project) -> None:
    refused = [summary(cell) for cell in cells(built) if cell.name == "odd"]
    assert all(each["status"] == "refused" and "it is false" in str(each["error"]) for each in refused)
    assert "1 row of the bank not counted:\n  bank.jsonl:5: odd: it is false" in built.read("said.txt")
    told = json.loads(built.read("runs/x/comparison.json"))
    assert (told["goals"], [each["goal"] for each in told["refused"]]) == (["cantor", "empty", "swap"], ["odd"])
    assert all(each["searches"] == 3 for each in told["scenarios"].values())


def test_proofs_land_in_the_ledger(built: Project) -> None:
    proved = {cell.name for cell in cells(built) if summary(cell)["verified"]}
    assert proved == {"swap", "empty"}
    toolchain = json.loads(built.read("runs/x/toolchain.json"))["version"]
    with closing(LedgerReader(str(built.root / LEDGER))) as reader:
        attempts = reader.attempts_by_key(toolchain).values()
        assert {each.goal.id for each in reader.frontier()} == {"cantor"}
    kept = {each.key.goal_hash for each in attempts if each.verified}
    assert kept == {json.loads(built.read(f"runs/x/goals/{goal}.json"))["key"] for goal in proved}
    assert {each.key.strategy for each in attempts} == {"mcts centralized", "mcts distributed"}


def test_two_processes_of_lean_give_the_same_bytes(built: Project, tmp_path: Path) -> None:
    spec = SPEC.replace("processes: 1", "processes: 2").replace("swap, empty, cantor, odd", "cantor")
    other = made(tmp_path / "other", spec)
    assert other.coppice("x", timeout=PATIENCE).returncode == 0
    for name in ("_mcts_trace.jsonl", "journal.jsonl", "summary.json"):
        found = files(other, name)
        assert len(found) == 3
        assert found.items() <= files(built, name).items()


def test_all_is_decided_again_and_what_was_edited_shows(built: Project) -> None:
    said = built.call("replay", "x")
    assert (said.code, said.err) == (0, "")
    assert "of 12 journals: the same again, and so are the traces" in said.out
    trace = next(path for path in built.root.glob("runs/x/searches/team/3/empty/*_trace.jsonl"))
    whole = trace.read_text()
    line = 1 + ['"agent_id":1' in each for each in whole.splitlines()].index(True)
    try:
        trace.write_text(whole.replace('"agent_id":1', '"agent_id":2', 1))
        said = built.call("replay", "x")
        assert said.code == 1
        assert f"{trace.relative_to(built.root)}:{line}: recorded" in said.out
    finally:
        trace.write_text(whole)


def test_explain_tells_each_search_of_a_goal(built: Project) -> None:
    said = built.call("explain", "x:swap").out
    assert "x:swap, alone, seed 3: proved after" in said
    assert said.count("x:swap, ") == 3
    assert "did you mean 'empty'?" in built.call("explain", "x:empti").err


@pytest.fixture
def copied(built: Project, tmp_path: Path) -> Project:
    return built.copy(tmp_path / "copy")


def run(project: Project, *words: str) -> str:
    said = project.coppice(*(words or ("x",)), timeout=PATIENCE)
    assert said.returncode == 0, said
    return said.stdout


def test_what_is_there_is_not_searched_again(copied: Project) -> None:
    assert run(copied) == "up to date: 19 targets\n"
    copied.spec("x", SPEC.replace("  team:", "  others:"))  # another name for the same
    said = run(copied)
    assert "built x:search" not in said
    assert "recalled x:search.others.3.swap" in said
    assert [each["goal"] for each in json.loads(copied.read("runs/x/comparison.json"))["refused"]] == ["odd"]
    assert "others" in json.loads(copied.read("runs/x/comparison.json"))["scenarios"]


def test_an_edit_of_a_goal_is_an_edit_of_its_searches_alone(copied: Project) -> None:
    goals = {"first": "1 = 1", **GOALS, "swap": "∃ p q : Prop, p ∧ q"}
    copied.write("bank.jsonl", bank(goals))
    said = run(copied)
    again = {line.split()[1] for line in said.splitlines() if line.startswith("built x:search")}
    assert [line.split()[1] for line in said.splitlines() if line.startswith("built x:goal")] == ["x:goal.swap"]
    assert again == {f"x:search.{name}.3.swap" for name in ("alone", "team", "damage")}


def test_with_another_limit_of_lean_nothing_is_searched_again(copied: Project) -> None:
    copied.spec("x", SPEC.replace("processes: 1", "processes: 1, memory: 1500"))
    assert "built x:search" not in run(copied)


def test_flags_search_beside_the_run_and_are_recalled_when_the_spec_says_the_same(copied: Project) -> None:
    flags = ["--mcts-mode", "distributed", "--mcts-agents", "3", "--mcts-inflight", "2"]
    said = copied.coppice("mcts", *flags)
    assert "recalled mcts-flags:search.flags.3.empty" in said.stdout
    assert "built mcts-flags:search" not in said.stdout
    assert "3 goals, 1 seed: flags" in said.stderr
    said = copied.coppice("mcts", "--mcts-mode", "centralized")  # others: nothing of the former is left
    assert "recalled mcts-flags:search.flags.3.empty" in said.stdout
    assert json.loads(copied.read("runs/mcts-flags/comparison.json"))["scenarios"]["flags"]["settings"] == {
        "mode": "centralized"
    }
    assert run(copied) == "up to date: 19 targets\n"


def test_what_the_ledger_knows_is_read_once_for_each_word(copied: Project) -> None:
    ledgered = "kind: mcts\nbank: bank.jsonl\ngoals: [swap]\ncalls: 12\nmode: centralized\npriors: ledger\nas_of: %s\n"
    copied.spec("y", ledgered % "spring")
    assert "built y:search.centralized.0.swap" in run(copied, "y")
    assert run(copied, "y").startswith("up to date")  # though the ledger has grown by this very search
    copied.spec("y", ledgered % "autumn")
    said = run(copied, "y")
    assert "built y:shares" in said
    assert "built y:search" not in said  # what it knows of tactics is the same


LONG = """\
kind: mcts
bank: bank.jsonl
goals: [fermat]
calls: 24
attempts: 2
mode: distributed
agents: 2
inflight: 2
lean: {processes: 1}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A longer search that nobody disturbed, with one process."""
    project = made(tmp_path_factory.mktemp("whole") / "project", LONG)
    run(project)
    return project


def begin(project: Project, lines: int) -> subprocess.Popen[str]:
    """The same search, so much of its journal written."""
    journal = project.root / "runs/x/.coppice/journals/search.distributed.0.fermat"
    build = project.popen("x")
    while build.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > lines):
        time.sleep(0.01)
    assert build.poll() is None, build.communicate()
    return build


def end(build: subprocess.Popen[str], how: int) -> None:
    with build:
        build.send_signal(how)
        build.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same search, interrupted in its one process, and then killed in two; another folder is as it was then."""
    project = made(tmp_path_factory.mktemp("killed") / "project", LONG)
    end(begin(project, 8), signal.SIGINT)
    [journal] = (project.root / "runs/x/.coppice/journals").iterdir()
    interrupted = journal.read_text()
    project.spec("x", LONG.replace("processes: 1", "processes: 2"))
    end(begin(project, interrupted.count("\n") + 4), signal.SIGKILL)
    assert journal.read_text().startswith(interrupted)
    project.copy(project.root.with_name("copy"))
    return project


def test_a_search_that_was_ended_again_and_again_goes_on_where_it_was(whole: Project, killed: Project) -> None:
    [journal] = (killed.root / "runs/x/.coppice/journals").iterdir()
    before = journal.read_text().splitlines()
    with journal.open("a") as file:
        file.write('{"n":')  # as if it had been ended just then
    killed.spec("x", LONG)
    run(killed)
    assert not leans(killed)
    assert files(killed, "journal.jsonl") == files(whole, "journal.jsonl")
    assert files(killed, "_mcts_trace.jsonl") == files(whole, "_mcts_trace.jsonl")
    asked = json.loads(next(iter(files(killed, "run_status.json").values())))["asked"]["tactics"]
    told = sum(line.count('"tactic":') for line in before if '"what":"tell"' in line)
    assert asked == 24 - told > 0
    assert not journal.exists()


def test_a_journal_of_another_search_is_left_alone(killed: Project) -> None:
    other = Project(killed.root.with_name("copy"))
    other.spec("x", LONG.replace("calls: 24", "calls: 4"))
    run(other)
    [trace] = files(other, "_mcts_trace.jsonl").values()
    assert json.loads(trace.splitlines()[-1])["iteration"] < 12


def test_in_real_time_the_journal_has_the_order_and_is_followed(tmp_path: Path) -> None:
    spec = LONG.replace("[fermat]", "[swap]").replace("processes: 1", "processes: 2")
    project = made(tmp_path / "real", spec + "deterministic_inference: false\n")
    run(project)
    assert summary(cells(project)[0])["verified"]
    assert "the same again, and so are the traces" in run(project, "replay", "x")
