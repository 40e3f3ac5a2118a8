"""The state of a run: what the look before a build finds changed, and from where it looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.store import noop, state

FILES = ["specs/a.yaml", "out/deep/a.txt", "out/deep/b.txt", "../beside/c.txt", "top.txt", "out", "out/never", "gone/x"]
DETAILS = state.StateDetails([""] * len(FILES), [], {})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    for name in ["specs/a.yaml", "out/deep/a.txt", "out/deep/b.txt", "../beside/c.txt", "top.txt"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    monkeypatch.chdir(root)
    save(FILES)
    return root


def save(files: list[str], run: str = "r") -> None:
    os.makedirs(noop.folder(run), exist_ok=True)
    head = state.StateHead(True, 3, (), files, [state.signature(file) for file in files])
    Path(noop.folder(run), "state").write_bytes(state.dump_state(head, DETAILS))


def changed() -> list[str]:
    assert noop.up_to_date(["r"]) is None
    return noop.LAST_LOOK["r"][1]


def test_nothing_changed_is_found_for_files_of_all_folders_and_files_that_were_never_there(project: Path) -> None:
    assert noop.up_to_date(["r"]) == 3
    assert Path.cwd() == project


@pytest.mark.parametrize("file", ["specs/a.yaml", "out/deep/b.txt", "../beside/c.txt", "top.txt"])
def test_a_written_file_is_named_as_the_run_names_it(project: Path, file: str) -> None:
    (project / file).write_text("something else")
    assert changed() == [file]
    assert Path.cwd() == project


def test_files_of_a_folder_that_is_gone_are_changed(project: Path) -> None:
    (project / "out/deep").rename(project.parent / "elsewhere")
    assert changed() == ["out/deep/a.txt", "out/deep/b.txt", "out"]


def test_a_file_that_appears_in_a_folder_that_was_not_there_is_changed(project: Path) -> None:
    (project / "gone").mkdir()
    (project / "gone/x").write_text("back")
    assert changed() == ["gone/x"]


def test_a_file_in_place_of_a_folder_is_a_change(project: Path) -> None:
    (project / "gone").write_text("a file now")
    save(["gone/x"])  # not a folder: still nothing there
    assert noop.up_to_date(["r"]) == 3


def test_the_way_back_needs_no_path(project: Path) -> None:
    for _ in range(20):  # further down than a path can say: no absolute path leads here
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    here = os.stat(".").st_ino
    Path("a.txt").write_text("a")
    save(["a.txt", f"{project}/top.txt"])
    assert noop.up_to_date(["r"]) == 3
    Path("a.txt").write_text("b")
    assert changed() == ["a.txt"]
    assert os.stat(".").st_ino == here
    os.chdir(project)


PATHS = st.lists(
    st.sampled_from(["a", "b/c", "b/d", "/e/f", "/e/g", "../h", "/", "b/", "i//j", "./k", "b/c/l"]), max_size=30
)


@pytest.mark.usefixtures("project")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PATHS)
def test_a_state_is_read_as_it_was_written(files: list[str]) -> None:
    head = state.StateHead(False, 7, ("other",), files, [*range(len(files))])
    details = state.StateDetails(["0" * 64] * len(files), ["r:x"], {"b": files[:1]})
    os.makedirs(noop.folder("written"), exist_ok=True)
    Path(noop.folder("written"), "state").write_bytes(state.dump_state(head, details))
    loaded = state.load_state("written")
    assert loaded is not None
    assert loaded[:2] == (head, details)
