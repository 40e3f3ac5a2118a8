"""A run's projection as it changes; in this process, or in one of its own that a server asks.

A process of its own, since a projection of ten thousand evaluations takes a hundred times the memory of its packed
text, and a server is to stay small while two hundred look on.  It has the lowest priority, rests between projections,
and ends with its standard input.  To it go lines of JSON (`ask`, and an `id`); from it come frames: a line of JSON that
says what it is, and so many bytes, packed where they are many.  States of a feed process:

    silent  -> told     the first projection is sent, whole
    told    -> told     a change is sent; or, when the changes have grown large, again the whole, of the same version
    told    -> problem  records cannot be read; what was sent stays true of the time before
    problem -> told     they can

Versions only grow, also from one process to the next.  No value of a variable of the environment that its name calls
a secret leaves it, nor where the project and its user's files lie."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property, partial
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import kinds
from pipeline.build import project
from pipeline.build.activity import activity_path, moment_of
from pipeline.build.history import past_builds
from pipeline.core.projection import DONE, KINDS, LIVE, Json, Moment, Table, as_json, delta
from pipeline.core.text import one_line, visible_text
from pipeline.errors import SpecError, did_you_mean, unreadable_message
from pipeline.machine.process import module_command
from pipeline.screens.access import Discretion
from pipeline.store.files import append_all, read_bytes
from pipeline.store.state import content_signature, signature
from pipeline.store.steering import SteeringLog
from pipeline.views.lines import clean_text

if TYPE_CHECKING:
    from pipeline.screens.show import RecordedFeed
    from pipeline.views.pages.document import Sources

LOG_BYTES, LOG = 64_000, "log"  # of a log at once; the column of a table that names some
LONGEST_REASON = 200  # characters
_RECORDED = (str, int, float, list, dict, type(None))  # of all that is read from a record


class RunFeed:
    """A run of this project as it changes.  SpecError for what is no run, and for records that cannot be read.

    `last`: the projection that was given last; besides, `can` has the ways to steer the run that it takes now."""

    def __init__(self, run: str) -> None:
        if problem := _no_run(run):
            raise SpecError(problem)
        self.run, self.last = run, Json()
        self._spec, self._steering = project.spec_paths()[run], SteeringLog(run)
        self._looked: Sequence[Any] | None = None
        self._problem: SpecError | None = None  # with what is there
        self._named: set[str] = set()  # files that somebody was told of
        self._watched: Sequence[str] = ()
        self._read_plan()

    def _read_plan(self) -> None:
        self._signed = signature(self._spec)
        self._plan = project.load([self.run])[self.run]
        self._view = kinds.ability_module(self._plan.kind, kinds.VIEW)

    def now(self) -> Json:
        """The projection as it stands."""
        self._looked = None
        with readable(self.run):
            self._watched = self._view.watched(self.run, self._plan.targets)
            looked = self._look()  # before: what changes meanwhile is a change
        try:
            with readable(self.run):
                moment = self._moment._replace(builds=past_builds(self.run))
                shown = as_json(self._view.project(self.run, self._plan.targets, moment))
                self.last = {**shown, "can": self._can(shown["state"]["word"], moment)}
        except SpecError as problem:
            self._looked, self._problem = looked, problem
            raise
        self._looked, self._problem = looked, None
        self._name_files(self.last["blocks"])
        return self.last

    def state(self) -> Json:
        """How the run stands, alone; projected anew when something has changed, and nothing else of it is kept."""
        with readable(self.run):
            is_same = self._looked is not None and self._look() == self._looked
        if not is_same or self._problem:
            self.last = {"state": self.now()["state"]}
        state: Json = self.last["state"]
        return state

    def poll(self) -> Json:
        """Tell what has changed since the last time; it costs a stat a file when nothing has.

        What could not be read is still a problem while it is the same."""
        with readable(self.run):
            is_same = self._look() == self._looked
        if is_same and self._problem and not isinstance(self._problem.__cause__, OSError):
            raise self._problem
        if is_same and not self._problem:
            return {}
        before = self.last
        return delta(before, self.now())

    def _look(self) -> Sequence[Any]:
        """All that a projection depends on, as far as it can be told without reading it."""
        self._moment = moment_of(self.run, self._steering)
        if signature(self._spec) != self._signed:
            try:
                self._read_plan()
            except SpecError:  # under edit: the plan before is still that of what is recorded
                self._signed = signature(self._spec)
        known = (self._moment.is_building, self._moment.pause, self._moment.running)
        return [*known, self._signed, *map(content_signature, (activity_path(self.run), *self._watched))]

    def details(self, item: str) -> list[Json]:
        """The blocks of an item; SpecError when there is none."""
        with readable(f"{self.run}:{item}"):
            blocks = [as_json(block) for block in self._view.details(self.run, self._plan.targets, item)]
        self._name_files(blocks)
        return blocks

    def _name_files(self, blocks: Sequence[Json]) -> None:
        self._named |= {block["path"] for block in blocks if block.get("path")}
        for block in (each for each in blocks if each["is"] == KINDS[Table]):
            titles = [column["title"] for column in block["columns"]]
            if LOG in titles:
                self._named |= {row["cells"][titles.index(LOG)] for row in block["rows"]}

    def log(self, path: str, start: int | None = None) -> Json:
        """Read a log from a byte on, or its end; of files that a block has named, below runs/, and of no others.

        `next`: where to go on; the text ends with a line, if there is one."""
        if path not in self._named:  # first: there may be a NUL in it
            raise SpecError("nothing that is shown has this log")
        inside, real = os.path.realpath("runs"), os.path.realpath(path)
        if os.path.commonpath([inside, real]) != inside:
            raise SpecError("nothing that is shown has this log")
        try:
            fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise SpecError(f"this log cannot be read: {error.strerror}") from error
        with open(fd, "rb", buffering=0) as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise SpecError("nothing that is shown has this log")
            first = max(0, status.st_size - LOG_BYTES) if start is None else start if start <= status.st_size else 0
            file.seek(first)
            text = file.read(LOG_BYTES)
        text = text[: text.rfind(b"\n") + 1] or text
        return {"text": clean_text(text.decode(errors="replace")), "next": first + len(text), "size": status.st_size}

    def page(self, projection: Json) -> Page:
        """The page that shows this projection and follows the run, by which it is steered."""
        return followed_page(self.run, projection, "/runs")

    def _can(self, state: str, moment: Moment) -> list[str]:
        """The ways to steer the run that it takes now."""
        if self._plan.kind not in kinds.STEER.kinds:
            return []
        hold = ["resume"] if moment.pause else ["pause"] if state == LIVE else []
        if state == DONE:
            return hold
        steer = kinds.ability_module(self._plan.kind, kinds.STEER)
        return [*hold, *steer.open_to(self.run, self._plan.targets)]


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Say for people that records cannot be read, or do not fit together: anybody may write there.

    An attribute that a thing of ours lacks is our own mistake and stays one, since records are made of JSON.  Of what
    else our code stumbles over the place is said, too; it may be to blame."""
    try:
        yield
    except OSError as error:
        raise SpecError(unreadable_message(what, error)) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, AttributeError) and not isinstance(error.obj, _RECORDED):
            raise
        place = extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {one_line(visible_text(str(error)), LONGEST_REASON)}"
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        check = f"coppice tree --tree-run-id {what.partition(':')[0]} --validate-only"
        hint = f"`{check}` checks those of a search over code; where they are whole, it is a mistake in Coppice"
        raise SpecError(f"{what}: records are damaged or do not fit together ({why}, {where}); {hint}") from error


class Page(NamedTuple):
    """A page of a run.  `policy`: what it may load and run."""

    html: str
    policy: str


def followed_page(run: str, projection: Json, run_list: str = "", has_clock: bool = True) -> Page:
    """A page that begins with a projection and follows the run at the server that gives it (`live_document`)."""
    from pipeline.views.pages.document import content_policy, live_document  # here: who only watches has no page

    sources = page_sources()
    html = live_document(sources, projection, f"/api/runs/{run}", run_list, has_clock)
    return Page(html, content_policy(sources, is_live=True))


def page_sources() -> Sources:
    """The script and the style of a page, from the package."""
    from pipeline.views.pages.document import SCRIPT, STYLE, Sources

    files = (f"{project.PACKAGE}/views/pages/{name}" for name in (SCRIPT, STYLE))
    return Sources(*(read_bytes(file).decode() for file in files))


def _no_run(run: str) -> str:
    """Say what is wrong with the name of a run; an empty one stands for the whole project."""
    try:
        specs = project.spec_paths()
    except SpecError as error:
        return str(error)
    return f"'{run}' is no run{did_you_mean(run, specs)}" if run and run not in specs else ""


# --- Of the whole project.

_KINDS: dict[str, tuple[int, str]] = {}
_FEEDS: dict[str, RunFeed] = {}  # of the list, of which nothing but their states is kept


def run_list() -> list[Json]:
    """The runs of this project, each with its last build; a spec with a mistake has it as `problem`."""
    return [_run_row(run, spec) for run, spec in project.spec_paths().items()]


def _run_row(run: str, spec: str) -> Json:
    row: Json = {"run": run, "spec": spec, "kind": None, "problem": ""}
    row |= {"building": False, "paused": False, "last": None, "state": None}
    try:
        row["kind"] = _kind_of(spec)
        with readable(run):
            moment, builds = moment_of(run, SteeringLog(run)), past_builds(run)
        row |= {"building": moment.is_building, "paused": moment.pause is not None}
        fields = ("number", "at", "seconds", "stopped", "counts")
        row["last"] = {name: getattr(builds[-1], name) for name in fields} if builds else None
        if row["kind"] in kinds.VIEW.kinds:
            if run not in _FEEDS:
                _FEEDS[run] = RunFeed(run)
            row["state"] = _FEEDS[run].state()
    except SpecError as error:
        row["problem"] = str(error)
    return row


def _kind_of(spec: str) -> str:
    if _KINDS.get(spec, (0, ""))[0] != signature(spec):
        _KINDS[spec] = signature(spec), kinds.kind_of(project.parse_spec(spec))
    return _KINDS[spec][1]


def ledger_stats() -> Json:
    """Tell what the ledgers of this project have, each as `coppice stats --json` tells it.

    What cannot be read, a ledger or the spec that names one, has why as `problem`."""
    rows: list[Json] = []
    ledgers: set[str] = set()
    for run, spec in project.spec_paths().items():
        try:
            if _kind_of(spec) in kinds.PROVE.kinds:
                ledgers.add(project.read_spec(run, spec).ledger)
        except SpecError as error:
            rows.append({"ledger": None, "problem": str(error)})
    return {"ledgers": [*map(_ledger_row, sorted(filter(os.path.exists, ledgers))), *rows]}


def _ledger_row(ledger: str) -> Json:
    from pipeline.store.ledger import LedgerReader  # here: few projects have one

    try:
        with readable(ledger), closing(LedgerReader(ledger)) as reader:
            return {"ledger": ledger, "problem": "", **asdict(reader.stats())}
    except SpecError as error:
        return {"ledger": ledger, "problem": str(error)}


# --- A process of its own.

LOOK_SECONDS, PROBLEM_SECONDS, IDLE_SECONDS = 0.2, 2.0, 60.0  # between looks; after one that failed; of no run
REST = 1  # times as long as it took to project
PACKED_BYTES = 4000  # a text is packed from so many bytes on
FOLDED_PART, FOLDED_BYTES = 4, 64_000  # changes of so large a part of the whole, and no less, are folded into it


def frame(facts: Mapping[str, Any], text: str = "") -> bytes:
    """A frame: a line of JSON, and the text, packed where it is long."""
    content = text.encode()
    packed = len(content) >= PACKED_BYTES
    if packed:
        content = zlib.compress(content, 6, 31)  # as gzip, so that a browser can take it as it is
    return json.dumps({**facts, "packed": packed, "size": len(content)}).encode() + b"\n" + content


class FeedDesk:
    """The process of a run's feed; without a run, of the project.  `send` has frames, `show` makes that of a show."""

    def __init__(
        self,
        run: str,
        send: Callable[[bytes], object],
        discretion: Discretion,
        show: Callable[[], RecordedFeed] | None = None,
    ) -> None:
        self._run, self._send, self._discretion, self._show = run, send, discretion, show
        self._version = int(time.time() * 1000)  # later than any of a process before
        self._problem, self._sent, self._whole = "", 0, 0
        self._next_look = 0.0

    @cached_property
    def feed(self) -> RunFeed | RecordedFeed:
        return self._show() if self._show else RunFeed(self._run)

    def look(self, now: float) -> float:
        """Send what has changed, if it is time; the seconds until it is time again."""
        if not self._run:
            return IDLE_SECONDS
        if now >= self._next_look:
            began, pause = time.process_time(), LOOK_SECONDS
            try:
                frames = [*self._new_frames()] or [self._whole_frame()] * bool(self._problem)  # it is over
                self._problem = ""
            except (SpecError, OSError) as error:
                frames, pause = [*self._problem_frames(str(error))], PROBLEM_SECONDS
            for each in frames:
                self._send(each)
            self._next_look = now + max(pause, REST * (time.process_time() - began))
        return max(0.0, self._next_look - now)

    def _problem_frames(self, problem: str) -> Iterator[bytes]:
        if problem != self._problem:
            self._problem = problem
            yield frame({"is": "problem"}, self._discretion.clean(problem))

    def _new_frames(self) -> Iterator[bytes]:
        """Frames of what has changed; or, at first and when the changes have grown large, the whole."""
        if not self._sent:
            self.feed.now()
            self._version += 1
            yield self._whole_frame()
        elif change := self.feed.poll():
            self._version += 1
            text = self._discretion.json_text(change)
            self._sent += len(text)
            yield self._state_frame("delta", text)
            if self._sent - self._whole > max(FOLDED_BYTES, self._whole // FOLDED_PART):
                yield self._whole_frame()

    def _whole_frame(self) -> bytes:
        text = self._discretion.json_text(self.feed.last)
        self._whole = self._sent = len(text)
        return self._state_frame("projection", text)

    def fold(self) -> Json:
        """Send the whole again, as it was told by changes: who asks for it once need not ask for them."""
        if self._sent:
            self._send(self._whole_frame())
        return {}

    def _state_frame(self, what: str, text: str) -> bytes:
        return frame({"is": what, "version": self._version, "state": self.feed.last["state"]["word"]}, text)

    def answer(self, question: Mapping[str, Any]) -> None:
        """Answer a question; what is wrong with it goes to whoever asked."""
        facts: Json = {"is": "answer", "id": question["id"], "status": 200}
        try:
            if question["ask"] == "page":
                shown = self._discretion.clean_json(self.feed.last or self.feed.now())  # its script stays as it is
                text, facts["policy"] = self.feed.page(shown)
            else:
                text = self._discretion.json_text(_ANSWERS[question["ask"]](self, question))
        except (SpecError, OSError) as error:
            facts["status"], text = 404, self._discretion.clean(str(error))
        self._send(frame(facts, text))


_ANSWERS: Mapping[str, Callable[[FeedDesk, Mapping[str, Any]], Any]] = {
    "fold": lambda desk, question: desk.fold(),
    "details": lambda desk, question: desk.feed.details(question["item"]),
    "log": lambda desk, question: desk.feed.log(question["path"], question["start"]),
    "runs": lambda desk, question: run_list(),
    "stats": lambda desk, question: ledger_stats(),
}


def questions(fd: int, wait: Callable[[], float]) -> Iterator[list[Json]]:
    """The questions on a pipe, until it is closed; an empty list whenever `wait` seconds have passed without any."""
    rest = b""
    while True:
        lines: list[bytes] = []
        if select.select([fd], [], [], wait())[0]:
            if not (chunk := os.read(fd, 65536)):
                return
            *lines, rest = (rest + chunk).split(b"\n")
        yield [json.loads(line) for line in lines]


def main(words: Sequence[str]) -> int:
    """Serve as the process of the run that the words name; with the words of `open_show`, of a show of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us closes our standard input
    os.nice(19)
    gc.set_threshold(100_000, 50, 50)  # records are many and in no cycles: looking for some takes a third of the time
    pipe = os.dup(1)
    os.dup2(2, 1)  # whatever is printed is no frame
    discretion = Discretion(os.environ, os.getcwd())
    with suppress(BrokenPipeError), open(pipe, "wb", buffering=0) as out:  # nobody is left to hear it
        if problem := "" if words[1:] else _no_run(words[0]):
            append_all(out.fileno(), frame({"is": "problem"}, problem))
            return 1
        show = partial(_open_show, *words) if words[1:] else None
        desk = FeedDesk(words[0], lambda content: append_all(out.fileno(), content), discretion, show)
        for asked in questions(0, lambda: desk.look(time.monotonic())):
            for question in asked:
                desk.answer(question)
    return 0


def _open_show(*words: str) -> RecordedFeed:
    from pipeline.screens.show import open_show  # here: it imports us

    return open_show(*words)


def feed_command(run: str, show: Sequence[str] = ()) -> list[str]:
    """The command that serves a run's feed; the project's own files are nothing that it imports."""
    return module_command("pipeline.screens.feed", run, *show)
