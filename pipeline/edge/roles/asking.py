"""The backends by name, and asking one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.edge.roles import command, openai, replay
from pipeline.edge.roles.contract import Answer, Backend, Desk, Question
from pipeline.errors import instead


def nothing(_backend: Mapping[str, Any], _question: Question, _desk: Desk) -> Answer:
    """Says nothing, and costs nothing: for a search without this role."""
    return Answer("")


BACKENDS: dict[str, Backend] = {
    "command": command.ask,
    "openai": openai.ask,
    "replay": replay.ask,
    "none": nothing,
}
# They answer no questions: a stage takes what lies in a folder, or waits for what a person puts there.
FOLDERS = ("patches", "manual")


def ask(backend: Mapping[str, Any], question: Question, desk: Desk) -> Answer:
    """`backend` as it stands in the params of a target: a name, and the keys that go with it."""
    name = backend["backend"]
    if name in FOLDERS:
        raise ValueError(
            f"{question.role}: backend '{name}' cannot be asked; its stage takes the answers from a folder"
        )
    if name not in BACKENDS:
        raise ValueError(f"{question.role}: backend '{name}' is unknown{instead(name, BACKENDS)}")
    return BACKENDS[name](backend, question, desk)
