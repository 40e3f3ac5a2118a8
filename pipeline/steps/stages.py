"""Stages of `kind: steps`: run a command, in its cage if it has one, or call a Python function of the project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pipeline.core.cages import PLAIN, CageKeys, cage_in, cages_in
from pipeline.core.graph import Target
from pipeline.core.outcome import PROGRAM_MISSING
from pipeline.core.recipe import LIMITS
from pipeline.core.templates import files_by_name, fill_argv, fill_shell_line
from pipeline.machine.failures import describe_exit, describe_start_failure
from pipeline.machine.job import Away, Job, Stage, StageFailed, StageOutage
from pipeline.machine.lock import exclusive_machine
from pipeline.machine.process import Exit

if TYPE_CHECKING:
    from pipeline.machine.cage import Cage


def run_command(job: Job) -> None:
    params = job.target.params
    paths = files_by_name(job.reads, job.writes)
    shell = None if "argv" in params else fill_shell_line(params["shell"], paths)
    command = fill_argv(params["argv"], paths) if shell is None else ["/bin/sh", "-c", shell]
    env = job.processes.environment(job.target.run, params.get("env", {}), passed_variables(job.target))
    cage = command_cage(job) if LIMITS in params else None
    try:
        with exclusive_machine(job):
            ended = job.processes.run(command, env, job.log, job.target.limits.timeout, cage=cage)
    except OSError as error:
        raise StageFailed(*describe_start_failure(error, command[0])) from error
    if ended.fault:
        raise StageOutage(f"{ended.fault}; build again", PROGRAM_MISSING)
    if cage is not None and cage.is_walled:
        _check_folders(job)
    if ended != Exit(0):
        why, status = describe_exit(ended, job.target.limits.timeout)
        raise StageFailed(_with_limit(job, why, ended, cage), status)


def _with_limit(job: Job, why: str, ended: Exit, cage: Cage | None) -> str:
    """The reason of a failure with the limit that refused it more, where one did."""
    if cage is None or ended.code <= 0 or ended.limit:
        return why
    from pipeline.machine.cage_words import refusing_limit

    return refusing_limit(why, job.log, cage.limits)


# Of so many files of a run each is shown by itself; of more, all that the run has made: each costs time.
MOST_SHOWN = 100


def command_cage(job: Job) -> Cage:
    """The cage of a command: it sees the project without its runs, and what it reads; it writes beside its outputs."""
    from pipeline.machine.cage import Cage  # here: most steps have none
    from pipeline.machine.grades import resolve_grade, resolve_network
    from pipeline.machine.limits import CageLimits, default_limits, make_limits
    from pipeline.machine.visibility import visible_path

    keys, project = cage_in(job.target.params[LIMITS]), os.getcwd()
    grade = resolve_grade(keys.sandbox)
    limits = make_limits(keys.limits, default_limits() if grade != PLAIN else CageLimits())
    output = os.path.abspath(os.path.commonpath(_output_folders(job)))
    shown, hidden = _shown_paths(job)
    visible = (project, *map(os.path.abspath, shown), *map(visible_path, keys.visible))
    hidden = (*map(os.path.abspath, hidden), *filter(None, [job.store and os.path.abspath(job.store)]))
    return Cage(grade, resolve_network(keys.network, grade), limits, project, (output,), visible, hidden)


def _shown_paths(job: Job) -> tuple[Sequence[str], Sequence[str]]:
    """The paths that a command is shown of what it reads; and what must be hidden in these."""
    reads = [*chain(*job.reads.values())]
    of_runs = [path for path in reads if path.startswith("runs/")]
    if len(of_runs) <= MOST_SHOWN:
        return reads, ()
    runs = dict.fromkeys("/".join(path.split("/")[:2]) for path in of_runs)
    return [*(path for path in reads if not path.startswith("runs/")), *runs], [f"{run}/.coppice" for run in runs]


def _output_folders(job: Job) -> Sequence[str]:
    return [*dict.fromkeys(os.path.dirname(path) for path in chain(*job.writes.values()))]


def _check_folders(job: Job) -> None:
    """Check that no folder of an output leads out of the cage now: what lies there would be taken for the output."""
    for folder in _output_folders(job):
        if os.path.realpath(folder) != os.path.join(os.path.realpath("."), folder):
            raise StageFailed(f"it put something else in the place of {folder}, a folder of its outputs", 1)


def step_cages(target: Target) -> Iterable[CageKeys]:
    """The cage of a target, if the spec names one; most have none, and there may be many of them."""
    return cages_in(target.params[LIMITS]) if LIMITS in target.params else ()


def call_function(job: Job) -> None:
    params = job.target.params
    env = job.processes.environment(job.target.run, params.get("env", {}), passed_variables(job.target))
    (file,) = job.reads["code"]
    request = {
        "file": file,
        "function": params["call"],
        "reads": _ports_or_list(job.reads, "in"),
        "writes": _ports_or_list(job.writes, "out"),
        "with": params["with"],
    }
    with exclusive_machine(job):
        reply = job.workers.call(request, env, job.log, job.target.limits.timeout)
    if isinstance(reply, Exit):
        raise StageFailed(*describe_exit(reply, job.target.limits.timeout))
    if reply:
        raise StageFailed(reply, 1)


def _ports_or_list(ports: Mapping[str, Sequence[str]], only: str) -> dict[str, list[str]] | list[str]:
    """The files of a function by port; a list when the spec names no ports."""
    named = {port: list(group) for port, group in ports.items() if port != "code"}
    return named.get(only, []) if not {*named} - {only} else named


def passed_variables(target: Target) -> Sequence[str]:
    names: Sequence[str] = target.params.get("pass", ())
    return names


STAGES: dict[str, Stage] = {
    "run": Stage("run/1", run_command, own_folder=True, passed=passed_variables, cages=step_cages, away=Away()),
    "call": Stage("call/1", call_function, passed=passed_variables, away=Away()),
}
