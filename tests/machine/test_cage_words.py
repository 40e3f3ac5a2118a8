"""What people are told of cages: before anything runs, and when a limit was in the way."""

from pathlib import Path

import pytest

from pipeline.core.cages import PLAIN, CageKeys
from pipeline.machine.cage_words import cage_lines, path_warnings, refusing_limit
from pipeline.machine.limits import CageLimits

LIMITS = CageLimits(files=64, file_size=8 << 10, processes=20)


def test_limits_and_paths_are_told_with_what_they_are_for_equal_ones_once() -> None:
    held = CageKeys(PLAIN, limits={"memory": 2 << 30, "cpu": 90.0}, visible=("models", "~/x"))
    assert [*cage_lines([("a", held), ("b", CageKeys(PLAIN)), ("c", held)], can_be_judged=True)] == [
        "sandbox: plain (a, b, c)",
        "limits: memory 2 GB, cpu 90 s (a, c)",
        "visible: models, ~/x (a, c)",
    ]
    assert not [*cage_lines([], can_be_judged=True)]


@pytest.mark.parametrize("path", ["{home}", "{home}/", "{home}/..", "{home}/a/.."])
def test_a_path_that_shows_all_of_home_is_warned_of(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/a").mkdir(parents=True)
    named = path.format(home=tmp_path / "home")
    assert [*path_warnings([("s", CageKeys(visible=(named, "~/a")))])] == [
        f"visible: {named} is all of HOME, with its keys; name folders in it"
    ]


@pytest.mark.parametrize(
    ("printed", "limit"),
    [
        ("OSError: [Errno 27] File too large", "file_size 8 kB"),
        ("sh: 1: Cannot open x: Too many open files", "files 64"),
        ("sh: 1: Cannot fork", "processes 20"),
        ("RuntimeError: can't start new thread", "processes 20"),
        ("BlockingIOError: Resource temporarily unavailable", ""),
        ("", ""),
    ],
)
def test_the_words_of_the_system_tell_which_limit_was_in_the_way(tmp_path: Path, printed: str, limit: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"{'x' * 99999}\n{printed}\n")
    assert refusing_limit("exit status 1", str(log), LIMITS) == "exit status 1" + (f", limit: {limit}" if limit else "")
    assert refusing_limit("exit status 1", str(log), CageLimits()) == "exit status 1"
