"""Results with a row for each config and block: what is read, what is lacking, what pairs are made of it."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.scoring import block_means, seed_defects
from pipeline.tree.rules.sheet import CheckedRows, blocks_in_order, check_rows, expected_rows, read_sheet

HEADER = "config_id,fold,status,seed,error,gain"
CONFIGS, FOLDS = range(3), ("a", "b")
GOOD = [f"{config},{fold},ok,7,,{config + n}" for config, (n, fold) in product(CONFIGS, enumerate(FOLDS))]


def checked(rows: Sequence[str], blocks: Sequence[str] | None = FOLDS) -> CheckedRows:
    sheet = read_sheet("\n".join([HEADER, *rows]) + "\n", ["gain"], "fold")
    return check_rows(sheet, expected_rows(None, 3, sheet, blocks))


def told(rows: Sequence[str], blocks: Sequence[str] | None = FOLDS) -> list[str]:
    return [str(defect) for defect in checked(rows, blocks).defects]


@given(st.permutations(GOOD))
def test_each_config_is_there_once_in_each_block_whatever_the_order_of_rows(rows: list[str]) -> None:
    found = checked(rows)
    assert not found.defects
    assert [(row.config_id, row.block) for row in found.rows] == [*product(CONFIGS, FOLDS)]


BAD = {
    "a block is missing": (GOOD[:-1], ["config 2, block b, config_id: the row is missing (the grid: config_id < 3)"]),
    "a row is there twice": ([*GOOD, "2,b,ok,7,,9"], ["config 2, block b, config_id: there are 2 rows"]),
    "a block that nobody asked for": ([*GOOD, "1,c,ok,7,,9"], ["config 1, block: 'c' is none of the 2 blocks: a, b"]),
    "not a number": ([*GOOD[:-1], "2,b,ok,7,,nan"], ["config 2, block b, gain: 'nan' is not a finite number"]),
    "no name of a block": ([*GOOD, "1,,ok,7,,1"], ["config 1, fold: line 8 does not say of which block it is"]),
    "a config that failed in one block": (
        [*GOOD[:-1], "2,b,error,7,bad,"],
        ["config 2, block b, status: 'error' instead of ok (bad)"],
    ),
    "a config that failed as a whole": (
        [*GOOD[:-2], "2,,error,7,bad,"],
        ["config 2, status: 'error' instead of ok (bad)"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_keeps_rows_from_being_complete_is_told_once_with_its_block(name: str) -> None:
    rows, expected_words = BAD[name]
    assert told(rows) == expected_words


def test_without_names_the_blocks_of_the_baseline_are_the_rule_in_the_order_of_numbers_or_letters() -> None:
    assert not told(GOOD, None)
    assert blocks_in_order({"10", "9", "-1.5"}) == ["-1.5", "9", "10"]
    assert blocks_in_order({"2001-12", "2001-02", "x"}) == ["2001-02", "2001-12", "x"]


def test_configs_are_reduced_first_so_that_only_blocks_are_repetitions() -> None:
    assert block_means(checked(GOOD).rows, FOLDS, "gain") == [1.0, 2.0]


def test_a_candidate_with_other_seeds_is_not_measured_on_the_same() -> None:
    other = [row.replace(",7,", ",8,") if row.startswith("1,b") else row for row in GOOD]
    assert [*map(str, seed_defects(checked(other), checked(GOOD)))] == [
        "config 1, block b, seed: '8' instead of the parent's '7'"
    ]
    assert not [*seed_defects(checked(GOOD), checked(GOOD))]
