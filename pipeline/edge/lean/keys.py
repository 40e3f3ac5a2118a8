"""The key of a goal: what the goal is, and the commands before it, which decide what it means and what proves it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256


def key(before: Sequence[str], goal: str) -> str:
    return sha256(json.dumps([*before, goal]).encode()).hexdigest()
