"""The results CSV of a sweep: its rows, whatever a candidate wrote, its defects, whether it is complete.

A candidate must not get better by failing: no mean is taken of rows unless every config that is expected is there once,
or once in each block, ended well, and has a finite number in every metric that counts.  Which rows are expected is one
rule for a whole run, and no candidate has a say in it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

OK = "ok"
NEEDED_COLUMNS = ("config_id", "status")
NUMBER_PATTERN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ID = re.compile(r"[0-9]{1,18}")
# Sums and quotients of what is nearer to zero, or further from it, would leave the range of floats.
LARGEST, SMALLEST = 1e100, 1e-100
LONGEST_SHOWN = 60


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


class SheetRow(NamedTuple):
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

    rows: tuple[SheetRow, ...]
    defects: tuple[Defect, ...]


def read_sheet(text: str, metrics: Sequence[str], block: str = "") -> Sheet:
    """`metrics`: the names of the columns that count; `block`: of the one that tells repeated measurements apart."""
    lines = csv.reader([f"{line}\n" for line in text.removeprefix("\ufeff").split("\n")], strict=True)
    try:
        table = [(lines.line_num, cells) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as error:
        return Sheet((), (Defect(None, "", f"line {lines.line_num} is not CSV: {error}"),))
    if not table:
        return Sheet((), (Defect(None, "", "the file is empty"),))
    header = [name.strip() for name in table[0][1]]
    if wrong := tuple(_wrong_header(header, [*NEEDED_COLUMNS, *([block] if block else []), *metrics])):
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
    rows: list[SheetRow] = []
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


def _row(config: int, cell: Mapping[str, str], metrics: Sequence[str], block: str) -> tuple[SheetRow, list[Defect]]:
    """Of a config that failed, no metric is looked at."""
    status = cell.get("status", "")
    numbers = {name: _finite(cell.get(name, "")) for name in metrics} if status == OK else {}
    good = {name: number for name, number in numbers.items() if number is not None}
    row = SheetRow(config, cell.get("params", ""), cell.get("seed", ""), status, cell.get("error", ""), good, block)
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
    number = float(text) if len(text) <= 400 and NUMBER_PATTERN.fullmatch(text) else None
    if number is None or abs(number) > LARGEST:
        return None
    return number if abs(number) >= SMALLEST else 0.0


def _few(names: Sequence[str]) -> str:
    return clip(", ".join(names))


def clip(text: str) -> str:
    """What a candidate wrote, in a message: on one line, and nothing that a terminal would do instead of showing it."""
    plain = (
        text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:LONGEST_SHOWN])
    )
    return plain if len(plain) <= LONGEST_SHOWN else f"{plain[: LONGEST_SHOWN - 1]}…"


DEFECTS_SHOWN = 3
MOST_DEFECTS = 1000  # defects that are recorded of a comparison: a candidate's program may write any number of rows


class ExpectedRows(NamedTuple):
    """The configs that both sides of a comparison must have, and the rule that says so.

    `cut`: rows of configs from this one on are left out.  Without it a config that is not expected is a defect.
    `blocks`: in their order, of each config; the one without a name where measurements are not repeated."""

    ids: tuple[int, ...]
    rule: str
    cut: int | None = None
    blocks: tuple[str, ...] = ("",)

    @property
    def rows(self) -> int:
        return len(self.ids) * len(self.blocks)

    def only_configs(self, ids: Sequence[int]) -> ExpectedRows:
        """Where only these are measured."""
        return self._replace(ids=tuple(ids), rule=f"the {len(ids)} configs that are asked for", cut=None)

    def first_blocks(self, blocks: int) -> ExpectedRows:
        """Of what was measured on the first of the blocks only; 0: on all."""
        return self._replace(blocks=self.blocks[:blocks]) if blocks else self


class CheckedRows(NamedTuple):
    """The rows that count, by config; complete when there are no defects."""

    rows: tuple[SheetRow, ...]
    defects: tuple[Defect, ...]

    @property
    def rows_used(self) -> int:
        return len(self.rows)

    def on_blocks(self, blocks: Collection[str]) -> CheckedRows:
        return self._replace(rows=tuple(row for row in self.rows if row.block in blocks))


def bounded_defects(defects: Iterable[str]) -> tuple[str, ...]:
    """As many as are worth a record; if there are more, how many comes first."""
    found = iter(defects)
    kept = tuple(islice(found, MOST_DEFECTS))
    others = sum(1 for _ in found)
    return (f"{len(kept) + others} defects", *kept) if others else kept


def defects_text(defects: Sequence[object]) -> str:
    """The first of them in words, and how many more there are."""
    more = f"; and {len(defects) - DEFECTS_SHOWN} more" if len(defects) > DEFECTS_SHOWN else ""
    return "; ".join(map(str, defects[:DEFECTS_SHOWN])) + more


def expected_rows(
    limit: int | None, grid: int | None, baseline: Sheet | None, blocks: Sequence[str] | None = ()
) -> ExpectedRows:
    """The same rule for a whole run.

    With neither a limit nor a grid the ids of the root's baseline are the rule: it was measured before any candidate
    was, so that no candidate has a say in what it is measured on.  So it is with blocks where the spec names none
    (`blocks` is None); it is empty where measurements are not repeated."""
    wanted = _expected_configs(limit, grid, baseline)
    if blocks is None:
        if baseline is None:
            raise ValueError("without `blocks: ids`, the root's baseline is needed")
        blocks = blocks_in_order({row.block for row in baseline.rows if row.block})
    return wanted._replace(blocks=tuple(blocks) or ("",))


def _expected_configs(limit: int | None, grid: int | None, baseline: Sheet | None) -> ExpectedRows:
    if limit is not None:
        count = limit if grid is None else min(limit, grid)
        return ExpectedRows(tuple(range(count)), f"sweep_config_limit: config_id < {count}", count)
    if grid is not None:
        return ExpectedRows(tuple(range(grid)), f"the grid: config_id < {grid}")
    if baseline is None:
        raise ValueError("without sweep_config_limit and without a grid, the root's baseline is needed")
    ids = sorted({row.config_id for row in baseline.rows})
    return ExpectedRows(tuple(ids), f"the root's baseline: its {len(ids)} configs")


def blocks_in_order(blocks: Iterable[str]) -> list[str]:
    """Numbers by size, otherwise by letters: so that years and dates are in the order of time."""
    names = sorted(blocks)
    return sorted(names, key=float) if all(map(NUMBER_PATTERN.fullmatch, names)) else names


def check_rows(sheet: Sheet, wanted: ExpectedRows) -> CheckedRows:
    """The rows of the expected configs and blocks that are good, and why these are not all."""
    if sheet.defects and not sheet.rows:
        return CheckedRows((), sheet.defects)  # that every row is missing would say nothing more
    place = {block: n for n, block in enumerate(wanted.blocks)}
    kept = [row for row in sheet.rows if wanted.cut is None or row.config_id < wanted.cut]
    found = [defect for defect in sheet.defects if wanted.cut is None or (defect.config or 0) < wanted.cut]
    broken = {defect.config for defect in found if not defect.block}
    found += dict.fromkeys(_wrong_rows(Counter((row.config_id, row.block) for row in kept), wanted, broken))
    bad = {(defect.config, defect.block) for defect in found}
    rows = [row for row in kept if not bad & {(row.config_id, row.block), (row.config_id, "")}]
    found.sort(key=lambda defect: (defect.config is not None, defect.config or 0, place.get(defect.block, -1)))
    return CheckedRows(tuple(sorted(rows, key=lambda row: (row.config_id, place[row.block]))), tuple(found))


def _wrong_rows(
    times: Mapping[tuple[int, str], int], wanted: ExpectedRows, broken: Collection[int | None]
) -> Iterator[Defect]:
    """`broken`: configs of which is known already that they failed as a whole."""
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
            yield Defect(config, "block", f"'{clip(block)}' is none of the {len(wanted.blocks)} blocks")
        elif count > 1:
            yield Defect(config, "config_id", f"there are {count} rows", block)
