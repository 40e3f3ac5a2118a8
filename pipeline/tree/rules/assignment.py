"""Ideas for the slots of a depth: parse idea texts, recognise duplicates, assign them, reserve their budget.

The i-th idea of a node goes to its i-th slot.  A slot stays empty for one of these reasons, in this order: no such
node, no idea, a duplicate (or nearly one, if asked) within `dedupe_scope`, no budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from pipeline.tree.rules.budget import BudgetLedger, Ceiling, affordable_count, reserve_spending, shortage_text
from pipeline.tree.rules.positions import EvalSlot, NodePlace

SECTIONS = ("IDEA", "RATIONALE", "REQUIRED_CHANGES")
_BULLET = re.compile(r"^[-*+•]\s+")
# Models write **IDEA:** or ## IDEA: too.  Only in capitals: a sentence may begin with "Idea:".
_HEADING = re.compile(rf"[#*\s]*({'|'.join(SECTIONS)}|REQUIRED CHANGES)[*\s]*:\**\s*(.*)")

# Reasons for which a slot stays empty, in the order in which they are checked.
NO_NODE, NO_IDEA, DUPLICATE, NO_BUDGET = "no such node", "no idea", "duplicate", "budget"


class ParsedIdea(NamedTuple):
    """The sections of an idea text by name, none of a text with defects."""

    sections: Mapping[str, str]
    defects: tuple[str, ...]


class FrontierPlace(NamedTuple):
    """A place of the beam to expand, unless `closed` says why not."""

    place: NodePlace
    ancestors: tuple[NodePlace, ...] = ()
    closed: str = ""


class PastIdea(NamedTuple):
    """An idea that was tried before, and where; `text` only where nearly equal ones are looked for."""

    slot: EvalSlot
    identity: str
    text: str = ""


class SlotAssignment(NamedTuple):
    """The task of a slot: try `idea`; or nothing, for the reason `empty` (`why` in full).

    `lacking`: the parts of the budget that do not suffice."""

    slot: EvalSlot
    idea: str = ""
    identity: str = ""
    empty: str = ""
    why: str = ""
    duplicate_of: EvalSlot | None = None
    lacking: tuple[str, ...] = ()


class Assignment(NamedTuple):
    """The tasks of all slots of a depth in order, and the budget with their ceilings reserved."""

    tasks: tuple[SlotAssignment, ...]
    ledger: BudgetLedger

    @property
    def past_ideas(self) -> tuple[PastIdea, ...]:
        """Ideas that the depths below must not repeat."""
        return tuple(PastIdea(task.slot, task.identity, task.idea) for task in self.tasks if not task.empty)

    @property
    def cut(self) -> tuple[str, ...]:
        """The parts of the budget that did not suffice for all of the depth."""
        return tuple(dict.fromkeys(name for task in self.tasks for name in task.lacking))


def normal_text(text: str) -> str:
    """Normalise a text: lines stripped, blank ones dropped, all bullets alike, lower case."""
    lines = (line.strip() for line in re.split(r"\r\n|\r|\n", text))
    return "\n".join(_BULLET.sub("- ", line) for line in lines if line).lower()


def idea_identity(text: str) -> str:
    """The hash of an idea; equal for ideas that differ only in layout and case."""
    return sha256(normal_text(text).encode("utf-8", "surrogatepass")).hexdigest()


def parse_idea(text: str) -> ParsedIdea:
    """Parse an idea text.  Lines before the first section are dropped: models like to introduce an idea."""
    by_section: dict[str, list[str]] = {}
    defects: list[str] = []
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.fullmatch(line):
            name = heading[1].replace(" ", "_")
            if name in by_section:
                defects.append(f"line {number}: {name} is given twice; a text is one idea")
            by_section.setdefault(name, []).append(heading[2])
        elif name:
            by_section[name].append(line)
    sections = {name: "\n".join(lines).strip() for name, lines in by_section.items()}
    for name in SECTIONS:
        if not sections.get(name):
            how = "is empty" if name in sections else "is missing"
            defects.append(f"{name} {how}; an idea has the sections {', '.join(f'{each}:' for each in SECTIONS)}")
    return ParsedIdea({} if defects else sections, tuple(defects))


# By scope: whether an idea tried at `at` must not be tried again on the node at `ground`.
DEDUPE_SCOPES: dict[str, Callable[[FrontierPlace, NodePlace], bool]] = {
    "node_plus_ancestors": lambda ground, at: at == ground.place or at in ground.ancestors,
    "global": lambda ground, at: True,
    "none": lambda ground, at: False,
}


def assign_ideas(
    frontier: Sequence[FrontierPlace],
    ideas: Mapping[NodePlace, Sequence[str]],
    ledger: BudgetLedger,
    scope: str,
    *,
    ideas_per_node: int,
    ceiling: Ceiling,
    tried: Iterable[PastIdea] = (),
    similar: float | None = None,
) -> Assignment:
    """Assign the i-th idea of a node to its i-th slot, and reserve the ceiling of each evaluation in slot order.

    `tried`: ideas of the depths above, of which `scope` picks those that count.  `similar`: how alike two ideas are
    from which the second is not tried."""
    room, lacking = affordable_count(ledger, ceiling, ideas_per_node * len(frontier))
    short = ", ".join(shortage_text(name, ledger.limits) for name in lacking)
    earlier = sorted(tried)
    tasks: list[SlotAssignment] = []
    starts: list[str] = []
    for ground in sorted(frontier):
        texts = ideas.get(ground.place, ())
        if len(texts) > ideas_per_node:
            raise ValueError(f"{ground.place}: {len(texts)} ideas for {ideas_per_node} slots; select before assigning")
        seen = _first_slots(ground, earlier, scope)
        for number in range(ideas_per_node):
            slot = EvalSlot(*ground.place, number)
            task = _task(ground, slot, texts[number] if number < len(texts) else "", seen)
            if similar is not None and not task.empty:
                task = _unless_similar(task, ground, earlier, scope, similar)
            if not task.empty and len(starts) == room:
                why = f"not enough of the budget is left: {short}"
                task = SlotAssignment(slot, identity=task.identity, empty=NO_BUDGET, why=why, lacking=lacking)
            tasks.append(task)
            if not task.empty:
                starts.append(str(slot))
                earlier.append(PastIdea(slot, task.identity, task.idea))
                seen |= _first_slots(ground, earlier[-1:], scope)
    return Assignment(tuple(tasks), reserve_spending(ledger, starts, ceiling))


def _first_slots(ground: FrontierPlace, earlier: Sequence[PastIdea], scope: str) -> dict[str, EvalSlot]:
    """The slot in which each idea was tried first."""
    counts = DEDUPE_SCOPES[scope]
    return {each.identity: each.slot for each in reversed(earlier) if counts(ground, each.slot.place)}


_WORD = re.compile(r"\w+(?:\.\d+)?")


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Words of an idea and pairs of neighbouring words: of what it changes, not of why."""
    sections = parse_idea(text).sections
    words = _WORD.findall(normal_text("\n".join(sections[n] for n in (SECTIONS[0], SECTIONS[2])) if sections else text))
    return frozenset([*((word,) for word in words), *pairwise(words)])


def idea_similarity(one: str, other: str) -> float:
    """How alike two ideas are, from 0 to 1: the share of words and pairs of words that both have (Jaccard)."""
    first, second = _shingles(one), _shingles(other)
    return len(first & second) / len(first | second) if first | second else 1.0


def _unless_similar(
    task: SlotAssignment, ground: FrontierPlace, earlier: Sequence[PastIdea], scope: str, least: float
) -> SlotAssignment:
    """The task, or an empty one when an earlier idea is nearly the same: the most similar, of equal ones the first."""
    counts = DEDUPE_SCOPES[scope]
    alike = [(idea_similarity(task.idea, each.text), each.slot) for each in earlier if counts(ground, each.slot.place)]
    likeness, first = max(alike, key=lambda pair: (pair[0], [-n for n in pair[1]]), default=(0.0, None))
    if first is None or likeness < least:
        return task
    why = f"similar to {first} ({likeness:.2f})"
    return SlotAssignment(task.slot, identity=task.identity, empty=DUPLICATE, why=why, duplicate_of=first)


def _task(ground: FrontierPlace, slot: EvalSlot, text: str, seen: Mapping[str, EvalSlot]) -> SlotAssignment:
    if ground.closed:
        return SlotAssignment(slot, empty=NO_NODE, why=f"{ground.place}: {ground.closed}")
    if not normal_text(text):
        return SlotAssignment(slot, empty=NO_IDEA, why=f"{ground.place} has no idea number {slot.idea}")
    name = idea_identity(text)
    if first := seen.get(name):
        return SlotAssignment(slot, identity=name, empty=DUPLICATE, why=f"the same idea as {first}", duplicate_of=first)
    return SlotAssignment(slot, text, name)
