"""The first target of a run that proves, which Lean it asks, and others that read and write files of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.banks.settings import LeanKeys
from pipeline.core.graph import Limits, Ports, Target
from pipeline.core.recipe import LIMITS

TOOLCHAIN = "toolchain"
# stage -> what it reads, and what it writes; a name without a dot is the spec's.
FILES = {TOOLCHAIN: (("project",), ("toolchain.json",))}


class Source(NamedTuple):
    """What a spec says of it; `line` is where the spec is."""

    name: str
    line: int
    bank: str
    lean: LeanKeys


def toolchain(of: Source) -> Target:
    params = {"backend": of.lean.backend, "project": of.lean.project}
    return target(of, TOOLCHAIN, FILES, params)


def target(
    of: Source, stage: str, files: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]], params: Mapping[str, Any]
) -> Target:
    reads, writes = (ports(of, names) for names in files[stage])
    return Target(f"{of.name}:{stage}", stage, reads, writes, params, Limits(), of.line)


def ports(of: Source, names: tuple[str, ...]) -> Ports:
    """Each file is a port of its own, called like it; a project that there is not is none."""
    given = {"bank": of.bank, "project": of.lean.project}
    paths = {name: given.get(name, f"runs/{of.name}/{name}") for name in names}
    return tuple((name, (path,)) for name, path in paths.items() if path)


def limits(lean: LeanKeys) -> Mapping[str, Any]:
    """Which Lean it is stands in toolchain.json, which counts."""
    return {LIMITS: {"lean": lean._asdict()}}
