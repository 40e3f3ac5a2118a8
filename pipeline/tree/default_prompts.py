"""The prompts that are asked when a spec names none."""

from __future__ import annotations

import os


def path_of(role: str) -> str:
    return os.path.join(os.path.dirname(__file__), "prompts", f"{role}.md")


def text_of(role: str) -> str:
    with open(path_of(role), encoding="utf-8") as file:
        return file.read()
