"""What a build from nothing would give: worked out from the model alone, without any of the tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz.action import content
from benchmarks.fuzz.model import CODE, FOLDERS, Project, Target, targets

Sources = Mapping[str, bytes]


class Truth(NamedTuple):
    """Of one target: what decides its result, what that is, and the sha256 of each file, folder, pattern it reads."""

    target: Target
    identity: str
    outputs: dict[str, bytes]
    inputs: dict[str, str]


def snapshot(root: Path) -> dict[str, bytes]:
    found = {CODE: (root / CODE).read_bytes()}
    for top in ("src", "data"):
        for folder, _, names in os.walk(root / top):
            for name in names:
                path = Path(folder, name)
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def truths(project: Project, sources: Sources) -> dict[str, Truth]:
    """By `run:name`, in an order in which each comes after all it reads from."""
    out: dict[str, Truth] = {}
    files: dict[str, bytes] = dict(sources)
    for target in targets(project):
        truth = _truth(target, files)
        files |= truth.outputs
        out[f"{target.run}:{target.name}"] = truth
    return out


def _truth(target: Target, files: Sources) -> Truth:
    step = target.step
    own = f"runs/{target.run}/"
    groups = [[(path, files[path]) for path in behind(entry, files)] for entry in target.reads]
    pairs = [(path.removeprefix(own), body) for group in groups for path, body in group]
    made = [
        content(str(step.salt), target.told, number, pairs, step.lines, "c" in step.flags)
        for number in range(len(step.ports))
    ]
    decides = [step.how, step.salt, target.told, step.lines, step.flags, step.ports]
    decides += [
        [entry.removeprefix(own) for entry in target.reads],
        [(name, sha(body)) for name, body in pairs],
    ]
    if step.how == "call":
        decides.append(sha(files[CODE]))
    plain = [*target.reads, *([CODE] if step.how == "call" else [])]
    inputs = {path: sha(files[path]) for path in plain if path in files}
    inputs |= {path.rstrip("/"): _sha_of_all(behind(path, files), files) for path in target.reads if path in FOLDERS}
    return Truth(target, sha(repr(decides).encode()), dict(zip(target.outputs, made, strict=True)), inputs)


def _sha_of_all(paths: list[str], files: Sources) -> str:
    """As receipts have it: in each folder first the files, then what is in the folders."""
    order = sorted(paths, key=lambda path: [*((1, part) for part in path.split("/")[:-1]), (0, path.split("/")[-1])])
    return sha(b"".join(f"{path}\0{sha(files[path])}\n".encode() for path in order))


def behind(entry: str, files: Sources) -> list[str]:
    """The files that a folder or pattern stands for."""
    if entry.endswith("/"):
        return sorted(path for path in files if path.startswith(entry))
    if "*" not in entry:
        return [entry]
    return sorted(path for path in files if _matches(entry.split("/"), path.split("/")))


def _matches(pattern: list[str], path: list[str]) -> bool:
    """Part by part; `**` is any number of folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        return any(_matches(pattern[1:], path[at:]) for at in range(len(path)))
    return fnmatchcase(path[0], pattern[0]) and _matches(pattern[1:], path[1:])


def sha(body: bytes) -> str:
    return sha256(body).hexdigest()
