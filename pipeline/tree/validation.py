"""Is all there that the manifest speaks of, and as it was recorded?"""

from __future__ import annotations

from typing import Any


def problems(manifest: dict[str, Any]) -> list[str]:
    return []


def validation_report(manifest: dict[str, Any], found: list[str]) -> str:
    return f"# {manifest['tree_run_id']}: {len(found)} problems\n"
