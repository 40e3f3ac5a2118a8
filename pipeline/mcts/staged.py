"""A search under the scenario that flags tell, in place of those of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from pipeline.banks.settings import LEDGER, LeanKeys
from pipeline.edge.state import signature
from pipeline.errors import SpecError
from pipeline.mcts.flags import POLICY, of_scenario
from pipeline.mcts.model import Expansion, Rules
from pipeline.mcts.options import PREFIX, typed
from pipeline.mcts.read import ATTEMPTS, BUDGET, PROCESSES, ids_of
from pipeline.mcts.scenarios import Words, scenario
from pipeline.mcts.settings import Guides, MctsSpec

NAME = "flags"


def alone(bank: str) -> MctsSpec:
    signed = signature(bank)
    rules = Rules(BUDGET, expansion=Expansion(attempts=ATTEMPTS))
    lean = LeanKeys(processes=PROCESSES)
    return MctsSpec("", 1, bank, ids_of(bank), lean, (0,), rules, Guides(), (), LEDGER, None, {bank: signed})


def overridden(spec: MctsSpec, values: Mapping[str, Any]) -> MctsSpec:
    if policy := values.get(PREFIX + POLICY):
        rules = spec.rules
        spec = spec._replace(rules=rules._replace(expansion=rules.expansion._replace(policy=policy)))
    told = of_scenario(values)
    if spec.scenarios and not told:
        return spec
    return spec._replace(scenarios=(scenario(NAME, told, Words(_wrong, typed)),))


def _wrong(_key: str, what: str) -> NoReturn:
    raise SpecError(f"mcts: {what}")
