"""Which sort of place a `repo:` is: a git repository, a folder inside one, or a plain folder."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pipeline.edge.git.command import GitProblem, git, names, users_git
from pipeline.edge.git.objects import opened

# Content that is elsewhere: what is in the commit is not what the user's programs read.
_ELSEWHERE = {"lfs": "Git LFS", "git-crypt": "git-crypt"}
_FILTER = re.compile(rb"^[^#\n]*\bfilter=(\S+)", re.MULTILINE)
_SHOWN = 5


class Place(NamedTuple):
    """`git_dir` is empty for a plain folder; `top` is the work tree it belongs to, itself for a git repository."""

    folder: str
    git_dir: str = ""
    common: str = ""
    top: str = ""


def place_of(path: str) -> Place:
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        raise GitProblem(f"{path}: {'is a file' if os.path.exists(folder) else 'does not exist'}; repo: names a folder")
    try:
        bare, within = _asked(folder, "--is-bare-repository", "--is-inside-git-dir").split()
    except GitProblem as problem:
        if "not a git repository (or any" in str(problem):
            return Place(folder)
        raise GitProblem(f"{path}: {problem}") from problem
    if "true" in (bare, within):
        sort = "is a bare repository" if bare == "true" else "is the inside of a .git folder"
        raise GitProblem(f"{path}: {sort}; name a folder with files: a clone or a work tree of it")
    wanted = ("--absolute-git-dir", "--git-common-dir", "--show-toplevel")  # one by one: a path may hold any character
    git_dir, common, top = (_asked(folder, "--path-format=absolute", what) for what in wanted)
    return Place(folder, git_dir, common, os.path.realpath(top))


def _asked(folder: str, *questions: str) -> str:
    return os.fsdecode(users_git("rev-parse", *questions, cwd=folder).removesuffix(b"\n"))


def check_whole(place: Place) -> None:
    """A search reads history and trees from it, for long, without a network."""
    if git("rev-parse", "--is-shallow-repository", repo=place.git_dir) == b"true\n":
        raise GitProblem(f"{place.folder}: is a shallow clone; run git fetch --unshallow there first")
    with opened(place.git_dir) as found, found.config_reader("repository") as config:
        for key, usual in (("objectformat", "sha1"), ("refstorage", "files"), ("partialclone", "")):
            if (value := config.get_value("extensions", key, usual)) != usual:
                raise GitProblem(f"{place.folder}: extensions.{key} = {value} is not supported; use a plain clone")


def check_clean(place: Place) -> None:
    """What is not committed would not be in any candidate."""
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    here = [] if own.startswith("..") else [f":(exclude,top,literal){own}"]
    status = ["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal"]
    ignored = ["-c", f"core.excludesFile={_users_excludes(place.folder)}"]
    found = names(git(*ignored, *status, "--", ".", *here, repo=place.git_dir, work=place.folder))
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
