"""Journal of a schedule: all questions to it with their answers, a line each; and their replay.

A line is JSON with sorted keys, numbered so that a missing one shows. Loads and times are in it as they were measured;
nothing else depends on the clock. A question that changed nothing has no line. Replay asks them all again and compares
bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pipeline.core.journal import Difference, journal_differences, replay_and_compare
from pipeline.goals.bank import Goal
from pipeline.proof.schedule.policy import ProofSchedule
from pipeline.proof.schedule.records import (
    ScheduleRules,
    Trial,
    TrialOutcome,
    schedule_rules_as_json,
    schedule_rules_from_json,
)

VERSION = 1
# What a schedule looks at of a goal.
GOAL_FIELDS = ("id", "text", "priority", "difficulty")

Write = Callable[[str], object]


def journal_line(number: int, what: str, **fields: Any) -> str:
    """Numbered from 1, so that a line that is missing shows."""
    fields = {"n": number, "what": what, **fields}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def first_line(rules: ScheduleRules) -> str:
    return journal_line(1, "begin", version=VERSION, rules=schedule_rules_as_json(rules))


class ScheduleJournal:
    """A schedule, each question to it written down with its answer.  One that changed nothing is left out."""

    def __init__(self, rules: ScheduleRules, write: Write) -> None:
        self.schedule = ProofSchedule(rules)
        self.write = write
        self._lines = 1
        write(first_line(rules))

    def _write(self, what: str, **fields: Any) -> None:
        self._lines += 1
        self.write(journal_line(self._lines, what, **fields))

    def add(self, goal: Goal, cached: float | None = None, known: Iterable[tuple[str, int]] = ()) -> None:
        known = [*known]
        self.schedule.add(goal, cached, known)
        self._write("add", goal={name: getattr(goal, name) for name in GOAL_FIELDS}, cached=cached, known=known)

    def ask(self, free: int) -> Trial | None:
        trial = self.schedule.ask(free)
        if trial:
            self._write("ask", free=free, trial=trial._asdict())
        return trial

    def tell(self, outcome: TrialOutcome) -> tuple[int, ...]:
        cancel = self.schedule.tell(outcome)
        self._write("tell", outcome=outcome._asdict(), cancel=cancel)
        return cancel

    def load(self, reading: float) -> float:
        sleep = self.schedule.load(reading)
        throttle = self.schedule.throttle
        self._write("load", reading=reading, ema=throttle and throttle.cpu_ema, sleep=sleep)
        return sleep

    def stop(self, why: str) -> tuple[int, ...]:
        cancel = self.schedule.stop(why)
        self._write("stop", why=why, cancel=cancel)
        return cancel


def begin_journal(fields: Mapping[str, Any], write: Write) -> ScheduleJournal:
    if fields["version"] != VERSION:
        raise ValueError(f"a journal of version {fields['version']}; this is {VERSION}")
    return ScheduleJournal(schedule_rules_from_json(fields["rules"]), write)


# How what a line says is told to a schedule once more.
REPLAY_STEPS: dict[str, Callable[[ScheduleJournal, Mapping[str, Any]], object]] = {
    "add": lambda to, fields: to.add(Goal(**fields["goal"]), fields["cached"], map(tuple, fields["known"])),
    "ask": lambda to, fields: to.ask(fields["free"]),
    "tell": lambda to, fields: to.tell(TrialOutcome(**fields["outcome"])),
    "load": lambda to, fields: to.load(fields["reading"]),
    "stop": lambda to, fields: to.stop(fields["why"]),
}


def replay_schedule(lines: Sequence[str], rules: ScheduleRules | None = None) -> list[Difference]:
    """Where the journal is not what these rules write, byte for byte: empty, or the first such line.

    Without `rules`, those that the journal begins with."""
    first = None if rules is None else first_line(rules)
    return journal_differences(
        lambda: replay_and_compare(
            lines, lambda told, write: begin_journal(json.loads(told), write), REPLAY_STEPS, first
        )
    )
