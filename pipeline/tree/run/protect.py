"""Protected files: recorded before the search, checked in every candidate, watched around every command.

protect_stage records the protected files and their imports.  Around a command: protected files are put back as in the
root, the command is kept from writing outside its checkout where the kernel can, and afterwards everything must be
unchanged (by ctime, which cannot be set).  A change that the command could not make is somebody else's: the candidate
is not to blame, and the build stops with a message."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from pipeline.core.graph import GLOB, covers_below, covers_path
from pipeline.git.objects import LINK, TreeEntry, object_name, read_blobs, tree_changes, tree_entries
from pipeline.machine.job import Job, StageFailed
from pipeline.store.files import Files, files_behind
from pipeline.store.folders import delete_tree
from pipeline.store.state import signature
from pipeline.tree.rules.positions import position
from pipeline.tree.rules.protection import (
    VOID,
    GitEntry,
    ProtectedFiles,
    folders_above,
    imported_modules,
    printable_path,
    void_reason,
)
from pipeline.tree.run.records import load, save
from pipeline.tree.run.run_repo import RunRepo

PROTECTED_PORT = "protected"  # a target with this port has its command watched
# Files of the project, shared by all targets: each is read once as long as it stays the same.
_PROJECT_FILES = Files()


def protect_stage(job: Job) -> None:
    params, root = job.target.params, load(job.reads["root"][0])
    repo = RunRepo(job.target.run).path
    files = ProtectedFiles(root["tree"], params["repo"], looked_in=params["looked_in"])
    found = {path: entry for path, entry in tree_entries(repo, root["tree"]).items() if files.covers(path)}
    if why := missing_pattern(params["repo"], found, root["commit"]):
        raise StageFailed(why, 2)
    _check_links(repo, found)
    # every Python file, also one without imports: a file beside it can still shadow a module
    python = {path: entry.blob for path, entry in found.items() if path.endswith(".py")}
    sources = read_blobs(repo, python.values())
    imports = {path: imported_modules(sources[blob]) for path, blob in python.items()}
    files = files._replace(files=found, imports=imports, project=project_digests(params["project"]))
    save(job.writes[PROTECTED_PORT][0], files)


def missing_pattern(patterns: Iterable[str], paths: Collection[str], commit: str) -> str:
    """The message about a protected path that the commit, which the search starts from, does not have; else empty."""
    for pattern in patterns:
        if not any(covers_path(pattern, path) for path in paths):
            what = f"{printable_path(pattern)} is nothing in commit {commit[:10]}, which the search starts from"
            return f"protect: {what}; name a file, a folder or a pattern of `repo:`"
    return ""


def _check_links(repo: str, entries: dict[str, TreeEntry]) -> None:
    """Check that the file behind a protected link is protected too, if it is in the repo."""
    links = {path: entry.blob for path, entry in entries.items() if entry.mode == LINK}
    leads_to = read_blobs(repo, links.values()) if links else {}
    for path, blob in links.items():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(leads_to[blob])))
        if not target.startswith(("/", "..")) and not any(covers_path(target, other) for other in entries):
            what = f"protect: {printable_path(path)} is a symbolic link to {printable_path(target)}"
            raise StageFailed(f"{what}, which is not protected; name that too", 2)


def project_digests(patterns: Iterable[str]) -> dict[str, str]:
    """Digests of the project's protected paths, as they are now."""
    found = {}
    for pattern in patterns:
        try:
            content = _PROJECT_FILES.content(pattern)
        except OSError as error:
            raise StageFailed(f"protect: {{project}}/{pattern}: {error.strerror}: {error.filename}", 2) from error
        if content is None:
            raise StageFailed(f"protect: {{project}}/{pattern} is not there; create it, or correct the path", 2)
        found[pattern] = content
    return found


def protected_of(job: Job) -> ProtectedFiles | None:
    """The files protected from the commands of this target; None for a spec without `protect:`."""
    return load_protected(job.reads[PROTECTED_PORT][0]) if PROTECTED_PORT in job.reads else None


def load_protected(path: str) -> ProtectedFiles:
    record = load(path)
    return ProtectedFiles(**record | {"files": {path: TreeEntry(*entry) for path, entry in record["files"].items()}})


def job_void_reason(job: Job, tree: str) -> str:
    """The reason not to run the candidate with the files `tree` at all; empty when it may run.

    Every stage with the port must ask."""
    if PROTECTED_PORT in job.reads and tree:
        RunRepo(job.target.run).commit(position(job.target.name))  # one recalled from the store may not be there yet
    return tree_void_reason(job, tree)


def tree_void_reason(job: Job, tree: str) -> str:
    """The same for files that are in the run's repository."""
    protected = protected_of(job)
    if protected is None or not tree:
        return ""
    return void_reason(protected, tree_changes(RunRepo(job.target.run).path, protected.tree, tree))


_RUNNABLE = "100755"
# A file by its ctime, which cannot be set, and its identity; a folder by its identity.
_Look = tuple[int, ...]


class ProtectionWatch(NamedTuple):
    """The state of protected files before a command.  `looks`: at those in `folder`, the checkout, and at the folders
    above them.  `reads`: at the command's inputs.  `walled`: its cage keeps it from writing to the `project`."""

    run: str
    protected: ProtectedFiles
    folder: str
    looks: dict[str, _Look]
    reads: dict[str, int]
    walled: bool
    project: str


def start_watch(job: Job, repo: str, folder: str, walled: bool) -> ProtectionWatch | None:
    """Put protected files back and watch them; None when nothing is protected."""
    protected = protected_of(job)
    if protected is None:
        return None
    for path in _changed_in_project(protected):
        run = job.target.run
        how = f"put it back; or `coppice forget {run}:protected` to go on with what is there now"
        raise StageFailed(f"{{project}}/{path} is protected, and is not as it was when {run} began: {how}", 2)
    restore_protected(protected, repo, folder)
    groups = (group for port, group in job.reads.items() if port.startswith("in."))
    reads = {file: signature(file) for group in groups for path in group for file in files_behind(path)}
    looks, project = dict(_looks(protected, folder)), os.path.abspath(job.project)
    return ProtectionWatch(job.target.run, protected, folder, looks, reads, walled, project)


def _changed_in_project(protected: ProtectedFiles) -> list[str]:
    now = project_digests(protected.project)
    return [path for path, was in protected.project.items() if now[path] != was]


def restore_protected(protected: ProtectedFiles, repo: str, folder: str) -> None:
    """Make the protected files of a checkout those of the root."""
    wrong = {path: entry for path, entry in protected.files.items() if _entry(f"{folder}/{path}", entry) != entry}
    contents = read_blobs(repo, (entry[1] for entry in wrong.values())) if wrong else {}
    for path, (mode, blob) in wrong.items():
        if object_name(b"blob", contents[blob]) != blob:
            raise StageFailed(f"{repo}: the object {blob} of {printable_path(path)} is damaged; see `git fsck`", 1)
        _make_way(folder, path)
        if mode == LINK:
            os.symlink(contents[blob], os.fsencode(f"{folder}/{path}"))
        else:
            with open(f"{folder}/{path}", "xb") as file:
                file.write(contents[blob])
            os.chmod(file.name, 0o755 if mode == _RUNNABLE else 0o644)


def _entry(path: str, wanted: GitEntry) -> GitEntry | None:
    """The entry of a path as git would have it; None where git has nothing, or a link is on the way."""
    try:
        mode = os.lstat(path).st_mode
        if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
            return None
        if stat.S_ISLNK(mode):
            return LINK, object_name(b"blob", os.readlink(os.fsencode(path)))
        if not stat.S_ISREG(mode) or wanted[0] == LINK:
            return None
        with open(path, "rb") as file:
            return _RUNNABLE if mode & 0o100 else "100644", object_name(b"blob", file.read())
    except OSError:
        return None


def _make_way(folder: str, path: str) -> None:
    for inner in sorted(folders_above(path), key=len):
        on_the_way = f"{folder}/{inner}"
        if inner and (os.path.islink(on_the_way) or not os.path.isdir(on_the_way)):
            delete_tree(on_the_way)
            os.mkdir(on_the_way)
    delete_tree(f"{folder}/{path}")


def _looks(protected: ProtectedFiles, folder: str) -> Iterator[tuple[str, _Look]]:
    for path in protected.files:
        yield path, _look(f"{folder}/{path}")
    for inner in sorted({inner for path in protected.files for inner in folders_above(path)}):
        yield f"{inner}/", _look(f"{folder}/{inner}")


def _look(path: str) -> _Look:
    try:
        s = os.lstat(path)
    except OSError:
        return ()
    which = (s.st_mode, s.st_dev, s.st_ino)
    return which if stat.S_ISDIR(s.st_mode) else (*which, s.st_ctime_ns)


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(folder)}/")


def tamper_reason(watch: ProtectionWatch) -> str:
    """Reason `void: …` when the command has changed a protected file or one of its inputs; else empty."""
    why = _checkout_reason(watch) or _elsewhere_reason(watch)
    return f"{VOID}{why}" if why else ""


def _checkout_reason(watch: ProtectionWatch) -> str:
    for path, was in watch.looks.items():
        now = _look(f"{watch.folder}/{path.rstrip('/')}")
        if now != was:
            name = printable_path(path.rstrip("/") or "the checkout")
            return f"{name} is protected and {_change_words(now)} while the command ran"
    try:
        added = next((path for path in _matching_files(watch) if path not in watch.protected.files), "")
    except OSError as error:  # all of it could be listed before
        name = printable_path(os.path.relpath(error.filename, watch.folder))
        return f"{name} cannot be listed any more ({error.strerror}), where files are protected"
    return f"{printable_path(added)} was added while the command ran, where all is protected" if added else ""


def _change_words(now: _Look) -> str:
    if not now:
        return "was removed"
    return "was replaced by a symbolic link" if stat.S_ISLNK(now[0]) else "was written to"


def _matching_files(watch: ProtectionWatch) -> Iterator[str]:
    """Files of the checkout that match a protected pattern now, except Python's compiled ones."""
    for pattern in watch.protected.patterns:
        if pattern in watch.protected.files and not GLOB.search(pattern):
            continue  # nothing else can match it
        top = pattern
        while top and not os.path.isdir(f"{watch.folder}/{top}"):
            top = os.path.dirname(top)
        yield from (path for path in _files_below(watch.folder, top, pattern) if covers_path(pattern, path))


def _files_below(folder: str, top: str, pattern: str) -> Iterator[str]:
    """The files and links below `top`, by their paths from `folder`.

    A folder that cannot be listed is an error where it may hide a file that matches."""

    def check(error: OSError) -> None:
        # what is gone meanwhile hides nothing
        if not isinstance(error, FileNotFoundError) and covers_below(pattern, os.path.relpath(error.filename, folder)):
            raise error

    for at, inner, names in os.walk(f"{folder}/{top}", onerror=check):
        inner[:] = [name for name in inner if name not in (".git", "__pycache__")]
        here = os.path.relpath(at, folder)
        for name in (*names, *(name for name in inner if os.path.islink(f"{at}/{name}"))):
            yield name if here == "." else f"{here}/{name}"


def _elsewhere_reason(watch: ProtectionWatch) -> str:
    """The reason to blame a command; when it could not have changed the file, somebody else has: the target fails."""
    changed = [(path, f"{{project}}/{path} is protected and") for path in _changed_in_project(watch.protected)]
    read = [path for path, was in watch.reads.items() if signature(path) != was]
    named = [(path, printable_path(path.removeprefix(f"{watch.project}/"))) for path in read]
    changed += [(path, f"{name}, which it was given to read,") for path, name in named]
    if not changed:
        return ""
    path, what = changed[0]
    if watch.walled and _is_below(path, watch.project):
        raise StageFailed(f"{what} was changed by something else while a command of {watch.run} ran; build again", 1)
    return f"{what} was changed while the command ran"
