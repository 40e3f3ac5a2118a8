"""`coppice doctor` says what holds on this machine, needs no project, and names a cure for what is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project, call_in

from pipeline.commands.doctor import CHECKS
from pipeline.core.cages import GRADES, CageKeys
from pipeline.machine.grades import lacking


def doctored(project: Project, **env: str) -> dict[str, Any]:
    said = project.coppice("doctor", "--json", **env)
    assert (said.returncode, said.stderr) == (0, ""), said
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def program(folder: Path, name: str, text: str) -> Path:
    """A program in a folder of its own, which is all of a PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder


def test_it_needs_no_project_and_leaves_nothing(tmp_path: Path) -> None:
    said = call_in(tmp_path, "doctor")
    assert (said.code, said.err) == (0, "")
    names = [line.partition("  ")[0] for line in said.out.splitlines()]
    assert names == [*CHECKS]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("grade", GRADES)
def test_a_grade_that_it_promises_is_one_that_a_build_takes(project: Project, grade: str) -> None:
    found = doctored(project)[f"sandbox: {grade}"]
    assert found["works"] == (not lacking(CageKeys(grade)))
    assert bool(found["cure"]) != found["works"]


def test_without_bubblewrap_it_says_how_to_get_it_and_what_is_had_instead(project: Project, tmp_path: Path) -> None:
    found = doctored(project, PATH=str(program(tmp_path / "bin", "git", "echo git version 2.0")))
    assert found["git"]["what"].startswith("2.0, ")
    for name in ("bubblewrap", "sandbox: isolated", "sandbox: trusted"):
        assert (found[name]["works"], found[name]["cure"]) == (False, BWRAP_LACKS), name
    instead = "landlock" if found["sandbox: landlock"]["works"] else "plain"
    assert found["sandbox: auto"]["what"] == f"{instead}; isolated cannot be had here: {BWRAP_LACKS}"


BWRAP_LACKS = "bubblewrap is not installed: apt install bubblewrap"


def test_a_bubblewrap_that_cannot_make_namespaces_is_said_in_its_own_words(project: Project, tmp_path: Path) -> None:
    refusing = program(tmp_path / "bin", "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    found = doctored(project, PATH=str(refusing))
    assert found["bubblewrap"]["works"] is False
    assert "cannot make a sandbox here (setting up uid map: Permission denied): " in found["bubblewrap"]["cure"]
    assert "git is not installed" in found["git"]["cure"]


def test_a_git_that_does_not_work_is_none(project: Project, tmp_path: Path) -> None:
    found = doctored(project, PATH=str(program(tmp_path / "bin", "git", "exit 1")))
    assert (found["git"]["works"], found["git"]["what"]) == (False, f"{tmp_path}/bin/git")
    assert "does not work" in found["git"]["cure"]


def test_it_takes_no_names(project: Project) -> None:
    said = project.call("doctor", "isolated")
    assert (said.code, said.err) == (2, "coppice: doctor: it takes no names, not 1\n")
