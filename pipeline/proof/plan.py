"""Targets of a proof run: a pure function of the spec.

Limits that do not decide a result (processes, rooms, load) are no part of any recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.core.graph import Limits, Ports, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.backends.keys import toolchain_target
from pipeline.proof.spec.model import ProofSpec, StrategyWorker
from pipeline.proof.workers.table import worker_code

# stage -> what it reads, and what it writes; `bank` is the spec's, others are of the run.
FILES = {
    "bank": (("bank", "toolchain.json"), ("bank.json",)),
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
        reads, writes = (_ports(spec, names) for names in FILES[stage])
        yield Target(f"{spec.name}:{stage}", stage, reads, writes, params(spec), Limits(), spec.line)


def _ports(spec: ProofSpec, names: tuple[str, ...]) -> Ports:
    """A port for each file, called like it."""
    return tuple((name, (spec.bank if name == "bank" else f"runs/{spec.name}/{name}",)) for name in names)


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
