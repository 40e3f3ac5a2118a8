"""All that a schedule is told and answers, a line each: enough to do it again.

A line is JSON with sorted keys.  Loads and times are in it as they were measured; nothing else depends on the clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pipeline.goals.model import Goal
from pipeline.proof.schedule import Schedule
from pipeline.proof.trials import Outcome, Rules, Trial, rules_as_json, rules_from_json

VERSION = 1
# What a schedule looks at of a goal.
SEEN = ("id", "text", "priority", "difficulty")

Write = Callable[[str], object]


def line(number: int, what: str, **fields: Any) -> str:
    """Numbered from 1, so that a line that is missing shows."""
    fields = {"n": number, "what": what, **fields}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def first_line(rules: Rules) -> str:
    return line(1, "begin", version=VERSION, rules=rules_as_json(rules))


class Journalled:
    """A schedule, each question to it written down with its answer.  One that changed nothing is left out."""

    def __init__(self, rules: Rules, write: Write) -> None:
        self.schedule = Schedule(rules)
        self.write = write
        self._lines = 1
        write(first_line(rules))

    def _write(self, what: str, **fields: Any) -> None:
        self._lines += 1
        self.write(line(self._lines, what, **fields))

    def add(self, goal: Goal, cached: float | None = None, known: Iterable[tuple[str, int]] = ()) -> None:
        known = [*known]
        self.schedule.add(goal, cached, known)
        self._write("add", goal={name: getattr(goal, name) for name in SEEN}, cached=cached, known=known)

    def ask(self, free: int) -> Trial | None:
        trial = self.schedule.ask(free)
        if trial:
            self._write("ask", free=free, trial=trial._asdict())
        return trial

    def tell(self, outcome: Outcome) -> tuple[int, ...]:
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


def begun(fields: Mapping[str, Any], write: Write) -> Journalled:
    if fields["version"] != VERSION:
        raise ValueError(f"a journal of version {fields['version']}; this is {VERSION}")
    return Journalled(rules_from_json(fields["rules"]), write)


# How what a line says is told to a schedule once more.
AGAIN: dict[str, Callable[[Journalled, Mapping[str, Any]], object]] = {
    "add": lambda to, fields: to.add(Goal(**fields["goal"]), fields["cached"], map(tuple, fields["known"])),
    "ask": lambda to, fields: to.ask(fields["free"]),
    "tell": lambda to, fields: to.tell(Outcome(**fields["outcome"])),
    "load": lambda to, fields: to.load(fields["reading"]),
    "stop": lambda to, fields: to.stop(fields["why"]),
}
