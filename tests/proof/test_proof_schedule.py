"""Laws of the search for proofs: order, rooms, speculation, levels, and what is left when it is stopped."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from kit.proof_searches import STRATEGIES, Case, Played, attempts, begun, cases, goal, played, proves, rules

from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.policy import ProofSchedule
from pipeline.proof.schedule.records import (
    CACHE,
    CANCELLED,
    EXHAUSTED,
    FAILED,
    FRONTIER,
    HEAVY,
    LIGHT,
    PROVED,
    SOLVED,
    Trial,
    TrialOutcome,
)


def schedule(count: int, *names: str, **how: object) -> ProofSchedule:
    made = ProofSchedule(rules(*names, **how))
    for number in range(count):
        made.add(goal(number))
    return made


def asked(schedule: ProofSchedule, free: int = 1) -> Trial:
    trial = schedule.ask(free)
    assert trial
    return trial


def end(schedule: ProofSchedule, trial: Trial, status: str = FAILED, seconds: float = 1.0) -> tuple[int, ...]:
    return schedule.tell(TrialOutcome(trial.number, status, seconds))


def strategies(schedule: ProofSchedule) -> set[str]:
    """All that may run at once."""
    found = set()
    while trial := schedule.ask(9):
        found.add(trial.strategy)
    return found


@given(cases())
def test_no_goal_is_lost(case: Case) -> None:
    """Each ends solved, if a strategy can at one of the levels, or with all strategies tried at all levels."""
    run = played(case)
    names = [each.name for each in case.rules.strategies]
    tried = attempts(run)
    for standing in run.journalled.policy.outcomes():
        mine = {(name, level) for goal_id, name, level in tried if goal_id == standing.goal.id}
        if standing.status == SOLVED:
            assert standing.by
            assert proves(case, standing.by)
        else:
            assert standing.status == EXHAUSTED
            assert mine - {(CACHE, 0)} == {(name, level) for name in names for level in range(case.rules.levels)}


@given(cases(stops=True))
def test_no_attempt_is_made_twice(case: Case) -> None:
    assert max(attempts(played(case)).values(), default=1) == 1


@given(cases(stops=True))
def test_rooms_and_processes_are_never_exceeded(case: Case) -> None:
    def check(_: Played, running: dict[int, Trial]) -> None:
        inside = Counter(trial.room for trial in running.values())
        assert inside[LIGHT] <= case.rules.light
        assert inside[HEAVY] <= case.rules.heavy
        assert len(running) <= case.processes
        on_one_goal = Counter(trial.goal for trial in running.values())
        assert max(on_one_goal.values(), default=0) <= case.rules.speculate

    played(case, check)


@given(cases())
def test_no_process_idles_while_a_goal_could_use_it(case: Case) -> None:
    def check(run: Played, running: dict[int, Trial]) -> None:
        could = any(map(run.journalled.policy.could_start, (LIGHT, HEAVY)))
        assert len(running) == case.processes or not could

    played(case, check)


@given(cases(), st.integers(2, 5))
def test_heavy_goals_never_take_the_last_process_from_light_ones_that_wait(case: Case, processes: int) -> None:
    case = case._replace(processes=processes)
    started: list[int] = []

    def check(run: Played, running: dict[int, Trial]) -> None:
        new = run.started[len(started) :]
        started.extend(each.number for each in new)
        heavy = sum(trial.room == HEAVY for trial in running.values())
        if run.journalled.policy.could_start(LIGHT) and any(each.room == HEAVY for each in new):
            assert heavy < processes

    played(case, check)


def test_a_full_heavy_room_stalls_nothing() -> None:
    some = ProofSchedule(rules("a", speculate=1))
    for number in range(4):
        some.add(goal(number, priority=1.0, difficulty=0.9))
    some.add(goal(4, priority=0.0, difficulty=0.1))
    rooms = [asked(some, 8 - n).room for n in range(3)]
    assert sorted(rooms) == [HEAVY, HEAVY, LIGHT]
    assert some.ask(5) is None


def test_a_more_urgent_heavy_goal_goes_first_if_there_is_more_than_one_process() -> None:
    for processes, room in ((1, LIGHT), (2, HEAVY)):
        some = ProofSchedule(rules("a", speculate=1))
        some.add(goal(0, priority=0.5, difficulty=0.1))
        some.add(goal(1, priority=0.9, difficulty=0.9))
        assert asked(some, processes).room == room


def test_a_bandit_sees_what_a_goal_withstood() -> None:
    some = schedule(1, "a", "b", speculate=1)
    end(some, asked(some))
    second = asked(some)
    assert "failed a 0" in some.flying[second.number].flying[second.number][1].traits


def test_a_goal_without_a_place_waits_and_is_tried_when_there_is_one() -> None:
    some = schedule(3, "a", light=1, levels=1)
    first = asked(some, 4)
    assert some.ask(3) is None
    assert not some.is_finished
    end(some, first)
    assert asked(some, 4).goal == "g1"


def test_heavy_goals_have_their_turn_on_a_single_process() -> None:
    some = ProofSchedule(rules("a", speculate=1, levels=1))
    for number in range(20):
        some.add(goal(number, difficulty=0.1))
    some.add(goal(20, difficulty=0.9))
    rooms = []
    for _ in range(5):
        trial = asked(some)
        rooms.append(trial.room)
        end(some, trial)
    assert rooms == [LIGHT] * 4 + [HEAVY]


def test_goals_are_tried_by_priority_then_difficulty_then_as_listed() -> None:
    some = ProofSchedule(rules("a", speculate=1))
    wanted = [(0.9, 0.3), (0.5, 0.1), (0.5, 0.2), (0.5, 0.2), (0.1, 0.0)]
    order = [3, 1, 4, 0, 2]  # of `wanted`, as they are listed; 2 and 3 are alike
    for number in order:
        some.add(goal(number, *wanted[number]))
    assert [asked(some, 9).goal for _ in order] == ["g0", "g1", "g3", "g2", "g4"]


def test_the_top_strategies_are_tried_at_once() -> None:
    some = schedule(1, speculate=3)
    assert [asked(some, 9).strategy for _ in range(3)] == ["a", "b", "c"]
    assert some.ask(9) is None


def test_a_failure_that_ends_first_cancels_nothing_and_the_next_strategy_joins() -> None:
    some = schedule(1, speculate=2)
    slow, fast = asked(some, 9), asked(some, 9)
    assert end(some, fast) == ()
    assert asked(some, 9).strategy == "c"
    assert end(some, slow, PROVED) == (3,)
    [standing] = some.outcomes()
    assert (standing.status, standing.by) == (SOLVED, slow)


def test_the_first_verified_success_wins_and_a_second_one_changes_nothing() -> None:
    some = schedule(1, speculate=2)
    first, second = asked(some, 9), asked(some, 9)
    assert end(some, second, PROVED) == (first.number,)
    assert end(some, first, PROVED) == ()
    assert some.outcomes()[0].by == second
    assert some.is_finished


@given(cases(), st.sampled_from([*BANDITS]))
def test_what_is_cancelled_is_no_failure(case: Case, name: str) -> None:
    """Neither to the bandit nor to its goal, which is where it was."""
    run = played(case._replace(rules=replace(case.rules, bandit=name)))
    after = ProofSchedule(run.journalled.policy.rules)
    after.bandit = run.journalled.policy.bandit
    after.add(goal(0))
    before, arms = deepcopy(vars(after.bandit)), strategies(after)
    assert {end(after, trial, CANCELLED) for trial, _ in [*after.flying[1].flying.values()]} == {()}
    assert vars(after.bandit) == before
    assert (after.outcomes()[0].status, after.outcomes()[0].attempts) == (FRONTIER, 0)
    assert strategies(after) == arms


@given(cases(stops=True))
def test_bandits_learn_from_every_attempt_that_ended_by_itself(case: Case) -> None:
    run = played(case._replace(rules=replace(case.rules, bandit="seed")))
    ended: Counter[str] = Counter()
    for (_, strategy, _), count in attempts(run).items():
        ended[strategy] += count
    del ended[CACHE]
    assert run.journalled.policy.bandit.trials == +ended


def test_a_goal_on_which_all_failed_gets_more_time_and_becomes_heavy() -> None:
    some = schedule(1, "a", speculate=1, levels=3, factor=4.0)
    seen = []
    for _ in range(3):
        trial = asked(some)
        seen.append((trial.level, trial.budget, trial.room))
        end(some, trial)
    assert seen == [(0, 8.0, LIGHT), (1, 32.0, HEAVY), (2, 128.0, HEAVY)]
    assert some.is_finished
    assert some.outcomes()[0].status == EXHAUSTED


def test_the_threshold_itself_is_heavy() -> None:
    some = ProofSchedule(rules("a"))
    some.add(goal(0, difficulty=0.6))
    some.add(goal(1, difficulty=0.59))
    assert {trial.goal: trial.room for trial in (asked(some, 9), asked(some, 9))} == {"g0": HEAVY, "g1": LIGHT}


def test_what_proved_a_goal_before_is_tried_first_and_alone() -> None:
    some = ProofSchedule(rules(speculate=3))
    some.add(goal(0), cached=0.71)
    some.add(goal(1), cached=0.7)
    first, second = asked(some, 9), asked(some, 9)
    assert (first.goal, first.strategy, first.budget) == ("g0", CACHE, some.rules.cache_timeout)
    assert (second.goal, second.strategy) == ("g1", "a")
    end(some, first)
    assert asked(some, 9)[1:3] == ("g0", "a")
    assert CACHE not in str(vars(some.bandit))


def test_in_rounds_no_goal_has_more_time_before_all_had_as_much() -> None:
    priorities = [(1.0, 0.1), (0.0, 0.5), (0.5, 0.1)]
    some = ProofSchedule(rules("a", "b", speculate=1, levels=3, rounds=True))
    for number, (priority, difficulty) in enumerate(priorities):
        some.add(goal(number, priority, difficulty))
    order = []
    while not some.is_finished:
        trial = asked(some)
        order.append((trial.level, trial.goal))
        end(some, trial)
    assert [goal_id for level, goal_id in order if level == 0] == ["g0", "g0", "g2", "g2", "g1", "g1"]
    assert order[:6] == [each for each in order if each[0] == 0]
    heavy = [each for each in order if each[0] > 0]
    assert heavy == sorted(heavy, key=lambda each: each[0])


def test_what_is_recalled_is_asked_for_first_and_as_it_was_made() -> None:
    some = ProofSchedule(rules("a", "b", "c", speculate=1, levels=2))
    some.add(goal(0), known=[("c", 0), ("b", 0), ("c", 1)])
    order = []
    while not some.is_finished:
        trial = asked(some)
        order.append((trial.strategy, trial.level))
        end(some, trial)
    assert order[:4] == [("c", 0), ("b", 0), ("a", 0), ("c", 1)]


@given(cases(stops=True))
def test_what_is_stopped_leaves_a_frontier_and_calls_no_goal_cancelled(case: Case) -> None:
    run = played(case)
    by_goal = {each.goal for each in run.started}
    standings = run.journalled.policy.outcomes()
    assert {each.status for each in standings} <= {SOLVED, EXHAUSTED, FRONTIER}
    never = [each for each in standings if each.goal.id not in by_goal]
    assert all(each.status == FRONTIER for each in never)
    assert len(standings) == len(case.goals)
    assert Counter(each.status for each in standings) == +run.journalled.policy.counts


@given(cases())
def test_nothing_starts_once_stopped(case: Case) -> None:
    run = begun(case)
    while trial := run.journalled.ask(case.processes - len(run.started)):
        run.started.append(trial)
    assert run.journalled.stop("timeout") == tuple(each.number for each in run.started)
    assert run.journalled.ask(9) is None
    for each in run.started:
        run.journalled.tell(TrialOutcome(each.number, CANCELLED))
    assert run.journalled.policy.is_finished
    assert all(each.attempts == 0 for each in run.journalled.policy.outcomes())


def test_a_cancelled_strategy_is_left_for_another_time() -> None:
    some = schedule(1, "a", "b", speculate=2, levels=1)
    first, second = asked(some, 9), asked(some, 9)
    end(some, first, CANCELLED)
    end(some, second)
    assert asked(some, 9).strategy == "a"


def test_strategies_are_all_tried_in_the_end() -> None:
    some = schedule(1, levels=1, speculate=1)
    tried = []
    while not some.is_finished:
        trial = asked(some)
        tried.append(trial.strategy)
        end(some, trial)
    assert sorted(tried) == [*STRATEGIES]
