"""The results of a sweep: the rows that count, and all that keeps them from being complete.

A candidate must not get better by failing: no mean is taken of rows unless every config that is expected is there once,
or once in each block, ended well, and has a finite number in every metric that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from pipeline.tree.sheet import NUMBER, Defect, Row, Sheet, clip

NAMED = 3
MOST = 1000  # defects that are recorded of a comparison: a candidate's program may write any number of rows


class Expected(NamedTuple):
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

    def of(self, ids: Sequence[int]) -> Expected:
        """Where only these are measured."""
        return self._replace(ids=tuple(ids), rule=f"the {len(ids)} configs that are asked for", cut=None)

    def first(self, blocks: int) -> Expected:
        """Of what was measured on the first of the blocks only; 0: on all."""
        return self._replace(blocks=self.blocks[:blocks]) if blocks else self


class Checked(NamedTuple):
    """The rows that count, by config; complete when there are no defects."""

    rows: tuple[Row, ...]
    defects: tuple[Defect, ...]

    @property
    def rows_used(self) -> int:
        return len(self.rows)

    def on(self, blocks: Collection[str]) -> Checked:
        return self._replace(rows=tuple(row for row in self.rows if row.block in blocks))


def few(defects: Iterable[str]) -> tuple[str, ...]:
    """As many as are worth a record; if there are more, how many comes first."""
    found = iter(defects)
    kept = tuple(islice(found, MOST))
    others = sum(1 for _ in found)
    return (f"{len(kept) + others} defects", *kept) if others else kept


def told(defects: Sequence[object]) -> str:
    """The first of them in words, and how many more there are."""
    more = f"; and {len(defects) - NAMED} more" if len(defects) > NAMED else ""
    return "; ".join(map(str, defects[:NAMED])) + more


def expected(
    limit: int | None, grid: int | None, baseline: Sheet | None, blocks: Sequence[str] | None = ()
) -> Expected:
    """The same rule for a whole run.

    With neither a limit nor a grid the ids of the root's baseline are the rule: it was measured before any candidate
    was, so that no candidate has a say in what it is measured on.  So it is with blocks where the spec names none
    (`blocks` is None); it is empty where measurements are not repeated."""
    wanted = _expected_configs(limit, grid, baseline)
    if blocks is None:
        if baseline is None:
            raise ValueError("without `blocks: ids`, the root's baseline is needed")
        blocks = in_order({row.block for row in baseline.rows if row.block})
    return wanted._replace(blocks=tuple(blocks) or ("",))


def _expected_configs(limit: int | None, grid: int | None, baseline: Sheet | None) -> Expected:
    if limit is not None:
        count = limit if grid is None else min(limit, grid)
        return Expected(tuple(range(count)), f"sweep_config_limit: config_id < {count}", count)
    if grid is not None:
        return Expected(tuple(range(grid)), f"the grid: config_id < {grid}")
    if baseline is None:
        raise ValueError("without sweep_config_limit and without a grid, the root's baseline is needed")
    ids = sorted({row.config_id for row in baseline.rows})
    return Expected(tuple(ids), f"the root's baseline: its {len(ids)} configs")


def in_order(blocks: Iterable[str]) -> list[str]:
    """Numbers by size, otherwise by letters: so that years and dates are in the order of time."""
    names = sorted(blocks)
    return sorted(names, key=float) if all(map(NUMBER.fullmatch, names)) else names


def complete(sheet: Sheet, wanted: Expected) -> Checked:
    """The rows of the expected configs and blocks that are good, and why these are not all."""
    if sheet.defects and not sheet.rows:
        return Checked((), sheet.defects)  # that every row is missing would say nothing more
    place = {block: n for n, block in enumerate(wanted.blocks)}
    kept = [row for row in sheet.rows if wanted.cut is None or row.config_id < wanted.cut]
    found = [defect for defect in sheet.defects if wanted.cut is None or (defect.config or 0) < wanted.cut]
    broken = {defect.config for defect in found if not defect.block}
    found += dict.fromkeys(_wrong_rows(Counter((row.config_id, row.block) for row in kept), wanted, broken))
    bad = {(defect.config, defect.block) for defect in found}
    rows = [row for row in kept if not bad & {(row.config_id, row.block), (row.config_id, "")}]
    found.sort(key=lambda defect: (defect.config is not None, defect.config or 0, place.get(defect.block, -1)))
    return Checked(tuple(sorted(rows, key=lambda row: (row.config_id, place[row.block]))), tuple(found))


def _wrong_rows(
    times: Mapping[tuple[int, str], int], wanted: Expected, broken: Collection[int | None]
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
