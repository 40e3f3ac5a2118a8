"""Split a printed proposition at its outermost connective."""

from __future__ import annotations

import re
from collections.abc import Iterator

OPENING = "([{⟨⟦"
CLOSING = ")]}⟩⟧"
CONNECTIVES = ("↔", "→", "∨", "∧")  # weakest first
RELATIONS = ("≠", "=", "≤", "<", "≥", ">", "∣")
BINDER_STARTS = "∀∃λflim"
BINDER = re.compile(r"(?<![\w.'✝])(?:∀|∃|λ|fun |let |if |match )")  # reaches as far to the right as it can


def depths(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters with their places, and how many brackets are open behind each."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in OPENING) - (char in CLOSING)
        yield place, char, depth


def outer_characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside of all brackets and binders, with their places."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in OPENING) - (char in CLOSING)
        if depth == 0 and char not in CLOSING:
            if char in BINDER_STARTS and BINDER.match(text, place):
                return
            yield place, char


def without_brackets(text: str) -> str:
    """Text without the brackets around the whole."""
    text = text.strip()
    while text.startswith("(") and next((at for at, _, depth in depths(text) if depth == 0), -1) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def connective(text: str) -> str:
    """The weakest operator of a proposition: of CONNECTIVES, ¬, of RELATIONS, ∀, ∃, or "" for an atom."""
    text = without_brackets(text)
    if text[:1] in ("∀", "∃"):
        return text[0]
    seen = {char for _, char in outer_characters(text)}
    joining = next((sign for sign in CONNECTIVES if sign in seen), "")
    if joining or text.startswith("¬"):
        return joining or "¬"
    return next((sign for sign in RELATIONS if sign in seen), "")


def split_at(text: str, sign: str) -> list[str]:
    """`p ∧ q ∧ r` at ∧: three; what does not have `sign` outermost is one part."""
    text = without_brackets(text)
    places = [place for place, char in outer_characters(text) if char == sign]
    starts = [0, *(place + len(sign) for place in places)]
    return [text[start:end].strip() for start, end in zip(starts, [*places, len(text)], strict=True)]


def negated_part(text: str) -> str:
    """Proposition after a `¬`, "" where there is none."""
    text = without_brackets(text)
    return without_brackets(text[1:]) if connective(text) == "¬" else ""


def mentions(name: str, text: str) -> bool:
    """True if `name` stands in `text` as a whole word."""
    return re.search(rf"(?<![\w✝.']){re.escape(name)}(?![\w✝'!?])", text) is not None


def bound_variables(text: str) -> tuple[list[str], str]:
    """`∃ x y, p`: its variables and its body; without types, even where those are printed."""
    body = without_brackets(text)[1:].strip()
    for place, char, depth in depths(body):
        if depth == 0 and char == ",":
            head = re.sub(r"\s:[^()]*|[()]", " ", re.sub(r"\(([^:()]*):[^()]*\)", r"\1", body[:place]))
            return head.split(), body[place + 1 :].strip()
    return [], body
