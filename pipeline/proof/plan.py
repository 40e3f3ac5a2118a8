"""A proof spec as targets: a pure function of the spec.

What limits the search and does not decide what comes of it (processes, rooms, load) is no part of any recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.graph import Limits, Ports, Target
from pipeline.core.recipe import LIMITS
from pipeline.proof.settings import ProofSpec
from pipeline.proof.workers import WORKERS

# stage -> what it reads, and what it writes; a name without a dot is the spec's.
FILES = {
    "toolchain": ((), ("toolchain.json",)),
    "bank": (("bank", "toolchain.json"), ("bank.json",)),
    "prove": (("bank.json", "toolchain.json"), ("search.json", "proofs.jsonl", "journal.jsonl")),
    "check": (("proofs.jsonl", "toolchain.json"), ("checked.json",)),
    "report": (
        ("bank.json", "search.json", "proofs.jsonl", "checked.json"),
        ("results.json", "results.csv", "proofs.lean"),
    ),
}


def plan(spec: ProofSpec) -> Iterator[Target]:
    params = _params(spec)
    for stage, (reads, writes) in FILES.items():
        yield Target(
            f"{spec.name}:{stage}", stage, _ports(spec, reads), _ports(spec, writes), params[stage], Limits(), spec.line
        )


def _ports(spec: ProofSpec, names: tuple[str, ...]) -> Ports:
    """Each file is a port of its own, called like it."""
    given = {"bank": spec.bank}
    return tuple((name, (given.get(name, f"runs/{spec.name}/{name}"),)) for name in names)


def _params(spec: ProofSpec) -> Mapping[str, Mapping[str, Any]]:
    lean = spec.lean._asdict()
    # a dict of each: they are written down as they are
    search = {**spec.search._asdict(), "strategies": dict(spec.search.strategies)}
    codes = {name: WORKERS[name].CODE for name in spec.search.strategies}
    limits = {"lean": lean, "pace": spec.pace._asdict(), "ledger": spec.ledger, "profile": spec.profile}
    return {
        "toolchain": {"backend": spec.lean.backend, "project": spec.lean.project},
        "bank": {LIMITS: {"lean": lean}},
        "prove": {"search": search, "codes": codes, LIMITS: limits},
        "check": {LIMITS: {"lean": lean}},
        "report": {"pass_at": [*spec.pass_at]},
    }
