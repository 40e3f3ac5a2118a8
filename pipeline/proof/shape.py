"""What a goal looks like, read off its text: the class by which attempts are counted, and traits a bandit learns by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from pipeline.goals.model import Goal
from pipeline.proof.bandits.model import Shape

# The first type of these that a statement names is what it is about.
TYPES = ("List", "Option", "Fin", "Bool", "Int", "Nat", "Prop")
# Signs and words whose being there is a trait.
SIGNS = (
    "∃",
    "∧",
    "∨",
    "¬",
    "↔",
    "≠",
    "≤",
    "<",
    "∣",
    "%",
    "/",
    "^",
    "*",
    "-",
    "+",
    "∈",
    "::",
    "++",
    "fun",
    "if",
    "!",
    "&&",
    "||",
)
RELATIONS = ("↔", "∨", "∧", "≠", "=", "≤", "<", "≥", ">", "∣", "¬")
_BINDER = re.compile(r"[({∀∃]")
_NUMBER = re.compile(r"(?<![\w.])\d+")
_WORD = re.compile(r"[A-Za-z]\w*")


def shape(goal: Goal) -> Shape:
    return shape_of(goal.text)


@lru_cache(maxsize=4096)
def shape_of(text: str) -> Shape:
    about = _about(text)
    conclusion = _conclusion(text)
    relation = next((sign for sign in RELATIONS if sign in conclusion), "?")
    return Shape(f"{about} {relation}", tuple(dict.fromkeys(_traits(text, conclusion))))


def _about(text: str) -> str:
    words = set(_WORD.findall(text))
    return next((each for each in TYPES if each in words), "?")


def _conclusion(text: str) -> str:
    """What is to be shown under all hypotheses: what follows the last comma or arrow outside of brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "([{⟨") - (sign in ")]}⟩")
        if depth == 0 and sign in ",→":
            start = place + 1
    return text[start:]


def _traits(text: str, conclusion: str) -> Iterator[str]:
    words = set(_WORD.findall(text))
    yield from (f"about {each}" for each in TYPES if each in words)
    yield from (f"has {sign}" for sign in SIGNS if sign in text)
    yield from (f"shows {sign}" for sign in SIGNS if sign in conclusion)
    numbers = [int(each) for each in _NUMBER.findall(text)]
    yield f"numbers {_steps(max(numbers, default=0), (1, 10, 100, 10_000))}"
    yield f"binders {_steps(len(_BINDER.findall(text)), (1, 2, 4, 7))}"
    yield f"long {_steps(len(text), (30, 60, 120, 240))}"
    if re.search(r": \w+ → ", text):
        yield "has functions"


def _steps(value: int, steps: tuple[int, ...]) -> int:
    """How many of the steps it reaches."""
    return sum(value >= step for step in steps)
