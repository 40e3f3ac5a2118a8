"""Options of `coppice mcts`: a scenario and the expansion policy, and the spec that they make.

The scenario that flags give stands in place of those of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from pipeline.errors import SpecError
from pipeline.lean.backends.keys import DEFAULT_LEDGER
from pipeline.lean.model import LeanKeys
from pipeline.mcts.read import DEFAULT_ATTEMPTS, DEFAULT_BUDGET, DEFAULT_PROCESSES, SPEC, bank_ids
from pipeline.mcts.search.records import Expansion, SearchRules
from pipeline.mcts.spec.model import GuideNames, MctsSpec
from pipeline.mcts.spec.scenario import OPTIONS, make_scenario
from pipeline.spec_fields import Field
from pipeline.store.state import signature

FLAG_PREFIX, POLICY_KEY = "mcts_", "expansion_policy"


def _flag(field: Field) -> Field:
    return field._replace(key=FLAG_PREFIX + (field.flag or field.key), default=None)


# By the key of a scenario.
SCENARIO_FLAGS = {key: _flag(option) for key, option in OPTIONS.items()}
FLAGS = (*SCENARIO_FLAGS.values(), _flag(SPEC[POLICY_KEY]))
VARIABLES = ()


def spec_for_bank(bank: str) -> MctsSpec:
    sources = {bank: signature(bank)}
    rules = SearchRules(DEFAULT_BUDGET, expansion=Expansion(attempts=DEFAULT_ATTEMPTS))
    lean, by = LeanKeys(processes=DEFAULT_PROCESSES), GuideNames()
    return MctsSpec("", 1, bank, bank_ids(bank), lean, (0,), rules, by, (), DEFAULT_LEDGER, None, sources)


def with_overrides(spec: MctsSpec, values: Mapping[str, Any]) -> MctsSpec:
    if policy := values.get(FLAG_PREFIX + POLICY_KEY):
        rules = spec.rules
        spec = spec._replace(rules=rules._replace(expansion=rules.expansion._replace(policy=policy)))
    given = {key: values[flag.key] for key, flag in SCENARIO_FLAGS.items() if flag.key in values}
    if spec.scenarios and not given:
        return spec
    return spec._replace(scenarios=(make_scenario("flags", given, _refuse, _flag_word),))


def _refuse(_key: str, what: str) -> NoReturn:
    raise SpecError(f"mcts: {what}")


def _flag_word(key: str) -> str:
    return f"--{SCENARIO_FLAGS[key].key.replace('_', '-')}"
