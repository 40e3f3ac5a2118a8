"""Requests to models behind HTTP: one answer each, of a limited size and time, and whose matter it is if there is none.

States of a request:

    sent -> answered      status 200
    sent -> waiting       busy or broken (PASSING), with tries left and no longer wait asked for
    waiting -> sent       after a second at most
    sent -> out           no tries left, or the answer is late, lost, cut or too large, or a refusal: the caller waits
    any -> stopped        the build stops"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, NoReturn

from pipeline.errors import cut_text
from pipeline.machine.process import BuildStopping, Exit, NotBegun, Processes
from pipeline.models.complaints import (
    FAILED,
    REFUSAL_STATUS,
    REFUSED,
    Complaint,
    judge_call,
    service_complaint,
    wait_asked,
    wait_in_words,
)
from pipeline.models.contract import FREE, BackendUnavailable, CallFailed, Usage

# NO_REPLY: no connection; LATE: no answer in time; LOST: the connection ended before it, CUT: in the middle of it;
# LARGE: too much.
NO_REPLY, LATE, LOST, CUT, LARGE = 0, -1, -2, -3, -4
# Statuses that may pass at once.
PASSING = (NO_REPLY, 408, 429, 500, 502, 503, 504, 529)
# Here there may have been an answer, and it may have been paid for: it is not asked for again at once.
UNREAD = (LATE, LOST, CUT, LARGE)
CONNECT = 30.0
HICCUP = 1.0  # seconds between two tries, at most: longer waits are the caller's
LARGEST_ANSWER = 8 * 1024 * 1024


class HttpRequest(NamedTuple):
    """A request; `timeout` is for each try, from the start to the last byte of the answer."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float


class HttpReply(NamedTuple):
    """A reply, or NO_REPLY or one of UNREAD as its status."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = {}


Inbox = SimpleQueue[HttpReply | BaseException]


def post_until_answered(
    request: HttpRequest, retries: int, processes: Processes, log: Callable[[str], None]
) -> tuple[HttpReply, str]:
    """The last reply, and words for its status."""
    inbox: Inbox = SimpleQueue()  # of nothing but the end of the build
    tries = 0
    while True:
        reply = _post_once(request, processes)
        tries += 1
        words = f"{request.url}: {_status_words(reply, request)}"
        log(words)
        wait = asked_wait(reply)
        if reply.status not in PASSING or tries > retries or (wait or 0.0) > HICCUP:
            return reply, f"{words} ({tries} tries)" if tries > 1 else words
        with processes.wake_on_stop(lambda: inbox.put(NotBegun())):  # the next try; this one was refused
            _next_reply(inbox, HICCUP if wait is None else wait)


def _status_words(reply: HttpReply, request: HttpRequest) -> str:
    words = {
        NO_REPLY: "no connection",
        LATE: f"no answer within {request.timeout:g} s",
        LOST: "the connection was lost before an answer",
        CUT: "the connection was lost in the middle of the answer",
        LARGE: f"the answer is larger than {LARGEST_ANSWER // 1024 // 1024} MB, and was not read",
    }
    return words.get(reply.status, f"status {reply.status}")


def asked_wait(reply: HttpReply) -> float | None:
    """Seconds that a reply asks to wait, by its headers or its words."""
    now = time.time()
    wait = wait_asked(reply.headers, now)
    return wait_in_words(reply.body[:4000], now) if wait is None and reply.status in PASSING else wait


def _post_once(request: HttpRequest, processes: Processes) -> HttpReply:
    """Send a request in a thread of its own, so that a slow server does not delay the end of the build."""
    inbox: Inbox = SimpleQueue()

    def post() -> None:
        try:
            inbox.put(_post(request))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for it
            inbox.put(error)

    with processes.wake_on_stop(lambda: inbox.put(BuildStopping())):
        Thread(target=post, daemon=True).start()
        return _next_reply(inbox, request.timeout)


def _post(request: HttpRequest) -> HttpReply:
    import httpx

    timeout = httpx.Timeout(request.timeout, connect=min(CONNECT, request.timeout))
    lost = LOST
    try:
        with httpx.stream(
            "POST", request.url, headers=dict(request.headers), content=request.body, timeout=timeout
        ) as reply:
            lost = CUT
            parts, size = [], 0
            for part in reply.iter_bytes():
                size += len(part)
                if size > LARGEST_ANSWER:
                    return HttpReply(LARGE)
                parts.append(part)
            body = b"".join(parts).decode(reply.charset_encoding or "utf-8", errors="replace")
            return HttpReply(reply.status_code, body, dict(reply.headers))
    except (httpx.ReadTimeout, httpx.WriteTimeout):
        return HttpReply(LATE)
    except (httpx.RequestError, LookupError) as error:  # also an encoding that nobody knows
        is_sent = isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)) or lost == CUT
        return HttpReply(lost if is_sent else NO_REPLY, f"{type(error).__name__}: {error}")


def _next_reply(inbox: Inbox, seconds: float) -> HttpReply:
    try:
        reply = inbox.get(timeout=seconds)
    except Empty:
        return HttpReply(LATE)
    if isinstance(reply, BaseException):
        raise reply
    return reply


def raise_unanswered(
    what: str, reply: HttpReply, text: str, usage: Usage = FREE, seconds: float = 0.0, garbled: bool = False
) -> NoReturn:
    """Raise what a reply without an answer is: an outage, a refusal, or the question's own fault.

    `text`: its body, without secrets.  What is none of these is a mistake that waiting does not mend."""
    found = service_complaint(text)
    status = NO_REPLY if reply.status == LOST else reply.status
    is_reply = status not in UNREAD
    complaint = found or Complaint("" if garbled or not is_reply else line_of(text))
    if is_reply and status != 200:
        complaint = complaint._replace(status=status)
    end = judge_call(Exit(0, timed_out=reply.status == LATE), complaint, garbled or reply.status in (CUT, LARGE))
    said = complaint_line(text)
    why = f"{what}: {said}" if said else what
    if end.how in (REFUSED, FAILED):
        raise CallFailed(f"{why}: {end.why}", REFUSAL_STATUS if end.how == REFUSED else 1, usage, seconds)
    if end.outage is None:
        raise BackendUnavailable(why, usage, seconds)
    raise BackendUnavailable(f"{why}: {end.why}", usage, seconds, end.outage.kind, asked_wait(reply))


def line_of(text: str) -> str:
    return cut_text(" ".join(text.split()))


def complaint_line(body: str) -> str:
    """The message of an error body, in a line."""
    found = service_complaint(body)
    return line_of(found.said if found and found.said else body)
