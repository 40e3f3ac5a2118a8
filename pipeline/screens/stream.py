"""Streams of what changes in runs: what a server keeps of each, and the responses that send it on.

Of each run that somebody looks at there is a process that projects it (`feed`); here are its last whole projection,
packed as it came, and the changes since.  States of a run here:

    unseen   -> started   somebody asks; a process of its own is started
    started  -> followed  its first projection is here
    followed -> unseen    nobody has asked for a while, or its process has ended

Who follows gets all changes after the version that he has, and the whole where those are not here any more.  What is
packed is unpacked once for all, and sent in small pieces, at the pace of whoever takes them off."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from weakref import WeakSet, WeakValueDictionary

from starlette.responses import Response

from pipeline.core.projection import DONE
from pipeline.screens.access import security_headers
from pipeline.screens.feed import feed_command

START_SECONDS = 60.0  # until the first projection, on a busy machine
COMMENT_SECONDS = 15.0  # a word into a silent stream, so that both sides hear that they are connected
SEND_SECONDS = 30.0
PIECE, CHANGES_BYTES = 4_096, 512_000


def loop_time() -> float:
    return asyncio.get_running_loop().time()


class FeedFrame(NamedTuple):
    """A projection or a change of one, as the process of its run sent it."""

    version: int
    is_packed: bool
    content: bytes

    def pieces(self) -> Iterator[bytes]:
        """Its text in small pieces; unpacked once for all who are sent it at the same time, and kept no longer."""
        unpacked = _unpack(self.content) if self.is_packed else None
        content = unpacked.content if unpacked else self.content
        for at in range(0, len(content), PIECE):
            yield content[at : at + PIECE]


class _Unpacked:
    def __init__(self, content: bytes) -> None:
        self.content = content


_UNPACKED: WeakValueDictionary[bytes, _Unpacked] = WeakValueDictionary()


def _unpack(packed: bytes) -> _Unpacked:
    found = _UNPACKED.get(packed)
    if found is None:
        size = int.from_bytes(packed[-4:], "little")  # as gzip tells it: room is made once
        found = _UNPACKED[packed] = _Unpacked(zlib.decompress(packed, 31, size))
    return found


class FeedAnswer(NamedTuple):
    facts: Mapping[str, Any]
    content: bytes


class FeedEnded(Exception):
    """Rejection because the process of a run has ended, or says nothing.  `is_known`: it said why before."""

    def __init__(self, why: str, is_known: bool = False) -> None:
        super().__init__(why)
        self.is_known = is_known


class FollowedRun:
    """A run, or for no run the project, as its process tells of it.  `show`: words by which it tells of a recording."""

    def __init__(self, run: str, show: Sequence[str] = ()) -> None:
        self.run, self.problem, self.state = run, "", ""
        self._command = feed_command(run, show)
        self.whole: FeedFrame | None = None
        self.changes: deque[FeedFrame] = deque()
        self.asked, self.is_over = loop_time(), False
        self.followers: set[asyncio.Event] = set()
        self._awaited: dict[int, asyncio.Future[FeedAnswer]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._input: asyncio.StreamWriter | None = None
        self._task = asyncio.create_task(self._listen())

    def is_idle(self, seconds: float) -> bool:
        """Nobody follows, waits for an answer, or has asked for so long; or its process has ended."""
        is_used = self.followers or self._awaited
        return self.is_over or (not is_used and loop_time() - self.asked > seconds)

    @property
    def version(self) -> int:
        return self.changes[-1].version if self.changes else self.whole.version if self.whole else 0

    async def _listen(self) -> None:
        """Take frames until the process ends."""
        pipe = asyncio.subprocess.PIPE
        try:
            started = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, process_group=0)
            self._process, self._input = started, started.stdin
            self._tell()
            assert started.stdout is not None
            with suppress(asyncio.IncompleteReadError):
                while line := await started.stdout.readline():
                    facts = json.loads(line)
                    self._take(facts, await started.stdout.readexactly(facts["size"]))
        except OSError as error:
            self.problem = f"{self.run or 'the project'}: no process can be started for it: {error.strerror}"
        finally:
            self.is_over, self._input = True, None
            for each in self._awaited.values():
                each.cancel()
            self._tell()

    def _take(self, facts: Mapping[str, Any], content: bytes) -> None:
        if facts["is"] == "answer":
            awaited = self._awaited.pop(facts["id"], None)
            if awaited and not awaited.done():
                awaited.set_result(FeedAnswer(facts, content))
        elif facts["is"] == "problem":
            self.problem = content.decode()
            self._tell()
        else:
            change = FeedFrame(facts["version"], facts["packed"], content)
            self.state, self.problem = facts["state"], ""
            if facts["is"] == "delta":
                self.changes.append(change)
            else:
                self.whole = change  # of the version of the last change
            while sum(len(each.content) for each in self.changes) > CHANGES_BYTES:
                self.changes.popleft()
            self._tell()

    def _tell(self) -> None:
        for each in self.followers:
            each.set()

    @contextmanager
    def followed(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something is told."""
        news = asyncio.Event()
        self.followers.add(news)
        try:
            yield news
        finally:
            self.followers.discard(news)
            self.asked = loop_time()

    async def ask(self, what: str, **more: Any) -> FeedAnswer:
        """The process's answer to a question."""
        self.asked = loop_time()
        if self._input is None:
            await self._wait_for(lambda: self._input is not None)
        if self._input is None:
            raise FeedEnded(self.problem or f"{self.run or 'the project'}: nothing is heard of it", bool(self.problem))
        number = max(self._awaited, default=0) + 1
        self._awaited[number] = asyncio.get_running_loop().create_future()
        self._input.write(json.dumps({"id": number, "ask": what, **more}).encode() + b"\n")
        try:
            async with asyncio.timeout(START_SECONDS):
                return await self._awaited[number]
        except (TimeoutError, asyncio.CancelledError) as error:
            if self.is_over or isinstance(error, TimeoutError):
                why = self.problem or f"{self.run or 'the project'}: its process does not answer"
                raise FeedEnded(why, bool(self.problem)) from error
            raise
        finally:
            self._awaited.pop(number, None)

    async def ready(self) -> None:
        """Wait until there is a projection; FeedEnded with the reason if there will be none."""
        self.asked = loop_time()
        await self._wait_for(lambda: self.whole is not None or bool(self.problem))
        if self.whole is None:
            raise FeedEnded(
                self.problem or f"{self.run}: no projection of it comes; see what its process printed",
                bool(self.problem),
            )

    async def _wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, the process has ended, or it has had its time."""
        with suppress(TimeoutError), self.followed() as news:
            async with asyncio.timeout(START_SECONDS):
                while not is_so() and not self.is_over:
                    await news.wait()
                    news.clear()

    def since(self, version: int) -> list[tuple[str, FeedFrame]]:
        """Find what leads from a version to that of now: changes; or, where they are not all here, the whole."""
        assert self.whole is not None
        first = self.changes[0].version - 1 if self.changes else self.whole.version
        is_known = first <= version <= self.version
        after = version if is_known else self.whole.version
        changes = [("delta", each) for each in self.changes if each.version > after]
        return changes if is_known else [("projection", self.whole), *changes]

    async def close(self) -> None:
        """Let the process end, and end it if it does not."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                async with asyncio.timeout(2):
                    await self._process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


# --- Responses.


class Sending:
    """The way to whoever asked.  One that takes nothing off is cut off by `abort_stuck`: a timer for each piece would
    take more memory than the pieces."""

    def __init__(self, scope: Any, send: Any) -> None:
        self.abort, self._send = scope["state"]["abort"], send
        self.since: float | None = None  # a piece waits to be taken off
        _SENDINGS.add(self)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def body(self, content: bytes, more: bool = True) -> None:
        self.since = loop_time()
        await self._send({"type": "http.response.body", "body": content, "more_body": more})
        self.since = None


_SENDINGS: WeakSet[Sending] = WeakSet()


def abort_stuck() -> None:
    """Cut off who has taken nothing off for SEND_SECONDS."""
    for each in [*_SENDINGS]:
        if each.since is not None and loop_time() - each.since > SEND_SECONDS:
            each.abort()


class PieceResponse(Response):
    """Response in pieces."""

    def __init__(self, pieces: Iterable[bytes], headers: Mapping[str, str]) -> None:
        self._pieces, self._own_headers = pieces, headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        way = Sending(scope, send)
        await way.start(200, self._own_headers)
        for piece in self._pieces:
            await way.body(piece)
        await way.body(b"", more=False)


def packed_response(content: FeedFrame, headers: Mapping[str, str], takes_packed: bool) -> Response:
    """Response with what the process of a run sent: as it is for whoever takes that, and else unpacked."""
    if content.is_packed and takes_packed:
        return PieceResponse(content._replace(is_packed=False).pieces(), {**headers, "content-encoding": "gzip"})
    return PieceResponse(content.pieces(), headers)


def since_pieces(changes: Sequence[tuple[str, FeedFrame]], problem: str = "") -> Iterator[bytes]:
    """JSON of what `FollowedRun.since` gives: a list of events, each with its version and its data.

    The last one is the problem because of which there are no later ones, if there is one."""
    for number, (event, change) in enumerate(changes):
        yield b'%b{"event": "%b", "version": %d, "data": ' % (b", " if number else b"[", event.encode(), change.version)
        yield from change.pieces()
        yield b"}"
    if problem:
        last = {"event": "problem", "version": changes[-1][1].version if changes else 0, "data": problem}
        yield (b", " if changes else b"[") + json.dumps(last).encode()
    yield b"]" if changes or problem else b"[]"


class EventResponse(Response):
    """Stream of what changes in a run, from a version on, as server-sent events.

    Events: `projection` has the whole, `delta` a change of it, `problem` why there is none, and `done` says that all of
    the run is made.  The id of an event is its version: who lost the connection goes on where he was."""

    def __init__(self, run: FollowedRun, version: int) -> None:
        self._run, self._version, self._is_gone = run, version, False
        self._told_problem, self._told_done = "", False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        way = Sending(scope, send)
        await way.start(200, {**security_headers(), "content-type": "text/event-stream; charset=utf-8"})
        with self._run.followed() as news:
            listening = asyncio.create_task(self._hear_end(receive, news))
            try:
                await way.body(b"retry: 1000\n\n")
                while not self._is_gone and not self._run.is_over:
                    news.clear()
                    await self._tell(way)
                    try:
                        async with asyncio.timeout(COMMENT_SECONDS):
                            await news.wait()
                    except TimeoutError:
                        await way.body(b": still here\n\n")
            finally:
                listening.cancel()
        await way.body(b"", more=False)

    async def _hear_end(self, receive: Any, news: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        news.set()

    async def _tell(self, way: Sending) -> None:
        for event, change in self._run.since(self._version):
            await way.body(b"event: %b\nid: %d\ndata: " % (event.encode(), change.version))
            for piece in change.pieces():
                await way.body(piece)
            await way.body(b"\n\n")
            self._version = change.version
        if self._run.problem != self._told_problem:
            self._told_problem = self._run.problem
            await way.body(b"event: problem\ndata: %b\n\n" % json.dumps(self._told_problem).encode())
        is_done = self._run.state == DONE
        if is_done and not self._told_done:
            await way.body(b'event: done\ndata: {"state": "done"}\n\n')
        self._told_done = is_done
