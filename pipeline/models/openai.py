"""Backend for a model behind an HTTP endpoint that speaks OpenAI's chat completions, as most do.

States of a request:

    sent -> answered      status 200
    sent -> waiting       busy or broken (PASSING), with tries left
    waiting -> sent       after the time that the server asks for, or twice as long each time
    sent -> unreachable   another status, or no tries left
    sent -> late          no answer in time: it is not sent again, as it may have been paid for
    any -> stopped        the build stops"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from pipeline.errors import cut_text
from pipeline.machine.failures import FailureFacts, outage_reason
from pipeline.machine.process import BuildStopping, Exit, Processes, redact_text
from pipeline.models.contract import (
    FREE,
    JSON_ERRORS,
    Answer,
    BackendUnavailable,
    CallContext,
    CallFailed,
    Question,
    Usage,
    last_value_at,
    usage_in,
    value_at,
)

# NO_REPLY stands for a connection that was refused or lost, LATE for no answer in time.
NO_REPLY, LATE = 0, -1
# Statuses that may pass; a late request is not sent again, as it may have been paid for.
PASSING = (NO_REPLY, 408, 429, 500, 502, 503, 504, 529)
CONNECT = 30.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 120.0


class HttpRequest(NamedTuple):
    """A request; `timeout` is for each try, from the start to the last byte of the answer."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float


class HttpReply(NamedTuple):
    """A reply; `after`: the server's Retry-After."""

    status: int
    body: str = ""
    after: str = ""


Inbox = SimpleQueue[HttpReply | BaseException]


def post_until_answered(
    request: HttpRequest, retries: int, processes: Processes, log: Callable[[str], None]
) -> tuple[HttpReply, str]:
    """The last reply, and words for its status."""
    inbox: Inbox = SimpleQueue()  # of nothing but the end of the build
    tries = 0
    while True:
        reply = _post_once(request, processes)
        if reply.status == LATE:
            return reply, f"no answer within {request.timeout:g} s from {request.url}"
        tries += 1
        words = f"{request.url}: {f'status {reply.status}' if reply.status else 'no connection'}"
        log(words)
        if reply.status not in PASSING:
            return reply, words
        if tries > retries:
            return reply, f"{words} ({tries} tries)"
        with processes.wake_on_stop(lambda: inbox.put(BuildStopping())):
            _next_reply(inbox, _wait_seconds(tries, reply.after))


def _post_once(request: HttpRequest, processes: Processes) -> HttpReply:
    """Send a request in a thread of its own, so that a slow server does not delay the end of the build."""
    import httpx

    inbox: Inbox = SimpleQueue()
    timeout = httpx.Timeout(request.timeout, connect=min(CONNECT, request.timeout))

    def post() -> None:
        try:
            reply = httpx.post(request.url, headers=dict(request.headers), content=request.body, timeout=timeout)
            inbox.put(HttpReply(reply.status_code, reply.text, reply.headers.get("Retry-After", "")))
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            inbox.put(HttpReply(LATE))
        except httpx.RequestError as error:
            inbox.put(HttpReply(NO_REPLY, f"{type(error).__name__}: {error}"))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for it
            inbox.put(error)

    with processes.wake_on_stop(lambda: inbox.put(BuildStopping())):
        Thread(target=post, daemon=True).start()
        return _next_reply(inbox, request.timeout)


def _next_reply(inbox: Inbox, seconds: float) -> HttpReply:
    try:
        reply = inbox.get(timeout=seconds)
    except Empty:
        return HttpReply(LATE)
    if isinstance(reply, BaseException):
        raise reply
    return reply


def _wait_seconds(tries: int, after: str) -> float:
    """Seconds before the next try: what the server asks for, or twice as long each time."""
    seconds: float = FIRST_WAIT * 2 ** (tries - 1)
    if re.fullmatch(r"\d+(\.\d+)?", after):
        seconds = float(after)
    else:
        with suppress(ValueError, OverflowError):
            seconds = max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    return min(LONGEST_WAIT, seconds)


TIMEOUT, RETRIES = 600.0, 4
PASSED_ON = ("model", "temperature", "seed", "max_tokens")
# Cached tokens are a part of those of the prompt.
USAGE = {
    "input_tokens": ("usage.prompt_tokens",),
    "output_tokens": ("usage.completion_tokens",),
    "cached_tokens": ("usage.prompt_tokens_details.cached_tokens",),
}
# Paths of a server's error message.
COMPLAINTS = ("error.message", "error", "message", "detail")


def ask_openai(backend: Mapping[str, Any], question: Question, desk: CallContext) -> Answer:
    """Ask a model by HTTP.  A reply may quote the key, and is redacted before anything else."""
    began = time.monotonic()
    key = _key(backend, question.role)
    try:
        import_module("httpx")  # all of it: what it needs may be missing
    except ImportError:
        what = "backend openai needs the package httpx: pip install 'coppice[openai]'"
        raise BackendUnavailable(f"{question.role}: {what}") from None
    secrets = {backend["key_env"]: key} if key else {}
    fields = {name: backend[name] for name in PASSED_ON if name in backend}
    messages = [{"role": "user", "content": question.prompt}]
    body = json.dumps({**backend.get("body", {}), **fields, "messages": messages, "stream": False})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    url = f"{backend['url'].rstrip('/')}/chat/completions"
    # All ASCII, so that every text can be sent.
    request = HttpRequest(url, headers, body.encode(), backend.get("timeout", TIMEOUT))
    with open(question.log, "ab", buffering=0) as file:

        def log(text: str) -> None:
            file.write(f"{redact_text(text, secrets)}\n".encode(errors="replace"))

        reply, words = post_until_answered(request, backend.get("retries", RETRIES), desk.processes, log)
        if reply.status == LATE:
            late = FailureFacts(Exit(0, timed_out=True), asked=True)
            raise _outage(f"{question.role}: {words}", late, _unread_usage(backend), time.monotonic() - began)
        text = redact_text(reply.body, secrets)
        if reply.status != 200:
            complaint = _complaint(text)
            raise BackendUnavailable(f"{question.role}: {words}{complaint and f': {complaint}'}")
        answer = _answer(backend, question.role, text, time.monotonic() - began)
        if answer.usage.usd is None and "price" in backend:
            log(f"usage, in the reply: {'; '.join(usage_in([json.loads(text)], USAGE, backend['price'])[1])}")
        log(answer.text)
    return answer._replace(text=redact_text(answer.text, secrets))


def _key(backend: Mapping[str, Any], role: str) -> str:
    """The key, refused if a header cannot hold it: the library would quote it in a message."""
    name = backend.get("key_env")
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        what = f"the environment variable {name} is not set; it holds the key for {backend['url']}"
        raise BackendUnavailable(f"{role}: {what}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        what = f"what the environment variable {name} holds is no key: that is one plain word"
        raise BackendUnavailable(f"{role}: {what}")
    return key


def _answer(backend: Mapping[str, Any], role: str, body: str, seconds: float) -> Answer:
    """The answer in a reply; failures have their cost."""
    try:
        reply: Any = json.loads(body)
    except JSON_ERRORS:
        what = f"{role}: what came back is not JSON: {_line(body)}"
        raise _outage(what, FailureFacts(asked=True, garbled=True), _unread_usage(backend), seconds) from None
    usage = usage_in([reply], USAGE, backend.get("price"))[0]
    if not isinstance(value_at("choices.0.message", reply), dict):  # some gateways tell of an error with status 200
        usage = usage if isinstance(value_at("usage", reply), dict) else FREE
        what = f"{role}: no message at choices[0].message: {_complaint(body)}"
        raise _outage(what, FailureFacts(asked=True, garbled=True), usage, seconds)
    text, model = value_at("choices.0.message.content", reply), value_at("model", reply)
    if not isinstance(text, str) or not text.strip():
        raise CallFailed(f"no text at choices[0].message.content: {_line(body)}", 1, usage, seconds)
    if value_at("choices.0.finish_reason", reply) == "length":
        what = "the answer was cut off: it is longer than max_tokens, or the model's limit"
        raise CallFailed(what, 1, usage, seconds)
    return Answer(text, usage, seconds, model if isinstance(model, str) else backend["model"])


def _outage(what: str, failure: FailureFacts, usage: Usage = FREE, seconds: float = 0.0) -> BackendUnavailable:
    return BackendUnavailable(f"{what}: {outage_reason(failure)}; build again", usage, seconds)


def _unread_usage(backend: Mapping[str, Any]) -> Usage:
    """The usage of a question that may have been answered, and paid for, though the answer was not read."""
    return usage_in([], USAGE, backend.get("price"))[0]


def _complaint(body: str) -> str:
    try:
        found: Any = json.loads(body)
    except JSON_ERRORS:
        return _line(body)
    documents = found if isinstance(found, list) else [found]
    texts = (last_value_at(path, documents) for path in COMPLAINTS)
    return _line(next((text for text in texts if isinstance(text, str)), body))


def _line(text: str) -> str:
    return cut_text(" ".join(text.split()))
