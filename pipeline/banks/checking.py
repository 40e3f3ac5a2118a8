"""Why a whole proof does not hold, as it is told."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.edge.lean.model import UNTOLD, Lean, Stop, Theorem


def why_not(lean: Lean, theorem: Theorem, script: Sequence[str], stop: Stop | None = None) -> str:
    """Nothing when it holds.

    It held once: where a process came to its end over it, another one is asked."""
    wrong = lean.check(theorem, script, stop)
    if wrong and wrong.kind in UNTOLD:
        wrong = lean.check(theorem, script, stop)
    return f"{wrong.kind}: {wrong.error}" if wrong else ""
