"""What is in a tree of files, and what differs between two, without a checkout."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pipeline.edge.git.command import git, names, sha

LINK = "120000"  # the mode of a symbolic link, whose blob is where it leads to
_NONE = "000000"


class Entry(NamedTuple):
    """A file or a link of a tree, as git has it."""

    mode: str
    blob: str


class Change(NamedTuple):
    """None: it is not there."""

    path: str
    before: Entry | None
    after: Entry | None


def entries(repo: str, tree: str) -> dict[str, Entry]:
    """By path.  Names need not be UTF-8."""
    found: dict[str, Entry] = {}
    for row in names(git("ls-tree", "-r", "-z", "--full-tree", sha(tree), repo=repo)):
        about, _, path = row.partition("\t")
        mode, _, blob = about.split(" ")
        found[path] = Entry(mode, blob)
    return found


@lru_cache(maxsize=1024)
def changes(repo: str, a: str, b: str) -> tuple[Change, ...]:
    """From one tree to another; their hashes say that the answer stays the same."""
    form = ("-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev")
    listed = iter(names(git("diff-tree", *form, sha(a), sha(b), "--", repo=repo)))
    found = []
    for row in listed:
        old, new, before, after, _ = row.removeprefix(":").split(" ")
        found.append(Change(next(listed), _entry(old, before), _entry(new, after)))
    return tuple(found)


def _entry(mode: str, blob: str) -> Entry | None:
    return None if mode == _NONE else Entry(mode, blob)


def blobs(repo: str, wanted: Iterable[str]) -> dict[str, bytes]:
    """The contents of files."""
    asked = sorted({sha(blob) for blob in wanted})
    told = git("cat-file", "--batch", repo=repo, stdin="".join(f"{blob}\n" for blob in asked).encode())
    found, at = {}, 0
    for blob in asked:
        end = told.index(b"\n", at)
        size = int(told[at:end].split()[2])
        found[blob] = told[end + 1 : end + 1 + size]
        at = end + size + 2
    return found
