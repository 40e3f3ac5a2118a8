"""Description of a target of `kind: steps` in the words of its spec.

Its command has the paths filled in, to be pasted into a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pipeline import spec_fields as fields
from pipeline.core.cages import CageKeys, cages_in
from pipeline.core.graph import Target, step_of
from pipeline.core.recipe import LIMITS
from pipeline.core.templates import files_by_name, fill_argv, fill_shell_line
from pipeline.core.text import byte_text
from pipeline.store.files import files_by_port


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """Words of the spec for a target, and the lines beside each."""
    params = target.params
    call = [f"{file}:{params['call']}" for file in dict(target.reads).get("code", ()) if "call" in params]
    arguments = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in params.get("with", {}).items()]
    env = [f"{name}={value}" for name, value in params.get("env", {}).items()]
    env += (f"{name} (passed through)" for name in params.get("pass", ()))
    cage = [*map(_cage, cages_in(params.get(LIMITS, {})))]
    return {"run": [*_command(target)], "call": call, "with": arguments, "env": env, **(cage[0] if cage else {})}


def _cage(keys: CageKeys) -> dict[str, Sequence[str]]:
    limits = [
        f"{name}: {byte_text(most) if name in fields.SIZES else f'{most:g}'}" for name, most in keys.limits.items()
    ]
    words = {"sandbox": keys.sandbox, "network": keys.network}
    return {**{name: [word] for name, word in words.items() if word}, "limits": limits, "visible": keys.visible}


def _command(target: Target) -> Iterator[str]:
    files = files_by_name(files_by_port(target.reads), files_by_port(target.writes))
    if "argv" in target.params:
        yield shlex.join(fill_argv(target.params["argv"], files))
    elif "shell" in target.params:
        yield from fill_shell_line(target.params["shell"], files).splitlines()


def outlook(targets: Sequence[Target]) -> Iterator[str]:
    """The cages of steps that name one, as they would hold here; nothing where there are none."""
    if cages := _cages(targets):
        from pipeline.machine.cage_words import cage_lines, path_warnings

        yield from cage_lines(cages, can_be_judged=False)
        yield from (f"warning: {line}" for line in path_warnings(cages))


def start_lines(targets: Sequence[Target]) -> Iterator[str]:
    """Lines before steps are built: what `auto` is here, and paths that are not there."""
    if cages := _cages(targets):
        from pipeline.machine.cage_words import start_lines as lines_of_cages

        yield from lines_of_cages(cages, can_be_judged=False)


def _cages(targets: Sequence[Target]) -> list[tuple[str, CageKeys]]:
    """The cage of each step that has one."""
    caged = {step_of(target.name): target for target in targets if LIMITS in target.params}
    return [
        (step.partition(":")[2], keys) for step, target in caged.items() for keys in cages_in(target.params[LIMITS])
    ]
