"""Searches that share a ledger: what is recalled, what is done again from the cache, and what that counts."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kit.proof_searches import goal, rules

from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Goal
from pipeline.lean.model import Begun, LeanError, Session, Stop, TacticState, Theorem, unheard
from pipeline.machine.process import BuildStopping, Processes
from pipeline.proof.run.attempt import Worker
from pipeline.proof.run.engine import SearchResult, SearchSite, SearchTask, search_goals
from pipeline.proof.schedule.records import EXHAUSTED, SOLVED, ScheduleRules, WorkerResult
from pipeline.store.ledger import Ledger, LedgerReader

Search = Callable[..., SearchResult]
GOALS = [replace(goal(number), key=f"key {number}") for number in range(4)]
START, CHECK = 7.0, 0.5  # seconds


class Checker:
    """A Lean that says of scripts what it is told.  Its time is its own: it takes some to start, and for each check."""

    version = "lean 1"

    def __init__(self, *wrong: str) -> None:
        self.wrong, self.now = wrong, 0.0

    def clock(self) -> float:
        return self.now

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        raise NotImplementedError

    def check(
        self, _theorem: Theorem, script: Sequence[str], _stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        self.now += START
        begun()
        self.now += CHECK
        return LeanError("it does not apply", "tactic") if {*script} & {*self.wrong} else None

    def close(self) -> None: ...


class Workers:
    """One proves goals of even numbers, another all of them; `made` are attempts, as they begin."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def by_name(self) -> dict[str, Worker]:
        return {"even": self._named("even"), "all": self._named("all")}

    def _named(self, name: str) -> Worker:
        async def worker(goal: Goal, _timeout: float) -> WorkerResult:
            self.made.append((goal.id, name))
            can = name == "all" or int(goal.id[1:]) % 2 == 0
            return WorkerResult(can, name, ("omega",) if can else (), 2.5, error="" if can else "nothing more to try")

        return worker


@pytest.fixture
def searched(tmp_path: Path, processes: Processes) -> Search:
    """One on the ledger that all of a test share."""

    def do(
        workers: Workers, asked: ScheduleRules, *goals: Goal, code: str = "1", lean: Checker | None = None
    ) -> SearchResult:
        with closing(Ledger(str(tmp_path / "ledger.db"))) as ledger:
            lean = lean or Checker()
            place = SearchSite(lean, 2, ledger, processes, "x")
            wanted = SearchTask(goals, asked, workers.by_name(), lambda _, name: f"{name} {code}", True, None)
            return search_goals(place, wanted, lambda _: None, lambda _: None, lean.clock)

    return do


def ended(found: SearchResult) -> list[tuple[str, str, float]]:
    """By whom each goal was proved, and the seconds that were spent on it."""
    spent = {name: sum(each.result.time_seconds for each in tried) for name, tried in found.attempts.items()}
    return [(one.goal.id, one.by.strategy if one.by else "", spent[one.goal.id]) for one in found.outcomes]


@pytest.mark.parametrize("bandit", ["seed", "ucb1", "discounted", "contextual"])
def test_a_search_that_is_made_again_recalls_what_it_took_and_tries_nothing(searched: Search, bandit: str) -> None:
    """Though by now the bandit might begin with another strategy."""
    asked, first, again = rules("even", "all", bandit=bandit, speculate=1), Workers(), Workers()
    before = searched(first, asked, *GOALS)
    assert {one.status for one in before.outcomes} == {SOLVED}
    after = searched(again, asked, *GOALS[::-1])
    assert again.made == []
    assert sorted(ended(after)) == ended(before)


@pytest.mark.parametrize("bandit", ["seed", "ucb1", "discounted"])
def test_another_bandit_recalls_what_each_strategy_did(searched: Search, bandit: str) -> None:
    before = searched(Workers(), rules("even", "all", bandit="contextual", speculate=1), *GOALS)
    again = Workers()
    after = searched(again, rules("even", "all", bandit=bandit, speculate=1), *GOALS)
    assert again.made == []
    assert ended(after) == ended(before)


def test_a_search_that_was_cut_short_finishes_alike(searched: Search) -> None:
    asked, whole, rest = rules("even", "all", speculate=1), Workers(), Workers()
    searched(whole, asked, *GOALS[:2])
    found = searched(rest, asked, *GOALS)
    assert {name for name, _ in rest.made} == {"g2", "g3"}
    assert {by for _, by, _ in ended(found)} <= {"even", "all"}


def test_what_another_search_proved_is_checked_again_and_costs_that_and_no_start_of_a_lean(searched: Search) -> None:
    asked, first, again = rules("all"), Workers(), Workers()
    searched(first, asked, GOALS[0])
    [(_, by, seconds)] = ended(searched(again, asked, GOALS[0], code="2"))
    assert again.made == []
    assert by == "cache"
    assert seconds == CHECK


def test_a_cached_proof_that_does_not_hold_any_more_makes_place_for_another_search(searched: Search) -> None:
    asked, first, again = rules("all", levels=1), Workers(), Workers()
    searched(first, asked, GOALS[0])
    found = searched(again, asked, GOALS[0], code="2", lean=Checker("omega"))
    assert again.made == [("g0", "all")]
    assert [one.status for one in found.outcomes] == [EXHAUSTED]
    assert [each.trial.strategy for each in found.attempts["g0"]] == ["cache", "all"]
    assert all(each.result.error.startswith("not verified: tactic") for each in found.attempts["g0"])


def test_goals_that_nobody_tried_are_in_the_ledger_before_anything_starts(
    tmp_path: Path, searched: Search, processes: Processes
) -> None:
    class Stops(Workers):
        def _named(self, name: str) -> Worker:
            async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
                processes.stop()
                await asyncio.Event().wait()
                raise AssertionError

            return worker

    found = searched(Stops(), rules("all"), *GOALS)
    assert found.stopped == "stopped"
    with closing(LedgerReader(str(tmp_path / "ledger.db"))) as reader:
        assert [(each.goal.id, each.attempts) for each in reader.frontier()] == [(each.id, 0) for each in GOALS]


def test_what_a_stopped_build_did_to_an_attempt_is_no_failure(
    tmp_path: Path, searched: Search, processes: Processes
) -> None:
    class Ended(Workers):
        def _named(self, name: str) -> Worker:
            async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
                processes.stopping = True  # as a signal does it, before anybody is woken
                return WorkerResult(False, name, error="its process has ended")

            return worker

    with pytest.raises(BuildStopping):
        searched(Ended(), rules("all"), GOALS[0])
    with closing(LedgerReader(str(tmp_path / "ledger.db"))) as reader:
        assert reader.stats().attempts == 0


def test_the_mistake_of_a_worker_is_not_kept_and_its_goal_is_tried_again(searched: Search) -> None:
    class Mistaken(Workers):
        def _named(self, name: str) -> Worker:
            async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
                raise ValueError(name)

            return worker

    asked, mended = rules("all", levels=1), Workers()
    searched(Mistaken(), asked, GOALS[0])
    assert [one.status for one in searched(mended, asked, GOALS[0]).outcomes] == [SOLVED]
    assert mended.made == [("g0", "all")]


def test_a_success_that_was_never_verified_is_recalled_as_none(tmp_path: Path, searched: Search) -> None:
    with closing(Ledger(str(tmp_path / "ledger.db"))) as ledger:
        key = AttemptKey("key 0", "all", "all 1", Checker.version, 8.0)
        ledger.record(Attempt(key, GOALS[0].text, success=True, time_seconds=1.0, timestamp=0.0, tactics=("rfl",)))
    again = Workers()
    found = searched(again, rules("all", levels=1), GOALS[0])
    assert [one.status for one in found.outcomes] == [EXHAUSTED]
    assert again.made == []
