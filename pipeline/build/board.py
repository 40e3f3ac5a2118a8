"""Work queue of a build: threads take targets and hand in how they ended.

States of a target:

    todo      -> taken       `take`, as the schedule allows
    taken     -> handed in   `hand_in`: its outcome is recorded and told
    taken     -> untold      the same, but what reads from it waits until followers have heard of it
    untold    -> handed in   `release_told`
    taken     -> given up    `give_up`: nothing is known of how it ended
    taken     -> busy        `note_busy`: another thread makes the same key
    busy      -> todo        that key is made
    todo      -> held        it costs, and its run is paused
    held      -> todo        the run goes on
    taken     -> crowded     `note_crowded`: it would ask a model, and as many do, or wait for one, as may
    crowded   -> todo        one of its run has ended
    taken     -> lending     `lend_place`: it waits for what is out, and others may have its place
    lending   -> taken       `take_back`: there is a place for it again, and its run is not paused
    todo      -> left out    one above it failed, was left out, or is ignored by the user

Threads take targets and hand in outcomes by themselves.  The thread that follows them is woken once for many.

At most as many targets are taken at once as there are threads at first, and of each run at most so many ask models or
wait for one: a place is lent to what asks nobody, not to one more asker, which would have a checkout and wait, too.  It
is the same with the places of a room.  A target that lends its place holds nothing for which another waits while it is
taken, so each has a place again in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Condition, Event

from pipeline.build.session import BuildSession
from pipeline.core.freshness import FailureRecord
from pipeline.core.graph import Target
from pipeline.core.outcome import FAILED, IGNORED, SKIPPED, Outcome, Wait, needs_message
from pipeline.core.schedule import BlockedTarget, Schedule
from pipeline.machine.patience import sleep_until
from pipeline.machine.process import BuildStopping
from pipeline.store import receipts
from pipeline.store.receipts import ReceiptLine

# Of a target: that it was started (None), how far it is (a line), the id of a process that works on it, that it waits
# for what is out, or how it ended.
News = tuple[Target, Outcome | Wait | str | int | None]


class Board:
    """The queue that the threads of a build share.  `go_on`: a failure stops only what needs the failed target.

    An outage always stops only that: what does not need what is out is finished.  `start_thread`: one more, counted
    already.  To jobs it is the Places of the build."""

    def __init__(
        self, session: BuildSession, todo: set[int], threads: int, go_on: bool, start_thread: Callable[[], None]
    ) -> None:
        self.stopping = False  # may be set in a signal handler: no lock is taken for it
        self.statuses: dict[int, str] = {}  # how, in a word: all that is left of an outcome once it was told
        self.outages: set[int] = set()  # those of the failed ones where nobody has failed
        self.has_news = Event()  # there are news
        self.all_left = Event()  # all threads have left
        self._session, self._go_on, self._start_thread = session, go_on, start_thread
        graph = session.graph
        self._rooms = session.room_places()
        self._rooms_of = {i: r for i in todo if (r := session.rooms_of(graph.targets[i]))}
        self._schedule = Schedule({i: graph.above(i) for i in sorted(todo)}, self._rooms_of, self._rooms)
        self._changed = Condition()
        self._running, self._threads, self._places = 0, threads, threads
        self._news: list[News] = []
        self._ignored: set[int] = set()
        self._busy: dict[str, list[int]] = {}  # by a key that is being made, the others that have it too
        self._announced: set[int] = set()
        self._untold: dict[int, bool] = {}  # and if it ended well
        self._told: dict[int, bool] = {}
        self._held: list[int] = []
        self._askers: set[int] = set()  # those that ask, or wait for a model
        self._crowded: set[int] = set()
        self._lending: set[int] = set()
        self._returning: dict[int, SimpleQueue[None]] = {}  # those that would go on; each is told when it may

    def leave(self, threads: int = 1) -> None:
        with self._changed:
            self._threads -= threads
            self._changed.notify_all()  # what it ran, if it broke off, is not waited for
            if not self._threads:
                self.all_left.set()
                self.has_news.set()

    def take(self) -> int | None:
        """Wait for the next target to make; None when there will be none."""
        with self._changed:
            while not self.stopping:
                i = self._next_target() if self._has_place() else None
                if i is not None:
                    self._running += 1
                    if not self._session.maker.stage(self._session.graph.targets[i]).asks or self._may_ask(i):
                        self._announce(i)
                    return i
                if not self._running and not self._held and not self._lending:
                    break
                self._changed.wait()
            self._changed.notify_all()
            return None

    def hand_in(self, i: int, outcome: Outcome) -> None:
        """Write the receipt and free what waited for the target."""
        target = self._session.graph.targets[i]
        with self._changed:
            self._session.maker.receipts[target.run].append(_receipt_lines(target.name, outcome))
            self.statuses[i] = outcome.status
            if outcome.outage:
                self.outages.add(i)
            self._announce(i)
            self._add_news([(target, outcome)])
            if outcome.status == FAILED and not outcome.outage and not self._go_on:
                self.stopping = True
            if self._session.maker.stage(target).told_first:
                self._untold[i] = outcome.status != FAILED
            else:
                self._finish(i, outcome.status != FAILED)

    def release_told(self) -> None:
        """Let start what waits for the targets of the last `news`; to be called once followers have heard them."""
        if self._told:
            with self._changed:
                told, self._told = self._told, {}
                for i, ok in told.items():
                    self._finish(i, ok)
                self._changed.notify_all()

    def _finish(self, i: int, ok: bool) -> None:
        self._add_news(self._leave_out(self._schedule.finish(i, ok)))
        self._free_place(i)

    def give_up(self, i: int) -> None:
        """Free the place of a target of which nobody knows how it ended."""
        with self._changed:
            self._free_place(i)

    def note_busy(self, i: int, key: str) -> None:
        """Set a target aside while another thread makes the same key; it holds neither a place nor a thread."""
        with self._changed:
            self._busy.setdefault(key, []).append(i)
            self._free_place(i)

    def admit_asker(self, target: Target) -> bool:
        """Let a target ask models from now on until it ends; False where that would be one too many."""
        i = self._session.graph.index[target.name]
        with self._changed:
            if i in self._askers:
                return True
            if not self._may_ask(i):
                return False
            self._askers.add(i)
            self._announce(i)
            return True

    def note_crowded(self, i: int) -> None:
        """Set a target aside that may not ask now; it holds neither a place nor a thread."""
        with self._changed:
            self._crowded.add(i)
            self._free_place(i)

    def _may_ask(self, i: int) -> bool:
        run = self._session.graph.targets[i].run
        of_run = [j for j in self._askers if self._session.graph.targets[j].run == run]
        taken = Counter(room for j in of_run for room in self._rooms_of.get(j, ()))
        return len(of_run) < self._places and all(taken[r] < self._rooms.get(r, 1) for r in self._rooms_of.get(i, ()))

    @contextmanager
    def lend(self, target: Target) -> Iterator[None]:
        """Let others have the place of a target for the block, and wait for one when it has ended."""
        i = self._session.graph.index[target.name]
        if self.lend_place(i):
            try:
                self._start_thread()
            except RuntimeError:  # more than the machine gives: the place is free for the threads that there are
                self.leave()
        try:
            yield
        finally:
            self.take_back(i)

    def lend_place(self, i: int) -> bool:
        """Let others have the place of a target that waits; True if it wants a thread, which is counted already."""
        with self._changed:
            self._lending.add(i)
            self._running -= 1
            self._schedule.release(i)
            is_short = not self.stopping and self._threads - len(self._lending) < self._places
            self._threads += is_short
            self._admit_returning()
            self._changed.notify_all()
            return is_short

    def take_back(self, i: int) -> None:
        """Wait until there is a place again for a target that has lent its own, and its run is not paused."""
        inbox: SimpleQueue[None] = SimpleQueue()
        with self._changed:
            self._returning[i] = inbox
            self._admit_returning()
        try:
            sleep_until(self._session.maker.processes, inbox, None)
        except BuildStopping:
            with self._changed:
                if self._returning.pop(i, None):  # all that it does now is to end
                    self._schedule.take_back(i, forced=True)
                    self._note_returned(i)
            raise

    def _admit_returning(self) -> None:
        starting = not self.stopping and self._threads > len(self._lending)
        for i in sorted(self._returning):
            is_paused = self._session.is_paused(self._session.graph.targets[i])
            if not is_paused and self._has_place() and self._schedule.take_back(i, starting):
                self._returning.pop(i).put(None)
                self._note_returned(i)

    def _has_place(self) -> bool:
        """Check if one more target may be taken; those that are only to be told yet have ended."""
        return self._running - len(self._untold) - len(self._told) < self._places

    def _note_returned(self, i: int) -> None:
        self._lending.discard(i)
        self._running += 1

    def is_paused(self, target: Target) -> bool:
        with self._changed:
            return self._session.is_paused(target)

    def say(self, target: Target, line: str | Wait) -> None:
        with self._changed:
            self._add_news([(target, line)])

    def note_process(self, target: Target, pid: int) -> None:
        with self._changed:
            self._add_news([(target, pid)])

    def look_again(self) -> None:
        """Free what was held, where its run goes on."""
        with self._changed:
            if not self._held and not self._returning:
                return
            self._admit_returning()
            held, self._held = self._held, []
            for i in held:
                if self._session.is_paused(self._session.graph.targets[i]):
                    self._held.append(i)
                else:
                    self._schedule.make_ready(i)
            self._changed.notify_all()

    def wake(self) -> None:
        """Wake all threads: the build may stop while they wait for what never comes."""
        with self._changed:
            self._changed.notify_all()

    def news(self) -> list[News]:
        """News since the last call, in order."""
        with self._changed:
            self.has_news.clear()
            self._told |= self._untold
            self._untold = {}
            found, self._news = self._news, []
            return found

    def _free_place(self, i: int) -> None:
        self._running -= 1
        self._schedule.release(i)
        self._askers.discard(i)
        self._admit_returning()  # before those that are new
        run = self._session.graph.targets[i].run
        beside = [j for j in self._crowded if self._session.graph.targets[j].run == run and self._may_ask(j)]
        if beside:  # of its own run alone: that of another may be paused, and would free no more
            j = min(beside)
            self._crowded.discard(j)  # if it asks nobody after all, its own end frees the next
            self._schedule.make_ready(j)
        for key in [key for key in self._busy if key not in self._session.maker.making]:
            for j in self._busy.pop(key):
                self._schedule.make_ready(j)
        self._changed.notify(max(0, self._schedule.ready_count() - 1))  # this thread takes one itself

    def _next_target(self) -> int | None:
        """Find the next target that may start; targets that the user ignores are ended on the way."""
        while (i := self._schedule.start()) is not None:
            target = self._session.graph.targets[i]
            if self._session.is_paused(target):
                self._schedule.release(i)
                self._held.append(i)
                continue
            if not self._session.maker.receipts[target.run].is_ignored(target.name):
                return i
            self._schedule.release(i)
            self._add_news(self._leave_out([(i, ()), *self._schedule.finish(i, ok=False)]))
        return None

    def _leave_out(self, blocked: Iterable[BlockedTarget]) -> list[News]:
        """Make the news of targets that cannot run because of others above them, the nearest first."""
        targets = self._session.graph.targets
        news: list[News] = []
        for i, by in blocked:
            if self._ignored.issuperset(by):
                self._ignored.add(i)
                news.append((targets[i], Outcome(IGNORED)))
            elif self._go_on:
                news.append((targets[i], Outcome(SKIPPED, why=needs_message([targets[j].name for j in by]))))
        return news

    def _announce(self, i: int) -> None:
        """Tell that a target was started, once.  One that may not ask now is started only if that is not needed."""
        if i not in self._announced:
            self._announced.add(i)
            self._add_news([(self._session.graph.targets[i], None)])

    def _add_news(self, news: Iterable[News]) -> None:
        if not self._news:
            self.has_news.set()
        self._news.extend(news)


def _receipt_lines(name: str, outcome: Outcome) -> Iterator[ReceiptLine]:
    if outcome.receipt is not None:
        yield receipts.done_line(name, outcome.receipt)
    elif outcome.status == FAILED:
        start, end = round(outcome.start, 3), round(outcome.end, 3)
        facts = (outcome.why, outcome.exit, outcome.attempts, start, end, outcome.log, outcome.outage)
        yield ReceiptLine(name, receipts.FAILED, FailureRecord(*facts)._asdict())
