"""The command `calibrate`: the baseline of a search against itself, before money is spent."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any, ClassVar

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.project import RunPlan
from pipeline.commands.command import ONE_RUN, NewCommand, build_plainly, opt_jobs, opt_json, print_result
from pipeline.commands.selection import ability_of, plans_of_run
from pipeline.core.graph import Target
from pipeline.machine.lock import lock_runs

SEEDS = 5
LEAST_DEPTHS, MOST_DEPTHS, MOST_SEEDS = 100, 100_000, 1000


def _number_option(name: str, default: int, metavar: str, text: str) -> dict[str, Any]:
    return {"name": name, "long": name, "type": int, "default": default, "metavar": metavar, "help": text}


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
        _number_option(
            "depths", 0, "N", "so many made-up depths for each line [default: 2000, fewer where ideas are many]"
        ),
        _number_option("seeds", SEEDS, "N", f"measure the root with so many other seeds; 0: none [default: {SEEDS}]"),
        _number_option("seed", 0, "N", "another number makes up others"),
        opt_json,
    )

    defaults: ClassVar = {option["name"]: option["default"] for option in cmd_options}

    takes = ONE_RUN

    def on_specs(self, params: Any, args: list[str]) -> int:
        ranges = (("depths", LEAST_DEPTHS, MOST_DEPTHS), ("seeds", 0, MOST_SEEDS), ("seed", 0, 2**31))
        for option, least, most in ranges:
            if params[option] != self.defaults[option] and not least <= params[option] <= most:
                raise InvalidCommand(f"calibrate: --{option} {params[option]}: give a number from {least} to {most}")
        return calibrate(args[0], params)


def calibrate(run: str, params: Any) -> int:
    plans = plans_of_run("calibrate", run)
    plan = plans[run]
    kind = ability_of(plan, kinds.CALIBRATE, "promotes nothing that could be promoted by chance")
    again = kind.seed_targets(run, plan.targets, params["seeds"])
    if code := _measure(plans, kind.needed_targets(run, again), again, params["num_process"]):
        return code
    found = kind.calibrate(run, plan.targets, again, params["depths"], params["seed"])
    print_result(found, kind.calibration_lines(found), params["json"])
    return 0


def _measure(plans: dict[str, RunPlan], words: list[str], again: list[Target], jobs: int) -> int:
    with lock_runs([*plans]) as locks, redirect_stdout(sys.stderr):
        return build_plainly(plans, locks, words, jobs, again)
