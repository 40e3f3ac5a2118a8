"""What is written without git is as git writes it, and an evaluation starts git as seldom as can be."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.gitting import OWN, commit_worktree, repository, run_git, write
from kit.project import PATIENCE, ROOT

from pipeline.git.command import GitProblem
from pipeline.git.commits import commit_patch
from pipeline.git.objects import (
    has_commit,
    parent_commit,
    pin,
    pinned_commits,
    tree_hash,
    unpin,
    write_commit,
    write_object,
)
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktrees

FILES = {f"lib{number % 3}/file{number}.py": f"{number}\n" * 20 for number in range(30)}
PATCH = b"--- /dev/null\n+++ b/lib0/new\n@@ -0,0 +1 @@\n+%d\n"
PIN = """
import sys
from pipeline.git.objects import pin
repo, slot, *commits = sys.argv[1:]
for commit in commits * 40:
    pin(repo, "x", slot, commit)
"""


class Search(NamedTuple):
    root: RootCommit
    trees: Worktrees

    def commits(self, number: int) -> list[str]:
        made = (commit_patch(self.root.repo, self.root.commit, PATCH % each, "idea") for each in range(number))
        return [candidate.commit for candidate in made]


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    user = repository(tmp_path / "user", FILES)
    run_git(user, "gc", "--quiet")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    root = root_commit(str(user), "x")
    yield Search(root, Worktrees(root.repo, "runs/x/cand", root.tree))
    run_git(root.repo, "fsck", "--strict", GIT_DIR=root.repo)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A line for each start of git."""
    program = tmp_path / "bin/git"
    write(tmp_path, {"bin/git": f"#!/bin/sh\necho $1 >> '{tmp_path}/calls'\nPATH='{OWN['PATH']}' exec git \"$@\"\n"})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{OWN['PATH']}")
    return tmp_path / "calls"


def test_an_evaluation_of_a_patch_starts_git_three_times(search: Search, calls: Path) -> None:
    def evaluate(number: int) -> None:
        assert has_commit(search.root.repo, search.root.commit)
        made = commit_patch(search.root.repo, search.root.commit, PATCH % number, "idea")
        pin(search.root.repo, "x", f"n{number}", made.commit)
        search.trees.add(f"n{number}", made.commit)
        search.trees.remove(f"n{number}")
        assert tree_hash(search.root.repo, made.commit) == made.tree

    evaluate(0)  # reads the index of the parent
    calls.write_text("")
    for number in range(1, 4):
        evaluate(number)
    assert calls.read_text().split() == ["apply", "reset", "pack-objects"] * 3


def test_a_candidate_of_a_coder_starts_git_twice(search: Search, calls: Path) -> None:
    tree = search.trees.add("n", search.root.commit)
    calls.write_text("")
    write(tree.path, {"lib0/file0.py": "1\n"})
    made = commit_worktree(tree, search.root.commit, "idea")
    assert calls.read_text().split() == ["add", "diff-tree"]
    assert made.files == 1


@pytest.mark.parametrize("text", [b"", b"tree of text\n", bytes(range(256)) * 999], ids=["empty", "text", "bytes"])
def test_an_object_is_as_git_writes_it(search: Search, text: bytes) -> None:
    name = write_object(search.root.repo, b"blob", text)
    file = Path(search.root.repo, "objects", name[:2], name[2:])
    mode, umask = file.stat().st_mode, os.umask(0)
    os.umask(umask)
    assert mode & 0o777 == 0o444 & ~umask
    file.unlink()
    assert run_git("/", "hash-object", "-w", "--stdin", stdin=text, GIT_DIR=search.root.repo).strip() == name
    assert file.stat().st_mode == mode
    assert write_object(search.root.repo, b"blob", text) == name
    assert os.listdir(file.parent) == [file.name]


def test_a_commit_that_is_damaged_is_written_again(search: Search) -> None:
    repo, root = search.root.repo, search.root
    name = write_commit(repo, root.tree, (root.commit,), 5, "idea")
    file = Path(repo, "objects", name[:2], name[2:])
    for damage in (b"", b"\0" * 100, file.read_bytes()[:-9]):
        file.unlink()
        file.write_bytes(damage)
        with pytest.raises(GitProblem):
            parent_commit(repo, name)
        assert write_commit(repo, root.tree, (root.commit,), 5, "idea") == name
        assert parent_commit(repo, name) == (root.tree, 5)


def test_only_a_commit_is_one(search: Search) -> None:
    blob = write_object(search.root.repo, b"blob", b"text")
    for name in (blob, search.root.tree, "1" * 40):
        assert not has_commit(search.root.repo, name)
        with pytest.raises(GitProblem, match=f"has no commit {name}"):
            tree_hash(search.root.repo, name)


def test_git_sees_what_is_pinned(search: Search) -> None:
    repo = search.root.repo
    first, second = search.commits(2)
    for commit in (first, second):
        pin(repo, "x", "d0", commit)
        shown = run_git("/", "for-each-ref", "--format=%(refname) %(objectname)", GIT_DIR=repo)
        assert f"refs/coppice/x/d0 {commit}\n" in shown
        run_git("/", "pack-refs", "--all", GIT_DIR=repo)
    pin(repo, "x", "d0", first)
    run_git("/", "gc", "--quiet", "--prune=now", GIT_DIR=repo)
    assert (has_commit(repo, first), has_commit(repo, second)) == (True, False)
    pin(repo, "x", "d1", first)  # out of a pack, now
    unpin(repo, "x", "d0")
    assert pinned_commits(repo, "x") == {"d1": first, "root": search.root.commit}


def test_the_lock_of_a_process_that_was_killed_is_taken_back(search: Search) -> None:
    repo = search.root.repo
    first, second = search.commits(2)
    pin(repo, "x", "d0", first)
    path = f"{repo}/refs/coppice/x/d0"
    stop = "import os, signal; os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    words = [sys.executable, "-c", stop + PIN, repo, "d0", second]
    killed = subprocess.run(words, env={"PATH": OWN["PATH"], "PYTHONPATH": str(ROOT)}, check=False)
    assert killed.returncode == -9
    assert os.path.exists(f"{path}.lock")
    unpin(repo, "x", "d0")
    subprocess.run(words, env={"PATH": OWN["PATH"], "PYTHONPATH": str(ROOT)}, check=False)
    pin(repo, "x", "d0", first)
    assert pinned_commits(repo, "x")["d0"] == first
    assert sorted(os.listdir(os.path.dirname(path))) == ["d0", "root"]
    pin(repo, "x", "d0", second)
    assert Path(path).read_text() == f"{second}\n"
    assert not list(Path(repo, "coppice").glob("*.ref"))


def test_the_lock_of_a_git_at_work_is_waited_for(search: Search) -> None:
    repo = search.root.repo
    first, second = search.commits(2)
    pin(repo, "x", "d0", first)
    lock = Path(repo, "refs/coppice/x/d0.lock")
    lock.write_text("")
    waiting = threading.Thread(target=pin, args=(repo, "x", "d0", second))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    assert pinned_commits(repo, "x")["d0"] == first
    lock.unlink()
    waiting.join(20)
    assert pinned_commits(repo, "x")["d0"] == second
    assert not list(Path(repo, "coppice").glob("*.ref"))


def test_threads_processes_and_git_pin_side_by_side(search: Search) -> None:
    repo, commits = search.root.repo, search.commits(4)
    words = [sys.executable, "-c", PIN, repo]
    env = {"PATH": OWN["PATH"], "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen([*words, slot, *commits], env=env, stderr=-1) for slot in ("same", "same", "own")]

    def one(number: int) -> None:
        pin(repo, "x", f"n{number % 10}", commits[number % 4])
        if number % 20 == 0:
            run_git("/", "pack-refs", "--all", GIT_DIR=repo)
        if number % 7 == 0:
            run_git("/", "update-ref", "refs/coppice/x/same", commits[0], GIT_DIR=repo)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one, range(100)))
    assert [process.communicate(timeout=PATIENCE)[1] for process in processes] == [b""] * 3
    found = pinned_commits(repo, "x")
    assert found.keys() == {"root", "same", "own", *(f"n{number}" for number in range(10))}
    assert found["own"] == commits[-1]
    assert not list(Path(repo, "refs").rglob("*.lock"))


def test_git_itself_knows_a_worktree_that_it_did_not_add(search: Search) -> None:
    trees = Worktrees(search.root.repo, "runs/x/wt")
    first, second = trees.add("one", search.root.commit), trees.add("a lock.lock", search.root.commit)
    listed = run_git(first.path, "worktree", "list", "--porcelain")
    for tree in (first, second):
        assert f"worktree {tree.path}\nHEAD {search.root.commit}\ndetached\n" in listed
        run_git(tree.path, "commit", "--quiet", "--allow-empty", "--message=mine")
        assert run_git(tree.path, "status", "--porcelain", "--ignored") == ""
    run_git(first.path, "worktree", "prune", "--expire=now")
    run_git(first.path, "gc", "--quiet", "--prune=now")
    assert trees.require("one") == first
    run_git(first.path, "worktree", "remove", second.path)
    with pytest.raises(GitProblem, match="is no worktree"):
        trees.require("a lock.lock")
    assert trees.add("a lock.lock", search.root.commit) == second


def test_a_worktree_that_a_coder_added_is_in_nobodys_way(search: Search) -> None:
    tree = search.trees.add("one", search.root.commit)
    other = f"{os.path.dirname(tree.path)}/elsewhere/two"
    run_git(tree.path, "worktree", "add", "--quiet", "--detach", other)
    run_git(tree.path, "worktree", "add", "--quiet", "--detach", "../three")
    two, three = (search.trees.add(name, search.root.commit) for name in ("two", "three"))
    assert two.path != other
    for at in (tree.path, other, two.path, three.path):
        assert run_git(at, "rev-parse", "--show-toplevel").strip() == at
        assert run_git(at, "status", "--porcelain", "--ignored") == ""
