"""Options of `coppice bank` and `bg`, environment variables, and the specs that they make.

Options go before the environment, that before the spec, and the spec before documented defaults. Also here: the spec
of a bank that has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.errors import SpecError
from pipeline.lean.backends.keys import DEFAULT_LEDGER
from pipeline.lean.model import LeanKeys
from pipeline.proof.read import SPEC
from pipeline.proof.schedule.records import TIMEOUTS
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings
from pipeline.proof.workers.table import check_worker_built, profile_workers

FLAGS = SPEC.flags
DEFAULT_PROFILE = 1
# As documented, where that is not what a spec without the key has.
DEFAULTS = {"profile": DEFAULT_PROFILE, "cpu_target": 0.5}
VARIABLES = tuple(each._replace(default=DEFAULTS.get(each.key, each.default)) for each in SPEC if each.variable)


def spec_for_bank(bank: str) -> ProofSpec:
    """A bank without a spec."""
    return ProofSpec("", 1, bank, LeanKeys(), SearchSettings({}), Pace(), None, (1,), DEFAULT_LEDGER, None)


def with_overrides(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """Merge settings: options and environment go before the spec, and that before documented defaults."""
    missing = {
        flag.key: flag.default for flag in VARIABLES if flag.key not in spec.explicit_keys and flag.key != "profile"
    }
    settled = {**missing, **values}
    search = {key: value for key, value in settled.items() if key in SearchSettings._fields}
    pace = {key: value for key, value in settled.items() if key in Pace._fields}
    spec = spec._replace(search=spec.search._replace(**search), pace=spec.pace._replace(**pace))
    return _with_profile(spec, values) if "profile" in values or not spec.search.strategies else spec


def _with_profile(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """Budgets of the spec stay.  The default profile is what of it is built; one that is asked for is all built."""
    profile = values.get("profile", DEFAULT_PROFILE)
    built, lacking = profile_workers(profile)
    for name in lacking if "profile" in values else ():
        try:
            check_worker_built(name)
        except SpecError as error:
            raise SpecError(f"profile {profile}: {error}; profile 0 is micro alone") from error
    strategies = {name: spec.search.strategies.get(name, TIMEOUTS[name]) for name in built}
    return spec._replace(profile=profile, search=spec.search._replace(strategies=strategies))
