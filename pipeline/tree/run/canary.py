"""Canary: run a command again with the end of the data cut off; a decision that changes has used future data.

Data and decisions are CSV tables.  Data is in the order of time; a decision has a time of the data in its first column,
as it is written there.  The command runs once on all data, then as often as the spec says, cut off at times drawn by a
seed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise, zip_longest
from math import isfinite
from typing import Any, NamedTuple

from pipeline.core.text import printable_line
from pipeline.errors import cut_text
from pipeline.tree.rules.sheet import CsvProblem, SheetRoom, csv_lines, csv_rows
from pipeline.tree.run.command import CheckoutRun
from pipeline.tree.spec.model import Canary

BOM = "\ufeff"
Cells = Sequence[str]


class UnusableTable(Exception):
    """A table that cannot be used; the message says what is wrong with it."""


class DataTable(NamedTuple):
    """Data in the order of time.  `ends`: for each time, in order, the number of lines up to its last row."""

    lines: Sequence[str]
    ends: dict[str, int]

    @property
    def last(self) -> str:
        return next(reversed(self.ends))

    def until(self, time: str) -> str:
        return "".join(self.lines[: self.ends[time]])


class DecisionTable(NamedTuple):
    """Decisions.  `keys`: the number of first columns that tell its rows apart."""

    header: Cells
    rows: Sequence[Cells]
    keys: int

    def until(self, time: str, data: DataTable) -> DecisionTable:
        end = data.ends[time]
        return self._replace(rows=[row for row in self.rows if data.ends[row[0]] <= end])

    def name(self, row: Cells) -> str:
        named = zip(self.header[1 : self.keys], row[1:], strict=False)
        return ", ".join([_cell_text(row[0]), *(f"{_cell_text(column)} {_cell_text(cell)}" for column, cell in named)])


def parse_data(text: str, column: str) -> DataTable:
    """Parse data; `column` has the time, the first one if it is empty."""
    lines = list(io.StringIO(text, newline=""))
    (header, _), *rows = _rows(lines) or [([], 0)]
    names = [name.removeprefix(BOM) for name in header]
    if column and column not in names:
        raise UnusableTable(f"there is no column {column}; it has {', '.join(map(_cell_text, names)) or 'none'}")
    at = names.index(column) if column else 0
    ends: dict[str, int] = {}
    before = ""
    for cells, end in rows:
        time = cells[at] if at < len(cells) else ""
        if not time or (time != before and time in ends):
            what = f"{_cell_text(time)} is in two places" if time else "is missing"
            raise UnusableTable(f"line {end}: the time {what}; rows must be in its order")
        ends[time], before = end, time
    if not ends:
        raise UnusableTable("it has no rows")
    _check_order(ends)
    return DataTable(lines, ends)


def _check_order(ends: Mapping[str, int]) -> None:
    """Check that times rise: as numbers if all of them are, or else as texts, like dates (2001-12-31)."""
    numbers = [_number(time) for time in ends]
    keys: Iterable[Any] = ends if None in numbers else numbers
    for (old, before), (new, after) in pairwise(zip(ends, keys, strict=True)):
        if not before < after:
            wrong = f"line {ends[new]}: {_cell_text(new)} after {_cell_text(old)}"
            raise UnusableTable(f"{wrong}: times must rise from row to row, written so that they sort, like 2001-12-31")


def parse_decisions(text: str, data: DataTable, until: str) -> DecisionTable:
    """Parse decisions; `until`: the last time of the data that they were made with."""
    (header, _), *rows = _rows(csv_lines(text)) or [([], 0)]
    end = data.ends[until]
    for cells, line in rows:
        if len(cells) != len(header):
            raise UnusableTable(f"line {line} has {len(cells)} cells, the header has {len(header)}")
        if data.ends.get(cells[0], end + 1) > end:
            raise UnusableTable(f"line {line}: {_cell_text(cells[0])} is no time of the data that it was given")
        wrong = next((cell for cell in cells if (number := _number(cell)) is not None and not isfinite(number)), "")
        if wrong:
            raise UnusableTable(f"line {line}: {_cell_text(header[cells.index(wrong)])} is {_cell_text(wrong)}")
    table = [cells for cells, _ in rows]
    unique = (n for n in range(1, len(header)) if len({tuple(row[:n]) for row in table}) == len(table))
    return DecisionTable(header, table, next(unique, 1))


def _rows(lines: Iterable[str]) -> list[tuple[Cells, int]]:
    """The cells of each row that has any, and the number of its last line."""
    try:
        return [(cells, line) for line, cells in csv_rows(lines) if cells]
    except CsvProblem as problem:
        raise UnusableTable(f"line {problem.line} is not CSV: {problem}") from problem


def cut_times(decisions: DecisionTable, data: DataTable, start: float, count: int, seed: str) -> list[str]:
    """Times to cut the data after, spread over what follows `start`, the same ones for the same seed.

    Something is decided at each: a command that looks a few days ahead must miss data that is gone."""
    first, last = start * len(data.lines), len(data.lines)
    decided = {row[0] for row in decisions.rows}
    times = [time for time, end in data.ends.items() if time in decided and first <= end < last]
    parts = min(count, len(times))
    bounds = [len(times) * n // parts for n in range(parts + 1)] if parts else []
    draws = [int.from_bytes(sha256(f"{seed} {low}".encode()).digest()[:8], "big") for low in bounds[:-1]]
    return [times[low + draw % (high - low)] for draw, (low, high) in zip(draws, pairwise(bounds), strict=True)]


def first_change(whole: DecisionTable, part: DecisionTable, tolerance: float) -> str:
    """The first difference between decisions with all data and with a part of it, in words; empty if there is none."""
    if whole.header != part.header:
        return f"columns {_cell_text(','.join(whole.header))} -> {_cell_text(','.join(part.header))}"
    rows = zip_longest(whole.rows, part.rows)
    changes = (_row_change(whole, old, new, tolerance) for old, new in rows if old != new)
    return next(filter(None, changes), "")


def _row_change(whole: DecisionTable, old: Cells | None, new: Cells | None, tolerance: float) -> str:
    if old is None or new is None:
        return f"{whole.name(old or new or ())}: {'decided' if old else 'nothing'} -> {'decided' if new else 'nothing'}"
    column = next((n for n in range(len(old)) if not _equal_cells(old[n], new[n], tolerance)), None)
    if column is None:
        return ""
    if column < whole.keys:
        return f"{whole.name(old)} -> {whole.name(new)}"
    name, before, after = map(_cell_text, (whole.header[column], old[column], new[column]))
    return f"{whole.name(old)}: {name} {before} -> {after}"


def _cell_text(text: str) -> str:
    """A cell for a message: on one line, bounded, with nothing that a terminal would obey."""
    return cut_text(printable_line(" ".join(text.split()), 200))


def _equal_cells(old: str, new: str, tolerance: float) -> bool:
    if old == new:
        return True
    a, b = _number(old), _number(new)
    return a is not None and b is not None and abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# A decision for each of a thousand things on each day of two years.
DECISIONS_ROOM = SheetRoom(None, 500_000, 32 << 20)

# Runs the command on the data up to a time.
RunUntil = Callable[[str], CheckoutRun]


class Cut(NamedTuple):
    """A cut after `time`.  `change`: the first decision that it changes, or empty."""

    time: str
    change: str


class CanaryResult(NamedTuple):
    """The result of a canary.  `decisions`: how many were made with all of the data.  `why`: what is wrong."""

    why: str
    exit: int
    decisions: int = 0
    cuts: tuple[Cut, ...] = ()


def run_canary(canary: Canary, data: DataTable, seed: str, run: RunUntil) -> CanaryResult:
    """Run a command on all data and on cuts of it, and compare the decisions."""
    whole = _decisions(data, data.last, run)
    if isinstance(whole, CanaryResult):
        return whole
    cuts: list[Cut] = []
    for time in cut_times(whole, data, canary.start, canary.cuts, seed):
        part = _decisions(data, time, run)
        if isinstance(part, CanaryResult):
            return part
        cuts.append(Cut(time, first_change(whole.until(time, data), part, canary.tolerance)))
    why = "" if cuts else "nothing is decided at a time after which the data could be cut"
    if changed := [cut for cut in cuts if cut.change]:
        first, many = changed[0], f"so with {len(changed)} of {len(cuts)} cuts"
        why = f"a decision changes when the data after {first.time} is cut off: {first.change} ({many})"
    return CanaryResult(why, 0, len(whole.rows), tuple(cuts))


def _decisions(data: DataTable, until: str, run: RunUntil) -> DecisionTable | CanaryResult:
    """The decisions on the data up to a time; the result of the canary when there are none."""
    where = "with all of the data" if until == data.last else f"with the data up to {until}"
    done = run(until)
    if not done.ok:
        return CanaryResult(done.why if done.void else f"{where}: {done.why}", done.exit)
    try:
        return parse_decisions(done.results.decode(errors="replace"), data, until)
    except UnusableTable as error:
        return CanaryResult(f"{where}: its decisions cannot be used: {error}", 0)
