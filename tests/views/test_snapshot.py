"""A run as lines of text: what fits is shown whole, what does not is said, and nothing in it moves a cursor."""

import unicodedata
from collections.abc import Callable, Iterable
from math import nan
from time import process_time

import pytest
from kit.watching import HOSTILE, empty, going, heat, hostile, huge, json_of

from pipeline.core.projection import Code, Column, Figure, Json, Projection, Row, Table, as_json
from pipeline.views.lines import cell_text, cut_text, folded_line, text_width, wrap_text
from pipeline.views.snapshot import block_lines, snapshot

RUNS: dict[str, Callable[[], Projection]] = {"going": going, "empty": empty, "huge": huge, "hostile": hostile}


def numbers(projection: Json) -> list[str]:
    """All numbers that a screen may show of figures and tables."""
    cells = [
        cell
        for block in projection["blocks"]
        if block["is"] == "table"
        for row in block["rows"]
        for cell, column in zip(row["cells"], block["columns"], strict=True)
        if column["is_number"]
    ]
    return [*cells, *(figure["text"] for figure in projection["figures"])]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", RUNS)
def test_every_line_fits_and_has_nothing_that_moves_a_cursor(name: str, width: int) -> None:
    projection = json_of(RUNS[name]())
    for height in (None, 5, 24, 60):
        lines = snapshot(projection, width, height)
        assert height is None or len(lines) <= height
        assert not [line for line in lines if text_width(line) > width]
        assert not [c for line in lines for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_numbers_are_those_of_the_projection_and_whole(width: int) -> None:
    projection = json_of(going(ended=3))
    text = "\n".join(snapshot(projection, width))
    assert not [number for number in numbers(projection) if number not in text]
    words = {word for line in text.splitlines() for word in line.split()}
    assert {"+1.50", "+0.50", "-0.50"} <= words
    assert "…" not in "".join(line for line in text.splitlines() if "0.01" in line and width > 40)


def test_a_number_that_finds_no_room_is_left_out_and_its_column_named() -> None:
    projection = json_of(going())
    [tree] = [block for block in projection["blocks"] if block["name"] == "tree"]
    for row in tree["rows"]:
        row["cells"][2] = "0.0123456789012345678901234567890"
    lines = block_lines(tree, 40)
    assert lines[0].startswith("── Tree · 5 rows · no room for p↓, why ─")
    assert not [line for line in lines if "0.0123" in line]
    assert [line for line in lines if "+1.50" in line]


def test_a_text_of_details_is_read_in_full_below_itself() -> None:
    why = " ".join(f"word{n}" for n in range(30))
    columns = [Column("what"), Column("value")]
    lines = block_lines(as_json(Table("facts", "Result", "", columns, [Row(["why", why]), Row(["p", "0.5"])])), 40)
    assert " ".join(line[3:].strip() for line in lines[2:-1]).split() == [*why.split()]
    short = block_lines(as_json(Table("facts", "Result", "", columns, [Row(["why", why])])), 40, 9)
    assert [line[-1] for line in short[2:]] == ["…"]


def test_in_few_lines_what_runs_and_what_opens_comes_before_amounts() -> None:
    projection = json_of(huge())
    amounts = as_json(Table("budget", "Budget", "", [Column("amount")], [Row([f"{n}"]) for n in range(9)]))
    running = as_json(Table("running", "Running now", "", [Column("target")], [Row(["sweep"])]))
    text = "\n".join(snapshot({**projection, "blocks": [amounts, *projection["blocks"], running]}, 80, 24))
    assert "── Running now" in text
    assert "── Budget" not in text
    assert "Budget" in text.splitlines()[-1]


def test_how_an_item_stands_is_said_by_sign_and_word_and_its_place_by_the_indent() -> None:
    text = "\n".join(snapshot(json_of(going(kept="indecisive")), 80))
    assert "\nd0.n0       ● done " in text
    assert "\n  d0.n0.i0  ◇ indecisive " in text
    assert "rejected" not in text


@pytest.mark.parametrize(
    ("state", "sign"), [("live", "▶ live for 1 min 00 s"), ("paused", "‖ paused for 1 min 00 s"), ("killed", "✕ ")]
)
def test_the_head_says_how_the_run_stands_and_which_command_shows_this(state: str, sign: str) -> None:
    first, *rest = snapshot(json_of(going(state)), 80, 24)
    assert first.startswith("coppice watch demo ")
    assert sign in first
    assert ("its last build has no end" in rest) == (state == "killed")


def test_a_run_that_does_not_go_says_since_when_it_stands_and_not_how_long() -> None:
    first = snapshot(json_of(going("killed")), 80)[0]
    assert " killed since 2023-11-1" in first
    assert " for " not in first


def test_what_goes_on_is_counted_by_the_clock_and_without_one_its_times_are_shown() -> None:
    columns = [Column("target"), Column("since", True, is_since=True)]
    running = Table("running", "Running", "", columns, [Row(["one", "1700000000.000"]), Row(["two", "-"])])
    takes = Figure("time", "3 s", 3.0, note="so far", since=1.7e9, until=1.7e9 + 100)
    run = json_of(going()._replace(figures=[takes], blocks=[running]))
    for seconds, passed, left in ((6, "6 s", "1 min 34 s"), (9, "9 s", "1 min 31 s")):
        lines = snapshot(run, 80, now=1.7e9 + seconds)
        assert f"time {passed} (so far, about {left} left)" in lines
        assert [line.split() for line in lines if line[:3] in ("one", "two")] == [
            ["one", *passed.split()],
            ["two", "-"],
        ]
        assert f" live for {passed}" in lines[0]
    lines = snapshot(run, 80)
    assert "time 3 s (so far, until about 2023-11-14 22:15:00 UTC)" in lines
    assert "one     2023-11-14 22:13:20 UTC" in lines


def test_what_is_missing_is_a_dash_and_never_a_zero() -> None:
    lines = snapshot(json_of(going(ended=0)), 80)
    assert "best -↑ · " in "\n".join(lines)
    [idea] = [line for line in lines if "d0.n0.i3" in line]
    assert idea.split()[3] == "-"
    projection = json_of(going())
    [tree] = [block for block in projection["blocks"] if block["name"] == "tree"]
    tree["rows"][4]["cells"][1:3] = ["", ""]
    assert block_lines(tree, 80)[-1].split()[3:5] == ["-", "-"]


def test_of_a_long_table_the_beginning_is_shown_and_the_rest_counted() -> None:
    lines = snapshot(json_of(huge()), 80, 24)
    [title] = [line for line in lines if line.startswith("── Tree")]
    shown = [line for line in lines if "rejected" in line]
    assert title.startswith(f"── Tree · {len(shown)} of 5000 rows ─")
    assert len(shown) >= 8
    assert lines[-1].startswith("not shown: Text ")


def test_of_a_log_the_end_is_shown() -> None:
    log = as_json(Code("sweep", "Log", "\n".join(f"line {at}" for at in range(90)), "log"))
    assert block_lines(log, 80, 4)[1:] == ["line 87", "line 88", "line 89"]


def test_a_long_line_of_a_diff_is_folded_so_that_no_part_looks_like_another_line() -> None:
    lines = block_lines(as_json(Code("diff", "Change", "+" + "-" * 45 + "\n-b", "diff", "a.patch", 1)), 20)
    assert lines[1:] == [
        "+" + "-" * 19,
        "  " + "-" * 18,
        "  " + "-" * 8,
        "-b",
        "1 byte left out; all",
        "of it: a.patch",
    ]


def test_a_heat_map_says_by_sign_and_shade_which_side_and_how_far_and_what_was_not_measured() -> None:
    rows: list[tuple[str, list[float | None]]] = [("a", [1.0, -2.0, None]), ("b", [0.0, nan, 3.5])]
    block = as_json(heat(["2019", "2020", "2021"], rows, unit="%", better="higher", centre=0.0))
    assert [" ".join(line.split()) for line in block_lines(block, 80)[2:6]] == [
        "2019 2020 2021",
        "a ▒ +1 ▓ -2 //",
        "b ░ +0 // █ +3.5",
        "+ above and - below 0, █ by up to 3.5 %; higher is better; // not measured",
    ]
    narrow = block_lines(block, 14)
    assert [" ".join(line.split()) for line in narrow[3:6]] == ["1 2 3", "a ▒+ ▓- //", "b ░= // █+"]
    assert "1 2019, 2" in "\n".join(narrow)


def test_columns_of_a_heat_map_that_find_no_room_are_counted() -> None:
    block = as_json(heat([f"y{n}" for n in range(100)], [("a", [0.5] * 100)]))
    assert "87 columns of 100 left out for want of room" in " ".join(block_lines(block, 56))


def test_signs_have_a_stand_in_for_a_terminal_without_unicode() -> None:
    lines = snapshot(json_of(going()), 80, unicode=False)
    assert not [line for line in lines if not line.isascii()]
    assert [line for line in lines if "^ promoted" in line]


def test_texts_of_others_are_cleaned_and_their_accents_bounded() -> None:
    assert cell_text(HOSTILE) == "red  gnp.exe <b>&amp;</b> a\u0301\u0301 1m 漢字"
    assert text_width("漢字a\u0301") == 5


@pytest.mark.parametrize(("width", "cut"), [(5, "漢字a"), (4, "漢…"), (3, "漢…"), (2, "…"), (1, "…"), (0, "")])
def test_a_text_is_cut_by_the_columns_it_takes(width: int, cut: str) -> None:
    assert cut_text("漢字a", width) == cut


def test_words_are_wrapped_and_one_that_is_too_long_is_broken() -> None:
    assert wrap_text("ab cd\n\nabcdefgh i", 4) == ["ab", "cd", "", "abcd", "efgh", "i"]
    assert wrap_text("  ", 4) == []


@pytest.mark.parametrize("parts_of", [wrap_text, folded_line])
def test_a_text_of_wide_letters_costs_by_its_length_and_nothing_of_it_is_lost(
    parts_of: Callable[[str, int], Iterable[str]],
) -> None:
    def seconds(length: int) -> float:
        text, began = "漢" * length, process_time()
        assert "".join(part.strip() for part in parts_of(text, 80)) == text
        return process_time() - began

    few, many = (min(seconds(length) for _ in range(3)) for length in (5_000, 40_000))
    assert many < 20 * few, "8 by the length; 64 by its square"
