"""Patience with what is out: pauses that grow, one caller that tries, and an end.

States of a service, as all callers of a build share them:

    working -> out         a try failed; the next one is made after a pause
    out     -> tried       the pause is over: one caller tries, the others wait for what comes of it
    tried   -> out         it failed again: a longer pause, or the one that the service asks for
    out     -> working     a try succeeded, this one or one that was under way: nothing is remembered
    out     -> given up    patience is over, counted from the first failure since the last success, or would be before
                           the next try: nobody asks it again in this build

A pause ends at once when the build stops.  Whoever waits lends its place in the build, and has it again before it looks
whose turn it is: nobody has the turn while it waits for a place, or for its run to be resumed.  Nothing here is part of
a result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import NamedTuple

from pipeline.core.outcome import MODEL_UNAVAILABLE, Wait
from pipeline.core.text import duration
from pipeline.machine.job import Job, StageOutage
from pipeline.machine.process import BuildStopping, Processes

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# At least, however little a service asks for: else one that asks for none has a storm of tries.
FIRST_ASKED_PAUSE = 0.01


class RefusedTry(NamedTuple):
    """One try that failed because the service is out.  `after`: seconds that it asks to wait.

    `counted`: it may have been paid for, so that tries of the question are counted; their time is not held against
    patience, since one question may take all of it."""

    kind: str
    why: str
    after: float | None = None
    counted: bool = False


class Trouble(NamedTuple):
    """A service that is out: since when, how often it was tried, when it is tried again; `over`: not at all."""

    since: float
    tries: int
    until: float
    refusal: RefusedTry
    over: bool = False


def pause_after(tries: int, first: float = FIRST_PAUSE) -> float:
    """Seconds to wait after so many tries: twice as long each time, up to a limit."""
    return min(LONGEST_PAUSE, first * 2.0 ** min(tries - 1, 16))


def trouble_after(before: Trouble | None, refusal: RefusedTry, now: float, patience: float) -> Trouble:
    """Knowledge of a service after one more failure.  The last try is made when patience is over, not earlier."""
    since, tries = (before.since, before.tries + 1) if before else (now, 1)
    if before and before.refusal.counted and not refusal.counted:
        since = now
    left = since + patience - now
    is_over = left <= 0 and not (refusal.counted and patience)
    if is_over or (refusal.after is not None and refusal.after > max(left, patience * refusal.counted)):
        return Trouble(since, tries, now, refusal, over=True)
    own = pause_after(tries, FIRST_PAUSE if refusal.after is None else FIRST_ASKED_PAUSE)
    pause = max(refusal.after or 0.0, min(own, left) if left > 0 else own)
    return Trouble(since, tries, now + pause, refusal)


def trouble_after_turn(
    before: Trouble | None, known: Trouble | None, refusal: RefusedTry, now: float, patience: float
) -> Trouble:
    """Knowledge of a service after a try failed that began when `before` was known; `known`: what is by now.

    Where others have failed since, it tells nothing new but how long the service asks to wait."""
    failed = trouble_after(known, refusal, now, patience)
    if known is None or (before is not None and (known.tries, known.since) == (before.tries, before.since)):
        return failed
    if known.over or refusal.after is None:
        return known
    return known._replace(until=max(known.until, failed.until), over=failed.over)


class ServiceTurn:
    """Turn of one caller to try a service; it tells what came of that."""

    def __init__(self, service: Service, job: Job, trouble: Trouble | None) -> None:
        self._service, self._job, self._before = service, job, trouble

    def succeeded(self) -> None:
        self._service.note(None)

    def failed(self, refusal: RefusedTry) -> None:
        self._service.note_failure(self._before, refusal, self._job.target.limits.patience or 0.0)


class Service:
    """Program or server that may be out, as the callers of one build and of equal patience see it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._trouble: Trouble | None = None
        self._is_tried = False  # somebody tries it, while it is out
        self.has_worked = False  # some try has succeeded
        self._hopeless = 0  # questions since the last answer that were tried as often as they may be
        self._waiting: list[SimpleQueue[None]] = []

    @contextmanager
    def turn(self, job: Job, role: str) -> Iterator[ServiceTurn]:
        """Wait until the caller may try it.  Raises StageOutage when it was given up."""
        trouble = self._await_turn(job, role)
        try:
            yield ServiceTurn(self, job, trouble)
        finally:
            if trouble is not None:
                with self._lock:
                    self._is_tried = False
                    self._wake()

    def _await_turn(self, job: Job, role: str) -> Trouble | None:
        announced = False
        while True:
            is_paused = job.places.is_paused(job.target)
            with self._lock:
                if not is_paused and self._may_be_tried():
                    self._is_tried = self._is_tried or self._trouble is not None
                    return self._trouble
            with job.places.lend(job.target):
                announced = self._await_change(job, role, announced)

    def _may_be_tried(self) -> bool:
        """Check if somebody may try it now.  Raises StageOutage when it was given up."""
        if self._trouble is not None and self._trouble.over:
            raise outage_of(self._trouble)
        return self._trouble is None or (self._trouble.until <= time.monotonic() and not self._is_tried)

    def _await_change(self, job: Job, role: str, announced: bool) -> bool:
        """Wait until the service may be tried or was given up; check if people have been told of the wait."""
        while True:
            inbox: SimpleQueue[None] = SimpleQueue()
            with self._lock:
                if (trouble := self._trouble) is None or trouble.over or self._may_be_tried():
                    return announced
                left = max(0.0, trouble.until - time.monotonic())
                self._waiting.append(inbox)
            if left and not announced:
                announced = True
                job.say(Wait(role, trouble.refusal.kind, trouble.refusal.why, round(left, 3)))
            sleep_until(job.processes, inbox, left or None)
            with self._lock, suppress(ValueError):
                self._waiting.remove(inbox)

    def note(self, trouble: Trouble | None) -> None:
        with self._lock:
            self._trouble = trouble
            self.has_worked |= trouble is None
            self._hopeless = 0 if trouble is None else self._hopeless
            self._wake()

    def note_failure(self, before: Trouble | None, refusal: RefusedTry, patience: float) -> None:
        """Note a failure of a try that began when `before` was known."""
        with self._lock:
            self._trouble = trouble_after_turn(before, self._trouble, refusal, time.monotonic(), patience)
            self._wake()

    def note_hopeless(self) -> None:
        """Note a question that may not be tried again: one may be to blame itself, two without an answer between are
        not."""
        with self._lock:
            self._hopeless += 1
            hopeless = self._hopeless
        if hopeless > 1:
            self.give_up()

    def give_up(self) -> None:
        """Let nobody ask it again."""
        with self._lock:
            self._trouble = self._trouble and self._trouble._replace(over=True)
            self._wake()

    def _wake(self) -> None:
        for inbox in self._waiting:
            inbox.put(None)


class Services:
    """Services of one build, by whatever tells them apart."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_name: dict[object, Service] = {}

    def of(self, name: object) -> Service:
        with self._lock:
            return self._by_name.setdefault(name, Service())

    def close(self) -> None:
        """Forget all of them."""
        self._by_name.clear()


def outage_of(trouble: Trouble) -> StageOutage:
    """The outage of a target that wants a service which was given up."""
    out = time.monotonic() - trouble.since
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - out))
    after = trouble.refusal.after or 0.0
    asked = f", and asks to wait for {duration(after)}" if after >= 1 else ""
    return StageOutage(f"{trouble.refusal.why}; out since {since}{asked}", MODEL_UNAVAILABLE)


class Pauses:
    """Pauses of one target that waits by itself, such as for room on a disk."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._trouble: Trouble | None = None

    def next_pause(self) -> float | None:
        """Seconds to wait before the next try; None when patience is over."""
        now = time.monotonic()
        self._trouble = trouble_after(self._trouble, RefusedTry("", ""), now, self._patience)
        return None if self._trouble.over else round(self._trouble.until - now, 3)

    def wait(self, processes: Processes, say: Callable[[Wait], object], role: str, kind: str, why: str) -> bool:
        """Say that one waits, and sleep until the next try; False when patience is over."""
        if (seconds := self.next_pause()) is None:
            return False
        say(Wait(role, kind, why, seconds))
        sleep_until(processes, SimpleQueue(), seconds)
        return True


def sleep_until(processes: Processes, inbox: SimpleQueue[None], seconds: float | None) -> None:
    """Sleep until something is in the inbox, or for so long.  Raises BuildStopping at the end of the build."""
    with processes.wake_on_stop(lambda: inbox.put(None)), suppress(Empty):
        inbox.get(timeout=seconds)
    if processes.stopping:
        raise BuildStopping
