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
    """The cost of a call.  `usd`: None where nobody knows it, which is not zero; tokens are those that were told.

    `cached_tokens`: those of `input_tokens` that the service had kept from earlier."""

    usd: float | None = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


FREE = Usage()
UNKNOWN = Usage(None)

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

    `trouble`: an outage by the words of a coder that ended well; it counts when there is no other result.  `partial`:
    why a coder ended before it was done; `left_out`: what it left behind that is no part of its change."""

    text: str
    usage: Usage = FREE
    seconds: float = 0.0
    model: str = ""
    patch: bytes = b""
    trouble: BackendUnavailable | None = None
    partial: str = ""
    left_out: tuple[str, ...] = ()


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
    visible: tuple[str, ...] = ()  # what it reads besides, such as what git in its folder borrows


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


# `input`, `output`, `cached`, `cache_write`: USD for a million tokens; or the word `free`
Prices = Mapping[str, float] | str
# Those of `input_tokens` that the service has put into its cache: they have a price, and are not recorded.
CACHE_WRITES = "cache_write_tokens"
USAGE_NAMES = (*Usage._fields, CACHE_WRITES)


def usage_in(
    documents: Sequence[Any], paths: Mapping[str, Sequence[str]], price: Prices | None
) -> tuple[Usage, list[str]]:
    """The usage in documents, and what is wrong with it, a line each.  Numbers at several paths are added up."""
    found = {name: {path: last_value_at(path, documents) for path in paths.get(name, ())} for name in USAGE_NAMES}
    lacking = {name: [at for at, value in each.items() if not _is_amount(value)] for name, each in found.items()}
    wrong = [f"no number at {', '.join(places)} for {name}" for name, places in lacking.items() if places]
    usage, unsure = priced_usage({name: total_amount([*each.values()]) for name, each in found.items()}, price)
    return usage, [*wrong, *unsure]


def priced_usage(told: Mapping[str, float | None], price: Prices | None) -> tuple[Usage, list[str]]:
    """The usage of numbers by USAGE_NAMES, and what is wrong with it.  What was not told is None or not there.

    The backend's own cost comes first, if it is not zero; then `price` decides, then the zero."""
    usd, read, written, cached, stored = (told.get(name) for name in USAGE_NAMES)
    wrong = []
    if (cached or 0.0) + (stored or 0.0) > (read or 0.0):
        parts = {"cached_tokens": cached, CACHE_WRITES: stored}
        named = " and ".join(f"{amount:g} {name}" for name, amount in parts.items() if amount)
        wrong.append(f"{named} are more than the input_tokens, of which they are a part")
        read = None
    if isinstance(price, str):
        usd = 0.0
    elif price is not None and not usd:
        usd = usd if read is None or written is None else _price_of(price, read, written, cached or 0.0, stored or 0.0)
    tokens = (round(amount or 0.0) for amount in (read, written, cached))
    return Usage(usd, *tokens), [*wrong, *([] if usd is not None else ["what it cost is unknown"])]


def _price_of(price: Mapping[str, float], read: float, written: float, cached: float, stored: float) -> float:
    """The price in USD; tokens read from a cache or put into one cost as others where the table has none for them."""
    plain = price["input"]
    parts = {"cached": round(cached), "cache_write": round(stored)}
    each = [count * price.get(name, plain) for name, count in parts.items()]
    fresh = round(read) - sum(parts.values())
    return fsum([*each, fresh * plain, round(written) * price["output"]]) / 1_000_000


def total_amount(values: Sequence[Any]) -> float | None:
    """The sum of what a backend told; None without any number, or with one that cannot be.

    A number that is not there beside others adds nothing."""
    there = [value for value in values if value is not MISSING and value is not None]
    numbers = [number for value in there if (number := valid_amount(value)) is not None]
    return fsum(numbers) if there and len(numbers) == len(there) else None


def _is_amount(value: Any) -> bool:
    return value is not MISSING and valid_amount(value) is not None


# Outages in the middle of an answer: it may have been paid for by then.
_BROKEN_OFF = ("malformed", "time-out", "killed")


def outage_usage(usage: Usage, kind: str) -> Usage:
    """The usage of a question without an answer: if its service refused it, what was not told was not spent."""
    return usage if usage.usd is not None or kind in _BROKEN_OFF else usage._replace(usd=0.0)
