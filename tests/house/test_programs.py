"""The programs as they are installed: `coppice` and `doit` do the same, and other doit projects are not disturbed."""

import marshal
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
from kit.building import ALL, planted, ran
from kit.project import ROOT, Project

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def tree(project: Project) -> Project:
    return planted(project)


class Installed:
    """A virtual environment as `pip install --editable` leaves it, without the time that takes."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        definition = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        self._describe(next((folder / "lib").glob("python3*")) / "site-packages", definition)
        shutil.copy(ROOT / "bin/coppice", self.bin)
        doit = self.bin / "doit"
        doit.write_text(f"#!{self.bin}/python\nimport sys\nfrom doit.__main__ import main\nsys.exit(main())\n")
        doit.chmod(0o755)

    @staticmethod
    def _describe(packages: Path, definition: dict[str, Any]) -> None:
        name = f"coppice-{definition['version']}"
        (packages / f"__editable__.{name}.pth").write_text(f"{ROOT}\n")
        others = [place for place in sys.path if place.endswith("site-packages")]
        (packages / "others.pth").write_text("\n".join(others))
        described = packages / f"{name}.dist-info"
        described.mkdir()
        version = definition["version"]
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: coppice\nVersion: {version}\n")
        points = ""
        for group, names in definition["entry-points"].items():
            points += f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in names.items())
        (described / "entry_points.txt").write_text(points)

    def __call__(self, project: Project, name: str, *words: str) -> Ended:
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(project.root)}
        return run([name, *words], project, env)


def run(words: list[str], project: Project, env: dict[str, str]) -> Ended:
    return subprocess.run(words, cwd=project.root, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed") / "venv")


@pytest.mark.parametrize("name", ["coppice", "doit"])
def test_both_programs_do_the_same(tree: Project, installed: Installed, name: str) -> None:
    def done(*words: str, code: int = 0) -> str:
        ended = installed(tree, name, *words)
        assert ended.returncode == code, ended
        assert "Traceback" not in ended.stderr
        return ended.stdout

    assert "x:part.1" in done("list", "--all", "--status")
    done("x:part.1")
    assert ran(tree) == ["part.1"]
    done("-n", "2")
    assert ran(tree) == ["alone", "part.2", "whole"]
    assert done() == "up to date: 4 targets\n"
    assert done("x") == "up to date: 4 targets\n"
    done("info", "x:whole")
    done("why", "x:whole")
    done("plan", "x")
    done("graph", "x")
    done("forget", "x:alone")
    done("x", "-n", "1")
    assert ran(tree) == ["alone"]
    done("ignore", "x:alone")
    done("clean", "x:whole")
    assert "recalled x:whole" in done()
    done("x:nothing", code=2)
    tree.spec("x", "kind: steps\nstepz: 1\n")
    assert "specs/x.yaml:2: " in installed(tree, name).stderr
    done(code=2)
    assert not [*tree.root.glob(".doit.db*")]


def test_doit_and_coppice_share_what_they_know(tree: Project, installed: Installed) -> None:
    assert installed(tree, "doit").returncode == 0
    assert ran(tree) == ALL
    assert installed(tree, "coppice").stdout == "up to date: 4 targets\n"
    assert installed(tree, "coppice", "-a").returncode == 0
    ran(tree)
    assert installed(tree, "doit").returncode == 0
    assert ran(tree) == []


FOREIGN = """
def task_greet():
    return {"actions": ["echo hi >> ran"], "file_dep": ["dodo.py"]}
def task_sub():
    yield {"name": "a", "actions": ["echo sub >> ran", "touch sub"], "targets": ["sub"], "clean": True,
           "file_dep": ["dodo.py"]}
"""


def test_a_doit_project_of_somebody_else_is_not_disturbed(tree: Project, installed: Installed) -> None:
    shutil.rmtree(tree.root / "specs")
    tree.write("dodo.py", FOREIGN)

    def done(*words: str) -> str:
        ended = installed(tree, "doit", *words)
        assert ended.returncode == 0, ended
        return ended.stdout

    assert ".  greet" in done()
    assert ran(tree) == ["hi", "sub"]
    assert "-- greet" in done("run", "-n", "2", "-P", "thread", "--verbosity", "2")
    assert ran(tree) == []
    assert "sub:a" in done("list", "--all", "--status", "-p")
    assert "greet" in done("info", "greet")
    done("clean", "sub")
    assert not (tree.root / "sub").exists()
    done("forget", "greet")
    done("ignore", "sub:a")
    assert "!! sub:a" in done()
    assert ran(tree) == ["hi"]
    assert [*tree.root.glob(".doit.db*")]
    assert not (tree.root / "runs").exists()
    assert installed(tree, "doit", "nothing").returncode == 3


def test_a_project_of_somebody_else_may_have_tasks_named_like_our_commands(tree: Project, installed: Installed) -> None:
    names = ["plan", "graph", "init", "gc", "why"]
    task = "def task_{0}():\n    return {{'actions': ['echo {0} >> ran']}}\n"
    tree.write("dodo.py", "".join(map(task.format, names)))
    assert installed(tree, "doit").returncode == 0
    assert ran(tree) == sorted(names)
    for name in names:
        assert installed(tree, "doit", name).returncode == 0
        assert ran(tree) == [name]


def test_a_dodo_that_has_our_tasks_without_our_plugins_says_what_is_missing(tree: Project) -> None:
    program = "import sys; from doit.doit_cmd import DoitMain; sys.exit(DoitMain(config_filenames=()).run(['list']))"
    ended = run([sys.executable, "-c", program], tree, {**os.environ, "PYTHONPATH": str(ROOT)})
    if "x " in ended.stdout:
        pytest.skip("coppice is installed beside this doit")
    assert "`pip install PATH`" in ended.stderr


def test_the_programs_also_work_through_a_symbolic_link(tree: Project, installed: Installed, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere"
    link.symlink_to(installed.bin / "coppice")
    ended = run([str(link), "x:alone"], tree, dict(os.environ))
    assert ended.returncode == 0, ended
    assert ran(tree) == ["alone"]


def test_an_installed_package_is_watched_by_one_file_and_another_installation_plans_anew(tree: Project) -> None:
    packages = tree.root.parent / "site-packages"
    shutil.copytree(ROOT / "pipeline", packages / "pipeline")
    record = tree.write("../site-packages/coppice-0.1.0.dist-info/RECORD", "pipeline/spec.py,,\n").resolve()

    def watched() -> list[str]:
        ended = run([sys.executable, "-m", "pipeline"], tree, {**os.environ, "PYTHONPATH": str(packages)})
        assert ended.returncode == 0, ended
        head = marshal.loads((tree.root / "runs/x/.coppice/graph").read_bytes()[64:])[0]
        return [file for file in head[1] if str(packages) in file]

    assert watched() == [str(record)]
    planned = (tree.root / "runs/x/.coppice/graph").stat().st_mtime_ns
    ran(tree)
    os.replace(tree.write("another", "pipeline/spec.py,,\n"), record)
    assert watched() == [str(record)]
    assert (tree.root / "runs/x/.coppice/graph").stat().st_mtime_ns > planned
    assert ran(tree) == []
