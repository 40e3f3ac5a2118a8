"""Searches for proofs played without a clock: goals, rules, and how trials end are drawn."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from pipeline.goals.bank import Goal
from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.policy import ScheduleJournal
from pipeline.proof.schedule.records import CANCELLED, FAILED, PROVED, ScheduleRules, Strategy, Trial, TrialOutcome

STRATEGIES = ("a", "b", "c", "d")
TEXTS = ("∀ n : Nat, n + 0 = n", "∀ p q : Prop, p ∧ q → q ∧ p", "∃ x : Int, x * x = 4")


class Case(NamedTuple):
    """`can` says at which level, if at any, a strategy proves a goal; `cached` how well the cache did; `known` of which
    attempts, by goal, strategy and level, it is recalled how they end."""

    rules: ScheduleRules
    goals: tuple[Goal, ...]
    cached: dict[str, float]
    known: list[tuple[str, str, int]]
    can: dict[tuple[str, str], int]
    processes: int
    seed: int
    stop_after: int | None


class Played(NamedTuple):
    journalled: ScheduleJournal
    lines: list[str]
    started: list[Trial]
    ended: list[TrialOutcome]


Check = Callable[[Played, dict[int, Trial]], None]


def goal(number: int, priority: float = 0.5, difficulty: float = 0.2) -> Goal:
    return Goal(f"g{number}", TEXTS[number % len(TEXTS)], difficulty, priority)


def rules(*names: str, **how: object) -> ScheduleRules:
    return ScheduleRules(tuple(Strategy(name, 8.0) for name in names or STRATEGIES), **how)  # type: ignore[arg-type]


few = st.sampled_from([0.0, 0.2, 0.5, 0.6, 0.9, 1.0])


@st.composite
def cases(draw: st.DrawFn, stops: bool = False) -> Case:
    names = STRATEGIES[: draw(st.integers(1, len(STRATEGIES)))]
    how = {
        "bandit": draw(st.sampled_from([*BANDITS])),
        "cpu_target": draw(st.sampled_from([None, 0.5])),
        "rounds": draw(st.booleans()),
        **{name: draw(st.integers(1, 3)) for name in ("speculate", "levels", "light", "heavy")},
    }
    goals = tuple(goal(n, draw(few), draw(few)) for n in range(draw(st.integers(1, 9))))
    cached = draw(st.dictionaries(st.sampled_from([each.id for each in goals]), few, max_size=3))
    pairs = st.tuples(st.sampled_from([each.id for each in goals]), st.sampled_from([*names, "cache"]))
    can = draw(st.dictionaries(pairs, st.integers(0, 2), max_size=12))
    made = st.tuples(pairs, st.integers(0, 2)).map(lambda each: (*each[0], each[1]))
    known = draw(st.lists(made, unique=True, max_size=6))
    stop_after = draw(st.integers(0, 12)) if stops else None
    numbers = draw(st.integers(1, 5)), draw(st.integers(0, 99))
    return Case(rules(*names, **how), goals, cached, known, can, *numbers, stop_after)


def proves(case: Case, trial: Trial) -> bool:
    return case.can.get((trial.goal, trial.strategy), 99) <= trial.level


def begun(case: Case) -> Played:
    lines: list[str] = []
    journalled = ScheduleJournal(case.rules, lines.append)
    for each in case.goals:
        _add(case, journalled, each)
    return Played(journalled, lines, [], [])


def _add(case: Case, journalled: ScheduleJournal, each: Goal) -> None:
    known = [(name, level) for goal_id, name, level in case.known if goal_id == each.id]
    journalled.add(each, case.cached.get(each.id), known)


def played(case: Case, check: Check = lambda *_: None) -> Played:
    """To the end, trials ending in any order; what is cancelled may all the same have ended by itself."""
    played = begun(case)
    running: dict[int, Trial] = {}
    unwanted: set[int] = set()
    while not played.journalled.policy.is_finished:
        rng = Random(f"{case.seed} {len(played.ended)}")
        if case.stop_after is not None and len(played.ended) >= case.stop_after:
            unwanted |= {*played.journalled.stop("enough")} if not played.journalled.policy.stopped else set()
        if case.rules.cpu_target:
            played.journalled.load(rng.random() * 2)
        while trial := played.journalled.ask(case.processes - len(running)):
            running[trial.number] = trial
            played.started.append(trial)
        check(played, running)
        if running:
            unwanted |= {*_end_one(case, played, running, unwanted, rng)}
    return played


def _end_one(case: Case, played: Played, running: dict[int, Trial], unwanted: set[int], rng: Random) -> tuple[int, ...]:
    trial = running.pop(rng.choice(sorted(running)))
    cancelled = trial.number in unwanted and rng.random() < 0.7
    status = CANCELLED if cancelled else PROVED if proves(case, trial) else FAILED
    outcome = TrialOutcome(trial.number, status, rng.choice([0.1, 1.0, 5.0]))
    played.ended.append(outcome)
    return played.journalled.tell(outcome)


def attempts(played: Played) -> Counter[tuple[str, str, int]]:
    """How often each strategy ended by itself on each goal and level."""
    status = {each.trial: each.status for each in played.ended}
    mine = (each for each in played.started if status.get(each.number) != CANCELLED)
    return Counter((each.goal, each.strategy, each.level) for each in mine)


def schedule_on(case: Case, journalled: ScheduleJournal) -> bool:
    """One line more, which depends on the journal alone; False when all is over."""
    policy, before, rng = journalled.policy, journalled.count, Random(f"{case.seed} {journalled.count}")
    if (there := len(policy.outcomes())) < len(case.goals):
        _add(case, journalled, case.goals[there])
    elif case.stop_after is not None and before > there + case.stop_after and not policy.stopped:
        journalled.stop("enough")
    elif case.rules.cpu_target and not policy.is_finished and rng.random() < 0.2:
        journalled.load(rng.random() * 2)
    elif not policy.unanswered or rng.random() < 0.7:
        journalled.ask(case.processes - len(policy.unanswered))
    if journalled.count == before and policy.unanswered:
        trial = rng.choice(policy.unanswered)
        status = CANCELLED if rng.random() < 0.2 else PROVED if proves(case, trial) else FAILED
        journalled.tell(TrialOutcome(trial.number, status, rng.choice([0.1, 1.0, 5.0])))
    return journalled.count > before
