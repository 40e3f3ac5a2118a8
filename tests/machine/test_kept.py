"""What targets of a build share is made once, and closed whatever else goes wrong."""

import threading
from collections.abc import Callable

import pytest

from pipeline.machine.job import SharedResources


class Part:
    def __init__(self, close: Callable[[], object]) -> None:
        self.close = close


def test_what_is_asked_for_again_is_the_same() -> None:
    kept = SharedResources()
    one = kept.get("one", lambda: Part(bool))
    assert kept.get("one", lambda: Part(bool)) is one
    assert kept.get("two", lambda: Part(bool)) is not one


def test_it_is_made_once_however_many_ask_at_the_same_time() -> None:
    kept, found, ready = SharedResources(), [], threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        found.append(kept.get("one", lambda: Part(bool)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 1


def test_one_that_cannot_be_closed_keeps_no_other_open() -> None:
    closed: list[str] = []

    def fails() -> None:
        closed.append("fails")
        raise OSError("closing")

    kept = SharedResources()
    kept.get("first", lambda: Part(lambda: closed.append("first")))
    kept.get("fails", lambda: Part(fails))
    with pytest.raises(OSError, match="closing"):
        kept.close()
    assert closed == ["fails", "first"]
