"""A search for proofs from end to end, through the command line, with a real Lean."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kit import leaning
from kit.project import PATIENCE, Project, leans

from pipeline.goals.attempts import Attempt
from pipeline.goals.bank import Goal
from pipeline.goals.lean_files import lean_files_in_one
from pipeline.lean.model import Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes
from pipeline.proof.records import PROVED, Sample, SampleRecord
from pipeline.proof.report import proofs_of
from pipeline.proof.search_stage import sample_seed
from pipeline.proof.stages import write_each
from pipeline.proof.workers import micro
from pipeline.store.ledger import LedgerReader

SPEC = """\
kind: proof
bank: bank.jsonl
strategies: {micro: {families: [finishers], timeout: 60s}}
levels: 1
lean: {processes: 1}
"""
# Each costs a Lean next to nothing, as does the look at whether it is false: what is told here is told of any goal.
EASY = {"same": "∀ x : α, x = x", "zero": "∀ n : Nat, 0 + n = n", "two": "2 + 2 = 4"}
# True, and beyond what finishes a proof: a search is through with them long before its time is over, however busy the
# machine is.
HARD = {"some": "∃ p : Prop, p", "none": "∃ p : Prop, p → False"}
GIVEN_UP = "nothing more to try"
GOALS = {**EASY, **HARD}
LEDGER = "runs/.ledger/ledger.db"


def bank(goals: dict[str, str]) -> str:
    return "".join(json.dumps({"id": name, "goal": goal}) + "\n" for name, goal in goals.items())


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A bank that was proved once."""
    project = Project(tmp_path_factory.mktemp("proved") / "project")
    project.spec("x", SPEC)
    project.write("bank.jsonl", bank(GOALS) + '{"id": "again", "goal": "∀ m : Nat, 0 + m = m"}\n{"id": "odd"}\n')
    said = project.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    project.write("said.txt", said.stdout + said.stderr)
    return project


def attempts(project: Project, run: str = "x") -> list[Attempt]:
    toolchain = json.loads(project.read(f"runs/{run}/toolchain.json"))["version"]
    with closing(LedgerReader(str(project.root / LEDGER))) as reader:
        return sorted(reader.attempts_by_key(toolchain).values(), key=lambda each: each.key)


def results(project: Project, run: str = "x") -> dict[str, object]:
    found: dict[str, object] = json.loads(project.read(f"runs/{run}/results.json"))
    return found


def test_a_bank_is_proved_by_one_command(proved: Project) -> None:
    found = results(proved)
    assert [found[f"goals_{name}"] for name in ("total", "processed", "solved", "refused")] == [5, 5, 3, 2]
    assert found["strategies"] == {"micro": {"used": 5, "succeeded": 3}}
    assert found["pass_at"] == {"1": 0.6}
    script = proved.read("runs/x/proofs.lean")
    assert [name for name in GOALS if f"theorem «proof of {name}»" in script] == [*EASY]


def test_rows_that_do_not_count_are_told_with_their_line(proved: Project) -> None:
    said = proved.read("said.txt")
    assert "bank.jsonl:6: again: " in said
    assert "bank.jsonl:7: odd: 'goal' is missing" in said
    assert "x: " in said
    assert "3 of 5 goals proved" in said


def test_what_is_proved_is_not_proved_again(proved: Project) -> None:
    before = attempts(proved)
    assert proved.coppice("x").stdout == "up to date: 5 targets\n"
    assert attempts(proved) == before


def test_all_that_was_decided_is_decided_again_alike(proved: Project) -> None:
    said = proved.call("replay", "x")
    assert said.code == 0, said
    assert "of the journal: the same again" in said.out
    journal = proved.read("runs/x/journal.jsonl")
    try:
        proved.write("runs/x/journal.jsonl", journal.replace('"budget":60.0', '"budget":61.0', 1))
        changed = proved.call("replay", "x")
    finally:
        proved.write("runs/x/journal.jsonl", journal)
    assert changed.code == 1
    assert "runs/x/journal.jsonl:" in changed.out


def test_a_goal_is_explained_by_its_attempts(proved: Project) -> None:
    said = proved.call("explain", "x:zero")
    assert "proved by micro" in said.out
    assert "micro, level 0 (1 min 00 s): proved after" in said.out
    assert "not proved" in proved.call("explain", "x:some").out
    unknown = proved.call("explain", "x:zeroo")
    assert (unknown.code, "did you mean 'zero'?" in unknown.err) == (2, True)


def test_what_the_ledger_has_is_told(proved: Project) -> None:
    said = proved.call("stats")
    assert "5 goals, 3 proved; 2 goals open, 0 of them never tried" in said.out
    told = json.loads(proved.call("stats", LEDGER, "--json").out)
    assert (told["attempts"], told["strategies"][0]["successes"]) == (5, 3)


@pytest.fixture
def copied(proved: Project, tmp_path: Path) -> Project:
    return proved.copy(tmp_path / "copy")


def test_an_edit_of_the_bank_attempts_what_is_new_and_no_more_and_undone_recalls_everything(copied: Project) -> None:
    before = {each.key: each.timestamp for each in attempts(copied)}
    original = copied.read("bank.jsonl")
    # one more, one less, one that says the same in other words, and all in another order
    goals = {"both": "∃ p q : Prop, p ∧ q", **GOALS, "zero": "∀ k : Nat, 0 + k = k"}
    del goals["same"]
    copied.write("bank.jsonl", bank(dict(reversed(goals.items()))))
    said = copied.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    after, found = {each.key: each.timestamp for each in attempts(copied)}, results(copied)
    assert {key: time for key, time in after.items() if key in before} == before
    assert len(after) == len(before) + 1
    assert (found["goals_total"], found["goals_solved"]) == (5, 2)
    copied.write("bank.jsonl", original)
    said = copied.coppice("x")
    assert said.returncode == 0, said
    assert " 0 built" in said.stdout or "up to date" in said.stdout


def test_a_bank_is_proved_with_other_settings_and_what_was_tried_is_recalled(proved: Project) -> None:
    before = attempts(proved)
    said = proved.coppice("bank", "x", "--timeout", "90s", "--output", "out/r.json", timeout=240, ORCH_MAX_LIGHT="3")
    assert said.returncode == 0, said
    assert said.stdout.splitlines()[-1] == "out/r.json"
    found = json.loads(proved.read("out/r.json"))
    assert [found[f"goals_{name}"] for name in ("total", "processed", "solved")] == [5, 5, 3]
    assert found["strategies"] == {"micro": {"used": 5, "succeeded": 3}}
    documented = {"timeout": 90.0, "max_heavy": 2, "max_light": 3, "cpu_target": 0.5, "profile": None}
    assert documented.items() <= found["config"].items()
    assert attempts(proved) == before
    assert found["time_to_proof"] == results(proved)["time_to_proof"]


def test_what_is_open_is_gone_on_with_for_so_long(proved: Project) -> None:
    before = {each.key for each in attempts(proved)}
    said = proved.coppice("bg", "--duration", "1s", timeout=PATIENCE)
    assert said.returncode == 0, said
    assert "proved; 2 goals open, 0 of them never tried" in said.stdout
    assert {each.key.budget for each in attempts(proved) if each.key not in before} <= {240.0}


def test_further_samples_are_others(project: Project) -> None:
    """One row gives a sign another meaning: it counts, and what that is worth is for whoever wrote it to say."""
    odd = {"id": "odd", "goal": "1 = 2", "context": ['infix:50 (priority := high) " = " => fun a b : Nat => a ≤ b']}
    project.spec("x", f"{SPEC}samples: 2\npass_at: [1, 2]\n")
    project.write("bank.jsonl", "# mine\n" + json.dumps(odd) + "\n" + bank({"real": "∀ x : ℝ, x = x"}))
    said = project.coppice("x", timeout=PATIENCE)
    assert said.returncode == 0, said
    assert "2 warnings about what the bank says:" in said.stdout + said.stderr
    assert "bank.jsonl:2: odd: its context redefines `=`: what is proved may not be" in said.stdout + said.stderr
    assert "bank.jsonl:3: real: `ℝ` is no notation without Mathlib" in said.stdout + said.stderr
    found = results(project)
    assert found["pass_at"] == {"1": 1.0, "2": 1.0}
    assert [goal["proved"] for goal in found["goals"]] == [2, 2]  # type: ignore[attr-defined]
    plain = f"{micro.CODE} finishers"  # the first sample is what a search without samples is
    assert Counter(each.key.config for each in attempts(project)) == {plain: 2, f"{plain} {sample_seed(1, 0)}": 2}


@pytest.fixture
def begun(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A build that is just searching, with two attempts behind it."""
    project.spec("x", SPEC)
    project.write("bank.jsonl", bank({**HARD, **EASY}))
    with project.popen("x") as build:
        yield build
        build.kill()


def until(build: subprocess.Popen[str], words: str) -> None:
    assert build.stdout
    for line in build.stdout:
        if words in line:
            return
    raise AssertionError(f"it never said '{words}': {build.stderr and build.stderr.read()}")


def test_a_kill_in_the_middle_costs_what_ran_and_no_more(project: Project, begun: subprocess.Popen[str]) -> None:
    until(begun, "x:prove: 1 of 5")
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    kept = {each.key: each.timestamp for each in attempts(project)}
    assert kept
    said = project.coppice("x", timeout=PATIENCE)  # waits for the guard, which ends what was left
    assert said.returncode == 0, said
    assert not leans(project)
    after = {each.key: each.timestamp for each in attempts(project)}
    assert {key: after[key] for key in kept} == kept
    assert len(attempts(project)) == len(after) == len(GOALS)
    recalled = [each["recalled"] for line in proofs(project) for each in line["attempts"]]
    assert sum(recalled) == len(kept)
    assert results(project)["goals_solved"] == len(EASY)


def proofs(project: Project) -> list[dict[str, list[dict[str, bool]]]]:
    return [json.loads(line) for line in project.read("runs/x/proofs.jsonl").splitlines()]


def test_an_interrupt_ends_it_in_order_and_it_says_where_its_attempts_are(project: Project) -> None:
    project.spec("x", SPEC)
    project.write("bank.jsonl", bank({**HARD, **EASY}))
    with project.popen("bank", "x") as build:
        until(build, "bank:prove: 1 of 5")
        build.send_signal(signal.SIGINT)
        _, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 130, err
    assert f"interrupted by signal 2; every attempt that ended is in {LEDGER}" in err
    assert not leans(project, "bank")
    assert not os.path.exists(project.root / "bench")
    assert not os.path.exists(project.root / "runs/bank/proofs.jsonl")
    # none was recorded as a failure for having been interrupted
    assert {each.error for each in attempts(project, "bank")} <= {"", GIVEN_UP}
    with closing(LedgerReader(str(project.root / LEDGER))) as reader:
        assert reader.stats().attempts
        assert reader.stats().frontier == len(HARD) + len(EASY) - reader.stats().proved > 0


def test_a_proof_that_the_last_check_refuses_is_none_in_the_ledger_and_is_tried_again(copied: Project) -> None:
    ledger = copied.root / LEDGER
    with closing(LedgerReader(str(ledger))) as reader:
        before = reader.stats().proved
    with closing(sqlite3.connect(ledger)) as kept:
        of = "(SELECT goal_hash FROM goals WHERE name = 'zero')"  # as one that was kept when more was believed
        for table in ("attempts", "tactic_cache"):
            kept.execute(f"UPDATE {table} SET tactics = '[\"skip\"]' WHERE goal_hash = {of}")
        kept.commit()
    copied.write("bank.jsonl", bank(EASY))
    assert copied.coppice("x", timeout=PATIENCE).returncode == 0
    assert results(copied)["goals_solved"] == len(EASY) - 1
    with closing(LedgerReader(str(ledger))) as reader:
        assert "zero" in {each.goal.id for each in reader.frontier()}
        assert reader.stats().proved == before - 1
    [refused] = [each for each in attempts(copied) if not each.verified and each.tactics]
    assert (refused.tactics, refused.error.startswith("not verified: ")) == (("skip",), True)
    said = copied.coppice("bg", "x", timeout=PATIENCE)  # it ends by itself, for all is proved
    assert (said.returncode, "goals open" in said.stdout) == (0, True), said
    with closing(LedgerReader(str(ledger))) as reader:
        assert "zero" not in {each.goal.id for each in reader.frontier()}
        assert reader.stats().proved == before


def test_no_ledger_is_no_search(copied: Project) -> None:
    copied.spec("x", f"{SPEC}ledger: notes.txt\ntimeout: 1h\n")
    copied.write("notes.txt", "not a ledger\n" * 100)
    said = copied.coppice("x", timeout=PATIENCE)
    assert said.returncode == 1
    assert "notes.txt: damaged (file is not a database)" in said.stdout
    assert copied.read("notes.txt") == "not a ledger\n" * 100


def test_a_bank_without_a_goal_is_an_error(tmp_path: Path) -> None:
    """Here of a bank without a spec."""
    project = Project(tmp_path / "project")
    project.write("bank.jsonl", "# nothing yet\nno JSON\n")
    said = project.coppice("bank", "bank.jsonl", timeout=PATIENCE, ORCH_PROFILE="0")
    assert said.returncode == 1
    assert (
        "bank.jsonl: no row is a goal; of 1 row none counts, the first: bank.jsonl:2: not JSON"
        in said.stderr + said.stdout
    )


# By goal: its statement, its script, what stands before it.  In one file each would be in the way of another.
NASTY = {
    "and_comm": ("∀ p q : Prop, p ∧ q ↔ q ∧ p", "intro p q\nexact and_comm", ()),
    "Nat": ("∀ n : Nat, n + 0 = n", "intro n\nrfl", ("open Nat",)),
    "first": ("f = 2", "rfl", ("def f : Nat := 2",)),
    "f": ("f = 3", "rfl", ("def f : Nat := 3",)),
    "comment": ("1 + 1 = 2 -- easy", "rfl", ()),
    "lines": ("∀ n : Nat,\n  n = 0 ∨\n  n ≠ 0", "intro n\ncases n with\n| zero =>\n  left\n  rfl\n| succ => simp", ()),
    "suggested": ("∀ xs ys : List Nat, (xs ++ ys).length = ys.length + xs.length", "grind +suggestions", ()),
    "universes": ("∀ x : α, x = x", "intro x\nrfl", ("universe u", "variable {α : Type u}")),
    "options": ("n = n", "rfl", ("set_option maxRecDepth 2000", "variable (n : Nat)")),
    "types": ("∀ t : Tree, t.size = t.size", "intro t\nrfl", ("inductive Tree where\n| leaf\n| node (l r : Tree)",
        "def Tree.size : Tree → Nat\n| .leaf => 1\n| .node l r => l.size + r.size")),
    "inside": ("two = 2", "rfl", ("namespace Ours", "section", "open Nat", "def two := 2")),
    "instance": ("(default : Nat) = 5", "rfl", ("instance (priority := high) five : Inhabited Nat := ⟨5⟩",)),
    "other": ("(default : Nat) = 0", "rfl", ()),
    "infix": ("1 ⊞ 2 = 3", "rfl", ("def plus (a b : Nat) := a + b", 'infixl:65 " ⊞ " => plus')),
    "word": ("∀ ONE : Nat, ONE = ONE", "intro n\nrfl", ()),
    "notation": ("ONE = 1", "rfl", ("def one := 1", 'notation "ONE" => one')),
    "after": ("∀ ONE : Nat, ONE = ONE", "intro n\nrfl", ()),
    "simp": ("odd 3", "simp", ("def odd (n : Nat) : Prop := n % 2 = 1", "@[simp] theorem three : odd 3 := rfl")),
    "dot": ("∀ n : Nat, n.twice = 2 * n", "intro n\nrfl", ("def Nat.twice (n : Nat) := 2 * n",)),
    "deep": ("(List.range 300).length = 300", "rfl", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A bank of such goals with their proofs found, as they are written by the end of a run."""
    project = Project(tmp_path_factory.mktemp("nasty") / "project")
    found = [
        SampleRecord(Sample(Goal(name, text, context=before)), PROVED, "micro", 0, (*script.split("\n"),), 0.1, ())
        for name, (text, script, before) in NASTY.items()
    ]
    project.write("proofs.lean", lean_files_in_one(proofs_of(found), ["Lean"]))
    write_each(str(project.root / "proofs.zip"), proofs_of(found), ["Lean"])
    with zipfile.ZipFile(project.root / "proofs.zip") as folder:
        folder.extractall(project.root / "each")
    return project


def test_a_goal_is_proved_among_such_as_would_change_it() -> None:
    """The scripts are those of proofs: each passes the check, which all that is written has to agree with."""
    with closing(Processes(["lean"])) as starter, closing(Pool(leaning.command(), starter)) as lean:
        for name, (text, script, before) in NASTY.items():
            assert lean.check(Theorem("goal", text, before), script.split("\n")) is None, name


def test_the_file_of_proofs_is_one_that_lean_takes(nasty: Project, said_of_each: dict[str, list[str]]) -> None:
    assert said_of_each["proofs"] == ["proofs.lean: ended"]
    text = nasty.read("proofs.lean")
    apart = {name for name in NASTY if f"\n-- theorem «proof of {name}»" in text}
    assert apart == {"inside", "instance", "infix", "notation", "simp", "dot"}
    assert all(f"theorem «proof of {name}»" in text for name in NASTY)


@pytest.fixture(scope="module")
def said_of_each(nasty: Project) -> dict[str, list[str]]:
    (nasty.root / "each/false.lean").write_text("import Lean\ntheorem wrong : 1 = 2 := rfl\n")
    shutil.copy(nasty.root / "proofs.lean", nasty.root / "each")
    return leaning.says_each(nasty.root / "each", [*NASTY, "false", "proofs"])


@pytest.mark.parametrize("name", NASTY)
def test_each_proof_has_a_file_that_lean_takes(said_of_each: dict[str, list[str]], name: str) -> None:
    assert said_of_each[name] == [f"{name}.lean: ended"]


def test_a_file_that_lean_does_not_take_is_told_from_those(said_of_each: dict[str, list[str]]) -> None:
    assert "error" in said_of_each["false"][0]
