"""The CSV of a sweep: its text -> rows, and all that keeps them from being complete.

A candidate must not get better by failing: no mean is taken of rows unless every config that is expected is there once,
ended well, and has a finite number in every metric that counts."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

OK = "ok"
NEEDED = ("config_id", "status")
_ID = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Sums and quotients of what is nearer to zero, or further from it, would leave the range of floats.
LARGEST, SMALLEST = 1e100, 1e-100
SHOWN, NAMED = 60, 3


class Defect(NamedTuple):
    """Why a sheet is not complete: where, as far as one config or one column is to blame, and what is wrong."""

    config: int | None
    column: str
    what: str

    def __str__(self) -> str:
        where = [f"config {self.config}"] if self.config is not None else []
        where += [self.column] if self.column else []
        return f"{', '.join(where)}: {self.what}" if where else self.what


class Row(NamedTuple):
    """One config.  `metrics` has those that count and are finite numbers."""

    config_id: int
    params: str
    seed: str
    status: str
    error: str
    metrics: Mapping[str, float]


class Sheet(NamedTuple):
    """A CSV as it was read."""

    rows: tuple[Row, ...]
    defects: tuple[Defect, ...]


class Expected(NamedTuple):
    """The configs that both sides of a comparison must have, and the rule that says so.

    `cut`: rows of configs from this one on are left out.  Without it a config that is not expected is a defect."""

    ids: tuple[int, ...]
    rule: str
    cut: int | None = None


class Checked(NamedTuple):
    """The rows that count, by config; complete when there are no defects."""

    rows: tuple[Row, ...]
    defects: tuple[Defect, ...]

    @property
    def rows_used(self) -> int:
        return len(self.rows)


def told(defects: Sequence[object]) -> str:
    """The first of them in words, and how many more there are."""
    more = f"; and {len(defects) - NAMED} more" if len(defects) > NAMED else ""
    return "; ".join(map(str, defects[:NAMED])) + more


def expected(limit: int | None, grid: int | None, baseline: Sheet | None) -> Expected:
    """The same rule for a whole run.

    With neither a limit nor a grid the ids of the root's baseline are the rule: it was measured before any candidate
    was, so that no candidate has a say in what it is measured on."""
    if limit is not None:
        count = limit if grid is None else min(limit, grid)
        return Expected(tuple(range(count)), f"sweep_config_limit: config_id < {count}", count)
    if grid is not None:
        return Expected(tuple(range(grid)), f"the grid: config_id < {grid}")
    if baseline is None:
        raise ValueError("without sweep_config_limit and without a grid, the root's baseline is needed")
    ids = sorted({row.config_id for row in baseline.rows})
    return Expected(tuple(ids), f"the root's baseline: its {len(ids)} configs")


def complete(sheet: Sheet, wanted: Expected) -> Checked:
    """The rows of the expected configs that are good, and why these are not all."""
    if sheet.defects and not sheet.rows:
        return Checked((), sheet.defects)  # that every row is missing would say nothing more
    ids = frozenset(wanted.ids)
    kept = [row for row in sheet.rows if wanted.cut is None or row.config_id < wanted.cut]
    times = Counter(row.config_id for row in kept)
    found = [defect for defect in sheet.defects if wanted.cut is None or (defect.config or 0) < wanted.cut]
    found += _wrong_ids(times, wanted, ids)
    bad = {defect.config for defect in found}
    rows = sorted((row for row in kept if row.config_id not in bad), key=lambda row: row.config_id)
    found.sort(key=lambda defect: (defect.config is not None, defect.config or 0))
    return Checked(tuple(rows), tuple(found))


def _wrong_ids(times: Mapping[int, int], wanted: Expected, ids: frozenset[int]) -> Iterator[Defect]:
    if not ids:
        yield Defect(None, "config_id", f"no config is expected by {wanted.rule}")
    for config in wanted.ids:
        if config not in times:
            yield Defect(config, "config_id", f"the row is missing ({wanted.rule})")
    for config, count in times.items():
        if config not in ids:
            yield Defect(config, "config_id", f"this config is not expected ({wanted.rule})")
        elif count > 1:
            yield Defect(config, "config_id", f"there are {count} rows")


def read(text: str, metrics: Sequence[str]) -> Sheet:
    """`metrics`: the names of the columns that count."""
    lines = csv.reader([f"{line}\n" for line in text.removeprefix("\ufeff").split("\n")], strict=True)
    try:
        table = [(lines.line_num, cells) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as error:
        return Sheet((), (Defect(None, "", f"line {lines.line_num} is not CSV: {error}"),))
    if not table:
        return Sheet((), (Defect(None, "", "the file is empty"),))
    header = [name.strip() for name in table[0][1]]
    if wrong := tuple(_wrong_header(header, metrics)):
        return Sheet((), wrong)
    return _sheet(header, table[1:], metrics)


def _wrong_header(header: Sequence[str], metrics: Iterable[str]) -> Iterator[Defect]:
    for name in dict.fromkeys([*NEEDED, *metrics]):
        if (times := header.count(name)) != 1:
            what = f"{times} columns have this name" if times else f"the column is missing; there are {_few(header)}"
            yield Defect(None, name, what)


def _sheet(header: Sequence[str], table: Iterable[tuple[int, Sequence[str]]], metrics: Sequence[str]) -> Sheet:
    rows: list[Row] = []
    defects: list[Defect] = []
    for line, cells in table:
        cell = dict(zip(header, map(str.strip, cells), strict=False))
        name = cell.get("config_id", "")
        if not _ID.fullmatch(name):
            defects.append(Defect(None, "config_id", f"line {line}: '{_clip(name)}' is not a whole number from 0 on"))
            continue
        row, wrong = _row(int(name), cell, metrics)
        if len(cells) != len(header):
            wrong = [Defect(row.config_id, "", f"line {line} has {len(cells)} cells, the header has {len(header)}")]
        rows.append(row)
        defects += wrong
    return Sheet(tuple(rows), tuple(defects))


def _row(config: int, cell: Mapping[str, str], metrics: Sequence[str]) -> tuple[Row, list[Defect]]:
    """Of a config that failed, no metric is looked at."""
    status = cell.get("status", "")
    numbers = {name: _finite(cell.get(name, "")) for name in metrics} if status == OK else {}
    good = {name: number for name, number in numbers.items() if number is not None}
    row = Row(config, cell.get("params", ""), cell.get("seed", ""), status, cell.get("error", ""), good)
    if status != OK:
        error = f" ({_clip(row.error)})" if row.error else ""
        return row, [Defect(config, "status", f"'{_clip(status)}' instead of {OK}{error}")]
    return row, [
        Defect(config, name, f"'{_clip(cell.get(name, ''))}' is not a finite number")
        for name in metrics
        if name not in good
    ]


def _finite(text: str) -> float | None:
    """Beyond LARGEST is no measurement; below SMALLEST is zero."""
    number = float(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else None
    if number is None or abs(number) > LARGEST:
        return None
    return number if abs(number) >= SMALLEST else 0.0


def _few(names: Sequence[str]) -> str:
    return _clip(", ".join(names))


def _clip(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
