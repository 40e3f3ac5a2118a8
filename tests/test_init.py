"""coppice init: a folder becomes a project, and nothing in it is overwritten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import COPPICE, ROOT, environment


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return coppice(folder, "init", *words)


def coppice(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*COPPICE, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(env), capture_output=True, text=True, timeout=60, check=False
    )


def files(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_text() for path in found}


def git(folder: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def test_an_empty_folder_becomes_a_project_that_builds(tmp_path: Path) -> None:
    said = init(tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert files(tmp_path).keys() == {"dodo.py", "specs/hello.yaml"}
    built = coppice(tmp_path)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "runs/hello/all.txt").read_text() == "Hello, Ada\nHello, Emmy\nHello, Grace\n"
    assert coppice(tmp_path).stdout == "up to date: 4 targets\n"


def test_doit_finds_the_same_commands_before_and_after_there_is_a_dodo(tmp_path: Path) -> None:
    commands = "init = pipeline.build.upkeep:Init\nplan = pipeline.build.questions:Plan\n"
    (tmp_path / "doit.cfg").write_text(f"[COMMAND]\n{commands}")  # in place of installing
    for words, said in (("init", "wrote dodo.py\n"), ("plan", "4 targets: 4 to run\n")):
        command = [sys.executable, "-m", "doit", words]
        done = subprocess.run(command, cwd=tmp_path, env=environment({}), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(said)


def test_the_first_spec_needs_nothing_but_sh_and_the_standard_tools(tmp_path: Path) -> None:
    init(tmp_path)
    assert coppice(tmp_path, PATH="/usr/bin:/bin").returncode == 0


def test_every_command_the_first_spec_speaks_of_works(tmp_path: Path) -> None:
    init(tmp_path)
    spec = (tmp_path / "specs/hello.yaml").read_text()
    told = [line[1:].split("  ")[1].split()[1:] for line in spec.splitlines() if line.startswith("#   coppice")]
    assert ["hello"] in told
    assert ["why", "hello:all"] in told
    coppice(tmp_path)
    for words in told:
        assert coppice(tmp_path, *words).returncode == 0, words


def test_the_dodo_has_three_lines_and_is_ours(tmp_path: Path) -> None:
    init(tmp_path)
    assert (tmp_path / "dodo.py").read_text() == (ROOT / "dodo.py").read_text()
    assert len((tmp_path / "dodo.py").read_text().splitlines()) == 3


def test_what_to_type_next_is_said(tmp_path: Path) -> None:
    said = init(tmp_path, "deep/down").stdout.splitlines()
    assert said[:2] == ["wrote deep/down/dodo.py", "wrote deep/down/specs/hello.yaml"]
    commands = [line.split("#")[0].split() for line in said[said.index("next:") + 1 :]]
    assert commands == [["cd", "deep/down"], ["coppice", "plan"], ["coppice"]]
    for words in commands[1:]:
        assert coppice(tmp_path / "deep/down", *words[1:]).returncode == 0


@pytest.mark.parametrize("name", ["dodo.py", "specs/hello.yaml"])
@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_never_overwritten_and_then_nothing_is_written(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    if kind == "file":
        place.write_text("mine\n")
    elif kind == "folder":
        place.mkdir()
    else:
        os.symlink("nowhere", place)
    git(tmp_path)
    before = files(tmp_path)
    said = init(tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == f"coppice: {name} is there already, with something else in it; nothing was written\n"
    assert files(tmp_path) == before


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    git(tmp_path)
    init(tmp_path)
    before = files(tmp_path)
    said = init(tmp_path)
    assert said.returncode == 0
    assert "wrote" not in said.stdout
    assert files(tmp_path) == before


def test_what_is_missing_is_added_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text((ROOT / "dodo.py").read_text())
    assert init(tmp_path).stdout.startswith("wrote specs/hello.yaml\nnext:")


def test_git_ignores_runs_and_keeps_what_it_ignored_before(tmp_path: Path) -> None:
    git(tmp_path)
    (tmp_path / ".gitignore").write_text("*.pyc")
    init(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\n/runs/\n"
    coppice(tmp_path)
    status = subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "runs" not in status.stdout


@pytest.mark.parametrize("line", ["/runs/", "runs/", "/runs", "runs"])
@pytest.mark.parametrize("cache", ["__pycache__/", "*.pyc", "*.py[cod]"])
def test_git_is_not_told_twice(tmp_path: Path, line: str, cache: str) -> None:
    git(tmp_path)
    before = f"# ours\n{line}\n{cache}\n"
    (tmp_path / ".gitignore").write_text(before)
    assert ".gitignore" not in init(tmp_path).stdout
    assert (tmp_path / ".gitignore").read_text() == before


def test_what_python_compiles_is_ignored_too(tmp_path: Path) -> None:
    git(tmp_path)
    (tmp_path / ".gitignore").write_text("/runs/")
    init(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "/runs/\n__pycache__/\n"


def test_a_folder_inside_a_repository_gets_an_ignore_file_of_its_own(tmp_path: Path) -> None:
    git(tmp_path)
    init(tmp_path, "inside")
    assert (tmp_path / "inside/.gitignore").read_text() == "/runs/\n__pycache__/\n"
    assert not (tmp_path / ".gitignore").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    (tmp_path / "specs").write_text("")
    for words, place in ((["taken"], "taken"), ([], "specs")):
        said = init(tmp_path, *words)
        assert said.returncode == 2
        assert said.stderr == f"coppice: {place} is no folder; nothing was written\n"
    assert init(tmp_path, "one", "two").returncode == 2
    assert files(tmp_path) == {"taken": "", "specs": ""}
