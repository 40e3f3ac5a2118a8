"""What is recorded of the seal: every opening, and what was found."""

from __future__ import annotations

import os

from pipeline.tree.layout import VERDICT, Layout
from pipeline.tree.records import Record, load_if_whole
from pipeline.tree.sealing import ledger


def told(run: str) -> Record:
    """All openings, and what the last of them found."""
    found = ledger(run)
    path = Layout(run).of_run(VERDICT)
    result = load_if_whole(path) if os.path.exists(path) else None
    return {"run": run, "openings": found.openings, "lacking": found.taken, "result": result}
