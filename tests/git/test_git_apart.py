"""A candidate's checkout is a repository of its own: git works there in a cage, and nothing done in it reaches us."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.gitting import OWN, commit_worktree, contents, hostile_user, repository, run_git, trap, tree_of, write

from pipeline.core.cages import ISOLATED, LANDLOCK, NO_NETWORK, CageKeys
from pipeline.git.command import GitProblem
from pipeline.git.commits import check_types
from pipeline.git.repository import RootCommit, root_commit
from pipeline.git.worktrees import Worktree, Worktrees
from pipeline.machine.cage import Cage
from pipeline.machine.grades import lacking
from pipeline.machine.process import Environment, Processes
from pipeline.store.folders import delete_tree

FILES = {
    "main.py": "print(1)\n",
    "lib/a b.txt": "x\r\n",
    "new\nline": "n",
    "é": "1",
    ".gitattributes": "* text eol=crlf\nlib/* export-ignore\n*.bin filter=x\n",
    "big.bin": "kept elsewhere\n",
    ".gitignore": "*.log\n",
}
BEFORE = "what the start was before\n"


class Search(NamedTuple):
    root: RootCommit
    trees: Worktrees

    def candidate(self, name: str, text: str) -> str:
        """The commit of a candidate that says `text`."""
        tree = self.trees.add(name, self.root.commit)
        write(tree.path, {"lib/idea.py": text, "deep/er/x": text, "main.py": text})
        return commit_worktree(tree, self.root.commit, text).commit


def search_from(folder: Path, files: dict[str, str]) -> Search:
    user = repository(folder / "user", {**files, "main.py": BEFORE} if files else {})
    os.symlink("main.py", user / "link")
    os.symlink("/", user / os.fsdecode(b"odd\xff"))
    write(user, files)
    run_git(user, "add", "--all")
    run_git(user, "commit", "--quiet", "--message=now")
    root = root_commit(str(user), "x")
    return Search(root, Worktrees(root.repo, "runs/x/cand", root.tree))


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    (tmp_path / "traps").touch()
    hostile_user(tmp_path / "home", monkeypatch)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    yield search_from(tmp_path, FILES)
    assert (tmp_path / "traps").read_text() == ""


def in_its_cage(grade: str, tree: Worktree, line: str) -> list[str]:
    """What a shell line prints in a checkout, of which git sees no more than it needs."""
    if why := lacking(CageKeys(grade)):
        pytest.skip(why)
    cage = Cage(grade, NO_NETWORK, folder=tree.path, writable=(tree.path,), visible=(tree.lender,))
    env = Environment({"PATH": OWN["PATH"]})
    Path("printed").unlink(missing_ok=True)
    with closing(Processes(["x"])) as processes:
        ended = processes.run(["/bin/sh", "-c", line], env, "printed", 60, cwd=tree.path, cage=cage)
    assert ended.code == 0, Path("printed").read_text()
    return Path("printed").read_text().split("\n")[:-1]


@pytest.mark.parametrize("grade", [ISOLATED, LANDLOCK])
@pytest.mark.parametrize("which", ["start", "candidate"])
def test_git_works_in_a_cage_that_hides_our_repository(search: Search, grade: str, which: str) -> None:
    commit = search.root.commit if which == "start" else search.candidate("other", "2\n")
    tree = search.trees.add("c", commit)
    look = "ls runs/x/repo.git 2>&1 | grep -c HEAD; git status --porcelain --ignored; git rev-parse HEAD"
    asked = f"{look}; git rev-parse --abbrev-ref HEAD; git describe --always --dirty; git log --format=%s"
    said = in_its_cage(grade, tree, asked)
    assert said == ["0", commit, "HEAD", commit[:7], "2" if which == "candidate" else "now"]
    edit = "echo 3 > main.py; git diff --stat | tail -1; git commit --quiet --all --message=mine; git log --format=%s"
    assert in_its_cage(grade, tree, edit)[1:] == ["mine", said[-1]]
    assert in_its_cage(grade, tree, "git fsck --strict 2>&1 | grep -v dangling; git ls-files | wc -l") == [
        str(len(FILES) + 2 + 2 * (which == "candidate"))
    ]


def test_it_knows_its_commit_and_the_start_and_nothing_else_that_ever_was(search: Search) -> None:
    search.candidate("first", "the first idea\n")
    second = search.candidate("second", "the second idea\n")
    tree = search.trees.add("c", second)
    shown = run_git(tree.path, "cat-file", "--batch-all-objects", "--batch")
    held = [text for text in ("the second idea", "print(1)", "the first idea", BEFORE) if text in shown]
    assert held == ["the second idea", "print(1)"]
    assert run_git(tree.path, "remote").split() == run_git(tree.path, "for-each-ref").split() == []
    assert not Path(tree.path, ".git/hooks").exists()


def test_what_candidates_share_is_not_copied_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    search = search_from(tmp_path, FILES | {"data": os.urandom(1 << 20).hex()})
    for name, commit in (("a", search.root.commit), ("b", search.candidate("c", "2\n"))):
        tree = search.trees.add(name, commit)
        sizes = [path.lstat().st_size for path in Path(tree.path, ".git").rglob("*") if path.is_file()]
        assert sum(sizes) < 10_000
        assert run_git(tree.path, "diff", "HEAD") == ""


def programs(at: Path) -> None:
    program = trap(at / ".git/hooks", "post-checkout")
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external"):
        run_git(at, "config", key, str(program))
    for key in ("core.pager", "core.sshCommand", "uploadpack.packObjectsHook", "diff.x.textconv", "gpg.program"):
        run_git(at, "config", key, str(program))
    run_git(at, "config", "core.hooksPath", str(program.parent))
    write(at, {".git/info/attributes": "* filter=x diff=x\n", ".git/info/exclude": "*\n"})


def other_objects(at: Path) -> None:
    """Its own objects, for the names that ours have."""
    replaced = run_git(at, "rev-parse", "HEAD:main.py").strip()
    other = run_git(at, "hash-object", "-w", "--stdin", stdin=b"evil\n").strip()
    run_git(at, "replace", replaced, other)
    write(at, {".git/objects/info/alternates": str(at.parents[3] / "user/.git/objects")})


def commits(at: Path) -> None:
    run_git(at, "checkout", "--quiet", "-b", "mine")
    run_git(at, "commit", "--quiet", "--all", "--allow-empty", "--message=mine")
    run_git(at, "update-index", "--assume-unchanged", "main.py")
    run_git(at, "tag", "v1")


def leads_elsewhere(at: Path) -> None:
    run_git(at, "config", "core.worktree", str(at.parent))


def is_a_link(at: Path) -> None:
    delete_tree(str(at / ".git"))
    (at / ".git").symlink_to(at.parents[3] / "user/.git")


def is_a_link_to_nowhere(at: Path) -> None:
    delete_tree(str(at / ".git"))
    (at / ".git").symlink_to("nowhere")


def is_a_file(at: Path) -> None:
    delete_tree(str(at / ".git"))
    (at / ".git").write_text(f"gitdir: {at.parents[3] / 'user/.git'}\n")


def is_a_pipe(at: Path) -> None:
    delete_tree(str(at / ".git"))
    os.mkfifo(at / ".git")


def is_shut(at: Path) -> None:
    (at / ".git/objects").chmod(0)
    (at / ".git").chmod(0)


def is_of_another_index(at: Path) -> None:
    (at / ".git/index").write_bytes(b"DIRC")
    (at / ".git/HEAD").write_text("ref: ../../../user/.git/HEAD\n")


def is_gone(at: Path) -> None:
    delete_tree(str(at / ".git"))


DEEDS = [programs, other_objects, commits, leads_elsewhere, is_a_link, is_a_link_to_nowhere, is_a_file, is_a_pipe]
DEEDS += [is_shut, is_of_another_index, is_gone]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_whatever_a_candidate_does_to_its_repository_its_files_alone_count(
    search: Search, deed: Callable[[Path], None]
) -> None:
    wanted = tree_of(search.root.repo, search.candidate("honest", "2\n"))
    tree = search.trees.add("c", search.root.commit)
    user = Path("../user").resolve()
    before = contents(user), contents(Path(search.root.repo, "refs"))
    write(tree.path, {"lib/idea.py": "2\n", "deep/er/x": "2\n", "main.py": "2\n"})
    deed(Path(tree.path))
    made = commit_worktree(tree, search.root.commit, "2\n")
    assert tree_of(search.root.repo, made.commit) == wanted
    again = search.trees.add("c", made.commit)
    assert again == tree
    assert run_git(tree.path, "status", "--porcelain", "--ignored") == run_git(tree.path, "replace") == ""
    assert run_git(tree.path, "rev-parse", "HEAD").strip() == made.commit
    assert (contents(user), contents(Path(search.root.repo, "refs"))) == before
    search.trees.remove("c")
    assert not os.path.lexists(tree.path)


@pytest.mark.parametrize("left", ["runs/x/repo.git/coppice/lent", "draft", "both"])
def test_what_a_kill_left_half_made_is_made_anew(search: Search, left: str) -> None:
    tree = search.trees.add("c", search.candidate("other", "2\n"))
    if left != "draft":
        os.rename(tree.lender, f"{tree.lender}.draft")
        write(f"{tree.lender}.draft", {"pack/tmp_pack_x": "half"})
    if left.startswith(("draft", "both")):
        os.rename(f"{tree.path}/.git", f"{search.root.repo}/coppice/{Path(tree.admin).name}.git")
        write(search.trees._inner_draft(tree.path), {"objects/info/alternates": "half"})
    tree = search.trees.add("c", search.root.commit)
    assert run_git(tree.path, "status", "--porcelain", "--ignored") == ""
    assert run_git(tree.path, "fsck", "--strict") == ""
    assert os.listdir(os.path.dirname(tree.lender)) == [search.root.tree]


def test_a_start_of_no_files_and_a_signed_one_are_lent_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    user = repository(tmp_path / "user", {})
    signed = run_git(user, "cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN SSH SIGNATURE-----\n parent\n -----END\n\n", 1
    )
    commit = run_git(user, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed.encode()).strip()
    run_git(user, "reset", "--quiet", "--hard", commit)
    root = root_commit(str(user), "x")
    tree = Worktrees(root.repo, "runs/x/cand", root.tree).add("c", root.commit)
    assert run_git(tree.path, "rev-parse", "HEAD").strip() == commit
    assert run_git(tree.path, "status", "--porcelain") == run_git(tree.path, "ls-files") == ""
    write(tree.path, {"new": "1"})
    assert run_git(tree.path, "status", "--porcelain") == "?? new\n"


def test_a_damaged_commit_is_said_to_be_damaged(search: Search) -> None:
    commit, other = search.candidate("a", "2\n"), search.candidate("b", "3\n")
    objects = Path(search.root.repo, "objects")
    path = objects / commit[:2] / commit[2:]
    path.chmod(0o644)
    path.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with pytest.raises(GitProblem, match=commit):
        search.trees.add("c", commit)


def test_what_is_left_to_people_has_no_repository_of_a_candidate(search: Search, tmp_path: Path) -> None:
    """Git runs what the settings of a repository say, also for whoever only asks for its status."""
    tree = search.trees.add("a", search.root.commit)
    config = Path(tree.path, ".git/config")
    config.write_text(f"{config.read_text()}[core]\nfsmonitor = {trap(tmp_path / 'monitor')}\n")
    write(tree.path, {"docs/HEAD": "ref: refs/heads/x\n", "docs/config": "[core]\nbare = true\n", "docs/objects/x": ""})
    write(tree.path, {"docs/refs/x": "", "deep/.GIT": "gitdir: ../docs\n"})
    search.trees.release("a")
    left = {str(path.relative_to(tree.path)) for path in Path(tree.path).rglob("*")}
    assert not left & {"docs/HEAD", "deep/.GIT"}
    assert Path(tree.path, ".git").read_text() == f"gitdir: {tree.admin}\n"
    assert not (tmp_path / "traps").read_text()


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/docs/HEAD b/docs/HEAD\nnew file mode 100644\n--- /dev/null\n+++ b/docs/HEAD\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/main.py b/docs/head\nsimilarity index 100%\nrename from main.py\nrename to docs/head\n",
        "diff --git a/sub b/sub\nnew file mode +160000\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject\n",
    ],
)
def test_a_change_that_git_would_take_for_a_repository_is_refused(patch: str) -> None:
    with pytest.raises(GitProblem, match=r"HEAD|submodules"):
        check_types(patch.encode())
