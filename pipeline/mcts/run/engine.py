"""Search for one theorem: drive the policy over several Lean sessions, then check the proof.

In virtual time no clock decides anything: the same answers of Lean give the same search, byte for byte, in however
many sessions they were found. In real time they are told as they come, and the journal keeps the order.

Threads make the answers, and nothing is decided in them. All methods of Sessions are for one thread: it says which
session does what, and takes what is done; a thread has its session to itself for as long as an answer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from threading import Event
from typing import Any, NamedTuple

from pipeline.core.journal import resume
from pipeline.lean.backends.table import proof_fault
from pipeline.lean.model import Interrupted, Lean, Stop, Theorem
from pipeline.mcts.search import evaluator, nodes
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.evaluator import Evaluator, Guide, LeanCalls, sum_calls
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME, SearchJournal, SearchStart, search_form
from pipeline.mcts.search.nodes import SOLVED, STATUS_WORDS
from pipeline.mcts.search.records import Expand, ExpandOutcome, SearchRules
from pipeline.mcts.search.trace import Note
from pipeline.mcts.search.tree import SearchTree

# Of what is waited for, and what there is of it in the order in which it came: the iteration to be told next.
NEXT_DUE: Mapping[str, Callable[[Sequence[Expand], Iterable[int]], int]] = {
    VIRTUAL_TIME: lambda waiting, there: waiting[0].iteration,  # whoever was early waits, so that no timing shows
    REAL_TIME: lambda waiting, there: next(iter(there), 0),
}


class AnyStop(NamedTuple):
    one: Stop | None
    other: Stop

    def is_set(self) -> bool:
        return self.other.is_set() or (self.one is not None and self.one.is_set())


class Sessions:
    """At most `most`: one, and more as soon as there is more to do than those that are open are free for."""

    def __init__(self, opened: Callable[[Stop], Evaluator], time: str, most: int, stop: Stop | None) -> None:
        """`opened` may take long, and is called in threads too."""
        self._opened, self._due, self._most = opened, NEXT_DUE[time], most
        self._over = Event()
        self._until = AnyStop(stop, self._over)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="session")
        self._opening: set[Future[Evaluator]] = set()
        self._working: dict[Future[ExpandOutcome], tuple[Expand, Evaluator]] = {}
        self._answers: dict[int, ExpandOutcome] = {}
        self._all = [opened(self._until)]
        self._idle = [*self._all]

    def answer(self, tree: SearchTree, waiting: Sequence[Expand]) -> ExpandOutcome:
        """The one that is due.  None is told after `stop` was set: of a Lean that was killed with us it is not true."""
        while (due := self._due(waiting, self._answers)) not in self._answers:
            self._hand_out(tree, waiting)
            self._take()
        if self._until.is_set():
            raise Interrupted
        return self._answers.pop(due)

    def _hand_out(self, tree: SearchTree, waiting: Sequence[Expand]) -> None:
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

    def interrupt_all(self) -> None:
        """What is under way is not wanted any more: it is interrupted, and has ended."""
        self._over.set()
        self._threads.shutdown(cancel_futures=True)
        self._enter({each for each in self._opening if not each.cancelled() and not each.exception()})
        self._over.clear()

    def idle(self) -> Evaluator:
        """One that was not interrupted: when nothing is waited for, there is at least who gave the last answer."""
        return self._idle[-1]

    def calls(self) -> LeanCalls:
        return sum_calls(trying.calls for trying in self._all)

    def close(self) -> None:
        self.interrupt_all()
        with ExitStack() as stack:
            for trying in self._all:
                stack.callback(trying.session.close)


# To one of those that are waited for.
AnswerNext = Callable[[SearchTree, Sequence[Expand]], ExpandOutcome]


class TheoremTask(NamedTuple):
    theorem: Theorem
    rules: SearchRules | TeamRules
    guide: Guide
    time: str = VIRTUAL_TIME


class SearchFiles(NamedTuple):
    """The lines of a journal that there are already; where new ones go; `note` hears of all iterations, old or new."""

    lines: Sequence[str] = ()
    write: Callable[[str], object] = lambda line: None
    note: Note = lambda told: None


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
    wanted: TheoremTask, lean: Lean, files: SearchFiles | None = None, stop: Stop | None = None, sessions: int = 1
) -> TheoremResult:
    """Interrupted soon after `stop` is set; what was under way then has no answer, and is asked again next time.

    With several `sessions` the guide is asked by several threads at once."""

    def opened(until: Stop) -> Evaluator:
        return Evaluator(*lean.open(wanted.theorem, until), wanted.guide)

    with interrupt_errors(stop):
        with closing(Sessions(opened, wanted.time, sessions, stop)) as together:
            journalled = begin_search(wanted, together.idle(), files or SearchFiles())
            drive_search(journalled, together.answer)
            together.interrupt_all()
            script = found_script(journalled.policy.tree, together.idle())
        error = check_script(wanted.theorem, lean, script, stop) if script else ""
    tree = journalled.policy.tree
    verified = bool(script) and not error
    status, asked = STATUS_WORDS[tree.root.status], asdict(together.calls())
    return TheoremResult(status, script, verified, error, len(tree.nodes), asked, journalled.policy.calls)


@contextmanager
def interrupt_errors(stop: Stop | None) -> Iterator[None]:
    """What goes wrong after `stop` was set goes wrong since Lean was killed with us, or may as well."""
    try:
        yield
    except Exception as error:
        if stop is not None and stop.is_set():
            raise Interrupted from error
        raise


def begin_search(wanted: TheoremTask, trying: Evaluator, files: SearchFiles) -> SearchJournal:
    """From its first line, or from where the journal ends; JournalDiffers if that is one of another search."""
    start = SearchStart(wanted.rules, trying.root(), wanted.time)
    if files.lines:
        return resume(search_form(files.note), files.lines, files.write, start.first_line())
    return SearchJournal(start, files.write, files.note)


def drive_search(journalled: SearchJournal, answer: AnswerNext) -> None:
    """Until nothing more is asked.  It alone asks and tells, so that the journal has one order."""
    policy = journalled.policy
    while True:
        while journalled.ask():
            pass
        if not (waiting := policy.unanswered):
            return
        journalled.tell(answer(policy.tree, waiting))


def found_script(tree: SearchTree, trying: Evaluator) -> tuple[str, ...]:
    """The proof, a line each; nothing where there is none."""
    if tree.root.status != SOLVED:
        return ()
    return tuple(evaluator.split_retry(line)[0] for line in nodes.proof_script(tree.root, trying.prelude))


def check_script(theorem: Theorem, lean: Lean, script: Sequence[str], stop: Stop | None = None) -> str:
    """What is wrong with a proof as a whole, in an environment that nothing was done in; nothing if it holds."""
    wrong = proof_fault(lean, theorem, script, stop)
    if wrong and stop is not None and stop.is_set():
        raise Interrupted
    return wrong
