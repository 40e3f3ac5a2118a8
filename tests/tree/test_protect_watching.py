"""What a command does to what is protected is found when it has ended, by hashes alone: no kernel has to help."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from zlib import compress

import pytest

from pipeline.core.graph import Target
from pipeline.git.objects import object_name
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktrees
from pipeline.machine.job import Job, SharedResources, StageFailed, Workers
from pipeline.machine.process import Processes
from pipeline.tree.run.protect import (
    ProtectionWatch,
    protect_stage,
    protected_of,
    restore_protected,
    start_watch,
    tamper_reason,
)
from pipeline.tree.run.records import save

FILES = {
    "repo/sweep.py": "import csv\n",
    "repo/setup.cfg": "x\n",
    "repo/bench/deep/load.py": "x\n",
    "repo/model.py": "x\n",
    "data/prices/a.csv": "1\n",
    "data/read.csv": "1\n",
}


class Bench:
    """A checkout of a root, and a command that may do to it what it likes."""

    def __init__(self, job: Job, root: RootCommit, folder: str) -> None:
        self.job, self.root, self.folder = job, root, folder

    def watch(self) -> ProtectionWatch:
        found = start_watch(self.job, self.root.repo, self.folder, walled=False)
        assert found is not None
        return found

    def after(self, line: str) -> str:
        watched = self.watch()
        subprocess.run(["/bin/sh", "-c", line], cwd=self.folder, check=True)
        return tamper_reason(watched)


@pytest.fixture
def bench(tmp_path: Path, processes: Processes) -> Iterator[Bench]:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "repo/run").symlink_to("sweep.py")
    with chdir(tmp_path):
        os.makedirs("runs/x")
        root = root_commit("repo", "x")
        save("runs/x/root.json", {"repo": "repo", "commit": root.commit, "tree": root.tree})
        params = {
            "looked_in": [],
            "repo": ["sweep.py", "run", "bench/**", "*.cfg"],
            "project": ["data/prices", "data/*.csv"],
        }
        reads = {"root": ["runs/x/root.json"], "protected": ["p"], "in.in": ["data/read.csv", "data/prices"]}
        target = Target("x:protected", "protected", (), (), params)
        job = Job(target, reads, {"protected": ["p"]}, "log", processes, Workers(processes), SharedResources())
        protect_stage(job)
        yield Bench(job, root, Worktrees(root.repo, "cand").add("c", root.commit).path)


# Folders in folders, further down than a path can say.
DIG = "python3 -c 'import os, sys; os.chdir(sys.argv[1]); [os.mkdir(n) or os.chdir(n) for n in [\"d\" * 250] * 20]'"
VOID = {
    "written": ("echo x > sweep.py", "sweep.py is protected and was written to while the command ran"),
    "appended and cut": ("echo >> sweep.py; echo 'import csv' > sweep.py", "sweep.py is protected and was written to"),
    "with its time kept": ("touch -r sweep.py t; echo > sweep.py; touch -r t sweep.py", "sweep.py is protected"),
    "mode": ("chmod +x sweep.py", "sweep.py is protected and was written to"),
    "removed": ("rm sweep.py", "sweep.py is protected and was removed"),
    "replaced": ("cp sweep.py s; mv s sweep.py", "sweep.py is protected and was written to"),
    "linked": ("mv sweep.py s; ln -s s sweep.py", "sweep.py is protected and was replaced by a symbolic link"),
    "a folder for it": ("rm sweep.py; mkdir sweep.py", "sweep.py is protected and was written to"),
    "a pipe for it": ("rm sweep.py; mkfifo sweep.py", "sweep.py is protected and was written to"),
    "link elsewhere": ("ln -sfn model.py run", "run is protected and was replaced by a symbolic link"),
    "folder linked": ("mv bench b; ln -s b bench", "bench is protected and was replaced by a symbolic link"),
    "folder anew": ("cp -R bench b; rm -rf bench; mv b bench", "bench/deep/load.py is protected and was written to"),
    "added": ("echo > bench/new.py", "bench/new.py was added while the command ran"),
    "added a link": ("ln -s . bench/new", "bench/new was added while the command ran"),
    "added an odd name": ("touch \"bench/$(printf 'a\\nb\\377')\"", r"bench/a\nb\udcff was added"),
    "added at the top": ("echo > new.cfg", "new.cfg was added while the command ran"),
    "added too deep": (f"{DIG} bench", "cannot be listed any more (File name too long), where files are protected"),
    "project": ("echo 2 > ../../data/prices/a.csv", "{project}/data/prices is protected and was changed while"),
    "project, added": ("echo 2 > ../../data/new.csv", "{project}/data/*.csv is protected and was changed"),
    "read": ("touch ../../data/read.csv", "data/read.csv, which it was given to read, was changed while"),
    "all of it": ("rm -rf ../c", "is protected and was removed"),
}
FINE = {
    "nothing": ":",
    "reads": "cat sweep.py bench/deep/load.py ../../data/read.csv",
    "other files": "echo x > model.py; echo > new; mkdir benches; rm model.py",
    "deep folders elsewhere": f"mkdir deep; {DIG} deep",  # `*.cfg` is looked for above, and matches none in there
    "what Python compiles": "mkdir bench/deep/__pycache__; echo > bench/deep/__pycache__/load.pyc",
}


@pytest.mark.parametrize("name", VOID)
def test_what_it_did_is_found(bench: Bench, name: str) -> None:
    line, says = VOID[name]
    why = bench.after(line)
    assert why.startswith("void: ")
    assert says in why


@pytest.mark.parametrize("name", FINE)
def test_what_it_may_do_is_not(bench: Bench, name: str) -> None:
    assert bench.after(FINE[name]) == ""


def test_where_the_command_could_not_have_done_it_the_candidate_is_not_to_blame(bench: Bench) -> None:
    for path in ("data/prices/a.csv", "data/read.csv"):
        watched = bench.watch()._replace(walled=True)
        Path(path).write_text("2\n")
        with pytest.raises(StageFailed, match="was changed by something else while a command of x ran; build again"):
            tamper_reason(watched)
        Path(path).write_text("1\n")


def test_what_is_different_before_is_not_its_fault_and_what_to_do_is_said(bench: Bench) -> None:
    Path("data/prices/a.csv").write_text("2\n")
    says = r"\{project\}/data/prices is protected, .*: put it back; or `coppice forget x:protected` to go on"
    with pytest.raises(StageFailed, match=says):
        bench.watch()
    Path("data/prices/a.csv").write_text("1\n")
    bench.watch()
    Path("data/prices/a.csv").unlink()
    with pytest.raises(StageFailed, match="data/prices is"):
        bench.watch()


@pytest.mark.parametrize("name", [name for name in VOID if name not in ("project", "project, added", "all of it")])
def test_before_a_command_it_is_the_roots(bench: Bench, name: str) -> None:
    subprocess.run(["/bin/sh", "-c", VOID[name][0]], cwd=bench.folder, check=True)
    protected = protected_of(bench.job)
    assert protected is not None
    restore_protected(protected, bench.root.repo, bench.folder)
    folder = Path(bench.folder)
    assert (folder / "sweep.py").read_text() == "import csv\n"
    assert not (folder / "sweep.py").is_symlink()
    assert not os.access(folder / "sweep.py", os.X_OK)
    assert os.readlink(folder / "run") == "sweep.py"
    assert (folder / "bench/deep/load.py").read_text() == "x\n"
    assert not (folder / "bench").is_symlink()


def test_an_object_that_was_exchanged_is_not_what_is_put_back(bench: Bench) -> None:
    blob = object_name(b"blob", (Path(bench.folder) / "sweep.py").read_bytes())
    file = Path(bench.root.repo) / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(compress(b"blob 6\0forged"))
    (Path(bench.folder) / "sweep.py").unlink()
    with pytest.raises(StageFailed, match=f"the object {blob} of sweep.py is damaged"):
        bench.watch()
