"""Results CSV of a sweep: its rows, whatever a candidate wrote, its defects, and the rows that are expected.

A candidate must not get better by failing: no mean is taken of rows unless every expected config is there once, or once
in each block, ended well, and has a finite number in every metric that counts.  One rule for a whole run says which
rows are expected, and no candidate has a say in it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from pipeline.core.text import printable_line

OK = "ok"
NEEDED_COLUMNS = ("config_id", "status")
NUMBER_PATTERN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ID = re.compile(r"[0-9]{1,18}")
# Sums and quotients of numbers beyond these would leave the range of floats.
LARGEST, SMALLEST = 1e100, 1e-100


class Defect(NamedTuple):
    """A reason why a sheet is not complete: what is wrong, and the config or column, if only one is to blame."""

    config: int | None
    column: str
    what: str
    block: str = ""

    def __str__(self) -> str:
        where = [f"config {self.config}"] if self.config is not None else []
        where += [f"block {_clipped(self.block)}"] if self.block else []
        where += [self.column] if self.column else []
        return f"{', '.join(where)}: {self.what}" if where else self.what


class SheetRow(NamedTuple):
    """The results of one config, or of a block of it.  `metrics`: those that count and are finite numbers."""

    config_id: int
    seed: str
    metrics: Mapping[str, float]
    block: str = ""


class CsvProblem(Exception):
    """A text that is not CSV: the line, and what is wrong with it."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def csv_rows(lines: Iterable[str], strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV, each with the number of its last line."""
    reader = csv.reader(lines, strict=strict)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise CsvProblem(reader.line_num, str(error)) from error


def csv_lines(text: str) -> Iterator[str]:
    """The lines of a CSV as every sheet has them: none ends at a lone carriage return."""
    return (f"{line}\n" for line in text.removeprefix("\ufeff").split("\n"))


SPARE_ROWS = 1000  # beyond those that are expected: mistakes that are worth telling one by one
MOST_ROWS = 100_000  # where the spec does not say how many there are: read in a second, in a few dozen megabytes
LARGEST_SHEET, ROW_BYTES = 16 << 20, 1024  # bytes in all; of many rows that are expected, so many each
LONGEST_LINE = 256 << 10  # bytes; of a cell, the module `csv` takes half as many


class SheetRoom(NamedTuple):
    """Room for the results that a program writes.  `expected`: the rows that it should write, if that is known."""

    expected: int | None
    rows: int
    size: int

    @property
    def too_many(self) -> str:
        due = "the spec does not say how many there are" if self.expected is None else f"{self.expected} are expected"
        return f"its results have more than {self.rows} rows; {due}"


def sheet_room(expected: int | None = None) -> SheetRoom:
    if expected is None:
        return SheetRoom(None, MOST_ROWS, LARGEST_SHEET)
    return SheetRoom(expected, expected + SPARE_ROWS, max(LARGEST_SHEET, expected * ROW_BYTES))


class _TooMuch(Exception):
    """Refusal of results for which there is no room; the message says why."""


def take_sheet(lines: Iterable[bytes], room: SheetRoom) -> tuple[bytes, str]:
    """Take the lines of a CSV as far as they are one, and say for what there is no room; then nothing is taken.

    Lines after one that is not CSV are nobody's: whoever reads the rows ends there, and says so."""
    taken = bytearray()
    try:
        with suppress(CsvProblem):
            _check_count(csv_rows(_sheet_lines(lines, room, taken)), room)
    except _TooMuch as error:
        return b"", str(error)
    return bytes(taken), ""


def _check_count(table: Iterable[tuple[int, list[str]]], room: SheetRoom) -> None:
    rows, blank = -1, 0  # the first is the header
    for _, cells in table:
        if any(map(str.strip, cells)):
            rows += 1
        else:
            blank += 1
        if max(rows, blank) > room.rows:
            raise _TooMuch(room.too_many)


def _sheet_lines(lines: Iterable[bytes], room: SheetRoom, taken: bytearray) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise _TooMuch(f"line {number} of its results has more than {LONGEST_LINE >> 10} KB")
        taken += line
        if len(taken) > room.size:
            raise _TooMuch(f"its results have more than {room.size >> 20} MB")
        text = line.decode(errors="replace")
        yield text.removeprefix("\ufeff") if number == 1 else text


class Sheet(NamedTuple):
    """The rows of a CSV and its defects."""

    rows: tuple[SheetRow, ...]
    defects: tuple[Defect, ...]


def read_sheet(text: str, metrics: Sequence[str], block: str = "") -> Sheet:
    """Read a results CSV.  `metrics`: columns that count; `block`: the column that tells repetitions apart."""
    table = (row for row in csv_rows(csv_lines(text), strict=True) if any(map(str.strip, row[1])))
    try:
        first = next(table, None)
        if first is None:
            return Sheet((), (Defect(None, "", "the file is empty"),))
        header = [name.strip() for name in first[1]]
        if wrong := tuple(_wrong_header(header, [*NEEDED_COLUMNS, *([block] if block else []), *metrics])):
            return Sheet((), wrong)
        return _sheet_of_rows(table, header, metrics, block)
    except CsvProblem as problem:
        return Sheet((), (Defect(None, "", f"line {problem.line} is not CSV: {problem}"),))


def _sheet_of_rows(
    table: Iterable[tuple[int, list[str]]], header: Sequence[str], metrics: Sequence[str], block: str
) -> Sheet:
    rows: list[SheetRow] = []
    defects: list[Defect] = []
    for line, cells in table:
        cell = dict(zip(header, map(str.strip, cells), strict=False))
        name = cell.get("config_id", "")
        if not _ID.fullmatch(name):
            what = f"line {line}: '{_clipped(name)}' is not a whole number from 0 on"
            defects.append(Defect(None, "config_id", what))
            continue
        row, bad = _row(int(name), cell, metrics, cell.get(block, "") if block else "")
        if block and cell.get("status") == OK and not row.block:
            bad = [Defect(row.config_id, block, f"line {line} does not say of which block it is")]
        if len(cells) != len(header):
            bad = [Defect(row.config_id, "", f"line {line} has {len(cells)} cells, the header has {len(header)}")]
        rows.append(row)
        defects += bad
    return Sheet(tuple(rows), tuple(defects))


def _wrong_header(header: Sequence[str], needed: Iterable[str]) -> Iterator[Defect]:
    for name in dict.fromkeys(needed):
        if (times := header.count(name)) != 1:
            there = _clipped(", ".join(header))
            what = f"{times} columns have this name" if times else f"the column is missing; there are {there}"
            yield Defect(None, name, what)


def _row(config: int, cell: Mapping[str, str], metrics: Sequence[str], block: str) -> tuple[SheetRow, list[Defect]]:
    """A row and its defects; the metrics of a failed config are ignored."""
    status, seed = cell.get("status", ""), cell.get("seed", "")
    if status != OK:
        error = f" ({_clipped(cell['error'])})" if cell.get("error") else ""
        what = f"'{_clipped(status)}' instead of {OK}{error}"
        return SheetRow(config, seed, {}, block), [Defect(config, "status", what, block)]
    numbers = {name: _finite(cell.get(name, "")) for name in metrics}
    good = {name: number for name, number in numbers.items() if number is not None}
    wrong = [(name, _clipped(cell.get(name, ""))) for name in metrics if name not in good]
    defects = [Defect(config, name, f"'{text}' is not a finite number", block) for name, text in wrong]
    return SheetRow(config, seed, good, block), defects


def _finite(text: str) -> float | None:
    """The number in a cell; None beyond LARGEST, zero below SMALLEST."""
    number = float(text) if len(text) <= 400 and NUMBER_PATTERN.fullmatch(text) else None
    if number is None or abs(number) > LARGEST:
        return None
    return number if abs(number) >= SMALLEST else 0.0


def _clipped(text: str) -> str:
    """A candidate's text for a message: on one line, bounded, with nothing that a terminal would obey."""
    return printable_line(text, 60)


DEFECTS_SHOWN = 3
MOST_DEFECTS = 1000  # in the record of a comparison: a candidate's program may write any number of rows


class ExpectedRows(NamedTuple):
    """The configs that both sides of a comparison must have, and the rule that says so.

    `cut`: rows of configs from this one on are left out.  Without it an unexpected config is a defect.
    `blocks`: those of each config, in order; one without a name where measurements are not repeated."""

    ids: tuple[int, ...]
    rule: str
    cut: int | None = None
    blocks: tuple[str, ...] = ("",)

    @property
    def rows(self) -> int:
        return len(self.ids) * len(self.blocks)

    def only_configs(self, ids: Sequence[int]) -> ExpectedRows:
        """The same rule for these configs alone."""
        return self._replace(ids=tuple(ids), rule=f"the {len(ids)} configs that are asked for", cut=None)

    def first_blocks(self, blocks: int) -> ExpectedRows:
        """The same rule for the first `blocks` alone; all of them for 0."""
        return self._replace(blocks=self.blocks[:blocks]) if blocks else self


class CheckedRows(NamedTuple):
    """The rows that count, by config; complete when there are no defects."""

    rows: tuple[SheetRow, ...]
    defects: tuple[Defect, ...]

    @property
    def rows_used(self) -> int:
        return len(self.rows)


def bounded_defects(defects: Iterable[str]) -> tuple[str, ...]:
    """The first MOST_DEFECTS; if there are more, their number comes first."""
    rest = iter(defects)
    first = tuple(islice(rest, MOST_DEFECTS))
    others = sum(1 for _ in rest)
    return (f"{len(first) + others} defects", *first) if others else first


def defects_text(defects: Sequence[object]) -> str:
    """The first defects in words, and how many more there are."""
    more = f"; and {len(defects) - DEFECTS_SHOWN} more" if len(defects) > DEFECTS_SHOWN else ""
    return "; ".join(map(str, defects[:DEFECTS_SHOWN])) + more


def expected_rows(
    limit: int | None, grid: int | None, baseline: Sheet | None, blocks: Sequence[str] | None = ()
) -> ExpectedRows:
    """The rows expected in a whole run.

    With neither a limit nor a grid the ids of the root's baseline are the rule: it is measured before any candidate, so
    that no candidate has a say in it.  The same holds for blocks where the spec names none (`blocks` is None); they are
    empty where measurements are not repeated."""
    if baseline is None and limit is None and grid is None:
        raise ValueError("without sweep_config_limit and without a grid, the root's baseline is needed")
    if baseline is None and blocks is None:
        raise ValueError("without `blocks: ids`, the root's baseline is needed")
    rows = baseline.rows if baseline else ()
    if blocks is None:
        blocks = blocks_in_order({row.block for row in rows if row.block})
    names = tuple(blocks) or ("",)
    if limit is not None:
        count = limit if grid is None else min(limit, grid)
        return ExpectedRows(tuple(range(count)), f"sweep_config_limit: config_id < {count}", count, names)
    if grid is not None:
        return ExpectedRows(tuple(range(grid)), f"the grid: config_id < {grid}", blocks=names)
    ids = sorted({row.config_id for row in rows})
    return ExpectedRows(tuple(ids), f"the root's baseline: its {len(ids)} configs", blocks=names)


def blocks_in_order(blocks: Iterable[str]) -> list[str]:
    """Sort blocks, numbers by size and others by letters: years and dates come in the order of time."""
    names = sorted(blocks)
    return sorted(names, key=float) if all(map(NUMBER_PATTERN.fullmatch, names)) else names


def check_rows(sheet: Sheet, wanted: ExpectedRows) -> CheckedRows:
    """The good rows of the expected configs and blocks, and the defects of the others."""
    if sheet.defects and not sheet.rows:
        return CheckedRows((), sheet.defects)  # that every row is missing would say nothing more
    order = {block: n for n, block in enumerate(wanted.blocks)}
    kept = [row for row in sheet.rows if wanted.cut is None or row.config_id < wanted.cut]
    found = [defect for defect in sheet.defects if wanted.cut is None or (defect.config or 0) < wanted.cut]
    broken = {defect.config for defect in found if not defect.block}
    found += dict.fromkeys(_wrong_rows(Counter((row.config_id, row.block) for row in kept), wanted, broken))
    bad = {(defect.config, defect.block) for defect in found}
    rows = [row for row in kept if not bad & {(row.config_id, row.block), (row.config_id, "")}]
    found.sort(key=lambda defect: (defect.config is not None, defect.config or 0, order.get(defect.block, -1)))
    return CheckedRows(tuple(sorted(rows, key=lambda row: (row.config_id, order[row.block]))), tuple(found))


_NAMED_BLOCKS = 3  # in a message


def _wrong_rows(
    times: Mapping[tuple[int, str], int], wanted: ExpectedRows, broken: Collection[int | None]
) -> Iterator[Defect]:
    """Defects of missing, unexpected and repeated rows; `broken`: configs known to have failed as a whole."""
    if not wanted.ids:
        yield Defect(None, "config_id", f"no config is expected by {wanted.rule}")
    due = dict.fromkeys((config, block) for config in wanted.ids for block in wanted.blocks)
    for config, block in due:
        if (config, block) not in times and not (block and config in broken):
            yield Defect(config, "config_id", f"the row is missing ({wanted.rule})", block)
    ids = frozenset(wanted.ids)
    for (config, block), count in times.items():
        if config not in ids:
            yield Defect(config, "config_id", f"this config is not expected ({wanted.rule})")
        elif (config, block) not in due and not (config in broken and not block):
            names = ", ".join(map(_clipped, wanted.blocks[:_NAMED_BLOCKS]))
            names += ", …" if len(wanted.blocks) > _NAMED_BLOCKS else ""
            yield Defect(config, "block", f"'{_clipped(block)}' is none of the {len(wanted.blocks)} blocks: {names}")
        elif count > 1:
            how = (
                "" if block else "; one is expected. If they repeat the measurement, say by `sweep: blocks:` what does"
            )
            yield Defect(config, "config_id", f"there are {count} rows{how}", block)
