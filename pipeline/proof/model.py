"""What a worker answers about a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STRATEGIES = ("micro", "copilot", "reprover", "sketch")
TIMEOUTS = {"micro": 8.0, "copilot": 20.0, "reprover": 60.0, "sketch": 6.0}
# In the metadata of what a worker raised.  That is a mistake in the worker and says nothing of the goal: once it is
# mended, nobody wants it recalled.
RAISED = "raised"


@dataclass(frozen=True)
class Result:
    """One attempt.  `success` means a proof that was found; whether it counts is for the check of it to say.

    `tactics` is the proof, a line of script each."""

    success: bool
    strategy: str
    tactics: tuple[str, ...] = ()
    time_seconds: float = 0.0
    subgoals: tuple[str, ...] = ()
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
