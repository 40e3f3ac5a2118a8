"""Search for one theorem: drive the policy over several Lean sessions, then check the proof.

In virtual time the same answers of Lean give the same search, byte for byte, in however many sessions they were found.
In real time they are told as they come, and the journal keeps the order.

Threads make the answers, and nothing is decided in them. All methods of Sessions are for one thread; another has its
session to itself for as long as an answer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import asdict
from threading import Event
from typing import Any, NamedTuple

from pipeline.core.journal import resume
from pipeline.lean.backends.table import proof_fault
from pipeline.lean.model import Interrupted, Lean, Stop, Theorem
from pipeline.mcts.run.evaluator import Evaluator, split_retry
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.guides import Guide
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME, SearchJournal, SearchStart, search_form
from pipeline.mcts.search.nodes import SOLVED, STATUS_WORDS, proof_script
from pipeline.mcts.search.records import Expand, ExpandOutcome, SearchRules
from pipeline.mcts.search.trace import Note
from pipeline.mcts.search.tree import SearchTree

# Of what is waited for, and what there is of it in the order in which it came: the iteration to be told next.
NEXT_DUE: Mapping[str, Callable[[Sequence[Expand], Iterable[int]], int]] = {
    VIRTUAL_TIME: lambda waiting, there: waiting[0].iteration,  # whoever was early waits, so that no timing shows
    REAL_TIME: lambda waiting, there: next(iter(there), 0),
}


class StopWhen(NamedTuple):
    """A stop that is set as soon as something is so."""

    is_set: Callable[[], bool]


class Sessions:
    """Sessions of a Lean: one, and more, up to `most`, as soon as there is more to do than those are free for."""

    def __init__(self, open_one: Callable[[Stop], Evaluator], time: str, most: int, stop: Stop) -> None:
        """`open_one` may take long, and is called in threads too."""
        self._open, self._due, self._most = open_one, NEXT_DUE[time], most
        self._over = Event()
        self._until = StopWhen(lambda: self._over.is_set() or stop.is_set())
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="session")
        self._opening: set[Future[Evaluator]] = set()
        self._working: dict[Future[ExpandOutcome], tuple[Expand, Evaluator]] = {}
        self._answers: dict[int, ExpandOutcome] = {}
        self._all = [open_one(self._until)]
        self._idle = [*self._all]

    def answer(self, tree: SearchTree, waiting: Sequence[Expand]) -> ExpandOutcome:
        """The one that is due.  None is told after `stop` was set: of a Lean that was killed with us it is not true."""
        while (due := self._due(waiting, self._answers)) not in self._answers:
            self._hand_out(tree, waiting)
            under_way: set[Future[Any]] = {*self._opening, *self._working}
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for answer in [each for each in self._working if each in done]:
                expand, session = self._working.pop(answer)
                self._answers[expand.iteration] = answer.result()
                self._idle.append(session)
            self._enter(done)
        if self._until.is_set():
            raise Interrupted
        return self._answers.pop(due)

    def _hand_out(self, tree: SearchTree, waiting: Sequence[Expand]) -> None:
        """Hand out in the order of asking, each to whom it costs least; what is left waits for sessions."""
        begun = {*self._answers, *(expand.iteration for expand, _ in self._working.values())}
        todo = [expand for expand in waiting if expand.iteration not in begun]
        free = len(self._idle)
        for expand in todo[:free]:
            session = min(self._idle, key=lambda each: each.reruns_needed(tree.nodes[expand.node]))
            self._idle.remove(session)
            self._working[self._threads.submit(session.answer, tree, expand)] = expand, session
        for _ in range(min(len(todo) - free, self._most - len(self._all)) - len(self._opening)):
            self._opening.add(self._threads.submit(self._open, self._until))

    def _enter(self, done: set[Future[Any]]) -> None:
        for future in self._opening & done:
            self._opening.remove(future)
            self._all.append(future.result())
            self._idle.insert(0, self._all[-1])

    def interrupt_all(self) -> None:
        """Interrupt what is under way, and wait for its end."""
        self._over.set()
        self._threads.shutdown(cancel_futures=True)
        self._enter({each for each in self._opening if not each.cancelled() and not each.exception()})
        self._over.clear()

    def idle(self) -> Evaluator:
        """One that was not interrupted: when nothing is waited for, there is at least who gave the last answer."""
        return self._idle[-1]

    def calls(self) -> dict[str, int]:
        each = [asdict(session.calls) for session in self._all]
        return {name: sum(calls[name] for calls in each) for name in each[0]}

    def close(self) -> None:
        self.interrupt_all()
        with ExitStack() as stack:
            for each in self._all:
                stack.callback(each.session.close)


class TheoremTask(NamedTuple):
    theorem: Theorem
    rules: SearchRules | TeamRules
    guide: Guide
    time: str = VIRTUAL_TIME


class SearchFiles(NamedTuple):
    """The lines of a journal that there are already; where new ones go; `note` hears of all iterations, old or new."""

    lines: Sequence[str] = ()
    write: Callable[[str], object] = lambda line: None
    note: Note = lambda record: None


class TheoremResult(NamedTuple):
    """`status`: what the search says of the theorem.  Only a proof that holds as a whole is `verified`.

    `calls`: what Lean was asked in this process, by what for, in all sessions together.  `spent`: of the budget, also
    what was under way when a proof was there."""

    status: str
    script: tuple[str, ...]
    verified: bool
    error: str
    nodes: int
    calls: dict[str, int]
    spent: int = 0


def prove_theorem(
    task: TheoremTask, lean: Lean, files: SearchFiles | None = None, stop: Stop | None = None, sessions: int = 1
) -> TheoremResult:
    """Interrupted soon after `stop` is set; what was under way then has no answer, and is asked again next time.

    With several `sessions` the guide is asked by several threads at once."""

    def open_one(until: Stop) -> Evaluator:
        return Evaluator(*lean.open(task.theorem, until), task.guide)

    stop = stop or Event()
    files = files or SearchFiles()
    try:
        with closing(Sessions(open_one, task.time, sessions, stop)) as together:
            start = SearchStart(task.rules, together.idle().root(), task.time)
            if lines := files.lines:  # it goes on where they end; JournalDiffers if they are of another search
                journal = resume(search_form(files.note), lines, files.write, start.first_line())
            else:
                journal = SearchJournal(start, files.write, files.note)
            drive_search(journal, together.answer)
            together.interrupt_all()
            policy, tree = journal.policy, journal.policy.tree
            script = found_script(tree, together.idle())
        fault = proof_fault(lean, task.theorem, script, stop) if script else ""
    except Exception as error:  # after `stop` was set it went wrong since Lean was killed with us, or may as well
        if stop.is_set():
            raise Interrupted from error
        raise
    if fault and stop.is_set():
        raise Interrupted
    verified, status = bool(script) and not fault, STATUS_WORDS[tree.root.status]
    return TheoremResult(status, script, verified, fault, len(tree.nodes), together.calls(), policy.calls)


def drive_search(journal: SearchJournal, answer: Callable[[SearchTree, Sequence[Expand]], ExpandOutcome]) -> None:
    """Ask and tell until nothing more is asked: here alone, so that the journal has one order."""
    while True:
        while journal.ask():
            pass
        if not (waiting := journal.policy.unanswered):
            return
        journal.tell(answer(journal.policy.tree, waiting))


def found_script(tree: SearchTree, session: Evaluator) -> tuple[str, ...]:
    """The proof, a line each; nothing where there is none."""
    if tree.root.status != SOLVED:
        return ()
    return tuple(split_retry(line)[0] for line in proof_script(tree.root, session.prelude))
