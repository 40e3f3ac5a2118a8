"""Where in a search a target is, by its name: `run:d0.n0.i2.sweep`, `run:d0.n0.row.3`, `run:d1.promote`."""

from __future__ import annotations

from pipeline.tree.slots import ROOT, Place, Slot, parse_place, parse_slot

AGAIN = "calibrate"  # begins the names of targets that measure the root once more

SCORED = ("score", "settle")  # stages that end an evaluation: by its means alone, or with all of its depth
FIRST, REST, HOLDOUT = "first", "rest", "holdout"  # parts of a sweep: which blocks


def own_name(target: str) -> str:
    """Without that of the run."""
    return target.partition(":")[2]


def depth_of(target: str) -> int:
    return int(own_name(target).partition(".")[0].removeprefix("d"))


def position(target: str) -> Slot | Place:
    parts = own_name(target).split(".")
    if parts[0] == AGAIN:
        return ROOT
    is_slot = parts[2].startswith("i") and parts[2] != "idea"
    return parse_slot(".".join(parts[:3])) if is_slot else parse_place(".".join(parts[:2]))


def again(target: str) -> str:
    """Of a target that measures the root once more, `calibrate.seed.3.row.1`, so that none is in the way of another;
    empty for all others."""
    name = own_name(target)
    return name if name.startswith(f"{AGAIN}.") else ""


def part_of(target: str) -> str:
    """Which part of a sweep it measures, where it is divided."""
    return next((part for part in own_name(target).split(".") if part in (FIRST, REST, HOLDOUT)), "")


def slot_of(target: str) -> Slot:
    """Of a target that is there for each slot."""
    found = position(target)
    assert isinstance(found, Slot)
    return found
