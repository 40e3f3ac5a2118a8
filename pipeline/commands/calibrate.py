"""The command `calibrate`: the baseline of a search against itself, before money is spent."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.commands.command import ONE_RUN, NewCommand, build_plainly, opt_jobs, opt_json, option, print_result
from pipeline.commands.selection import ability_of, plans_of_run
from pipeline.machine.lock import lock_runs

SEEDS = 5
# Of each option the default, the least and the most.
RANGES = {"depths": (0, 100, 100_000), "seeds": (SEEDS, 0, 1000), "seed": (0, 0, 2**31)}


class CalibrateCommand(NewCommand):
    name = "calibrate"
    doc_usage = "RUN"
    doc_purpose = "hold the baseline of a search against itself: what would be promoted by chance, and what found"
    doc_description = (
        "Measures the root, and where its sweep names {seed} the root with other seeds; nothing else is run and nobody"
        " is asked. From how these differ it makes depths of ideas without effect, and tells how many promote one; then"
        " with an effect planted in one of them, how many find it; the same with twice and four times the blocks."
        " Progress goes to standard error."
    )
    cmd_options = (
        opt_jobs,
        option("depths", "so many made-up depths for each line [default: 2000, fewer where ideas are many]", 0, "N"),
        option("seeds", f"measure the root with so many other seeds; 0: none [default: {SEEDS}]", SEEDS, "N"),
        option("seed", "another number makes up others", 0, "N"),
        opt_json,
    )
    takes = ONE_RUN

    def on_specs(self, params: Any, args: list[str]) -> int:
        for name, (default, least, most) in RANGES.items():
            if params[name] != default and not least <= params[name] <= most:
                raise InvalidCommand(f"calibrate: --{name} {params[name]}: give a number from {least} to {most}")
        plans = plans_of_run("calibrate", args[0])
        plan = plans[args[0]]
        kind = ability_of(plan, kinds.CALIBRATE, "promotes nothing that could be promoted by chance")
        again = kind.seed_targets(plan.run, plan.targets, params["seeds"])
        with lock_runs([*plans]) as locks, redirect_stdout(sys.stderr):
            needed = kind.needed_targets(plan.run, again)
            if code := build_plainly(plans, locks, needed, params["num_process"], again):
                return code
        record = kind.calibrate(plan.run, plan.targets, again, params["depths"], params["seed"])
        print_result(record, kind.calibration_lines(record), params["json"])
        return 0
