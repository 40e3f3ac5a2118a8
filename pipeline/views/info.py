"""Details of a target, step or run as a table: a title, then rows of a word and the lines beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Limits, room_label
from pipeline.core.outcome import BUILT, FRESH, Forecast
from pipeline.core.text import duration
from pipeline.views.why import outlook_text, reason_line

TextRow = tuple[str, Sequence[str]]


def details_text(title: str, rows: Iterable[TextRow]) -> str:
    """Text with all rows that have lines."""
    rows = [row for row in rows if row[1]]
    width = max([7, *(len(word) for word, _ in rows)])
    lines = [title]
    for word, beside in rows:
        lines += (f"  {first:{width}} {line}" for first, line in zip([word, *[""] * len(beside)], beside, strict=False))
    return "\n".join(lines)


def status_lines(status: str, forecast: Forecast) -> Iterator[str]:
    yield status
    if status != FRESH:
        yield from (reason_line(reason) for reason in forecast.reasons)
        yield outlook_text(forecast)


def count_lines(counts: Mapping[str, int]) -> list[str]:
    """Line with the number of targets of each status."""
    return [", ".join(f"{number} {status}" for status, number in counts.items())] if counts else []


def room_lines(rooms: Mapping[str, int]) -> list[str]:
    return [", ".join(f"{room_label(room)} {places}" for room, places in rooms.items())] if rooms else []


def limit_rows(limits: Limits, places: Mapping[str, int]) -> Iterator[TextRow]:
    yield "timeout", [] if limits.timeout is None else [duration(limits.timeout)]
    yield "retries", [str(limits.retries)] if limits.retries else []
    yield "room", [f"{room_label(room)}, {places[room]} at once" for room in limits.rooms]


def read_lines(makers: Mapping[str, str]) -> list[str]:
    """Paths that a target reads, each with the target that writes it, if one does."""
    width = max(map(len, makers), default=0)
    return [f"{path:{width}}  <- {maker}" if maker else path for path, maker in makers.items()]


def result_line(receipt: Receipt) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(receipt.end))
    if receipt.how != BUILT:
        return f"{receipt.how} {when}"
    attempts = f", at attempt {receipt.attempts}" if receipt.attempts > 1 else ""
    return f"{when} in {duration(receipt.end - receipt.start)}{attempts}"
