"""The change in the answer of a coder that only writes text, as a commit; or what is wrong with it.

Nothing is written into a checkout before all of the answer has been found good: edits become a tree of git, in which no
path leads outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pipeline.git.command import CandidateProblem
from pipeline.git.commits import Candidate, commit_tree, tree_with_files, tree_with_patch
from pipeline.git.objects import LINK, read_blobs, tree_changes, tree_entries, tree_hash
from pipeline.tree.rules.edits import AnswerChange, contents_after
from pipeline.tree.rules.protection import ProtectedFiles, folders_above, void_reason


class CodeState(NamedTuple):
    """The code that an answer changes.  `base`: its commit, made from `parent`; `protected`: what must stay."""

    repo: str
    parent: str
    base: str
    protected: ProtectedFiles | None


def changed_code(state: CodeState, change: AnswerChange, message: str) -> tuple[Candidate | None, list[str]]:
    """The commit that a change makes of the code; None with what is wrong, and then nothing was applied."""
    if change.mistakes:
        return None, [*change.mistakes]
    try:
        if change.diff:
            tree = tree_with_patch(state.repo, state.base, change.diff.encode(errors="surrogateescape"))
        else:
            contents, mistakes = contents_after(change.edits, *_file_access(state))
            if mistakes:
                return None, mistakes
            tree = tree_with_files(state.repo, state.base, contents)
    except CandidateProblem as problem:
        return None, [str(problem)]
    if state.protected and (void := void_reason(state.protected, tree_changes(state.repo, state.protected.tree, tree))):
        return None, [f"{void}; it must stay as it is"]
    return commit_tree(state.repo, state.parent, tree, message), []


def _file_access(state: CodeState) -> tuple[Callable[[str], bytes | None], Callable[[str], str]]:
    """The contents of files by path, and the reason why a path may not be changed."""
    entries = tree_entries(state.repo, tree_hash(state.repo, state.base))
    folders = {folder for path in entries for folder in folders_above(path)}

    def read(path: str) -> bytes | None:
        entry = entries.get(path)
        return read_blobs(state.repo, [entry.blob])[entry.blob] if entry else None

    def refuse(path: str) -> str:
        if path in folders:
            return "is a folder"
        if path in entries and entries[path].mode == LINK:
            return "is a symbolic link; change the file that it leads to"
        return next((f"{above} is no folder" for above in folders_above(path) if above in entries), "")

    return read, refuse
