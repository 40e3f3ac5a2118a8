"""Patience: how long is waited, by whom, and when no more."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Lock, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.graph import Limits, Target
from pipeline.core.outcome import Wait
from pipeline.machine.job import Job, NoPlaces, SharedResources, StageOutage, Workers
from pipeline.machine.patience import (
    LONGEST_PAUSE,
    RefusedTry,
    Service,
    Trouble,
    pause_after,
    trouble_after,
    trouble_after_turn,
)
from pipeline.machine.process import Processes

PATIENCE = 7200.0


def test_pauses_grow_up_to_a_limit() -> None:
    assert [pause_after(n) for n in (1, 2, 3, 6, 7, 8, 10_000)] == [1, 2, 4, 32, 60, 60, LONGEST_PAUSE]


@given(st.lists(st.one_of(st.none(), st.floats(0, 9000)), min_size=1, max_size=400), st.floats(0, PATIENCE))
def test_nothing_is_tried_after_patience_is_over_nor_before_a_service_wants_it(
    asked: list[float | None], patience: float
) -> None:
    now, known = 5.0, None
    for after in asked:
        known = trouble_after(known, RefusedTry("server", "out", after), now, patience)
        if known.over:
            assert after is None or 5.0 + patience - now <= 0 or now + after > 5.0 + patience - 1e-6
            return
        assert known.until <= 5.0 + patience + 1e-6
        assert known.until - now >= (after if after is not None else min(1.0, 5.0 + patience - now)) - 1e-6
        now = known.until
    assert isinstance(known, Trouble)


@pytest.mark.parametrize("after", [None, 0.0, 0.05, 5.0])
def test_however_little_a_service_asks_for_it_is_not_stormed(after: float | None) -> None:
    now, known, tries = 0.0, None, 0
    while (known is None or not known.over) and tries < PATIENCE:
        known = trouble_after(known, RefusedTry("rate limit", "out", after), now, PATIENCE)
        now, tries = known.until, tries + 1
    assert tries < 3 * PATIENCE / LONGEST_PAUSE


@pytest.fixture
def job(processes: Processes, tmp_path: Path) -> Callable[[float], Job]:
    def make(patience: float, said: Callable[[str | Wait], None] = lambda _: None) -> Job:
        target = Target("x:d0.n0.i0.implement", "implement", (), (), {}, Limits(patience=patience))
        shared = (processes, Workers(processes), SharedResources())
        return Job(target, {}, {}, str(tmp_path / "log"), *shared, places=NoPlaces(said))

    return make


def test_one_caller_tries_what_is_out_and_the_others_wait_for_what_comes_of_it(job: Callable[..., Job]) -> None:
    service, callers, tries, waits = Service(), 8, [0], []
    at_once: list[int] = []
    inside = [0]
    together, count = Barrier(callers), Lock()

    def call() -> None:
        own, first = job(PATIENCE, waits.append), True
        while True:
            with service.turn(own, "coder") as turn:
                if first:
                    together.wait()  # all of them are under way when it goes out
                    first = False
                    turn.failed(RefusedTry("rate limit", "429", 0.02))
                    continue
                with count:
                    inside[0] += 1
                    tries[0] += 1
                    number = tries[0]
                    at_once.append(inside[0] if number <= 3 else 1)
                together_or_late.wait(0.05)  # others would come in now
                with count:
                    inside[0] -= 1
                if number > 3:
                    turn.succeeded()
                    return
                turn.failed(RefusedTry("rate limit", "429", 0.02))

    together_or_late = Event()
    threads = [Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(at_once) == 1
    assert tries[0] == 3 + callers
    assert waits


def test_failures_of_calls_that_were_under_way_lengthen_no_pause_but_are_heeded() -> None:
    first = trouble_after_turn(None, None, RefusedTry("server", "502"), 1.0, 99.0)
    assert trouble_after_turn(None, first, RefusedTry("server", "502"), 1.0, 99.0) == first
    later = trouble_after_turn(None, first, RefusedTry("rate limit", "429", 5.0), 1.0, 99.0)
    assert (later.tries, later.until) == (1, 6.0)
    assert trouble_after_turn(later, later, RefusedTry("server", "502"), 6.0, 99.0).tries == 2


def test_calls_that_are_counted_take_no_patience_unless_there_is_none() -> None:
    late = RefusedTry("time-out", "no answer in 1 h", counted=True)
    first = trouble_after(None, late, 0.0, 99.0)
    second = trouble_after(first, late, 3600.0, 99.0)
    assert not second.over
    assert second.until > 3600.0
    lost = RefusedTry("network", "lost")
    assert trouble_after(trouble_after(None, lost, 0.0, 99.0), lost, 3600.0, 99.0).over
    assert trouble_after(None, late, 0.0, 0.0).over
    overload = trouble_after(second, RefusedTry("overload", "503"), 3700.0, 99.0)
    assert (overload.over, overload.since) == (False, 3700.0)


def test_one_question_without_an_answer_gives_no_service_up_but_two_in_a_row_do(job: Callable[..., Job]) -> None:
    service = Service()

    def ask(answered: bool) -> None:
        with service.turn(job(9.0), "coder") as turn:
            turn.succeeded() if answered else turn.failed(RefusedTry("malformed", "no JSON", 0.01, counted=True))
        if not answered:
            service.note_hopeless()

    for answered in (False, True, False, True, False, False):
        ask(answered)
    with pytest.raises(StageOutage, match="no JSON"):
        ask(True)


def test_a_service_that_was_given_up_is_not_tried_again(job: Callable[..., Job]) -> None:
    service = Service()
    with service.turn(job(1.0), "coder") as turn:
        turn.failed(RefusedTry("credit", "no credit", 2.0))
    with (
        pytest.raises(StageOutage, match=r"^no credit; out since .*, and asks to wait for 2") as outage,
        service.turn(job(1.0), "ideas"),
    ):
        pass
    assert outage.value.reason == "model_unavailable"


def test_one_caller_tries_though_another_has_had_an_answer_meanwhile(job: Callable[..., Job]) -> None:
    service, came = Service(), Event()

    def come() -> None:
        with service.turn(job(9.0), "coder"):
            came.set()

    with service.turn(job(9.0), "coder") as begun_before:
        begun_before.failed(RefusedTry("server", "502", 0.01))
        with service.turn(job(9.0), "coder"):
            begun_before.succeeded()
            with service.turn(job(9.0), "coder") as other:
                other.failed(RefusedTry("server", "502", 0.01))
            thread = Thread(target=come)
            thread.start()
            assert not came.wait(0.3)
    thread.join()
    assert came.is_set()


def test_a_success_is_the_end_of_it(job: Callable[..., Job]) -> None:
    service = Service()
    with service.turn(job(9.0), "coder") as one, service.turn(job(9.0), "coder") as other:
        one.failed(RefusedTry("server", "502", 5.0))
        other.succeeded()
    waits: list[Wait | str] = []
    with service.turn(job(9.0, waits.append), "coder"):
        pass
    assert not waits
