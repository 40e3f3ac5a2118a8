"""A proof spec as targets: a pure function of the spec.

What limits the search and does not decide what comes of it (processes, rooms, load) is no part of any recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.core.graph import Limits, Ports, Target
from pipeline.core.recipe import LIMITS
from pipeline.proof.making import code
from pipeline.proof.settings import ProofSpec, Way

# stage -> what it reads, and what it writes; a name without a dot is the spec's.
FILES = {
    "toolchain": (("project",), ("toolchain.json",)),
    "bank": (("bank", "toolchain.json"), ("bank.json",)),
    "prove": (("bank.json", "toolchain.json"), ("search.json", "proofs.jsonl", "journal.jsonl")),
    "check": (("proofs.jsonl", "toolchain.json"), ("checked.json",)),
    "report": (
        ("bank.json", "search.json", "proofs.jsonl", "checked.json"),
        ("results.json", "results.csv", "results.html", "proofs.lean"),
    ),
}


def plan(spec: ProofSpec) -> Iterator[Target]:
    yield from (_target(spec, stage) for stage in FILES)


def toolchain(spec: ProofSpec) -> Target:
    return _target(spec, "toolchain")


def _target(spec: ProofSpec, stage: str) -> Target:
    reads, writes = (_ports(spec, names) for names in FILES[stage])
    return Target(f"{spec.name}:{stage}", stage, reads, writes, PARAMS[stage](spec), Limits(), spec.line)


def _ports(spec: ProofSpec, names: tuple[str, ...]) -> Ports:
    """Each file is a port of its own, called like it; a project that there is not is none."""
    given = {"bank": spec.bank, "project": spec.lean.project}
    paths = {name: given.get(name, f"runs/{spec.name}/{name}") for name in names}
    return tuple((name, (path,)) for name, path in paths.items() if path)


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
        LIMITS: {**_lean(spec)[LIMITS], **limits},
    }


def _lean(spec: ProofSpec) -> Mapping[str, Any]:
    """Which Lean it is stands in toolchain.json, which counts."""
    return {LIMITS: {"lean": spec.lean._asdict()}}


PARAMS: Mapping[str, Callable[[ProofSpec], Mapping[str, Any]]] = {
    "toolchain": lambda spec: {"backend": spec.lean.backend, "project": spec.lean.project},
    "bank": _lean,
    "prove": prove_params,
    "check": _lean,
    "report": lambda spec: {"pass_at": [*spec.pass_at]},
}
