"""Worktrees are as a commit has them when asked for, whatever was done in them before."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.gitting import commit_worktree, contents, hostile_user, repository, run_git, trap, write

from pipeline.git.command import GitProblem
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktree, Worktrees
from pipeline.store.folders import delete_tree

FILES = {
    "main.py": "print(1)\n",
    "lib/a b.txt": "x\r\n",
    "-rf": "1",
    "new\nline": "n",
    "é": "1",
    ".gitignore": "*.log\n",
}


class Search(NamedTuple):
    """A run whose root has FILES, and its worktrees."""

    root: RootCommit
    trees: Worktrees
    user: Path

    def add(self, name: str = "d0.n0") -> Worktree:
        return self.trees.add(name, self.root.commit)


@pytest.fixture(params=["linked", "apart"])
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Search]:
    """A search whose worktrees are linked, as those of nodes, or have repositories of their own, as of candidates."""
    (tmp_path / "traps").touch()
    hostile_user(tmp_path / "home", monkeypatch)
    user = repository(tmp_path / "user", FILES)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    root = root_commit(str(user), "x")
    before = contents(user)
    yield Search(root, Worktrees(root.repo, "runs/x/wt", root.tree if request.param == "apart" else ""), user)
    assert contents(user) == before
    assert (tmp_path / "traps").read_text() == ""


def files(tree: Worktree) -> dict[str, bytes]:
    dotgit = Path(tree.path, ".git")
    assert dotgit.is_dir() and not dotgit.is_symlink() if tree.start else dotgit.read_text().startswith("gitdir: ")
    everything = [path for path in Path(tree.path).rglob("*") if dotgit not in (path, *path.parents)]
    assert all(path.is_symlink() or any(path.iterdir()) for path in everything if path.is_dir())
    found = (path for path in everything if path.is_symlink() or not path.is_dir())
    return {str(path.relative_to(tree.path)): b"->" if path.is_symlink() else path.read_bytes() for path in found}


def admin_of(at: Path) -> Path:
    """Git's folder about a worktree."""
    return at.parents[1] / "repo.git/worktrees" / at.name


WANTED = {name: text.encode() for name, text in FILES.items()}


def test_a_worktree_has_the_files_of_its_commit_and_no_branch(search: Search) -> None:
    tree = search.add()
    assert files(tree) == WANTED
    assert tree == search.trees.require("d0.n0")
    assert tree.path == os.path.realpath("runs/x/wt/d0.n0")
    assert run_git(tree.path, "status", "--porcelain") == ""
    assert run_git(tree.path, "rev-parse", "HEAD").strip() == search.root.commit


def test_what_is_there_and_clean_is_not_touched(search: Search) -> None:
    tree = search.add()
    before = {path: (Path(tree.path) / path).stat().st_ctime_ns for path in files(tree)}
    admin = contents(Path(tree.admin))
    assert search.add() == tree
    assert {path: (Path(tree.path) / path).stat().st_ctime_ns for path in files(tree)} == before
    assert contents(Path(tree.admin)) == admin


def changed(at: Path) -> None:
    write(at, {"main.py": "print(2)\n"})


def gone(at: Path) -> None:
    (at / "-rf").unlink()


def untracked(at: Path) -> None:
    write(at, {"new/file": "1", "lib/--help": "1"})


def ignored(at: Path) -> None:
    write(at, {"cache.log": "1", "__pycache__/x.pyc": "1"})


def executable(at: Path) -> None:
    (at / "main.py").chmod(0o755)


def folder_for_a_file(at: Path) -> None:
    (at / "main.py").unlink()
    write(at, {"main.py/inner": "1"})


def file_for_a_folder(at: Path) -> None:
    shutil.rmtree(at / "lib")
    write(at, {"lib": "1"})


def link_for_a_folder(at: Path) -> None:
    shutil.rmtree(at / "lib")
    (at / "lib").symlink_to("/")


def hidden_by_its_index(at: Path) -> None:
    write(at, {"main.py": "print(2)\n", "-rf": "2"})
    run_git(at, "update-index", "--assume-unchanged", "main.py")
    run_git(at, "update-index", "--skip-worktree", "--", "-rf")


def committed_on_a_branch(at: Path) -> None:
    write(at, {"main.py": "print(2)\n"})
    run_git(at, "checkout", "--quiet", "-b", "mine")
    run_git(at, "commit", "--quiet", "--all", "--message=mine")


def amid_a_merge(at: Path) -> None:
    committed_on_a_branch(at)
    run_git(at, "checkout", "--quiet", "--detach", "HEAD^")
    run_git(at, "merge", "--quiet", "--no-ff", "--no-commit", "mine")


def a_repository_within(at: Path) -> None:
    repository(at / "inner", {"a": "1"})


def a_repository_around_files(at: Path) -> None:
    run_git(at / "lib", "init", "--quiet", "--template=")


def empty_folders(at: Path) -> None:
    (at / "lib/empty/too").mkdir(parents=True)


def its_git_file_is_a_repository(at: Path) -> None:
    """One that runs what a hostile candidate says."""
    delete_tree(str(at / ".git"))
    run_git(at, "init", "--quiet", "--template=")
    program = trap(at / ".git/hooks", "post-checkout")
    shutil.copy(program, at / ".git/hooks/post-index-change")
    for key in ("core.fsmonitor", "filter.x.smudge", "filter.x.clean", "diff.external"):
        run_git(at, "config", key, str(program))


def its_git_file_is_gone(at: Path) -> None:
    delete_tree(str(at / ".git"))


def its_git_file_is_a_link(at: Path) -> None:
    (at / ".git").rename(at.parent / "pointer")
    (at / ".git").symlink_to("../pointer")


def closed_folders(at: Path) -> None:
    write(at, {"shut/in/file": "1"})
    (at / "shut/in").chmod(0)
    (at / "shut").chmod(0o500)


def a_lock_of_a_dead_git(at: Path) -> None:
    (admin_of(at) / "index.lock").write_text("")
    write(at, {"main.py": "print(2)\n"})


def broken_head(at: Path) -> None:
    (admin_of(at) / "HEAD").write_text("")


def half_an_index(at: Path) -> None:
    for path in admin_of(at).glob("*index"):
        path.write_bytes(path.read_bytes()[:10])


def replaced_by_a_link(at: Path) -> None:
    at.rename(at.with_name("elsewhere"))
    at.symlink_to("elsewhere")


MESSES = [changed, gone, untracked, ignored, executable, folder_for_a_file, file_for_a_folder, link_for_a_folder]
MESSES += [hidden_by_its_index, committed_on_a_branch, amid_a_merge, a_repository_within, its_git_file_is_a_repository]


def folders_without_end(at: Path) -> None:
    """As a program makes them that went wrong: the path is longer than any that can be named."""
    within = os.open(at, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("deep", dir_fd=within)
        inner = os.open("deep", os.O_RDONLY, dir_fd=within)
        os.close(within)
        within = inner
    os.close(within)


MESSES += [its_git_file_is_gone, its_git_file_is_a_link, closed_folders, a_lock_of_a_dead_git, broken_head]
MESSES += [a_repository_around_files, empty_folders, replaced_by_a_link, shutil.rmtree, folders_without_end]
MESSES += [half_an_index]


@pytest.mark.parametrize("mess", MESSES, ids=lambda mess: mess.__name__)
def test_whatever_was_done_in_it_is_undone(search: Search, mess: Callable[[Path], None]) -> None:
    mess(Path(search.add().path))
    tree = search.add()
    assert files(tree) == WANTED
    assert not os.path.islink(tree.path)
    assert not os.access(f"{tree.path}/main.py", os.X_OK)
    assert run_git(tree.path, "status", "--porcelain", "--ignored") == ""
    assert run_git(tree.path, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split() == [search.root.commit, "HEAD"]
    assert [*Path(search.root.repo, "worktrees").iterdir()] == [Path(tree.admin)]


def test_the_same_name_moves_to_another_commit(search: Search) -> None:
    tree = search.add()
    write(tree.path, {"main.py": "print(2)\n", "new": "1"})
    candidate = commit_worktree(tree, search.root.commit, "2")
    assert files(search.trees.add("d0.n0", candidate.commit)) == {**WANTED, "main.py": b"print(2)\n", "new": b"1"}
    assert files(search.add()) == WANTED


def test_an_edit_in_the_second_of_the_checkout_that_keeps_the_size_is_seen_later(search: Search) -> None:
    """Git's index knows times by the second only, on most systems."""
    second, number = 0, 0
    while second != int(time.time()):
        second, number = int(time.time()), number + 1
        tree = search.add(f"n{number}")
        write(tree.path, {"main.py": "print(2)\n"})
    while second == int(time.time()):
        time.sleep(0.01)
    assert not commit_worktree(tree, search.root.commit, "").empty
    assert files(search.add(f"n{number}")) == WANTED


def test_removing_leaves_no_trace(search: Search) -> None:
    tree = search.add()
    other = search.add("d0.n1")
    for mess in (closed_folders, a_repository_within, untracked):
        mess(Path(tree.path))
    for _ in range(2):
        search.trees.remove("d0.n0")
        assert not os.path.lexists(tree.path)
        assert [*Path(search.root.repo, "worktrees").iterdir()] == [Path(other.admin)]
    with pytest.raises(GitProblem, match="is no worktree"):
        search.trees.require("d0.n0")
    assert files(other) == WANTED


def test_two_folders_may_use_the_same_names(search: Search) -> None:
    candidates = Worktrees(search.root.repo, "runs/x/cand")
    first, second = search.add("same"), candidates.add("same", search.root.commit)
    assert first.admin != second.admin
    candidates.remove("same")
    assert files(search.trees.require("same")) == WANTED


def test_a_name_is_that_of_a_folder(search: Search) -> None:
    for name in ("", ".", "..", "a/b", "/abs", "a\nb", "a\0"):
        with pytest.raises(GitProblem, match="cannot name a worktree"):
            search.trees.add(name, search.root.commit)
        with pytest.raises(GitProblem, match="cannot name a worktree"):
            search.trees.remove(name)


def test_no_name_is_taken_for_an_option(search: Search) -> None:
    for name in ("-f", "--help", "a b", "é", "$HOME", "*"):
        assert files(search.add(name)) == WANTED
        search.trees.remove(name)
        assert os.listdir(search.trees.folder) == []


def test_only_a_commit_is_checked_out(search: Search) -> None:
    for commit in ("HEAD", "--all", "", "0" * 39, "A" * 40, "0" * 40 + "\n"):
        with pytest.raises(GitProblem, match="is not a commit"):
            search.trees.add("x", commit)
    assert not os.path.exists(search.trees.folder)


def test_a_commit_that_is_not_there_leaves_no_worktree(search: Search) -> None:
    with pytest.raises(GitProblem, match="worktree"):
        search.trees.add("x", "1" * 40)
    assert not os.path.exists(f"{search.trees.folder}/x")
    assert files(search.add("x")) == WANTED
