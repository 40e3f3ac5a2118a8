"""The command `run`.  Looks first whether anything is to be done; only then is the rest imported."""

from __future__ import annotations

import re
import sys
from typing import Any

from doit.cmd_run import Run as StockRun

from pipeline.cli import noop
from pipeline.commands.command import NAMES, SpecCommand, opt_jobs, option
from pipeline.commands.selection import run_answer

opt_verbose = option("verbose", "a line for each target, also for those that only keep the books", short="v")
opt_engine = option("engine", "where what costs is made, in place of `engine:` of the spec", None, "NAME")
_ASKS_FOR_REPORTER = re.compile("-[^-]*r|--r").match
opt_junit = option("junit", "write the targets and how they ended to FILE as JUnit XML", "", "FILE")


class RunCommand(SpecCommand, StockRun):  # type: ignore[misc]
    name = "run"
    doc_usage = NAMES
    cmd_options = (
        *(opt for opt in StockRun.cmd_options if opt["name"] != "num_process"),
        opt_jobs,
        opt_engine,
        opt_junit,
        opt_verbose,
    )

    def get_reporters(self) -> dict[str, Any]:
        """List doit's reporters and those of plugins; with `coppice` only once it is asked for one: all installed
        packages are searched for them."""
        return {} if self.is_ours else dict(super().get_reporters())

    def parse_execute(self, in_args: list[str]) -> int:
        if self.is_ours and any(map(_ASKS_FOR_REPORTER, in_args)):
            self.reporters = super().get_reporters()
        return super().parse_execute(in_args)

    def on_specs(self, params: Any, args: list[str]) -> int:
        asked = any(params[name] for name in ("always", "junit", "verbose", "engine"))
        unusual = asked or params["reporter"] != "console"
        to_file = params["outfile"] is not sys.stdout
        if not (unusual or to_file or self.is_ours) and noop(args):
            return 0
        from pipeline.commands.build import build

        return run_answer(args, lambda words: build(words, params, self.reporters), sources=True)
