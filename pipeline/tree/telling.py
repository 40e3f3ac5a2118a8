"""What whoever has ideas is told of a node: how it came to be, what that brought, what was tried on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

NOTHING = "Nothing yet: this is the code that the search starts from."
LONGEST = 200_000  # characters; of more, the earliest ideas are told by their first line


def told(context: Mapping[str, Any], before: Sequence[str]) -> str:
    """`before`: ideas for the same node that are waiting to be tried."""
    whole = "\n".join(_parts(context, before, _in_full))
    return whole if len(whole) <= LONGEST else "\n".join(_parts(context, before, _in_short))[:LONGEST]


def _parts(context: Mapping[str, Any], before: Sequence[str], tell: Callable[[str, str], str]) -> Iterator[str]:
    changes, step, tried = context["changes"], context["step"], context["tried"]
    yield "## The code as it is"
    yield from (f"Changed since {name}:\n{stat}" for name, stat in changes.items())
    yield from () if changes else (NOTHING,)
    if step:
        yield "\n## What the last change brought\n"
        yield from map(delta_line, step)
    if tried:
        yield "\n## Ideas that were tried on the way here\n"
        yield from (tell(idea["text"], outcome(idea)) for idea in tried)
    if before:
        yield "\n## Ideas for this code that are going to be tried\n"
        yield from (tell(text, "") for text in before)


def outcome(idea: Mapping[str, Any]) -> str:
    word = "Kept." if idea["kept"] else "Not kept."
    said = " ".join(filter(None, [word, idea["why"]]))
    return "\n".join([said, *map(delta_line, idea["step"])])


def delta_line(detail: Mapping[str, Any]) -> str:
    name, old, new = detail["name"], detail["baseline"], detail["candidate"]
    verdict = "better" if detail["delta"] > 0 else "worse" if detail["delta"] < 0 else "the same"
    return f"- {name}: {old:.6g} -> {new:.6g} ({verdict}; {detail['better']} is better)"


def _in_full(text: str, word: str) -> str:
    return f"### An idea\n\n{text.strip()}\n\n{word}\n"


def _in_short(text: str, word: str) -> str:
    return f"- {text.strip().splitlines()[0][:200] if text.strip() else '(empty)'} {word.partition('.')[0]}"
