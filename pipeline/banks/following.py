"""What a build says at its end of the bank: which of its rows are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.core.graph import Target
from pipeline.core.words import plural

NAMED = 10  # rows that are told one by one


def refused(told: Sequence[str]) -> Iterator[str]:
    """`told`: a line for each."""
    if told:
        more = f"\n  and {len(told) - NAMED} more" if len(told) > NAMED else ""
        named = "".join(f"\n  {each}" for each in told[:NAMED])
        yield f"{plural(len(told), 'row')} of the bank not counted:{named}{more}\n"


def written_by(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path
