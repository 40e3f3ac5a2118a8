"""A search that an earlier version recorded: what is finished there is not done again, and it goes on from there.

`recorded_run.tar.xz` is a project with two runs, as version 0.1.0 left it before the package was divided into rooms,
without what may be deleted (states, plans, locks, worktrees).  Its commands note in `list` that they run."""

import tarfile
from pathlib import Path

import pytest
from kit.project import Project

RECORDED = Path(__file__).with_name("recorded_run.tar.xz")


@pytest.fixture
def recorded(project: Project) -> Project:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(project.root, filter="data")
    return project


def executed(project: Project) -> list[str]:
    note = project.root / "list"
    return note.read_text().splitlines() if note.exists() else []


def records(project: Project) -> dict[str, bytes]:
    runs = project.root / "runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.glob("x/[edn]*/**/*") if path.is_file()}


def test_nothing_of_it_is_done_again(recorded: Project) -> None:
    before = records(recorded)
    said = recorded.call("run")
    assert (said.code, said.out) == (0, "up to date: 38 targets\n"), said
    assert executed(recorded) == []
    assert records(recorded) == before


def test_its_decisions_are_the_same_again(recorded: Project) -> None:
    assert recorded.call("replay", "x").out == "x: 10 decisions: 10 the same again\n"
    why = recorded.call("explain", "x:d0.n0.i1").out
    assert "FAILED  guard risk   risk changed by +0.8 of its baseline" in why


def test_it_goes_on_a_depth_further_with_what_it_has(recorded: Project) -> None:
    spec = recorded.root / "specs/x.yaml"
    before = records(recorded)
    spec.write_text(spec.read_text().replace("max_depth: 2", "max_depth: 3"))
    said = recorded.call("run", "x")
    assert said.code == 0, said
    after = records(recorded)
    assert "x/depths/2/promoted.json" in after.keys() - before.keys()
    assert not [name for name in before if name.startswith("x/eval/") and before[name] != after[name]]
    assert executed(recorded) == []  # what is new has the same code as what was measured
