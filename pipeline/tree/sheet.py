"""The CSV of a sweep: its text -> rows, whatever a candidate wrote there, and what is wrong with it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

OK = "ok"
NEEDED = ("config_id", "status")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ID = re.compile(r"[0-9]{1,18}")
# Sums and quotients of what is nearer to zero, or further from it, would leave the range of floats.
LARGEST, SMALLEST = 1e100, 1e-100
SHOWN = 60


class Defect(NamedTuple):
    """Why a sheet is not complete: where, as far as one config or one column is to blame, and what is wrong."""

    config: int | None
    column: str
    what: str
    block: str = ""

    def __str__(self) -> str:
        where = [f"config {self.config}"] if self.config is not None else []
        where += [f"block {clip(self.block)}"] if self.block else []
        where += [self.column] if self.column else []
        return f"{', '.join(where)}: {self.what}" if where else self.what


class Row(NamedTuple):
    """One config, or a block of it.  `metrics` has those that count and are finite numbers."""

    config_id: int
    params: str
    seed: str
    status: str
    error: str
    metrics: Mapping[str, float]
    block: str = ""


class Sheet(NamedTuple):
    """A CSV as it was read."""

    rows: tuple[Row, ...]
    defects: tuple[Defect, ...]


def read(text: str, metrics: Sequence[str], block: str = "") -> Sheet:
    """`metrics`: the names of the columns that count; `block`: of the one that tells repeated measurements apart."""
    lines = csv.reader([f"{line}\n" for line in text.removeprefix("\ufeff").split("\n")], strict=True)
    try:
        table = [(lines.line_num, cells) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as error:
        return Sheet((), (Defect(None, "", f"line {lines.line_num} is not CSV: {error}"),))
    if not table:
        return Sheet((), (Defect(None, "", "the file is empty"),))
    header = [name.strip() for name in table[0][1]]
    if wrong := tuple(_wrong_header(header, [*NEEDED, *([block] if block else []), *metrics])):
        return Sheet((), wrong)
    return _sheet(header, table[1:], metrics, block)


def _wrong_header(header: Sequence[str], needed: Iterable[str]) -> Iterator[Defect]:
    for name in dict.fromkeys(needed):
        if (times := header.count(name)) != 1:
            what = f"{times} columns have this name" if times else f"the column is missing; there are {_few(header)}"
            yield Defect(None, name, what)


def _sheet(
    header: Sequence[str], table: Iterable[tuple[int, Sequence[str]]], metrics: Sequence[str], block: str
) -> Sheet:
    rows: list[Row] = []
    defects: list[Defect] = []
    for line, cells in table:
        cell = dict(zip(header, map(str.strip, cells), strict=False))
        name = cell.get("config_id", "")
        if not _ID.fullmatch(name):
            defects.append(Defect(None, "config_id", f"line {line}: '{clip(name)}' is not a whole number from 0 on"))
            continue
        row, wrong = _row(int(name), cell, metrics, cell.get(block, "") if block else "")
        if block and row.status == OK and not row.block:
            wrong = [Defect(row.config_id, block, f"line {line} does not say of which block it is")]
        if len(cells) != len(header):
            wrong = [Defect(row.config_id, "", f"line {line} has {len(cells)} cells, the header has {len(header)}")]
        rows.append(row)
        defects += wrong
    return Sheet(tuple(rows), tuple(defects))


def _row(config: int, cell: Mapping[str, str], metrics: Sequence[str], block: str) -> tuple[Row, list[Defect]]:
    """Of a config that failed, no metric is looked at."""
    status = cell.get("status", "")
    numbers = {name: _finite(cell.get(name, "")) for name in metrics} if status == OK else {}
    good = {name: number for name, number in numbers.items() if number is not None}
    row = Row(config, cell.get("params", ""), cell.get("seed", ""), status, cell.get("error", ""), good, block)
    if status != OK:
        error = f" ({clip(row.error)})" if row.error else ""
        return row, [Defect(config, "status", f"'{clip(status)}' instead of {OK}{error}", block)]
    return row, [
        Defect(config, name, f"'{clip(cell.get(name, ''))}' is not a finite number", block)
        for name in metrics
        if name not in good
    ]


def _finite(text: str) -> float | None:
    """Beyond LARGEST is no measurement; below SMALLEST is zero."""
    number = float(text) if len(text) <= 400 and NUMBER.fullmatch(text) else None
    if number is None or abs(number) > LARGEST:
        return None
    return number if abs(number) >= SMALLEST else 0.0


def _few(names: Sequence[str]) -> str:
    return clip(", ".join(names))


def clip(text: str) -> str:
    """What a candidate wrote, in a message: on one line, and nothing that a terminal would do instead of showing it."""
    plain = text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:SHOWN])
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"
