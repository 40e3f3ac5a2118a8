"""A log that a kill cut short at any byte is read and gone on with, and one with an owner belongs to nobody else."""

import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.store.files import append_lines, open_log, whole_lines, write_output
from pipeline.store.steering import PAUSED, SteeringLog, append_request, steering_path

LINES = ['{"a":"∀"}', '{"b":"\u2028"}', '{"c":"\x85"}']
lines = st.lists(st.binary(max_size=4).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=5)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "log"


@given(lines, st.integers(0, 30), st.booleans(), st.booleans())
def test_what_is_appended_after_a_torn_line_stands_on_its_own(
    log: Path, there: list[bytes], end: int, cut: bool, durable: bool
) -> None:
    content = b"".join(there)[:end]
    log.write_bytes(content)
    whole = [*whole_lines(BytesIO(content))]
    torn = content[len(b"".join(whole)) :]
    append_lines(str(log), b"new\nnext\n", cut, durable)
    closed = [torn + b"\n"] if torn and not cut else []
    assert [*whole_lines(BytesIO(log.read_bytes()))] == [*whole, *closed, b"new\n", b"next\n"]


def test_the_first_line_makes_the_file_but_not_the_folder(tmp_path: Path) -> None:
    append_lines(str(tmp_path / "log"), b"new\n")
    assert (tmp_path / "log").read_bytes() == b"new\n"
    with pytest.raises(FileNotFoundError):
        append_lines(str(tmp_path / "none" / "log"), b"new\n")


def write_owned(path: Path, *lines: str, owner: str = "me") -> list[str]:
    """What is there, before more is written."""
    with open_log(str(path), owner) as log:
        there = [*log.lines]
        for each in lines:
            log.write(each)
        assert log.lines == [*there, *lines]
    return there


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    path = tmp_path / "journals" / "search.a.0.b"
    assert write_owned(path, *LINES) == []
    return path


def test_an_owned_log_that_ended_at_any_byte_goes_on_after_its_last_whole_line(owned: Path) -> None:
    content = owned.read_bytes()
    for end in range(len(content) + 1):
        owned.write_bytes(content[:end])
        there = write_owned(owned)
        assert there == LINES[: len(there)]
        assert len(there) == max(0, content[:end].count(b"\n") - 1)
        write_owned(owned, *LINES[len(there) :])
        assert owned.read_bytes() == content


def test_lines_of_another_owner_are_dropped(owned: Path) -> None:
    assert write_owned(owned, owner="you") == []
    assert write_owned(owned, "new", owner="you") == []
    assert write_owned(owned, owner="you") == ["new"]


def test_from_a_line_on_that_is_no_text_any_more_all_is_written_again(owned: Path) -> None:
    content = owned.read_bytes()
    owned.write_bytes(content.replace("\u2028".encode(), b"\xff"))
    assert write_owned(owned, *LINES[1:]) == LINES[:1]
    assert owned.read_bytes() == content


def test_what_is_no_request_in_a_steering_log_asks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = SteeringLog("x")
    assert log.pause() is None
    append_request("x", PAUSED)
    path = Path(steering_path("x"))
    with path.open("a") as file:
        file.write("[" * 100_000 + '\n{"event": "resumed", "at": 1e999}\n{"event": ["resumed"], "at": 1}\n')
    assert [each["event"] for each in log.requests()] == [PAUSED]
    assert log.pause() is not None
    path.unlink()
    assert log.requests() == []
    path.mkdir()
    assert log.requests() == []


def test_output_goes_where_a_person_says_through_a_link_and_into_a_pipe(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("behind")
    write_output(str(link), b"one")
    assert link.is_symlink()
    assert (tmp_path / "behind").read_bytes() == b"one"
    os.mkfifo(pipe)
    fd = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_output(str(pipe), b"two")
        assert os.read(fd, 100) == b"two"
        assert pipe.is_fifo()
    finally:
        os.close(fd)
