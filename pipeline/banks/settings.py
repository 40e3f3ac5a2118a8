"""What specs of all kinds that prove say alike."""

from __future__ import annotations

from typing import NamedTuple

LEDGER = "runs/.ledger/ledger.db"


class LeanKeys(NamedTuple):
    """Which Lean, and how much of it.  `memory`: megabytes after which a process makes place for a new one.

    `project`: the folder of a repository, whose toolchain is used."""

    backend: str = "wasm"
    processes: int = 2
    memory: int = 1400
    project: str = ""
