"""Questions to a role, answers with what they cost, and the two ways in which asking goes wrong.

BackendUnavailable: the environment is at fault, and the next build asks again.  CallFailed: the candidate's failure,
recorded with its cost.  What a backend printed as JSON, one document or one a line, is read by dotted paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from pipeline.machine.process import Processes

MOST_AMOUNT = 1e15


class Usage(NamedTuple):
    """What a call cost; zero where the backend does not say."""

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


FREE = Usage()


class Question(NamedTuple):
    """A command runs in `folder`: a coder edits the files there.  `name` is that of the slot, for messages.

    `ground`: the hash of the files there at first.  The same words about other code are another question."""

    role: str
    prompt: str
    folder: str
    log: str
    name: str = ""
    ground: str = ""


class Answer(NamedTuple):
    """`patch`: what a recorded coder changed.  Only replay has it: the others change the folder itself, or say how.

    `trouble`: what a program that ended well says of its service; it counts where nothing else came of it."""

    text: str
    usage: Usage = FREE
    seconds: float = 0.0
    model: str = ""
    patch: bytes = b""
    trouble: str = ""


class BackendUnavailable(Exception):
    """The backend cannot be used: the environment is at fault, not the candidate; the next build asks again.

    It may have cost something all the same."""

    def __init__(self, why: str, usage: Usage = FREE, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.usage, self.seconds = usage, seconds


class CallFailed(Exception):
    """It was asked and failed: recorded as the candidate's failure, with what it cost."""

    def __init__(self, why: str, exit: int, usage: Usage = FREE, seconds: float = 0.0) -> None:  # noqa: A002
        super().__init__(why)
        self.exit, self.usage, self.seconds = exit, usage, seconds


class CallContext(NamedTuple):
    """What a backend needs of the build that asks."""

    processes: Processes
    run: str
    hidden: tuple[str, ...] = ()  # files that a backend must not be able to read, where the kernel sees to that


Backend = Callable[[Mapping[str, Any], Question, CallContext], Answer]


def valid_amount(value: Any) -> float | None:
    """A number as a backend tells it, or None if it is none: what is paid is neither negative nor without end."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST_AMOUNT:
        return None
    return value


def with_price(usage: Usage, price: Mapping[str, float] | None) -> Usage:
    """With its cost at `price`, which is in USD for a million tokens; what the backend says it cost comes first."""
    if usage.usd or price is None:
        return usage
    cost = usage.input_tokens * price["input"] + usage.output_tokens * price["output"]
    return usage._replace(usd=cost / 1_000_000)


MISSING = object()
JSON_ERRORS = (ValueError, RecursionError)
# How Claude Code says that it gave up by its own limits: of what the candidate asks, not of the service.
_OWN_LIMITS = "error_max_"
_STATUS = re.compile(r"(?:status(?: code)?|API Error):? (\d{3})\b", re.IGNORECASE)
# Of aider: the last it prints when its model cannot be reached, and it ends with 0 all the same.
_LITELLM = re.compile(
    r"^litellm\.(?:Authentication|PermissionDenied|RateLimit|InternalServer|ServiceUnavailable|BadGateway|APIConnection|API)"
    r"Error\b.*|^litellm\.Timeout\b.*",
    re.MULTILINE,
)


class Complaint(NamedTuple):
    """What a tool says of its own failure: the status its service answered with, if it names one, and words."""

    status: int | None = None
    said: str = ""


def complaint(text: str) -> Complaint:
    """Of the last thing that Claude Code (`is_error`) or Codex (`turn.failed`) prints; nothing if that went well."""
    if '"is_error"' not in text and '"turn.failed"' not in text:
        return Complaint()
    ends = (each for each in reversed(json_documents(text)) if isinstance(each, dict) and _ends(each))
    last = next(ends, {})
    if last.get("type") == "turn.failed":
        words = value_at("error.message", last)
        return _complaint(None, words if isinstance(words, str) else "")
    if last.get("is_error") is not True or str(last.get("subtype", "")).startswith(_OWN_LIMITS):
        return Complaint()
    told = [last[name] for name in ("subtype", "error", "result") if isinstance(last.get(name), str)]
    status = last.get("api_error_status")
    return _complaint(status if type(status) is int else None, " ".join(word for word in told if word != "success"))


def _ends(document: Mapping[str, Any]) -> bool:
    return "is_error" in document or document.get("type") in ("turn.failed", "turn.completed")


def _complaint(status: int | None, words: str) -> Complaint:
    found = _STATUS.search(words)
    return Complaint(int(found[1]) if found and status is None else status, " ".join(words.split()))


def trouble(text: str) -> str:
    """The last line in which aider says that its model cannot be reached; it may have been the next time."""
    return next((found[0] for found in reversed([*_LITELLM.finditer(text)])), "")


def json_documents(text: str) -> list[Any]:
    """A list stands for what is in it: some tools print all their messages as one."""
    try:
        whole = json.loads(text)
    except JSON_ERRORS:
        return [found for line in text.splitlines() if (found := _parsed(line)) is not MISSING]
    return whole if isinstance(whole, list) else [whole]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except JSON_ERRORS:
        return MISSING


def last_value_at(path: str, found: Sequence[Any]) -> Any:
    """Of the documents that have the path, the last one counts."""
    values = (value_at(path, document) for document in reversed(found))
    return next((value for value in values if value is not MISSING), MISSING)


def value_at(path: str, value: Any) -> Any:
    for word in path.split("."):
        if isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        elif isinstance(value, dict) and word in value:
            value = value[word]
        else:
            return MISSING
    return value


def usage_in(found: Sequence[Any], paths: Mapping[str, Sequence[str]]) -> tuple[Usage, list[str]]:
    """What it cost, and the paths at which no number stands.  Numbers at several paths are added up."""
    numbers = {path: valid_amount(last_value_at(path, found)) for name in Usage._fields for path in paths.get(name, ())}
    usd, read, written = (fsum(numbers[path] or 0.0 for path in paths.get(name, ())) for name in Usage._fields)
    return Usage(usd, round(read), round(written)), [path for path, number in numbers.items() if number is None]
