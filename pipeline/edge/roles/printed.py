"""What a command printed as JSON, one document or one a line, and what stands in it at a dotted path."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from pipeline.edge.roles.contract import Usage, amount

MISSING = object()
NO_JSON = (ValueError, RecursionError)
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
    ends = (each for each in reversed(documents(text)) if isinstance(each, dict) and _ends(each))
    last = next(ends, {})
    if last.get("type") == "turn.failed":
        words = at("error.message", last)
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


def documents(text: str) -> list[Any]:
    """A list stands for what is in it: some tools print all their messages as one."""
    try:
        whole = json.loads(text)
    except NO_JSON:
        return [found for line in text.splitlines() if (found := _parsed(line)) is not MISSING]
    return whole if isinstance(whole, list) else [whole]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except NO_JSON:
        return MISSING


def last_at(path: str, found: Sequence[Any]) -> Any:
    """Of the documents that have the path, the last one counts."""
    values = (at(path, document) for document in reversed(found))
    return next((value for value in values if value is not MISSING), MISSING)


def at(path: str, value: Any) -> Any:
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
    numbers = {path: amount(last_at(path, found)) for name in Usage._fields for path in paths.get(name, ())}
    usd, read, written = (fsum(numbers[path] or 0.0 for path in paths.get(name, ())) for name in Usage._fields)
    return Usage(usd, round(read), round(written)), [path for path, number in numbers.items() if number is None]
