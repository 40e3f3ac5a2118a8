"""A repository for LeanDojo: with a lakefile and a toolchain's name in it, and one commit."""

from __future__ import annotations

import subprocess
from pathlib import Path


def committed(project: Path) -> str:
    """In a folder that is there; its commit."""
    (project / "lakefile.toml").write_text('name = "demo"\n')
    (project / "lean-toolchain").write_text("leanprover/lean4:v4.28.0\n")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.example", "-C", str(project)]
    for what in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A project"]):
        subprocess.run([*git, *what], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
