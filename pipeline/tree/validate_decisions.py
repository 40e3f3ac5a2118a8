"""Check of decisions: each one, made again from what it was made of, comes out as it is recorded."""

from __future__ import annotations

from collections.abc import Collection

from pipeline.tree.problem import Check, Fault, check, shown
from pipeline.tree.replaying import replayed


def decisions(run: str, without: Collection[str]) -> Check:
    """`without`: paths of records that must not be believed.  What is missing or changed, other checks have said."""
    found = replayed(run)
    faults: list[Fault] = []
    for each in found:
        again = f"decide again: coppice forget {each.target}, then coppice {run}"
        for path, where, recorded, rebuilt in each.differences:
            if path not in without:
                faults.append((f"{path}: {where}", f"is {shown(recorded)}, made again it is {shown(rebuilt)}", again))
    return check("scores and decisions, made again from what they were made of", len(found), faults)
