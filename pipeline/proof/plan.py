"""Targets of a proof run: a pure function of the spec.

Limits that do not decide a result (processes, rooms, load) are no part of any recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.goals import proving as banks
from pipeline.proof.spec.model import ProofSpec, StrategyWorker
from pipeline.proof.workers.table import worker_code

# stage -> what it reads, and what it writes; a name without a dot is the spec's.
FILES = {
    **banks.TOOLCHAIN_FILES,
    "bank": (("bank", "toolchain.json"), ("bank.json",)),
    "prove": (("bank.json", "toolchain.json"), ("search.json", "proofs.jsonl", "journal.jsonl")),
    "check": (("proofs.jsonl", "toolchain.json"), ("checked.json",)),
    "report": (
        ("bank.json", "search.json", "proofs.jsonl", "checked.json"),
        ("results.json", "results.csv", "results.html", "proofs.lean", "proofs.zip"),
    ),
}


def plan(spec: ProofSpec) -> Iterator[Target]:
    source = bank_source(spec)
    yield banks.toolchain_target(source)
    yield from (banks.target_of_run(source, stage, FILES, params(spec)) for stage, params in PARAMS.items())


def bank_source(spec: ProofSpec) -> banks.RunSource:
    return banks.RunSource(spec.name, spec.line, spec.bank, spec.lean)


def prove_params(spec: ProofSpec) -> Mapping[str, Any]:
    # dicts and lists: they are written down as they are
    search = {**spec.search._asdict(), "strategies": dict(spec.search.strategies)}
    codes = {name: worker_code(spec.worker_for(name)) for name in spec.search.strategies}
    ways = {
        name: way._asdict() for name in spec.search.strategies if (way := spec.worker_for(name)) != StrategyWorker(name)
    }
    limits = {"pace": spec.pace._asdict(), "ledger": spec.ledger, "profile": spec.profile}
    return {
        "search": search,
        "codes": codes,
        **({"ways": ways} if ways else {}),
        LIMITS: {**banks.lean_limits(spec.lean)[LIMITS], **limits},
    }


PARAMS: Mapping[str, Callable[[ProofSpec], Mapping[str, Any]]] = {
    "bank": lambda spec: banks.lean_limits(spec.lean),
    "prove": prove_params,
    "check": lambda spec: {LIMITS: {**banks.lean_limits(spec.lean)[LIMITS], "ledger": spec.ledger}},
    "report": lambda spec: {"pass_at": [*spec.pass_at]},
}
