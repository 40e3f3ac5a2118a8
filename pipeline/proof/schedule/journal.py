"""Journal of a proof schedule: goals added, loads read, trials asked for and told.

Loads and times are in it as they were measured; nothing else depends on the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict

from pipeline.core.journal import Fields, Journal, JournalForm, Write, journal_line
from pipeline.goals.bank import Goal
from pipeline.proof.schedule.policy import ProofSchedule
from pipeline.proof.schedule.records import ScheduleRules, Strategy, Trial, TrialOutcome

VERSION = 1
# What a schedule looks at of a goal.
GOAL_FIELDS = ("id", "text", "priority", "difficulty")


def first_line(rules: ScheduleRules) -> str:
    return journal_line(1, "begin", version=VERSION, rules=asdict(rules))


class ScheduleJournal(Journal[ProofSchedule]):
    def __init__(self, rules: ScheduleRules, write: Write) -> None:
        super().__init__(ProofSchedule(rules), write, first_line(rules))

    def add(self, goal: Goal, cached: float | None = None, known: Iterable[tuple[str, int]] = ()) -> None:
        known = [*known]
        self.policy.add(goal, cached, known)
        self.record("add", goal={name: getattr(goal, name) for name in GOAL_FIELDS}, cached=cached, known=known)

    def ask(self, free: int) -> Trial | None:
        trial = self.policy.ask(free)
        self.record("ask", free=free, trial=trial and trial._asdict())
        return trial

    def tell(self, outcome: TrialOutcome) -> tuple[int, ...]:
        cancel = self.policy.tell(outcome)
        self.record("tell", outcome=outcome._asdict(), cancel=cancel)
        return cancel

    def load(self, reading: float) -> float:
        sleep = self.policy.load(reading)
        self.record("load", reading=reading, ema=self.policy.cpu_ema, sleep=sleep)
        return sleep

    def stop(self, why: str) -> tuple[int, ...]:
        cancel = self.policy.stop(why)
        self.record("stop", why=why, cancel=cancel)
        return cancel


REPLAY_STEPS: dict[str, Callable[[ScheduleJournal, Fields], object]] = {
    "add": lambda to, fields: to.add(Goal(**fields["goal"]), fields["cached"], map(tuple, fields["known"])),
    "ask": lambda to, fields: to.ask(fields["free"]),
    "tell": lambda to, fields: to.tell(TrialOutcome(**fields["outcome"])),
    "load": lambda to, fields: to.load(fields["reading"]),
    "stop": lambda to, fields: to.stop(fields["why"]),
}


def _begin(fields: Fields, write: Write) -> ScheduleJournal:
    strategies = tuple(Strategy(name, timeout) for name, timeout in fields["rules"]["strategies"])
    return ScheduleJournal(ScheduleRules(**{**fields["rules"], "strategies": strategies}), write)


SCHEDULE_FORM = JournalForm(VERSION, _begin, REPLAY_STEPS)
