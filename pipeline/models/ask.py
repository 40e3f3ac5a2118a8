"""Ask a backend by name: a command, a model behind HTTP, a recording, or none.

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
from typing import Any, NamedTuple

from pipeline.errors import cut_text, did_you_mean
from pipeline.machine.confine import Confinement, landlock_version
from pipeline.machine.failures import FailureFacts, describe_exit, outage_reason
from pipeline.machine.process import BuildStopping, Exit, copy_redacted, redact_text, unnamed_file
from pipeline.models import openai
from pipeline.models.calls import DamagedCall, call_key, read_calls, recorded_answer
from pipeline.models.contract import (
    Answer,
    Backend,
    BackendUnavailable,
    CallContext,
    CallFailed,
    Question,
    Usage,
    agent_error,
    aider_error,
    json_documents,
    last_value_at,
    usage_in,
    with_price,
)
from pipeline.store.files import write_all

TIMEOUT = 3600.0


class BackendRun(NamedTuple):
    """The end of a command, its output, and its answer file."""

    exit: Exit
    printed: str
    written: str | None
    seconds: float


class BackendAnswer(NamedTuple):
    """The answer read from a run; `missing_paths`: paths of the spec without a number."""

    text: str | None
    usage: Usage
    missing_paths: list[str]


def ask_command(backend: Mapping[str, Any], question: Question, desk: CallContext) -> Answer:
    """Ask a command."""
    env, secrets = desk.processes.environment(desk.run, backend.get("env", {}), backend.get("pass", ()))
    ended = _run(backend, question, desk, env, secrets)
    if desk.processes.stopping:
        raise BuildStopping  # it may have answered our signal by ending well, half done
    answer = _read_answer(backend, ended, secrets)
    if answer.missing_paths:
        with open(question.log, "ab") as log:
            log.write(f"no number at {', '.join(answer.missing_paths)} in what it printed: counted as 0\n".encode())
    _check_answer(backend, ended, answer, secrets)
    what = redact_text(aider_error(ended.printed), secrets)
    return Answer(answer.text or "", answer.usage, ended.seconds, backend.get("model", ""), trouble=what)


def _run(
    backend: Mapping[str, Any],
    question: Question,
    desk: CallContext,
    env: Mapping[str, str],
    secrets: Mapping[str, str],
) -> BackendRun:
    """Run the command; its files are outside of the coder's folder, where they would become part of the change."""
    timeout, began = backend.get("timeout", TIMEOUT), time.monotonic()
    with TemporaryDirectory(prefix="coppice-", ignore_cleanup_errors=True) as scratch, ExitStack() as closed:
        prompt, answer = f"{scratch}/prompt.md", f"{scratch}/answer.md"
        write_all(prompt, question.prompt.encode(errors="replace"))
        argv = _argv(backend, prompt, answer)
        stdin = closed.enter_context(open(os.devnull if "prompt_file" in _names(backend) else prompt, "rb"))
        out = closed.enter_context(unnamed_file())
        try:
            streams: dict[str, Any] = {"stdin": stdin, "stdout": out}
            confined = Confinement(unreadable=desk.hidden) if desk.hidden and landlock_version() else None
            ended = desk.processes.run(
                argv, env, question.log, timeout, secrets, cwd=question.folder, confined=confined, **streams
            )
        except OSError as error:
            if error.filename != argv[0]:
                raise
            raise BackendUnavailable(f"{question.role}: cannot start '{argv[0]}': {error.strerror}") from error
        finally:
            with open(question.log, "ab") as log:
                copy_redacted(out.fileno(), log, secrets)
        out.seek(0)
        printed = out.read().decode(errors="replace")
        return BackendRun(ended, printed, _answer_file(answer), time.monotonic() - began)


def _argv(backend: Mapping[str, Any], prompt: str, answer: str) -> list[str]:
    """The words of the command.  The prompt is none of them: a text that starts with `-` would be an option."""
    names = {"prompt_file": prompt, "answer_file": answer, "project": os.getcwd(), "model": backend.get("model", "")}
    return [word.format_map(names) for word in backend["run"]]


def _names(backend: Mapping[str, Any]) -> set[str | None]:
    return {name for word in backend["run"] for _, name, _, _ in Formatter().parse(word)}


def _answer_file(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")


def _read_answer(backend: Mapping[str, Any], ended: BackendRun, secrets: Mapping[str, str]) -> BackendAnswer:
    paths: Mapping[str, Sequence[str]] = backend.get("usage", {})
    found = json_documents(ended.printed) if paths else []
    usage, lacking = usage_in(found, paths)
    text: Any = ended.written if "answer_file" in _names(backend) else ended.printed
    if "text" in paths:
        text = last_value_at(paths["text"][0], found)
    safe = redact_text(text, secrets) if isinstance(text, str) else None
    return BackendAnswer(safe, with_price(usage, backend.get("price")), lacking)


def _check_answer(
    backend: Mapping[str, Any], ended: BackendRun, answer: BackendAnswer, secrets: Mapping[str, str]
) -> None:
    """Raise the failure of a call, or an outage, which is nobody's failure; both with the cost."""
    program, cost = os.path.basename(backend["run"][0]), (answer.usage, ended.seconds)
    why, status = describe_exit(ended.exit, backend.get("timeout", TIMEOUT))
    found = agent_error(ended.printed)
    complained = redact_text(found.said, secrets)
    last = _last_words(answer)
    words = (f": {cut_text(complained)}" if complained else last) if status in (ended.exit.code, 0) else ""
    if lost := outage_reason(FailureFacts(ended.exit, asked=True, status=found.status, said=found.said)):
        raise BackendUnavailable(f"{program}: {why or 'it ended well'}{words}: {lost}; build again", *cost)
    if why:
        raise CallFailed(f"{program}: {why}{last if words else ''}", status, *cost)
    if answer.text is None:
        raise CallFailed(f"{program}: it ended well but gave no answer {_answer_place(backend)}", 1, *cost)


def _last_words(answer: BackendAnswer) -> str:
    lines = (line.strip() for line in reversed((answer.text or "").split("\n")))
    words = next(filter(None, lines), "")
    return f": {cut_text(words)}" if words else ""


def _answer_place(backend: Mapping[str, Any]) -> str:
    path = backend.get("usage", {}).get("text")
    return f"at '{path[0]}' of what it printed" if path else "in {answer_file}"


def ask_recording(backend: Mapping[str, Any], question: Question, _desk: CallContext) -> Answer:
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


def ask_nobody(_backend: Mapping[str, Any], _question: Question, _desk: CallContext) -> Answer:
    """Answer nothing, at no cost: for a search without this role."""
    return Answer("")


BACKENDS: dict[str, Backend] = {
    "command": ask_command,
    "openai": openai.ask_openai,
    "replay": ask_recording,
    "none": ask_nobody,
}
# Backends that answer no questions: a stage takes files from a folder, or waits for those of a person.
FOLDERS = ("patches", "manual")


def ask(backend: Mapping[str, Any], question: Question, desk: CallContext) -> Answer:
    """Ask a backend, given as in the params of a target: a name, and its keys."""
    name = backend["backend"]
    if name in FOLDERS:
        raise ValueError(
            f"{question.role}: backend '{name}' cannot be asked; its stage takes the answers from a folder"
        )
    if name not in BACKENDS:
        raise ValueError(f"{question.role}: backend '{name}' is unknown{did_you_mean(name, BACKENDS)}")
    return BACKENDS[name](backend, question, desk)
