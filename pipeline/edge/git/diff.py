"""What differs between two commits, file by file."""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline.edge.git.command import git, names, sha

_RENAMED = re.compile(rb"^(?:rename|copy) from ", re.MULTILINE)


class FileStat(NamedTuple):
    """Lines of a binary file are not counted.  `kind` is git's letter: A added, D deleted, M modified, T its type."""

    path: str
    kind: str
    insertions: int
    deletions: int


class Counts(NamedTuple):
    files: int
    insertions: int
    deletions: int


class DiffStat(NamedTuple):
    files: tuple[FileStat, ...]

    @property
    def counts(self) -> Counts:
        return Counts(len(self.files), self.insertions, self.deletions)

    @property
    def insertions(self) -> int:
        return sum(file.insertions for file in self.files)

    @property
    def deletions(self) -> int:
        return sum(file.deletions for file in self.files)


def diff_stat(repo: str, a: str, b: str) -> DiffStat:
    """Asked of git itself: GitPython's diff breaks on names with newlines and on names that are not UTF-8."""
    form = ("-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    listed = iter(names(git("diff-tree", *form, sha(a), sha(b), "--", repo=repo)))
    kinds: dict[str, str] = {}
    files: list[FileStat] = []
    for row in listed:
        if row.startswith(":"):  # all of these come first, each followed by its path
            kinds[next(listed)] = row.rpartition(" ")[2]
        else:
            inserted, deleted, path = row.split("\t", 2)
            files.append(FileStat(path, kinds[path], _count(inserted), _count(deleted)))
    return DiffStat(tuple(files))


def counts_of(patch: bytes, numstat: bytes) -> Counts | None:
    """As the patch was written, from what `git apply --numstat -z` says of it.  Nothing when only a diff of the commits
    tells: a file can be named twice, under one of two names, or be binary to the patch alone."""
    rows = [row.split("\t", 2) for row in names(numstat)]
    if _RENAMED.search(patch) or "-" in {row[0] for row in rows} or len({row[2] for row in rows}) < len(rows):
        return None
    return Counts(len(rows), sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))


def _count(number: str) -> int:
    return 0 if number == "-" else int(number)
