"""The command `calibrate`: the baseline of a search against itself, before money is spent."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any, ClassVar

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.project import RunPlan
from pipeline.commands.accounts import opt_json, print_result
from pipeline.commands.advance import DEFAULT_OPTIONS
from pipeline.commands.command import NewCommand, opt_jobs
from pipeline.commands.exits import refuse
from pipeline.commands.selection import plans_for
from pipeline.core.graph import Target
from pipeline.errors import SpecError
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

    def on_specs(self, params: Any, args: list[str]) -> int:
        if len(args) != 1:
            raise InvalidCommand(f"calibrate: name one run, not {len(args)}")
        for option, least, most in (
            ("depths", LEAST_DEPTHS, MOST_DEPTHS),
            ("seeds", 0, MOST_SEEDS),
            ("seed", 0, 2**31),
        ):
            if params[option] != self.defaults[option] and not least <= params[option] <= most:
                raise InvalidCommand(f"calibrate: --{option} {params[option]}: give a number from {least} to {most}")
        return calibrate(args[0], params)


def calibrate(run: str, params: Any) -> int:
    plans = plans_for([run])
    if run not in plans:
        raise SpecError(f"calibrate: '{run}' is no run; name one of: {', '.join(plans)}")
    plan = plans[run]
    if not kinds.has_ability(plan.kind, kinds.CALIBRATE):
        raise SpecError(f"{plan.spec}:1: kind: {plan.kind} promotes nothing that could be promoted by chance")
    kind = kinds.ability_module(plan.kind, kinds.CALIBRATE)
    again = kind.seed_targets(run, plan.targets, params["seeds"])
    if code := _measure(plans, kind.needed_targets(run, again), again, params["num_process"]):
        return code
    found = kind.calibrate(run, plan.targets, again, params["depths"], params["seed"])
    print_result(found, kind.calibration_lines(found), params["json"])
    return 0


def _measure(plans: dict[str, RunPlan], words: list[str], again: list[Target], jobs: int) -> int:
    from pipeline.build.runner import BuildInterrupted
    from pipeline.commands.build import build_locked

    with lock_runs([*plans]) as locks, redirect_stdout(sys.stderr):
        try:
            return build_locked(plans, locks, words, {**DEFAULT_OPTIONS, "num_process": jobs}, {}, again)
        except BuildInterrupted as error:
            return refuse(f"{error}; what was finished is kept", 128 + error.number)
