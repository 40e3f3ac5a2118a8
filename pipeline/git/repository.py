"""The run's repository: `repo:` becomes a commit in it, and the user's own stays as it is.

runs/<run>/repo.git is bare, borrows the objects of the user's, and nothing else.  `repo:` is a git repository, which
must be clean and gives its HEAD; or a folder inside one, or a plain folder, whose files become a commit that is the
same on every machine.  The rule for those: every file and link that no .gitignore of the folder ignores (nor one above
it, inside a repository), and what the repository around it tracks all the same; the files of repositories that lie in
it too.  Never .git, __pycache__, nor runs/.  Of a file's mode only "its owner may run it" is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pipeline.git.command import GitProblem, git, split_names, users_git
from pipeline.git.folders import repository_lock
from pipeline.git.objects import EPOCH, has_commit, open_with_gitpython, tree_hash, write_commit
from pipeline.git.refs import is_pinned, pin, pin_by_git
from pipeline.store.files import write_whole

# `user`, `gc` and `gpgSign` are for coders that use git themselves in a worktree.
_CONFIG = """\
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
# Above any .gitattributes: bytes are kept as they are, and no program is run to change them.
_ATTRIBUTES = "* -text -filter -ident !working-tree-encoding !diff !merge\n"
_EXCLUDE = "__pycache__/\n"
# Where git looks for the folder of objects that a repository borrows.
_LENDER = "objects/info/alternates"
_SET_UP = {"config": _CONFIG.encode(), "info/attributes": _ATTRIBUTES.encode(), "info/exclude": _EXCLUDE.encode()}


def run_repository(run: str) -> str:
    return os.path.realpath(f"runs/{run}/repo.git")


def prepare_repository(run: str, borrowed: str = "") -> str:
    """Made, or made as it should be.  `borrowed`: the folder of objects that it reads besides its own."""
    repo = run_repository(run)
    os.makedirs(repo, exist_ok=True)
    with repository_lock(repo) as lock:
        if not os.path.exists(f"{repo}/objects/pack"):  # what `git init` makes last
            with suppress(FileNotFoundError):
                os.unlink(f"{repo}/config")
            git("init", "--quiet", "--bare", "--template=", repo=repo, keep=[lock])
        for path, text in _SET_UP.items():
            _write_file(f"{repo}/{path}", text)
        _write_file(f"{repo}/{_LENDER}", _line_of(borrowed) if borrowed else b"")
    return repo


def restore_setup(repo: str) -> None:
    """Set up as it was: a coder's own git commands in one worktree may have changed that for all of them."""
    wanted = {**_SET_UP, **_unquoted(repo)}
    if all(os.path.exists(f"{repo}/{path}") and _read_file(f"{repo}/{path}") == text for path, text in wanted.items()):
        return
    with repository_lock(repo):
        for path, text in wanted.items():
            _write_file(f"{repo}/{path}", text)


def _unquoted(repo: str) -> dict[str, bytes]:
    """What stands in for a line that was quoted without need, as runs of older versions have it."""
    path = f"{repo}/{_LENDER}"
    return (
        {_LENDER: _line_of(borrowed_objects(repo))}
        if os.path.exists(path) and _read_file(path).startswith(b'"')
        else {}
    )


def _write_file(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or _read_file(path) != text:
        write_whole(path, text, durable=False)  # what a power cut damages is written again


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def borrowed_objects(repo: str) -> str:
    """The folder of objects that it borrows; empty when it has all of its own."""
    line = _read_file(f"{repo}/{_LENDER}").removesuffix(b"\n")
    if line.startswith(b'"'):
        line = re.sub(rb"\\(.)", lambda found: b"\n" if found[1] == b"n" else found[1], line[1:-1])
    return os.fsdecode(line)


def _line_of(path: str) -> bytes:
    """Plain wherever git reads it so: gitdb, and with it every tool on GitPython, knows no other form.

    A path with a line break has to be quoted; an absolute one never starts with a quote or with the # of a comment."""
    if "\n" not in path:
        return b"%b\n" % os.fsencode(path)
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        path = path.replace(plain, escaped)
    return b'"%b"\n' % os.fsencode(path)


# Content that is elsewhere: what is in the commit is not what the user's programs read.
_ELSEWHERE = {"lfs": "Git LFS", "git-crypt": "git-crypt"}
_FILTER = re.compile(rb"^[^#\n]*\bfilter=(\S+)", re.MULTILINE)
_SHOWN = 5


class RepoPlace(NamedTuple):
    """`git_dir` is empty for a plain folder; `top` is the work tree it belongs to, itself for a git repository."""

    folder: str
    git_dir: str = ""
    common: str = ""
    top: str = ""


def place_of(path: str) -> RepoPlace:
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        raise GitProblem(f"{path}: {'is a file' if os.path.exists(folder) else 'does not exist'}; repo: names a folder")
    try:
        bare, within = _rev_parse(folder, "--is-bare-repository", "--is-inside-git-dir").split()
    except GitProblem as problem:
        if "not a git repository (or any" in str(problem):
            return RepoPlace(folder)
        raise GitProblem(f"{path}: {problem}") from problem
    if "true" in (bare, within):
        sort = "is a bare repository" if bare == "true" else "is the inside of a .git folder"
        raise GitProblem(f"{path}: {sort}; name a folder with files: a clone or a work tree of it")
    wanted = ("--absolute-git-dir", "--git-common-dir", "--show-toplevel")  # one by one: a path may hold any character
    git_dir, common, top = (_rev_parse(folder, "--path-format=absolute", what) for what in wanted)
    return RepoPlace(folder, git_dir, common, os.path.realpath(top))


def _rev_parse(folder: str, *questions: str) -> str:
    return os.fsdecode(users_git("rev-parse", *questions, cwd=folder).removesuffix(b"\n"))


def check_whole(place: RepoPlace) -> None:
    """A search reads history and trees from it, for long, without a network."""
    if git("rev-parse", "--is-shallow-repository", repo=place.git_dir) == b"true\n":
        raise GitProblem(f"{place.folder}: is a shallow clone; run git fetch --unshallow there first")
    with open_with_gitpython(place.git_dir) as found, found.config_reader("repository") as config:
        for key, usual in (("objectformat", "sha1"), ("refstorage", "files"), ("partialclone", "")):
            if (value := config.get_value("extensions", key, usual)) != usual:
                raise GitProblem(f"{place.folder}: extensions.{key} = {value} is not supported; use a plain clone")


def check_clean(place: RepoPlace) -> None:
    """What is not committed would not be in any candidate."""
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    here = [] if own.startswith("..") else [f":(exclude,top,literal){own}"]
    status = ["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal"]
    ignored = ["-c", f"core.excludesFile={_users_excludes(place.folder)}"]
    found = split_names(git(*ignored, *status, "--", ".", *here, repo=place.git_dir, work=place.folder))
    if found:
        shown = ", ".join(repr(name[3:])[1:-1] for name in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        what = "Root working tree must be clean: a search starts from a commit"
        raise GitProblem(f"{place.folder}: {what}; commit, stash or ignore: {shown}{more}")


def _users_excludes(folder: str) -> str:
    """What the user never wants to see, such as the files an editor leaves."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    asked = users_git("config", "--type=path", "--default", f"{home}/git/ignore", "core.excludesFile", cwd=folder)
    return os.fsdecode(asked.removesuffix(b"\n"))


def check_attributes(path: str, text: bytes) -> None:
    for name in _FILTER.findall(text):
        if elsewhere := _ELSEWHERE.get(name.decode(errors="replace")):
            raise GitProblem(f"{path}: {elsewhere} is not supported: a candidate would not get your files")


_MESSAGE = "The files that the search starts from"
_OTHERS = ("ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
_LEFT_OUT = {".git", "__pycache__"}


def snapshot(place: RepoPlace, repo: str) -> str:
    """The commit, now in `repo`."""
    found = sorted(set(_wanted(place, repo)))
    if not found:
        raise GitProblem(f"{place.folder}: holds no files that are not ignored")
    listed = b"".join(b"%b\0" % os.fsencode(name) for name in found)
    with TemporaryDirectory(dir=repo) as scratch:
        index = f"{scratch}/index"
        git("update-index", "--add", "-z", "--stdin", repo=repo, work=place.folder, index=index, stdin=listed)
        tree = git("write-tree", repo=repo, index=index).decode().strip()
    return write_commit(repo, tree, (), EPOCH, _MESSAGE)


def _wanted(place: RepoPlace, repo: str) -> Iterator[str]:
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    for name in _tracked(place) or _others(place.folder, repo):
        if _LEFT_OUT.isdisjoint(name.split("/")) and not name.startswith(("runs/", f"{own}/")):
            if os.path.basename(name) == ".gitattributes":
                _check_file(f"{place.folder}/{name}")
            yield name


def _check_file(path: str) -> None:
    with open(path, "rb") as file:
        check_attributes(path, file.read())


def _tracked(place: RepoPlace) -> list[str]:
    """Of a folder inside a repository.  Nothing when all of it is ignored there: then it is as good as a plain one."""
    if not place.git_dir:
        return []
    listed = git(*_OTHERS, "--cached", repo=place.git_dir, work=place.top, cwd=place.folder)
    return [file for name in split_names(listed) for file in _below(place.folder, name, place.git_dir)]


def _below(folder: str, name: str, repo: str) -> Iterator[str]:
    path = f"{folder}/{name}"
    if name.endswith("/"):
        yield from (f"{name}{inner}" for inner in _others(path, repo))
    elif os.path.isdir(path) and not os.path.islink(path):
        raise GitProblem(f"{path}: submodules are not supported; a candidate is one tree of files")
    elif os.path.lexists(path):
        yield name


def _others(folder: str, repo: str) -> Iterator[str]:
    """All files that are not ignored.  Git lists a repository within as a name with a slash at its end."""
    with TemporaryDirectory() as scratch:
        listed = git(*_OTHERS, repo=repo, work=folder, index=f"{scratch}/none")
    for name in split_names(listed):
        yield from _below(folder, name, repo)


ROOT = "root"


class RootCommit(NamedTuple):
    """`repo` is the git directory that everything else is done in."""

    repo: str
    commit: str
    tree: str


def root_of(path: str, run: str) -> RootCommit:
    """HEAD of a git repository, which must be clean; otherwise the files of the folder as they are now."""
    place = place_of(path)
    repo, commit = _head(place, run) if place.folder == place.top else _files(place, run)
    pin(repo, run, ROOT, commit)
    return RootCommit(repo, commit, tree_hash(repo, commit))


def reopen_repository(path: str, run: str, commit: str) -> str:
    """The run's repository; made again from `path`, if it is gone, for as long as the commit can be found there."""
    repo = run_repository(run)
    if not is_pinned(repo, run, ROOT):  # which is done last
        place = place_of(path)
        if place.folder == place.top:
            prepare_repository(run, f"{place.common}/objects")
        else:
            _files(place, run)
        if not has_commit(repo, commit):
            raise GitProblem(f"{path}: the commit {commit}, which run {run} started from, is gone; forget {run}:root")
        pin(repo, run, ROOT, commit)
    restore_setup(repo)
    return repo


def _files(place: RepoPlace, run: str) -> tuple[str, str]:
    repo = prepare_repository(run)
    return repo, snapshot(place, repo)


def _head(place: RepoPlace, run: str) -> tuple[str, str]:
    check_whole(place)
    commit = _commit(place)
    check_clean(place)
    # its objects are borrowed, so that it must not forget them: the one thing that is left in the user's repository
    pin_by_git(place.common, run, ROOT, commit)
    return prepare_repository(run, f"{place.common}/objects"), commit


def _commit(place: RepoPlace) -> str:
    with open_with_gitpython(place.git_dir) as found:
        if not found.head.is_valid():
            raise GitProblem(f"{place.folder}: has no commit yet; a search starts from a commit")
        commit = found.head.commit
        for item in commit.tree.traverse(ignore_self=True):
            _check_item(place, item)
        return commit.hexsha


def _check_item(place: RepoPlace, item: object) -> None:
    from git import Blob, Submodule

    if isinstance(item, Submodule):
        raise GitProblem(f"{place.folder}/{item.path}: submodules are not supported; a candidate is one tree of files")
    if isinstance(item, Blob) and item.name == ".gitattributes":
        check_attributes(f"{place.folder}/{item.path}", item.data_stream.read())
