"""Laws of the schedule: order, rooms, and what a failure blocks."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.graph import ALONE
from pipeline.core.schedule import Schedule


class Case(NamedTuple):
    """Targets by number; each needs some of those before it."""

    above: dict[int, list[int]]
    rooms_of: dict[int, tuple[str, ...]]
    rooms: dict[str, int]
    bad: set[int]
    seed: int


class Run(NamedTuple):
    started: list[int]
    ended: list[int]
    blocked: dict[int, tuple[int, ...]]


Check = Callable[[Case, Run, list[int]], None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 12))
    above = {i: draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [] for i in range(count)}
    some = st.lists(st.sampled_from(["gpu", "light", "none such", ALONE]), max_size=3, unique=True).map(tuple)
    rooms_of = {i: rooms for i in range(count) if (rooms := draw(some))}
    rooms = {"gpu": draw(st.integers(1, 2)), "light": draw(st.integers(1, 3))}
    bad = draw(st.sets(st.integers(0, count - 1), max_size=3))
    return Case(above, rooms_of, rooms, bad, draw(st.integers(0, 999)))


def played(case: Case, check: Check = lambda *_: None, at_once: int = 99) -> Run:
    """To the end, targets ending in any order; `check` sees every state in which nothing more may start."""
    rng = Random(case.seed)
    schedule = Schedule(case.above, case.rooms_of, case.rooms)
    run, running = Run([], [], {}), list[int]()
    while True:
        while len(running) < at_once and (i := schedule.start()) is not None:
            running.append(i)
            run.started.append(i)
        check(case, run, running)
        if not running:
            return run
        i = running.pop(rng.randrange(len(running)))
        schedule.release(i)
        run.ended.append(i)
        run.blocked.update(schedule.finish(i, i not in case.bad))


def below(case: Case, bad: set[int]) -> set[int]:
    """Computed the slow way."""
    out: set[int] = set()
    for i, needs in case.above.items():
        if any(j in bad or j in out for j in needs):
            out.add(i)
    return out


@given(cases())
def test_every_target_starts_exactly_once_and_after_all_it_needs(case: Case) -> None:
    case = case._replace(bad=set())

    def check(case: Case, run: Run, _: list[int]) -> None:
        done = set(run.ended)
        assert all(done.issuperset(case.above[i]) for i in run.started)

    assert sorted(played(case, check).started) == [*case.above]


@given(cases(), st.integers(1, 4))
def test_no_room_is_ever_overfull(case: Case, at_once: int) -> None:
    def check(case: Case, _: Run, running: list[int]) -> None:
        for room, size in case.rooms.items():
            assert sum(room in case.rooms_of.get(i, ()) for i in running) <= size

    played(case, check, at_once)


@given(cases())
def test_an_exclusive_target_never_runs_beside_another(case: Case) -> None:
    def check(case: Case, _: Run, running: list[int]) -> None:
        assert len(running) < 2 or not any(ALONE in case.rooms_of.get(i, ()) for i in running)

    played(case, check)


@given(cases())
def test_nothing_overtakes_an_exclusive_target_that_is_ready(case: Case) -> None:
    """What runs may end, but what starts next is exclusive, too: it cannot wait for ever."""
    waited: list[int] = []  # how many had started when an exclusive one was first seen to wait

    def check(case: Case, run: Run, _: list[int]) -> None:
        good, known = set(run.ended) - case.bad, {*run.started, *run.blocked}
        ready = [i for i in case.above if i not in known and good.issuperset(case.above[i])]
        if any(ALONE in case.rooms_of.get(i, ()) for i in ready):
            waited.append(len(run.started))

    run = played(case, check)
    assert all(ALONE in case.rooms_of.get(run.started[count], ()) for count in waited)


@given(cases())
def test_a_full_room_never_holds_back_the_work_of_another(case: Case) -> None:
    """When nothing more may start, whatever is ready waits for a full room of its own."""
    rooms_of = {i: tuple(room for room in rooms if room != ALONE) for i, rooms in case.rooms_of.items()}
    case = case._replace(rooms_of=rooms_of)

    def check(case: Case, run: Run, running: list[int]) -> None:
        good = set(run.ended) - case.bad
        for i in set(case.above) - set(run.started) - set(run.blocked):
            if good.issuperset(case.above[i]):
                taken = Counter(room for j in running for room in case.rooms_of.get(j, ()))
                assert any(taken[room] == case.rooms.get(room) for room in case.rooms_of[i])

    played(case, check)


@given(cases())
def test_a_failure_blocks_exactly_what_is_below_it(case: Case) -> None:
    run = played(case)
    tried = case.bad & set(run.started)
    assert set(run.blocked) == below(case, tried)
    assert sorted([*run.started, *run.blocked]) == [*case.above]


@given(cases())
def test_the_blame_is_on_what_is_directly_above(case: Case) -> None:
    run = played(case)
    failed = (case.bad & set(run.started)) | set(run.blocked)
    for i, by in run.blocked.items():
        assert set(by) == failed.intersection(case.above[i])


@given(cases())
def test_one_at_a_time_and_without_rooms_the_earliest_ready_target_is_next(case: Case) -> None:
    case = case._replace(rooms_of={}, bad=set())

    def check(case: Case, run: Run, running: list[int]) -> None:
        if running:
            before = set(run.started[:-1])
            ready = [i for i in case.above if i not in before and before.issuperset(case.above[i])]
            assert run.started[-1] == min(ready)

    played(case, check, at_once=1)


@given(cases(), st.sets(st.integers(0, 11)))
def test_what_lends_its_places_has_them_again_and_no_room_is_overfull_meanwhile(case: Case, askers: set[int]) -> None:
    """Targets start, lend, take back and end in any order; whatever happened, all of them end."""
    schedule, rng = Schedule(case.above, case.rooms_of, case.rooms), Random(case.seed)
    running, lending, ended = list[int](), list[int](), list[int]()
    turns = 40
    while len(ended) < len(case.above):
        turns -= 1
        back = [i for i in lending if rng.random() < 0.5 or turns < 0]
        came = [i for i in back if schedule.take_back(i)]
        lending, running = [i for i in lending if i not in came], running + came
        while (i := schedule.start()) is not None:
            running.append(i)
        for room, size in case.rooms.items():
            assert sum(room in case.rooms_of.get(i, ()) for i in running) <= size
        assert len(running) < 2 or not any(ALONE in case.rooms_of.get(i, ()) for i in running)
        assert running or lending
        if running:
            i = running.pop(rng.randrange(len(running)))
            if i in askers and turns > 0 and rng.random() < 0.7:
                schedule.release(i)
                lending.append(i)
            else:
                schedule.release(i)
                schedule.finish(i, ok=True)
                ended.append(i)
        assert turns > -999, "nothing comes to its end any more"
    assert sorted(ended) == [*case.above]


def test_what_is_not_part_of_this_build_is_not_waited_for() -> None:
    schedule = Schedule({3: [1, 2], 5: [3]}, {}, {})
    assert schedule.start() == 3
