"""Several sessions of one theorem at work at once: threads make the answers, and nothing is decided in them.

All methods are for one thread.  It says which session does what, and takes what is done; a thread has its session to
itself for as long as an answer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event
from typing import Any, NamedTuple

from pipeline.edge.lean.model import Interrupted, Stop
from pipeline.mcts.calls import Calls, total
from pipeline.mcts.journal import REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.model import Expand, Outcome
from pipeline.mcts.tree import Tree
from pipeline.mcts.trying import Trying

# Of what is waited for, and what there is of it in the order in which it came: the iteration to be told next.
DUE: Mapping[str, Callable[[Sequence[Expand], Iterable[int]], int]] = {
    VIRTUAL_TIME: lambda waiting, there: waiting[0].iteration,  # whoever was early waits, so that no timing shows
    REAL_TIME: lambda waiting, there: next(iter(there), 0),
}


class Either(NamedTuple):
    one: Stop | None
    other: Stop

    def is_set(self) -> bool:
        return self.other.is_set() or (self.one is not None and self.one.is_set())


class Sessions:
    """At most `most`: one, and more as soon as there is more to do than those that are open are free for."""

    def __init__(self, opened: Callable[[Stop], Trying], time: str, most: int, stop: Stop | None) -> None:
        """`opened` may take long, and is called in threads too."""
        self._opened, self._due, self._most = opened, DUE[time], most
        self._over = Event()
        self._until = Either(stop, self._over)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="session")
        self._opening: set[Future[Trying]] = set()
        self._working: dict[Future[Outcome], tuple[Expand, Trying]] = {}
        self._answers: dict[int, Outcome] = {}
        self._all = [opened(self._until)]
        self._idle = [*self._all]

    def answer(self, tree: Tree, waiting: Sequence[Expand]) -> Outcome:
        """The one that is due.  None is told after `stop` was set: of a Lean that was killed with us it is not true."""
        while (due := self._due(waiting, self._answers)) not in self._answers:
            self._hand_out(tree, waiting)
            self._take()
        if self._until.is_set():
            raise Interrupted
        return self._answers.pop(due)

    def _hand_out(self, tree: Tree, waiting: Sequence[Expand]) -> None:
        """In the order of asking, each to whom it costs least; what is left waits for sessions."""
        begun = {*self._answers, *(expand.iteration for expand, _ in self._working.values())}
        todo = [expand for expand in waiting if expand.iteration not in begun]
        free = len(self._idle)
        for expand in todo[:free]:
            trying = min(self._idle, key=lambda each: each.again(tree.nodes[expand.node]))
            self._idle.remove(trying)
            self._working[self._threads.submit(trying.answer, tree, expand)] = expand, trying
        for _ in range(min(len(todo) - free, self._most - len(self._all)) - len(self._opening)):
            self._opening.add(self._threads.submit(self._opened, self._until))

    def _take(self) -> None:
        """At least one of what is under way, when it is done."""
        under_way: set[Future[Any]] = {*self._opening, *self._working}
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for answered in [each for each in self._working if each in done]:
            expand, trying = self._working.pop(answered)
            self._answers[expand.iteration] = answered.result()
            self._idle.append(trying)
        self._enter(done)

    def _enter(self, done: set[Future[Any]]) -> None:
        for opened in self._opening & done:
            self._opening.remove(opened)
            self._all.append(opened.result())
            self._idle.insert(0, self._all[-1])

    def rest(self) -> None:
        """What is under way is not wanted any more: it is interrupted, and has ended."""
        self._over.set()
        self._threads.shutdown(cancel_futures=True)
        self._enter({each for each in self._opening if not each.cancelled() and not each.exception()})
        self._over.clear()

    def idle(self) -> Trying:
        """One that was not interrupted: when nothing is waited for, there is at least who gave the last answer."""
        return self._idle[-1]

    def calls(self) -> Calls:
        return total(trying.calls for trying in self._all)

    def close(self) -> None:
        self.rest()
        with ExitStack() as stack:
            for trying in self._all:
                stack.callback(trying.session.close)
