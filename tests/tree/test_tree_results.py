"""What a sweep's CSV says, and when it is complete."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import PATIENCE, ROOT, Project
from kit.searches import Search

from pipeline.tree.rules.sheet import (
    MOST_DEFECTS,
    MOST_ROWS,
    CheckedRows,
    ExpectedRows,
    Sheet,
    bounded_defects,
    check_rows,
    expected_rows,
    read_sheet,
    sheet_room,
)
from pipeline.tree.run.command import read_results

HEADER = "config_id,params,seed,status,error,sharpe,cost"
GOOD = ['0,"{""a"": 1}",7,ok,,0.5,10', "1,{},7,ok,,0.25,20", "2,{},7,ok,,-1e-3,30"]
BOTH = ("sharpe", "cost")


def text(rows: Sequence[str], header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def sheet(*rows: str, metrics: Sequence[str] = BOTH) -> Sheet:
    return read_sheet(text(rows), metrics)


def checked(*rows: str, wanted: ExpectedRows | None = None, metrics: Sequence[str] = BOTH) -> CheckedRows:
    return check_rows(sheet(*rows, metrics=metrics), wanted or expected_rows(None, 3, None))


def said(found: CheckedRows | Sheet) -> str:
    return "\n".join(map(str, found.defects))


def test_a_row_has_its_seed_and_the_metrics_that_count_as_numbers() -> None:
    found = sheet(*GOOD, metrics=["sharpe"])
    assert not found.defects
    first = found.rows[0]
    assert first[:2] == (0, "7")
    assert [dict(row.metrics) for row in found.rows] == [{"sharpe": 0.5}, {"sharpe": 0.25}, {"sharpe": -0.001}]


def test_complete_rows_are_all_used_in_order_of_their_ids() -> None:
    found = checked(*reversed(GOOD))
    assert not found.defects
    assert [row.config_id for row in found.rows] == [0, 1, 2]
    assert found.rows_used == 3


BAD = [
    ("2,{},7,error,ZeroDivisionError: x,,", "config 2, status: 'error' instead of ok (ZeroDivisionError: x)"),
    ("2,{},7,OK,,1,1", "config 2, status: 'OK' instead of ok"),
    ("2,{},7,,,1,1", "config 2, status: '' instead of ok"),
    ("2,{},7,ok,,nan,1", "config 2, sharpe: 'nan' is not a finite number"),
    ("2,{},7,ok,,1,inf", "config 2, cost: 'inf' is not a finite number"),
    ("2,{},7,ok,,1,-Infinity", "config 2, cost: '-Infinity' is not a finite number"),
    ("2,{},7,ok,,1e999,1", "config 2, sharpe: '1e999' is not a finite number"),
    ("2,{},7,ok,,,1", "config 2, sharpe: '' is not a finite number"),
    ("2,{},7,ok,,1_0,1", "config 2, sharpe: '1_0' is not a finite number"),
    ("2,{},7,ok,,good,1", "config 2, sharpe: 'good' is not a finite number"),
    ("2,{},7,ok,,1", "config 2: line 4 has 6 cells, the header has 7"),
    ("2,{},7,ok,,1,1,1", "config 2: line 4 has 8 cells, the header has 7"),
    ("3,{},7,ok,,1,1", "config 2, config_id: the row is missing (the grid: config_id < 3)"),
    ("3,{},7,ok,,1,1", "config 3, config_id: this config is not expected (the grid: config_id < 3)"),
    ("1,{},7,ok,,1,1", "config 1, config_id: there are 2 rows"),
    ("01,{},7,ok,,1,1", "config 1, config_id: there are 2 rows"),
    ("-2,{},7,ok,,1,1", "config_id: line 4: '-2' is not a whole number from 0 on"),
    ("2.0,{},7,ok,,1,1", "config_id: line 4: '2.0' is not a whole number from 0 on"),
    (",{},7,ok,,1,1", "config_id: line 4: '' is not a whole number from 0 on"),
    (f"{'9' * 5000},{{}},7,ok,,1,1", "is not a whole number from 0 on"),
    ('2,"{},7,ok,,1,1', "is not CSV: unexpected end of data"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_every_defect_names_its_config_and_its_column(row: str, reason: str) -> None:
    found = checked(*GOOD[:2], row)
    assert reason in said(found)
    assert found.rows_used < 3


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("grid", [None, 3])
@pytest.mark.parametrize("row", [row for row, _ in BAD])
def test_a_defect_counts_with_a_limit_and_without(row: str, grid: int | None, limit: int | None) -> None:
    wanted = expected_rows(limit, grid, sheet(*GOOD))
    assert checked(*GOOD, wanted=wanted).rows_used == 3
    assert checked(*GOOD[:2], row, wanted=wanted).defects


@given(st.data(), st.sampled_from([row for row, _ in BAD]))
def test_a_bad_row_is_found_wherever_it_stands(data: st.DataObject, bad: str) -> None:
    rows = data.draw(st.permutations([*GOOD[:2], bad]))
    assert checked(*rows).defects


def test_what_does_not_count_may_be_anything() -> None:
    assert not checked(*GOOD[:2], "2,{},7,ok,,1,nan", metrics=["sharpe"]).defects


def test_a_failed_config_is_told_once_not_once_for_each_empty_metric() -> None:
    assert len(checked(*GOOD[:2], "2,{},7,error,boom,,").defects) == 1
    assert sheet("2,{},7,error,boom,1,1").rows[0].metrics == {}


def test_rows_from_the_limit_on_are_left_out_good_or_bad() -> None:
    wanted = expected_rows(2, None, None)
    found = checked(*GOOD[:2], "2,{},7,error,boom,,", "3,,,ok,,nan,1", "3,,,ok,,1,1", wanted=wanted)
    assert not found.defects
    assert found.rows_used == 2


def test_a_limit_cuts_the_grid_and_does_not_extend_it() -> None:
    assert expected_rows(2, 3, None).ids == (0, 1)
    assert expected_rows(9, 3, None).ids == (0, 1, 2)


def test_without_limit_and_grid_the_configs_of_the_root_baseline_are_the_rule() -> None:
    wanted = expected_rows(None, None, sheet(GOOD[0], GOOD[2]))
    assert wanted.ids == (0, 2)
    assert not checked(GOOD[2], GOOD[0], wanted=wanted).defects
    assert "config 2, config_id: the row is missing (the root's baseline: its 2 configs)" in said(
        checked(GOOD[0], wanted=wanted)
    )
    assert "config 1, config_id: this config is not expected" in said(checked(*GOOD, wanted=wanted))


def test_a_config_that_failed_in_the_root_baseline_is_expected_so_that_nobody_passes_without_it() -> None:
    root = sheet(*GOOD[:2], "2,{},7,error,boom,,")
    wanted = expected_rows(None, None, root)
    assert wanted.ids == (0, 1, 2)
    assert check_rows(root, wanted).defects
    assert checked(*GOOD[:2], wanted=wanted).defects


def test_an_empty_baseline_is_never_complete() -> None:
    wanted = expected_rows(None, None, sheet())
    assert "no config is expected" in said(checked(wanted=wanted))


def test_no_rule_at_all_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="the root's baseline is needed"):
        expected_rows(None, None, None)


HEADERS = [
    ("config_id,sharpe,cost", "status: the column is missing; there are config_id, sharpe, cost"),
    ("status,sharpe,cost", "config_id: the column is missing"),
    ("config_id,status,cost", "sharpe: the column is missing"),
    ("config_id,status,cost,sharpe,sharpe", "sharpe: 2 columns have this name"),
]


@pytest.mark.parametrize(("header", "reason"), HEADERS)
def test_a_column_that_counts_is_there_once(header: str, reason: str) -> None:
    found = check_rows(read_sheet(text(["0,ok,1,1,1"], header), BOTH), expected_rows(None, 1, None))
    assert reason in said(found)
    assert found.rows_used == 0


@pytest.mark.parametrize("nothing", ["", "\n\n", "\ufeff"])
def test_an_empty_file_says_so(nothing: str) -> None:
    assert said(read_sheet(nothing, BOTH)) == "the file is empty"


def test_spaces_blank_lines_windows_line_ends_and_a_byte_order_mark_are_no_defects() -> None:
    rows = "\r\n".join(["\ufeff" + HEADER.replace(",", ", "), "", *(row.replace(",ok,", ", ok ,") for row in GOOD), ""])
    found = check_rows(read_sheet(rows, BOTH), expected_rows(None, 3, None))
    assert not found.defects
    assert found.rows_used == 3


def test_a_quoted_error_may_have_several_lines() -> None:
    found = sheet(GOOD[0], '1,{},7,error,"Traceback\n\u2028  line 2",,', GOOD[2])
    assert len(found.rows) == 3
    assert [*map(str, found.defects)] == [r"config 1, status: 'error' instead of ok (Traceback\n\u2028  line 2)"]


@given(st.text(alphabet='01,"\r\n\0aok.-\ufeff\u2028', max_size=60))
def test_no_text_makes_reading_fail(junk: str) -> None:
    wanted = expected_rows(None, 2, None)
    for content in (junk, text([junk]), text([*GOOD[:1], junk])):
        found = check_rows(read_sheet(content, BOTH), wanted)
        assert found.defects or found.rows_used == 2
        assert all(defect.what for defect in found.defects)


def test_what_a_program_has_written_is_told_on_one_line_of_plain_text() -> None:
    rows = [(0, "failed\x1b[2J\nnow", "\x07boom"), (1, "x" * 10**5, "")]
    text = "config_id,status,error\n" + "".join(f'{n},"{status}",{error}\n' for n, status, error in rows)
    told = [str(defect) for defect in read_sheet(text, []).defects]
    assert told[0] == r"config 0, status: 'failed\x1b[2J\nnow' instead of ok (\x07boom)"
    assert all(each.isprintable() and len(each) < 200 for each in told)


def test_of_very_many_defects_the_first_are_kept_and_all_are_counted() -> None:
    assert bounded_defects(map(str, range(MOST_DEFECTS))) == tuple(map(str, range(MOST_DEFECTS)))
    kept = bounded_defects(map(str, range(MOST_DEFECTS + 5)))
    assert (len(kept), kept[0], kept[1], kept[-1]) == (
        MOST_DEFECTS + 1,
        f"{MOST_DEFECTS + 5} defects",
        "0",
        str(MOST_DEFECTS - 1),
    )


# -- results of any size

PLAIN = b"config_id,status,sharpe\n"
ROW = b"0,ok,1\n"
MANY = MOST_ROWS + 1
NO_ROOM = {
    "rows": (
        PLAIN + ROW * MANY,
        f"its results have more than {MOST_ROWS} rows; the spec does not say how many there are",
    ),
    "blank lines": (PLAIN + b"\n" * MANY, f"its results have more than {MOST_ROWS} rows"),
    "one line": (b"x" * (28 << 20), "line 1 of its results has more than 256 KB"),
    "a line behind others": (PLAIN + ROW + b"x" * (28 << 20), "line 3 of its results has more than 256 KB"),
    "a million columns": (b"a," * 10**6 + b"\n", "line 1 of its results has more than 256 KB"),
    "no line ends": ((PLAIN + ROW * 10**5).replace(b"\n", b"\r"), "line 1 of its results has more than 256 KB"),
    "NULs": (PLAIN + b"\0" * (28 << 20), "line 2 of its results has more than 256 KB"),
    "wide rows": (PLAIN + (b"0," * 100_000 + b"\n") * 90, "its results have more than 16 MB"),
    "UTF-16": (("config_id,status,sharpe\n" + "0,ok,1\n" * MANY).encode("utf-16"), "more than 100000 rows"),
}


def results_of(content: bytes, expected: int | None, folder: Path) -> tuple[bytes, str]:
    (folder / "results.csv").write_bytes(content)
    return read_results(str(folder / "results.csv"), sheet_room(expected))


@pytest.mark.parametrize("what", NO_ROOM)
def test_results_for_which_there_is_no_room_are_a_failure_in_words(tmp_path: Path, what: str) -> None:
    content, says = NO_ROOM[what]
    taken, why = results_of(content, None, tmp_path)
    assert (taken, says in why) == (b"", True), why


def test_results_are_read_no_further_than_a_thousand_rows_beyond_those_that_are_expected(tmp_path: Path) -> None:
    assert results_of(PLAIN + ROW * 1010, 10, tmp_path) == (PLAIN + ROW * 1010, "")
    assert results_of(PLAIN + ROW * 1011, 10, tmp_path) == (
        b"",
        "its results have more than 1010 rows; 10 are expected",
    )
    many = 2 * MOST_ROWS
    assert results_of(PLAIN + ROW * many, many, tmp_path) == (PLAIN + ROW * many, "")


ODD = {
    "open quote": (PLAIN + b'0,ok,"' + ROW * 10**6, "is not CSV: field larger than field limit"),
    "open quote at the end": (PLAIN + b'0,ok,"1\n', "is not CSV: unexpected end of data"),
    "carriage returns": (PLAIN + b"0,ok,1\r1,ok,1\r" * 9, "line 2 is not CSV: new-line character seen in unquoted"),
    "NULs in cells": (PLAIN + b"0,ok,\0\n", "is not a finite number"),
    "UTF-16": ("config_id,status,sharpe\n0,ok,1\n".encode("utf-16"), "config_id: the column is missing"),
    "quotes in a quote": (PLAIN + b'0,"ok"x,1\n' + ROW * 10**4, "line 2 is not CSV"),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_results_have_defects_that_are_the_same_for_the_part_that_is_kept(tmp_path: Path, what: str) -> None:
    content, says = ODD[what]
    taken, why = results_of(content, None, tmp_path)
    assert not why
    found = read_sheet(taken.decode(errors="replace"), ["sharpe"])
    assert says in said(found)
    assert found == read_sheet(content.decode(errors="replace"), ["sharpe"])


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_results_with_a_byte_order_mark_and_lines_of_windows_are_whole(tmp_path: Path, mark: bytes) -> None:
    content = mark + b'config_id,status,error,sharpe\r\n0,ok,"two\r\nlines",1\r\n\r\n'
    taken, why = results_of(content, 1, tmp_path)
    assert (taken, why) == (content, "")
    assert not checked_text(taken.decode()).defects


def checked_text(content: str) -> CheckedRows:
    return check_rows(read_sheet(content, ["sharpe"]), expected_rows(None, 1, None))


READ = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pipeline.tree.rules.sheet import read_sheet, sheet_room
from pipeline.tree.run.command import read_results
taken, why = read_results(sys.argv[2], sheet_room(None))
read_sheet(taken.decode(errors="replace"), ["sharpe"])
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(len(taken), int(peak) >> 10, time.process_time())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(
    "rows",
    [[ROW] * (250 << 17), [b"%d,ok,%s\n" % (n, b"9" * 145) for n in range(MOST_ROWS - 1)]],
    ids=["250 MB", "as much as there is room for"],
)
def test_no_results_cost_much_memory_or_time(tmp_path: Path, rows: list[bytes]) -> None:
    path = tmp_path / "results.csv"
    with path.open("wb") as file:
        file.writelines([PLAIN, *rows])
    words = [sys.executable, "-c", READ, str(ROOT), str(path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    taken, megabytes, seconds = map(float, ended.stdout.split())
    assert bool(taken) == (path.stat().st_size < 16 << 20)
    assert megabytes < 150
    assert seconds < 10  # of a busy machine; on a quiet one less than 2


def test_no_repository_is_left_among_the_outputs(project: Project) -> None:
    """Git would run what its settings say, for whoever looks at the outputs."""
    out = '"$AGENTIC_OUTPUT_DIR"'
    made = f"mkdir -p {out}/.git {out}/bare/objects; for name in .git/config bare/HEAD kept; do : > {out}/$name; done"
    search = Search(project, {"a": made})
    search.build()
    left = search.root / "runs/x/eval/d0.n0.i0/out"
    assert sorted(str(path.relative_to(left)) for path in left.rglob("*")) == ["bare", "bare/objects", "kept"]
