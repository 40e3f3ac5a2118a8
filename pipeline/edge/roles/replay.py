"""Gives the answers that were recorded for the same prompts, with what they cost then; any other is an error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from glob import escape, glob
from typing import Any

from pipeline.edge.roles.calls import Call, Damaged, call_key, calls_in, told
from pipeline.edge.roles.contract import Answer, Desk, Question, Unavailable


def ask(backend: Mapping[str, Any], question: Question, _desk: Desk) -> Answer:
    folder, key = backend["folder"], call_key(question.role, question.prompt, question.ground)
    try:
        calls = [call for path in _files(folder) for call in calls_in(path, key) if call.settled]
    except (Damaged, OSError) as error:
        raise Unavailable(f"{question.role}: {error}") from error
    if not calls:
        raise Unavailable(
            f"{question.role}: {question.name}: no answer is recorded in {folder} for call {key}; "
            f"to record it, run with another backend, then copy what it leaves in calls.jsonl into the folder"
        )
    return told(_chosen(calls))


def _files(folder: str) -> list[str]:
    return sorted(glob(os.path.join(escape(folder), "**", "*.jsonl"), recursive=True))


def _chosen(calls: list[Call]) -> Call:
    """The last answer; a failure only if there is none."""
    return next((call for call in reversed(calls) if not call.exit), calls[-1])
