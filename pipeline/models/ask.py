"""Ask a backend by name: a command, a model behind HTTP, a recording, or none.

A command gets the prompt on its standard input or in a file, and answers by its output or a file.  A recording has
answers to the same prompts, with their cost then; any other prompt is an error."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from glob import escape, glob
from string import Formatter
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.errors import cut_text
from pipeline.machine.confine import Confinement, landlock_version
from pipeline.machine.failures import FROM_OUTSIDE, FailureFacts, describe_exit, outage_reason, signal_of
from pipeline.machine.process import BuildStopping, Environment, Exit, copy_redacted, redact_text, unnamed_file
from pipeline.models import openai
from pipeline.models.calls import DamagedCall, call_key, read_calls, recorded_answer
from pipeline.models.contract import (
    Answer,
    Backend,
    BackendKeys,
    BackendUnavailable,
    CallContext,
    CallFailed,
    Question,
    json_documents,
    last_value_at,
    refused_usage,
    usage_in,
    value_at,
)
from pipeline.store.files import read_bytes, write_all

TIMEOUT = 3600.0


# Claude Code gave up by its own limits: a matter of the question, not of the service.
_OWN_LIMITS = "error_max_"
_STATUS = re.compile(r"(?:status(?: code)?|API Error):? (\d{3})\b", re.IGNORECASE)
# The last line of aider when its model cannot be reached; it ends with 0 all the same.
_LITELLM = re.compile(
    r"^litellm\.(?:Authentication|PermissionDenied|RateLimit|InternalServer|ServiceUnavailable|BadGateway|APIConnection|API)"
    r"Error\b.*|^litellm\.Timeout\b.*",
    re.MULTILINE,
)


def ask_command(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a command.  Its answer is what it printed, its answer file, or the text at a path of printed JSON."""
    env = desk.processes.environment(desk.run, backend.get("env", {}), backend.get("pass", ()))
    began = time.monotonic()
    ended, printed, written = _run(backend, question, desk, env)
    if desk.processes.stopping:
        raise BuildStopping  # it may have answered our signal by ending well, half done
    paths: Mapping[str, Sequence[str]] = backend.get("usage", {})
    documents = json_documents(printed) if paths else []
    usage, unsure = usage_in(documents, paths, backend.get("price"))
    if paths and unsure:
        with open(question.log, "ab") as log:
            log.write(f"usage, in what it printed: {'; '.join(unsure)}\n".encode())
    text: Any = written if "answer_file" in _names(backend) else printed
    if "text" in paths:
        text = last_value_at(paths["text"][0], documents)
    safe = redact_text(text, env.secrets) if isinstance(text, str) else None
    answer = Answer(safe or "", usage, time.monotonic() - began)
    _check_answer(backend, ended, printed, answer, env.secrets)
    if safe is None:
        place = f"at '{paths['text'][0]}' of what it printed" if "text" in paths else "in {answer_file}"
        what = f"{os.path.basename(backend['run'][0])}: it ended well but gave no answer {place}"
        raise CallFailed(what, 1, answer.usage, answer.seconds)
    aider = [match[0] for match in _LITELLM.finditer(printed)]  # the last: a retry may have reached the model
    trouble = redact_text(aider[-1], env.secrets) if aider else ""
    return answer._replace(model=backend.get("model", ""), trouble=trouble)


def _run(backend: BackendKeys, question: Question, desk: CallContext, env: Environment) -> tuple[Exit, str, str | None]:
    """Run the command: its end, output and answer file.  Files stay out of the coder's folder, which is the change.

    The prompt is none of its words: a text that starts with `-` would be an option."""
    timeout, places = backend.get("timeout", TIMEOUT), {"project": os.getcwd(), "model": backend.get("model", "")}
    with TemporaryDirectory(prefix="coppice-", ignore_cleanup_errors=True) as scratch, ExitStack() as closed:
        prompt, answer = f"{scratch}/prompt.md", f"{scratch}/answer.md"
        write_all(prompt, question.prompt.encode(errors="replace"))
        argv = [word.format_map({**places, "prompt_file": prompt, "answer_file": answer}) for word in backend["run"]]
        stdin = closed.enter_context(open(os.devnull if "prompt_file" in _names(backend) else prompt, "rb"))
        out = closed.enter_context(unnamed_file())
        try:
            cage = Confinement(unreadable=desk.hidden) if desk.hidden and landlock_version() else None
            ended = desk.processes.run(
                argv, env, question.log, timeout, cwd=question.folder, stdin=stdin, stdout=out, confined=cage
            )
        except OSError as error:
            if error.filename != argv[0]:
                raise
            raise BackendUnavailable(f"{question.role}: cannot start '{argv[0]}': {error.strerror}") from error
        finally:
            with open(question.log, "ab") as log:
                copy_redacted(out.fileno(), log, env.secrets)
        out.seek(0)
        written = read_bytes(answer).decode(errors="replace") if os.path.isfile(answer) else None
        return ended, out.read().decode(errors="replace"), written


def _names(backend: BackendKeys) -> set[str | None]:
    return {name for word in backend["run"] for _, name, _, _ in Formatter().parse(word)}


def _check_answer(backend: BackendKeys, ended: Exit, printed: str, answer: Answer, secrets: Mapping[str, str]) -> None:
    """Raise the failure of a call, or an outage, which is nobody's failure; both with the cost."""
    program = os.path.basename(backend["run"][0])
    why, code = describe_exit(ended, backend.get("timeout", TIMEOUT))
    status, said = _agent_error(printed)
    lines = (line.strip() for line in reversed(answer.text.split("\n")))
    last = next(filter(None, lines), "")
    words = redact_text(said, secrets) or last if code in (ended.code, 0) else ""
    if lost := outage_reason(FailureFacts(ended, asked=True, status=status, said=said)):
        complaint = f": {cut_text(words)}" if words else ""
        broken_off = ended.timed_out or signal_of(ended) in FROM_OUTSIDE  # it may have been paid for by then
        spent = answer.usage if broken_off else refused_usage(answer.usage)
        what = f"{program}: {why or 'it ended well'}{complaint}: {lost}; build again"
        raise BackendUnavailable(what, spent, answer.seconds)
    if why:
        raise CallFailed(
            f"{program}: {why}{f': {cut_text(last)}' if words and last else ''}", code, answer.usage, answer.seconds
        )


def _agent_error(text: str) -> tuple[int | None, str]:
    """Complaint in the last message of Claude Code or Codex: the status of its service if it names one, and words."""
    if '"is_error"' not in text and '"turn.failed"' not in text:
        return None, ""
    messages = [each for each in json_documents(text) if isinstance(each, dict)]
    ends = [each for each in messages if "is_error" in each or each.get("type") in ("turn.failed", "turn.completed")]
    last, status = ends[-1] if ends else {}, None
    if last.get("type") == "turn.failed":
        texts = [value_at("error.message", last)]
    elif last.get("is_error") is not True or str(last.get("subtype", "")).startswith(_OWN_LIMITS):
        return None, ""
    else:
        texts = [said for name in ("subtype", "error", "result") if (said := last.get(name)) != "success"]
        status = last.get("api_error_status")
    words = " ".join(word for text in texts if isinstance(text, str) for word in text.split())
    match = _STATUS.search(words)
    return status if type(status) is int else int(match[1]) if match else None, words


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
    "openai": openai.ask_openai,
    "replay": ask_recording,
    "none": ask_nobody,
}


def ask(backend: BackendKeys, question: Question, desk: CallContext) -> Answer:
    """Ask a backend, given as in the params of a target: a name, and its keys."""
    return BACKENDS[backend["backend"]](backend, question, desk)
