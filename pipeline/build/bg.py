"""The command `bg`: goes on with goals that are open, with ever larger budgets, as long as there is time."""

from __future__ import annotations

import time
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.advance import PLAIN
from pipeline.build.command import NewCommand
from pipeline.build.exits import refuse
from pipeline.build.meant import Meant, meant, plans_of, runs_of
from pipeline.build.proofs import KIND, PROVING, settled
from pipeline.build.stats import lines_of, stats_of
from pipeline.build.tree_flags import Typed
from pipeline.edge.lock import locked
from pipeline.spec import parse

RUN = "bg"  # no spec can have the name


class Bg(NewCommand):
    name = "bg"
    doc_usage = "[RUN]"
    doc_purpose = "go on with goals that are open, with ever larger budgets"
    doc_description = (
        "Those of a run of kind: proof, or without a name all that the ledger knows, never tried ones first. Ends with"
        " --duration, with Ctrl-C, or when all is proved. The environment counts as for `bank`."
    )
    cmd_options = (
        {"name": "duration", "long": "duration", "type": str, "default": "", "metavar": "S",
         "help": "how long: 90, 90s, 10m, 2h [default: until Ctrl-C]"},
    )  # fmt: skip

    def on_specs(self, params: Any, args: list[str]) -> int:
        if len(args) > 1:
            raise InvalidCommand(f"bg: name one run, not {len(args)}")
        seconds = _seconds(params["duration"]) if params["duration"] else None
        one = args or len([*runs_of(KIND)]) == 1
        asked = meant(self.name, args, KIND) if one else Meant("", "specs", PROVING.alone(""))
        spec = settled(self.name, asked.spec, {"profile": None, "timeout": None})._replace(name=RUN)
        code = _pursued(asked, spec, seconds, whole=not args)
        print("\n".join(lines_of(spec.ledger, stats_of(spec.ledger))))
        return code


def _seconds(text: str) -> float:
    return Typed("bg", parse(text.encode(), "bg").node).seconds("--duration")


def _pursued(asked: Meant, spec: Any, seconds: float | None, whole: bool) -> int:
    """`whole`: all that the ledger has, not what the run asks for."""
    from pipeline.build.building import Interrupted, build_locked

    bank = "" if whole else f"runs/{asked.run}/bank.json"
    targets = kinds.able(KIND, kinds.PURSUING).pursuit(spec, bank, seconds, str(time.time_ns()))
    plans = plans_of(RUN, KIND, asked, spec, targets)
    with locked([*plans]) as locks:
        try:
            return build_locked(plans, locks, [RUN], {**PLAIN, "num_process": 1}, {})
        except Interrupted as error:
            return refuse(f"{error}; every attempt that ended is in {spec.ledger}", 128 + error.number)
