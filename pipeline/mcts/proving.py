"""One theorem, searched for a proof: asked and told in turn, and the proof checked as a whole.

In virtual time no clock decides anything: the same answers of Lean give the same search, byte for byte, in however many
sessions they were found.  In real time they are told as they come, and the journal keeps the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import NamedTuple

from pipeline.banks.checking import why_not
from pipeline.edge.lean.model import Interrupted, Lean, Stop, Theorem
from pipeline.mcts import limits, scripts
from pipeline.mcts.distributed import Team
from pipeline.mcts.journal import VIRTUAL_TIME, Journalled, first_line
from pipeline.mcts.model import Expand, Outcome, Rules
from pipeline.mcts.nodes import SOLVED, WORDS
from pipeline.mcts.replaying import resumed
from pipeline.mcts.together import Sessions
from pipeline.mcts.trace import Note
from pipeline.mcts.tree import Tree
from pipeline.mcts.trying import Guide, Trying

# To one of those that are waited for.
Answer = Callable[[Tree, Sequence[Expand]], Outcome]


class Wanted(NamedTuple):
    theorem: Theorem
    rules: Rules | Team
    guide: Guide
    time: str = VIRTUAL_TIME


class Files(NamedTuple):
    """The lines of a journal that there are already; where new ones go; `note` hears of all iterations, old or new."""

    lines: Sequence[str] = ()
    write: Callable[[str], object] = lambda line: None
    note: Note = lambda told: None


class Found(NamedTuple):
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


def prove(wanted: Wanted, lean: Lean, files: Files | None = None, stop: Stop | None = None, sessions: int = 1) -> Found:
    """Interrupted soon after `stop` is set; what was under way then has no answer, and is asked again next time.

    With several `sessions` the guide is asked by several threads at once."""

    def opened(until: Stop) -> Trying:
        return Trying(*lean.open(wanted.theorem, until), wanted.guide)

    with interrupted(stop):
        with closing(Sessions(opened, wanted.time, sessions, stop)) as together:
            journalled = begun(wanted, together.idle(), files or Files())
            driven(journalled, together.answer)
            together.rest()
            script = written(journalled.policy.tree, together.idle())
        error = judged(wanted.theorem, lean, script, stop) if script else ""
    tree = journalled.policy.tree
    verified = bool(script) and not error
    status, asked = WORDS[tree.root.status], asdict(together.calls())
    return Found(status, script, verified, error, len(tree.nodes), asked, journalled.policy.calls)


@contextmanager
def interrupted(stop: Stop | None) -> Iterator[None]:
    """What goes wrong after `stop` was set goes wrong since Lean was killed with us, or may as well."""
    try:
        yield
    except Exception as error:
        if stop is not None and stop.is_set():
            raise Interrupted from error
        raise


def begun(wanted: Wanted, trying: Trying, files: Files) -> Journalled:
    """From its first line, or from where the journal ends; Diverged if that is one of another search."""
    first = first_line(wanted.rules, trying.root(), wanted.time)
    if files.lines:
        return resumed(files.lines, files.write, files.note, first)
    return Journalled(first, files.write, files.note)


def driven(journalled: Journalled, answer: Answer) -> None:
    """Until nothing more is asked.  It alone asks and tells, so that the journal has one order."""
    policy = journalled.policy
    while True:
        while journalled.ask():
            pass
        if not (waiting := policy.unanswered):
            return
        journalled.tell(answer(policy.tree, waiting))


def written(tree: Tree, trying: Trying) -> tuple[str, ...]:
    """The proof, a line each; nothing where there is none."""
    if tree.root.status != SOLVED:
        return ()
    return tuple(limits.parted(line)[0] for line in scripts.lines(tree.root, trying.prelude))


def judged(theorem: Theorem, lean: Lean, script: Sequence[str], stop: Stop | None = None) -> str:
    """What is wrong with a proof as a whole, in an environment that nothing was done in; nothing if it holds."""
    wrong = why_not(lean, theorem, script, stop)
    if wrong and stop is not None and stop.is_set():
        raise Interrupted
    return wrong
