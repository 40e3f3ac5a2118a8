"""Prompts for roles, and the meaning of their answers.

Templates have $names, those of PROMPT_NAMES.  The history section has a node's lineage, its gains and the ideas already
tried.  A review approves in its first line or not at all: an unclear one is no approval."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Template
from typing import Any

from pipeline.errors import did_you_mean

# For each role: the names that its prompt may have, and those it needs.
PROMPT_NAMES = {
    "ideas": ("context", "constraints"),
    "planner": ("idea", "context"),
    "coder": ("idea", "plan", "review"),
    "reviewer": ("idea", "plan", "diff", "report"),
}
NEEDED_NAMES = {"ideas": ("context",), "planner": ("idea",), "coder": ("idea", "review"), "reviewer": ("idea", "diff")}

_NAME = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|)", re.ASCII)

# Models dress their words up; none of this changes what they say.
_DECORATION = re.compile("""[#*_>`"'✅]""")
_VERDICT = re.compile(
    r"\s*(?:verdict\s*:)?\s*(approved?|rejected|reject|changes? requested|request changes)\b(.*)", re.I
)
# Behind an approval stands nothing, or something that is set off from it; and no condition.
_SET_OFF = re.compile(r"\s*|\s*[.:,;!(\u2013\u2014].*|\s+-.*")
_CONDITION = re.compile(r"reject|changes? request|not approve|\bunless\b|\bonly if\b|\bprovided\b", re.I)


def render_prompt(template: str, values: Mapping[str, str]) -> str:
    """Fill the values into a template; a `$` in a value is no name."""
    return Template(template).substitute(values)


def prompt_mistakes(role: str, template: str) -> tuple[str, ...]:
    """Mistakes in a template for this role, and how to correct them."""
    allowed = PROMPT_NAMES[role]
    mistakes: list[str] = []
    used: set[str] = set()
    for match in _NAME.finditer(template):
        name = match[2] or match[3]
        where = f"line {template.count(chr(10), 0, match.start()) + 1}"
        if not name and not match[1]:
            mistakes.append(f"{where}: a $ that is meant as such is written twice: $$")
        elif name and name not in allowed:
            mistakes.append(f"{where}: ${name} is unknown in a prompt for {role}{did_you_mean(name, allowed)}")
        used.add(name)
    missing = (name for name in NEEDED_NAMES[role] if name not in used)
    return (*mistakes, *(f"${name} is missing: {role} has to know it" for name in missing))


def review_verdict(text: str) -> bool | None:
    """The verdict in the first line of a review that is not blank; None when it is unclear, which is no approval."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    found = _VERDICT.fullmatch(_DECORATION.sub("", first))
    if not found:
        return None
    word, rest = found[1].lower(), found[2]
    if not word.startswith("approve"):
        return False
    return True if _SET_OFF.fullmatch(rest) and not _CONDITION.search(rest) else None


NO_HISTORY = "Nothing yet: this is the code that the search starts from."
LONGEST_HISTORY = 200_000  # characters; a longer one has ideas by their first line


def history_section(context: Mapping[str, Any], before: Sequence[str]) -> str:
    """The history section of an idea prompt; `before`: ideas for the same node that wait to be tried."""
    whole = "\n".join(_history_parts(context, before, in_full=True))
    if len(whole) <= LONGEST_HISTORY:
        return whole
    return "\n".join(_history_parts(context, before, in_full=False))[:LONGEST_HISTORY]


def _history_parts(context: Mapping[str, Any], before: Sequence[str], in_full: bool) -> Iterator[str]:
    yield "## The code as it is"
    yield from (f"Changed since {name}:\n{stat}" for name, stat in context["changes"].items())
    yield from () if context["changes"] else (NO_HISTORY,)
    if context["step"]:
        yield "\n## What the last change brought\n"
        yield from map(_delta_line, context["step"])
    if context["tried"]:
        yield "\n## Ideas that were tried on the way here\n"
        yield from (_idea_text(idea["text"], _outcome_text(idea), in_full) for idea in context["tried"])
    if before:
        yield "\n## Ideas for this code that are going to be tried\n"
        yield from (_idea_text(text, "", in_full) for text in before)


def _outcome_text(idea: Mapping[str, Any]) -> str:
    first = " ".join(filter(None, ["Kept." if idea["kept"] else "Not kept.", idea["why"]]))
    return "\n".join([first, *map(_delta_line, idea["step"])])


def _delta_line(detail: Mapping[str, Any]) -> str:
    name, old, new = detail["name"], detail["baseline"], detail["candidate"]
    verdict = "better" if detail["delta"] > 0 else "worse" if detail["delta"] < 0 else "the same"
    return f"- {name}: {old:.6g} -> {new:.6g} ({verdict}; {detail['better']} is better)"


def _idea_text(text: str, outcome: str, in_full: bool) -> str:
    if in_full:
        return f"### An idea\n\n{text.strip()}\n\n{outcome}\n"
    return f"- {text.strip().splitlines()[0][:200] if text.strip() else '(empty)'} {outcome.partition('.')[0]}"
