"""Parts of a search that a spec names: those that are built, and those whose seam alone is."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import SpecError, instead


def demand(what: str, name: str, built: Mapping[str, object], seams: Mapping[str, str]) -> None:
    """A SpecError where there is no such part; whoever reads the spec adds the line.  `seams`: what each would take."""
    if name in seams:
        raise SpecError(f"{what} '{name}' is not built yet: it takes {seams[name]}; use {' or '.join(sorted(built))}")
    if name not in built:
        raise SpecError(f"{what} '{name}' is unknown{instead(name, built)}")
