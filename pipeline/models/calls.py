"""Calls that have ended, a line of JSON each: a question that was paid for is not asked again.

Recorded calls can be replayed elsewhere.  A call is noted before it is sent, in a file of its own: one that a kill
broke off may have to be paid, though it has no end on record."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pipeline.machine.failures import NOT_NOW
from pipeline.models.contract import Answer, BackendUnavailable, CallFailed, Question, Usage, valid_amount
from pipeline.store.files import append_lines, open_plain, whole_lines

CALLS_FILE = "calls.jsonl"
RETIRED = "calls-"
ASKED_FILE = "asked.log"  # not *.jsonl: a recording is searched for calls in those
_NO_CALL = "not a recorded call; mend the line or remove it"
_TEXTS = (
    "key", "role", "backend", "model", "prompt_sha256", "prompt", "text", "patch", "error", "partial", "sandbox",
    "network",
)  # fmt: skip
FIELD_TYPES: dict[str, type] = {**dict.fromkeys(_TEXTS, str), "usage": dict, "exit": int}


class Call(NamedTuple):
    """A call that has ended.  `patch`: a coder's change, in base64.  `exit` is 0 for an answer; else `error` says why.

    It is NOT_NOW where the service was at fault: the cost counts, and it is nobody's failure.  `partial` and `left_out`
    are those of the answer, and are written only where there are any; so are `sandbox` and `network`, the cage that a
    program was asked in."""

    key: str
    role: str
    backend: str
    model: str
    prompt_sha256: str
    prompt: str
    text: str
    patch: str
    usage: Usage
    seconds: float
    exit: int
    error: str
    partial: str = ""
    left_out: tuple[str, ...] = ()
    sandbox: str = ""
    network: str = ""

    @property
    def is_settled(self) -> bool:
        return self.exit != NOT_NOW


class AskedCall(NamedTuple):
    """A call that was noted before it was sent.  `usd`: 0 of a model that costs nothing, None where nobody knows yet.

    `after`: how many calls had ended then."""

    role: str
    usd: float | None
    after: int


class DamagedCall(Exception):
    """A line that is no recorded call; the message has file and line."""


def call_key(role: str, prompt: str, ground: str = "") -> str:
    """The key of a call: equal for the same prompt to the same role about the same files."""
    about = f"{ground}\0" if ground else ""
    return sha256(f"{about}{role}\0{prompt}".encode("utf-8", "surrogatepass")).hexdigest()


def answered_call(backend: Mapping[str, Any], question: Question, answer: Answer, patch: bytes = b"") -> Call:
    """The call of an answered question; `patch`: the change in the folder."""
    role, prompt = question.role, question.prompt
    content = sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
    head = (call_key(role, prompt, question.ground), role, backend["backend"], answer.model, content, prompt)
    ended = (answer.text, b64encode(patch).decode(), answer.usage, answer.seconds, 0, "")
    return Call(*head, *ended, answer.partial, answer.left_out)


def failed_call(backend: Mapping[str, Any], question: Question, failure: CallFailed | BackendUnavailable) -> Call:
    call = answered_call(backend, question, Answer("", failure.usage, failure.seconds, backend.get("model", "")))
    return call._replace(exit=failure.exit if isinstance(failure, CallFailed) else NOT_NOW, error=str(failure))


def recorded_answer(call: Call) -> Answer:
    """The answer of a recorded call; or its failure, raised again."""
    if call.exit or call.error:
        raise CallFailed(call.error, call.exit, call.usage, call.seconds)
    patch = b64decode(call.patch)
    return Answer(call.text, call.usage, call.seconds, call.model, patch, None, call.partial, call.left_out)


def call_line(call: Call) -> bytes:
    told = {name: value for name, value in call._asdict().items() if value or name not in Call._field_defaults}
    return json.dumps({**told, "usage": call.usage._asdict()}).encode() + b"\n"


def read_calls(path: str, key: str = "") -> Iterator[Call]:
    """Calls in the order of the file, only those of `key` if it is given.  A torn last line was never written."""
    with open_plain(path) as file:
        for number, line in enumerate(whole_lines(file), 1):
            if key.encode() in line:
                call = parse_call(line, f"{path}:{number}")
                if key in ("", call.key):
                    yield call


def parse_call(line: bytes, where: str) -> Call:
    """The call in a line of a journal; DamagedCall, with `where` it stands, if it holds none."""
    try:
        record = {**Call._field_defaults, **json.loads(line)}
        usage = Usage(**record["usage"])
        known = [] if usage.usd is None else [usage.usd]
        amounts = [valid_amount(number) for number in (record["seconds"], *known, *usage[1:])]
        is_call = all(type(record[name]) is kind for name, kind in FIELD_TYPES.items()) and None not in amounts
        b64decode(record["patch"], validate=True)
        left_out = tuple(record["left_out"])
        if is_call and not isinstance(record["left_out"], str) and all(isinstance(name, str) for name in left_out):
            return Call(**{**record, "usage": usage, "left_out": left_out})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedCall(f"{where}: {_NO_CALL}") from error
    raise DamagedCall(f"{where}: {_NO_CALL}")


def cost_of_calls(calls: Sequence[Call]) -> dict[str, Any]:
    """The cost of calls together, the failed ones too; `unknown_calls`, if there are any: those of unknown price."""
    unknown = sum(call.usage.usd is None for call in calls)
    return {
        **({"unknown_calls": unknown} if unknown else {}),
        "usd": sum(call.usage.usd or 0.0 for call in calls),
        "tokens": sum(call.usage.input_tokens + call.usage.output_tokens for call in calls),
        "seconds": round(sum(call.seconds for call in calls), 3),
    }


def journals(folder: str) -> list[str]:
    """The files with the calls of one target, those put aside too."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    own = (name for name in names if name == CALLS_FILE or (name.startswith(RETIRED) and name.endswith(".jsonl")))
    return [os.path.join(folder, name) for name in sorted(own)]


def unended_calls(folder: str) -> list[AskedCall]:
    """The calls of a target that were noted and have no end on record: broken off, or under way.

    Calls of one target are made one after another, so each that ended has more calls on record after it."""
    found: list[AskedCall] = []
    last: AskedCall | None = None
    for note in _notes(os.path.join(folder, ASKED_FILE)):
        if last and note and note.after == last.after:
            found.append(last)
        last = note
    return [*found, last] if last and last.after == _ended_count(folder) else found


def _notes(path: str) -> Iterator[AskedCall | None]:
    """The notes of a file; None: the call before was refused and cost nothing."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        for line in whole_lines(file):
            record = json.loads(line)
            yield AskedCall(**record) if record else None


def _ended_count(folder: str) -> int:
    count = 0
    for path in journals(folder):
        with open(path, "rb") as file:
            count += sum(1 for _ in whole_lines(file))
    return count


class Calls:
    """The journal of calls of one target: after a break they are there the next time."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, CALLS_FILE)

    def note_asked(self, role: str, usd: float | None) -> None:
        """Note that a call is about to be made.  It outlives a kill of this process, not a power cut."""
        self._note(AskedCall(role, usd, _ended_count(os.path.dirname(self.path)))._asdict())

    def note_unpaid(self) -> None:
        """Note that the last call was refused and cost nothing: it will not be on record."""
        self._note({})

    def _note(self, record: Mapping[str, Any]) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        append_lines(os.path.join(folder, ASKED_FILE), json.dumps(record).encode() + b"\n", cut=True)

    def read_all(self) -> list[Call]:
        """All calls, in the order in which they ended."""
        return [*read_calls(self.path)] if os.path.exists(self.path) else []

    def retire(self) -> None:
        """Put the calls so far aside, as `calls-0.jsonl` and on: they are not used again, and were paid for."""
        folder = os.path.dirname(self.path)
        past = sum(each.startswith(RETIRED) for each in os.listdir(folder))
        os.rename(self.path, os.path.join(folder, f"{RETIRED}{past}.jsonl"))

    def append(self, call: Call) -> None:
        """Append a call; it is on the disk when this returns."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        append_lines(self.path, call_line(call), cut=True, durable=True)
