"""What a decision of the scheduler costs with many goals in its queues, in CPU time of this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from pipeline.goals.bank import Goal
from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.policy import ScheduleJournal
from pipeline.proof.schedule.records import CANCELLED, FAILED, PROVED, ScheduleRules, Strategy, Trial, TrialOutcome

GOALS = 10_000
ARMS = (1, 3, 10)
FLYING = 8  # trials at once
TARGET_MS = 0.2


class Cost(NamedTuple):
    """In milliseconds of CPU.  A decision is a question and the answer to how one trial ended; `p99` and `most` of
    those.  `journalled`: the mean with all of it written down."""

    add: float
    decision: float
    p99: float
    most: float
    journalled: float


def goals(count: int) -> list[Goal]:
    """Statements of the lengths and the signs that a bank has, each another one."""
    rng, found = Random(7), []
    for n in range(count):
        names = " ".join(rng.sample("abcdfghkmn", rng.randint(1, 4)))
        what = rng.choice(("List Nat", "Nat", "Int", "Bool", "Prop"))
        sign = rng.choice(("=", "≤", "∣", "∧", "→", "<"))
        more = " → ".join(
            f"{rng.choice(names.split())} {sign} {rng.randint(0, 10**6)}" for _ in range(rng.randint(1, 5))
        )
        text = f"∀ {names} : {what}, {more} → x % {n} + 1 {sign} {n}"
        found.append(Goal(f"g{n}", text, rng.random(), rng.choice((0.3, 0.5, 0.9))))
    return found


def rules(bandit: str, arms: int) -> ScheduleRules:
    return ScheduleRules(tuple(Strategy(f"arm {n}", 8.0) for n in range(arms)), bandit=bandit, levels=2)


def cost(bandit: str, arms: int, some: Sequence[Goal]) -> Cost:
    gc.collect()
    plain = ScheduleJournal(rules(bandit, arms), lambda _: None).policy
    begun = time.process_time()
    for goal in some:
        plain.add(goal)
    added = (time.process_time() - begun) / len(some)
    times = _decided(plain, len(some))
    written: list[str] = []
    journalled = ScheduleJournal(rules(bandit, arms), written.append)
    for goal in some:
        journalled.add(goal)
    noted = _decided(journalled, len(some))
    return Cost(
        *(1000 * each for each in (added, _mean(times), sorted(times)[-len(times) // 100], max(times), _mean(noted)))
    )


def _decided(of: object, count: int) -> list[float]:
    """As a search does it: as many questions as processes are free, then what ends is told."""
    rng, times = Random(3), []
    running: list[Trial] = []
    while len(times) < count:
        begun = time.process_time()
        asked: Trial | None = of.ask(FLYING - len(running))  # type: ignore[attr-defined]
        if asked:
            running.append(asked)
            if len(running) < FLYING:
                continue
        ended = running.pop(rng.randrange(len(running)))
        status = rng.choices((PROVED, FAILED, CANCELLED), (3, 6, 1))[0]
        of.tell(TrialOutcome(ended.number, status, rng.random() * 4))  # type: ignore[attr-defined]
        times.append(time.process_time() - begun)
    return times


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times)


def costs(count: int = GOALS, arms: Sequence[int] = ARMS) -> Mapping[str, Mapping[int, Cost]]:
    """By bandit and number of strategies."""
    some = goals(count)
    return {name: {number: cost(name, number, some) for number in arms} for name in BANDITS}
