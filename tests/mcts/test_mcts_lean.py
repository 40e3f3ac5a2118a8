"""Searches on a real Lean: what they prove holds as a whole, and a cut one goes on as if it had not been cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from threading import Event
from typing import Any, NamedTuple

import pytest
from kit.leaning import command
from kit.mcts_worlds import differences, trace_of_journal

from pipeline.core.journal import JournalDiffers
from pipeline.lean.model import (
    HEARTBEATS,
    Interrupted,
    Lean,
    LeanCrash,
    Session,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes
from pipeline.mcts.run import SearchFiles, TheoremResult, TheoremTask, prove_theorem
from pipeline.mcts.search import guides
from pipeline.mcts.search.agents import UNOBSERVED, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.guides import Guide, Proposal
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.search.records import ALL_SUCCESSES, Budget, Expansion, SearchRules
from pipeline.mcts.search.trace import trace_line

ONE = SearchRules(Budget(200, 80))
TWO, FOUR = TeamRules(ONE, ReservationRules(2, 2)), TeamRules(ONE, ReservationRules(4, 2, UNOBSERVED))
AND = ("intro p q hp hq", "constructor", "exact hq", "exact hp")
FOLLOWS = "(x < y → x < y + 1) ∧ (y < x → y < x + 1)"
SUM = Theorem("sum", "∀ a b : Nat, (a = 0 + a ∧ b = 0 + b) ∧ a + b = b + a")
PARTS = ("intro a b", "skip", "induction a", "constructor", "exact Nat.add_comm a b", "exact (Nat.zero_add _).symm")


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    processes = Processes(["mcts"])
    with closing(processes), closing(Pool(command(), processes, 2)) as pool:
        yield pool


class Searched(NamedTuple):
    found: TheoremResult
    lines: list[str]
    trace: list[str]

    def tried(self) -> list[dict[str, Any]]:
        return [each for told in map(json.loads, self.trace) for each in told["attempts"]]


def only(tactics: Sequence[str]) -> Guide:
    return Guide(lambda goal: [Proposal(each) for each in tactics], guides.printed_reward)


def searched(
    lean: Lean,
    theorem: Theorem | str,
    by: Guide | Sequence[str],
    rules: SearchRules | TeamRules = ONE,
    time: str = VIRTUAL_TIME,
    sessions: int = 1,
) -> Searched:
    theorem = theorem if isinstance(theorem, Theorem) else Theorem("t", theorem)
    guide = by if isinstance(by, Guide) else only(by)
    lines: list[str] = []
    trace: list[str] = []
    files = SearchFiles((), lines.append, lambda told: trace.append(trace_line(told)))
    return Searched(prove_theorem(TheoremTask(theorem, rules, guide, time), lean, files, None, sessions), lines, trace)


@pytest.fixture(scope="module")
def alone(lean: Lean) -> Searched:
    """The sum, searched by one controller."""
    return searched(lean, SUM, PARTS)


@pytest.fixture(scope="module")
def by_two(lean: Lean) -> Searched:
    """The sum, searched by two agents."""
    return searched(lean, SUM, PARTS, TWO)


@pytest.fixture(scope="module")
def by_four(lean: Lean) -> Searched:
    """The sum, searched by four agents."""
    return searched(lean, SUM, PARTS, FOUR)


def test_of_two_goals_that_a_tactic_leaves_both_are_proved(lean: Lean) -> None:
    found = searched(lean, "∀ p q : Prop, p → q → p ∧ q", AND).found
    assert found.script == ("intro p q hp hq", "constructor", "· exact hp", "· exact hq")
    assert [found.status, found.verified, found.error] == ["solved", True, ""]


def test_both_do_not_follow_from_one_of_them(lean: Lean) -> None:
    run = searched(lean, "∀ p q : Prop, p → p ∧ q", ("intro p q hp", "constructor", "exact hp", "skip"))
    assert [run.found.status, run.found.script, run.found.verified] == ["dead", (), False]
    assert any(each["applied"] and not each["goals"] for each in run.tried())  # the one of them is proved


def test_an_induction_whose_hypotheses_have_no_names_is_proved(lean: Lean) -> None:
    tactics = ("intro n", "induction n", "rfl", "rw [← Nat.add_assoc, a]")
    found = searched(lean, "∀ n : Nat, 0 + n = n", tactics).found
    assert found.script[2:] == ("· rfl", "· rename_i n a", "  rw [← Nat.add_assoc, a]")
    assert found.verified


def test_two_goals_that_are_the_same_are_proved_once(lean: Lean) -> None:
    run = searched(lean, "∀ p : Prop, p → p ∧ p", ("intro p hp", "constructor", "exact hp"))
    assert run.found.script[2:] == ("· exact hp", "· exact hp")
    assert [run.found.verified, run.found.nodes] == [True, 3]
    assert [each["tactic"] for each in run.tried() if each["applied"]].count("exact hp") == 1


def test_goals_of_one_shape_that_use_names_otherwise_are_not_the_same(lean: Lean) -> None:
    tactics = (
        "intro x y",
        "constructor",
        "intro h",
        "exact Nat.lt_add_right 1 (show x < y from h)",
        "exact Nat.lt.step h",
    )
    run = searched(lean, f"∀ x y : Nat, {FOLLOWS}", tactics)
    nodes = {node["key"]: node for node in (json.loads(told)["node"] for told in run.trace)}
    assert run.found.nodes > len(nodes)  # some share a key
    assert run.found.verified


def test_goals_that_wait_for_each_other_are_not_gone_into(lean: Lean) -> None:
    run = searched(lean, "∃ n : Nat, n = 3", ("refine ⟨?n, ?h⟩", "exact ⟨3, rfl⟩"))
    assert run.tried()[0] == {
        "tactic": "refine ⟨?n, ?h⟩",
        "applied": False,
        "error": "shared",
        "goals": [],
        "dead": None,
    }
    assert run.found.verified


def test_a_tactic_that_ran_out_of_time_is_tried_again_after_all_others(lean: Lean) -> None:
    guide = Guide(lambda goal: [Proposal("decide", seconds=0.08), Proposal("skip")], guides.printed_reward)
    run = searched(lean, "∀ a b : Fin 12, a + b = b + a", guide)  # a tenth of a second, on a good day
    tried = [each["tactic"] for each in run.tried()]
    assert tried == ["decide", "skip", *(f"decide /- again {number} -/" for number in range(1, len(tried) - 1))]
    assert len(tried) >= 3
    assert [run.found.script, run.found.verified] == [("decide",), True]


def test_what_lean_was_asked_is_told_by_what_it_was_for(alone: Searched) -> None:
    calls = alone.found.calls
    assert alone.found.verified
    assert calls["tactics"] == len(alone.tried())
    told = [json.loads(each).get("outcome", {}).get("attempts", []) for each in alone.lines]
    assert calls["keys"] == 1 + sum(len(each.get("goals", [])) for attempts in told for each in attempts)
    assert calls["prepared"] > 0
    assert calls["again"] == 0


def test_a_budget_of_calls_is_kept_to(lean: Lean) -> None:
    short = SearchRules(Budget(200, 7), expansion=Expansion(ALL_SUCCESSES, 3))
    for rules in (short, TeamRules(short, ReservationRules(3, 2))):
        found = searched(lean, SUM, PARTS, rules).found
        assert [found.status, found.calls["tactics"]] == ["open", 7]


@pytest.mark.parametrize(("cut", "sessions"), [(2, 1), (8, 1), (20, 1), (20, 2)])
def test_a_search_that_was_interrupted_goes_on_where_it_was(
    lean: Lean, by_two: Searched, cut: int, sessions: int
) -> None:
    lines: list[str] = []
    stop = Event()

    def write(text: str) -> None:
        lines.append(text)
        if len(lines) == cut:
            stop.set()

    wanted = TheoremTask(SUM, TWO, only(PARTS))
    with pytest.raises(Interrupted):
        prove_theorem(wanted, lean, SearchFiles((), write), stop, sessions)
    assert by_two.lines[: len(lines)] == lines
    answered = sum(len(json.loads(each)["outcome"]["attempts"]) for each in lines if '"what":"tell"' in each)
    trace: list[str] = []
    found = prove_theorem(
        wanted, lean, SearchFiles([*lines], lines.append, lambda told: trace.append(trace_line(told)))
    )
    assert [lines, trace, trace_of_journal(lines)] == [by_two.lines, by_two.trace, by_two.trace]
    assert found._replace(calls={}) == by_two.found._replace(calls={})
    assert found.calls["tactics"] == by_two.found.calls["tactics"] - answered
    assert found.calls["again"] or cut == 2


class Losing:
    """A Lean whose sessions are lost for good at some of the tactics: at every third."""

    def __init__(self, lean: Lean) -> None:
        self.lean = lean
        self.version, self.check, self.close = lean.version, lean.check, lean.close

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        session, state = self.lean.open(theorem, stop)
        return LosingSession(session), state


class LosingSession:
    def __init__(self, session: Session) -> None:
        self.session, self.asked = session, 0
        self.key, self.close = session.key, session.close

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        self.asked += 1
        if self.asked % 3 == 0:
            raise LeanCrash("it ended")
        return self.session.run_tac(state, tactic, timeout, heartbeats)


@pytest.mark.parametrize("attempts", [1, 3])
def test_what_could_not_be_tried_when_a_process_was_lost_is_tried_later(lean: Lean, attempts: int) -> None:
    tactics = ("intro p q hp", "constructor", "exact hp", "skip")
    rules = SearchRules(Budget(200), expansion=Expansion(ALL_SUCCESSES, attempts))
    whole, lost = (searched(each, "∀ p q : Prop, p → p ∧ q", tactics, rules) for each in (lean, Losing(lean)))
    for run in (whole, lost):
        assert {tuple(sorted(each)) for each in unproved(run).values()} == {tuple(sorted(tactics))}
    assert lost.found.status == whole.found.status == "dead"
    assert len(lost.trace) > len(whole.trace)
    assert any(json.loads(each)["reason"] == "no_goal" for each in lost.trace) or attempts > 1


def unproved(run: Searched) -> dict[int, list[str]]:
    """What was tried on each goal that was not proved."""
    told = [json.loads(each) for each in run.trace]
    proved = {each["node"]["id"] for each in told if each["node"]["status"] == "solved"}
    found: dict[int, list[str]] = {each["node"]["id"]: [] for each in told if each["node"]["id"] not in proved}
    for each in told:
        found.get(each["node"]["id"], []).extend(attempt["tactic"] for attempt in each["attempts"])
    return found


def test_a_journal_of_another_search_is_not_gone_on_with(lean: Lean, alone: Searched) -> None:
    with pytest.raises(JournalDiffers, match="line 1"):
        prove_theorem(TheoremTask(SUM, SearchRules(Budget(9)), only(PARTS)), lean, SearchFiles(alone.lines))


def test_one_agent_whom_nothing_hinders_proves_what_one_controller_does_by_the_same_way(
    lean: Lean, alone: Searched
) -> None:
    team = searched(lean, SUM, PARTS, TeamRules(ONE, ReservationRules(1, 1)))
    assert team.trace == alone.trace
    assert team.found == alone.found


def test_four_agents_prove_it_too_and_twice_in_the_same_bytes(lean: Lean, by_four: Searched) -> None:
    again = searched(lean, SUM, PARTS, FOUR)
    assert by_four.found.verified
    assert [again.lines, again.trace] == [by_four.lines, by_four.trace]


def test_two_processes_at_once_write_in_virtual_time_what_one_does(lean: Lean, by_four: Searched) -> None:
    with closing(lean.open(SUM)[0]), closing(lean.open(SUM)[0]):
        pass  # both processes are there from now on
    for _ in range(9):
        two = searched(lean, SUM, PARTS, FOUR, VIRTUAL_TIME, 2)
        assert [two.lines, two.trace] == [by_four.lines, by_four.trace]
        assert [two.found.script, two.found.verified] == [by_four.found.script, True]
        if two.found.calls["again"]:
            return  # in two; the first may have done it all before the other was there
    raise AssertionError("the second session is never asked anything")


def test_two_processes_prove_it_in_real_time_and_the_journal_says_how(lean: Lean) -> None:
    enough = SearchRules(Budget(2000, 400))  # some orders take longer than others
    run = searched(lean, SUM, PARTS, TeamRules(enough, ReservationRules(4, 2, UNOBSERVED)), REAL_TIME, 2)
    assert run.found.verified
    assert differences(run.lines) == []
    assert trace_of_journal(run.lines) == run.trace


def test_the_portfolio_proves_by_itself(lean: Lean) -> None:
    guide = Guide(guides.choose_priors("moves"), guides.choose_rewards("printed"))
    theorem = Theorem("t", "∀ n : Nat, 2 ∣ n * n + n", ("open Nat",))
    found = prove_theorem(
        TheoremTask(theorem, SearchRules(Budget(200, 200), expansion=Expansion(attempts=8)), guide), lean
    )
    assert [found.status, found.verified, found.error] == ["solved", True, ""]
