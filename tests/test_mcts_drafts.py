"""The journal of a search that is not over, whatever moment its writer ended at."""

from pathlib import Path

from pipeline.mcts.drafts import opened

LINES = ["one", "zwei ∀", "three"]


def kept(path: Path, whose: str = "mine") -> list[str]:
    with opened(str(path), whose) as draft:
        return [*draft.lines]


def written(path: Path, lines: list[str] = LINES, whose: str = "mine") -> bytes:
    with opened(str(path), whose) as draft:
        for line in lines:
            draft.write(line)
    return path.read_bytes()


def test_what_was_written_is_there(tmp_path: Path) -> None:
    written(tmp_path / "new" / "draft")
    assert kept(tmp_path / "new" / "draft") == LINES


def test_cut_off_at_any_byte_it_has_the_lines_that_are_whole_and_goes_on_behind_them(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    for size in range(len(whole)):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:size])
        lines = whole[:size].count(b"\n") - 1
        assert kept(cut) == LINES[: max(lines, 0)]
        written(cut, LINES[max(lines, 0) :])
        assert cut.read_bytes() == whole


def test_another_search_finds_nothing_in_it(tmp_path: Path) -> None:
    written(tmp_path / "draft")
    assert kept(tmp_path / "draft", "yours") == []
    assert written(tmp_path / "draft", ["new"], "yours") == b"yours\nnew\n"


def test_what_was_begun_anew_has_nothing_of_before(tmp_path: Path) -> None:
    written(tmp_path / "draft")
    with opened(str(tmp_path / "draft"), "mine") as draft:
        draft.begin()
        draft.write("new")
        assert draft.lines == ["new"]
    assert kept(tmp_path / "draft") == ["new"]
