"""What a target of a steps run does, in the words of its spec; its command with the paths filled in, to be pasted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.templates import argv, files, shell_line
from pipeline.edge.files import matched


def shown(target: Target) -> Mapping[str, Sequence[str]]:
    """A word of the spec, and the lines beside it."""
    params = target.params
    call = [f"{file}:{params['call']}" for file in dict(target.reads).get("code", ()) if "call" in params]
    arguments = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in params.get("with", {}).items()]
    return {"run": [*_command(target)], "call": call, "with": arguments, "env": [*_env(target)]}


def _command(target: Target) -> Iterator[str]:
    if "argv" in target.params:
        yield shlex.join(argv(target.params["argv"], files(matched(target.reads), matched(target.writes))))
    elif "shell" in target.params:
        yield from shell_line(target.params["shell"], files(matched(target.reads), matched(target.writes))).splitlines()


def _env(target: Target) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in target.params.get("env", {}).items())
    yield from (f"{name} (passed through)" for name in target.params.get("pass", ()))


def outlook(_targets: Sequence[Target]) -> Sequence[str]:
    """Its targets say all there is to say."""
    return ()
