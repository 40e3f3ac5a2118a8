"""The target that says what a search may not change."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft
from pipeline.tree.model import Command, TreeSpec

_TREE = "{tree}"


def protected(draft: Draft) -> Target:
    """As it is when a run begins.  Files of the project are no inputs: what is changed there is refused, not redone."""
    spec = draft.spec
    reads = {"root": draft.at.of_run("root.json")}
    params: dict[str, Any] = {"repo": [*spec.protect.repo], "project": [*spec.protect.project]}
    params["looked_in"] = sorted({folder for command in _commands(spec) for folder in _looked_in(command.env)})
    if spec.protect.project:  # another run begins on another day
        params["run"] = spec.name
    return draft.target("protected", "protected", reads, draft.guarded, params, line=spec.protect.line)


def _commands(spec: TreeSpec) -> Iterator[Command]:
    yield spec.sweep.command
    if spec.tests:
        yield spec.tests
    yield from (check.command for check in spec.checks)


def _looked_in(env: Mapping[str, str]) -> Iterator[str]:
    """Folders of the checkout, from its top on, in which Python is told to look for modules."""
    for part in env.get("PYTHONPATH", "").split(":"):
        path = posixpath.normpath(part.removeprefix(_TREE).lstrip("/") if part.startswith(_TREE) else part)
        if part and not path.startswith(("/", "{", "..")):
            yield "" if path == "." else path
