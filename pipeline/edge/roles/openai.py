"""Asks a model behind an HTTP endpoint that speaks OpenAI's chat completions, as most do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from pipeline.edge.ended import Failure, outage
from pipeline.edge.process import Exit
from pipeline.edge.redact import redacted
from pipeline.edge.roles.contract import FREE, Answer, Desk, Failed, Question, Unavailable, Usage, priced
from pipeline.edge.roles.post import Late, Request, Unreached, answered
from pipeline.edge.roles.printed import NO_JSON, at, usage_in
from pipeline.errors import clipped

TIMEOUT, RETRIES = 600.0, 4
PASSED_ON = ("model", "temperature", "seed", "max_tokens")
USAGE = {"input_tokens": ("usage.prompt_tokens",), "output_tokens": ("usage.completion_tokens",)}
# Where servers say what they did not like.
COMPLAINTS = ("error.message", "error", "message", "detail")


def ask(backend: Mapping[str, Any], question: Question, desk: Desk) -> Answer:
    """All that comes back may quote the key: it is blotted out before anything else is done with it."""
    began = time.monotonic()
    key = _key(backend, question.role)
    secrets = {backend["key_env"]: key} if key else {}
    request = _request(backend, question.prompt, key)
    with open(question.log, "ab", buffering=0) as file:

        def log(text: str) -> None:
            file.write(f"{redacted(text, secrets)}\n".encode(errors="replace"))

        try:
            reply = answered(request, backend.get("retries", RETRIES), desk.processes, log)
        except Unreached as error:
            said = clipped(_complaint(redacted(error.said, secrets)))
            raise Unavailable(f"{question.role}: {error}{said and f': {said}'}") from None
        except Late:
            what = f"{question.role}: no answer within {request.timeout:g} s from {request.url}"
            raise _lost(what, Failure(Exit(0, timed_out=True), asked=True)) from None
        answer = _answer(backend, question.role, redacted(reply.body, secrets), time.monotonic() - began)
        log(answer.text)
    return answer._replace(text=redacted(answer.text, secrets))


def _key(backend: Mapping[str, Any], role: str) -> str:
    """What a header cannot hold is refused here: who sends it would quote it in a message."""
    name = backend.get("key_env")
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise Unavailable(f"{role}: the environment variable {name} is not set; it holds the key for {backend['url']}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Unavailable(f"{role}: what the environment variable {name} holds is no key: that is one plain word")
    return key


def _request(backend: Mapping[str, Any], prompt: str, key: str) -> Request:
    """The body is ASCII, so that no text is too odd to be sent."""
    fields = {name: backend[name] for name in PASSED_ON if name in backend}
    messages = [{"role": "user", "content": prompt}]
    body = json.dumps({**backend.get("body", {}), **fields, "messages": messages, "stream": False})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    url = f"{backend['url'].rstrip('/')}/chat/completions"
    return Request(url, headers, body.encode(), backend.get("timeout", TIMEOUT))


def _answer(backend: Mapping[str, Any], role: str, body: str, seconds: float) -> Answer:
    """What it cost is told even when there is no answer in it."""
    try:
        found: Any = json.loads(body)
    except NO_JSON:
        raise _lost(f"{role}: what came back is not JSON: {_line(body)}", Failure(asked=True, garbled=True)) from None
    usage = priced(usage_in([found], USAGE)[0], backend.get("price"))
    if not isinstance(at("choices.0.message", found), dict):  # some gateways tell of an error with status 200
        what = f"{role}: no message at choices[0].message: {_complaint(body)}"
        raise _lost(what, Failure(asked=True, garbled=True), usage, seconds)
    text, model = at("choices.0.message.content", found), at("model", found)
    if not isinstance(text, str) or not text.strip():
        raise Failed(f"no text at choices[0].message.content: {_line(body)}", 1, usage, seconds)
    if at("choices.0.finish_reason", found) == "length":
        raise Failed("the answer was cut off: it is longer than max_tokens, or the model's limit", 1, usage, seconds)
    return Answer(text, usage, seconds, model if isinstance(model, str) else backend["model"])


def _lost(what: str, failure: Failure, usage: Usage = FREE, seconds: float = 0.0) -> Unavailable:
    return Unavailable(f"{what}: {outage(failure)}; build again", usage, seconds)


def _complaint(body: str) -> str:
    try:
        found: Any = json.loads(body)
    except NO_JSON:
        return _line(body)
    return next((_line(text) for path in COMPLAINTS if isinstance(text := at(path, found), str)), _line(body))


def _line(text: str) -> str:
    return clipped(" ".join(text.split()))
