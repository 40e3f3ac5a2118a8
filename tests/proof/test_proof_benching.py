"""Settings of `bank` and `bg`: options go before the environment, that before the spec, that before defaults."""

from contextlib import chdir
from typing import Any

import pytest
from kit.project import Project
from test_proof_spec import LEAST, spec

from pipeline.commands.proofs import spec_with_options
from pipeline.commands.selection import choose_run
from pipeline.errors import SpecError
from pipeline.proof.plan import PURSUIT_LEVELS, pursuit
from pipeline.proof.read import spec_for_bank
from pipeline.proof.spec.model import Pace, ProofSpec

NOTHING: dict[str, Any] = {"profile": None, "timeout": None}
VARIABLES = {
    "ORCH_PROFILE": "0",
    "ORCH_CPU_TARGET": "0.25",
    "ORCH_MAX_LIGHT": "3",
    "ORCH_MAX_HEAVY": "1",
    "ORCH_ESCALATE_THRESHOLD": "0.4",
}
SAID = "kind: proof\nbank: b\nstrategies: {micro: {timeout: 3s}}\nmax_light: 5\ncpu_target: none\ntimeout: 1m\n"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def asked(of: ProofSpec, **typed: str) -> ProofSpec:
    found: ProofSpec = spec_with_options("bank", of, {**NOTHING, **typed})
    return found


def test_where_nobody_says_anything_it_is_as_documented() -> None:
    found = asked(spec_for_bank("bank.jsonl"))
    assert found.pace == Pace(8, 2, 0.5)
    assert found.search.escalate_threshold == 0.6
    assert (found.profile, found.search.strategies, found.search.timeout) == (1, {"micro": 8.0}, None)


def test_a_spec_goes_before_what_is_documented() -> None:
    found = asked(spec(SAID))
    assert found.pace == Pace(5, 2, None)
    assert (found.profile, found.search.strategies, found.search.timeout) == (None, {"micro": 3.0}, 60.0)


def test_the_environment_goes_before_the_spec(environment: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        environment.setenv(name, value)
    found = asked(spec(SAID))
    assert found.pace == Pace(3, 1, 0.25)
    assert (found.profile, found.search.escalate_threshold) == (0, 0.4)
    assert found.search.strategies == {"micro": 3.0}  # the budgets are still the spec's


def test_an_option_goes_before_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ORCH_PROFILE", "1")
    found = asked(spec(SAID), profile="0", timeout="90s")
    assert (found.profile, found.search.timeout) == (0, 90.0)


def test_an_empty_variable_says_nothing(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ORCH_MAX_LIGHT", "")
    assert asked(spec(LEAST)).pace.max_light == 8


@pytest.mark.parametrize("profile", ["1", "2", "9"])
def test_a_profile_that_is_asked_for_must_be_built(profile: str) -> None:
    with pytest.raises(SpecError, match=f"profile {profile}: worker 'copilot' is not built yet.*; profile 0 is micro"):
        asked(spec(LEAST), profile=profile)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("ORCH_PROFILE", "-1", "ORCH_PROFILE: expected a whole number, 0 or more"),
        ("ORCH_PROFILE", "most", "ORCH_PROFILE: expected a whole number"),
        ("ORCH_CPU_TARGET", "50", "ORCH_CPU_TARGET: expected a load per CPU, more than 0 and at most 1, or none"),
        ("ORCH_MAX_LIGHT", "0", "ORCH_MAX_LIGHT: expected a whole number, from 1 to 1000"),
        ("ORCH_MAX_HEAVY", "[1", "ORCH_MAX_HEAVY"),
        ("ORCH_ESCALATE_THRESHOLD", "2", "ORCH_ESCALATE_THRESHOLD: expected a number from 0 to 1"),
    ],
)
def test_a_variable_that_is_none_is_bad_input(project: Project, name: str, value: str, what: str) -> None:
    project.write("bank.jsonl", "")
    project.spec("x", LEAST)
    for command in ("bank", "bg"):
        said = project.coppice(command, **{name: value})
        assert said.returncode == 2
        assert what in said.stderr
        assert "Traceback" not in said.stderr
    assert not (project.root / "runs/.ledger").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("bank", "x", "y"), "name one run or bank, not 2"),
        (("bank", "lemmas"), "there is no run 'lemmas'"),
        (("bank", "steps"), "'steps' is no run of kind: proof"),
        (("bank", "nowhere.jsonl"), "nowhere.jsonl is missing"),
        (("bank",), "name one of: x, y"),
        (("bank", "x", "--timeout", "soon"), "--timeout: expected a time such as 90, 90s, 10m or 2h"),
        (("bank", "x", "--profile", "all"), "--profile: expected a whole number"),
        (("bg", "x", "y"), "name one run, not 2"),
        (("bg", "steps"), "'steps' is no run of kind: proof"),
        (("bg", "x", "--duration", "long"), "--duration: expected a time such as 90, 90s, 10m or 2h"),
        (("stats", "x", "y"), "name one run or ledger, not 2"),
        (("stats", "steps"), "'steps' keeps no ledger; that is for kinds: proof, mcts"),
        (("stats", "x"), "runs/.ledger/ledger.db: there is no such ledger"),
        (("stats", "no/ledger.db"), "no/ledger.db: there is no such ledger"),
    ],
)
def test_words_that_name_nothing_are_bad_input(project: Project, words: tuple[str, ...], what: str) -> None:
    project.write("bank.jsonl", "")
    for run in "xy":
        project.spec(run, LEAST)
    project.spec("steps", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    said = project.call(*words)
    assert said.code == 2, said
    assert what in said.err
    assert not (project.root / "runs/.ledger").exists()


def test_when_a_run_is_named_mistakes_in_other_specs_are_in_nobodys_way(project: Project) -> None:
    project.write("bank.jsonl", "")
    project.spec("x", LEAST)
    project.spec("y", "kind: [proof\n")
    assert "runs/.ledger/ledger.db: there is no such ledger" in project.call("stats", "x").err
    with chdir(project.root):
        assert choose_run("bank", ["x"], "proof").run == "x"
        with pytest.raises(SpecError, match=r"specs/y\.yaml:"):
            choose_run("bank", [], "proof")


def test_without_a_name_stats_is_of_the_only_ledger_there_is(project: Project) -> None:
    project.write("bank.jsonl", "")
    project.spec("steps", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    assert "runs/.ledger/ledger.db: there is no such ledger" in project.call("stats").err
    for run in "xy":
        project.spec(run, LEAST + "ledger: a.db\n")
    assert "a.db: there is no such ledger" in project.call("stats").err
    project.spec("y", LEAST + "ledger: b.db\n")
    said = project.call("stats")
    assert (said.code, "stats: name a run, or one of the ledgers: a.db, b.db" in said.err) == (2, True)


def test_what_is_open_is_pursued_with_larger_and_larger_budgets_for_so_long() -> None:
    toolchain, pursue = pursuit(spec_for_bank("")._replace(name="bg"), "runs/x/bank.json", 90.0, "now")
    assert (toolchain.name, pursue.name) == ("bg:toolchain", "bg:pursue")
    assert pursue.inputs == ("runs/bg/toolchain.json", "runs/x/bank.json")
    search = pursue.params["search"]
    assert (search["levels"], search["timeout"], search["samples"]) == (PURSUIT_LEVELS, 90.0, 1)
    again = pursuit(spec_for_bank("")._replace(name="bg"), "runs/x/bank.json", 90.0, "later")[1]
    assert again.params != pursue.params  # it is never up to date
