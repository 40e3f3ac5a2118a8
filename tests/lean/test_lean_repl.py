"""The protocol of the REPL: every request has its answer, whatever is in it, and the process goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from kit import leaning

from pipeline.lean.repl.process import Repl

# It takes minutes, and is not deep.
LONG = "set_option maxHeartbeats 0 in iterate 40 iterate 40 iterate 40 (have : 1 = 1 := rfl)"


@pytest.fixture(scope="module")
def repl() -> Iterator[Repl]:
    with leaning.started() as repl:
        yield repl


def ask(repl: Repl, cmd: str, **request: Any) -> dict[str, Any]:
    return repl.ask({"cmd": cmd, **request}, 60)


def start(repl: Repl, statement: str, env: int = 0) -> dict[str, Any]:
    return ask(repl, "start", env=env, statement=statement, name="it")


def tac(repl: Repl, sid: int, tactic: str, timeout: float = 10, **more: Any) -> dict[str, Any]:
    return ask(repl, "tac", sid=sid, tactic=tactic, timeout_ms=int(1000 * timeout), **more)


@pytest.fixture
def begun(repl: Repl) -> int:
    """The number of a state with a goal."""
    return int(start(repl, "∀ p q : Prop, p ∧ q → q ∧ p")["sid"])


def test_a_process_is_small_and_soon_ready(repl: Repl) -> None:
    """Nobody has asked it anything before.  In seconds of CPU, for others may use the machine."""
    assert tac(repl, start(repl, "1 = 1")["sid"], "rfl")["done"]
    process = psutil.Process(repl.pid)
    assert sum(process.cpu_times()[:2]) < 6
    assert process.memory_info().rss < 1_000_000_000


def test_a_statement_begins_with_its_goal(repl: Repl) -> None:
    assert start(repl, "∀ n : Nat, n = n")["goals"] == ["⊢ ∀ (n : Nat), n = n"]


def test_what_a_statement_leaves_unbound_is_bound_as_in_a_theorem(repl: Repl) -> None:
    assert start(repl, "∀ x : α, x = x")["goals"] == ["α : Sort u_1\n⊢ ∀ (x : α), x = x"]


def test_a_state_stays_as_it_is(repl: Repl, begun: int) -> None:
    first = tac(repl, begun, "intro p q h")
    tac(repl, first["sid"], "exact ⟨h.2, h.1⟩")
    again = tac(repl, begun, "intro p q h")
    assert first["goals"] == again["goals"] == ["p q : Prop\nh : p ∧ q\n⊢ q ∧ p"]
    assert again["sid"] > first["sid"]


def test_several_tactics_in_lines_are_one_step(repl: Repl, begun: int) -> None:
    done = tac(repl, begun, "intro p q ⟨hp, hq⟩\nconstructor\n· exact hq\n· exact hp")
    assert done["done"]
    assert done["goals"] == []


def test_a_proof_without_axioms_says_so(repl: Repl) -> None:
    assert tac(repl, start(repl, "1 = 1")["sid"], "rfl")["axioms"] == []


def test_an_axiom_behind_an_imported_theorem_is_found(repl: Repl) -> None:
    classical = tac(repl, start(repl, "∀ p : Prop, p ∨ ¬p")["sid"], "exact Classical.em")
    assert "Classical.choice" in classical["axioms"]


def test_the_axioms_of_a_step_and_of_a_whole_script_are_the_same(repl: Repl) -> None:
    theorem = {"statement": "∀ a b : Nat, a < b → a + 1 ≤ b", "name": "it", "env": 0}
    step = tac(repl, ask(repl, "start", **theorem)["sid"], "intros; omega")
    assert ask(repl, "check", script="intros; omega", timeout_ms=9000, **theorem)["axioms"] == step["axioms"]


@pytest.mark.parametrize(
    ("tactic", "kind"),
    [
        ("no such tactic", "parse"),
        ("exact (", "parse"),
        ("", "parse"),
        ("exact h", "tactic"),
        ("intro p q h; exact sorry", "sorry"),
        ("run_tac pure ()", "refused"),
        ("intro p q h; exact ⟨h.2, (Lean.trustCompiler, h.1).2⟩", "tactic"),
    ],
)
def test_a_tactic_that_fails_says_how(repl: Repl, begun: int, tactic: str, kind: str) -> None:
    assert tac(repl, begun, tactic)["kind"] == kind


def test_too_many_heartbeats_are_their_own_kind(repl: Repl) -> None:
    hard = start(repl, "∀ a b c d e : Nat, a * b + c = d * e → d * e + 0 = c + a * b")["sid"]
    assert tac(repl, hard, "intros; simp_all [Nat.mul_comm, Nat.add_comm]; grind", heartbeats=1)["kind"] == "heartbeats"


def test_too_deep_a_recursion_is_its_own_kind(repl: Repl) -> None:
    deep = start(repl, "(fun n : Nat => n) 3 = 3")["sid"]
    assert tac(repl, deep, "exact " + "id (" * 1500 + "rfl" + ")" * 1500, timeout=50)["kind"] == "recursion"
    assert tac(repl, deep, "rfl")["done"]


def test_a_tactic_ends_soon_after_its_time(repl: Repl) -> None:
    endless = start(repl, "∀ n : Nat, n * n ≠ 2")["sid"]
    before = time.monotonic()
    assert tac(repl, endless, LONG, timeout=0.5)["kind"] == "timeout"
    assert time.monotonic() - before < 30


def test_the_time_of_a_whole_script_is_limited_too(repl: Repl) -> None:
    answer = ask(repl, "check", env=0, statement="False", name="it", script=LONG, timeout_ms=500)
    assert answer["kind"] == "timeout"


@pytest.mark.parametrize(
    "request_",
    [
        {"cmd": "tac", "sid": 10**9, "tactic": "rfl"},
        {"cmd": "key", "sid": 10**9},
        {"cmd": "start", "env": 10**9, "statement": "True"},
        {"cmd": "check", "env": 10**9, "statement": "True", "script": "trivial"},
        {"cmd": "cmd", "env": 10**9, "text": "def x := 3"},
        {"cmd": "no such command"},
        {},
    ],
)
def test_a_request_that_cannot_be_met_is_answered(repl: Repl, request_: dict[str, Any]) -> None:
    assert repl.ask(request_, 60)["kind"] == "protocol"


def test_wrong_json_is_answered(repl: Repl) -> None:
    os.write(repl._in, b"{no json\n" + b"[" * 2000 + b"\n")
    assert ask(repl, "ping")["pong"]


def test_odd_texts_come_back_as_they_were(repl: Repl) -> None:
    assert '"é∀→"' in start(repl, '"é∀→" = "é∀→"')["goals"][0]


def test_states_that_were_dropped_are_gone_and_their_numbers_with_them(repl: Repl, begun: int) -> None:
    kept, lost = (tac(repl, begun, "intro p")["sid"] for _ in range(2))
    assert ask(repl, "drop", sids=[lost, lost, 10**9])["dropped"] == 1
    assert tac(repl, lost, "skip")["kind"] == "protocol"
    assert tac(repl, kept, "skip")["sid"] > lost


def test_what_was_forgotten_is_gone_and_the_first_environment_is_not(repl: Repl) -> None:
    env = ask(repl, "cmd", env=0, text="def two := 2")["env"]
    old = start(repl, "two = 2", env)["sid"]
    ask(repl, "forget")
    assert start(repl, "two = 2", env)["kind"] == "protocol"
    assert tac(repl, old, "rfl")["kind"] == "protocol"
    assert start(repl, "2 = 2")["sid"] > old
    assert ask(repl, "cmd", env=0, text="def two := 2")["env"] > env


def test_dropped_states_leave_no_memory_behind(repl: Repl, begun: int) -> None:
    def stepped(count: int) -> int:
        for _ in range(count):
            ask(repl, "drop", sids=[tac(repl, begun, "intro p q h; constructor")["sid"]])
        return int(psutil.Process(repl.pid).memory_info().rss)

    assert stepped(1500) < stepped(300) + 60_000_000


def test_environments_do_not_touch_each_other(repl: Repl) -> None:
    one, two = (ask(repl, "cmd", env=0, text=f"def n : Nat := {n}")["env"] for n in (1, 2))
    assert tac(repl, start(repl, "n = 1", one)["sid"], "rfl").get("done")
    assert tac(repl, start(repl, "n = 1", two)["sid"], "rfl")["kind"] == "tactic"
    assert start(repl, "n = 1")["sid"] is not None  # there it is a variable, bound by the statement


def test_a_command_with_an_error_says_where(repl: Repl) -> None:
    [message] = ask(repl, "cmd", env=0, text="def a := 1\ndef b : Nat := true")["messages"]
    assert (message["severity"], message["line"]) == ("error", 2)


@pytest.mark.parametrize("text", ["import Std", "open Nat\nimport Std", "#exit", "open Nat\n#exit\nopen Int"])
def test_nothing_is_cut_off_before_its_end(repl: Repl, text: str) -> None:
    assert ask(repl, "cmd", env=0, text=text)["kind"] == "refused"


def test_a_sorry_behind_a_notation_is_not_taken_for_the_proof(repl: Repl) -> None:
    hidden = 'notation "Easy" => (by sorry : True) = (by sorry : True)'
    env = ask(repl, "cmd", env=0, text=hidden)["env"]
    assert start(repl, "Easy", env)["kind"] == "sorry"


@pytest.mark.parametrize("statement", ["∀ x y : Nta, x = y → y = x", "∀ x : Nat, x + lenght ≥ x"])
def test_a_misspelt_name_is_no_variable(repl: Repl, statement: str) -> None:
    answer = start(repl, statement)
    assert answer["kind"] == "elab"
    assert "nknown identifier" in answer["error"]


def test_a_single_letter_may_be_a_variable(repl: Repl) -> None:
    assert start(repl, "∀ xs : List α, xs.length = xs.length")["goals"][0].startswith("α : Type")


def test_a_refused_command_is_told_as_a_message_too(repl: Repl) -> None:
    answer = ask(repl, "cmd", env=0, text="def a := 1\n#eval a")
    assert answer["kind"] == "refused"
    assert "env" not in answer
    assert [message["severity"] for message in answer["messages"]] == ["error"]
