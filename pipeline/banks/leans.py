"""The Lean that a stage asks, as the spec names it: its processes are guarded, and end with the build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.edge.job import Job
from pipeline.edge.lean import dojo, dojo_project, native, parts, process
from pipeline.edge.lean.model import Lean
from pipeline.edge.lean.pool import Pool
from pipeline.edge.lean.process import Command
from pipeline.edge.lean.toolchain import key, ready
from pipeline.edge.process import Processes

REPL = Path(process.__file__).with_name("Repl.lean")


def opened(job: Job) -> Lean:
    """Nothing is started before it is asked something."""
    keys = job.target.params["limits"]["lean"]
    return BACKENDS[keys["backend"]](job, keys)


@contextmanager
def core() -> Iterator[Lean]:
    """One that knows the core library, for programs that are no run; to be asked for in the main thread."""
    with closing(Processes(["core"])) as processes:
        command = ready().command(REPL)
        env, _ = processes.environment("core", command.env, ())
        with closing(Pool(replace(command, env=env), processes, version=_wasm_version(""))) as pool:
            yield pool


def shared(job: Job) -> Lean:
    """One for all targets of a build that ask for the same; it ends with the build."""
    keys = job.target.params["limits"]["lean"]
    return job.kept.get(("lean", job.target.run, *keys.values()), lambda: opened(job))


def imported(keys: Mapping[str, Any]) -> list[str]:
    """The modules that a theorem stands behind: a file of its proof has to import them, too."""
    return [*IMPORTED[keys["backend"]](keys["project"])]


def ours() -> str:
    """What of this package decides how a Lean answers, in a word."""
    return f"{parts.fingerprint()} {key()}"


def described(backend: str, project: str) -> Mapping[str, str]:
    """What is recorded of it."""
    return {"backend": backend, "version": VERSIONS[backend](project)}


def _wasm(job: Job, keys: Mapping[str, Any]) -> Lean:
    return _pool(job, keys, ready().command(REPL))


def _native(job: Job, keys: Mapping[str, Any]) -> Lean:
    return _pool(job, keys, native.command(REPL, keys["project"]))


def _pool(job: Job, keys: Mapping[str, Any], command: Command) -> Pool:
    env, _ = job.processes.environment(job.target.run, command.env, ())
    version = VERSIONS[keys["backend"]](keys["project"])
    return Pool(replace(command, env=env), job.processes, keys["processes"], version, keys["memory"])


def _wasm_version(_project: str) -> str:
    """Answers depend on the REPL too."""
    return f"{ready().version} repl {parts.fingerprint()}"


def _native_version(project: str) -> str:
    return native.version(project)


def _leandojo(job: Job, keys: Mapping[str, Any]) -> Lean:
    elan = {"ELAN_HOME": os.environ["ELAN_HOME"]} if "ELAN_HOME" in os.environ else {}
    env, _ = job.processes.environment(job.target.run, elan, ())
    return dojo.opened(keys["project"], job.processes, env, keys["processes"])


def _leandojo_version(project: str) -> str:
    return dojo_project.project(project).version


BACKENDS: Mapping[str, Callable[[Job, Mapping[str, Any]], Lean]] = {
    "wasm": _wasm,
    "native": _native,
    "leandojo": _leandojo,
}
IMPORTED: Mapping[str, Callable[[str], Sequence[str]]] = {
    "wasm": lambda _: ["Lean"],
    "native": native.imported,
    "leandojo": lambda _: [],  # what a goal's context names, and no more
}
VERSIONS: Mapping[str, Callable[[str], str]] = {
    "wasm": _wasm_version,
    "native": _native_version,
    "leandojo": _leandojo_version,
}
