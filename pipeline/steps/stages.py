"""Stages of `kind: steps`: run a command, or call a Python function of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.templates import files_by_name, fill_argv, fill_shell_line
from pipeline.machine.exclusive import exclusive_machine
from pipeline.machine.failures import describe_exit, describe_start_failure
from pipeline.machine.job import Job, Stage, StageFailed
from pipeline.machine.process import Exit


def run_command(job: Job) -> None:
    params = job.target.params
    paths = files_by_name(job.reads, job.writes)
    shell = None if "argv" in params else fill_shell_line(params["shell"], paths)
    command = fill_argv(params["argv"], paths) if shell is None else ["/bin/sh", "-c", shell]
    env = job.processes.environment(job.target.run, params.get("env", {}), passed_variables(job.target))
    try:
        with exclusive_machine(job):
            ended = job.processes.run(command, env, job.log, job.target.limits.timeout)
    except OSError as error:
        raise StageFailed(*describe_start_failure(error, command[0])) from error
    if ended != Exit(0):
        raise StageFailed(*describe_exit(ended, job.target.limits.timeout))


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
    "run": Stage("run/1", run_command, own_folder=True, passed=passed_variables),
    "call": Stage("call/1", call_function, passed=passed_variables),
}
