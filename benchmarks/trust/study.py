"""What every study has in common: cells that are measured one by one, a table, promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.trust.shares import Share

Params = dict[str, Any]
Found = dict[str, Any]  # Shares, numbers, words


class Promise(NamedTuple):
    """A figure that the product promises: whether it was reached, and in words which."""

    reached: bool
    what: str


class Study(NamedTuple):
    """`grid`: the cells, in full or quick. `measure(depths, **cell)`: the columns. `promises`: of one cell."""

    title: str
    grid: Callable[[bool], Sequence[Params]]
    measure: Callable[..., Found]
    promises: Callable[[Params, Found], Sequence[Promise]] = lambda params, found: ()


def table(rows: Sequence[tuple[Params, Found]]) -> str:
    """Markdown: a row a cell.  A row may lack columns that others have."""
    names = list(dict.fromkeys(name for params, found in rows for name in (*params, *found)))
    lines = [names, ["---"] * len(names)]
    lines += [[_shown((params | found).get(name, "")) for name in names] for params, found in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plain(value: object) -> object:
    """For JSON."""
    if isinstance(value, Share):
        low, high = value.interval
        return {"hits": value.hits, "of": value.of, "percent": value.percent, "low": low, "high": high}
    return value
