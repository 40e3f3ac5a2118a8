"""The journal of a search that is not over holds whatever byte it ended at, and belongs to one search alone."""

from pathlib import Path

import pytest

from pipeline.mcts.run.journal_file import open_journal

LINES = ['{"a":"∀"}', '{"b":"\u2028"}', '{"c":"\x85"}']


def kept(path: Path, *lines: str, whose: str = "me") -> list[str]:
    """What is there, before more is written."""
    with open_journal(str(path), whose) as draft:
        there = [*draft.lines]
        for each in lines:
            draft.write(each)
    return there


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "journals" / "search.a.0.b"
    assert kept(path, *LINES) == []
    return path


def test_a_search_that_ended_at_any_byte_goes_on_after_its_last_whole_line(whole: Path) -> None:
    content = whole.read_bytes()
    for end in range(len(content) + 1):
        whole.write_bytes(content[:end])
        there = kept(whole)
        assert there == LINES[: len(there)]
        assert len(there) == max(0, content[:end].count(b"\n") - 1)
        kept(whole, *LINES[len(there) :])
        assert whole.read_bytes() == content


def test_lines_of_another_search_are_dropped(whole: Path) -> None:
    assert kept(whole, whose="you") == []
    assert kept(whole, "new", whose="you") == []
    assert kept(whole, whose="you") == ["new"]


def test_from_a_line_on_that_is_no_text_any_more_all_is_done_again(whole: Path) -> None:
    content = whole.read_bytes()
    whole.write_bytes(content.replace("\u2028".encode(), b"\xff"))
    assert kept(whole, *LINES[1:]) == LINES[:1]
    assert whole.read_bytes() == content
