"""What a target of a steps run does, in the words of its spec; its command with the paths filled in, to be pasted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pipeline.core.graph import Ports, Target
from pipeline.edge.files import matches
from pipeline.steps.templates import argv, shell_line


def shown(target: Target) -> Mapping[str, Sequence[str]]:
    """A word of the spec, and the lines beside it."""
    params = target.params
    call = [f"{file}:{params['call']}" for file in dict(target.reads).get("code", ()) if "call" in params]
    arguments = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in params.get("with", {}).items()]
    return {"run": [*_command(target)], "call": call, "with": arguments, "env": [*_env(target)]}


def _command(target: Target) -> Iterator[str]:
    if "argv" in target.params:
        yield shlex.join(argv(target.params["argv"], _files(target)))
    elif "shell" in target.params:
        yield from shell_line(target.params["shell"], _files(target)).splitlines()


def _files(target: Target) -> dict[str, Sequence[str]]:
    """As they are once the outputs are in place."""
    reads, writes = _paths(target.reads), _paths(target.writes)
    every = {"in": [path for group in reads.values() for path in group], "out": target.outputs}
    return {**every, **reads, **writes}


def _paths(ports: Ports) -> dict[str, list[str]]:
    return {port: [match for path in group for match in matches(path)] for port, group in ports}


def _env(target: Target) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in target.params.get("env", {}).items())
    yield from (f"{name} (passed through)" for name in target.params.get("pass", ()))
