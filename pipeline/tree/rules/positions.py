"""Positions of nodes and evaluations in a search, and the path of every record below runs/<run>/.

d1.n0 is the best node of depth 1 (NodePlace), d1.n0.i2 the third idea tried on it (EvalSlot).  Names of targets begin
with a position (`run:d0.n0.i2.sweep`, `run:d0.n0.row.3`, `run:d1.promote`), and only this module reads it from there:
in the parameters it would be part of the recipe, and the same work in another slot would not be found again."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_PLACE = rf"d{_NUMBER}\.n{_NUMBER}"
_SLOT = rf"{_PLACE}\.i{_NUMBER}"


class NodePlace(NamedTuple):
    """A place of the beam: a depth and a rank in it.  It holds a node or is empty."""

    depth: int
    node: int

    def __str__(self) -> str:
        return f"d{self.depth}.n{self.node}"


class EvalSlot(NamedTuple):
    """A slot for one evaluation; slots compare in the order in which they are assigned."""

    depth: int
    node: int
    idea: int

    def __str__(self) -> str:
        return f"d{self.depth}.n{self.node}.i{self.idea}"

    @property
    def place(self) -> NodePlace:
        return NodePlace(self.depth, self.node)


ROOT = NodePlace(0, 0)
NO_SLOT = EvalSlot(*ROOT, 0)  # of a summary, which has no position


def parse_place(text: str) -> NodePlace:
    if match := re.fullmatch(_PLACE, text):
        return NodePlace(*map(int, match.groups()))
    raise ValueError(f"'{text}' is no place of the beam; it would be like d1.n0")


def parse_slot(text: str) -> EvalSlot:
    if match := re.fullmatch(_SLOT, text):
        return EvalSlot(*map(int, match.groups()))
    raise ValueError(f"'{text}' is no slot; it would be like d1.n0.i2")


def find_slot(name: str) -> EvalSlot | None:
    """The slot with which the own name of a target begins, such as `d0.n0.i2.sweep`; None for any other name."""
    match = re.match(rf"{_SLOT}(?![^.])", name)
    return EvalSlot(*map(int, match.groups())) if match else None


def places_of(depth: int, beam_width: int) -> tuple[NodePlace, ...]:
    """The places of a depth, in order; depth 0 has the root alone."""
    return tuple(NodePlace(depth, node) for node in range(beam_width if depth else 1))


def slots_of(depth: int, beam_width: int, ideas_per_node: int) -> tuple[EvalSlot, ...]:
    """The slots of a depth, in order."""
    return tuple(EvalSlot(*place, idea) for place in places_of(depth, beam_width) for idea in range(ideas_per_node))


CALIBRATION_PREFIX = "calibrate"  # begins the names of targets that measure the root once more

ASKING_STAGES = ("idea", "implement")  # stages that ask models
CANDIDATE_STAGES = ("implement", "test", "checks", "sweep", "row")  # stages that make a candidate and measure it
PAID_STAGES = ("idea", *CANDIDATE_STAGES)  # stages that cost money or hours
SCORING_STAGES = ("score", "settle")  # stages that end an evaluation: by its means alone, or with all of its depth
FIRST_PART, REST_PART, HOLDOUT_PART = "first", "rest", "holdout"  # parts of a sweep: which blocks


def own_name(target: str) -> str:
    """The name of a target without that of its run."""
    return target.partition(":")[2]


def depth_of(target: str) -> int:
    return int(own_name(target).partition(".")[0].removeprefix("d"))


def parse_position(text: str) -> EvalSlot | NodePlace:
    return parse_slot(text) if ".i" in text else parse_place(text)


def position(target: str) -> EvalSlot | NodePlace:
    """The position that a target works at; the root for one that measures it once more."""
    parts = own_name(target).split(".")
    if parts[0] == CALIBRATION_PREFIX:
        return ROOT
    is_slot = parts[2].startswith("i") and parts[2] != "idea"
    return parse_slot(".".join(parts[:3])) if is_slot else parse_place(".".join(parts[:2]))


def calibration_name(target: str) -> str:
    """The own name of a target that measures the root once more, such as `calibrate.seed.3.row.1`; else empty."""
    name = own_name(target)
    return name if name.startswith(f"{CALIBRATION_PREFIX}.") else ""


def sweep_part(target: str) -> str:
    """The part of a divided sweep that a target measures; else empty."""
    return next((part for part in own_name(target).split(".") if part in (FIRST_PART, REST_PART, HOLDOUT_PART)), "")


def is_of_search(target: str) -> bool:
    """False for targets that measure the root once more, or what is held out."""
    return not calibration_name(target) and sweep_part(target) != HOLDOUT_PART


def slot_of(target: str) -> EvalSlot:
    """The slot of a target that every slot has."""
    slot = position(target)
    assert isinstance(slot, EvalSlot)
    return slot


class RunLayout(NamedTuple):
    """Paths of a run's records, from the project's folder on."""

    run: str

    def of_run(self, name: str) -> str:
        return f"runs/{self.run}/{name}"

    def of_depth(self, depth: int, name: str) -> str:
        return f"runs/{self.run}/depths/{depth}/{name}"

    def of_node(self, place: NodePlace, name: str) -> str:
        return f"runs/{self.run}/nodes/{place}/{name}"

    def of_eval(self, slot: EvalSlot, name: str) -> str:
        return f"runs/{self.run}/eval/{slot}/{name}"

    def of_holdout(self, where: NodePlace | EvalSlot, name: str) -> str:
        return f"runs/{self.run}/{HOLDOUT_FOLDER}/{where}/{name}"

    def of_position(self, where: NodePlace | EvalSlot, name: str) -> str:
        return self.of_eval(where, name) if isinstance(where, EvalSlot) else self.of_node(where, name)

    def csv(self, where: NodePlace | EvalSlot) -> str:
        return f"runs/{self.run}/artifacts/{where}.csv"

    def idea(self, slot: EvalSlot, suffix: str) -> str:
        """The file of an idea: md is the text, json its cost, patch the recorded change, where there is one."""
        return f"runs/{self.run}/node_ideas/{slot.place}/idea_{slot.idea:03}.{suffix}"

    def given_idea(self, slot: EvalSlot) -> str:
        """The idea that a person gave for a slot."""
        return self.of_run(f"{GIVEN_IDEAS}/{slot}.md")


# What people asked of a search while it went on, and the ideas that they gave it.
STEERING, GIVEN_IDEAS = "steering.jsonl", "given"
BRANCHES = "branches.json"  # those made of it in the user's repository
# Files of a run's folder that are made from all its records.
MANIFEST, EVENTS = "manifest.json", "events.jsonl"
HOLDOUT_FOLDER, OPENINGS, VERDICT = "holdout", "holdout.jsonl", "holdout.json"
SUMMARY, VALIDATION = "TREE_SUMMARY.md", "VALIDATION_REPORT.md"
CALIBRATION_FOLDER = "calibrate"  # what `coppice calibrate` has measured
# Folders of worktrees.
NODES = "wt"
CANDIDATES = "cand"
BY_HAND = "hand"
# Files and folders of a run's folder that no target writes.
OWN_FILES = {".coppice", "repo.git", MANIFEST, EVENTS, SUMMARY, VALIDATION}
OWN_FILES |= {STEERING, GIVEN_IDEAS, BRANCHES}
OWN_FILES |= {CANDIDATES, BY_HAND, CALIBRATION_FOLDER, HOLDOUT_FOLDER, OPENINGS, VERDICT}
