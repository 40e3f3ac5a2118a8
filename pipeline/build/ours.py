"""What every command of ours does alike: specs instead of tasks of dodo.py, and each mistake in one line.

A command class of its own for each answer or change is in `commands`, `questions` and `upkeep`."""

from __future__ import annotations

import os
from getopt import GetoptError, gnu_getopt
from typing import Any

from doit.cmd_base import DoitCmdBase
from doit.cmd_run import Run as StockRun
from doit.cmdparse import CmdOption, CmdParse, CmdParseError, DefaultUpdate
from doit.exceptions import InvalidCommand

from pipeline.build.asked import BAD_INPUT, FAILED, LOCKED, plans_for, refuse, told
from pipeline.errors import SpecError

__all__ = ["BAD_INPUT", "FAILED", "LOCKED", "MEANINGLESS", "Ours", "jobs", "opt_jobs", "plans_for"]
NEW_NAMES = {"why", "plan", "graph", "init", "gc"}
# Options of doit's that have no meaning here: an error, rather than accepted and without effect.
MEANINGLESS = {
    "par_type", "pdb", "single", "auto_delayed_regex", "failure_verbosity", "verbosity", "private",
    "forget_disable_default",
}  # fmt: skip

opt_jobs = {
    "name": "num_process", "short": "n", "long": "process", "type": int, "default": 0,
    "help": "how many targets at once [default: as many as there are CPUs]",
}  # fmt: skip


class Ours(DoitCmdBase):  # type: ignore[misc]
    """Loads specs instead of dodo.py, keeps receipts instead of a database, and speaks of mistakes in one line."""

    def parse_execute(self, in_args: list[str]) -> int:
        self.words = in_args
        try:
            return int(super().parse_execute(in_args) or 0)
        except CmdParseError as error:
            what = str(error).partition(" (parsing options")[0].removeprefix("Error parsing Command: ")
            return refuse(f"{self.name}: {what}; see `{self.bin_name} help {self.name}`", BAD_INPUT)

    def execute(self, params: Any, args: list[str]) -> int:
        self.loader.setup(params)
        config = self.loader.load_doit_config()
        if not config.get("coppice"):
            # doit lets no task have the name of a command, and we brought some that doit has not
            self.loader.cmd_names = [name for name in self.loader.cmd_names if name not in NEW_NAMES]
            return self.stock(params, args)
        return self.told(config)

    def told(self, config: dict[str, Any]) -> int:
        """Do it, and say in one line what is wrong."""

        def answer() -> int:
            params, args = self.parsed()
            params.update_defaults(config)
            return self.ours(params, args)

        return told(answer, (SpecError, InvalidCommand))

    def parsed(self) -> tuple[Any, list[str]]:
        """Options may stand anywhere; doit stops at the first word, since there a task may have options of its own."""
        parser = CmdParse([CmdOption(option) for option in self.cmd_options if option["name"] not in MEANINGLESS])
        parser.overwrite_defaults(self.config_vals)
        try:
            options, words = gnu_getopt(self.words, parser.get_short(), parser.get_long())
        except GetoptError as error:
            raise InvalidCommand(f"{self.name}: {error}; see `{self.bin_name} help {self.name}`") from error
        params, words = parser.parse([part for option in options for part in option if part] + words)
        every = DefaultUpdate({option["name"]: option["default"] for option in self.cmd_options})
        every.update(params)
        return every, words

    def stock(self, params: Any, args: list[str]) -> int:
        """In a project of somebody else's doit our word may be the name of a task."""
        run = StockRun(task_loader=self.loader, config=self.config, bin_name=self.bin_name, opt_vals=self.opt_vals)
        return int(run.parse_execute([self.name, *self.words]) or 0)

    def get_options(self) -> list[CmdOption]:
        """With `coppice`, only what has a meaning here."""
        options: list[CmdOption] = super().get_options()
        if not getattr(self.loader, "looked", False):
            return options
        return [option for option in options if option.name not in MEANINGLESS and option.section == ""]

    def ours(self, params: Any, args: list[str]) -> int:
        """What the command does in a project of ours; its exit code."""
        raise NotImplementedError


def jobs(asked: int) -> int:
    """How many targets at once: as many as asked for, or as there are CPUs for us."""
    if asked < 0:
        raise InvalidCommand(f"-n {asked}: give 1 or more, or 0 for as many as there are CPUs")
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
