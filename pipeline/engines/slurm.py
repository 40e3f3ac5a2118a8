"""Slurm by its commands: `sbatch` hands in, `squeue` tells of all jobs at once, `scancel` ends them.

A batch of orders is one array job, called after its run and its batch: a coordinator that comes later finds it by that
name.  Nothing is kept of it but the file of the batch, which is written before the job is handed in.

Slurm itself requeues nothing of ours: it would wait for two minutes first, and nobody would count how often."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pipeline.core.graph import Target, step_of
from pipeline.engines.orders import orders_folder, read_batch, write_batch
from pipeline.machine.process import ALLOWED, module_command, set_variables
from pipeline.store.folders import remove_file

_USUAL = ("None", "Priority", "Resources", "BeginTime", "Cleaning")  # reasons to wait
COMMANDS = ("sbatch", "squeue", "scancel")
COMMAND_SECONDS = 60.0
MOST_IN_ARRAY = 1000  # as Slurm has it, unless its MaxArraySize says another
_AWAY = re.compile(r"slurm controller|[Cc]onnection|timed out|[Tt]emporar|munge|[Pp]rotocol auth", re.ASCII)
LIVE = frozenset(
    ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
     "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
)  # fmt: skip


class SlurmOutage(Exception):
    """Failure of a command of Slurm's that says nothing of what was asked: its controller is away."""


class SlurmRefusal(Exception):
    """Refusal of what was asked of Slurm, as of a partition that there is not: to ask again does not help."""


class SlurmJob(NamedTuple):
    """A task of an array as Slurm has it.  `state` in its words; `reason`: why it waits; `node`: where it runs."""

    job: str
    order: str
    state: str
    reason: str
    node: str

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def words(self) -> str:
        """Words for people on where it is; empty while it waits like any."""
        if self.node:
            return f"{self.state.lower()} on {self.node}, job {self.job}"
        return "" if self.reason in _USUAL else f"waits, job {self.job}: {self.reason}"


class Slurm:
    """The jobs of one run in Slurm.  `settings`: the mapping `slurm:` of its spec."""

    def __init__(self, run: str, settings: Mapping[str, Any]) -> None:
        self._run, self._settings = run, settings
        self._prefix = f"coppice-{sha256(os.path.abspath(f'runs/{run}').encode()).hexdigest()[:12]}-"
        self._batches: dict[str, list[str]] = {}

    def resources(self, target: Target) -> tuple[tuple[str, Any], ...]:
        """The resources of a target: those of its step or stage, and of the whole run besides."""
        own, step, stage = self._settings.get("resources", {}), step_of(target.name).partition(":")[2], target.stage
        whole = {key: value for key, value in self._settings.items() if key in _OPTIONS}
        alone = {"exclusive": True} if target.limits.exclusive else {}
        return tuple(sorted({**whole, **own.get(stage, {}), **own.get(step, {}), **alone}.items()))

    def hand_in(self, orders: Sequence[str], resources: Sequence[tuple[str, Any]], variables: Iterable[str]) -> None:
        """Hand orders in, as one array or as many as it takes."""
        most = min(MOST_IN_ARRAY, len(orders)) if self._settings.get("array", True) else 1
        for start in range(0, len(orders), most):
            self._hand_in(orders[start : start + most], resources, variables)

    def _hand_in(self, orders: Sequence[str], resources: Sequence[tuple[str, Any]], variables: Iterable[str]) -> None:
        batch = sha256("\n".join([*orders, str(len(self._batches)), str(os.getpid())]).encode()).hexdigest()[:12]
        path = os.path.abspath(write_batch(self._run, batch, orders))
        self._batches[batch] = [*orders]
        logs = os.path.abspath(f"{orders_folder(self._run)}/logs")
        os.makedirs(logs, exist_ok=True)
        python = self._settings.get("python") or sys.executable
        line = shlex.join(module_command("pipeline.engines.worker", path, python=python))
        words = [
            *("sbatch", "--parsable", f"--job-name={self._prefix}{batch}", f"--array=0-{len(orders) - 1}"),
            *("--ntasks=1", "--no-requeue", f"--output={logs}/{batch}.%a", "--chdir=/"),
            "--export=ALL",  # of what sbatch is given: a list would make Slurm load a login environment besides
            *(_OPTIONS[key](value) for key, value in resources if key != "extra"),
            *(word for key, value in resources if key == "extra" for word in value),
        ]
        own = [name for name in os.environ if name == "SLURM_CONF" or name.startswith("SBATCH_")]
        env = set_variables([*ALLOWED, *own, *variables])
        self._command(words, f'#!/bin/sh\nexec {line} "$SLURM_ARRAY_TASK_ID"\n', env)

    def jobs(self) -> list[SlurmJob]:
        """All jobs of this run that Slurm knows of, also those that have ended a while ago."""
        form = "%i|%K|%T|%r|%N|%j"
        words = ["squeue", "--me", "--array", "--noheader", "--states=all", f"--format={form}"]
        rows = (line.strip().split("|") for line in self._command(words).splitlines())
        return [job for row in rows if (job := self._job(row))]

    def _job(self, row: Sequence[str]) -> SlurmJob | None:
        if len(row) != 6 or not row[5].startswith(self._prefix) or not row[1].isdecimal():
            return None
        orders, number = self._orders_of(row[5].removeprefix(self._prefix)), int(row[1])
        return SlurmJob(row[0], orders[number], row[2], row[3], row[4]) if number < len(orders) else None

    def _orders_of(self, batch: str) -> list[str]:
        if batch not in self._batches:
            path = f"{orders_folder(self._run)}/batches/{batch}"
            self._batches[batch] = read_batch(path) if os.path.exists(path) else []
        return self._batches[batch]

    def cancel(self, jobs: Iterable[SlurmJob]) -> None:
        if names := [each.job for each in jobs if each.is_live]:
            self._command(["scancel", *names])

    def last_words(self, order: str) -> str:
        """The last line that a job for an order has printed, such as that there is no Python on its node."""
        said = ""
        for batch, orders in self._batches.items():
            path = f"{orders_folder(self._run)}/logs/{batch}.{orders.index(order)}" if order in orders else ""
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    said = next((line.strip() for line in reversed(file.readlines()) if line.strip()), said)
        return said

    def close(self) -> None:
        """Remove what was written for the jobs that this process has handed in: nobody asks for them any more."""
        for batch, orders in self._batches.items():
            remove_file(f"{orders_folder(self._run)}/batches/{batch}")
            for number in range(len(orders)):
                remove_file(f"{orders_folder(self._run)}/logs/{batch}.{number}")

    @staticmethod
    def _command(words: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        try:
            done = subprocess.run(
                words, input=stdin, env=env, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        except FileNotFoundError as error:
            raise SlurmRefusal(f"{words[0]} is not on PATH") from error
        except subprocess.TimeoutExpired as error:
            raise SlurmOutage(f"{words[0]} did not answer within {COMMAND_SECONDS:g} s") from error
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"exit {done.returncode}"
            raise (SlurmOutage if _AWAY.search(said) else SlurmRefusal)(f"{words[0]}: {said}")
        return done.stdout


def _minutes(seconds: float) -> str:
    return f"--time={max(1, -(-int(seconds) // 60))}"


_OPTIONS: Mapping[str, Any] = {
    "partition": "--partition={}".format,
    "account": "--account={}".format,
    "time": _minutes,
    "memory": lambda size: f"--mem={max(1, int(size) >> 20)}M",
    "cpus": "--cpus-per-task={}".format,
    "gpus": "--gpus={}".format,
    "exclusive": lambda _: "--exclusive",
    "extra": lambda words: words,
}
