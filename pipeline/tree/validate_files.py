"""Checks of files: all that a target wrote is there as it was recorded, and nothing else lies about."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.edge.files import sha_of
from pipeline.edge.receipts import Receipts
from pipeline.tree.event_log import EventLog
from pipeline.tree.layout import (
    BY_HAND,
    CALIBRATED,
    CANDIDATES,
    EVENTS,
    HELD,
    MANIFEST,
    NODES,
    OPENINGS,
    SUMMARY,
    VALIDATION,
    VERDICT,
    Layout,
)
from pipeline.tree.model import MANUAL, PATCHES, PER_CONFIG
from pipeline.tree.positions import FIRST, REST
from pipeline.tree.problem import Check, Fault, check
from pipeline.tree.scoring import PAIRED
from pipeline.tree.slots import places_of, slots_of

# Of a run's folder, what no target writes and belongs there all the same.
OURS = {".coppice", "repo.git", MANIFEST, EVENTS, SUMMARY, VALIDATION}
OURS |= {CANDIDATES, BY_HAND, CALIBRATED, HELD, OPENINGS, VERDICT}

_IDEA = re.compile(r"/(d[0-9]+\.n[0-9]+)/idea_([0-9]+)")
_DEPTH = re.compile(r"/depths/([0-9]+)")
_POSITION = re.compile(r"\bd[0-9]+\.n[0-9]+(\.i[0-9]+)?|(?<=/depths/)[0-9]+|(?<=/idea_)[0-9]+|(?<=/rows/)[0-9]+")


def targets(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of all targets that the search has, by what must have been built when all of them must."""
    shape = config["beam_width"], config["ideas_per_node"]
    paired = config["method"] == PAIRED
    before = {"test": config["tests"], "checks": config["checks"] or config["protect"]}
    swept = [*(f"d0.n0.{step}" for step, there in before.items() if there), *_sweep("d0.n0", config)]
    swept += ["protected"] if config["protect"] else []
    recorded = config["backends"]["ideas"] == PATCHES
    found = {"d0.assign": ["root", *swept, "d0.n0.node", *(["ideas"] if recorded else [])]}
    for depth in range(config["max_depth"]):
        steps = {"assign": True, "cascade": config["cascade"], "weigh": paired, "promote": True}
        names = [f"d{depth}.{step}" for step, there in steps.items() if there]
        by_hand = config["backends"]["coder"] == MANUAL
        some = {"idea": not recorded, "change": by_hand, "implement": True, "pairs": paired, **before}
        some |= {"early": config["cascade"], "score": True}
        of_slot = [step for step, there in some.items() if there]
        for slot in slots_of(depth, *shape):
            names += [*(f"{slot}.{step}" for step in of_slot), *_sweep(str(slot), config)]
        found[f"d{depth}.promote"] = names
        # nodes are made afterwards: whoever goes a depth at a time may not have them yet
        found[f"d{depth + 1}.assign"] = [f"{place}.node" for place in places_of(depth + 1, config["beam_width"])]
    return found | {"validate": ["report"]}


def _sweep(where: str, config: Mapping[str, Any]) -> Iterator[str]:
    parts = [f"{where}.{FIRST}", f"{where}.{REST}"] if config["cascade"] else []
    yield from (f"{where}.sweep", *parts)
    if config["sweep_mode"] == PER_CONFIG and not config["dry_run"]:
        count = min(config["sweep_config_limit"] or config["grid"], config["grid"])
        ids = config.get("config_ids", range(count))
        yield from (f"{part}.row.{n}" for part in parts or [where] for n in ids)


def recorded(run: str, config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The sha256 of every file by the receipts, and the targets that have none though later ones have."""
    receipts = Receipts(run)
    built = {*receipts.names()}
    outputs: dict[str, str] = {}
    lacking: list[str] = []
    for last, names in targets(config).items():
        for name in names:
            receipt = receipts.receipt(f"{run}:{name}")
            outputs |= receipt.outputs if receipt else {}
            lacking += [name] if receipt is None and f"{run}:{last}" in built else []
    return outputs, lacking


def files(run: str, outputs: Mapping[str, str], lacking: list[str]) -> Check:
    again = f"build again: coppice {run}"
    faults: list[Fault] = [(f"{run}:{name}", "was not built, what comes after it was", again) for name in lacking]
    faults += [fault for path, sha in outputs.items() if (fault := _file(path, sha, again))]
    return check("files as their targets wrote them (sha256)", len(outputs) + len(lacking), faults)


def _file(path: str, sha: str, again: str) -> Fault | None:
    if not os.path.isfile(path):
        return path, "is missing", again
    found = sha_of(path)
    if found == sha:
        return None
    return path, f"was changed since it was written: sha256 {found[:12]}…, recorded {sha[:12]}…", again


def bad(faults: Check) -> frozenset[str]:
    """Paths of which nothing that is in them may be believed."""
    return frozenset(problem.path for problem in faults.problems)


def foreign(run: str, outputs: Mapping[str, str], config: Mapping[str, Any]) -> Check:
    """What the search wrote when it had a wider shape is its own still: that may come back."""
    top = f"runs/{run}"
    known = {*outputs}
    folders = {folder for path in outputs for folder in _above(path, top)} | _kept(top, config)
    forms, told = {*map(_form, known), *map(_form, folders)}, _told(run)
    found = [
        (path, "is no file of this search", "move it away, or remove it")
        for path in _strangers(top, top, known, folders)
        if not (_form(path) in forms and _told_of(path, told))
    ]
    return check("files that belong to the search, and no others", len(known), found)


def _told(run: str) -> set[str]:
    """The positions that the events of the run speak of."""
    events = EventLog(Layout(run).of_run(EVENTS)).read()
    return {event[name] for event in events for name in ("eval_id", "node_id") if name in event}


def _told_of(path: str, told: Collection[str]) -> bool:
    """Is the position that it is of among these?"""
    if idea := _IDEA.search(path):
        return f"{idea[1]}.i{int(idea[2])}" in told
    if depth := _DEPTH.search(path):
        return any(position.startswith(f"d{depth[1]}.") for position in told)
    return any(position[0] in told for position in _POSITION.finditer(path))


def _form(path: str) -> str:
    """Alike for all positions."""
    return _POSITION.sub("*", path)


def _above(path: str, top: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) and path != top:
        yield path


def _kept(top: str, config: Mapping[str, Any]) -> set[str]:
    """Folders for nodes; that a place is empty does not matter here."""
    places = [p for depth in range(config["max_depth"] + 1) for p in places_of(depth, config["beam_width"])]
    return {f"{top}/{NODES}", *(f"{top}/{NODES}/{place}" for place in places)}


def _strangers(folder: str, top: str, known: set[str], folders: set[str]) -> Iterator[str]:
    """A folder that is strange as a whole is named once."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{folder}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _in_folder(path, top, known, folders)
        elif path not in known and not (folder == top and _is_ours(entry.name)):
            yield path


def _is_ours(name: str) -> bool:
    """Whoever builds may be about to put a new manifest in place."""
    return name in OURS or (name.startswith(f"{MANIFEST}.") and name.endswith(".draft"))


def _in_folder(path: str, top: str, known: set[str], folders: set[str]) -> Iterator[str]:
    parent, name = os.path.split(path)
    if (parent == top and name in OURS) or (parent == f"{top}/{NODES}" and path in folders):
        return
    if path in folders:
        yield from _strangers(path, top, known, folders)
    elif not (parent in folders and _is_output(name, parent, top)):
        yield path


def _is_output(name: str, parent: str, top: str) -> bool:
    """What a command left in its folder of outputs is its own affair."""
    return os.path.dirname(parent) in (f"{top}/eval", f"{top}/nodes") and (name == "out" or name.startswith("out."))
