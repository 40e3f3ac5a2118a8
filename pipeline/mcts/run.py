"""Search for one theorem: drive the policy over several Lean sessions, each with an evaluator; then check the proof.

In virtual time the same answers of Lean give the same search, byte for byte, in however many sessions they were found.
In real time they are told as they come, and the journal keeps the order.

Threads make the answers, and nothing is decided in them. All methods of Sessions are for one thread; another has its
session to itself for as long as an answer takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import exp
from threading import Event
from typing import Any, NamedTuple

from pipeline.core.journal import resume
from pipeline.lean.backends.table import proof_fault
from pipeline.lean.model import (
    A_SECOND,
    HEARTBEATS,
    UNTOLD,
    Interrupted,
    Lean,
    LeanCrash,
    LeanError,
    ProofFinished,
    Session,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.guides import Guide, Proposal
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME, SearchJournal, SearchStart, search_form
from pipeline.mcts.search.nodes import SOLVED, STATUS_WORDS, GoalNode, proof_script
from pipeline.mcts.search.records import (
    Expand,
    ExpandOutcome,
    SearchRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
    order_moves,
)
from pipeline.mcts.search.trace import Note
from pipeline.mcts.search.tree import SearchTree
from pipeline.tactics.script import (
    RETRY_FACTOR,
    RETRY_UNTIL,
    TacticRefused,
    focus_first,
    front_tactics,
    goals_left,
    in_sequence,
)
from pipeline.tactics.text.goal import INACCESSIBLE, PrintedGoal, read_goal

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


# --- What carries out an `Expand` on a Lean session.
#
# Time is counted in heartbeats, the work that Lean does: so it runs out at the same point however busy the machine is.
# A tactic whose work does not count, as with numbers of thousands of digits, is ended by the clock, many times later:
# more time would not help it.  A tactic that ran out of heartbeats has another try with more: a move of its own, whose
# text ends in a comment that says so and that Lean never sees.


def carry_out(
    expand: Expand, propose: Callable[[], Iterable[WeightedMove]], attempt: Callable[[str], TacticAttempt]
) -> ExpandOutcome:
    """Ask `propose` once for the moves of the goal if they are to be found, and run tactics on it by `attempt`."""
    moves = () if expand.tactics else tuple(order_moves(propose()))
    attempts: list[TacticAttempt] = []
    for tactic in expand.tactics or [move.tactic for move in moves[: expand.limit]]:
        attempts.append(attempt(tactic))
        if expand.first_success and not attempts[-1].error:
            break
    return ExpandOutcome(expand.iteration, tuple(attempts), moves)


RETRY_SHARE = exp(-1)  # of its prior
CLOCK_PATIENCE = 10.0  # times as long by the clock
_RETRY_MARK = re.compile(r" /- again (\d+) -/$")


def split_retry(text: str) -> tuple[str, int]:
    """Split a move into its tactic and how often it ran out of time before."""
    mark = _RETRY_MARK.search(text)
    return (text[: mark.start()], int(mark[1])) if mark else (text, 0)


def retry_seconds(first: float, times: int) -> float:
    return float(min(first * RETRY_FACTOR**times, RETRY_UNTIL))


def retry_moves(text: str, prior: float, first: float) -> list[WeightedMove]:
    """Moves that try again with more time; none after the longest."""
    tactic, times = split_retry(text)
    if retry_seconds(first, times) >= RETRY_UNTIL:
        return []
    return [WeightedMove(f"{tactic} /- again {times + 1} -/", prior * RETRY_SHARE ** (times + 1))]


def goals_after_tactic(before: TacticState, result: TacticResult, closing: bool) -> tuple[str, ...]:
    """The goals that a tactic left of the first goal of `before`. `closing`: it was to prove it at once."""
    match result:
        case TacticState(goals=goals):
            return goals_left(goals, before.goals[1:], closing=closing)
        case ProofFinished():
            return goals_left((), before.goals[1:], closing=closing)
        case LeanError(kind=kind):
            raise TacticRefused(kind)
    raise TacticRefused("given up")


def names_digest(goal: PrintedGoal) -> str:
    """Names in the text, in order, and its digest: goals alike in shape may use a name otherwise."""
    digest = sha256(goal.text.encode()).hexdigest()[:12]
    return " ".join([*(each.name for each in goal.hypotheses), f"#{digest}"])


PREPARE_SECONDS = 10.0  # seconds to bring a goal to the front
RERUN_SECONDS = 60.0  # seconds for a tactic that applied before


@dataclass
class LeanCalls:
    """Calls of Lean.  Only `tactics` count for a budget: the rest is the same whatever the search decides."""

    tactics: int = 0
    keys: int = 0
    prepared: int = 0  # goals brought to the front, and given names
    again: int = 0  # tactics run once more, since the session is another one


class PreparedGoal(NamedTuple):
    """A goal in front of all that are open in `state`; `prelude` is how its names came about."""

    state: TacticState
    prelude: tuple[str, ...]
    proposals: dict[str, Proposal]

    def moves(self) -> list[WeightedMove]:
        return [WeightedMove(each.tactic, each.prior) for each in self.proposals.values()]


class Evaluator:
    """Evaluator of one theorem.  It makes a state when needed, by repeating the tactics to it in a session that is new.

    It may answer while the tree grows: of a goal it reads its origin, place and names, which stay as they are."""

    def __init__(self, session: Session, start: TacticState, guide: Guide) -> None:
        self.session, self.start, self.guide = session, start, guide
        self.calls = LeanCalls()
        self._prepared: dict[int, PreparedGoal] = {}
        self._states: dict[tuple[int, str], TacticState] = {}  # by a tactic, as a search calls it, of a goal

    def root(self) -> Subgoal:
        return self._subgoals(self.start, 1)[0]

    def answer(self, tree: SearchTree, expand: Expand) -> ExpandOutcome:
        """Try the tactics. Where a process is lost for good, what was tried counts, and the rest is left for later."""
        try:
            taken = self.prepared_goal(tree.nodes[expand.node])
        except LeanCrash:
            return ExpandOutcome(expand.iteration, no_goal=True)
        attempts, more = list[TacticAttempt](), list[WeightedMove]()

        def attempt(text: str) -> TacticAttempt:
            attempts.append(self._try_tactic(expand.node, taken, text, more))
            return attempts[-1]

        try:
            outcome = carry_out(expand, taken.moves, attempt)
        except LeanCrash:
            moves = taken.moves() if attempts and not expand.tactics else []
            outcome = ExpandOutcome(expand.iteration, tuple(attempts), tuple(moves), no_goal=not attempts)
        return outcome._replace(moves=(*outcome.moves, *more), units=float(max(1, len(attempts))))

    def _try_tactic(self, node: int, taken: PreparedGoal, text: str, more: list[WeightedMove]) -> TacticAttempt:
        """Try one tactic. `more` collects moves that the goal gets besides."""
        tactic, times = split_retry(text)
        proposal = taken.proposals.get(tactic, Proposal(tactic))
        result = self._run(taken.state, tactic, retry_seconds(proposal.seconds, times))
        self.calls.tactics += 1
        if isinstance(result, LeanError) and result.kind == "heartbeats":  # after a timeout more would not help
            more += retry_moves(text, proposal.prior, proposal.seconds)
        try:
            new = goals_after_tactic(taken.state, result, proposal.closing)
            if not isinstance(result, TacticState):
                return TacticAttempt(text)
            goals = self._subgoals(result, len(new))
        except TacticRefused as why:
            return TacticAttempt(text, error=str(why))
        except LeanCrash:
            return TacticAttempt(text, error="key")  # tried again, it would most likely end in the same way
        self._states[node, text] = result
        return TacticAttempt(text, goals)

    def _run(self, state: TacticState, tactic: str, seconds: float) -> TacticResult:
        tactic = focus_first(tactic, len(state.goals))
        return self._run_tac(state, tactic, CLOCK_PATIENCE * seconds, round(seconds * A_SECOND))

    def _run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        """Run a tactic; once more if it ended a process, which may have been killed."""
        result = self.session.run_tac(state, tactic, timeout, heartbeats)
        if isinstance(result, LeanError) and result.kind == "crash":
            result = self.session.run_tac(state, tactic, timeout, heartbeats)
        return result

    def _subgoals(self, state: TacticState, count: int) -> tuple[Subgoal, ...]:
        goals = [read_goal(text) for text in state.goals[:count]]
        self.calls.keys += count
        return tuple(
            Subgoal(self.session.key(state, place), names_digest(goal), self.guide.rewards(goal, count))
            for place, goal in enumerate(goals)
        )

    def prepared_goal(self, node: GoalNode) -> PreparedGoal:
        """Prepare the goal if that was not done; LeanCrash if it cannot be."""
        for each in reversed(self._unprepared_path(node)):
            self._prepared[each.number] = self._prepare(each)
        return self._prepared[node.number]

    def reruns_needed(self, node: GoalNode) -> int:
        """Number of tactics to run once more before anything can be tried on the goal."""
        origins = [each.origin for each in self._unprepared_path(node) if each.origin]
        return sum((origin.owner.number, origin.tactic) not in self._states for origin in origins)

    def _unprepared_path(self, node: GoalNode) -> list[GoalNode]:
        """The nodes from this one back to a goal that is prepared, which is not part of it."""
        way: list[GoalNode] = []
        each: GoalNode | None = node
        while each is not None and each.number not in self._prepared:
            way.append(each)
            each = each.origin.owner if each.origin else None
        return way

    def prelude(self, node: GoalNode) -> tuple[str, ...]:
        """Lines before the tactic of the goal in a script; Lean need not be asked where all has a name."""
        return self.prepared_goal(node).prelude if INACCESSIBLE in node.names else ()

    def _prepare(self, node: GoalNode) -> PreparedGoal:
        state, place = self._first_state(node)
        rotation, prelude = front_tactics(read_goal(state.goals[place]), place)
        found = self._bring_to_front(state, (*rotation, *prelude))
        if isinstance(found, LeanError) and prelude and found.kind not in UNTOLD:
            found, prelude = self._bring_to_front(state, rotation), ()
        if not isinstance(found, TacticState):
            raise LeanCrash(f"goal {node.number} does not come to the front: {found}")
        proposals: dict[str, Proposal] = {}
        for each in self.guide.priors(read_goal(found.goals[0])):
            proposals.setdefault(each.tactic, each)
        return PreparedGoal(found, prelude, proposals)

    def _bring_to_front(self, state: TacticState, tactics: Sequence[str]) -> TacticResult:
        if not tactics:
            return state
        self.calls.prepared += 1
        return self._run_tac(state, in_sequence(tactics), PREPARE_SECONDS)

    def _first_state(self, node: GoalNode) -> tuple[TacticState, int]:
        """The state in which the goal was first found, and its place there."""
        if node.origin is None:
            return self.start, 0
        owner, text = node.origin.owner, node.origin.tactic
        if (owner.number, text) not in self._states:
            self.calls.again += 1
            result = self._run(self._prepared[owner.number].state, split_retry(text)[0], RERUN_SECONDS)
            if not isinstance(result, TacticState):
                raise LeanCrash(f"`{text}` does not lead where it did: {result}")
            self._states[owner.number, text] = result
        state = self._states[owner.number, text]
        if node.place >= len(state.goals) or names_digest(read_goal(state.goals[node.place])) != node.names:
            raise LeanCrash(f"`{text}` does not leave goal {node.number} as it did")
        return state, node.place
