"""All there is to know of one target or one run, in words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.outcome import BUILT
from pipeline.core.rooms import spoken
from pipeline.core.words import duration
from pipeline.views.why import failure_text

Row = tuple[str, Sequence[str]]  # a word, and the lines beside it


class Details(NamedTuple):
    """`status` has the status and what there is to say of it, and is empty when it was not asked for."""

    name: str
    status: Sequence[str]
    does: Mapping[str, Sequence[str]]
    reads: Mapping[str, str]  # path -> the target that writes it, or nothing
    writes: Sequence[str]
    receipt: Receipt | None
    failure: Mapping[str, Any] | None


def target_text(seen: Details) -> str:
    width = max(map(len, seen.reads), default=0)
    reads = [f"{path:{width}}  <- {maker}" if maker else path for path, maker in seen.reads.items()]
    made = [_made(seen.receipt)] if seen.receipt else []
    failed = [failure_text(seen.failure)] if seen.failure else []
    rows = [("status", seen.status), *seen.does.items(), ("reads", reads), ("writes", seen.writes)]
    rows += [("made", made), ("failed", failed)]
    return "\n".join([seen.name, *_table(rows)])


def run_text(run: str, declared: Mapping[str, str], rooms: Mapping[str, int], statuses: Mapping[str, int]) -> str:
    """`statuses`: how many targets stand how; empty when that was not asked for."""
    places = [", ".join(f"{spoken(room)} {size}" for room, size in rooms.items())] if rooms else []
    counted = [", ".join(f"{n} {status}" for status, n in statuses.items())] if statuses else []
    rows = [*((word, [text]) for word, text in declared.items()), ("rooms", places), ("status", counted)]
    return "\n".join([run, *_table(rows)])


def _table(rows: Iterable[Row]) -> Iterator[str]:
    rows = [row for row in rows if row[1]]
    width = max([7, *(len(word) for word, _ in rows)])
    for word, lines in rows:
        for first, line in zip([word, *[""] * len(lines)], lines, strict=False):
            yield f"  {first:{width}} {line}"


def _made(receipt: Receipt) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(receipt.end))
    if receipt.how != BUILT:
        return f"{receipt.how} {when}"
    attempts = f", at attempt {receipt.attempts}" if receipt.attempts > 1 else ""
    return f"{when} in {duration(receipt.end - receipt.start)}{attempts}"
