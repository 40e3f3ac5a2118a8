"""The command `bank`: proves a bank with the settings that are given, and writes what came of it."""

from __future__ import annotations

import json
import os
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.advance import PLAIN
from pipeline.build.command import NewCommand
from pipeline.build.exits import refuse
from pipeline.build.meant import meant, plans_of
from pipeline.build.proofs import FLAGS, KIND, settled
from pipeline.build.tree_flags import options
from pipeline.edge.files import write_whole
from pipeline.edge.lock import locked

RUN = "bank"  # no spec can have the name
RESULTS = "bench/results"


class Bank(NewCommand):
    name = "bank"
    doc_usage = "[RUN | BANK.jsonl]"
    doc_purpose = "prove the goals of a bank and write what came of it"
    doc_description = (
        "The bank, the Lean and the rest of a run of kind: proof, with what options and the environment say in place of"
        " its spec: ORCH_PROFILE, ORCH_CPU_TARGET, ORCH_MAX_LIGHT, ORCH_MAX_HEAVY, ORCH_ESCALATE_THRESHOLD. Attempts"
        " that the ledger has are not made again. Its other outputs are in runs/bank/."
    )
    cmd_options = (
        *options(FLAGS),
        {"name": "output", "long": "output", "type": str, "default": "", "metavar": "FILE",
         "help": f"write the results there [default: {RESULTS}/bank-TIMESTAMP.json]"},
    )  # fmt: skip

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.building import Interrupted, build_locked

        if len(args) > 1:
            raise InvalidCommand(f"bank: name one run or bank, not {len(args)}")
        asked = meant(self.name, args, KIND)
        spec = settled(self.name, asked.spec, params)._replace(name=RUN)
        plans = plans_of(RUN, KIND, asked, spec, [*kinds.plan(KIND, spec)])
        with locked([*plans]) as locks:
            try:
                code = build_locked(plans, locks, [RUN], {**PLAIN, "num_process": 1}, {})
            except Interrupted as error:
                return refuse(f"{error}; every attempt that ended is in {spec.ledger}", 128 + error.number)
            if code == 0:
                print(_kept(f"runs/{RUN}/results.json", params["output"]))
        return code


def _kept(results: str, output: str) -> str:
    """A copy that stays when the next bank is proved; its path."""
    with open(results, "rb") as file:
        content = file.read()
    path = output or f"{RESULTS}/bank-{json.loads(content)['timestamp']}.json"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_whole(path, content, durable=True)
    return path
