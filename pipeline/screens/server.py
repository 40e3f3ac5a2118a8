"""The server of `coppice dashboard`: pages, JSON, events and steering of the runs of one project.

Every request passes `access` before anything is done for it.  What reads is answered by the process of a run
(`stream`); what steers runs the very command that a person would type.  A connection that does not come to the point,
or takes nothing off, is ended.  Nothing of a project is read in this process, so that it stays small."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.core.projection import Json
from pipeline.core.text import one_line
from pipeline.machine.process import module_command
from pipeline.screens import access
from pipeline.screens.access import Rejection, Request, Route, Site, security_headers
from pipeline.screens.feed import page_sources
from pipeline.screens.stream import (
    PIECE,
    EventResponse,
    FeedAnswer,
    FeedEnded,
    FeedFrame,
    FollowedRun,
    PieceResponse,
    abort_stuck,
    packed_response,
    since_pieces,
)
from pipeline.store.files import append_all
from pipeline.views.pages.document import door_page, run_list_page

IDLE_SECONDS = 60.0
HEADER_SECONDS, BODY_SECONDS, STEER_SECONDS = 5.0, 20.0, 120.0
MOST_BODY = 1_000_000  # bytes
MOST_CLIENTS, MOST_FEEDS = 400, 12
LONGEST_PROBLEM = 500  # characters of a header


def json_response(record: Any, headers: Mapping[str, str] = {}) -> Response:
    return Response(json.dumps(record), 200, {**security_headers(), "content-type": "application/json", **headers})


def refusal_response(refusal: Rejection) -> Response:
    """A refusal in words; they are ours, and nothing of the request is in them."""
    return Response(
        f"{refusal.why}\n", refusal.status, {**security_headers(), "content-type": "text/plain; charset=utf-8"}
    )


_STYLE = page_sources().style
DOOR, RUN_LIST = door_page(_STYLE), run_list_page(_STYLE)


def page_response(page: tuple[bytes, str]) -> Response:
    return Response(page[0], 200, {**security_headers(page[1]), "content-type": "text/html; charset=utf-8"})


# --- The application.


class Dashboard:
    """The application that a server runs.  `run`: the one that `/` shows; without one it lists all.

    `show`: words for the process of that run by which it plays a recording; then there are no others."""

    def __init__(self, site: Site, run: str = "", show: Sequence[str] = ()) -> None:
        self.site, self._run, self._show = site, run, show
        self._runs: dict[str, FollowedRun] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope["method"], scope["raw_path"], scope["query_string"], scope["headers"])
        route = access.admit(request, self.site)
        response = (
            await self._refuse(route, request)
            if isinstance(route, Rejection)
            else await self._answer(route, WebRequest(scope, receive))
        )
        await response(scope, receive, send)

    async def _refuse(self, refusal: Rejection, request: Request) -> Response:
        wants_page = request.method == "GET" and not request.path.startswith(b"/api")
        return page_response(DOOR) if refusal.status == 401 and wants_page else refusal_response(refusal)

    async def _answer(self, route: Route, request: WebRequest) -> Response:
        try:
            return await _HANDLERS[route.name](self, route, request)
        except FeedEnded as error:
            return refusal_response(Rejection(404 if error.is_known else 503, str(error)))

    async def _page(self, route: Route, request: WebRequest) -> Response:
        run = route.words[0] if route.name == access.RUN_PAGE else self._run
        if route.name == access.LIST_PAGE and self._show:
            raise FeedEnded(f"only the recording of {self._run} is shown here", is_known=True)
        if not run or route.name == access.LIST_PAGE:
            return page_response(RUN_LIST)
        asked = await (await self._follow(run)).ask("page")
        kind = {"content-type": "text/html; charset=utf-8"}
        return self._packed(
            request, asked, {**security_headers(asked.facts.get("policy", "default-src 'none'")), **kind}
        )

    async def _open_session(self, route: Route, request: WebRequest) -> Response:
        """The cookie by which the browser may read: for this host, and never sent along from pages of other hosts."""
        cookie = f"{self.site.cookie_name}={self.site.reading_key}; Path=/; HttpOnly; SameSite=Strict"
        return json_response({"session": "open"}, {"set-cookie": cookie})

    async def _session(self, route: Route, request: WebRequest) -> Response:
        return json_response({"session": "open" if route.may_read else "none"})

    async def _health(self, route: Route, request: WebRequest) -> Response:
        return json_response({"status": "ok"})

    async def _marketplace(self, route: Route, request: WebRequest) -> Response:
        return json_response({"tickets": [], "note": "there is no marketplace for lemmas yet"})

    async def _of_project(self, route: Route, request: WebRequest) -> Response:
        return self._packed(request, await (await self._follow("")).ask(route.name), _JSON)

    async def _projection(self, route: Route, request: WebRequest) -> Response:
        """The projection; with `since`, what makes that of a version the one of now."""
        run = await self._ready(route.words[0])
        if "since" in route.query:
            version = access.whole_number(route.query["since"]) or 0
            return PieceResponse(since_pieces(run.since(version), run.problem), _JSON)
        if run.changes and run.whole is not None and run.changes[-1].version > run.whole.version:
            await run.ask("fold")
        assert run.whole is not None
        headers = {**_JSON, "x-coppice-version": f"{run.whole.version}"}
        if run.problem:  # what follows is true of the time before
            headers["x-coppice-problem"] = one_line(run.problem, LONGEST_PROBLEM).encode("ascii", "replace").decode()
        return packed_response(run.whole, headers, _takes_packed(request))

    async def _details(self, route: Route, request: WebRequest) -> Response:
        run = await self._ready(route.words[0])
        return self._packed(request, await run.ask("details", item=route.words[1]), _JSON)

    async def _log(self, route: Route, request: WebRequest) -> Response:
        run = await self._ready(route.words[0])
        where = {"path": route.query.get("path", ""), "start": access.whole_number(route.query.get("from", ""))}
        return self._packed(request, await run.ask("log", **where), _JSON)

    async def _events(self, route: Route, request: WebRequest) -> Response:
        version = request.headers.get("last-event-id", "") or route.query.get("since", "")
        run = await self._ready(route.words[0])
        return EventResponse(run, access.whole_number(version) or 0)

    async def _steer(self, route: Route, request: WebRequest) -> Response:
        """Run the command that steers, as a person would."""
        if self._show:
            return refusal_response(Rejection(409, "a recording cannot be steered"))
        try:
            async with asyncio.timeout(BODY_SECONDS):
                words = await _json_body(request)
        except TimeoutError:
            return refusal_response(Rejection(408, "the rest of the request did not come"))
        except (ValueError, ClientDisconnect) as error:
            return refusal_response(Rejection(413 if isinstance(error, TooLong) else 400, str(error)))
        run, what = route.words[0], route.words[-1]
        command, text = access.steer_command(what, run, words)
        if not command:
            return refusal_response(Rejection(400, text))
        ended = await _run_command(command, text)
        return json_response({"said": ended.out}) if ended.code == 0 else refusal_response(Rejection(409, ended.err))

    def _packed(self, request: WebRequest, answer: FeedAnswer, headers: Mapping[str, str]) -> Response:
        status = answer.facts["status"]
        if status != 200:
            return refusal_response(Rejection(status, answer.content.decode()))
        return packed_response(FeedFrame(0, answer.facts["packed"], answer.content), headers, _takes_packed(request))

    async def _ready(self, name: str) -> FollowedRun:
        run = await self._follow(name)
        await run.ready()
        return run

    async def _follow(self, name: str) -> FollowedRun:
        if self._show and name != self._run:
            raise FeedEnded(f"only the recording of {self._run} is shown here", is_known=True)
        if self._is_new(name) and len(self._runs) >= MOST_FEEDS:
            await self._end_idle(0.0)
        if self._is_new(name):  # still: somebody else may have asked for it meanwhile
            if len(self._runs.keys() - {name}) >= MOST_FEEDS:
                raise FeedEnded(f"{MOST_FEEDS} runs are looked at already; close one")
            self._runs[name] = FollowedRun(name, self._show)
        return self._runs[name]

    def _is_new(self, name: str) -> bool:
        return name not in self._runs or self._runs[name].is_over

    async def end_idle(self) -> None:
        """End, again and again, the processes of runs that nobody looks at any more, and ways to who takes nothing."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            abort_stuck()
            await self._end_idle(IDLE_SECONDS)

    async def _end_idle(self, seconds: float) -> None:
        idle = {name: run for name, run in self._runs.items() if run.is_idle(seconds)}
        for name in idle:  # all at once: while one is closed, somebody may ask for another
            del self._runs[name]
        await asyncio.gather(*(run.close() for run in idle.values()))

    async def close(self) -> None:
        await asyncio.gather(*(run.close() for run in self._runs.values()))


_JSON = {**security_headers(), "content-type": "application/json"}
_HANDLERS: Mapping[str, Callable[[Dashboard, Route, WebRequest], Awaitable[Response]]] = {
    access.PAGE: Dashboard._page,
    access.RUN_PAGE: Dashboard._page,
    access.LIST_PAGE: Dashboard._page,
    access.SESSION: Dashboard._session,
    access.OPEN_SESSION: Dashboard._open_session,
    access.HEALTH: Dashboard._health,
    access.STATS: Dashboard._of_project,
    access.RUNS: Dashboard._of_project,
    access.MARKETPLACE: Dashboard._marketplace,
    access.PROJECTION: Dashboard._projection,
    access.DETAILS: Dashboard._details,
    access.EVENTS: Dashboard._events,
    access.LOG: Dashboard._log,
    access.STEER: Dashboard._steer,
}


def _takes_packed(request: WebRequest) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


# --- Steering.


class TooLong(ValueError):
    """Rejection of a body that is longer than anything one would write."""


async def _json_body(request: WebRequest) -> Json:
    """The mapping of strings that a request brings; nothing stands for an empty one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BODY:
            raise TooLong(f"more than {MOST_BODY} bytes")
    if not content:
        return {}
    if kind != "application/json":
        raise ValueError("the content has to be application/json")
    try:
        words = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("the content is no JSON") from error
    if not isinstance(words, dict) or not all(isinstance(value, str) for value in words.values()):
        raise ValueError("the content has to be a mapping of texts")
    return words


class CommandEnd(NamedTuple):
    code: int
    out: str
    err: str


async def _run_command(words: Sequence[str], text: str) -> CommandEnd:
    """Run a command of `coppice` and hear what it says."""
    pipe = asyncio.subprocess.PIPE
    command = module_command("pipeline.commands.main", *words)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
    try:
        async with asyncio.timeout(STEER_SECONDS):
            out, err = await process.communicate(text.encode(errors="replace"))
    except TimeoutError:
        process.kill()
        await process.wait()
        return CommandEnd(1, "", f"`coppice {words[0]}` took more than {STEER_SECONDS:g} s")
    said = [content.decode(errors="replace").strip() for content in (out, err)]
    return CommandEnd(process.returncode or 0, said[0], said[1].removeprefix("coppice: ")[:2000])


# --- The server.


class PatientProtocol(H11Protocol):
    """Connection that is ended when no whole request has come within HEADER_SECONDS, the first one or the next.

    uvicorn waits for ever for the end of a header that has begun."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE)
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if getattr(self.cycle, "response_complete", True):  # there is no cycle before the first request
            self.transport.abort()

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        super().on_response_complete()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class DashboardServer(uvicorn.Server):
    """Server that ends with a signal, in order and at once: no stream is waited for."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._idle = asyncio.create_task(self._dashboard.end_idle())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._idle.cancel()
        await self._dashboard.close()
        await super().shutdown(sockets)


def link(site: Site) -> str:
    """The link that opens a dashboard; what stands behind the `#` is sent to nobody."""
    host = f"[{site.name}]" if ":" in site.name else site.name
    return f"http://{host}:{site.port}/#token={site.token}"


def main(words: Sequence[str]) -> int:
    """Serve at the socket that is open already: its number, the host it was asked for, and the run if there is one.

    What follows is for the process of a show (`Dashboard`).  Without anybody to read the link there is no server."""
    listening = socket.socket(fileno=int(words[0]))
    port = listening.getsockname()[1]
    site = Site(port, secrets.token_urlsafe(32), not access.is_loopback(words[1]), words[1])
    dashboard = Dashboard(site, words[2], words[3:])
    config = uvicorn.Config(
        dashboard,
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CLIENTS,
        timeout_keep_alive=int(HEADER_SECONDS),
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=2 * access.MOST_HEADERS,
    )
    can = "look" if words[3:] else "look, and steer"
    try:
        append_all(1, f"{link(site)}\nCtrl-C ends it; whoever has the link can {can}.\n".encode())
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    with suppress(KeyboardInterrupt):
        asyncio.run(DashboardServer(config, dashboard).serve([listening]))
    with suppress(BrokenPipeError):
        append_all(1, b"ended\n")
    return 0
