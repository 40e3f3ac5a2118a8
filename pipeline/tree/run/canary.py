"""The canary: decisions must stay the same when the data after them is cut off, or they were made with it.

Data and decisions are CSV tables.  Data is in the order of time; a decision names a time of the data in its first
column, as it is written there.  The command runs once on all data, then as often as the spec says with the end cut off
at times drawn by a seed; a decision that changes has looked ahead."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise, zip_longest
from math import isfinite
from typing import NamedTuple

from pipeline.errors import cut_text
from pipeline.tree.run.command import CheckoutRun
from pipeline.tree.spec.model import Canary

BOM = "\ufeff"
Cells = Sequence[str]


class UnusableTable(Exception):
    """A table that is not what it has to be; the words say what is wrong with it."""


class DataTable(NamedTuple):
    """`ends`: of each time, in order, how many lines there are up to its last row."""

    lines: Sequence[str]
    ends: dict[str, int]

    @property
    def last(self) -> str:
        return next(reversed(self.ends))

    def until(self, time: str) -> str:
        return "".join(self.lines[: self.ends[time]])


class DecisionTable(NamedTuple):
    """`keys`: how many of the first columns tell its rows apart."""

    header: Cells
    rows: Sequence[Cells]
    keys: int

    def until(self, time: str, data: DataTable) -> DecisionTable:
        end = data.ends[time]
        return self._replace(rows=[row for row in self.rows if data.ends[row[0]] <= end])

    def name(self, row: Cells) -> str:
        named = zip(self.header[1 : self.keys], row[1:], strict=False)
        return ", ".join([_shown(row[0]), *(f"{_shown(column)} {_shown(cell)}" for column, cell in named)])


def parse_data(text: str, column: str) -> DataTable:
    """`column`: where the time stands; the first one if it is empty."""
    lines = list(io.StringIO(text, newline=""))
    header, *rows = _rows(lines) or [([], 0)]
    at = _column([name.removeprefix(BOM) for name in header[0]], column)
    ends: dict[str, int] = {}
    before = ""
    for cells, end in rows:
        time = cells[at] if at < len(cells) else ""
        if not time or (time != before and time in ends):
            what = "is in two places" if time else "is missing"
            raise UnusableTable(
                f"line {end}: the time {_shown(time)}{' ' if time else ''}{what}; rows must be in its order"
            )
        ends[time], before = end, time
    if not ends:
        raise UnusableTable("it has no rows")
    _check_order(ends)
    return DataTable(lines, ends)


def _column(header: Cells, column: str) -> int:
    if column and column not in header:
        raise UnusableTable(f"there is no column {column}; it has {', '.join(map(_shown, header)) or 'none'}")
    return header.index(column) if column else 0


def _check_order(ends: Mapping[str, int]) -> None:
    """As numbers if all of them are, or else as texts, which dates like 2001-12-31 are made for."""
    times = list(ends)
    numbers = [_number(time) for time in times]
    ordered: Sequence[float] | Sequence[str] = times if None in numbers else [n for n in numbers if n is not None]
    for i in range(1, len(times)):
        if not ordered[i - 1] < ordered[i]:  # type: ignore[operator]
            wrong = f"line {ends[times[i]]}: {_shown(times[i])} after {_shown(times[i - 1])}"
            raise UnusableTable(f"{wrong}: times must rise from row to row, written so that they sort, like 2001-12-31")


def parse_decisions(text: str, data: DataTable, until: str) -> DecisionTable:
    """`until`: the last time of the data that they were made with."""
    (header, _), *rows = _rows(io.StringIO(text, newline="")) or [([], 0)]
    end = data.ends[until]
    for cells, line in rows:
        if len(cells) != len(header):
            raise UnusableTable(f"line {line} has {len(cells)} cells, the header has {len(header)}")
        if data.ends.get(cells[0], end + 1) > end:
            raise UnusableTable(f"line {line}: {_shown(cells[0])} is no time of the data that it was given")
        wrong = next((cell for cell in cells if (number := _number(cell)) is not None and not isfinite(number)), "")
        if wrong:
            raise UnusableTable(f"line {line}: {_shown(header[cells.index(wrong)])} is {_shown(wrong)}")
    found = [cells for cells, _ in rows]
    return DecisionTable(header, found, _keys(header, found))


def _rows(lines: Iterable[str]) -> list[tuple[Cells, int]]:
    """The cells of each row that has any, and the number of its last line."""
    reader = csv.reader(lines)
    try:
        return [(cells, reader.line_num) for cells in reader if cells]
    except csv.Error as error:
        raise UnusableTable(f"line {reader.line_num} is not CSV: {error}") from error


def _keys(header: Cells, rows: Sequence[Cells]) -> int:
    unique = (n for n in range(1, len(header)) if len({tuple(row[:n]) for row in rows}) == len(rows))
    return next(unique, 1)


def cut_times(decisions: DecisionTable, data: DataTable, start: float, count: int, seed: str) -> list[str]:
    """Times to cut the data after, spread over what follows `start`, the same ones for the same seed.

    Each is one at which something is decided: what looks a few days ahead would else look at nothing that is gone."""
    first, last = start * len(data.lines), len(data.lines)
    made = {row[0] for row in decisions.rows}
    times = [time for time, end in data.ends.items() if time in made and first <= end < last]
    parts = min(count, len(times))
    bounds = [len(times) * n // parts for n in range(parts + 1)] if parts else []
    return [times[low + _drawn(f"{seed} {low}", high - low)] for low, high in pairwise(bounds)]


def _drawn(seed: str, below: int) -> int:
    return int.from_bytes(sha256(seed.encode()).digest()[:8], "big") % below


def first_change(whole: DecisionTable, part: DecisionTable, tolerance: float) -> str:
    """The first one between what was decided with all data and with a part of it, in words; empty if there is none."""
    if whole.header != part.header:
        return f"columns {_shown(','.join(whole.header))} -> {_shown(','.join(part.header))}"
    found = (_changed(whole, old, new, tolerance) for old, new in zip_longest(whole.rows, part.rows))
    return next(filter(None, found), "")


def _changed(whole: DecisionTable, old: Cells | None, new: Cells | None, tolerance: float) -> str:
    if old is None or new is None:
        return f"{whole.name(old or new or ())}: {'decided' if old else 'nothing'} -> {'decided' if new else 'nothing'}"
    column = next((n for n in range(len(old)) if not _same(old[n], new[n], tolerance)), None)
    if column is None:
        return ""
    if column < whole.keys:
        return f"{whole.name(old)} -> {whole.name(new)}"
    return f"{whole.name(old)}: {_shown(whole.header[column])} {_shown(old[column])} -> {_shown(new[column])}"


def _shown(text: str) -> str:
    """On one line, and nothing that a terminal would do instead of showing it."""
    plain = (letter if letter.isprintable() else repr(letter)[1:-1] for letter in " ".join(text.split()))
    return cut_text("".join(plain))


def _same(old: str, new: str, tolerance: float) -> bool:
    if old == new:
        return True
    a, b = _number(old), _number(new)
    return a is not None and b is not None and abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


LARGEST_DECISIONS = 64 << 20  # of decisions

# Runs the command on the data up to a time.
RunUntil = Callable[[str], CheckoutRun]


class Cut(NamedTuple):
    """`change`: the first decision that is another one when the data after `time` is cut off; or empty."""

    time: str
    change: str


class CanaryResult(NamedTuple):
    """`decisions`: how many were made with all of the data.  `why`: what is wrong."""

    why: str
    exit: int
    decisions: int = 0
    cuts: tuple[Cut, ...] = ()


class _Failed(Exception):
    """A run that brought no decisions."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def run_canary(canary: Canary, data: DataTable, seed: str, run: RunUntil) -> CanaryResult:
    try:
        whole = _decisions(data, data.last, run)
        times = cut_times(whole, data, canary.start, canary.cuts, seed)
        found = tuple(_cuts(canary, data, whole, times, run))
    except _Failed as failed:
        return CanaryResult(str(failed), failed.status)
    why = "nothing is decided at a time after which the data could be cut" if not found else _why(found)
    return CanaryResult(why, 0, len(whole.rows), found)


def _cuts(canary: Canary, data: DataTable, whole: DecisionTable, times: list[str], run: RunUntil) -> Iterator[Cut]:
    for time in times:
        part = _decisions(data, time, run)
        yield Cut(time, first_change(whole.until(time, data), part, canary.tolerance))


def _why(found: tuple[Cut, ...]) -> str:
    changed = [cut for cut in found if cut.change]
    if not changed:
        return ""
    first = changed[0]
    many = f"so with {len(changed)} of {len(found)} cuts"
    return f"a decision changes when the data after {first.time} is cut off: {first.change} ({many})"


def _decisions(data: DataTable, until: str, run: RunUntil) -> DecisionTable:
    where = "with all of the data" if until == data.last else f"with the data up to {until}"
    done = run(until)
    if not done.ok:
        raise _Failed(done.why if done.void else f"{where}: {done.why}", done.exit)
    if len(done.results) > LARGEST_DECISIONS:
        raise _Failed(f"{where}: more than {LARGEST_DECISIONS >> 20} MB of decisions", 0)
    try:
        return parse_decisions(done.results.decode("utf-8-sig", errors="replace"), data, until)
    except UnusableTable as error:
        raise _Failed(f"{where}: its decisions cannot be used: {error}", 0) from error
