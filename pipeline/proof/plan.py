"""Targets of a proof run, a pure function of the spec; and those of a pursuit, which no spec stands for.

Limits that do not decide a result (processes, rooms, load) are no part of any recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.graph import Limits, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.backends.keys import run_files, toolchain_target
from pipeline.proof.spec.model import ProofSpec, StrategyWorker
from pipeline.proof.workers.table import worker_code

# stage -> what it reads of the run, the spec's bank apart, and what it writes.
FILES = {
    "bank": (("toolchain.json",), ("bank.json",)),
    "prove": (("bank.json", "toolchain.json"), ("search.json", "proofs.jsonl", "journal.jsonl")),
    "check": (("proofs.jsonl", "toolchain.json"), ("checked.json",)),
    "report": (
        ("bank.json", "search.json", "proofs.jsonl", "checked.json"),
        ("results.json", "results.csv", "results.html", "proofs.lean", "proofs.zip"),
    ),
}


def plan(spec: ProofSpec) -> Iterator[Target]:
    yield toolchain_target(spec.name, spec.line, spec.lean)
    for stage, params in PARAMS.items():
        reads, writes = (tuple(run_files(spec.name, *names).items()) for names in FILES[stage])
        reads = (("bank", (spec.bank,)), *reads) if stage == "bank" else reads
        yield Target(f"{spec.name}:{stage}", stage, reads, writes, params(spec), Limits(), spec.line)


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
        LIMITS: {"lean": spec.lean._asdict(), **limits},
    }


PARAMS: Mapping[str, Callable[[ProofSpec], Mapping[str, Any]]] = {
    "bank": lambda spec: {LIMITS: {"lean": spec.lean._asdict()}},
    "prove": prove_params,
    "check": lambda spec: {LIMITS: {"lean": spec.lean._asdict(), "ledger": spec.ledger}},
    "report": lambda spec: {"pass_at": [*spec.pass_at]},
}

# Budgets grow as often as this: nobody waits for the last of them.
PURSUIT_LEVELS = 12
PURSUE = "pursue"


def pursuit(spec: ProofSpec, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]:
    """Works on what is open in the ledger, or of `bank` alone, with ever larger budgets.  `stamp` is never the same."""
    asked = spec._replace(search=spec.search._replace(levels=PURSUIT_LEVELS, timeout=seconds, samples=1))
    reads, writes = run_files(spec.name, "toolchain.json"), run_files(spec.name, f"{PURSUE}.json")
    ports = (*reads.items(), *([("bank.json", (bank,))] if bank else [])), tuple(writes.items())
    params = {**prove_params(asked), "stamp": stamp}
    return [
        toolchain_target(spec.name, spec.line, spec.lean),
        Target(f"{spec.name}:{PURSUE}", PURSUE, *ports, params, Limits(), spec.line),
    ]
