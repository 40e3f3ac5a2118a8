"""Policy of a proof search: choose the next trial, learn from outcomes, throttle by load; and its journal.

It waits for nobody and asks no clock, so that the same rules, goals, loads and outcomes give the same trials.

The throttle says how long to wait before the next trial starts, so that the machine stays of use to others. The load
average is that of a minute: it lags. The moving average on top of it keeps it from swinging. Only starting is slowed
down; what runs, runs.

In the journal are goals added, loads read, trials asked for and told. Loads and times are in it as they were measured;
nothing else depends on the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict

from pipeline.core.journal import Fields, Journal, JournalForm, Write, journal_line
from pipeline.goals.bank import Goal
from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.effort import Effort, GoalQueues, statement_shape
from pipeline.proof.schedule.records import (
    CACHE,
    CANCELLED,
    FRONTIER,
    HEAVY,
    LIGHT,
    PROVED,
    GoalOutcome,
    ScheduleRules,
    Strategy,
    Trial,
    TrialOutcome,
)

LOAD_ALPHA = 0.1
LONGEST_SLEEP = 1.0
SLEEP_STEEPNESS = 4

VERSION = 1
# What a schedule looks at of a goal.
GOAL_FIELDS = ("id", "text", "priority", "difficulty")


def smooth_load(cpu_ema: float, current_load: float) -> float:
    return LOAD_ALPHA * current_load + (1 - LOAD_ALPHA) * cpu_ema


def throttle_sleep(cpu_ema: float, target: float) -> float:
    """Seconds to sleep."""
    return min(LONGEST_SLEEP, SLEEP_STEEPNESS * (cpu_ema - target)) if cpu_ema > target else 0.0


class ProofSchedule:
    """Goals without a place in their room wait; none is given up for want of one."""

    def __init__(self, rules: ScheduleRules) -> None:
        self.rules = rules
        self.bandit = BANDITS[rules.bandit]()
        self.cpu_ema = 0.0
        self.flying: dict[int, Effort] = {}  # by number of the trial
        self.stopped = ""
        self._efforts: list[Effort] = []
        self._names: set[str] = set()
        self.counts: Counter[str] = Counter()  # goals by status
        self._queues = GoalQueues((LIGHT, HEAVY))
        self._inside: Counter[str] = Counter()
        self._turns = 0  # that light goals had while heavy ones waited
        self._asked = 0
        self.version = 0  # grows with all that changes what comes next

    def add(self, goal: Goal, cached: float | None = None, known: Iterable[tuple[str, int]] = ()) -> None:
        """`cached`: how often what is kept of the goal in the tactic cache has worked; `known` as in Effort."""
        if goal.id in self._names:
            raise ValueError(f"two goals are called '{goal.id}'")
        self._names.add(goal.id)
        self.version += 1
        self.counts[FRONTIER] += 1
        rules, shape = self.rules, statement_shape(goal.text)
        is_cached = cached is not None and cached > rules.cache_rate
        arms = [Strategy(CACHE, rules.cache_timeout)] if is_cached else [*rules.strategies]
        self._efforts.append(Effort(goal, len(self._efforts), rules, arms, shape, tuple(known)))
        self._queue(self._efforts[-1])

    def load(self, reading: float) -> float:
        """Take the load of the machine before a trial starts; give the seconds by which that is put off."""
        if self.rules.cpu_target is None:
            return 0.0
        self.version += 1
        self.cpu_ema = smooth_load(self.cpu_ema, reading)
        return throttle_sleep(self.cpu_ema, self.rules.cpu_target)

    def ask(self, free: int) -> Trial | None:
        """Choose what to start on one of `free` processes.  Nothing changes when the answer is None."""
        room = None if self.stopped or free <= 0 else self._room(free)
        first = self._queues.first(room) if room else None
        if not first:
            return None
        self._turns = self._turns + 1 if room == LIGHT and self._queues.first(HEAVY) else 0
        return self._start(self._efforts[first.order])

    def _room(self, free: int) -> str | None:
        """Where the next trial is from.  Heavy goals have a turn after every few light ones, or when they are more
        urgent; but as long as light ones wait, and there are several processes, one of these is not for heavy ones."""
        ready = [room for room in (LIGHT, HEAVY) if self.could_start(room)]
        if len(ready) < 2:
            return ready[0] if ready else None
        processes = free + len(self.flying)
        if self._inside[HEAVY] >= max(1, processes - 1):
            return LIGHT
        share = max(1, self.rules.light // self.rules.heavy)  # turns of light goals for one of heavy ones
        heavy, light = self._queues.first(HEAVY), self._queues.first(LIGHT)
        is_urgent = heavy is not None and light is not None and heavy.urgency < light.urgency
        return HEAVY if self._turns >= share or (processes > 1 and is_urgent) else LIGHT

    def could_start(self, room: str) -> bool:
        """A goal of the room waits, and there is a place in it."""
        places = self.rules.light if room == LIGHT else self.rules.heavy
        return self._inside[room] < places and self._queues.first(room) is not None

    def _start(self, chosen: Effort) -> Trial:
        name = self.bandit.choose(chosen.names, chosen.shape)
        self._asked += 1
        self.version += 1
        trial = chosen.start(self._asked, name)
        self.flying[trial.number] = chosen
        self._inside[trial.room] += 1
        self._queue(chosen)
        return trial

    def tell(self, outcome: TrialOutcome) -> tuple[int, ...]:
        """Take the outcome of a trial; give the numbers of those that are to be cancelled for it."""
        effort = self.flying.pop(outcome.trial)
        self.version += 1
        self.counts[effort.status] -= 1
        trial, shape = effort.flying.pop(outcome.trial)
        self._inside[trial.room] -= 1
        if outcome.status == CANCELLED:
            effort.give_back(trial)
        else:
            if trial.strategy != CACHE:
                self.bandit.learn(trial.strategy, shape, outcome.status == PROVED, outcome.seconds)
            effort.mark_ended(trial, proved=outcome.status == PROVED)
        self.counts[effort.status] += 1
        self._queue(effort)
        return tuple(effort.flying) if outcome.status == PROVED else ()

    def _queue(self, effort: Effort) -> None:
        """Let it wait in the order of its difficulty now."""
        if effort.is_waiting:
            self._queues.enter(effort.room, effort.queue_key)
        else:
            self._queues.leave(effort.order)

    def stop(self, why: str) -> tuple[int, ...]:
        """Nothing new is started from here on; the numbers of the trials that are to be cancelled."""
        self.version += not self.stopped
        self.stopped = self.stopped or why
        return tuple(self.flying)

    @property
    def unanswered(self) -> list[Trial]:
        return [effort.flying[number][0] for number, effort in self.flying.items()]

    @property
    def is_finished(self) -> bool:
        return not self.flying and bool(self.stopped or not len(self._queues))

    def outcomes(self) -> list[GoalOutcome]:
        """In the order of the bank."""
        return [each.outcome() for each in self._efforts]


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
