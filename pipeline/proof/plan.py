"""A proof spec as targets: a pure function of the spec.

What limits the search and does not decide what comes of it (processes, rooms, load) is no part of any recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.banks import plan as banks
from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.proof.making import code
from pipeline.proof.settings import ProofSpec, Way

# stage -> what it reads, and what it writes; a name without a dot is the spec's.
FILES = {
    **banks.FILES,
    "bank": (("bank", "toolchain.json"), ("bank.json",)),
    "prove": (("bank.json", "toolchain.json"), ("search.json", "proofs.jsonl", "journal.jsonl")),
    "check": (("proofs.jsonl", "toolchain.json"), ("checked.json",)),
    "report": (
        ("bank.json", "search.json", "proofs.jsonl", "checked.json"),
        ("results.json", "results.csv", "results.html", "proofs.lean", "proofs.zip"),
    ),
}


def plan(spec: ProofSpec) -> Iterator[Target]:
    source = source_of(spec)
    yield banks.toolchain(source)
    yield from (banks.target(source, stage, FILES, params(spec)) for stage, params in PARAMS.items())


def source_of(spec: ProofSpec) -> banks.Source:
    return banks.Source(spec.name, spec.line, spec.bank, spec.lean)


def prove_params(spec: ProofSpec) -> Mapping[str, Any]:
    # dicts and lists: they are written down as they are
    search = {**spec.search._asdict(), "strategies": dict(spec.search.strategies)}
    codes = {name: code(spec.way(name)) for name in spec.search.strategies}
    ways = {name: way._asdict() for name in spec.search.strategies if (way := spec.way(name)) != Way(name)}
    limits = {"pace": spec.pace._asdict(), "ledger": spec.ledger, "profile": spec.profile}
    return {
        "search": search,
        "codes": codes,
        **({"ways": ways} if ways else {}),
        LIMITS: {**banks.limits(spec.lean)[LIMITS], **limits},
    }


PARAMS: Mapping[str, Callable[[ProofSpec], Mapping[str, Any]]] = {
    "bank": lambda spec: banks.limits(spec.lean),
    "prove": prove_params,
    "check": lambda spec: {LIMITS: {**banks.limits(spec.lean)[LIMITS], "ledger": spec.ledger}},
    "report": lambda spec: {"pass_at": [*spec.pass_at]},
}
