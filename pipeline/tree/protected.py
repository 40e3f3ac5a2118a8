"""The stage that says what a search may not change, before anything of it runs; and its record."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from typing import Any

from pipeline.core.globs import stands_for
from pipeline.edge.files import Files
from pipeline.edge.git.trees import LINK, Entry, blobs, changes, entries
from pipeline.edge.job import Job, StageFailed
from pipeline.tree.bench import Bench
from pipeline.tree.positions import position
from pipeline.tree.records import load, save
from pipeline.tree.touching import Protected, imported, shown, touched

PORT = "protected"  # of a target that runs a command: by it the command is watched
_PYTHON = ".py"
# Files of the project: each is read once as long as it stays the same, by whichever target asks.
_KNOWN = Files()


def protect(job: Job) -> None:
    params, root = job.target.params, load(job.reads["root"][0])
    repo, files = Bench(job.target.run).repo, Protected(root["tree"], params["repo"], looked_in=params["looked_in"])
    found = {path: entry for path, entry in entries(repo, root["tree"]).items() if files.covers(path)}
    _check_found(params["repo"], found, root["commit"])
    _check_links(repo, found)
    made = files._replace(files=found, imports=_imports(repo, found), project=digests(params["project"]))
    save(job.writes[PORT][0], made._asdict())


def _check_found(patterns: Iterable[str], found: Iterable[str], commit: str) -> None:
    for pattern in patterns:
        if not any(Protected("", (pattern,)).covers(path) for path in found):
            what = f"protect: {shown(pattern)} is nothing in commit {commit[:10]}, which the search starts from"
            raise StageFailed(f"{what}; name a file, a folder or a pattern of `repo:`", 2)


def _check_links(repo: str, found: dict[str, Entry]) -> None:
    """What a protected link leads to is what counts, as far as it is in the repo."""
    links = {path: entry.blob for path, entry in found.items() if entry.mode == LINK}
    leads_to = blobs(repo, links.values()) if links else {}
    for path, blob in links.items():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(leads_to[blob])))
        inside = not target.startswith(("/", ".."))
        if inside and not any(stands_for(target, other) for other in found):
            what = f"protect: {shown(path)} is a symbolic link to {shown(target)}, which is not protected"
            raise StageFailed(f"{what}; name that too", 2)


def _imports(repo: str, found: dict[str, Entry]) -> dict[str, list[str]]:
    """Of every Python file, also one that imports nothing: what is beside it can still take a module's place."""
    python = {path: entry.blob for path, entry in found.items() if path.endswith(_PYTHON)}
    sources = blobs(repo, python.values())
    return {path: imported(sources[blob]) for path, blob in python.items()}


def digests(patterns: Iterable[str]) -> dict[str, str]:
    """What is there now, of paths of the project."""
    found = {}
    for pattern in patterns:
        try:
            content = _KNOWN.content(pattern)
        except OSError as error:
            raise StageFailed(f"protect: {{project}}/{pattern}: {error.strerror}: {error.filename}", 2) from error
        if content is None:
            raise StageFailed(f"protect: {{project}}/{pattern} is not there; create it, or correct the path", 2)
        found[pattern] = content
    return found


def protected_of(job: Job) -> Protected | None:
    """What is protected from the commands of this target; None for a spec without `protect:`."""
    if PORT not in job.reads:
        return None
    record: dict[str, Any] = load(job.reads[PORT][0])
    files = {path: Entry(*entry) for path, entry in record["files"].items()}
    return Protected(**{**record, "files": files})


def void(job: Job, tree: str) -> str:
    """Why the candidate of this target, whose files are `tree`, is not to be run at all; empty when it may be.

    To be asked by every stage that has the port."""
    protected = protected_of(job)
    if protected is None or not tree:
        return ""
    bench = Bench(job.target.run)
    bench.commit(position(job.target.name))  # recalled from the store it may not be there yet
    return touched(protected, changes(bench.repo, protected.tree, tree))
