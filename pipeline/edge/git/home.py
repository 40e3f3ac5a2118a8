"""The bare repository of a run, runs/<run>/repo.git: it borrows the objects of the user's, and nothing else."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from pipeline.edge.files import write_whole
from pipeline.edge.git.alone import alone_in
from pipeline.edge.git.command import git

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


def home_of(run: str) -> str:
    return os.path.realpath(f"runs/{run}/repo.git")


def prepared(run: str, borrowed: str = "") -> str:
    """Made, or made as it should be.  `borrowed`: the folder of objects that it reads besides its own."""
    repo = home_of(run)
    os.makedirs(repo, exist_ok=True)
    with alone_in(repo) as lock:
        if not os.path.exists(f"{repo}/objects/pack"):  # what `git init` makes last
            with suppress(FileNotFoundError):
                os.unlink(f"{repo}/config")
            git("init", "--quiet", "--bare", "--template=", repo=repo, keep=[lock])
        for path, text in _SET_UP.items():
            _write(f"{repo}/{path}", text)
        _write(f"{repo}/{_LENDER}", _line_of(borrowed) if borrowed else b"")
    return repo


def kept(repo: str) -> None:
    """Set up as it was: a coder's own git commands in one worktree may have changed that for all of them."""
    wanted = {**_SET_UP, **_unquoted(repo)}
    if all(os.path.exists(f"{repo}/{path}") and _read(f"{repo}/{path}") == text for path, text in wanted.items()):
        return
    with alone_in(repo):
        for path, text in wanted.items():
            _write(f"{repo}/{path}", text)


def _unquoted(repo: str) -> dict[str, bytes]:
    """What stands in for a line that was quoted without need, as runs of older versions have it."""
    path = f"{repo}/{_LENDER}"
    return {_LENDER: _line_of(lender(repo))} if os.path.exists(path) and _read(path).startswith(b'"') else {}


def _write(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or _read(path) != text:
        write_whole(path, text, durable=False)  # what a power cut damages is written again


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def lender(repo: str) -> str:
    """The folder of objects that it borrows; empty when it has all of its own."""
    line = _read(f"{repo}/{_LENDER}").removesuffix(b"\n")
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
