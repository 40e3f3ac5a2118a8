"""TREE_SUMMARY.md from a manifest."""

from __future__ import annotations

from typing import Any


def summary(manifest: dict[str, Any]) -> str:
    return f"# {manifest['tree_run_id']}\n"
