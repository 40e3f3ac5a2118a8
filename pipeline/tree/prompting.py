"""What is asked of a role, and what its answer means: templates with $names, verdicts, diffs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template

from pipeline.errors import instead

# For each role the names that its prompt may have, and those without which nobody could answer.
NAMES = {
    "ideas": ("context", "constraints"),
    "planner": ("idea", "context"),
    "coder": ("idea", "plan", "review"),
    "reviewer": ("idea", "plan", "diff", "report"),
}
NEEDED = {"ideas": ("context",), "planner": ("idea",), "coder": ("idea", "review"), "reviewer": ("idea", "diff")}

_NAME = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|)", re.ASCII)

# Models dress their words up; none of this changes what they say.
_DRESS = re.compile("""[#*_>`"'✅]""")
_VERDICT = re.compile(
    r"\s*(?:verdict\s*:)?\s*(approved?|rejected|reject|changes? requested|request changes)\b(.*)", re.I
)
# Behind an approval stands nothing, or something that is set off from it; and no condition.
_SET_OFF = re.compile(r"\s*|\s*[.:,;!(\u2013\u2014].*|\s+-.*")
_CONDITION = re.compile(r"reject|changes? request|not approve|\bunless\b|\bonly if\b|\bprovided\b", re.I)

_BLOCK = re.compile(r"^(`{3,})(?:diff|patch)[ \t\r]*\n(.*?)^\1`*[ \t\r]*$", re.MULTILINE | re.DOTALL)
_STARTS = ("diff --git ", "--- ")


def rendered(template: str, values: Mapping[str, str]) -> str:
    """Values are put in as they are: a `$` in one of them is no name."""
    return Template(template).substitute(values)


def mistakes(role: str, template: str) -> tuple[str, ...]:
    """What is wrong with a template for this role, and what would be right."""
    out: list[str] = []
    found: set[str] = set()
    for match in _NAME.finditer(template):
        name = match[2] or match[3]
        where = f"line {template.count(chr(10), 0, match.start()) + 1}"
        if not name and not match[1]:
            out.append(f"{where}: a $ that is meant as such is written twice: $$")
        elif name and name not in NAMES[role]:
            out.append(f"{where}: ${name} is unknown in a prompt for {role}{instead(name, NAMES[role])}")
        found.add(name)
    return (*out, *(f"${name} is missing: {role} has to know it" for name in NEEDED[role] if name not in found))


def verdict(text: str) -> bool | None:
    """What a review says in its first line that is not blank; None when that is unclear, which is no approval."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    found = _VERDICT.fullmatch(_DRESS.sub("", first))
    if not found:
        return None
    word, rest = found[1].lower(), found[2]
    if not word.startswith("approve"):
        return False
    return True if _SET_OFF.fullmatch(rest) and not _CONDITION.search(rest) else None


def diff_in(text: str) -> str:
    """The change in an answer: its last block of that kind, or all of it; empty when there is none."""
    blocks = _BLOCK.findall(text)
    if blocks:
        return str(blocks[-1][1])
    whole = text.lstrip("\r\n")
    return whole if whole.startswith(_STARTS) else ""
