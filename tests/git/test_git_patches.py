"""A patch becomes a commit without a worktree: the very one that applying it in a worktree gives."""

import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.gitting import commit_worktree, repository, run_git, tree_of, write
from test_git_candidates import BAD, EDITS, FILES, Search, search, search_in

from pipeline.git.command import CandidateProblem, GitProblem
from pipeline.git.commits import Candidate, apply_patch, commit_patch, patch_between, write_tree
from pipeline.git.objects import has_commit
from pipeline.git.worktrees import Worktree, Worktrees

__all__ = ["search"]


def of_patch(search: Search, text: bytes, parent: str = "") -> Candidate:
    return commit_patch(search.root.repo, parent or search.root.commit, text, "idea")


def by_hand(search: Search, text: bytes) -> Candidate:
    """The long way round."""
    apply_patch(search.add(), text)
    return search.commit()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_the_patch_of_a_candidate_is_that_candidate(search: Search, edit: Callable[[Path], None]) -> None:
    tree = search.add()
    edit(Path(tree.path))
    made = search.commit()
    text = patch_between(search.root.repo, search.root.commit, made.commit)
    search.trees.remove("c")
    for _ in range(2):
        assert of_patch(search, text) == made
    assert not [name for name in os.listdir(f"{search.root.repo}/coppice") if name.endswith((".scratch", ".lock.lock"))]


def test_a_patch_of_a_patch(search: Search) -> None:
    first = of_patch(search, b"--- a/lib/more\n+++ b/lib/more\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n")
    text = b"diff --git a/lib/more b/lib/less\nrename from lib/more\nrename to lib/less\n"
    second = of_patch(search, text, first.commit)
    assert (second.parent, second.files, second.insertions, second.deletions) == (first.commit, 2, 1, 1)
    assert tree_of(search.root.repo, second.commit)["lib/less"] == ("100644", b"2\n")
    assert second == commit_worktree(search.trees.add("again", second.commit), first.commit, "idea")


TWICE = "--- a/-rf\n+++ b/-rf\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n"
ODD = {
    "moved lines": "--- a/main.py\n+++ b/main.py\n@@ -3,3 +3,3 @@\n 20\n-21\n+new\n 22\n",
    "a file renamed": "diff --git a/tool b/bin/tool\nrename from tool\nrename to bin/tool\n",
    "a file copied": "diff --git a/main.py b/lib/main.py\ncopy from main.py\ncopy to lib/main.py\n",
    "a mode alone": "diff --git a/main.py b/main.py\nold mode 100644\nnew mode 100755\n",
    "an unusual mode": "diff --git a/x b/x\nnew file mode 100666\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n",
    "a link": "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+lib\n",
    "a file for a link": "diff --git a/link b/link\ndeleted file mode 120000\n--- a/link\n+++ /dev/null\n"
    "@@ -1 +0,0 @@\n-main.py\n\\ No newline at end of file\ndiff --git a/link b/link\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+file\n",
    "the same file twice": TWICE + TWICE.replace("-1\n\\ No newline at end of file\n+2", "-2\n+3"),
    "all files of a folder gone": "diff --git a/lib/more b/lib/more\ndeleted file mode 100644\n--- a/lib/more\n"
    "+++ /dev/null\n@@ -1 +0,0 @@\n-1\n\\ No newline at end of file\ndiff --git a/lib/a b.txt b/lib/a b.txt\n"
    "deleted file mode 100644\n--- a/lib/a b.txt\t\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\r\n-y\r\n",
    "a file in a file": "--- /dev/null\n+++ b/main.py/in\n@@ -0,0 +1 @@\n+x\n",
    "a file for a folder": "--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+x\n",
    "a file that is there": "--- /dev/null\n+++ b/lib/more\n@@ -0,0 +1 @@\n+x\n",
    "a link below a link": "--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n",
    "a submodule": "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n"
    f"+Subproject commit {'1' * 40}\n",
    "a folder": "diff --git a/s b/s\nnew file mode 040000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+x\n",
    "git in disguise": "--- /dev/null\n+++ b/sub/.GIT/config\n@@ -0,0 +1 @@\n+x\n",
    "git of another system": "--- /dev/null\n+++ b/.g\u200cit/config\n@@ -0,0 +1 @@\n+x\n",
    "an absolute name": "--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n",
    "folders without end": f"--- /dev/null\n+++ b/{'d/' * 300}x\n@@ -0,0 +1 @@\n+x\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", [*ODD.values(), *BAD.values()], ids=[*ODD, *BAD])
def test_with_and_without_a_worktree_is_the_same(search: Search, text: str) -> None:
    def outcome(way: Callable[[Search, bytes], Candidate]) -> Candidate | None:
        try:
            return way(search, text.encode())
        except CandidateProblem as problem:
            said.append(str(problem))
            return None

    said: list[str] = []
    assert outcome(of_patch) == outcome(by_hand)
    form = r"the patch does not apply: (git apply: error: .+|submodules are not supported; .+)"
    assert all(re.fullmatch(form, problem) for problem in said)
    run_git("/", "fsck", "--strict", GIT_DIR=search.root.repo)


def test_what_a_patch_adds_is_wanted_even_if_it_is_ignored(search: Search) -> None:
    made = of_patch(search, b"--- /dev/null\n+++ b/x.log\n@@ -0,0 +1 @@\n+x\n")
    assert tree_of(search.root.repo, made.commit).keys() == {*FILES, "link", "x.log"}


def test_what_the_parent_has_stays_even_if_it_is_ignored_and_the_worktree_is_of_another(search: Search) -> None:
    parent = of_patch(search, b"--- /dev/null\n+++ b/x.log\n@@ -0,0 +1 @@\n+x\n").commit
    tree = search.add()
    write(tree.path, {"x.log": "y\n"})
    made = commit_worktree(tree, parent, "idea")
    assert (made.files, made.insertions, made.deletions) == (1, 1, 1)


@pytest.mark.parametrize("name", ["n" * 256, "d/" * 1500 + "x"], ids=["name", "path"])
def test_a_name_that_nobody_can_check_out_is_the_candidates_fault(search: Search, name: str) -> None:
    with pytest.raises(CandidateProblem, match="the patch does not apply: the name of a file is too long"):
        of_patch(search, f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n".encode())


def test_lines_count_as_the_patch_was_written_unless_nothing_changes(search: Search) -> None:
    text = "--- a/main.py\n+++ b/main.py\n@@ -1,3 +1,3 @@\n-0\n-1\n+0\n+{}\n 2\n"
    made = of_patch(search, text.format("one").encode())
    assert (made.files, made.insertions, made.deletions) == (1, 2, 2)
    same = of_patch(search, text.format("1").encode())
    assert same.empty
    assert (same.tree, same.insertions, same.deletions) == (search.root.tree, 0, 0)


def test_a_parent_that_is_not_there_is_not_the_candidates_fault(search: Search) -> None:
    with pytest.raises(GitProblem) as problem:
        of_patch(search, TWICE.encode(), "1" * 40)
    assert not isinstance(problem.value, CandidateProblem)


def test_an_index_that_a_power_cut_damaged_is_made_again(search: Search) -> None:
    made = of_patch(search, TWICE.encode())
    kept = Path(search.root.repo, f"coppice/{search.root.commit}.index")
    for damage in (b"", bytes(kept.stat().st_size), kept.read_bytes()[:-30]):
        kept.write_bytes(damage)
        assert of_patch(search, TWICE.encode()) == made


def test_many_at_once(search: Search) -> None:
    texts = [TWICE.replace("+2", f"+{number % 20}").encode() for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda text: of_patch(search, text), texts))
    assert made[:20] == made[20:40] == made[40:]
    assert [tree_of(search.root.repo, one.commit)["-rf"][1] for one in made[:20]] == [
        b"%d\n" % number for number in range(20)
    ]


NAMES = st.sampled_from(["a", "a.b", "a/b", "a/b/c", "a/c", "a-/b", "b", "b/\xe9 \n", "b/c"])
TEXTS = st.sampled_from(["", "x", "x\n", "x\ny\n", "y\n" * 9, "x\r\n", "\0\xff" * 9, "->a", "->b"])
CONTENTS = st.dictionaries(NAMES, st.tuples(TEXTS, st.booleans()), max_size=6)


def fill(tree: Worktree, contents: dict[str, tuple[str, bool]]) -> None:
    """A name that is a folder of another is left out."""
    for path in Path(tree.path).iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, (text, runs) in contents.items():
        if not any(other.startswith(f"{name}/") for other in contents):
            file = Path(tree.path, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("->"):
                file.symlink_to(text[2:])
            else:
                file.write_bytes(text.encode("latin-1"))
                file.chmod(0o755 if runs else 0o644)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Search:
    top = tmp_path_factory.mktemp("plain")
    before = Path.cwd()
    made = search_in(top / "project", repository(top / "user", {"start": "1"}))
    os.chdir(before)
    return made


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTENTS, CONTENTS)
def test_from_any_files_to_any_others(
    plain: Search, before: dict[str, tuple[str, bool]], after: dict[str, tuple[str, bool]]
) -> None:
    tree = plain.add()
    fill(tree, before)
    parent = plain.commit().commit
    fill(tree, after)
    made = commit_worktree(tree, parent, "idea")
    text = patch_between(plain.root.repo, parent, made.commit)
    if made.empty:
        assert text == b""
    else:
        assert of_patch(plain, text, parent) == made


def linked(search: Search) -> Worktree:
    """A worktree whose index is what git changes there, as that of a node."""
    return Worktrees(search.root.repo, "runs/x/wt").add("node", search.root.commit)


def staged(tree: Worktree) -> None:
    write(tree.path, {"lib/deep/er/x": "1", "main.py": "2"})
    run_git(tree.path, "add", "--all")


def with_later_flags(tree: Worktree) -> None:
    staged(tree)
    run_git(tree.path, "update-index", "--skip-worktree", "main.py")


def of_version_4(tree: Worktree) -> None:
    staged(tree)
    run_git(tree.path, "update-index", "--index-version=4")


def split(tree: Worktree) -> None:
    run_git(tree.path, "update-index", "--split-index")
    staged(tree)


def with_a_submodule(tree: Worktree) -> None:
    staged(tree)
    run_git(tree.path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")


def without_trees(tree: Worktree) -> None:
    Path(tree.admin, "index").unlink()
    staged(tree)


def very_large(tree: Worktree) -> None:
    write(tree.path, dict.fromkeys([f"{number % 9}/{'n' * 200}{number}" for number in range(2200)], ""))
    staged(tree)


def without_files(tree: Worktree) -> None:
    run_git(tree.path, "rm", "--quiet", "-r", "--cached", ".")


INDEXES = [staged, with_later_flags, of_version_4, split, with_a_submodule, without_trees, very_large, without_files]


@pytest.mark.parametrize("prepare", INDEXES, ids=lambda prepare: prepare.__name__)
def test_the_tree_of_an_index_is_what_git_says(search: Search, prepare: Callable[[Worktree], None]) -> None:
    tree = linked(search)
    prepare(tree)
    made = write_tree(search.root.repo, f"{tree.admin}/index")
    assert run_git(tree.path, "ls-tree", "-r", "-t", made) == run_git(
        tree.path, "ls-tree", "-r", "-t", run_git(tree.path, "write-tree").strip()
    )
    assert made == run_git(tree.path, "write-tree").strip()


def test_what_is_amid_a_merge_has_no_tree(search: Search) -> None:
    tree = linked(search)
    rows = f"100644 {'1' * 40} 1\tmain.py\n100644 {'1' * 40} 2\tmain.py\n"
    run_git(tree.path, "update-index", "--index-info", stdin=rows.encode())
    with pytest.raises(GitProblem, match="git write-tree: "):
        write_tree(search.root.repo, f"{tree.admin}/index")


def test_the_commit_is_there_for_git(search: Search) -> None:
    made = of_patch(search, TWICE.encode())
    assert has_commit(search.root.repo, made.commit)
    assert run_git("/", "cat-file", "-t", made.commit, GIT_DIR=search.root.repo) == "commit\n"
