"""Receipts are the truth: whatever happens to their file, none ever says what was not recorded."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.project import environment

from pipeline.core.freshness import FailureRecord, Receipt
from pipeline.store.receipts import DONE, FAILED, FORGOTTEN, IGNORED, ReceiptLine, Receipts, done_line

NAMES = ["a:one", "a:two", "a:two.1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with chdir(tmp_path):
        Path("runs/a/.coppice").mkdir(parents=True)
        yield tmp_path


def receipt(key: str) -> Receipt:
    return Receipt(key, {"argv": ["é", key]}, {"z": "1", "b": "2"}, {"runs/a/x": key}, 1.5, 2.5, 1, 0, "built")


def written(*lines: ReceiptLine) -> Path:
    receipts = Receipts("a")
    receipts.append(lines)
    receipts.close()
    return Path(receipts.path)


def keys(names: list[str] = NAMES) -> list[str | None]:
    found = Receipts("a")
    return [each.key if (each := found.receipt(name)) else None for name in names]


def test_a_receipt_comes_back_as_it_was_with_its_inputs_in_order() -> None:
    written(done_line("a:one", receipt("k")))
    back = Receipts("a").receipt("a:one")
    assert back == receipt("k")
    assert back is not None
    assert [*back.inputs] == ["z", "b"]


def test_a_torn_tail_costs_the_torn_line_alone() -> None:
    path = written(*(done_line(name, receipt(f"k{n}")) for n, name in enumerate(NAMES)))
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = sum(cut >= end - 1 for end in ends)  # the newline itself may be missing
        assert keys() == [f"k{n}" if n < kept else None for n in range(3)]


def test_what_is_written_after_a_torn_tail_stands_on_its_own() -> None:
    path = written(done_line("a:one", receipt("old")), done_line("a:two", receipt("old")))
    whole = path.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:cut])
        written(done_line("a:two.1", receipt("new")))
        assert keys()[0] == "old"
        assert keys()[2] == "new"


def test_a_damaged_byte_never_makes_a_receipt_that_was_not_written() -> None:
    path = written(*(done_line(name, receipt(f"{name}{n}")) for n in range(2) for name in NAMES))
    whole = path.read_bytes()
    for at in range(len(whole)):
        for byte in (whole[at] ^ 1, ord("\n"), ord(" "), 0xFF):
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            for name, key in zip(NAMES, keys(), strict=True):
                assert key in (None, f"{name}0", f"{name}1")
    path.write_bytes(whole)
    assert keys() == [f"{name}1" for name in NAMES]


@pytest.mark.parametrize("content", [b"", b"\n\n\n", b"\0" * 4096, b"\xff" * 300 + b"\n", b"12345678 a:one done {}\n"])
def test_nonsense_in_the_file_is_nothing_recorded(content: bytes) -> None:
    path = written()
    path.write_bytes(content)
    assert keys() == [None] * 3
    written(done_line("a:one", receipt("k")))
    assert keys()[0] == "k"


def test_a_forgotten_result_stays_forgotten_until_it_is_made_anew() -> None:
    written(done_line("a:one", receipt("k")), ReceiptLine("a:one", FORGOTTEN, {}))
    assert keys()[0] is None
    assert Receipts("a").is_forgotten("a:one")
    assert not Receipts("a").is_forgotten("a:two")
    written(ReceiptLine("a:one", FAILED, {"why": "exit status 3"}))
    assert Receipts("a").is_forgotten("a:one")
    written(done_line("a:one", receipt("k")))
    assert not Receipts("a").is_forgotten("a:one")


def test_a_failure_is_known_until_the_target_succeeds_and_hides_no_receipt() -> None:
    written(done_line("a:one", receipt("k")), ReceiptLine("a:one", FAILED, {"why": "exit status 3"}))
    assert keys()[0] == "k"
    assert Receipts("a").failure("a:one") == FailureRecord("exit status 3")
    written(done_line("a:one", receipt("k2")))
    assert Receipts("a").failure("a:one") is None


def lines() -> st.SearchStrategy[ReceiptLine]:
    name, key = st.sampled_from(NAMES), st.sampled_from(["k1", "k2"])
    return st.one_of(
        st.builds(lambda n, k: done_line(n, receipt(k)), name, key),
        st.builds(lambda n: ReceiptLine(n, FORGOTTEN, {}), name),
        st.builds(lambda n: ReceiptLine(n, FAILED, {"why": "it did"}), name),
        st.builds(lambda n: ReceiptLine(n, IGNORED, {}), name),
    )


def known() -> list[object]:
    found = Receipts("a")
    assert Receipts("a").failures() == {name: failure for name in NAMES if (failure := found.failure(name))}
    return [(found.receipt(n), found.failure(n), found.is_ignored(n), found.is_forgotten(n)) for n in NAMES]


@settings(deadline=None, max_examples=40)
@given(st.lists(lines(), max_size=12))
def test_what_is_known_is_the_same_at_once_later_and_after_compaction(drawn: list[ReceiptLine]) -> None:
    path = Path(Receipts.path_of("a"))
    path.unlink(missing_ok=True)
    path.write_bytes(ReceiptLine("a:one", FAILED, {"why": "much to drop"}).raw * 1500)
    written(*drawn)
    before, size = known(), path.stat().st_size
    receipts = Receipts("a")
    receipts.append([])
    receipts.compact(len(NAMES))
    receipts.close()
    assert path.stat().st_size < size
    assert known() == before


def test_done_is_said_of_nothing_else() -> None:
    written(ReceiptLine("a:one", DONE + "x", {"key": "k"}), ReceiptLine("a:one", "is", {"done": True}))
    assert keys() == [None] * 3


FULL = """
import resource, signal, sys
from pipeline.store.receipts import Receipts, ReceiptLine as entry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
receipts = Receipts("a")
receipts.append([entry("a:one", "failed", {"why": "1"})])
free = resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_FSIZE, (receipts._size + 20, free))
try:
    receipts.append([entry("a:two", "failed", {"why": "2"})])
except OSError:
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))
    receipts.append([entry("a:three", "failed", {"why": "3"})])
    print(receipts.failure("a:three").why)
"""


def test_what_is_appended_after_a_line_was_cut_off_by_a_full_disk_is_whole() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL], env=environment({}), capture_output=True, text=True, check=True
    )
    assert ended.stdout == "3\n"
    after = Receipts("a")
    assert [after.failure(f"a:{name}") is not None for name in ("one", "two", "three")] == [True, False, True]
