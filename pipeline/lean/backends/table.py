"""Open the Lean that a spec names, and record its version.

Processes of a Lean are guarded, and end with the build.  A stage says that there is no Lean, or that a ledger cannot be
used, in a line for people: that is no result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import SpecError
from pipeline.lean.dojo import backend
from pipeline.lean.model import UNTOLD, Lean, LeanCrash, LeanKilled, LeanStartError, Stop, Theorem
from pipeline.lean.repl import process
from pipeline.lean.repl.pool import Pool
from pipeline.lean.repl.process import LeanCommand
from pipeline.lean.toolchain import cache, native
from pipeline.lean.toolchain.wasm import ready_toolchain, toolchain_key
from pipeline.machine.job import Job, Stage, StageFailed, output_path
from pipeline.machine.process import Processes
from pipeline.store.records import save

REPL = Path(process.__file__).with_name("Repl.lean")


def open_lean(job: Job) -> Lean:
    """Open the Lean of a target; no process starts before it is asked something."""
    keys = job.target.params["limits"]["lean"]
    return BACKENDS[keys["backend"]].open(job, keys)


@contextmanager
def open_core_lean() -> Iterator[Lean]:
    """Open a Lean that knows the core library, for programs that are no run; in the main thread."""
    with closing(Processes(["core"])) as processes:
        command = ready_toolchain().command(REPL)
        env = processes.environment("core", command.env, ()).variables
        with closing(Pool(replace(command, env=env), processes, version=_wasm_version(""))) as pool:
            yield pool


def shared_lean(job: Job) -> Lean:
    """Open a Lean for all targets of a build that ask for the same; it ends with the build."""
    return job.shared.get(_shared_name(job), lambda: open_lean(job))


@contextmanager
def last_of_shared_lean(job: Job) -> Iterator[Lean]:
    """Lean that other targets have used before, and none will after this one: its memory is free again then."""
    try:
        yield shared_lean(job)
    finally:
        job.shared.end(_shared_name(job))


def _shared_name(job: Job) -> Sequence[str]:
    return "lean", job.target.run, *job.target.params["limits"]["lean"].values()


def required_imports(keys: Mapping[str, Any]) -> list[str]:
    """Modules that a theorem stands behind: a file of its proof has to import them, too."""
    return [*BACKENDS[keys["backend"]].imports(keys["project"])]


def _pool(job: Job, keys: Mapping[str, Any], command: LeanCommand) -> Pool:
    env = job.processes.environment(job.target.run, command.env, ()).variables
    version = BACKENDS[keys["backend"]].version(keys["project"])
    return Pool(replace(command, env=env), job.processes, keys["processes"], version, keys["memory"])


def _wasm_version(_project: str) -> str:
    """Version of the Lean from npm, with the REPL, on which answers depend too."""
    return f"{ready_toolchain().version} repl {cache.repl_fingerprint()}"


def _leandojo(job: Job, keys: Mapping[str, Any]) -> Lean:
    elan = {"ELAN_HOME": os.environ["ELAN_HOME"]} if "ELAN_HOME" in os.environ else {}
    env = job.processes.environment(job.target.run, elan, ()).variables
    return backend.LeanDojoBackend(backend.open_project(keys["project"]), job.processes, env, keys["processes"])


class LeanBackend(NamedTuple):
    """`open` takes a job and the settings of its Lean; `imports` and `version` are of a project."""

    open: Callable[[Job, Mapping[str, Any]], Lean]
    imports: Callable[[str], Sequence[str]]
    version: Callable[[str], str]


BACKENDS: Mapping[str, LeanBackend] = {
    "wasm": LeanBackend(
        lambda job, keys: _pool(job, keys, ready_toolchain().command(REPL)), lambda _: ["Lean"], _wasm_version
    ),
    "native": LeanBackend(
        lambda job, keys: _pool(job, keys, native.native_command(REPL, keys["project"])),
        native.imported,
        native.native_version,
    ),
    # imports what a goal's context names, and no more
    "leandojo": LeanBackend(_leandojo, lambda _: [], lambda project: backend.open_project(project).version),
}


def proof_fault(lean: Lean, theorem: Theorem, script: Sequence[str], stop: Stop | None = None) -> str:
    """Check a whole proof; the fault, or "" where it holds.

    It held once: where a process ended over it, another one is asked."""
    wrong = lean.check(theorem, script, stop)
    if wrong and wrong.kind in UNTOLD:
        wrong = lean.check(theorem, script, stop)
    return str(wrong or "")


def with_lean_faults(do: Callable[[Job], None]) -> Callable[[Job], None]:
    """Turn faults of a Lean or a ledger into a line for people: they are no results."""

    @wraps(do)
    def done(job: Job) -> None:
        try:
            do(job)
        except (LeanStartError, LeanCrash, LeanKilled, SpecError) as problem:
            raise StageFailed(str(problem), 2) from problem

    return done


def record_toolchain(job: Job) -> None:
    """Record the toolchain, made if it is not there; all that follows depends on it."""
    backend, project = job.target.params["backend"], job.target.params["project"]
    record = {"backend": backend, "version": BACKENDS[backend].version(project)}
    save(output_path(job, "toolchain.json"), record)


# In words that results of earlier versions are known by; and what of this package decides how a Lean answers.
CODE = f"proof.toolchain/1 {cache.repl_fingerprint()} {toolchain_key()}"
STAGES = {"toolchain": Stage(CODE, with_lean_faults(record_toolchain))}
