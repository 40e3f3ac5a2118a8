"""Whatever a coder leaves in a worktree becomes one commit, the same everywhere, and can be made again from a patch."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.gitting import commit_worktree, contents, hostile_user, repository, run_git, sprung, trap, tree_of, write
from test_git_worktrees import (
    amid_a_merge,
    closed_folders,
    committed_on_a_branch,
    hidden_by_its_index,
    its_git_file_is_a_repository,
)

from pipeline.git.command import CandidateProblem, GitProblem
from pipeline.git.commits import Candidate, apply_patch, patch_between, restore_commit
from pipeline.git.objects import FileStat, diff_stat, has_commit, pin, pinned_commits, tree_hash, unpin
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktree, Worktrees

FILES = {
    "main.py": "".join(f"{number}\n" for number in range(30)),
    "lib/a b.txt": "x\r\ny\r\n",
    "lib/more": "1",
    "-rf": "1",
    "new\nline": "n\n",
    "tool": "#!/bin/sh\n",
    "blob": bytes(range(256)),
    ".gitignore": "*.log\n/out/\n",
}


class Search(NamedTuple):
    root: RootCommit
    trees: Worktrees

    def add(self, name: str = "c") -> Worktree:
        return self.trees.add(name, self.root.commit)

    def commit(self, message: str = "idea") -> Candidate:
        return commit_worktree(self.trees.require("c"), self.root.commit, message)


def search_in(project: Path, user: Path) -> Search:
    project.mkdir()
    os.chdir(project)
    root = root_commit(str(user), "x")
    return Search(root, Worktrees(root.repo, "runs/x/cand", root.tree))


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traps").touch()
    hostile_user(tmp_path / "home", monkeypatch)
    user = repository(tmp_path / "user", FILES)
    (user / "link").symlink_to("main.py")
    (user / "tool").chmod(0o755)
    run_git(user, "add", "--all")
    run_git(user, "commit", "--quiet", "--message=link", GIT_COMMITTER_DATE="1700000100 +0000")
    yield search_in(tmp_path / "project", user)
    assert (tmp_path / "traps").read_text() == ""


def edited(at: Path) -> None:
    write(at, {"main.py": (at / "main.py").read_text().replace("7\n", "seven\n") + "no newline at the end"})


def line_ends(at: Path) -> None:
    write(at, {"lib/a b.txt": "x\r\nY\r\n", "lib/unix": "a\nb\r\nc"})


def binary(at: Path) -> None:
    write(at, {"blob": bytes(range(255, -1, -1)) * 50, "é.bin": b"\0\1\2" * 100})


def empty_files(at: Path) -> None:
    write(at, {"main.py": "", "none": "", "lib/more": ""})


def deleted(at: Path) -> None:
    shutil.rmtree(at / "lib")
    (at / "new\nline").unlink()


def modes(at: Path) -> None:
    (at / "main.py").chmod(0o755)
    (at / "tool").chmod(0o644)
    (at / "lib/more").chmod(0o600)
    write(at, {"run": "x"})
    (at / "run").chmod(0o711)


def links(at: Path) -> None:
    (at / "link").unlink()
    (at / "link").symlink_to("no/such place\nat all")
    (at / "passwords").symlink_to("/etc/passwd")
    (at / "here").symlink_to(".")


def other_types(at: Path) -> None:
    (at / "link").unlink()
    (at / "main.py").unlink()
    (at / "main.py").symlink_to("-rf")
    (at / "tool").unlink()
    shutil.rmtree(at / "lib")
    write(at, {"link": "a file", "tool/is": "a folder", "lib": "a file"})


def odd_names(at: Path) -> None:
    names = [
        "--output=x",
        "-",
        " a ",
        "q\"uo'te",
        "t\tab",
        "nl\n",
        "\n",
        "a => b",
        "{a => b}",
        ":colon",
        ":(top)x",
        "*",
        "[a]",
        "%s",
    ]
    write(
        at, dict.fromkeys([*names, "é/e\u0301", "back\\slash", "#", "!x", "~", "sub/-rf", "long/" + "n" * 200], "1\n")
    )
    if os.name == "posix" and os.uname().sysname == "Linux":  # elsewhere names are UTF-8
        write(os.fsdecode(bytes(at)), {os.fsdecode(b"not\xffutf8"): "1\n"})


def attributes(at: Path) -> None:
    """Which would change what is stored, what is shown, or start a program."""
    lines = [
        "* text=auto eol=crlf ident filter=trap diff=trap merge=trap",
        "*.txt -diff",
        "enc working-tree-encoding=UTF-16",
    ]
    write(at, {".gitattributes": "\n".join(lines), "enc": "plain", "crlf": "a\r\nb\n", "id": "$Id: x $\n"})


EDITS = [edited, line_ends, binary, empty_files, deleted, modes, links, other_types, odd_names, attributes]


def files(at: str) -> dict[str, tuple[str, bytes]]:
    found = {}
    for path in Path(at).rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(at))] = ("120000", os.fsencode(os.readlink(path)))
        elif path.is_file():
            mode = "100755" if path.stat().st_mode & 0o100 else "100644"
            found[str(path.relative_to(at))] = (mode, path.read_bytes())
    return {name: each for name, each in found.items() if name.partition("/")[0] != ".git"}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_candidate_is_what_was_left_and_is_made_again_elsewhere(
    search: Search, edit: Callable[[Path], None], tmp_path: Path
) -> None:
    tree = search.add()
    edit(Path(tree.path))
    left = files(tree.path)
    made = search.commit()
    assert tree_of(search.root.repo, made.commit) == left
    assert made.tree == tree_hash(search.root.repo, made.commit)
    assert made.files == len(diff_stat(search.root.repo, search.root.commit, made.commit)) > 0
    assert search.add() == tree
    assert files(search.trees.add("again", made.commit).path) == left
    text = patch_between(search.root.repo, search.root.commit, made.commit)
    apply_patch(tree, text)
    assert files(tree.path) == left
    assert search.commit() == made
    run_git(tmp_path, "clone", "--quiet", "--template=", "user", "clone")
    other = search_in(tmp_path / "elsewhere", tmp_path / "clone")
    assert not has_commit(other.root.repo, made.commit)
    restore_commit(other.root.repo, other.root.commit, text, made)
    assert has_commit(other.root.repo, made.commit)
    assert files(other.trees.add("c", made.commit).path) == left


def test_thousands_of_files_are_one_candidate(search: Search) -> None:
    at = Path(search.add().path)
    write(at, {f"many/{number % 40}/file {number}": f"{number}\n" for number in range(2000)})
    made, repo = search.commit(), search.root.repo
    assert (made.files, made.insertions, made.deletions) == (2000, 2000, 0)
    restore_commit(repo, search.root.commit, patch_between(repo, search.root.commit, made.commit), made)
    assert files(search.trees.add("c", made.commit).path).keys() == {*FILES, "link"} | {
        f"many/{number % 40}/file {number}" for number in range(2000)
    }


def test_the_hash_of_a_candidate_is_known_beforehand(search: Search) -> None:
    write(search.add().path, {"main.py": "one\n"})
    made = search.commit("Momentum, skipping a month\n\n")
    text = run_git("/", "cat-file", "commit", made.commit, GIT_DIR=search.root.repo)
    assert text == (
        f"tree {made.tree}\nparent {search.root.commit}\n"
        "author Coppice <coppice@localhost> 1700000101 +0000\n"
        "committer Coppice <coppice@localhost> 1700000101 +0000\n\nMomentum, skipping a month\n"
    )
    assert made == Candidate(made.commit, made.tree, search.root.commit, "Momentum, skipping a month\n\n", 1, 1, 30)
    later = commit_worktree(search.trees.add("c", made.commit), made.commit, "")
    assert " 1700000102 +0000\n" in run_git("/", "cat-file", "commit", later.commit, GIT_DIR=search.root.repo)


@pytest.mark.parametrize(
    "message", ["", "-m --amend", "nul\0 within", "\ud83d alone", "é\r\n# not a comment\n\n\n", "x" * 100_000]
)
def test_any_text_of_an_idea_is_a_message(search: Search, message: str) -> None:
    write(search.add().path, {"main.py": "one\n"})
    made = search.commit(message)
    assert made == search.commit(message)
    restore_commit(
        search.root.repo, search.root.commit, patch_between(search.root.repo, search.root.commit, made.commit), made
    )
    run_git("/", "fsck", "--strict", GIT_DIR=search.root.repo)


def test_a_coder_that_changed_nothing_is_told_apart(search: Search) -> None:
    tree = search.add()
    made = search.commit()
    assert made.empty
    assert (made.tree, made.files, made.insertions, made.deletions) == (search.root.tree, 0, 0, 0)
    assert patch_between(search.root.repo, search.root.commit, made.commit) == b""
    restore_commit(search.root.repo, search.root.commit, b"", made)
    (Path(tree.path) / "main.py").chmod(0o755)
    assert not search.commit().empty


def test_what_is_ignored_is_left_out_but_not_what_is_tracked(search: Search) -> None:
    tree = search.add()
    write(tree.path, {"x.log": "1", "out/y": "1", "lib/__pycache__/m.pyc": "1", "a.py": "1", "b.txt": "1"})
    write(tree.path, {"sub/.gitignore": "own\n", "sub/own": "1", "sub/kept": "1"})
    made = search.commit()
    stat = diff_stat(search.root.repo, search.root.commit, made.commit)
    assert [file.path for file in stat] == ["a.py", "b.txt", "sub/.gitignore", "sub/kept"]


@pytest.mark.parametrize(
    "mess", [hidden_by_its_index, committed_on_a_branch, amid_a_merge], ids=lambda mess: mess.__name__
)
def test_the_files_count_not_what_the_coder_told_git(search: Search, mess: Callable[[Path], None]) -> None:
    tree = search.add()
    mess(Path(tree.path))
    left = files(tree.path)
    assert left != files(search.add("other").path)
    assert tree_of(search.root.repo, search.commit().commit) == left


def test_folders_that_were_closed_are_looked_into(search: Search) -> None:
    tree = search.add()
    closed_folders(Path(tree.path))
    assert "shut/in/file" in tree_of(search.root.repo, search.commit().commit)


def test_repositories_within_are_files_like_any_other(search: Search) -> None:
    at = Path(search.add().path)
    shutil.rmtree(at / "lib")
    repository(at / "lib", {"a": "1", "x.log": "1"})  # a folder of files before
    repository(at / "new/inner", {"a b": "1", "\n/c": "1", "x.log": "1"})
    repository(at / "new/inner/deeper", {".gitignore": "own\n", "d": "1"})
    write(at, {"new/inner/deeper/own": "1", ".gitmodules": '[submodule "lib"]\n\tpath = lib\n\tupdate = !evil\n'})
    (at / "bare").mkdir()
    run_git(at / "bare", "init", "--quiet", "--template=")
    for inner in ("lib", "new/inner"):
        run_git(at / inner, "config", "core.fsmonitor", str(trap(at.parent / "evil")))
    sprung(at).write_text("")  # what the preparations themselves set off
    made = search.commit()
    added = {"lib/a", "new/inner/a b", "new/inner/\n/c", "new/inner/deeper/.gitignore", "new/inner/deeper/d"}
    kept = {name for name in FILES if not name.startswith("lib/")} | {"link", ".gitmodules"}
    assert tree_of(search.root.repo, made.commit).keys() == added | kept
    assert files(search.trees.add("c", made.commit).path) == tree_of(search.root.repo, made.commit)


def a_pipe(at: Path) -> None:
    (at / "main.py").unlink()
    os.mkfifo(at / "main.py")


def git_in_disguise(at: Path) -> None:
    write(at, {"sub/.GIT/config": "[core]\n\tfsmonitor = evil\n"})


@pytest.mark.parametrize(
    ("mess", "said"),
    [
        (a_pipe, "the files cannot be committed: git add: error: main.py: can only add regular files"),
        (git_in_disguise, "the files cannot be committed: git add: error: "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_a_commit_is_the_candidates_failure(
    search: Search, mess: Callable[[Path], None], said: str
) -> None:
    mess(Path(search.add().path))
    with pytest.raises(CandidateProblem, match=said):
        search.commit()
    assert files(search.add().path) == tree_of(search.root.repo, search.root.commit)


def test_nothing_that_a_candidate_puts_anywhere_is_run(search: Search) -> None:
    """Its own .git; and hooks, filters and remotes in the run's repository, from a coder that may write there."""
    tree, repo = search.add(), Path(search.root.repo)
    attributes(Path(tree.path))
    program = str(trap(Path(tree.path).parent / "evil"))
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        trap(repo / "hooks", hook)
    settings = ["core.fsmonitor", "diff.external", "diff.trap.command", "diff.trap.textconv", "filter.trap.clean"]
    settings += ["filter.trap.smudge", "filter.trap.process", "remote.origin.uploadpack", "core.sshCommand"]
    write(repo, {"all": "*\n"})
    more = {
        "core.excludesFile": str(repo / "all"),
        "core.hooksPath": str(repo / "hooks"),
        "remote.origin.url": str(repo),
        "remote.origin.promisor": "true",
    }
    more |= {"extensions.partialClone": "origin", "protocol.file.allow": "always", "core.repositoryFormatVersion": "1"}
    for key, value in {**dict.fromkeys(settings, program), **more}.items():
        run_git(tree.path, "config", key, value)
    its_git_file_is_a_repository(Path(tree.path))
    sprung(repo).write_text("")  # what the preparations themselves set off
    made = search.commit()
    assert made.files == 4
    text = patch_between(search.root.repo, search.root.commit, made.commit)
    apply_patch(search.add(), text)
    restore_commit(search.root.repo, search.root.commit, text, made)
    assert not has_commit(search.root.repo, "1" * 40)
    with pytest.raises(GitProblem):
        tree_hash(search.root.repo, "1" * 40)
    pin(search.root.repo, "x", "c", made.commit)
    search.trees.add("c", made.commit)
    search.trees.remove("c")


BAD = {
    "is not there": "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n",
    "leads out": "--- /dev/null\n+++ b/../../out\n@@ -0,0 +1 @@\n+b\n",
    "into git": "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+b\n",
    "nonsense": "Here is the patch you asked for:\n",
    "half": "--- /dev/null\n+++ b/fits\n@@ -0,0 +1 @@\n+2\n--- a/main.py\n+++ b/main.py\n@@ -1 +1 @@\n-x\n+y\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_patch_that_does_not_fit_is_told_in_a_line_and_changes_nothing(search: Search, text: str) -> None:
    tree = search.add()
    before = contents(Path(tree.path))
    with pytest.raises(CandidateProblem, match=r"^the patch does not apply: git apply: error: [^\n]+$"):
        apply_patch(tree, text.encode())
    assert contents(Path(tree.path)) == before
    assert search.commit().empty


def test_a_patch_through_a_link_of_its_own_stays_inside(search: Search, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    tree = search.add()
    out = f"diff --git a/way b/way\nnew file mode 120000\n--- /dev/null\n+++ b/way\n@@ -0,0 +1 @@\n+{tmp_path}/target\n"
    out += "\\ No newline at end of file\n--- /dev/null\n+++ b/way/out\n@@ -0,0 +1 @@\n+b\n"
    with pytest.raises(CandidateProblem, match="the patch does not apply"):
        apply_patch(tree, out.encode())
    assert os.listdir(tmp_path / "target") == []


def test_a_patch_or_record_that_was_changed_is_found_out(search: Search) -> None:
    write(search.add().path, {"main.py": "one\n"})
    made, repo = search.commit(), search.root.repo
    text = patch_between(repo, search.root.commit, made.commit)
    for candidate, changed in [
        (made, text.replace(b"\n+one", b"\n+two")),
        (made._replace(message="other"), text),
        (made, b""),
    ]:
        with pytest.raises(GitProblem, match=r"one of them was changed|git apply: error: "):
            restore_commit(repo, search.root.commit, changed, candidate)


def test_a_diff_tells_each_file(search: Search) -> None:
    tree = search.add()
    write(tree.path, {"main.py": "0\n1\n2\nthree\n", "blob": b"\0", "a\tb\nc": "1\n2\n"})
    (Path(tree.path) / "-rf").unlink()
    (Path(tree.path) / "lib/more").chmod(0o755)
    made = search.commit()
    assert set(diff_stat(search.root.repo, search.root.commit, made.commit)) == {
        FileStat("main.py", 1, 27),
        FileStat("blob", 0, 0),
        FileStat("a\tb\nc", 2, 0),
        FileStat("-rf", 0, 1),
        FileStat("lib/more", 0, 0),
    }
    assert (made.insertions, made.deletions) == (3, 28)


def test_refs_keep_commits_by_run_and_slot(search: Search) -> None:
    repo, root = search.root.repo, search.root.commit
    write(search.add().path, {"main.py": "one\n"})
    made = search.commit().commit
    odd = ["d0.n0.i2", "..", ".hidden", "a.lock", "-d", "a b~^:?*[\\", "é", "x.", "@{", "@", "a..b"]
    for slot in odd:
        pin(repo, "x", slot, made)
        pin(repo, slot, "d0", root)
    assert pinned_commits(repo, "x") == {**dict.fromkeys(sorted(odd), made), "root": root}
    assert all(pinned_commits(repo, run) == {"d0": root} for run in odd)
    pin(repo, "x", "a.lock", root)
    for slot in odd[:3] * 2:
        unpin(repo, "x", slot)
    run_git("/", "pack-refs", "--all", GIT_DIR=repo)
    assert pinned_commits(repo, "x") == {**dict.fromkeys(sorted(odd[3:]), made), "a.lock": root, "root": root}
    assert pinned_commits(repo, "never") == {}
    with pytest.raises(GitProblem):
        pin(repo, "x", "new", "1" * 40)
    run_git("/", "gc", "--quiet", "--prune=now", GIT_DIR=repo)
    assert has_commit(repo, made)
