"""The same project as specs of Coppice and as a dodo.py of stock doit."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.fuzz.model import CODE, Project, Read, Run, Step, reading, targets

Words = list[str]
# A background child that outlives the command: nothing of it may stay.
STRAY = "sleep 60 & "


def specs(project: Project, outside: str) -> dict[str, str]:
    return {run.name: _spec(project, run, outside) for run in project.runs}


def _spec(project: Project, run: Run, outside: str) -> str:
    """JSON is YAML, too."""
    steps = [(step.name, _step(project, run, step, outside)) for step in run.steps]
    spec = {
        "kind": "steps",
        "store": project.store,
        "rooms": {"narrow": 1},
        "steps": dict(reversed(steps) if project.backwards else steps),
    }
    return json.dumps(spec, indent=1) + f"\n# note {project.note}\n"


def _step(project: Project, run: Run, step: Step, outside: str) -> dict[str, Any]:
    told = "told:" + "/".join(f"{{{axis}}}" for axis in step.told)
    return {
        **({"for": {axis: list(project.axes[axis]) for axis in step.axes}} if step.axes else {}),
        **_action(step, told, outside),
        "reads": [entry for read in step.reads for entry in _reads(project, run, read)],
        "writes": _writes(step),
        "timeout": step.timeout,
        **({"room": step.room} if step.room else {}),
    }


def _action(step: Step, told: str, outside: str) -> dict[str, Any]:
    if step.how == "call":
        given = {
            "outside": outside,
            "salt": str(step.salt),
            "told": told,
            "lines": step.lines,
            "flags": step.flags,
        }
        return {"call": f"{CODE}:make", "with": given}
    words = [*command(step, told, outside), "{out}", "--", "{in}"]
    return {"run": words if step.how == "run" else (STRAY if step.salt == 1 else "") + " ".join(words)}


def command(step: Step, told: str, outside: str) -> Words:
    return [
        sys.executable,
        "-I",
        "-S",
        "action.py",
        outside,
        str(step.salt),
        told,
        str(step.lines),
        step.flags,
    ]


def _reads(project: Project, run: Run, read: Read) -> list[Any]:
    if read.path or read.run is not None:
        return [read.path] if read.path else reading(project, run, read, {})
    return [{"step": read.step, **({"port": read.port} if read.port else {})}]


def _writes(step: Step) -> str | dict[str, str]:
    """An output's name has all values in it, so that no two targets share one."""
    stem = f"{step.stem}/" + "-".join([step.stem, *(f"{{{axis}}}" for axis in step.axes)])
    if len(step.ports) == 1:
        return f"{stem}.{step.ports[0]}"
    return {port: f"{stem}.{port}" for port in step.ports}


DODO = """
import glob, os, steps
from doit.tools import config_changed

DOIT_CONFIG = {{"verbosity": 0}}

def expanded(path):
    if path.endswith("/"):
        return sorted(f"{{top}}/{{name}}" for top, _, names in os.walk(path[:-1]) for name in names)
    return sorted(glob.glob(path, recursive=True)) if "*" in path else [path]

def task(run, name, recipe, reads, outputs, command, call):
    files = [file for path in reads for file in expanded(path)]
    action = (steps.make, [files, outputs], call) if call else [*command, *outputs, "--", *files]
    return {{
        "basename": f"{{run}}:{{name}}", "actions": [action], "targets": outputs,
        "file_dep": files + (["steps.py"] if call else []), "uptodate": [config_changed(str((recipe, files)))],
    }}

def task_all():
    for fields in {rows}:
        yield task(*fields)
"""


def dodo(project: Project, outside: str) -> str:
    """As good as stock doit lets one be: commands, parameters and the contents of folders count."""
    rows = []
    for target in targets(project):
        step = target.step
        call = _action(step, target.told, outside).get("with", {})
        words = command(step, target.told, outside)
        rows.append((target.run, target.name, [*words, call], list(target.reads), list(target.outputs), words, call))
    return DODO.format(rows=rows)
