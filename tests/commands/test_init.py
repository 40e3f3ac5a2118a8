"""coppice init: a folder becomes a project, and nothing in it is overwritten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.project import ROOT, call_in, environment

from pipeline.build.names import COMMANDS, MEANINGLESS


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return coppice(folder, "init", *words)


def coppice(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    said = call_in(folder, *words)
    return subprocess.CompletedProcess(words, said.code, said.out, said.err)


def files(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_text() for path in found}


def git(folder: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def test_an_empty_folder_becomes_a_project_that_builds(tmp_path: Path) -> None:
    said = init(tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert files(tmp_path).keys() == {"dodo.py", "specs/hello.yaml", "specs/.schema.json"}
    built = coppice(tmp_path)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "runs/hello/all.txt").read_text() == "Hello, Ada\nHello, Emmy\nHello, Grace\n"
    assert coppice(tmp_path).stdout == "up to date: 4 targets\n"


def test_doit_finds_the_same_commands_before_and_after_there_is_a_dodo(tmp_path: Path) -> None:
    installed(tmp_path)
    for word, said in (("init", "wrote dodo.py\n"), ("plan", "4 targets: 4 to run\n")):
        done = doit(tmp_path, word)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(said)


def test_the_first_spec_needs_nothing_but_sh_and_the_standard_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert coppice(tmp_path).returncode == 0


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
    assert commands == [["cd", "deep/down"], ["coppice", "plan", "hello"], ["coppice", "hello"]]
    for words in commands[1:]:
        assert coppice(tmp_path / "deep/down", *words[1:]).returncode == 0


@pytest.mark.parametrize("name", ["dodo.py", "specs/hello.yaml"])
@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_never_overwritten_and_the_rest_is_written(tmp_path: Path, name: str, kind: str) -> None:
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
    assert (said.returncode, said.stderr) == (0, "")
    assert f"wrote {name}\n" not in said.stdout
    assert before.items() <= files(tmp_path).items()
    others = {"dodo.py", "specs/hello.yaml", ".gitignore"} - {name}
    assert others <= files(tmp_path).keys()
    assert place.is_dir() == (kind == "folder")
    assert place.is_symlink() == (kind == "dangling link")


THEIRS = "def task_greet():\n    return {'actions': ['echo hi > greeted']}\n"
OURS = "from pipeline.dodo import DOIT_CONFIG, task_runs\n"


def doit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "doit", *words]
    return subprocess.run(command, cwd=folder, env=environment({}), capture_output=True, text=True, check=False)


def installed(folder: Path) -> None:
    """doit.cfg in place of installing."""
    places = {**COMMANDS, **MEANINGLESS}
    del places["help"]
    (folder / "doit.cfg").write_text("[COMMAND]\n" + "".join(f"{name} = {at}\n" for name, at in places.items()))


def test_beside_a_dodo_of_ones_own_the_rest_is_written_and_the_line_to_add_is_told(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text(THEIRS)
    for _ in range(2):
        said = init(tmp_path)
        assert said.returncode == 0
        (note,) = [line for line in said.stdout.splitlines() if "dodo.py" in line]
        assert f"`{OURS.strip()}`" in note
    assert (tmp_path / "dodo.py").read_text() == THEIRS
    assert coppice(tmp_path).returncode == 0
    (tmp_path / "dodo.py").write_text(THEIRS + OURS)
    assert "dodo.py" not in init(tmp_path).stdout


def test_tasks_beside_ours_in_a_dodo_are_named_as_not_seen(tmp_path: Path) -> None:
    init(tmp_path)
    installed(tmp_path)
    assert doit(tmp_path, "list").stderr == ""
    (tmp_path / "dodo.py").write_text(f"from doit import task_params\n{OURS}{THEIRS}")
    (tmp_path / "other.py").write_text(THEIRS)
    said = doit(tmp_path)
    assert said.returncode == 0
    assert said.stderr.startswith("coppice: dodo.py: task_greet not seen; ")
    assert "`doit -f FILE`" in said.stderr
    assert said.stderr.count("\n") == 1
    assert doit(tmp_path, "-f", "other.py").stderr == ""
    assert (tmp_path / "greeted").exists()


@pytest.mark.parametrize("words", [["dumpdb"], ["reset-dep"], ["reset-dep", "x"], ["strace", "hello:all"]])
def test_commands_of_doit_that_mean_nothing_here_say_so(tmp_path: Path, words: list[str]) -> None:
    init(tmp_path)
    installed(tmp_path)
    said = doit(tmp_path, *words)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(f"coppice: `{words[0]}` means nothing in a Coppice project; ")
    assert said.stderr.count("\n") == 1
    assert not [*tmp_path.glob(".doit.db*")]


def test_elsewhere_they_do_what_they_always_did(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text(THEIRS)
    installed(tmp_path)
    assert doit(tmp_path).returncode == 0
    assert "DBM type is" in doit(tmp_path, "dumpdb").stdout  # the rest depends on Python's dbm
    assert doit(tmp_path, "reset-dep").stdout == "processed greet\n"
    assert "must select *one* task" in doit(tmp_path, "strace").stderr
    (tmp_path / "dodo.py").unlink()
    assert "DBM type is" in doit(tmp_path, "dumpdb").stdout


def test_a_config_of_ones_own_in_place_of_ours_is_named_as_a_cause(tmp_path: Path) -> None:
    installed(tmp_path)
    (tmp_path / "dodo.py").write_text(f"{OURS}DOIT_CONFIG = {{'verbosity': 2}}\n")
    said = doit(tmp_path, "list")
    assert said.returncode == 3
    assert "DOIT_CONFIG" in said.stderr


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
    assert init(tmp_path).stdout.startswith("wrote specs/hello.yaml\nwrote specs/.schema.json\nnext:")


def test_git_ignores_runs_and_keeps_what_it_ignored_before(tmp_path: Path) -> None:
    git(tmp_path)
    (tmp_path / ".gitignore").write_text("*.pyc")
    init(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\n/runs/\n.doit.db*\n"
    coppice(tmp_path)
    status = subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "runs" not in status.stdout


@pytest.mark.parametrize("line", ["/runs/", "runs/", "/runs", "runs"])
@pytest.mark.parametrize("cache", ["__pycache__/", "*.pyc", "*.py[cod]"])
def test_git_is_not_told_twice(tmp_path: Path, line: str, cache: str) -> None:
    git(tmp_path)
    before = f"# ours\n{line}\n{cache}\n.doit.db*\n"
    (tmp_path / ".gitignore").write_text(before)
    assert ".gitignore" not in init(tmp_path).stdout
    assert (tmp_path / ".gitignore").read_text() == before


def test_what_python_compiles_is_ignored_too(tmp_path: Path) -> None:
    git(tmp_path)
    (tmp_path / ".gitignore").write_text("/runs/")
    init(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "/runs/\n.doit.db*\n__pycache__/\n"


def test_a_folder_inside_a_repository_gets_an_ignore_file_of_its_own(tmp_path: Path) -> None:
    git(tmp_path)
    init(tmp_path, "inside")
    assert (tmp_path / "inside/.gitignore").read_text() == "/runs/\n.doit.db*\n__pycache__/\n"
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


@pytest.mark.parametrize(("kind", "run", "last"), [("proof", "prove", "report"), ("mcts", "grow", "compare")])
def test_a_first_search_for_proofs_has_a_bank_and_a_spec_that_may_be_built(
    tmp_path: Path, kind: str, run: str, last: str
) -> None:
    said = init(tmp_path, "--kind", kind)
    assert (said.returncode, said.stderr) == (0, "")
    assert files(tmp_path).keys() == {"dodo.py", "bank.jsonl", "specs/.schema.json", f"specs/{run}.yaml"}
    planned = coppice(tmp_path, "plan", "--all")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert f"{run}:{last}" in planned.stdout
