"""Backends behind HTTP: OpenAI's chat completions, as most services speak them, and Anthropic's messages.

Each protocol is a row of PROTOCOLS: where the request goes, what it says, and where in the reply things stand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from pipeline.machine.failures import lacking_room
from pipeline.machine.process import install_command
from pipeline.machine.redaction import redact_text
from pipeline.models.complaints import NO_COMPLAINT, REFUSAL_STATUS, parse_json, service_complaint
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
from pipeline.models.http import (
    UNREAD,
    HttpReply,
    HttpRequest,
    complaint_line,
    post_until_answered,
    raise_unanswered,
)

TIMEOUT, RETRIES = 600.0, 0
PASSED_ON = ("model", "temperature", "seed", "max_tokens")


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
