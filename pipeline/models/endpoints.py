"""Backends behind HTTP: OpenAI's chat completions, as most services speak them, and Anthropic's messages.

Each protocol is a row of PROTOCOLS: where the request goes, what it says, and where in the reply things stand.  A
request has one answer, of a limited size and time; where there is none, it is said whose matter that is.

States of a request:

    sent -> answered      status 200
    sent -> waiting       busy or broken (PASSING), with tries left and no longer wait asked for
    waiting -> sent       after a second at most
    sent -> out           no tries left, or the answer is late, lost, cut or too large, or a refusal: the caller waits
    any -> stopped        the build stops"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pipeline.errors import cut_text
from pipeline.machine.failures import lacking_room
from pipeline.machine.process import BuildStopping, Exit, NotBegun, Processes, install_command
from pipeline.machine.redaction import redact_text
from pipeline.models.complaints import (
    FAILED,
    NO_COMPLAINT,
    REFUSAL_STATUS,
    REFUSED,
    Complaint,
    judge_call,
    parse_json,
    service_complaint,
    wait_asked,
    wait_in_words,
)
from pipeline.models.contract import (
    FREE,
    Answer,
    BackendKeys,
    BackendUnavailable,
    CallContext,
    CallFailed,
    Question,
    Usage,
    usage_in,
    value_at,
)

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT, RETRIES = 600.0, 0
PASSED_ON = ("model", "temperature", "seed", "max_tokens")

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


class Message(NamedTuple):
    """The answer in a reply: its text, and why the model ended."""

    text: str
    stop: str
    refused: bool = False


class Protocol(NamedTuple):
    """A protocol: `path` behind the base URL, `headers` by the key, `message` of a reply (None if there is none).

    `place`: where the message stands, for people; `usage`: paths of numbers, where the tokens of the prompt are all of
    them, with those that were cached."""

    url: str
    key_env: str | None
    path: Callable[[str], str]
    headers: Callable[[str], dict[str, str]]
    fields: Mapping[str, Any]
    message: Callable[[Any], Message | None]
    place: str
    usage: Mapping[str, Sequence[str]]


def _chat_message(reply: Any) -> Message | None:
    message = value_at("choices.0.message", reply)
    if not isinstance(message, dict) or isinstance(value_at("choices.0.error", reply), dict):
        return None  # a gateway tells so of an error in the middle
    content, stop, refusal = message.get("content"), value_at("choices.0.finish_reason", reply), message.get("refusal")
    text = _joined_text(content) if isinstance(content, list) else content
    if not isinstance(text, str | None):
        return None
    refused = stop == "content_filter" or (isinstance(refusal, str) and bool(refusal.strip()))
    return Message(next((each for each in (text, refusal) if isinstance(each, str)), ""), str(stop), refused)


def _joined_text(parts: Sequence[Any]) -> str:
    """The text of an answer in parts, without what the model thought."""
    texts = (part for part in parts if isinstance(part, dict) and part.get("type", "text") == "text")
    return "".join(part["text"] for part in texts if isinstance(part.get("text"), str))


def _anthropic_message(reply: Any) -> Message | None:
    parts, stop = value_at("content", reply), value_at("stop_reason", reply)
    if not isinstance(parts, list) or value_at("type", reply) != "message":
        return None
    return Message(_joined_text(parts), str(stop), stop == "refusal")


def _anthropic_path(url: str) -> str:
    return "/messages" if url.endswith("/v1") else "/v1/messages"


PROTOCOLS = {
    "openai": Protocol(
        "",
        None,
        lambda _: "/chat/completions",
        lambda key: {"Authorization": f"Bearer {key}"},
        {"stream": False},
        _chat_message,
        "choices[0].message",
        {
            "input_tokens": ("usage.prompt_tokens",),
            "output_tokens": ("usage.completion_tokens",),
            "cached_tokens": ("usage.prompt_tokens_details.cached_tokens",),
        },
    ),
    "anthropic": Protocol(
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        _anthropic_path,
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        {"stream": False, "max_tokens": 8192},
        _anthropic_message,
        "content",
        {
            "input_tokens": (
                "usage.input_tokens",
                "usage.cache_creation_input_tokens",
                "usage.cache_read_input_tokens",
            ),
            "output_tokens": ("usage.output_tokens",),
            "cached_tokens": ("usage.cache_read_input_tokens",),
            "cache_write_tokens": ("usage.cache_creation_input_tokens",),
        },
    ),
}
# Ends of an answer that is not whole.
_CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")


def ask_endpoint(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a model by HTTP.  A reply may quote the key, and is redacted before anything else."""
    began, protocol = time.monotonic(), PROTOCOLS[backend["backend"]]
    key_env, url = backend.get("key_env", protocol.key_env), backend.get("url", protocol.url).rstrip("/")
    key = _key(key_env, url, question.role)
    try:
        import_module("httpx")  # all of it: what it needs may be missing
    except ImportError:
        what = f"backend {backend['backend']} needs the package httpx: {install_command('openai')}"
        raise BackendUnavailable(f"{question.role}: {what}") from None
    secrets = {key_env: key} if key and key_env else {}
    given = {name: backend[name] for name in PASSED_ON if name in backend}
    messages = [{"role": "user", "content": question.prompt}]
    body = json.dumps({**protocol.fields, **backend.get("body", {}), **given, "messages": messages})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    headers |= protocol.headers(key) if key else {}
    # All ASCII, so that every text can be sent.
    request = HttpRequest(url + protocol.path(url), headers, body.encode(), backend.get("timeout", TIMEOUT))
    with open(question.log, "ab", buffering=0) as file:

        def log(text: str) -> None:
            with lacking_room():
                file.write(f"{redact_text(text, secrets)}\n".encode(errors="replace"))

        reply, words = post_until_answered(request, backend.get("retries", RETRIES), desk.processes, log)
        what, text = f"{question.role}: {words}", redact_text(reply.body, secrets)
        found, seconds = parse_json(text) if reply.status == 200 else None, time.monotonic() - began
        usage, unsure = usage_in([found], protocol.usage, backend.get("price"))
        if reply.status != 200:
            raise_unanswered(what, reply, text, usage if reply.status in UNREAD else FREE, seconds)
        if usage.usd is None and "price" in backend:
            log(f"usage, in the reply: {'; '.join(unsure)}")
        answer = _answer(backend, question.role, reply._replace(body=text), found, (usage, seconds))
        log(answer.text)
    return answer._replace(text=redact_text(answer.text, secrets))


def _key(name: str | None, url: str, role: str) -> str:
    """The key, refused if a header cannot hold it: the library would quote it in a message."""
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        what = f"the environment variable {name} is not set; it holds the key for {url}"
        raise BackendUnavailable(f"{role}: {what}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        what = f"what the environment variable {name} holds is no key: that is one plain word"
        raise BackendUnavailable(f"{role}: {what}")
    return key


def _answer(backend: BackendKeys, role: str, reply: HttpReply, found: Any, cost: tuple[Usage, float]) -> Answer:
    """The answer in a reply, parsed in `found`; failures have their cost."""
    protocol = PROTOCOLS[backend["backend"]]
    message = protocol.message(found)
    if message is None:
        what = "what came back is not JSON" if found is None else f"no message at {protocol.place}"
        usage = FREE if _is_error(found, reply.body) else cost[0]
        raise_unanswered(f"{role}: {what}", reply, reply.body, usage, cost[1], garbled=True)
    if message.refused:
        said = f": {complaint_line(message.text)}" if message.text.strip() else ""
        raise CallFailed(f"the model refuses to answer ({message.stop}){said}", REFUSAL_STATUS, *cost)
    if message.stop in _CUT_OFF:
        what = "the answer was cut off: it is longer than max_tokens, or the model's limit"
        raise CallFailed(what, 1, *cost)
    if not message.text.strip():
        raise CallFailed(f"no text at {protocol.place}.content: {complaint_line(reply.body)}", 1, *cost)
    model = value_at("model", found)
    return Answer(message.text, *cost, model if isinstance(model, str) else backend["model"])


def _is_error(found: Any, body: str) -> bool:
    """Check if a reply with status 200 tells of an error, as some gateways do, and of no usage: nothing was spent."""
    complaint = service_complaint(body) or NO_COMPLAINT
    return not isinstance(value_at("usage", found), dict) and bool(complaint.said or complaint.status)


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


@cache
def _trusted() -> SSLContext:
    """The certificates that are trusted, read once: that takes longer than all else of a request."""
    import httpx

    return httpx.create_ssl_context()


def _post(request: HttpRequest) -> HttpReply:
    import httpx

    timeout = httpx.Timeout(request.timeout, connect=min(CONNECT, request.timeout))
    headers, lost = dict(request.headers), LOST
    try:
        with httpx.stream(
            "POST", request.url, headers=headers, content=request.body, timeout=timeout, verify=_trusted()
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
