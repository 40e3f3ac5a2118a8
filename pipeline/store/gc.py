"""Garbage collection of a store: drops what no checkout refers to, while the store's lock is held alone."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence

from pipeline.core.outcome import CheckoutRefs, FileCount, GcReport
from pipeline.store.files import write_whole
from pipeline.store.folders import delete_tree
from pipeline.store.receipts import DONE, Receipts, parse_line
from pipeline.store.results import SHA, Store, checkout_name, parse_result

_ROOT = re.compile(r"[0-9a-f]{16}")
_DRAFT = re.compile(r".+\.\d+\.\d+")


def references(runs: Iterable[str]) -> set[str]:
    """Collect the keys of all results in the receipts of these runs, so that undoing an edit finds its results.

    Receipts forget older lines when most of the file is out of date."""
    keys: set[str] = set()
    for run in runs:
        try:
            with open(Receipts.path_of(run), "rb") as file:
                lines = map(parse_line, file.read().split(b"\n"))
        except FileNotFoundError:
            continue  # started once, never finished anything
        keys |= {line.fields["key"] for line in lines if line and line.event == DONE}
    return keys


def collect_garbage(store: Store, own: Collection[str], dry: bool) -> GcReport:
    """Drop what neither `own`, the references of this checkout, nor the files of other checkouts refer to."""
    results = {*store.entry_names("results")}
    others = _other_checkouts(store)
    if not dry:
        lines = (f"# {checkout_name()}", *sorted(results.intersection(own)))  # its builders are locked out
        os.makedirs(os.path.dirname(store.root), exist_ok=True)
        write_whole(store.root, "".join(f"{line}\n" for line in lines).encode())
    kept = results.intersection(own).union(*(keys & results for _, keys in others))
    dropped = _remove(_entry_paths(store, "results", results - kept), dry)
    whole, objects = _undamaged_results(store, kept)
    damaged = _remove([*_entry_paths(store, "results", kept - whole), *_damaged(store)], dry)
    idle = {*store.entry_names("objects")} - objects
    freed = _remove(_entry_paths(store, "objects", idle), dry)
    # Left behind by a kill: while we hold the lock nobody writes any.
    left_behind = [path for path in _files(f"{store.folder}/drafts") if _DRAFT.fullmatch(os.path.basename(path))]
    left_behind += [path for path in _files(f"{store.folder}/roots") if path.endswith(".draft")]
    drafts = _remove(left_behind, dry)
    left = _tally([*_entry_paths(store, "results", whole), *_entry_paths(store, "objects", objects)])
    named = tuple(root._replace(results=len(keys & results)) for root, keys in others)
    return GcReport(store.folder, dropped, freed, drafts, damaged, left, named)


def _other_checkouts(store: Store) -> list[tuple[CheckoutRefs, set[str]]]:
    found = []
    for path in _files(f"{store.folder}/roots"):
        if path == store.root or not _ROOT.fullmatch(os.path.basename(path)):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        place = lines[0][2:] if lines and lines[0].startswith("# ") else ""
        found.append((CheckoutRefs(place, path, 0), {*lines}))
    return found


def _undamaged_results(store: Store, names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Find the undamaged results among these, and the objects they name."""
    whole: set[str] = set()
    objects: set[str] = set()
    for name in names:
        stored = parse_result(store.read_entry(name) or b"")  # whoever signed it: others may believe it
        if stored is not None:
            whole.add(name)
            objects.update(stored.objects)
    return whole, objects & {*store.entry_names("objects")}


def _damaged(store: Store) -> list[str]:
    """Things that were set aside: files, and folders that stood where entries do."""
    folders = [path for path in _names(f"{store.folder}/damaged") if SHA.fullmatch(os.path.basename(path))]
    return [*{*_files(f"{store.folder}/damaged"), *folders}]


def _entry_paths(store: Store, part: str, names: Iterable[str]) -> list[str]:
    return [store.place(part, name) for name in sorted(names)]


def _files(folder: str) -> list[str]:
    return [path for path in _names(folder) if os.path.isfile(path) or os.path.islink(path)]


def _names(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []


def _remove(paths: Sequence[str], dry: bool) -> FileCount:
    tally = _tally(paths)
    for path in () if dry else paths:
        delete_tree(path)
    return tally


def _tally(paths: Collection[str]) -> FileCount:
    return FileCount(len(paths), sum(os.lstat(path).st_size for path in paths))
