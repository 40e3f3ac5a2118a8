"""Many threads and processes at one repository, and processes that are killed at any moment."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.gitting import OWN, commit_worktree, contents, repository, run_git, write
from kit.project import PATIENCE, ROOT

from pipeline.git.objects import pin, pinned_commits
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktrees, path_digest

FILES = {f"lib{number % 7}/file{number}.py": f"{number}\n" * 20 for number in range(60)}
# A process of its own: adds, commits in, and removes worktrees N, N + 1, ...
WORK = """
import sys
from pathlib import Path
from pipeline.git.commits import commit_without_leavings
from pipeline.git.objects import pin, unpin
from pipeline.git.worktrees import Worktrees
repo, folder, start, commit, first, last = sys.argv[1:]
for number in range(int(first), int(last)):
    trees = Worktrees(repo, folder, start)
    tree = trees.add(f"n{number}", commit)
    Path(tree.path, "idea").write_text(str(number))
    made, _ = commit_without_leavings(tree, commit, f"idea {number}")
    assert (made.files, made.insertions, made.deletions) == (1, 1, 0), made
    pin(repo, "x", f"n{number}", made.commit)
    trees.remove(f"n{number}")
    if number % 2:
        unpin(repo, "x", f"n{number}")
    print(number, flush=True)
"""


class Search(NamedTuple):
    root: RootCommit
    trees: Worktrees

    def work(self, first: int, last: int, path: str = OWN["PATH"]) -> subprocess.Popen[str]:
        words = [self.root.repo, self.trees.folder, self.trees.start, self.root.commit, str(first), str(last)]
        env = {"PATH": path, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-c", WORK, *words], env=env, stdout=-1, stderr=-1, text=True, start_new_session=True
        )

    def admins(self) -> list[str]:
        folder = f"{self.root.repo}/worktrees"
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


@pytest.fixture(params=["linked", "apart"])
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Search]:
    """A search whose worktrees are linked, as those of nodes, or have repositories of their own, as of candidates."""
    user = repository(tmp_path / "user", FILES)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    root = root_commit(str(user), "x")
    before = contents(user)
    yield Search(root, Worktrees(root.repo, "runs/x/wt", root.tree if request.param == "apart" else ""))
    after = contents(user)
    assert {name: after[name] for name in after if not name.startswith(".git/refs/coppice/y")} == before


def test_threads_and_processes_add_commit_and_remove_side_by_side(search: Search) -> None:
    processes = [search.work(first, first + 5) for first in (0, 5, 10, 15)]

    def one(number: int) -> None:
        tree = search.trees.add(f"n{number}", search.root.commit)
        assert {str(path.relative_to(tree.path)) for path in Path(tree.path).rglob("*.py")} == FILES.keys()
        write(tree.path, {"idea": str(number)})
        pin(search.root.repo, "x", f"n{number}", commit_worktree(tree, search.root.commit, f"idea {number}").commit)
        pinned_commits(search.root.repo, "x")
        search.trees.remove(f"n{number}")

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(one, range(20, 40)))
    ended = [(process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert [said for said, code in ended if code] == []
    assert os.listdir(search.trees.folder) == []
    assert search.admins() == []
    kept = {f"n{number}" for number in range(40) if number % 2 == 0 or number >= 20}
    assert pinned_commits(search.root.repo, "x").keys() == {"root", *kept}
    run_git(search.root.repo, "fsck", "--strict", GIT_DIR=search.root.repo)


def test_all_may_ask_for_the_same_worktree_at_once(search: Search) -> None:
    with ThreadPoolExecutor(12) as pool:
        added = list(pool.map(lambda _: search.trees.add("node", search.root.commit), range(24)))
    assert len(set(added)) == 1
    assert run_git(added[0].path, "status", "--porcelain", "--ignored") == ""
    assert search.admins() == ["node"]


def test_the_first_of_many_sets_the_run_up(search: Search) -> None:
    user = str(Path("../user").resolve())
    with ThreadPoolExecutor(6) as pool:
        roots = set(pool.map(lambda _: root_commit(user, "y"), range(12)))
    assert {root.commit for root in roots} == {search.root.commit}
    assert len(roots) == 1


def test_whenever_a_process_is_killed_the_next_goes_on(search: Search) -> None:
    for number in range(8):
        child = search.work(100, 1000)
        assert child.stdout is not None
        child.stdout.readline()  # it is at work
        time.sleep(number * 0.02)  # some moment of its work: whatever that is, the next one must cope
        os.killpg(child.pid, signal.SIGKILL)  # its gits are in sessions of their own and go on for a moment
        out, _ = child.communicate(timeout=PATIENCE)
        begun = 101 + len(out.split())
        again = search.work(begun - 1, begun + 1)
        said, errors = again.communicate(timeout=PATIENCE)
        assert (again.returncode, errors) == (0, ""), said
        assert search.admins() == []
    assert os.listdir(search.trees.folder) == []
    run_git(search.root.repo, "fsck", "--strict", GIT_DIR=search.root.repo)


# Git puts this into its folder while it adds a worktree.
BEGUN = {"locked": "initializing", "gitdir": "{path}/.git\n", "commondir": "../..\n", "HEAD": "0" * 40 + "\n"}


@pytest.mark.parametrize("steps", range(len(BEGUN) + 1))
@pytest.mark.parametrize("files", [False, True])
def test_a_worktree_that_git_had_only_begun_is_made_anew(search: Search, steps: int, files: bool) -> None:
    admin, path = Path(search.root.repo, "worktrees/node"), Path(search.trees.folder, "node")
    write(admin, {name: text.format(path=path) for name, text in [*BEGUN.items()][:steps]})
    admin.mkdir(parents=True, exist_ok=True)
    if files:
        write(path, {".git": f"gitdir: {admin}\n", "lib0/file0.py": "half"})
    tree = search.trees.add("node", search.root.commit)
    assert run_git(tree.path, "status", "--porcelain", "--ignored") == ""
    assert search.admins() == [os.path.basename(tree.admin)]
    search.trees.remove("node")
    assert search.admins() == []


# Stops where the files of a worktree are to be written, until it is told to go on.
SLOW = """#!/bin/sh
PATH='{path}'
case "$1" in "reset") echo > "$0.at"; read line < "$0.go";; esac
exec git "$@"
"""


def test_a_git_that_outlives_its_killed_process_is_waited_for(search: Search, tmp_path: Path) -> None:
    slow = tmp_path / "slow/git"
    write(tmp_path, {"slow/git": SLOW.format(path=OWN["PATH"])})
    slow.chmod(0o755)
    for pipe in ("git.at", "git.go"):
        os.mkfifo(slow.with_name(pipe))
    go = os.open(slow.with_name("git.go"), os.O_RDWR)
    try:
        child = search.work(0, 1, path=f"{slow.parent}:{OWN['PATH']}")
        slow.with_name("git.at").read_text()
        child.kill()
        child.communicate(timeout=PATIENCE)
        kept = f"{search.root.repo}/coppice/{path_digest(f'{search.trees.folder}/n0')}.lock"
        with open(kept) as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.write(go, b"\n")  # it may only now be about to read
    tree = search.trees.add("n0", search.root.commit)
    os.close(go)
    assert run_git(tree.path, "status", "--porcelain", "--ignored") == ""
