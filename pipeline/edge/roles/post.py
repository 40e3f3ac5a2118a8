"""Sends a request until there is an answer: waits as the server asks, and no longer than the build goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from pipeline.edge.process import Processes, Stopping

# Busy or broken, which may pass; NO_REPLY stands for a connection that was refused or lost.
NO_REPLY = 0
PASSING = (NO_REPLY, 408, 429, 500, 502, 503, 504, 529)
CONNECT = 30.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 120.0


class Request(NamedTuple):
    """`timeout` is for each try, from the start to the last byte of the answer."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float


class Reply(NamedTuple):
    """`after`: when the server wants to be asked again, in its words."""

    status: int
    body: str
    after: str = ""


class Late(Exception):
    """There was no answer in time.  It is not asked for again: the first one may have been paid for."""


class Unreached(Exception):
    """No answer can be had; `said` are words of the server, which may quote what we sent."""

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(what)
        self.said = said


def answered(request: Request, retries: int, processes: Processes, log: Callable[[str], None]) -> Reply:
    """The first reply with status 200."""
    try:
        import_module("httpx")  # here: few runs speak HTTP, and it is slow to import
    except ImportError:
        raise Unreached("backend openai needs the package httpx: pip install 'coppice[openai]'") from None
    tries = 0
    while True:
        reply = _once(request, processes)
        tries += 1
        what = f"{request.url}: {f'status {reply.status}' if reply.status else 'no connection'}"
        log(what)
        if reply.status == 200:
            return reply
        if reply.status not in PASSING:
            raise Unreached(what, reply.body)
        if tries > retries:
            raise Unreached(f"{what} ({tries} tries)", reply.body)
        _rest(_wait(tries, reply.after), processes)


def _once(request: Request, processes: Processes) -> Reply:
    """In a thread of its own, so that neither a slow server nor the end of the build is waited for."""
    inbox: SimpleQueue[Reply | BaseException] = SimpleQueue()
    with processes.waking(lambda: inbox.put(Stopping())):
        Thread(target=_send, args=(request, inbox), daemon=True).start()
        try:
            came = inbox.get(timeout=request.timeout)
        except Empty:
            raise Late from None
    if isinstance(came, BaseException):
        raise came
    return came


def _send(request: Request, inbox: SimpleQueue[Reply | BaseException]) -> None:
    import httpx

    timeout = httpx.Timeout(request.timeout, connect=min(CONNECT, request.timeout))
    try:
        got = httpx.post(request.url, headers=dict(request.headers), content=request.body, timeout=timeout)
        inbox.put(Reply(got.status_code, got.text, got.headers.get("Retry-After", "")))
    except (httpx.ReadTimeout, httpx.WriteTimeout):
        inbox.put(Late())
    except httpx.RequestError as error:
        inbox.put(Reply(NO_REPLY, f"{type(error).__name__}: {error}"))
    except BaseException as error:  # noqa: BLE001 - raised by whoever waits for it
        inbox.put(error)


def _wait(tries: int, after: str) -> float:
    """Seconds before the next try: what the server asks for, or twice as long each time."""
    asked = _seconds(after)
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tries - 1) if asked is None else asked)


def _seconds(after: str) -> float | None:
    if re.fullmatch(r"\d+(\.\d+)?", after):
        return float(after)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _rest(seconds: float, processes: Processes) -> None:
    over: SimpleQueue[None] = SimpleQueue()
    with processes.waking(lambda: over.put(None)):
        try:
            over.get(timeout=seconds)
        except Empty:
            return
    raise Stopping
