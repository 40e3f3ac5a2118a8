"""Asks a program: the prompt on its standard input or in a file, the answer from its output or a file."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from string import Formatter
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from pipeline.edge.confine import Confined, abi
from pipeline.edge.ended import Failure, outage, verdict
from pipeline.edge.files import write_all
from pipeline.edge.process import Exit, Stopping
from pipeline.edge.redact import copy_redacted, redacted, unnamed
from pipeline.edge.roles.contract import Answer, Desk, Failed, Question, Unavailable, Usage, priced
from pipeline.edge.roles.printed import complaint, documents, last_at, trouble, usage_in
from pipeline.errors import clipped

TIMEOUT = 3600.0


class Ended(NamedTuple):
    """How the command ended, what it printed, and what it wrote as its answer."""

    exit: Exit
    printed: str
    written: str | None
    seconds: float


class Said(NamedTuple):
    """What all that is read as; `lacking` are paths of the spec at which there was nothing."""

    text: str | None
    usage: Usage
    lacking: list[str]


def ask(backend: Mapping[str, Any], question: Question, desk: Desk) -> Answer:
    env, secrets = desk.processes.environment(desk.run, backend.get("env", {}), backend.get("pass", ()))
    ended = _ended(backend, question, desk, env, secrets)
    if desk.processes.stopping:
        raise Stopping  # it may have answered our signal by ending well, half done
    said = _said(backend, ended, secrets)
    if said.lacking:
        with open(question.log, "ab") as log:
            log.write(f"no number at {', '.join(said.lacking)} in what it printed: counted as 0\n".encode())
    _check(backend, ended, said, secrets)
    what = redacted(trouble(ended.printed), secrets)
    return Answer(said.text or "", said.usage, ended.seconds, backend.get("model", ""), trouble=what)


def _ended(
    backend: Mapping[str, Any], question: Question, desk: Desk, env: Mapping[str, str], secrets: Mapping[str, str]
) -> Ended:
    """Outside of the folder, where a file would become part of the change."""
    timeout, began = backend.get("timeout", TIMEOUT), time.monotonic()
    with TemporaryDirectory(prefix="coppice-", ignore_cleanup_errors=True) as scratch, ExitStack() as closed:
        prompt, answer = f"{scratch}/prompt.md", f"{scratch}/answer.md"
        write_all(prompt, question.prompt.encode(errors="replace"))
        argv = _argv(backend, prompt, answer)
        stdin = closed.enter_context(open(os.devnull if "prompt_file" in _names(backend) else prompt, "rb"))
        out = closed.enter_context(unnamed())
        try:
            streams: dict[str, Any] = {"stdin": stdin, "stdout": out}
            confined = Confined(unreadable=desk.hidden) if desk.hidden and abi() else None
            ended = desk.processes.run(
                argv, env, question.log, timeout, secrets, cwd=question.folder, confined=confined, **streams
            )
        except OSError as error:
            if error.filename != argv[0]:
                raise
            raise Unavailable(f"{question.role}: cannot start '{argv[0]}': {error.strerror}") from error
        finally:
            _to_log(out, question.log, secrets)
        return Ended(ended, _content(out), _written(answer), time.monotonic() - began)


def _argv(backend: Mapping[str, Any], prompt: str, answer: str) -> list[str]:
    """The prompt itself is never among the words: a text that starts with `-` would be an option."""
    names = {"prompt_file": prompt, "answer_file": answer, "project": os.getcwd(), "model": backend.get("model", "")}
    return [word.format_map(names) for word in backend["run"]]


def _names(backend: Mapping[str, Any]) -> set[str | None]:
    return {name for word in backend["run"] for _, name, _, _ in Formatter().parse(word)}


def _to_log(out: IO[bytes], path: str, secrets: Mapping[str, str]) -> None:
    with open(path, "ab") as log:
        copy_redacted(out.fileno(), log, secrets)


def _content(out: IO[bytes]) -> str:
    out.seek(0)
    return out.read().decode(errors="replace")


def _written(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")


def _said(backend: Mapping[str, Any], ended: Ended, secrets: Mapping[str, str]) -> Said:
    paths: Mapping[str, Sequence[str]] = backend.get("usage", {})
    found = documents(ended.printed) if paths else []
    usage, lacking = usage_in(found, paths)
    text: Any = ended.written if "answer_file" in _names(backend) else ended.printed
    if "text" in paths:
        text = last_at(paths["text"][0], found)
    safe = redacted(text, secrets) if isinstance(text, str) else None
    return Said(safe, priced(usage, backend.get("price")), lacking)


def _check(backend: Mapping[str, Any], ended: Ended, said: Said, secrets: Mapping[str, str]) -> None:
    """Failed, with what it cost all the same; or nobody's failure."""
    program = os.path.basename(backend["run"][0])
    why, status = verdict(ended.exit, backend.get("timeout", TIMEOUT))
    found = complaint(ended.printed)
    told = redacted(found.said, secrets)
    words = (f": {clipped(told)}" if told else _last_words(said)) if status in (ended.exit.code, 0) else ""
    if lost := outage(Failure(ended.exit, asked=True, status=found.status, said=found.said)):
        raise Unavailable(f"{program}: {why or 'it ended well'}{words}: {lost}; build again", said.usage, ended.seconds)
    if why:
        raise Failed(f"{program}: {why}{_last_words(said) if words else ''}", status, said.usage, ended.seconds)
    if said.text is None:
        raise Failed(f"{program}: it ended well but gave no answer {_place(backend)}", 1, said.usage, ended.seconds)


def _last_words(said: Said) -> str:
    lines = (said.text or "").split("\n")
    return (
        f": {clipped(words)}" if (words := next((line.strip() for line in reversed(lines) if line.strip()), "")) else ""
    )


def _place(backend: Mapping[str, Any]) -> str:
    path = backend.get("usage", {}).get("text")
    return f"at '{path[0]}' of what it printed" if path else "in {answer_file}"
