"""Candidates: the files of a worktree as a commit, the same on every machine, and as a patch.

A tree is written from an index as `git write-tree` does, but only changed folders are written.  A patch becomes a tree
without a checkout.  Facts of many commits are read by one git."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha1
from typing import NamedTuple

from pipeline.core.graph import MEGABYTE, Leavings
from pipeline.errors import cut_text
from pipeline.git.command import STATUS, CandidateProblem, GitProblem, checked_sha, git, split_names
from pipeline.git.objects import (
    Counts,
    copy_index,
    counts_of,
    diff_stat,
    object_name,
    parent_commit,
    tree_entries,
    tree_hash,
    write_commit,
    write_object,
)
from pipeline.git.worktrees import PRISTINE, Worktree
from pipeline.store.files import read_bytes, write_all
from pipeline.store.folders import make_removable, read_file_text, remove_file

_LARGEST = 1 << 19  # bytes of an index; for a larger one git is faster
_DEEPEST = 100
_STAGE_OR_MORE = 0x70  # flags of an entry of a merge, or of a later version of the format


class _Index(NamedTuple):
    rows: list[tuple[bytes, int, bytes]]  # name, mode, blob
    folders: dict[bytes, tuple[int, bytes]]  # those still valid: number of rows, tree


class _Unusual(Exception):
    """An index that is left to git."""


def write_tree(repo: str, index: str, known: Collection[str] = ()) -> str:
    """Write the tree of an index; `known`: trees that are there already."""
    try:
        return _write_folder(repo, _read_index(index), set(known), b"", 0)[0]
    except _Unusual:
        return git("write-tree", repo=repo, index=index).decode().strip()


def _read_index(index: str) -> _Index:
    """Read an index; its format is described in gitformat-index(5)."""
    with open(index, "rb") as file:
        text = file.read(_LARGEST)
    if text[:8] != b"DIRC\0\0\0\2" or len(text) == _LARGEST:
        raise _Unusual
    rows, at = [], 12
    for _ in range(int.from_bytes(text[8:12])):
        end = text.index(b"\0", at + 62)
        if text[at + 60] & _STAGE_OR_MORE:
            raise _Unusual
        rows.append((text[at + 62 : end], int.from_bytes(text[at + 24 : at + 28]), text[at + 40 : at + 60]))
        at += (end - at + 8) & ~7
    return _Index(rows, dict(_folders(_extension(text, at))))


def _extension(text: bytes, at: int) -> bytes:
    """The extension about folders.  One whose name starts with a small letter changes the meaning of the index."""
    found = b""
    while at < len(text) - 20:
        name, size = text[at : at + 4], int.from_bytes(text[at + 4 : at + 8])
        if not name[:1].isupper():
            raise _Unusual
        if name == b"TREE":
            found = text[at + 8 : at + 8 + size]
        at += 8 + size
    return found


def _folders(text: bytes) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
    """Valid folders, each before those in it.  A change below makes a folder invalid: -1 rows, and no tree."""
    above: list[tuple[bytes, int]] = []  # the folders we are in, and how many in each are still to come
    at = 0
    while at < len(text):
        end, line = text.index(b"\0", at), text.index(b"\n", at)
        prefix = above[-1][0] + text[at:end] + b"/" if above else b""
        rows, inner = map(int, text[end + 1 : line].split())
        at = line + 1
        if rows >= 0:
            yield prefix, (rows, text[at : at + 20])
            at += 20
        if above:
            above[-1] = (above[-1][0], above[-1][1] - 1)
        above.append((prefix, inner))
        while above and not above[-1][1]:
            above.pop()


def _write_folder(repo: str, index: _Index, known: set[str], prefix: bytes, at: int) -> tuple[str, int]:
    """The tree of a folder whose first file is row `at`, and the row behind its last."""
    if prefix in index.folders:
        rows, tree = index.folders[prefix]
        return tree.hex(), at + rows
    if prefix.count(b"/") > _DEEPEST:
        raise _Unusual
    lines = []
    while at < len(index.rows) and index.rows[at][0].startswith(prefix):
        path, mode, blob = index.rows[at]
        name, slash, _ = path[len(prefix) :].partition(b"/")
        if slash:
            inner, at = _write_folder(repo, index, known, prefix + name + slash, at)
            lines.append(b"40000 %b\0%b" % (name, bytes.fromhex(inner)))
        else:
            lines.append(b"%o %b\0%b" % (mode, name, blob))
            at += 1
    text = b"".join(lines)
    name_of_tree = object_name(b"tree", text)
    return (name_of_tree if name_of_tree in known else write_object(repo, b"tree", text)), at


@contextmanager
def _scratch_path(folder: str) -> Iterator[str]:
    """A path of its own for a file of git; afterwards the file and git's lock on it are removed."""
    path = f"{folder}/{os.urandom(8).hex()}.scratch"
    try:
        yield path
    finally:
        remove_file(path)
        remove_file(f"{path}.lock")


EXACT = ("--binary", "--whitespace=nowarn")
_COUNTED = ("--numstat", "-z", "--apply")
# Lines of a patch begin with one of these letters only where it says what sort of file there is.
_MODE = re.compile(rb"^(?:new file mode|new mode|index \S+)[ \t]+(\S+)", re.MULTILINE)
_OCTAL = re.compile(rb"[0-7]+")
_NEW_HEAD = re.compile(
    rb'^diff --git [^\n]*/HEAD"?\n(?:old mode[^\n]*\n)?new file mode|^(?:rename|copy) to (?:[^\n]*/)?HEAD"?$',
    re.MULTILINE | re.IGNORECASE,
)

# Bytes that the file systems of all machines take, with room for the folder of the checkout.
_LONGEST_NAME, _LONGEST_PATH = 255, 700


def apply_to_tree(repo: str, start: bytes, patch: bytes) -> tuple[str, Counts | None, list[str]]:
    """Apply a patch to `start`, the index of its parent, all of it or nothing: the tree, counts if it tells, paths."""
    check_types(patch)
    with _scratch_path(f"{repo}/coppice") as index:
        write_all(index, start)
        counted = git("apply", *_COUNTED, "--cached", *EXACT, repo=repo, index=index, stdin=patch)
        paths = [row.split("\t", 2)[2] for row in split_names(counted)]
        return write_tree(repo, index), counts_of(patch, counted), paths


def index_of_commit(repo: str, commit: str) -> bytes:
    """The index of a commit, made once for all patches, and again when a power cut has damaged it."""
    kept = f"{repo}/coppice/{commit}.index"
    if os.path.exists(kept) and (text := read_bytes(kept))[-20:] == sha1(text[:-20]).digest():
        return text
    os.makedirs(f"{repo}/coppice", exist_ok=True)
    with _scratch_path(f"{repo}/coppice") as index:
        git("read-tree", commit, repo=repo, index=index)
        os.replace(index, kept)
    return read_bytes(kept)


def check_types(patch: bytes) -> None:
    for mode in _MODE.findall(patch):
        if not _OCTAL.fullmatch(mode) or stat.S_IFMT(int(mode, 8)) not in (stat.S_IFREG, stat.S_IFLNK):
            raise GitProblem("submodules are not supported; a candidate is one tree of files")
    if _NEW_HEAD.search(patch):
        what = "git could take its folder for a repository, and run what it says"
        raise GitProblem(f"a new file is called HEAD: {what}; give it another name")


_NO_BLOB = b"1" * 40
LEAVINGS = Leavings()


class Candidate(NamedTuple):
    """A candidate, as its record has it: with the patch, enough to make the commit again anywhere."""

    commit: str
    tree: str
    parent: str
    message: str
    files: int
    insertions: int
    deletions: int

    @property
    def empty(self) -> bool:
        """True when the coder changed nothing."""
        return self.files == 0


def commit_without_leavings(
    worktree: Worktree,
    parent: str,
    message: str,
    rules: Leavings = LEAVINGS,
    check: Callable[[bytes], object] | None = None,
) -> tuple[Candidate, list[str]]:
    """Commit all files of a worktree that are not ignored, whatever the coder's own git commands did.

    With the new folders of junk and the new files that are left out for their size.  `check` sees what is new before
    any of it is written, and may raise CandidateProblem."""
    with _scratch_path(worktree.admin) as index:
        seen = _Survey(rules, worktree.path)
        tree, large = _tree_of(worktree, checked_sha(parent), index, seen, check)
        left = [*large, *(_junk_folders(worktree, index, rules) if seen.has_junk else [])]
    return _candidate(worktree.repo, tree, parent, message), sorted(left)


class _Survey:
    """Survey of a worktree in one walk: folders of junk, sizes of files, whether they are new or not."""

    def __init__(self, rules: Leavings, path: str) -> None:
        self.rules, self.junk, self.path = rules, frozenset(rules.junk), path
        self.has_junk, self.largest, self.total = False, 0, 0

    def look(self, folder: str, inner: list[str], names: list[str]) -> None:
        if folder == self.path:  # a candidate's own repository is none of its files
            inner[:] = [name for name in inner if name != ".git"]
        self.has_junk = self.has_junk or not self.junk.isdisjoint(inner)
        for name in names:
            with suppress(OSError):
                size = os.lstat(f"{folder}/{name}").st_size
                self.total += size
                if size > self.largest:
                    self.largest = size

    @property
    def may_be_large(self) -> bool:
        """True when git is to be asked which of the files are new."""
        return self.largest > self.rules.file_mb * MEGABYTE or self.total > self.rules.change_mb * MEGABYTE


def _junk_folders(worktree: Worktree, index: str, rules: Leavings) -> list[str]:
    asked = ("ls-files", "-z", "--others", "--ignored", "--directory")
    found = split_names(worktree.git(*asked, *(f"--exclude={name}/" for name in rules.junk), index=index))
    return [name for name in found if os.path.basename(name.rstrip("/")) in rules.junk]


def _too_large(worktree: Worktree, index: str, rules: Leavings) -> list[str]:
    """New files that are too large, or too much together: then the largest."""
    sizes: dict[str, int] = {}
    for name in _new_files(worktree, index, rules):
        with suppress(OSError):  # gone meanwhile, or the folder of a repository
            about = os.lstat(f"{worktree.path}/{name}")
            sizes[name] = about.st_size if stat.S_ISREG(about.st_mode) else 0
    total, large = sum(sizes.values()), []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] <= rules.file_mb * MEGABYTE and total <= rules.change_mb * MEGABYTE:
            break
        large.append(name)
        total -= sizes[name]
    return large


def _new_files(worktree: Worktree, index: str, rules: Leavings) -> list[str]:
    asked = ("ls-files", "-z", "--others", "--exclude-standard")
    return split_names(worktree.git(*_excluding(worktree, rules), *asked, index=index))


def _excluding(worktree: Worktree, rules: Leavings) -> tuple[str, ...]:
    """The setting by which git ignores the folders that the rules add; the usual ones are in every repository."""
    if not rules.folders:
        return ()
    path = f"{worktree.admin}/coppice-junk"
    write_all(path, b"".join(os.fsencode(f"{name}/\n") for name in rules.folders))
    return ("-c", f"core.excludesFile={path}")


def _show_new(worktree: Worktree, index: str, names: Iterable[str], check: Callable[[bytes], object]) -> None:
    """Show what a commit would add: the lines of changed files, and all of each new one with its name."""
    form = ("-p", "--text", "--no-ext-diff", "--no-textconv", "--diff-filter=d")
    check(worktree.git("diff-files", *form, index=index))
    for name in names:
        check(os.fsencode(name))
        path = f"{worktree.path}/{name}"
        with suppress(OSError):  # gone meanwhile, or the folder of a repository
            check(os.fsencode(os.readlink(path)) if os.path.islink(path) else read_bytes(path))


def _tree_of(
    worktree: Worktree, parent: str, index: str, seen: _Survey, check: Callable[[bytes], object] | None
) -> tuple[str, list[str]]:
    """The tree of a worktree, written; and the new files that are too large for it."""
    repositories_within = make_removable(worktree.path, seen.look)
    if os.path.exists(f"{worktree.admin}/{PRISTINE}"):
        copy_index(f"{worktree.admin}/{PRISTINE}", index)
    known: list[str] = []
    with suppress(FileNotFoundError, _Unusual):  # its valid trees, the tree of the whole commit first
        known = [tree.hex() for _, tree in _read_index(index).folders.values()]
    if known[:1] != [tree_hash(worktree.repo, parent)]:
        worktree.git("read-tree", "-m", parent, index=index)
    if repositories_within:
        _take_in_repositories(worktree, index)
    with _candidate_problems("the files cannot be committed"):
        large = _too_large(worktree, index, seen.rules) if seen.may_be_large else []
        if check:
            _show_new(worktree, index, {*_new_files(worktree, index, seen.rules)} - {*large}, check)
        paths = [f":(exclude,top,literal){name}" for name in large]
        adding = ("add", "--all", *(["--", ":(top)", *paths] if paths else []))
        worktree.git(*_excluding(worktree, seen.rules), *adding, index=index)
    return write_tree(worktree.repo, index, known), large


def _take_in_repositories(worktree: Worktree, index: str) -> None:
    """Make repositories inside the worktree plain folders.  Git takes one for a folder as soon as a file of it is in
    the index: here one that does not exist, which `git add --all` drops again."""
    seen: set[str] = set()
    while True:
        others = split_names(worktree.git("ls-files", "-z", "--others", "--exclude-standard", index=index))
        inner = {name for name in others if name.endswith("/")} - seen
        if not inner:
            return
        seen |= inner
        rows = b"".join(b"100644 %b\t%b\0" % (_NO_BLOB, os.fsencode(f"{name}coppice-none")) for name in inner)
        worktree.git("update-index", "-z", "--index-info", index=index, stdin=rows)


def commit_patch(repo: str, parent: str, patch: bytes, message: str) -> Candidate:
    """Commit a recorded change without a worktree, all of it or nothing.  Ignored files that it adds are in the commit,
    and lines count as the patch has them."""
    start = index_of_commit(repo, checked_sha(parent))
    with _candidate_problems():
        tree, counts, paths = apply_to_tree(repo, start, patch)
        for path in paths:  # too long for a checkout: before anybody measures the commit
            if len(os.fsencode(path)) > _LONGEST_PATH or max(map(len, os.fsencode(path).split(b"/"))) > _LONGEST_NAME:
                raise GitProblem(f"the name of a file is too long: {cut_text(repr(path))}")
    return _candidate(repo, tree, parent, message, counts)


def _candidate(repo: str, tree: str, parent: str, message: str, counts: Counts | None = None) -> Candidate:
    above = parent_commit(repo, parent)
    commit = write_commit(repo, tree, (parent,), above.date + 1, message)
    if tree == above.tree:
        counts = Counts(0, 0, 0)
    if counts is None:
        files = diff_stat(repo, parent, commit)
        counts = Counts(len(files), sum(file.insertions for file in files), sum(file.deletions for file in files))
    return Candidate(commit, tree, parent, message, *counts)


def commit_tree(repo: str, parent: str, tree: str, message: str) -> Candidate:
    """Commit a tree that is there already."""
    return _candidate(repo, tree, parent, message)


def tree_with_patch(repo: str, commit: str, patch: bytes) -> str:
    """The tree of a commit with a patch applied, all of it or nothing; no checkout is touched."""
    with _candidate_problems(), _scratch_index(repo, commit) as index:
        check_types(patch)
        git("apply", "--cached", *EXACT, repo=repo, index=index, stdin=patch)
        return write_tree(repo, index)


def tree_with_files(repo: str, commit: str, contents: Mapping[str, bytes]) -> str:
    """The tree of a commit with other contents of files.  A file keeps its mode; a path is not where a folder is."""
    with _candidate_problems("the files cannot be committed"), _scratch_index(repo, commit) as index:
        modes = {path: entry.mode for path, entry in tree_entries(repo, tree_hash(repo, commit)).items()}
        rows = [
            b"%b %b\t%b\0" % (modes.get(path, "100644").encode(), blob.encode(), os.fsencode(path))
            for path, blob in ((path, write_object(repo, b"blob", text)) for path, text in contents.items())
        ]
        git("update-index", "-z", "--index-info", repo=repo, index=index, stdin=b"".join(rows))
        return write_tree(repo, index)


@contextmanager
def _scratch_index(repo: str, commit: str) -> Iterator[str]:
    os.makedirs(f"{repo}/coppice", exist_ok=True)
    with _scratch_path(f"{repo}/coppice") as index:
        git("read-tree", checked_sha(commit), repo=repo, index=index)
        yield index


def patch_between(repo: str, parent: str, commit: str) -> bytes:
    """The difference of two commits, with binary files."""
    form = ["-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"]
    return git("diff-tree", *form, checked_sha(parent), checked_sha(commit), "--", repo=repo)


def restore_commit(repo: str, parent: str, patch: bytes, candidate: Candidate) -> None:
    """Make the commit of `candidate` again."""
    above = parent_commit(repo, parent)
    tree = apply_to_tree(repo, index_of_commit(repo, parent), patch)[0] if patch else above.tree
    made = write_commit(repo, tree, (parent,), above.date + 1, candidate.message)
    if made != candidate.commit:
        raise GitProblem(f"the patch makes {made}, the record says {candidate.commit}: one of them was changed")


def apply_patch(worktree: Worktree, patch: bytes) -> None:
    """Apply a patch to a worktree, all of it or nothing."""
    with _candidate_problems():
        check_types(patch)
        worktree.git("apply", "--index", *EXACT, stdin=patch)


@contextmanager
def _candidate_problems(what: str = "the patch does not apply") -> Iterator[None]:
    """Blame the candidate for what git refuses."""
    try:
        yield
    except CandidateProblem:
        raise
    except GitProblem as problem:
        raise CandidateProblem(f"{what}: {problem}") from problem


class CommitFacts(NamedTuple):
    """Tree of a commit, and its parent, empty for a commit without one."""

    tree: str
    parent: str


def commit_facts(repo: str, commits: Iterable[str]) -> dict[str, CommitFacts]:
    """Facts of the commits that are there."""
    wanted = [checked_sha(commit) for commit in sorted({*commits})]
    asked = "".join(f"{commit}^{{tree}}\n{commit}^1\n" for commit in wanted)
    listed = git("cat-file", "--batch-check=%(objectname)", repo=repo, stdin=asked.encode()).decode().splitlines()
    rows = ["" if row.endswith(" missing") else row for row in listed]
    facts = map(CommitFacts, rows[::2], rows[1::2])
    return {commit: fact for commit, fact in zip(wanted, facts, strict=True) if fact.tree}


def worktree_head(worktree: Worktree) -> str:
    """The commit that it was checked out at."""
    return read_file_text(f"{worktree.admin}/HEAD").strip()


def worktree_changes(worktree: Worktree) -> list[str]:
    """Files of a worktree that were changed or added, without ignored ones."""
    listed = worktree.git(*STATUS, "--untracked-files=all", index=f"{worktree.admin}/{PRISTINE}")
    return [row[3:] for row in listed.decode(errors="replace").split("\0") if row]
