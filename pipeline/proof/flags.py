"""Options of `coppice bank` and `bg`, environment variables, and the specs that they make.

Options go before the environment, that before the spec, and the spec before documented defaults. Also here: the spec
of a bank that has none, and the targets of a pursuit, which no spec stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Limits, Target
from pipeline.errors import SpecError
from pipeline.lean.backends.keys import DEFAULT_LEDGER, toolchain_target
from pipeline.lean.model import LeanKeys
from pipeline.proof.plan import prove_params
from pipeline.proof.read import SPEC
from pipeline.proof.schedule.records import TIMEOUTS
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings
from pipeline.proof.workers.table import check_worker_built, profile_workers

FLAGS = SPEC.flags
DEFAULT_PROFILE = 1
# As documented, where that is not what a spec without the key has.
DEFAULTS = {"profile": DEFAULT_PROFILE, "cpu_target": 0.5}
VARIABLES = tuple(each._replace(default=DEFAULTS.get(each.key, each.default)) for each in SPEC if each.variable)
# Budgets grow as often as this: nobody waits for the last of them.
PURSUIT_LEVELS = 12
PURSUE = "pursue"


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


def pursuit(spec: ProofSpec, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]:
    """Works on what is open in the ledger, or of `bank` alone, with ever larger budgets.  `stamp` is never the same."""
    asked = spec._replace(search=spec.search._replace(levels=PURSUIT_LEVELS, timeout=seconds, samples=1))
    reads = {"toolchain.json": f"runs/{spec.name}/toolchain.json", **({"bank.json": bank} if bank else {})}
    params = {**prove_params(asked), "stamp": stamp}
    written = ((f"{PURSUE}.json", (f"runs/{spec.name}/{PURSUE}.json",)),)
    ports = tuple((port, (path,)) for port, path in reads.items())
    return [
        toolchain_target(spec.name, spec.line, spec.lean),
        Target(f"{spec.name}:{PURSUE}", PURSUE, ports, written, params, Limits(), spec.line),
    ]
