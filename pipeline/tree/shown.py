"""What a target of a tree run does, in words for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.tree.outlook import outlook

__all__ = ["outlook", "shown"]

# Where the parameters of a target and of its roles hold a command: its words, or a line for a shell.
COMMAND = {"argv", "shell", "run"}


def shown(target: Target) -> Mapping[str, Sequence[str]]:
    """A word, and the lines beside it."""
    params = {name: value for name, value in target.params.items() if name != "limits"}
    run = {"run": _command(params).splitlines()} if _is_command(params) else {}
    return {"stage": [target.stage], **run, **{name: [*_lines(params[name])] for name in _rest(params)}}


def _lines(value: Any) -> Iterator[str]:
    """Of what names commands, such as checks and roles, a line for each key: a command is to be pasted."""
    if _is_command(value):
        yield from (f"{name}: {_told(value[name])}" for name in _rest(value) if value[name])
        yield f"run: {_command(value)}"
    elif isinstance(value, list) and any(map(_is_command, value)):
        yield from (line for each in value for line in _lines(each))
    elif isinstance(value, dict) and any(map(_is_command, value.values())):
        for name, each in value.items():
            yield from (f"{name}{'.' if _is_command(each) else ': '}{line}" for line in _lines(each))
    else:
        yield _told(value)


def _is_command(value: Any) -> bool:
    return isinstance(value, Mapping) and not COMMAND.isdisjoint(value)


def _command(params: Mapping[str, Any]) -> str:
    """As a shell takes it; names in braces stand for what is only there while it runs."""
    (words,) = (params[name] for name in COMMAND if name in params)
    return words if isinstance(words, str) else shlex.join(words)


def _rest(params: Mapping[str, Any]) -> list[str]:
    return [name for name in params if name not in COMMAND]


def _told(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
