"""Questions to a role, answers with their cost, and the two ways in which asking fails.

BackendUnavailable: the environment is at fault, and the next build asks again.  CallFailed: the candidate's failure,
recorded with its cost.  A backend's output in JSON, one document or one a line, is read by dotted paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

# What can be out, of a service or of the machine.
OUTAGES = (
    "rate limit", "overload", "credit", "login", "server", "network", "malformed", "time-out", "missing", "killed"
)  # fmt: skip


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

    `trouble`: an outage by the words of a coder that ended well; it counts when there is no other result."""

    text: str
    usage: Usage = FREE
    seconds: float = 0.0
    model: str = ""
    patch: bytes = b""
    trouble: BackendUnavailable | None = None


class BackendUnavailable(Exception):
    """The backend cannot be used by fault of the environment, maybe at a cost; the next build asks again.

    `kind`: what is out, one of OUTAGES; empty for a mistake that waiting does not mend.  `after`: seconds that the
    service asks to wait."""

    def __init__(
        self, why: str, usage: Usage = FREE, seconds: float = 0.0, kind: str = "", after: float | None = None
    ) -> None:
        super().__init__(why)
        self.usage, self.seconds, self.kind, self.after = usage, seconds, kind, after


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


BackendKeys = Mapping[str, Any]  # as in the params of a target: a name, and its keys
Backend = Callable[[BackendKeys, Question, CallContext], Answer]


def valid_amount(value: Any) -> float | None:
    """A number from a backend; None for anything else, negative or infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST_AMOUNT:
        return None
    return value


MISSING = object()
JSON_ERRORS = (ValueError, RecursionError)


def json_documents(text: str) -> list[Any]:
    """The JSON documents in a text; a list stands for its items, as some tools print all messages as one."""
    try:
        whole = json.loads(text)
    except JSON_ERRORS:
        documents = []
        for line in text.splitlines():
            with suppress(*JSON_ERRORS):
                documents.append(json.loads(line))
        return documents
    return whole if isinstance(whole, list) else [whole]


def last_value_at(path: str, documents: Sequence[Any]) -> Any:
    """The value at a path in the last document that has it."""
    values = (value_at(path, document) for document in reversed(documents))
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


def usage_in(
    documents: Sequence[Any], paths: Mapping[str, Sequence[str]], price: Mapping[str, float] | None
) -> tuple[Usage, list[str]]:
    """The usage in documents, and the paths without a number.  Numbers at several paths are added up.

    `price`: in USD for a million tokens; a cost from the backend comes first."""
    counted = [path for name in Usage._fields for path in paths.get(name, ())]
    numbers = {path: valid_amount(last_value_at(path, documents)) for path in counted}
    usd, read, written = (fsum(numbers[path] or 0.0 for path in paths.get(name, ())) for name in Usage._fields)
    if not usd and price is not None:
        usd = (round(read) * price["input"] + round(written) * price["output"]) / 1_000_000
    return Usage(usd, round(read), round(written)), [path for path, number in numbers.items() if number is None]
