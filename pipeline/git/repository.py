"""Repository of a run: `repo:` becomes a commit in it, and the user's own stays as it is.

runs/<run>/repo.git is bare and only borrows the objects of the user's.  `repo:` is a git repository, which must be
clean and gives its HEAD; or a folder inside one, or a plain folder, whose files become a commit that is the same on
every machine.  Its files are: every file and link that no .gitignore of the folder ignores (nor one above it, inside a
repository), those that the repository around it tracks all the same, and those of repositories inside the folder.
Never .git, __pycache__, nor runs/.  Of a file's mode only "its owner may run it" is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pipeline.core.graph import JUNK_FOLDERS
from pipeline.core.text import join_names
from pipeline.git.command import STATUS, GitOutage, GitProblem, git, repository_lock, split_names, users_git
from pipeline.git.objects import (
    EPOCH,
    has_commit,
    is_pinned,
    open_with_gitpython,
    pin,
    pin_by_git,
    read_blobs,
    tree_entries,
    tree_hash,
    write_commit,
)
from pipeline.store.files import read_bytes, write_whole

# `user`, `gc` and `gpgSign` are for coders that use git themselves in a worktree.
_CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\thooksPath = /dev/null
[user]
\tname = Coppice
\temail = coppice@localhost
[commit]
\tgpgSign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
SET_UP = {
    "config": _CONFIG,
    # Above any .gitattributes: bytes are kept as they are, and no program is run to change them.
    "info/attributes": b"* -text -filter -ident !working-tree-encoding !diff !merge\n",
    "info/exclude": b"".join(b"%b/\n" % name.encode() for name in JUNK_FOLDERS),
}
# The file with the folder of objects that a repository borrows.
LENDER = "objects/info/alternates"


def run_repository(run: str) -> str:
    return os.path.realpath(f"runs/{run}/repo.git")


def prepare_repository(run: str, borrowed: str = "") -> str:
    """Make the run's repository, or restore its set-up; `borrowed`: the folder of objects that it reads besides."""
    repo = run_repository(run)
    os.makedirs(repo, exist_ok=True)
    with repository_lock(repo) as lock:
        if not os.path.exists(f"{repo}/objects/pack"):  # what `git init` makes last
            with suppress(FileNotFoundError):
                os.unlink(f"{repo}/config")
            git("init", "--quiet", "--bare", "--template=", repo=repo, keep=[lock])
        for path, text in SET_UP.items():
            _write_file(f"{repo}/{path}", text)
        _write_file(f"{repo}/{LENDER}", alternates_line(borrowed) if borrowed else b"")
    return repo


def restore_setup(repo: str) -> None:
    """Restore the set-up: a coder's own git commands in one worktree may have changed it for all of them."""
    wanted, lender = {**SET_UP}, f"{repo}/{LENDER}"
    if os.path.exists(lender) and read_bytes(lender).startswith(b'"'):
        wanted[LENDER] = alternates_line(borrowed_objects(repo))  # an older version quoted it without need
    if all(os.path.exists(f"{repo}/{path}") and read_bytes(f"{repo}/{path}") == text for path, text in wanted.items()):
        return
    with repository_lock(repo):
        for path, text in wanted.items():
            _write_file(f"{repo}/{path}", text)


def _write_file(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or read_bytes(path) != text:
        write_whole(path, text, durable=False)  # written again after a power cut


def borrowed_objects(repo: str) -> str:
    """The folder of objects that a repository borrows; empty when it has all of its own."""
    line = read_bytes(f"{repo}/{LENDER}").removesuffix(b"\n")
    if line.startswith(b'"'):
        line = re.sub(rb"\\(.)", lambda found: b"\n" if found[1] == b"n" else found[1], line[1:-1])
    return os.fsdecode(line)


def alternates_line(path: str) -> bytes:
    """The line for a borrowed folder, plain wherever git allows it: gitdb, and so GitPython, knows no other form.

    A path with a line break must be quoted; an absolute one never starts with a quote or with the # of a comment."""
    if "\n" not in path:
        return b"%b\n" % os.fsencode(path)
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        path = path.replace(plain, escaped)
    return b'"%b"\n' % os.fsencode(path)


# Filters that keep the content elsewhere: the commit lacks the files that the user's programs read.
_ELSEWHERE = {"lfs": "Git LFS", "git-crypt": "git-crypt"}
_FILTER = re.compile(rb"^[^#\n]*\bfilter=(\S+)", re.MULTILINE)
_MOST_NAMED = 5


class RepoLocation(NamedTuple):
    """The place of `repo:`.  `git_dir` is empty for a plain folder; `top` is its work tree, or itself."""

    folder: str
    git_dir: str = ""
    common: str = ""
    top: str = ""


def locate_repo(path: str) -> RepoLocation:
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        raise GitProblem(f"{path}: {'is a file' if os.path.exists(folder) else 'does not exist'}; repo: names a folder")
    try:
        bare, within = _rev_parse(folder, "--is-bare-repository", "--is-inside-git-dir").split()
    except GitOutage as outage:
        raise GitOutage(f"{path}: {outage}", outage.reason) from outage
    except GitProblem as problem:
        if "not a git repository (or any" in str(problem):
            return RepoLocation(folder)
        raise GitProblem(f"{path}: {problem}") from problem
    if "true" in (bare, within):
        sort = "is a bare repository" if bare == "true" else "is the inside of a .git folder"
        raise GitProblem(f"{path}: {sort}; name a folder with files: a clone or a work tree of it")
    wanted = ("--absolute-git-dir", "--git-common-dir", "--show-toplevel")  # one by one: a path may hold any character
    git_dir, common, top = (_rev_parse(folder, "--path-format=absolute", what) for what in wanted)
    return RepoLocation(folder, git_dir, common, os.path.realpath(top))


def _rev_parse(folder: str, *questions: str) -> str:
    return os.fsdecode(users_git("rev-parse", *questions, cwd=folder).removesuffix(b"\n"))


def check_whole(place: RepoLocation) -> None:
    """Refuse a repository that lacks history or objects: a search reads them for long, without a network."""
    if git("rev-parse", "--is-shallow-repository", repo=place.git_dir) == b"true\n":
        raise GitProblem(f"{place.folder}: is a shallow clone; run git fetch --unshallow there first")
    with open_with_gitpython(place.git_dir) as found, found.config_reader("repository") as config:
        for key, usual in (("objectformat", "sha1"), ("refstorage", "files"), ("partialclone", "")):
            if (value := config.get_value("extensions", key, usual)) != usual:
                raise GitProblem(f"{place.folder}: extensions.{key} = {value} is not supported; use a plain clone")


def check_clean(place: RepoLocation) -> None:
    """Refuse uncommitted changes: they would be in no candidate."""
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    here = [] if own.startswith("..") else [f":(exclude,top,literal){own}"]
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    # the user's own list of ignored files, such as those of an editor
    words = ("config", "--type=path", "--default", f"{home}/git/ignore", "core.excludesFile")
    ignored = os.fsdecode(users_git(*words, cwd=place.folder).removesuffix(b"\n"))
    asked = (*STATUS, "--untracked-files=normal", "--", ".", *here)
    filters = _filters_switched_off(place.git_dir)
    settings = {"core.excludesFile": ignored, **filters}
    if found := split_names(git(*asked, repo=place.git_dir, work=place.folder, settings=settings)):
        names = join_names([repr(name[3:])[1:-1] for name in found], _MOST_NAMED)
        what = "Root working tree must be clean: a search starts from a commit"
        note = "; the filters that its configuration names were not run: is it clean to git status?" if filters else ""
        raise GitProblem(f"{place.folder}: {what}; commit, stash or ignore: {names}{note}")


def _filters_switched_off(repo: str) -> dict[str, str]:
    """Settings by which git starts none of the filters that a repository's configuration names.

    To see what is clean, git would run them on files that look as if they had changed."""
    names = split_names(git("config", "--list", "--includes", "--null", "--name-only", repo=repo))
    return {
        name: "false" if name.endswith(".required") else ""
        for name in names
        if name.startswith("filter.") and name.endswith((".clean", ".smudge", ".process", ".required"))
    }


def check_attributes(path: str, text: bytes) -> None:
    for name in _FILTER.findall(text):
        if elsewhere := _ELSEWHERE.get(name.decode(errors="replace")):
            raise GitProblem(f"{path}: {elsewhere} is not supported: a candidate would not get your files")


def attribute_filters(repo: str, tree: str) -> list[str]:
    """The filters that .gitattributes of a tree name: none is run, so that files are as git stores them."""
    found = [entry.blob for path, entry in tree_entries(repo, tree).items() if path.endswith(".gitattributes")]
    texts = read_blobs(repo, found).values() if found else ()
    return sorted({name.decode(errors="replace") for text in texts for name in _FILTER.findall(text)})


_MESSAGE = "The files that the search starts from"
_OTHERS = ("ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
_LEFT_OUT = {".git", "__pycache__"}


def _snapshot_commit(place: RepoLocation, run: str) -> tuple[str, str]:
    """Make the run's repository, and commit the files of a folder into it."""
    repo = prepare_repository(run)
    found = sorted(set(_files_of_folder(place, repo)))
    if not found:
        raise GitProblem(f"{place.folder}: holds no files that are not ignored")
    listed = b"".join(b"%b\0" % os.fsencode(name) for name in found)
    with TemporaryDirectory(dir=repo) as scratch:
        index = f"{scratch}/index"
        git("update-index", "--add", "-z", "--stdin", repo=repo, work=place.folder, index=index, stdin=listed)
        tree = git("write-tree", repo=repo, index=index).decode().strip()
    return repo, write_commit(repo, tree, (), EPOCH, _MESSAGE)


def _files_of_folder(place: RepoLocation, repo: str) -> Iterator[str]:
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    tracked: list[str] = []
    if place.git_dir:  # none when all of it is ignored there, as in a plain folder
        listed = git(*_OTHERS, "--cached", repo=place.git_dir, work=place.top, cwd=place.folder)
        tracked = [file for name in split_names(listed) for file in _files_below(place.folder, name, place.git_dir)]
    for name in tracked or _untracked_files(place.folder, repo):
        if _LEFT_OUT.isdisjoint(name.split("/")) and not name.startswith(("runs/", f"{own}/")):
            if os.path.basename(name) == ".gitattributes":
                check_attributes(f"{place.folder}/{name}", read_bytes(f"{place.folder}/{name}"))
            yield name


def _files_below(folder: str, name: str, repo: str) -> Iterator[str]:
    path = f"{folder}/{name}"
    if name.endswith("/"):
        yield from (f"{name}{inner}" for inner in _untracked_files(path, repo))
    elif os.path.isdir(path) and not os.path.islink(path):
        raise GitProblem(f"{path}: submodules are not supported; a candidate is one tree of files")
    elif os.path.lexists(path):
        yield name


def _untracked_files(folder: str, repo: str) -> Iterator[str]:
    """All files that are not ignored.  Git lists a repository inside as a name with a slash at its end."""
    with TemporaryDirectory() as scratch:
        listed = git(*_OTHERS, repo=repo, work=folder, index=f"{scratch}/none")
    for name in split_names(listed):
        yield from _files_below(folder, name, repo)


ROOT = "root"


class RootCommit(NamedTuple):
    """The commit that a search starts from; `repo`: the git directory of the run."""

    repo: str
    commit: str
    tree: str


def root_commit(path: str, run: str) -> RootCommit:
    """The root of a search: HEAD of a clean git repository, or else the files of the folder as they are now."""
    place = locate_repo(path)
    repo, commit = _head_commit(place, run) if place.folder == place.top else _snapshot_commit(place, run)
    pin(repo, run, ROOT, commit)
    return RootCommit(repo, commit, tree_hash(repo, commit))


def reopen_repository(path: str, run: str, commit: str) -> str:
    """The run's repository, made again from `path` if it is gone and the commit can be found there."""
    repo = run_repository(run)
    if not is_pinned(repo, run, ROOT):  # the pin is made last
        place = locate_repo(path)
        if place.folder == place.top:
            prepare_repository(run, f"{place.common}/objects")
        else:
            _snapshot_commit(place, run)
        if not has_commit(repo, commit):
            raise GitProblem(f"{path}: the commit {commit}, which run {run} started from, is gone; forget {run}:root")
        pin(repo, run, ROOT, commit)
    restore_setup(repo)
    return repo


def _head_commit(place: RepoLocation, run: str) -> tuple[str, str]:
    check_whole(place)
    commit = _checked_head(place)
    check_clean(place)
    # the user's repository must keep the objects that are borrowed: this ref is all that is written to it
    pin_by_git(place.common, run, ROOT, commit)
    return prepare_repository(run, f"{place.common}/objects"), commit


def head_commit(place: RepoLocation) -> str:
    """The commit that is checked out in a repository."""
    return git("rev-parse", "--verify", "HEAD^{commit}", repo=place.git_dir).decode().strip()


def _checked_head(place: RepoLocation) -> str:
    with open_with_gitpython(place.git_dir) as found:
        if not found.head.is_valid():
            raise GitProblem(f"{place.folder}: has no commit yet; a search starts from a commit")
        from git import Blob, Submodule

        commit = found.head.commit
        for item in commit.tree.traverse(ignore_self=True):
            if isinstance(item, Submodule):
                path = f"{place.folder}/{item.path}"
                raise GitProblem(f"{path}: submodules are not supported; a candidate is one tree of files")
            if isinstance(item, Blob) and item.name == ".gitattributes":
                check_attributes(f"{place.folder}/{item.path}", item.data_stream.read())
        return commit.hexsha
