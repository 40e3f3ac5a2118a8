"""Folders in the cache: whole or not there, made once, and made again when something is wrong with them."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from pipeline.lean.model import LeanStartError
from pipeline.lean.toolchain import cache as toolchain_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "coppice" / "lean"


def maker(made: list[Path]) -> Callable[[Path], None]:
    """Writes two files, one of them below, and notes where."""

    def make(new: Path) -> None:
        made.append(new)
        (new / "lib").mkdir()
        for name in ("lean", "lib/Init.olean"):
            (new / name).write_text(f"{name} of {len(made)}")

    return make


def test_what_is_there_is_not_made_again(cache: Path) -> None:
    made: list[Path] = []
    first, again = (toolchain_cache.cached_folder("lean", maker(made)) for _ in range(2))
    assert first == again == cache / "lean"
    assert (len(made), (first / "lib/Init.olean").read_text()) == (1, "lib/Init.olean of 1")
    assert toolchain_cache.damage_in(first) == ""


@pytest.mark.parametrize(
    ("hurt", "why"),
    [
        (lambda folder: (folder / "lean").write_text("x"), "lean has 1 bytes; 9 were written"),
        (lambda folder: (folder / "lib/Init.olean").unlink(), "lib/Init.olean is missing"),
        (lambda folder: (folder / toolchain_cache.MANIFEST).write_text("{"), "no readable manifest.json"),
    ],
)
def test_what_is_damaged_is_made_again(cache: Path, hurt: Callable[[Path], object], why: str) -> None:
    made: list[Path] = []
    folder = toolchain_cache.cached_folder("lean", maker(made))
    hurt(folder)
    assert toolchain_cache.damage_in(folder) == why
    assert toolchain_cache.damage_in(toolchain_cache.cached_folder("lean", maker(made))) == ""
    assert (folder / "lean").read_text() == "lean of 2"
    assert sorted(os.listdir(cache)) == ["lean", "lean.lock"]


def test_what_fails_half_way_leaves_nothing_behind(cache: Path) -> None:
    def fail(new: Path) -> None:
        (new / "half").touch()
        raise LeanStartError("no network")

    with pytest.raises(LeanStartError, match="no network"):
        toolchain_cache.cached_folder("lean", fail)
    assert os.listdir(cache) == ["lean.lock"]
    assert toolchain_cache.cached_folder("lean", maker([])).is_dir()


def test_what_a_killed_maker_left_is_cleared_away(cache: Path) -> None:
    (cache / "lean.killed" / "half").mkdir(parents=True)
    (cache / "lean-other").mkdir()
    toolchain_cache.cached_folder("lean", maker([]))
    assert sorted(os.listdir(cache)) == ["lean", "lean-other", "lean.lock"]


def test_of_many_who_need_it_at_once_one_makes_it(cache: Path) -> None:
    made: list[Path] = []
    together = Barrier(5)

    def slowly(new: Path) -> None:
        time.sleep(0.1)  # long enough that the others come to wait
        maker(made)(new)

    def need(_: int) -> Path:
        together.wait()
        return toolchain_cache.cached_folder("lean", slowly)

    with ThreadPoolExecutor(5) as threads:
        found = [*threads.map(need, range(5))]
    assert (len(made), {*found}) == (1, {cache / "lean"})


def test_a_full_disk_is_said_with_what_is_needed(cache: Path) -> None:
    def fill(_new: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(LeanStartError, match=f"no room for the Lean toolchain in {cache}: about 1 GB is needed"):
        toolchain_cache.cached_folder("lean", fill)


@pytest.mark.parametrize("place", ["", "not/absolute", "{}/file/cache"])
def test_the_first_place_that_can_be_written_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", place.format(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert toolchain_cache.cache_folder() == tmp_path / "home/.cache/coppice/lean"
