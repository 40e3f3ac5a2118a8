"""The bank that Coppice ships, and the proofs by which it is known to be true."""

from __future__ import annotations

from kit.project import ROOT
from pipeline.goals.bank import Goal, read_bank

BANK = read_bank((ROOT / "bench/bank.jsonl").read_bytes())
PROOFS = (ROOT / "tests/goals/bank_proofs.lean").read_text(encoding="utf-8")


def proof(goal: Goal) -> str:
    """As one tactic: what stands indented below the very statement of the goal."""
    below = PROOFS.partition(f"theorem {goal.id} : {goal.text} := by\n")[2]
    lines = []
    for line in below.split("\n"):
        if not line.startswith("  "):
            break
        lines.append(line)
    return "\n".join(["(", *lines, ")"]) if lines else ""
