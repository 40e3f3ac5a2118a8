"""Complaints of programs and services about a call, and whose matter it is that there was no answer.

Only a program's own channel for errors counts: the last message of its JSON, an error document at the end of its
standard error, its last lines.  What a candidate writes there in passing is none.

An asked question ends in one of these ways:

    answered   there is an answer
    refused    the model will not answer: the candidate's matter, and not asked again
    failed     the candidate's fault: an agent's own limit, too long a prompt, another exit status
    out        an outage, with its kind: nobody's fault"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from pipeline.errors import cut_text
from pipeline.machine.failures import NOT_NOW, Outage, find_outage
from pipeline.machine.process import Exit
from pipeline.models.contract import JSON_ERRORS, json_documents, last_value_at, value_at

ANSWERED, REFUSED, FAILED, OUT = "answered", "refused", "failed", "out"
REFUSAL_STATUS = 77  # the exit status of a refusal (EX_NOPERM): a script of one's own may end with it


class Complaint(NamedTuple):
    """Words of a program or a service about a call that went wrong."""

    said: str = ""
    status: int | None = None  # of HTTP
    code: str = ""  # type or code of the error
    kind: str = ""  # what is out, by a pattern of the role
    refused: bool = False
    limit: bool = False  # the agent's own, of turns or money
    is_plain_text: bool = False  # by words among others, not by the program's JSON
    after: float | None = None  # seconds that the service asks to wait


NO_COMPLAINT = Complaint()


class CallEnd(NamedTuple):
    """How a call ended: `outage` for OUT; `why` in words, empty for an answer."""

    how: str
    why: str = ""
    outage: Outage | None = None


_REFUSALS = re.compile(
    r"(?i:usage polic|content.?(?:filter|policy|management)|flagged as potentially violating|invalid_prompt)"
    r"|PROHIBITED_CONTENT|\bSAFETY\b|blockReason"
)
_TOO_LONG = re.compile(
    r"prompt is too long|input (?:is )?too long|maximum context length|context.?length|context.?window"
    r"|ContextWindowExceeded|request_too_large|too many tokens in",
    re.IGNORECASE,
)


# Statuses beside which words may blame the question.
_OF_QUESTION = (None, 400, 403, 413, 422)
_NOT_NOW = Outage("server", "it says that it cannot work now")
_GARBLED = Outage("malformed", "what came back is no answer of the service")


def judge_call(ended: Exit, complaint: Complaint = NO_COMPLAINT, garbled: bool = False) -> CallEnd:
    """Judge how a call ended, from the end of the program and what it or its service complains of.

    `garbled`: what it gave is not whole, or does not follow the protocol."""
    if complaint.kind and not ended.timed_out:
        return CallEnd(OUT, "it says so", _service_outage(complaint.kind))
    words = _words_of_question(complaint)
    if complaint.refused or _REFUSALS.search(words) or (ended.code == REFUSAL_STATUS and not ended.timed_out):
        return CallEnd(REFUSED, "the model refuses to answer")
    own = complaint.limit or _TOO_LONG.search(words)
    kind = "" if own else _service_kind(complaint)
    found = find_outage(ended, asked=True) or (_service_outage(kind) if kind else None)
    found = found or (_NOT_NOW if ended.code == NOT_NOW else _GARBLED if garbled and not own else None)
    if found:
        return CallEnd(OUT, found.why, found)
    if ended.code or own:
        return CallEnd(FAILED, "the prompt is too long" if own and not complaint.limit else "it gave up")
    return CallEnd(ANSWERED)


def _words_of_question(complaint: Complaint) -> str:
    """The words of a complaint that may be about the question; none where status or code name a service that is out."""
    kind = SERVICE_CODES.get(complaint.code.lower(), "server")
    is_open = complaint.status in _OF_QUESTION and kind == "server"  # a code that says no more than that it failed
    return f"{complaint.said} {complaint.code}" if is_open else ""


# A service's own words for its errors.  Kinds by the whole code, by the text of a message, by the status of HTTP: what
# is more exact comes first.  Credit comes before the status: services say 400, 403 or 429 for it.
SERVICE_CODES = {
    "insufficient_quota": "credit",
    "billing_hard_limit_reached": "credit",
    "billing_not_active": "credit",
    "billing_error": "credit",
    "insufficient_balance": "credit",
    "rate_limit_error": "rate limit",
    "rate_limit_exceeded": "rate limit",
    "ratelimiterror": "rate limit",
    "resource_exhausted": "rate limit",
    "usage_limit_reached": "rate limit",
    "overloaded_error": "overload",
    "overloaded": "overload",
    "unavailable": "overload",
    "serviceunavailableerror": "overload",
    "authentication_error": "login",
    "authenticationerror": "login",
    "invalid_api_key": "login",
    "permission_error": "login",
    "permission_denied": "login",
    "permissiondeniederror": "login",
    "unauthenticated": "login",
    "providerautherror": "login",
    "not_found_error": "missing",
    "notfounderror": "missing",
    "model_not_found": "missing",
    "api_error": "server",
    "server_error": "server",
    "internal": "server",
    "internalservererror": "server",
    "badgatewayerror": "server",
    "apierror": "server",
    "timeout_error": "server",
    "deadline_exceeded": "server",
    "timeout": "network",
    "apiconnectionerror": "network",
}
_CREDIT = re.compile(
    r"credit|billing|current quota|insufficient[ _](?:funds|balance|quota)|payment required|spend(?:ing)? limit", re.I
)
_WORDS = tuple(
    (re.compile(words, re.IGNORECASE), kind)
    for words, kind in (
        (r"rate.?limit|usage.limit|too many requests|quota|resource.?exhausted", "rate limit"),
        (r"overloaded|at capacity|service unavailable", "overload"),
        (
            r"api.?key|authenticat|unauthori[sz]ed|permission_error|permission.denied|/login|log ?in\b|logged in|oauth",
            "login",
        ),
        (r"(?:internal )?server.error|bad gateway|api_error\b", "server"),
        (r"connect|network|ECONN|ENOTFOUND|ETIMEDOUT|timed? ?out", "network"),
    )
)
_ANYWHERE = 3  # of them: also beside a status that says nothing of the service
_STATUSES = {
    0: "network", 401: "login", 402: "credit", 403: "login", 404: "missing", 407: "network", 408: "network",
    425: "rate limit", 429: "rate limit", 503: "overload", 529: "overload",
}  # fmt: skip


def _service_kind(complaint: Complaint) -> str:
    """The kind of outage of a service, by its own words and statuses; empty where it blames something else."""
    status, code = complaint.status, complaint.code.lower()
    named = SERVICE_CODES.get(code, "")
    if named == "credit" or (_CREDIT.search(complaint.said) and (status is None or status < 500)):
        return "credit"
    by_status = "" if status is None else _STATUSES.get(status, "server" if status >= 500 else "")
    if by_status or named:
        return by_status if by_status not in ("", "server") else named or by_status
    words = _WORDS if status is None else _WORDS[:_ANYWHERE]
    return next((kind for pattern, kind in words if pattern.search(complaint.said)), "")


def _service_outage(kind: str) -> Outage:
    """The outage of a service, in words: one that cannot be reached has refused nothing."""
    return Outage(kind, "the service cannot be reached" if kind == "network" else f"the service refuses ({kind})")


# A complaint stands at the end: in so many of the last lines, and of the last characters.
LAST_LINES, LAST_CHARACTERS = 12, 4000
_STATUS = re.compile(r"(?:status(?: code)?|API Error):? (\d{3})\b", re.IGNORECASE)
# Claude Code gave up by its own limits: a matter of the question, not of the service.
_OWN_LIMITS = "error_max_"
# aider's line when its model cannot be reached; it ends with 0.  After an answer there is a line of tokens.
_LITELLM = re.compile(r"^litellm\.(\w+):", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: ", re.MULTILINE)
_NOT_OF_IT = re.compile(r"^(?:Retrying in|The API provider).*", re.MULTILINE)


def last_words(text: str) -> str:
    return "\n".join([line for line in text[-LAST_CHARACTERS:].splitlines() if line.strip()][-LAST_LINES:])


def program_complaint(
    printed: str, errors: str, patterns: Mapping[str, Sequence[str]], failed: bool, now: float
) -> Complaint:
    """The complaint of a program, by the patterns of its role or by what well-known programs print.

    `errors`: its standard error.  Of a program that ended well, patterns look at the last line alone."""
    ends = [last_words(text) for text in (printed, errors)]
    ends = ends if failed else [text.rpartition("\n")[2] for text in ends]
    for kind, words in patterns.items():
        for line in (line for text in ends for line in text.splitlines()):
            if any(re.search(word, line) for word in words):
                return Complaint(" ".join(line.split()), kind=kind, is_plain_text=True, after=wait_in_words(line, now))
    documents = [each for each in json_documents(printed) if isinstance(each, dict)] if "{" in printed else []
    if failed and (document := _document_at_end(errors)):
        documents = [*documents, document]
    found = next((found for read in _READERS if (found := read(documents, now))), None) or _of_aider(printed)
    if failed and not found and not printed.strip():
        found = _of_a_start(errors)
    if not found:
        return NO_COMPLAINT
    match = _STATUS.search(found.said)
    status = int(match[1]) if match and found.status is None else found.status
    after = wait_in_words(found.said, now) if found.after is None else found.after
    return found._replace(status=status, after=after)


def _document_at_end(text: str) -> dict[str, Any] | None:
    """The JSON object with which a text ends, on however many lines."""
    starts = [match.start() for match in re.finditer(r"^\{", text[-LAST_CHARACTERS:], re.MULTILINE)]
    for start in starts[:LAST_LINES]:
        found = parse_json(text[-LAST_CHARACTERS:][start:].strip())
        if isinstance(found, dict):
            return found
    return None


def parse_json(text: str) -> Any:
    """The document that a text is; None if it is none."""
    try:
        return json.loads(text)
    except JSON_ERRORS:
        return None


def _plain(*texts: Any) -> str:
    return " ".join(word for text in texts if isinstance(text, str) for word in text.split())


def _of_claude(documents: Sequence[dict[str, Any]], _now: float) -> Complaint | None:
    last: dict[str, Any] = next((each for each in reversed(documents) if "is_error" in each), {})
    if last.get("stop_reason") == "refusal":
        return Complaint(_plain(last.get("result")), refused=True)
    if last.get("is_error") is not True:
        return None
    if str(last.get("subtype", "")).startswith(_OWN_LIMITS):
        return Complaint(limit=True)
    said = _plain(*(said for name in ("subtype", "error", "result") if (said := last.get(name)) != "success"))
    status = last.get("api_error_status")
    return Complaint(said, status if type(status) is int else None)


def _of_codex(documents: Sequence[dict[str, Any]], _now: float) -> Complaint | None:
    ends = [each for each in documents if each.get("type") in ("turn.failed", "turn.completed")]
    if not ends or ends[-1]["type"] != "turn.failed":
        return None
    said = _plain(value_at("error.message", ends[-1]))
    return service_complaint(said) or Complaint(said)


def _of_opencode(documents: Sequence[dict[str, Any]], now: float) -> Complaint | None:
    last = documents[-1] if documents else {}
    data = value_at("error.data", last)
    if last.get("type") != "error" or not isinstance(data, dict):
        return None
    body, status, headers = data.get("responseBody"), data.get("statusCode"), data.get("responseHeaders")
    found = service_complaint(body if isinstance(body, str) else "") or Complaint(code=str(last["error"].get("name")))
    after = wait_asked(headers, now) if isinstance(headers, dict) else None
    said = found.said or _plain(data.get("message"))
    return found._replace(said=said, status=status if type(status) is int else found.status, after=after)


# opencode on its own database, which another one locks or is just making.
_OWN_TROUBLE = re.compile(
    r"Error: (?:\x1b\[[\d;]*m)*Unexpected error\s+((?:Failed query:|database |locking protocol|SQLite).*)", re.DOTALL
)


def _of_a_start(errors: str) -> Complaint | None:
    """The complaint of an opencode that failed before it asked its model: nobody's fault, and nothing was paid."""
    match = _OWN_TROUBLE.search(errors[-LAST_CHARACTERS:])
    return Complaint(cut_text(_plain(match[1])), kind="server") if match else None


def _of_gemini(documents: Sequence[dict[str, Any]], _now: float) -> Complaint | None:
    error = documents[-1].get("error") if documents else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    if error.get("type") in _OF_TURNS:
        return Complaint(_plain(error["message"]), limit=True)
    found = service_complaint(error["message"]) or Complaint(_plain(error["message"]))
    status = error.get("code")
    is_status = type(status) is int and 400 <= status < 600
    return found._replace(status=status if is_status else found.status)


_OF_TURNS = ("FatalTurnLimitedError",)
_READERS: tuple[Callable[[Sequence[dict[str, Any]], float], Complaint | None], ...] = (
    _of_claude,
    _of_codex,
    _of_opencode,
    _of_gemini,
)


def _of_aider(printed: str) -> Complaint | None:
    """The last complaint of aider, whose lines are wrapped; None if it is not at the end."""
    end = printed[-LAST_CHARACTERS:]
    match = next(reversed([*_LITELLM.finditer(end)]), None)
    text = end[match.start() :] if match else ""
    if match is None or _TOKENS.search(text) or len(text.splitlines()) > LAST_LINES:
        return None
    return Complaint(_plain(_NOT_OF_IT.sub("", text)), code=match[1], is_plain_text=True)


# Where services put what they say of an error.
_SAID = ("error.message", "error", "message", "detail")
_CODE = ("error.code", "error.type", "error.status", "code", "type")


def service_complaint(text: str) -> Complaint | None:
    """The complaint in an error document of a service, which may stand behind other words."""
    found = parse_json(text) if text[:1] in "[{" else None
    if found is None and "{" in text:
        found = parse_json(text[text.find("{") :])
    documents = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    if not documents:
        return None
    codes = [last_value_at(path, documents) for path in _CODE]
    said = next((said for path in _SAID if isinstance(said := last_value_at(path, documents), str)), "")
    status = next((each for each in (*codes, last_value_at("status", documents)) if type(each) is int), None)
    named = [code for code in codes if isinstance(code, str) and code != "error"]
    code = next((code for code in named if code.lower() in SERVICE_CODES), named[0] if named else "")
    return Complaint(_plain(said), status if status is None or 400 <= status < 600 else None, code)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT = r"(?:(?:ms|milli|s|m|h|d)|(?:millisecond|sec|second|min|minute|hr|hour|day)s?)(?![a-z])"  # none of March
_DURATION = re.compile(rf"(\d+(?:\.\d+)?) ?({_UNIT})", re.IGNORECASE)
_SPANS = rf"((?:\d+(?:\.\d+)? ?{_UNIT}[ ,]*(?:and )?)+)"
_AGAIN = re.compile(rf"(?:again|retry|resets?|retryDelay|wait)\b[^\d]{{0,12}}{_SPANS}", re.IGNORECASE)
_EPOCH = re.compile(r"\|(\d{10})\b")


def duration_seconds(text: str) -> float | None:
    """Seconds of `6m0s`, `120ms`, `3 hours 12 minutes`."""
    parts = _DURATION.findall(text)
    units = ((number, unit.lower()) for number, unit in parts)
    seconds = (float(number) * _UNITS["ms" if unit[:5] in ("ms", "milli") else unit[0]] for number, unit in units)
    return sum(seconds) if parts else None


def wait_in_words(said: str, now: float) -> float | None:
    """Seconds that a message asks to wait: `try again in 20s`, `…|1760000000`."""
    if match := _EPOCH.search(said):
        return max(0.0, float(match[1]) - now)
    match = _AGAIN.search(said)
    return duration_seconds(match[1]) if match else None


def wait_asked(headers: Mapping[str, Any], now: float) -> float | None:
    """Seconds that the headers of a reply ask to wait: Retry-After, or when a limit that is used up begins anew."""
    named = {name.lower(): str(value).strip() for name, value in headers.items()}
    if (milliseconds := _plain_number(named.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if "retry-after" in named:
        return _moment(named["retry-after"], now)
    resets = [
        name for name in named if name.startswith(("x-ratelimit-reset", "anthropic-ratelimit")) and "reset" in name
    ]
    used_up = [name for name in resets if named.get(name.replace("reset", "remaining"), "0") == "0"]
    return max((wait for name in used_up if (wait := _moment(named[name], now)) is not None), default=None)


def _plain_number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d+)?", text) else None


def _moment(text: str, now: float) -> float | None:
    """Seconds until what a header names: a time to wait, a date, or seconds or milliseconds since 1970."""
    number = _plain_number(text)
    if number is not None:
        number /= 1000 if number > 1e12 else 1
        return max(0.0, number - now) if number > 1e9 else number
    for read in (parsedate_to_datetime, _iso_date):
        try:
            return max(0.0, read(text).timestamp() - now)
        except (ValueError, OverflowError, TypeError):
            continue
    return duration_seconds(text) if re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+", text) else None


def _iso_date(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
