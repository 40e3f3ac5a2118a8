"""False proofs: none passes, neither as a tactic nor as a whole script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import leaning

from pipeline.lean.model import TRUSTED
from pipeline.lean.repl.process import Repl

HERE = Path(__file__).parent
CHEATS = yaml.safe_load((HERE / "lean_cheats.yaml").read_text(encoding="utf-8"))
PROOFS = yaml.safe_load((HERE / "lean_proofs.yaml").read_text(encoding="utf-8"))
SECONDS = 20


@pytest.fixture(scope="module")
def repl() -> Iterator[Repl]:
    with leaning.started() as repl:
        yield repl


def asked(repl: Repl, cmd: str, **request: Any) -> dict[str, Any]:
    return repl.ask({"cmd": cmd, "timeout_ms": 1000 * SECONDS, **request}, 3 * SECONDS)


def verdicts(repl: Repl, case: Mapping[str, Any]) -> dict[str, str]:
    """Where the proof was stopped, and by which kind of error; or that it was not."""
    env = 0
    for text in case.get("before", []):
        answer = asked(repl, "cmd", env=env, text=text)
        if "error" in answer:
            return {"before": answer["kind"]}
        env = answer["env"]
        if any(message["severity"] == "error" for message in answer["messages"]):
            return {"before": "elab"}
    theorem = {"env": env, "statement": case.get("statement", "False"), "name": case.get("as", "cheat")}
    started = asked(repl, "start", **theorem)
    if "error" in started:
        return {"start": started["kind"], "check": asked(repl, "check", script=case["script"], **theorem)["kind"]}
    done = asked(repl, "tac", sid=started["sid"], tactic=case["script"])
    checked = asked(repl, "check", script=case["script"], **theorem)
    for answer in (done, checked):
        assert set(answer.get("axioms", [])) <= TRUSTED
    return {"tac": _verdict(done), "check": "" if "axioms" in checked else checked["kind"]}


def _verdict(done: Mapping[str, Any]) -> str:
    if "error" in done:
        return str(done["kind"])
    assert ("axioms" in done) == bool(done.get("done"))
    return "" if done.get("done") else "open"


def test_there_are_enough_of_them() -> None:
    assert len({case["name"] for case in CHEATS}) == len(CHEATS) >= 30


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case["name"])
def test_a_cheat_does_not_pass(repl: Repl, case: dict[str, Any]) -> None:
    place = case.get("at", "tac")
    expected = {place: case["kind"]}
    if place != "before":
        expected["check"] = case.get("whole", case["kind"])
    assert verdicts(repl, case) == expected


@pytest.mark.parametrize("case", PROOFS, ids=lambda case: case["name"])
def test_a_proof_passes(repl: Repl, case: dict[str, Any]) -> None:
    assert verdicts(repl, case) == {"tac": case.get("tac", ""), "check": ""}


# A module to be imported.  It keeps the proofs of theorems to itself, as all modules of this Lean do.
HIDING = {
    "Hiding": """module
public meta import Coppice
public section
theorem told : False := sorry
private theorem hidden : False := sorry
@[expose] def defined : Unit → False := fun _ => sorry
@[expose] def shown : Nat := 3
axiom ours : False
@[expose] instance decided : Decidable (1 = 2) := .isTrue sorry
macro "win" : tactic => `(tactic| run_tac Lean.Elab.Tactic.setGoals [])
macro "wins" : term => `(by_elab return Lean.mkConst `True.intro)
end
#whole
"""
}
IMPORTED = {
    "exact ours": "axioms",
    "exact told": "axioms",
    "exact defined ()": "sorry",
    "exact hidden": "tactic",
    "exact absurd (of_decide_eq_true (p := 1 = 2) rfl) (by omega)": "axioms",
    "win": "tactic",
    "exact wins": "tactic",
}


@pytest.fixture(scope="module")
def importer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repl]:
    with leaning.started(leaning.importing(tmp_path_factory.mktemp("modules"), HIDING)) as repl:
        yield repl


@pytest.mark.parametrize("script", IMPORTED)
def test_what_an_imported_module_hides_does_not_pass(importer: Repl, script: str) -> None:
    expected = IMPORTED[script]
    assert verdicts(importer, {"script": script}) == {"tac": expected, "check": expected}


def test_what_an_imported_module_defines_can_be_used(importer: Repl) -> None:
    assert verdicts(importer, {"statement": "shown = 3", "script": "rfl"}) == {"tac": "", "check": ""}
