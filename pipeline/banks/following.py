"""What a build says at its end of the bank: which of its rows are no goals, and which may not say what they seem to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.core.graph import Target
from pipeline.core.words import plural

NAMED = 10  # rows that are told one by one


def refused(told: Sequence[str]) -> Iterator[str]:
    """`told`: a line for each."""
    return _named("row", "of the bank not counted", told)


def doubted(told: Sequence[str]) -> Iterator[str]:
    """Of rows that count."""
    return _named("warning", "about what the bank says", told)


def _named(what: str, of: str, told: Sequence[str]) -> Iterator[str]:
    if told:
        more = f"\n  and {len(told) - NAMED} more" if len(told) > NAMED else ""
        named = "".join(f"\n  {each}" for each in told[:NAMED])
        yield f"{plural(len(told), what)} {of}:{named}{more}\n"


def has_library(target: Target) -> bool:
    """May the Lean that it asks know more than the core library?"""
    lean = target.params["limits"]["lean"]
    return lean["backend"] != "wasm" and bool(lean["project"])


def written_by(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path
