"""The command `mcts`: searches for proofs as a spec says, or under a scenario given by flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.advance import PLAIN
from pipeline.build.command import NewCommand
from pipeline.build.exits import refuse
from pipeline.build.meant import Meant, meant, plans_of
from pipeline.build.tree_flags import given, options
from pipeline.edge.lock import locked

KIND = "mcts"
RUN = "mcts-flags"  # no spec can have the name
FLAGS = kinds.flags(KIND)
HOW = {**PLAIN, "num_process": 0}


class Mcts(NewCommand):
    name = "mcts"
    doc_usage = "[RUN | BANK.jsonl]"
    doc_purpose = "search a bank for proofs by Monte-Carlo tree search, under a scenario given by flags"
    doc_description = (
        "Without flags as the spec of a run of kind: mcts says. With them, its bank, budget and seeds, and one scenario"
        f" in place of its own, that of the flags; outputs are then in runs/{RUN}/. Searches that were made before are"
        " not made again."
    )
    cmd_options = (*options(FLAGS),)

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.building import Interrupted, build

        if len(args) > 1:
            raise InvalidCommand(f"mcts: name one run or bank, not {len(args)}")
        values = {each.flag.key: each.value for each in given(self.name, FLAGS, params)}
        asked = meant(self.name, args, KIND)
        try:
            return build([asked.run], HOW, {}) if asked.run and not values else _flagged(asked, values)
        except Interrupted as error:
            return refuse(f"{error}; what was finished is kept, and a search goes on where it was", 128 + error.number)


def _flagged(asked: Meant, values: Mapping[str, Any]) -> int:
    from pipeline.build.building import build_locked

    spec = kinds.able(KIND, kinds.PROVING).overridden(asked.spec, values)._replace(name=RUN)
    plans = plans_of(RUN, KIND, asked, spec, [*kinds.plan(KIND, spec)])
    with locked([*plans]) as locks:
        return build_locked(plans, locks, [RUN], HOW, {})
