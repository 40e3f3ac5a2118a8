"""Questions to a role, answers with their cost, and the two ways in which asking fails.

BackendUnavailable: the environment is at fault, and the next build asks again.  CallFailed: the candidate's failure,
recorded with its cost.  A backend's output in JSON, one document or one a line, is read by dotted paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from pipeline.machine.process import Processes

MOST_AMOUNT = 1e15


class Usage(NamedTuple):
    """The cost of a call; zero where the backend does not say."""

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


FREE = Usage()


class Question(NamedTuple):
    """A question to a role.  A command runs in `folder`: a coder edits the files there.  `name`: for messages.

    `ground`: the hash of the files at first.  The same words about other code are another question."""

    role: str
    prompt: str
    folder: str
    log: str
    name: str = ""
    ground: str = ""


class Answer(NamedTuple):
    """An answer.  `patch`: a recorded coder's change; only replay has it, others change the folder or print a diff.

    `trouble`: a complaint of a program that ended well about its service; it counts when there is no other result."""

    text: str
    usage: Usage = FREE
    seconds: float = 0.0
    model: str = ""
    patch: bytes = b""
    trouble: str = ""


class BackendUnavailable(Exception):
    """The backend cannot be used by fault of the environment, maybe at a cost; the next build asks again."""

    def __init__(self, why: str, usage: Usage = FREE, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.usage, self.seconds = usage, seconds


class CallFailed(Exception):
    """A call failed: recorded as the candidate's failure, with its cost."""

    def __init__(self, why: str, exit: int, usage: Usage = FREE, seconds: float = 0.0) -> None:  # noqa: A002
        super().__init__(why)
        self.exit, self.usage, self.seconds = exit, usage, seconds


class CallContext(NamedTuple):
    """The parts of a build that a backend needs."""

    processes: Processes
    run: str
    hidden: tuple[str, ...] = ()  # files that a backend must not read, where the kernel can prevent it


Backend = Callable[[Mapping[str, Any], Question, CallContext], Answer]


def valid_amount(value: Any) -> float | None:
    """A number from a backend; None for anything else, negative or infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST_AMOUNT:
        return None
    return value


def with_price(usage: Usage, price: Mapping[str, float] | None) -> Usage:
    """The usage with its cost at `price`, in USD for a million tokens; a cost from the backend comes first."""
    if usage.usd or price is None:
        return usage
    cost = usage.input_tokens * price["input"] + usage.output_tokens * price["output"]
    return usage._replace(usd=cost / 1_000_000)


MISSING = object()
JSON_ERRORS = (ValueError, RecursionError)
# Claude Code gave up by its own limits: a matter of the question, not of the service.
_OWN_LIMITS = "error_max_"
_STATUS = re.compile(r"(?:status(?: code)?|API Error):? (\d{3})\b", re.IGNORECASE)
# The last line of aider when its model cannot be reached; it ends with 0 all the same.
_LITELLM = re.compile(
    r"^litellm\.(?:Authentication|PermissionDenied|RateLimit|InternalServer|ServiceUnavailable|BadGateway|APIConnection|API)"
    r"Error\b.*|^litellm\.Timeout\b.*",
    re.MULTILINE,
)


class AgentError(NamedTuple):
    """A tool's report of its own failure: the status of its service, if it names one, and words."""

    status: int | None = None
    said: str = ""


def agent_error(text: str) -> AgentError:
    """The complaint in the last message of Claude Code (`is_error`) or Codex (`turn.failed`); else empty."""
    if '"is_error"' not in text and '"turn.failed"' not in text:
        return AgentError()
    messages = [each for each in json_documents(text) if isinstance(each, dict)]
    ends = [each for each in messages if "is_error" in each or each.get("type") in ("turn.failed", "turn.completed")]
    last = ends[-1] if ends else {}
    if last.get("type") == "turn.failed":
        words = value_at("error.message", last)
        return _complaint(None, words if isinstance(words, str) else "")
    if last.get("is_error") is not True or str(last.get("subtype", "")).startswith(_OWN_LIMITS):
        return AgentError()
    texts = [last[name] for name in ("subtype", "error", "result") if isinstance(last.get(name), str)]
    status = last.get("api_error_status")
    return _complaint(status if type(status) is int else None, " ".join(word for word in texts if word != "success"))


def _complaint(status: int | None, words: str) -> AgentError:
    found = _STATUS.search(words)
    return AgentError(int(found[1]) if found and status is None else status, " ".join(words.split()))


def aider_error(text: str) -> str:
    """The last line of aider about an unreachable model; a retry may have reached it."""
    return next((found[0] for found in reversed([*_LITELLM.finditer(text)])), "")


def json_documents(text: str) -> list[Any]:
    """The JSON documents in a text; a list stands for its items, as some tools print all messages as one."""
    try:
        whole = json.loads(text)
    except JSON_ERRORS:
        return [found for line in text.splitlines() if (found := _parse_json(line)) is not MISSING]
    return whole if isinstance(whole, list) else [whole]


def _parse_json(line: str) -> Any:
    try:
        return json.loads(line)
    except JSON_ERRORS:
        return MISSING


def last_value_at(path: str, found: Sequence[Any]) -> Any:
    """The value at a path in the last document that has it."""
    values = (value_at(path, document) for document in reversed(found))
    return next((value for value in values if value is not MISSING), MISSING)


def value_at(path: str, value: Any) -> Any:
    """The value at a dotted path in a document, or MISSING."""
    for word in path.split("."):
        if isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        elif isinstance(value, dict) and word in value:
            value = value[word]
        else:
            return MISSING
    return value


def usage_in(found: Sequence[Any], paths: Mapping[str, Sequence[str]]) -> tuple[Usage, list[str]]:
    """The usage in documents, and the paths without a number.  Numbers at several paths are added up."""
    numbers = {path: valid_amount(last_value_at(path, found)) for name in Usage._fields for path in paths.get(name, ())}
    usd, read, written = (fsum(numbers[path] or 0.0 for path in paths.get(name, ())) for name in Usage._fields)
    return Usage(usd, round(read), round(written)), [path for path, number in numbers.items() if number is None]
