"""Where a search starts: HEAD of a repository, or the files of a folder; the same commit on every machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gitdb import GitDB
from kit.gitting import HOOKS, commit_worktree, contents, hostile_user, repository, run_git, trap, tree_of, write

from pipeline.git.command import GitOutage, GitProblem
from pipeline.git.commits import patch_between
from pipeline.git.objects import branch_changes, change_branches, has_commit, pinned_commits, tree_hash
from pipeline.git.repository import (
    RootCommit,
    borrowed_objects,
    head_commit,
    locate_repo,
    reopen_repository,
    root_commit,
)
from pipeline.git.worktrees import Worktrees

FILES = {"main.py": "print(1)\n", "data/a b.txt": "x\r\n", "-rf": "dash\n", "new\nline": "n", "é/ü.txt": b"\xff\0"}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project's folder, and a user for whom every program that git could start is a trap."""
    (tmp_path / "traps").touch()
    hostile_user(tmp_path / "home", monkeypatch)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    yield tmp_path
    assert (tmp_path / "traps").read_text() == ""


def problem(path: Path | str) -> str:
    with pytest.raises(GitProblem) as found:
        root_commit(str(path), "x")
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_repository_starts_at_its_head(machine: Path) -> None:
    user = repository(machine / "user", FILES)
    root = root_commit(str(user), "x")
    assert root.commit == run_git(user, "rev-parse", "HEAD").strip()
    assert root.tree == run_git(user, "rev-parse", "HEAD^{tree}").strip() == tree_hash(root.repo, root.commit)
    assert tree_of(root.repo, root.commit) == {
        name: ("100644", text if isinstance(text, bytes) else text.encode()) for name, text in FILES.items()
    }
    assert root_commit("../user", "x") == root
    assert pinned_commits(root.repo, "x") == {"root": root.commit}


def test_of_the_users_repository_nothing_changes_but_one_ref(machine: Path) -> None:
    user = repository(machine / "user", FILES)
    (user / "main.py").write_text("print(2)\n")
    run_git(user, "stash")
    run_git(user, "branch", "other")
    os.utime(user / "main.py", (1, 1))  # so that looking at it would refresh the index
    before = contents(user)
    root = root_commit(str(user), "x")
    after = contents(user)
    own = {name for name in after if name.startswith(".git/refs/coppice")}
    assert own == {".git/refs/coppice", ".git/refs/coppice/x", ".git/refs/coppice/x/root"}
    assert {name: after[name] for name in after.keys() - own} == before
    assert (user / ".git/refs/coppice/x/root").read_text().strip() == root.commit


def traps_of_its_own(user: Path) -> None:
    """All of a repository's own configuration by which git starts programs, as something hostile has left it."""
    program = trap(user / ".git/hooks", "post-checkout")
    for hook in (*HOOKS, "fsmonitor-watchman", "post-rewrite", "pre-push", "update", "proc-receive"):
        trap(user / ".git/hooks", hook)
    keys = ["core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "credential.helper"]
    keys += ["diff.external", "diff.x.command", "diff.x.textconv", "merge.x.driver", "interactive.diffFilter"]
    keys += ["uploadpack.packObjectsHook", "core.alternateRefsCommand", "core.gitProxy", "gpg.program", "alias.status"]
    for key in keys:
        run_git(user, "config", key, str(program))
    included = "".join(f'[filter "{name}"]\n\t{how} = {program}\n' for name, how in FILTERS)
    write(
        user, {".git/more": f"{included}\trequired = true\n", ".git/info/attributes": "*.txt filter=z diff=x merge=x\n"}
    )
    run_git(user, "config", "core.hooksPath", str(program.parent))
    run_git(user, "config", "include.path", "more")


FILTERS = [("x", "clean"), ("x", "smudge"), ("y=z", "process"), ("z", "clean")]
FILTERED = FILES | {"a.txt": "1", "b.y": "1", ".gitattributes": "* filter=x diff=x\n*.y filter=y=z\n"}


@pytest.mark.parametrize("folder", ["user", "user/data"])
def test_no_program_that_a_repository_names_is_started(machine: Path, folder: str) -> None:
    user = repository(machine / "user", FILTERED | {"data/.gitattributes": "* filter=x\n"})
    traps_of_its_own(user)
    root = root_commit(str(machine / folder), "x")
    tree = Worktrees(root.repo, "runs/x/cand", root.tree).add("c", root.commit)
    write(tree.path, {"new.y": "1"})
    made = commit_worktree(tree, root.commit, "idea")
    assert patch_between(root.repo, root.commit, made.commit)
    shutil.rmtree(root.repo)
    assert reopen_repository(str(machine / folder), "x", root.commit) == root.repo
    if folder == "user/data":
        return
    place = locate_repo(str(user))
    changes = branch_changes(place.common, {"found": head_commit(place)}, {})
    change_branches(root.repo, place.common, root.commit, changes)


def test_whether_a_file_of_a_filter_was_changed_is_seen_without_the_filter(machine: Path) -> None:
    user = repository(machine / "user", FILTERED)
    traps_of_its_own(user)
    os.utime(user / "a.txt", (1, 1))  # so that git must look into it
    root_commit(str(user), "x")
    write(user, {"a.txt": "2"})
    assert re.search("must be clean: .* ignore: a.txt; the filters .* were not run", problem(user))


def test_what_the_search_starts_from_outlives_a_rewritten_branch_and_gc(machine: Path) -> None:
    user = repository(machine / "user", FILES)
    root = root_commit(str(user), "x")
    run_git(user, "commit", "--quiet", "--amend", "--message=other", GIT_COMMITTER_DATE="1800000000 +0000")
    run_git(user, "reflog", "expire", "--expire=now", "--all")
    run_git(user, "gc", "--quiet", "--prune=now")
    assert has_commit(root.repo, root.commit)
    assert root_commit(str(user), "y").commit != root.commit


def test_a_linked_worktree_of_the_user_is_a_repository_too(machine: Path) -> None:
    user = repository(machine / "user", FILES)
    run_git(user, "worktree", "add", "--quiet", "-b", "side", "../side")
    write(machine / "side", {"more.py": "1"})
    run_git(machine / "side", "add", "more.py")
    run_git(machine / "side", "commit", "--quiet", "--message=more")
    assert root_commit("../side", "x").commit == run_git(machine / "side", "rev-parse", "HEAD").strip()


def folders(machine: Path) -> list[RootCommit]:
    """One folder as two machines have it, plain and within two clones."""
    user = repository(machine / "user", {f"lib/{name}": text for name, text in FILES.items()} | {"top": "1"})
    subprocess.run(["chmod", "755", user / "lib/main.py"], check=True)
    os.symlink("/no/such/place", user / "lib/link")
    run_git(user, "add", "--all")
    run_git(user, "commit", "--quiet", "--message=mode")
    run_git(machine, "clone", "--quiet", "--template=", "user", "clone one")
    run_git(machine, "clone", "--quiet", "--template=", "user", "two")
    shutil.copytree(machine / "two/lib", machine / "plain", symlinks=True)
    os.chmod(machine / "plain/main.py", 0o700)
    os.chmod(machine / "plain/-rf", 0o600)
    places = ["clone one/lib", "two/lib", "plain"]
    return [root_commit(str(machine / place), f"run{number}") for number, place in enumerate(places)]


def test_a_folder_is_the_same_commit_in_two_clones_and_outside_of_any(machine: Path) -> None:
    roots = folders(machine)
    assert len({(root.commit, root.tree) for root in roots}) == 1
    files = tree_of(roots[0].repo, roots[0].commit)
    assert files.keys() == {*FILES, "link"}
    assert files["main.py"] == ("100755", b"print(1)\n")
    assert files["data/a b.txt"] == ("100644", b"x\r\n")
    assert files["link"] == ("120000", b"/no/such/place")


def test_the_commit_of_a_folder_is_known_beforehand(machine: Path) -> None:
    write(machine / "plain", {"a": "1\n"})
    root = root_commit("../plain", "x")
    text = run_git(machine, "cat-file", "commit", root.commit, GIT_DIR=root.repo)
    assert text.splitlines()[1:3] == [
        f"{who} Coppice <coppice@localhost> 946684800 +0000" for who in ("author", "committer")
    ]
    assert root.commit == "c963716a90fadbb792641de6dc991a2a20b27911"


def test_a_folder_inside_a_repository_has_what_is_tracked_and_what_is_not_ignored(machine: Path) -> None:
    user = repository(machine / "user", {"lib/a": "1", "lib/gone": "1", "lib/kept.log": "1", "top": "1"})
    write(user, {".gitignore": "*.log\n", "lib/.gitignore": "/own\n", "lib/own": "1", "lib/b.log": "1"})
    write(user, {"lib/new": "1", "lib/a": "2", "lib/__pycache__/a.pyc": "1", "lib/runs/x/out": "1"})
    (user / "lib/gone").unlink()
    before = contents(user / ".git")
    root = root_commit(str(user / "lib"), "x")
    assert tree_of(root.repo, root.commit).keys() == {"a", "kept.log", ".gitignore", "new"}
    assert tree_of(root.repo, root.commit)["a"][1] == b"2"
    assert contents(user / ".git") == before


def test_a_plain_folder_leaves_out_what_it_ignores_and_takes_repositories_within_as_files(machine: Path) -> None:
    write(machine / "plain", {".gitignore": "*.log\n", "a.log": "1", "a": "1", "runs/y": "1", "x/__pycache__/z": "1"})
    repository(machine / "plain/inner", {"code.py": "1"})
    root = root_commit("../plain", "x")
    assert tree_of(root.repo, root.commit).keys() == {".gitignore", "a", "inner/code.py"}


def test_a_folder_that_the_repository_around_it_ignores_is_a_plain_one(machine: Path) -> None:
    user = repository(machine / "user", {".gitignore": "*\n"})
    write(user, {"lib/a": "1"})
    root = root_commit(str(user / "lib"), "x")
    assert tree_of(root.repo, root.commit).keys() == {"a"}


def test_the_project_itself_can_be_searched_without_its_runs() -> None:
    write(Path(), {"a.py": "1", "runs/x/old": "1"})
    first = root_commit(".", "x")
    write(Path(), {"runs/x/new": "1"})
    assert root_commit(".", "x") == first
    assert tree_of(first.repo, first.commit).keys() == {"a.py"}
    run_git(".", "init", "--quiet", "--template=")
    run_git(".", "add", "a.py")
    run_git(".", "commit", "--quiet", "--message=1")
    assert root_commit(".", "x").commit == run_git(".", "rev-parse", "HEAD").strip()


def test_what_is_not_committed_is_named(machine: Path) -> None:
    user = repository(machine / "user", {"a.py": "1", "b": "1", "c": "1"})
    write(user, {"a.py": "2", "new\nname": "1"})
    (user / "b").unlink()
    (user / "c").chmod(0o755)
    said = problem(user)
    assert said.startswith(f"{user}: ")
    assert said.endswith(r"commit, stash or ignore: a.py, b, c, new\nname")


def test_many_names_are_counted(machine: Path) -> None:
    user = repository(machine / "user", {})
    write(user, {f"{number}.c": "1" for number in range(9)})
    assert problem(user).endswith("0.c, 1.c, 2.c, 3.c, 4.c and 4 more")


def test_what_the_user_never_wants_to_see_is_not_in_the_way(machine: Path) -> None:
    user = repository(machine / "user", {"a": "1"})
    write(user, {"junk.py": "1"})  # ~/.gitconfig names a file that ignores *.py
    assert root_commit(str(user), "x")
    write(user, {"junk.txt": "1"})  # that one replaces the usual ~/.config/git/ignore
    assert problem(user).endswith("junk.txt")


def test_another_users_repository_is_believed_when_this_user_says_so(machine: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    user = repository(machine / "user", {"a": "1"})
    for path in [user, *user.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert "dubious ownership" in problem(user)
    with (machine / "home/.gitconfig").open("a") as config:
        config.write(f"[safe]\n    directory = {user}\n")
    assert (
        root_commit(str(user), "x").commit == run_git(machine, "rev-parse", "HEAD", GIT_DIR=str(user / ".git")).strip()
    )


@pytest.mark.parametrize("folder", ["", "lib/"])
@pytest.mark.parametrize("filters", ["*.bin filter=lfs diff=lfs -text", "secret filter=git-crypt diff=git-crypt"])
def test_files_that_are_stored_elsewhere_are_not_supported(machine: Path, folder: str, filters: str) -> None:
    user = repository(machine / "user", {"lib/deep/.gitattributes": f"# no filter=trap\n{filters}\n", "a": "1"})
    assert problem(user / folder).startswith(
        f"{user}/lib/deep/.gitattributes: Git LFS" if "lfs" in filters else f"{user}/"
    )
    assert "not supported" in problem(user / folder)


@pytest.mark.parametrize("folder", ["", "lib"])
def test_submodules_are_not_supported(machine: Path, folder: str) -> None:
    user = repository(machine / "user", {"lib/a": "1"})
    head = run_git(user, "rev-parse", "HEAD").strip()
    repository(user / "lib/sub", {"b": "1"})
    run_git(user, "update-index", "--add", "--cacheinfo", f"160000,{head},lib/sub")
    run_git(user, "commit", "--quiet", "--message=sub")
    assert problem(user / folder) == f"{user}/lib/sub: submodules are not supported; a candidate is one tree of files"


def test_a_shallow_clone_a_bare_one_and_one_without_commits_are_told(machine: Path) -> None:
    user = repository(machine / "user", {"a": "1"})
    run_git(user, "commit", "--quiet", "--allow-empty", "--message=2")
    run_git(machine, "clone", "--quiet", "--depth=1", f"file://{user}", "shallow")
    run_git(machine, "clone", "--quiet", "--bare", "user", "bare")
    run_git(machine, "init", "--quiet", "unborn")
    assert problem("../shallow") == f"{machine}/shallow: is a shallow clone; run git fetch --unshallow there first"
    assert problem("../bare") == "../bare: is a bare repository; name a folder with files: a clone or a work tree of it"
    assert "is the inside of a .git folder" in problem(user / ".git/refs")
    assert problem("../unborn") == f"{machine}/unborn: has no commit yet; a search starts from a commit"


def test_a_path_without_files_is_told(machine: Path) -> None:
    write(machine, {"file": "1", "empty/.git/x": "1", "broken/.git": "nonsense\n", "broken/a": "1"})
    assert problem("../missing") == "../missing: does not exist; repo: names a folder"
    assert problem("../file") == "../file: is a file; repo: names a folder"
    assert problem("../empty") == f"{machine}/empty: holds no files that are not ignored"
    assert problem("../broken").startswith("../broken: git rev-parse: fatal: invalid gitfile format")


def test_other_kinds_of_storage_are_told(machine: Path) -> None:
    user = repository(machine / "user", {"a": "1"})
    run_git(user, "config", "extensions.partialClone", "origin")
    assert "extensions.partialclone = origin is not supported" in problem(user)
    run_git(machine, "init", "--quiet", "--object-format=sha256", "sha256")
    assert "extensions.objectformat = sha256 is not supported" in problem("../sha256")


def test_a_run_that_was_killed_while_it_was_set_up_is_set_up_again(machine: Path) -> None:
    user = repository(machine / 'user\n"odd" name', {"a": "1"})
    root = root_commit(str(user), "x")
    shutil.rmtree(f"{root.repo}/objects")
    Path(f"{root.repo}/config").write_text("[core")
    assert root_commit(str(user), "x") == root


def test_git_that_is_not_there_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine))
    with pytest.raises(GitOutage, match=r": git was not found; a tree search needs it: install git$"):
        root_commit(str(machine), "x")


def test_whose_objects_are_borrowed_can_be_told_whatever_its_name(machine: Path) -> None:
    user = repository(machine / 'a "b" \\n\nü', FILES)
    assert borrowed_objects(root_commit(str(user), "x").repo) == str(user / ".git/objects")
    write(machine / "folder", FILES)
    assert borrowed_objects(root_commit(str(machine / "folder"), "y").repo) == ""


def seen_by_gitdb(root: RootCommit) -> str:
    """What a tool on GitPython's own reading of objects, as aider is, finds the commit's tree to be."""
    commit = GitDB(f"{root.repo}/objects").stream(bytes.fromhex(root.commit)).read()
    return str(commit.split()[1].decode())


@pytest.mark.parametrize("name", ["user", 'a "b" \\ c', "#ü"])
def test_tools_on_gitpython_read_what_is_borrowed(machine: Path, name: str) -> None:
    root = root_commit(str(repository(machine / name, FILES)), "x")
    assert seen_by_gitdb(root) == root.tree


def test_a_repository_of_an_older_version_becomes_readable_when_it_is_opened(machine: Path) -> None:
    user = repository(machine / 'a "b"', FILES)
    root = root_commit(str(user), "x")
    alternates = Path(f"{root.repo}/objects/info/alternates")
    quoted = str(user).replace('"', '\\"')
    alternates.write_text(f'"{quoted}/.git/objects"\n')
    assert reopen_repository(str(user), "x", root.commit) == root.repo
    assert alternates.read_text() == f"{user}/.git/objects\n"
    assert seen_by_gitdb(root) == root.tree
