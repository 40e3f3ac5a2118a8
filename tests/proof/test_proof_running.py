"""The runner: workers as coroutines, threads, processes; cancelled, failing, interrupted; nothing finished is lost."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kit.project import ROOT
from kit.proof_searches import goal, rules

from pipeline.core.journal import journal_differences
from pipeline.goals.bank import Goal
from pipeline.lean.dojo import backend
from pipeline.lean.model import LeanCrash, LeanKilled, LeanStartError, NotElaborated
from pipeline.lean.repl import process, slot
from pipeline.proof.run.attempt import PATIENCE, CheckResult, WorkerStuck, WorkerTimeouts, run_in_thread
from pipeline.proof.run.engine import SearchMeans, SearchProgress, run_trials
from pipeline.proof.schedule.policy import SCHEDULE_FORM, ScheduleJournal, first_line
from pipeline.proof.schedule.records import (
    CANCELLED,
    EXHAUSTED,
    FRONTIER,
    SOLVED,
    GoalOutcome,
    ScheduleRules,
    Trial,
    WorkerResult,
)

Worker = Callable[[Goal, float], Coroutine[Any, Any, WorkerResult]]
BOUND = 60  # seconds after which a test that hangs fails


class Kept:
    """Attempts in memory; `all` in the order in which they were kept."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, float, WorkerResult]] = []

    def recall(self, goal: Goal, trial: Trial) -> WorkerResult | None:
        wanted = (goal.id, trial.strategy, trial.budget)
        return next((each[3] for each in self.all if each[:3] == wanted), None)

    async def record(self, goal: Goal, trial: Trial, result: WorkerResult) -> None:
        self.all.append((goal.id, trial.strategy, trial.budget, result))

    @property
    def names(self) -> list[tuple[str, str]]:
        return [each[:2] for each in self.all]


async def holds(_goal: Goal, _result: WorkerResult) -> CheckResult:
    return CheckResult()


def search(rules: ScheduleRules, count: int = 1) -> tuple[ScheduleJournal, list[Goal], list[str]]:
    lines: list[str] = []
    journalled = ScheduleJournal(rules, lines.append)
    goals = [goal(number) for number in range(count)]
    for each in goals:
        journalled.add(each)
    return journalled, goals, lines


def means(workers: dict[str, Worker], kept: Kept | None = None, **more: Any) -> SearchMeans:
    more = {"check": holds, "processes": 4, **more}
    return SearchMeans(workers, attempts=kept or Kept(), **more)


def found(strategy: str = "a", *tactics: str) -> WorkerResult:
    return WorkerResult(True, strategy, tactics or ("rfl",), 0.1)


def failure(strategy: str = "a", why: str = "no tactic is left") -> WorkerResult:
    return WorkerResult(False, strategy, error=why, time_seconds=0.1)


def answers(result: WorkerResult) -> Worker:
    async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
        return result

    return worker


def hangs(log: list[str], started: asyncio.Event | None = None) -> Worker:
    """Until it is cancelled, in a process of its own, which is then gone."""

    async def worker(goal: Goal, _timeout: float) -> WorkerResult:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        if started:
            started.set()
        try:
            await run_in_thread(child.wait, child.kill)
        finally:
            log.append(f"{goal.id} ended by {-child.wait()}")
            assert child.stdin
            child.stdin.close()
        return failure()

    return worker


def ran(what: Coroutine[Any, Any, list[GoalOutcome]]) -> list[GoalOutcome]:
    async def bounded() -> list[GoalOutcome]:
        async with asyncio.timeout(BOUND):
            return await what

    return asyncio.run(bounded())


def test_a_goal_is_solved_by_the_strategy_that_can() -> None:
    journalled, goals, lines = search(rules("a", "b"), 3)
    kept = Kept()
    standings = ran(run_trials(journalled, goals, means({"a": answers(failure("a")), "b": answers(found("b"))}, kept)))
    assert [(each.status, each.by and each.by.strategy) for each in standings] == [(SOLVED, "b")] * 3
    assert journal_differences(SCHEDULE_FORM, lines, first_line(journalled.policy.rules)) == []


def test_the_first_verified_success_wins_although_a_failure_and_a_false_proof_ended_before() -> None:
    proved = asyncio.Event()

    async def late(_goal: Goal, _timeout: float) -> WorkerResult:
        await proved.wait()
        return found("c", "omega")

    async def check(_goal: Goal, result: WorkerResult) -> CheckResult:
        return CheckResult("it has a sorry in it" if result.tactics == ("sorry",) else "")

    def told(progress: SearchProgress) -> None:
        if progress.outcome.trial == 2:
            proved.set()

    journalled, goals, _ = search(rules("a", "b", "c", levels=1))
    workers = {"a": answers(failure()), "b": answers(found("b", "sorry")), "c": late}
    kept = Kept()
    [standing] = ran(run_trials(journalled, goals, means(workers, kept, check=check, on_progress=told)))
    assert standing.by
    assert standing.by.strategy == "c"
    assert {name: result.error for _, name, _, result in kept.all}["b"] == "not verified: it has a sorry in it"
    assert journalled.policy.bandit.tallies


def test_the_others_are_cancelled_with_their_processes_and_are_no_failures() -> None:
    log: list[str] = []
    running = asyncio.Event()

    async def wins(_goal: Goal, _timeout: float) -> WorkerResult:
        await running.wait()
        return found("b")

    journalled, goals, lines = search(rules("a", "b", bandit="seed"))
    kept = Kept()
    [standing] = ran(run_trials(journalled, goals, means({"a": hangs(log, running), "b": wins}, kept)))
    assert standing.status == SOLVED
    assert log == [f"g0 ended by {signal.SIGKILL}"]
    assert kept.names == [("g0", "b")]
    assert journalled.policy.bandit.trials == {"b": 1}
    assert f'"status":"{CANCELLED}"' in lines[-1]


RAISED = [ValueError("odd"), LeanCrash("gone"), NotElaborated("unknown x"), OSError(5, "input/output error")]
RAISED += [TimeoutError("nobody answers"), TimeoutError()]


@pytest.mark.parametrize("error", RAISED)
def test_what_a_worker_raises_is_what_came_of_the_attempt(error: Exception) -> None:
    async def raises(_goal: Goal, _timeout: float) -> WorkerResult:
        raise error

    journalled, goals, _ = search(rules("a", levels=1))
    kept = Kept()
    [standing] = ran(run_trials(journalled, goals, means({"a": raises}, kept)))
    assert standing.status == EXHAUSTED
    [(_, _, _, result)] = kept.all
    assert result.error == f"{type(error).__name__}: {error}"
    assert result.metadata["raised"] == type(error).__name__
    assert "in raises" in result.metadata["traceback"]


def test_a_worker_that_cancels_itself_has_failed() -> None:
    async def cancels(_goal: Goal, _timeout: float) -> WorkerResult:
        raise asyncio.CancelledError

    journalled, goals, _ = search(rules("a", levels=1))
    assert [each.status for each in ran(run_trials(journalled, goals, means({"a": cancels})))] == [EXHAUSTED]


@pytest.mark.parametrize("where", ["worker", "killed", "check", "record", "progress"])
def test_the_fault_of_the_tool_is_raised_once_all_that_ran_has_ended(where: str) -> None:
    log: list[str] = []
    fault = {"worker": LeanStartError, "killed": LeanKilled}.get(where, RuntimeError)("no Lean here")
    both = asyncio.Event()

    def reached(place: str) -> None:
        if place == where:
            raise fault

    async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
        await both.wait()
        reached("worker")
        reached("killed")
        return found()

    async def check(_goal: Goal, _result: WorkerResult) -> CheckResult:
        reached("check")
        return CheckResult()

    class Full(Kept):
        async def record(self, goal: Goal, trial: Trial, result: WorkerResult) -> None:
            reached("record")
            await super().record(goal, trial, result)

    workers = {"a": worker, "b": hangs(log, both)}
    journalled, goals, _ = search(rules("a", "b", speculate=2))
    with pytest.raises(type(fault), match="no Lean here"):
        ran(
            run_trials(
                journalled, goals, means(workers, Full(), check=check, on_progress=lambda _: reached("progress"))
            )
        )
    assert f"g0 ended by {signal.SIGKILL}" in log
    assert journalled.policy.stopped.startswith("fault")


def test_a_worker_that_overruns_is_cancelled_and_has_failed() -> None:
    log: list[str] = []
    short = rules("a", levels=1)
    journalled, goals, _ = search(ScheduleRules((short.strategies[0]._replace(timeout=0.2),), levels=1))
    kept = Kept()
    [standing] = ran(run_trials(journalled, goals, means({"a": hangs(log)}, kept, patience=WorkerTimeouts(slack=0))))
    assert standing.status == EXHAUSTED
    assert log == [f"g0 ended by {signal.SIGKILL}"]
    assert kept.all[0][3].error == "timeout: cancelled 0 s after its 0.2 s"


def test_no_worker_is_cancelled_while_its_lean_may_still_be_starting() -> None:
    assert PATIENCE.slack > max(slot.STARTS * process.START, backend.START)


def test_a_worker_that_cannot_be_ended_is_a_fault() -> None:
    begun, released = Event(), asyncio.Event()

    async def deaf(_goal: Goal, _timeout: float) -> WorkerResult:
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return failure()

    async def wins(_goal: Goal, _timeout: float) -> WorkerResult:
        await asyncio.to_thread(begun.wait)
        return found("b")

    async def both() -> None:
        journalled, goals, _ = search(rules("a", "b"))
        try:
            with pytest.raises(WorkerStuck, match="a on g0 goes on"):
                await run_trials(journalled, goals, means({"a": deaf, "b": wins}, patience=WorkerTimeouts(grace=0.1)))
        finally:
            released.set()

    asyncio.run(both())


@pytest.mark.parametrize("how", ["deadline", "stop", "cancel"])
def test_stopped_it_ends_what_runs_keeps_what_is_done_and_leaves_the_rest(how: str) -> None:
    log: list[str] = []
    kept = Kept()

    async def main() -> list[GoalOutcome]:
        journalled, goals, lines = search(rules("a", "b", speculate=1, levels=1), 5)
        running, stop = asyncio.Event(), asyncio.Event()
        workers = {"a": answers(failure()), "b": hangs(log, running)}
        deadline = 0.5 if how == "deadline" else None
        task = asyncio.create_task(run_trials(journalled, goals, means(workers, kept, processes=1), deadline, stop))
        await running.wait()
        if how == "stop":
            stop.set()
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert await task == journalled.policy.outcomes()
        reasons = {"deadline": "timeout", "stop": "stopped", "cancel": "interrupted"}
        assert journalled.policy.stopped == reasons[how]
        assert journal_differences(SCHEDULE_FORM, lines) == []
        return journalled.policy.outcomes()

    standings = ran(main())
    assert log == [f"g0 ended by {signal.SIGKILL}"]
    assert kept.names == [("g0", "a")]
    assert [(each.status, each.attempts) for each in standings] == [(FRONTIER, 1)] + [(FRONTIER, 0)] * 4


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_what_is_being_ended_already_is_waited_for_when_all_is_stopped(how: str) -> None:
    async def main() -> None:
        running, ending, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        ended: list[str] = []

        async def slow_to_end(_goal: Goal, _timeout: float) -> WorkerResult:
            try:
                running.set()
                await asyncio.Event().wait()
            finally:
                ending.set()
                await over.wait()
                ended.append("a")
            return failure()

        async def wins(_goal: Goal, _timeout: float) -> WorkerResult:
            await running.wait()
            return found("b")

        journalled, goals, _ = search(rules("a", "b", speculate=2))
        stop = asyncio.Event()
        task = asyncio.create_task(run_trials(journalled, goals, means({"a": slow_to_end, "b": wins}), None, stop))
        await ending.wait()
        stop.set() if how == "stop" else task.cancel()
        while not journalled.policy.stopped:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        over.set()
        await asyncio.wait({task})
        assert ended == ["a"]

    asyncio.run(main())


def test_an_attempt_that_ended_is_kept_even_if_it_is_cancelled_while_it_is_being_kept() -> None:
    async def main() -> None:
        saving, go_on = asyncio.Event(), asyncio.Event()

        class Slow(Kept):
            async def record(self, goal: Goal, trial: Trial, result: WorkerResult) -> None:
                saving.set()
                await go_on.wait()
                await super().record(goal, trial, result)

        kept = Slow()
        journalled, goals, lines = search(rules("a"))
        task = asyncio.create_task(run_trials(journalled, goals, means({"a": answers(found())}, kept)))
        await saving.wait()
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kept.names == [("g0", "a")]
        assert journalled.policy.outcomes()[0].status == SOLVED
        assert journal_differences(SCHEDULE_FORM, lines) == []

    asyncio.run(main())


def test_what_was_attempted_before_is_recalled_and_waits_for_no_process_and_no_load() -> None:
    async def never(_goal: Goal, _timeout: float) -> WorkerResult:
        raise AssertionError

    first, goals, _ = search(rules("a", "b"), 3)
    kept = Kept()
    workers = {"a": answers(failure()), "b": answers(found("b"))}
    standings = ran(run_trials(first, goals, means(workers, kept, processes=1)))
    before = [*kept.all]
    again, goals, _ = search(rules("a", "b", cpu_target=0.5), 3)
    recalled: list[bool] = []
    used = means(
        {"a": never, "b": never},
        kept,
        processes=1,
        load=lambda: 1 / 0,
        on_progress=lambda p: recalled.append(p.recalled),
    )
    assert [each.status for each in ran(run_trials(again, goals, used))] == [each.status for each in standings]
    assert kept.all == before
    assert all(recalled)


def test_starting_waits_while_the_machine_is_busy_and_readings_are_recorded() -> None:
    loads = iter([9.0, 0.0, 0.0])
    journalled, goals, lines = search(rules("a", levels=1, cpu_target=0.85), 3)
    ran(run_trials(journalled, goals, means({"a": answers(failure())}, load=lambda: next(loads))))
    readings = [line for line in lines if '"what":"load"' in line]
    assert ['"sleep":0.2' in line for line in readings] == [True, False, False]
    assert journal_differences(SCHEDULE_FORM, lines) == []


def test_no_more_trials_run_at_once_than_there_are_processes() -> None:
    inside: list[int] = []
    now = 0

    async def worker(_goal: Goal, _timeout: float) -> WorkerResult:
        nonlocal now
        now += 1
        inside.append(now)
        await asyncio.to_thread(os.getpid)
        now -= 1
        return failure()

    journalled, goals, _ = search(rules("a", "b", "c"), 8)
    ran(run_trials(journalled, goals, means(dict.fromkeys("abc", worker), processes=2)))
    assert max(inside) == 2
    assert len(inside) == 8 * 3 * 2


def test_an_interrupt_ends_the_search_in_order(tmp_path: Path) -> None:
    """In a process of its own, by a real signal: the children are gone, what was finished is recorded."""
    program = f"""
import asyncio, os, subprocess, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}, {str(ROOT / "tests/proof")!r}]
from kit.proof_searches import goal, rules
from test_proof_running import Kept, answers, failure, means
from pipeline.proof.schedule.policy import ScheduleJournal as Journalled
from pipeline.proof.run.engine import run_trials as run
from pipeline.proof.run.attempt import run_in_thread as threaded

async def hangs(goal, timeout):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    print(child.pid, flush=True)
    await threaded(child.wait, child.kill)

journal = open("journal", "w")
journalled = Journalled(rules("a", "b", speculate=1), lambda line: print(line, file=journal))
goals = [goal(n) for n in range(3)]
for each in goals:
    journalled.add(each)
kept = Kept()
used = means({{"a": answers(failure()), "b": hangs}}, kept, processes=1)
try:
    asyncio.run(run(journalled, goals, used))
except KeyboardInterrupt:
    print(kept.names)
"""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    started = int(child.stdout.readline())
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=BOUND)[0] == "[('g0', 'a')]\n"
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
    lines = (tmp_path / "journal").read_text().splitlines()
    assert '"status":"cancelled"' in lines[-1]
    assert journal_differences(SCHEDULE_FORM, lines) == []


def test_work_in_a_thread_that_is_cancelled_has_ended_when_the_cancellation_goes_on() -> None:
    async def main() -> None:
        begun, told, release, ended = Event(), Event(), Event(), Event()

        def work() -> None:
            begun.set()
            release.wait()
            ended.set()

        task = asyncio.create_task(run_in_thread(work, told.set))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.to_thread(told.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        early = task.done()
        release.set()
        await asyncio.wait({task})
        assert not early
        assert ended.is_set()
        assert task.cancelled()

    asyncio.run(main())


def test_work_in_a_thread_gives_its_value_or_its_error() -> None:
    async def both() -> None:
        assert await run_in_thread(lambda: 7, lambda: None) == 7
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 // 0, lambda: None)

    asyncio.run(both())


def test_a_proof_that_came_when_its_budget_was_over_is_kept_as_a_failure() -> None:
    """Whatever worker it is: what counts is when it says that it found the proof."""
    asked = rules("a", "b", levels=1)
    budget = asked.budget(asked.strategies[0], 0)
    late, last = replace(found("a"), time_seconds=budget + 0.01), replace(found("b"), time_seconds=budget)
    journalled, goals, _ = search(asked)
    kept = Kept()
    [standing] = ran(run_trials(journalled, goals, means({"a": answers(late), "b": answers(last)}, kept)))
    assert standing.by
    assert standing.by.strategy == "b"
    assert {name: result.error for _, name, _, result in kept.all} == {
        "a": "timeout: found after 8.01 s, of 8",
        "b": "",
    }
