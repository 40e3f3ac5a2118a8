"""Ask a backend by name: a command or a client by recipe, a model behind HTTP, a recording, or none.

A command gets the prompt on its standard input or in a file, and answers by its output or a file.  A recording has
answers to the same prompts, with their cost then; any other prompt is an error."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from glob import escape, glob
from string import Formatter
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from pipeline.core.cages import FULL, LANDLOCK, PLAIN, cage_in
from pipeline.errors import cut_text
from pipeline.machine.cage import Cage
from pipeline.machine.failures import describe_exit, lacking_room
from pipeline.machine.grades import resolve_grade
from pipeline.machine.limits import default_limits, make_limits
from pipeline.machine.process import (
    BuildStopping,
    Exit,
    set_variables,
)
from pipeline.machine.redaction import copy_redacted, redact_text, unnamed_file
from pipeline.machine.visibility import visible_path
from pipeline.models.calls import DamagedCall, call_key, read_calls, recorded_answer
from pipeline.models.clients import CODER, NETWORK, RECIPES, Invocation, Reading, invocation_of
from pipeline.models.complaints import (
    ANSWERED,
    OUT,
    REFUSAL_STATUS,
    REFUSED,
    judge_call,
    program_complaint,
)
from pipeline.models.contract import (
    Answer,
    Backend,
    BackendKeys,
    BackendUnavailable,
    CallContext,
    CallFailed,
    Question,
    Usage,
    json_documents,
    last_value_at,
    outage_usage,
    priced_usage,
    usage_in,
)
from pipeline.models.endpoints import PROTOCOLS, ask_endpoint
from pipeline.store.files import write_all
from pipeline.store.folders import delete_tree

TIMEOUT = 3600.0
# So much of what a program prints is read and logged; of more, the first and the last part.
LONGEST_OUTPUT = 8 * 1024 * 1024
_KEPT_PART = 256 * 1024


class Printed(NamedTuple):
    """Traces of a program: its end, standard output and error, answer file, and what secrets they may hold.

    `cut`: it printed more; `too_much`: what of it was too large to be read, in words."""

    ended: Exit
    text: str
    errors: str
    answer: str | None
    seconds: float
    secrets: Mapping[str, str]
    cut: bool
    too_much: str


class Reply(NamedTuple):
    """An answer as it was found in the traces of a program (None: there is none at `place`), and what it cost."""

    text: str | None
    place: str
    usage: Usage
    is_whole: bool = True


def ask_command(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a command.  Its answer is what it printed, its answer file, or the text at a path of printed JSON."""
    call = Invocation(backend["run"], backend.get("env", {}), backend.get("pass", ()))
    paths: Mapping[str, Sequence[str]] = backend.get("usage", {})
    printed = _run(backend, call, question, desk)
    documents = json_documents(printed.text) if paths else []
    usage, unsure = usage_in(documents, paths, backend.get("price"))
    if paths and unsure:
        _log(question, f"usage, in what it printed: {'; '.join(unsure)}")
    text: Any = printed.answer if "answer_file" in _names(call.run) else printed.text
    place = "in {answer_file}"
    if "text" in paths:
        text, place = last_value_at(paths["text"][0], documents), f"at '{paths['text'][0]}' of what it printed"
    reply = Reply(text if isinstance(text, str) else None, place, usage)
    return _checked_answer(backend, question, printed, reply)


def ask_client(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a client by its recipe, and remove what it leaves in the working folder."""
    recipe = RECIPES[backend["backend"]]
    can_nest = resolve_grade(cage_in(backend).sandbox) != LANDLOCK
    variables = set_variables((*recipe.keys, *recipe.urls, *recipe.scratch, *NETWORK))
    call = invocation_of(backend, question.role, can_nest, variables)
    before = _litter(question.folder, call)
    try:
        printed = _run(backend, call, question, desk)
    finally:
        for path in _litter(question.folder, call) - before:
            _remove_litter(path, question)
    reading = recipe.read(printed.text, printed.answer)
    if printed.cut:  # what it spent may stand in the part that was left out
        reading = reading._replace(amounts={})
    usage, unsure = _usage_of(reading, backend)
    if unsure:
        _log(question, f"usage, in what {backend['backend']} printed: {'; '.join(unsure)}")
    # Without a word a coder's work is the change all the same.
    text = "" if reading.text is None and question.role == CODER else reading.text
    return _checked_answer(backend, question, printed, Reply(text, "in what it printed", usage, reading.is_whole))


def _usage_of(reading: Reading, backend: BackendKeys) -> tuple[Usage, list[str]]:
    """The usage that a client tells, and what is wrong with it."""
    lacking = [f"no {name}" for name in ("input_tokens", "output_tokens") if name not in reading.amounts]
    usage, unsure = priced_usage(reading.amounts, backend.get("price"))
    return usage, [*lacking, *unsure]


def _litter(folder: str, call: Invocation) -> set[str]:
    return {path for pattern in call.litter for path in glob(os.path.join(escape(folder), pattern))}


def _remove_litter(path: str, question: Question) -> None:
    """Remove what a client has left; what it still writes to may stay: its answer was paid for."""
    try:
        delete_tree(path)
    except OSError as error:
        _log(question, f"left in the working folder: {error}")


def _log(question: Question, text: str) -> None:
    with lacking_room(), open(question.log, "ab") as log:
        log.write(f"{text}\n".encode(errors="replace"))


def _run(backend: BackendKeys, call: Invocation, question: Question, desk: CallContext) -> Printed:
    """Run a program.  Files of the call stay out of the coder's folder, which is the change.

    The prompt is none of its words: a text that starts with `-` would be an option."""
    timeout, places = backend.get("timeout", TIMEOUT), {"project": os.getcwd(), "model": backend.get("model", "")}
    env, began = desk.processes.environment(desk.run, call.env, call.passed, call.plain), time.monotonic()
    with TemporaryDirectory(prefix="coppice-", ignore_cleanup_errors=True) as scratch, ExitStack() as closed:
        prompt, answer = f"{scratch}/prompt.md", f"{scratch}/answer.md"
        write_all(prompt, question.prompt.encode(errors="replace"))
        for name, text in call.files.items():
            os.makedirs(os.path.dirname(f"{scratch}/{name}"), exist_ok=True)
            write_all(f"{scratch}/{name}", text.encode())
        own = {name: f"{scratch}/{path}".rstrip("/") for name, path in call.places.items()}
        os.makedirs(own.get("TMPDIR", scratch), exist_ok=True)
        env = env._replace(variables={**env.variables, **own})
        argv = [word.format_map({**places, "prompt_file": prompt, "answer_file": answer}) for word in call.run]
        stdin = closed.enter_context(open(os.devnull if "prompt_file" in _names(call.run) else prompt, "rb"))
        out = closed.enter_context(unnamed_file())
        start = os.path.getsize(question.log) if os.path.exists(question.log) else 0
        errors = ""
        try:
            cage = _cage(backend, call, question, desk, scratch)
            ended = desk.processes.run(
                argv, env, question.log, timeout, cwd=question.folder, stdin=stdin, stdout=out, cage=cage
            )
        except OSError as error:
            if error.filename != argv[0]:
                raise
            why = f"{question.role}: cannot start '{argv[0]}': {error.strerror}"
            raise BackendUnavailable(why, kind="missing") from error
        finally:
            errors = _cut_log(question.log, start)
            cut = _cut_file(out)
            with lacking_room(), open(question.log, "ab") as log:
                copy_redacted(out.fileno(), log, env.secrets)
        if desk.processes.stopping:
            raise BuildStopping  # it may have answered our signal by ending well, half done
        out.seek(0)
        written, is_large = _read_answer(answer)
        too_much = f"it {'printed' if cut else 'wrote'} more than {LONGEST_OUTPUT // 1024 // 1024} MB"
        texts, seconds = (out.read().decode(errors="replace"), errors, written), time.monotonic() - began
        return Printed(ended, *texts, seconds, env.secrets, cut, too_much if cut or is_large else "")


def held_cage(backend: BackendKeys) -> tuple[str, str]:
    """The grade and the network that a program has here; empty of a backend that is none."""
    if backend["backend"] not in PROGRAMS:
        return "", ""
    keys = cage_in(backend)
    grade = resolve_grade(keys.sandbox)
    return grade, FULL if grade == PLAIN else keys.network or FULL


def _cage(backend: BackendKeys, call: Invocation, question: Question, desk: CallContext, scratch: str) -> Cage:
    """The cage of a program that is asked: its working folder and the call's own, a network, and its files in HOME."""
    keys, (grade, network) = cage_in(backend), held_cage(backend)
    limits = make_limits(keys.limits, default_limits())
    folder = os.path.realpath(question.folder)
    visible = tuple(map(visible_path, (*backend.get("reads", ()), *keys.visible, *call.visible)))
    visible = (*visible, *desk.visible)
    return Cage(grade, network, limits, folder, (folder, scratch), visible, desk.hidden, nested=True)


def _read_answer(path: str) -> tuple[str | None, bool]:
    """The answer file, None if there is none; and if it is larger than a printed answer may be, and was not read."""
    if not os.path.isfile(path):
        return None, False
    with open(path, "rb") as file:
        content = file.read(LONGEST_OUTPUT + 1)
    is_large = len(content) > LONGEST_OUTPUT
    return None if is_large else content.decode(errors="replace"), is_large


def _cut_file(file: IO[bytes], start: int = 0) -> bool:
    """Cut the middle out of what was written since `start` if it is too long; check if it was."""
    size = os.fstat(file.fileno()).st_size - start
    if size <= LONGEST_OUTPUT:
        return False
    head = os.pread(file.fileno(), _KEPT_PART, start)
    tail = os.pread(file.fileno(), _KEPT_PART, start + size - _KEPT_PART)
    os.ftruncate(file.fileno(), start)
    os.lseek(file.fileno(), start, os.SEEK_SET)
    left = size - len(head) - len(tail)
    note = f"\n[{left} bytes in the middle of what it printed were left out]\n".encode()
    for part in (head, note, tail):
        os.write(file.fileno(), part)
    return True


def _cut_log(path: str, start: int) -> str:
    """The end of what a program wrote to a log since `start`, which is shortened if it is too long."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb+") as file:
        _cut_file(file, start)
        size = os.fstat(file.fileno()).st_size
        place = max(start, size - _KEPT_PART)
        return os.pread(file.fileno(), size - place, place).decode(errors="replace")


def _names(words: Sequence[str]) -> set[str | None]:
    return {name for word in words for _, name, _, _ in Formatter().parse(word)}


def _checked_answer(backend: BackendKeys, question: Question, printed: Printed, reply: Reply) -> Answer:
    """The answer, redacted; or the failure of a call, or an outage, which is nobody's failure; both with the cost."""
    program = os.path.basename(backend["run"][0]) if "run" in backend else backend["backend"]
    safe = None if reply.text is None else redact_text(reply.text, printed.secrets)
    cost = (reply.usage, printed.seconds)
    why, code = describe_exit(printed.ended, backend.get("timeout", TIMEOUT))
    complaint = program_complaint(printed.text, printed.errors, backend.get("outage", {}), bool(why), time.time())
    complaint = complaint._replace(said=redact_text(complaint.said, printed.secrets))
    is_lost = bool(printed.too_much) and (safe is None or len(safe) > _KEPT_PART)
    end = judge_call(printed.ended, complaint, question.role != CODER and not why and (is_lost or not reply.is_whole))
    last = next((line.strip() for line in reversed((safe or "").split("\n")) if line.strip()), "")
    words = (complaint.said or last) if code in (printed.ended.code, 0) else ""
    said = f": {cut_text(words)}" if words else ""
    what = f"{program}: {why or (printed.too_much if is_lost else '') or 'it ended well'}{said}"
    if end.how == OUT and end.outage:
        kind, spent = end.outage.kind, outage_usage(cost[0], end.outage.kind)
        outage = BackendUnavailable(f"{what}: {end.why}", spent, cost[1], kind, complaint.after)
        if question.role == CODER and not why and complaint.is_plain_text:
            return Answer(safe or "", *cost, backend.get("model", ""), trouble=outage)
        raise outage
    if end.how != ANSWERED:
        reason = f": {end.why}" if end.how == REFUSED or not why else ""
        raise CallFailed(f"{what}{reason}", REFUSAL_STATUS if end.how == REFUSED else code or 1, *cost)
    if safe is None:
        raise CallFailed(f"{program}: it ended well but gave no answer {reply.place}", 1, *cost)
    return Answer(safe, *cost, backend.get("model", ""))


def ask_recording(backend: BackendKeys, question: Question, _desk: CallContext) -> Answer:
    """Answer from the recorded calls of a folder: the last answer, or a failure if there is none."""
    folder, key = backend["folder"], call_key(question.role, question.prompt, question.ground)
    try:
        paths = sorted(glob(os.path.join(escape(folder), "**", "*.jsonl"), recursive=True))
        calls = [call for path in paths for call in read_calls(path, key) if call.is_settled]
    except (DamagedCall, OSError) as error:
        raise BackendUnavailable(f"{question.role}: {error}") from error
    if not calls:
        raise BackendUnavailable(
            f"{question.role}: {question.name}: no answer is recorded in {folder} for call {key}; "
            f"to record it, run with another backend, then copy what it leaves in calls.jsonl into the folder"
        )
    return recorded_answer(next((call for call in reversed(calls) if not call.exit), calls[-1]))


def ask_nobody(_backend: BackendKeys, _question: Question, _desk: CallContext) -> Answer:
    """Answer nothing, at no cost: for a search without this role."""
    return Answer("")


BACKENDS: dict[str, Backend] = {
    "command": ask_command,
    **dict.fromkeys(RECIPES, ask_client),
    **dict.fromkeys(PROTOCOLS, ask_endpoint),
    "replay": ask_recording,
    "none": ask_nobody,
}
PROGRAMS = frozenset({"command", *RECIPES})
PAID = PROGRAMS | {*PROTOCOLS}  # those whose answers may have to be paid


def ask(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a backend, given as in the params of a target: a name, and its keys."""
    return BACKENDS[backend["backend"]](backend, question, desk)
