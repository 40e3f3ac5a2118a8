"""Description of a target of `kind: steps` in the words of its spec.

Its command has the paths filled in, to be pasted into a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.templates import files_by_name, fill_argv, fill_shell_line
from pipeline.store.files import files_by_port


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """Words of the spec for a target, and the lines beside each."""
    params = target.params
    call = [f"{file}:{params['call']}" for file in dict(target.reads).get("code", ()) if "call" in params]
    arguments = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in params.get("with", {}).items()]
    env = [f"{name}={value}" for name, value in params.get("env", {}).items()]
    env += (f"{name} (passed through)" for name in params.get("pass", ()))
    return {"run": [*_command(target)], "call": call, "with": arguments, "env": env}


def _command(target: Target) -> Iterator[str]:
    files = files_by_name(files_by_port(target.reads), files_by_port(target.writes))
    if "argv" in target.params:
        yield shlex.join(fill_argv(target.params["argv"], files))
    elif "shell" in target.params:
        yield from fill_shell_line(target.params["shell"], files).splitlines()


def outlook(_targets: Sequence[Target]) -> Sequence[str]:
    """Nothing: the targets of steps need no outlook."""
    return ()
