"""Keys that the specs of both proving kinds share, `lean` and `ledger`, and the first target of their runs.

That target records which Lean is asked; what stands in its toolchain.json is an input of all that follows."""

from __future__ import annotations

import os

from pipeline.core.graph import Limits, Target
from pipeline.core.recipe import LIMITS
from pipeline.lean.model import LeanKeys
from pipeline.spec import Item
from pipeline.spec_fields import SOME_TEXT, Field, FieldTable, Reader, choice, count, folder_path

BACKENDS = ("wasm", "native", "leandojo")
TOOLCHAIN = "toolchain"
DEFAULT_LEDGER = "runs/.ledger/ledger.db"
MOST_PROCESSES = 256
LEAST_MEMORY = 256  # megabytes; no Lean fits into less


def _path(item: Item, what: str) -> str:
    _ = item.text(what) or item.wrong(f"{what}: expected a path, found nothing")
    return os.path.normpath(os.path.expanduser(folder_path(item, what)))


def _project(item: Item, what: str) -> str:
    folder = _path(item, what)
    if not os.path.isdir(folder):
        item.wrong(f"{what}: {folder} is no folder; name the one with the project's lakefile")
    return folder


PATH = Reader(_path, SOME_TEXT)
LEDGER = Field("ledger", PATH, "where attempts are kept; runs may share it", DEFAULT_LEDGER)


def lean_table(defaults: LeanKeys) -> FieldTable:
    return FieldTable(
        Field("backend", choice(BACKENDS),
              "`wasm`: Lean 4.28 from the package registries, core library; `native`: the `lean` on the PATH; "
              "`leandojo`: a repository, through the package `lean_dojo`"),
        Field("processes", count(1, MOST_PROCESSES),
              "processes of it at once: so many attempts run at a time, whatever `max_light` says"),
        Field("memory", count(LEAST_MEMORY), "megabytes above which a process makes place for a new one"),
        Field("project", Reader(_project, SOME_TEXT), "the folder of the repository, for `native` and `leandojo`"),
        defaults=defaults._asdict(),
        rules={
            "if": {"properties": {"backend": {"const": "leandojo"}}, "required": ["backend"]},
            "then": {"required": ["project"]},
            "else": {
                "if": {"properties": {"backend": {"const": "native"}}, "required": ["backend"]},
                "else": {"properties": {"project": False}},
            },
        },
    )  # fmt: skip


def lean_field(defaults: LeanKeys, meaning: str) -> Field:
    table = lean_table(defaults)

    def read(item: Item, what: str) -> LeanKeys:
        keys = table.read(item, what)
        backend = keys["backend"]
        if "project" in keys and backend == "wasm":
            keys.wrong("project", "project: the backend wasm has the core library alone; use native or leandojo")
        if "project" not in keys and backend == "leandojo":
            item.wrong("lean: backend leandojo proves in a repository; name it with `project:`")
        found: LeanKeys = keys.record(LeanKeys)
        return found

    return Field("lean", Reader(read, table.schema), meaning, defaults, without="`wasm`")


def run_files(run: str, *names: str) -> dict[str, tuple[str, ...]]:
    """Files of a run, each by a port that is called like it."""
    return {name: (f"runs/{run}/{name}",) for name in names}


def toolchain_target(run: str, line: int, lean: LeanKeys) -> Target:
    """`line`: of the spec in its file."""
    reads = (("project", (lean.project,)),) if lean.project else ()
    writes = tuple(run_files(run, "toolchain.json").items())
    params = {"backend": lean.backend, "project": lean.project}
    return Target(f"{run}:{TOOLCHAIN}", TOOLCHAIN, reads, writes, params, Limits(), line)


def has_library(target: Target) -> bool:
    """True if the Lean that it asks may know more than the core library."""
    lean = target.params[LIMITS]["lean"]
    return lean["backend"] != "wasm" and bool(lean["project"])
