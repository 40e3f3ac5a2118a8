"""A dry run: ideas, code and results made up from hashes, the same each time; no model is asked, no sweep run."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from hashlib import sha256
from itertools import product
from typing import Any


def share(*words: object) -> float:
    """From 0 to 1."""
    return int(sha256("\0".join(map(str, words)).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


def idea(number: int, context: str) -> str:
    name = sha256(f"{number}\0{context}".encode()).hexdigest()[:8]
    return f"IDEA: Dry run {name}.\n\nRATIONALE: None; nothing is tried.\n\nREQUIRED_CHANGES:\n- Add a file.\n"


def patch(identity: str) -> bytes:
    """Adds a file that no repository has."""
    name, line = f"dry-run-{identity[:16]}.md", f"Made by a dry run: {identity}"
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1 @@\n+{line}\n".encode()


def results(tree: str, asked: Mapping[str, Any]) -> bytes:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["config_id", "status", *([asked["block"]] if "block" in asked else []), *asked["metrics"]])
    for config, block in product(asked.get("config_ids", range(asked["configs"])), asked.get("blocks", [None])):
        where = [config] if block is None else [config, block]
        numbers = (f"{1 + share(tree, *where, name):.6f}" for name in asked["metrics"])
        table.writerow([config, "ok", *where[1:], *numbers])
    return out.getvalue().encode()
