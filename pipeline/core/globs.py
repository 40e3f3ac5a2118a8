"""Patterns of paths, `src/**/*.py`, as regular expressions."""

from __future__ import annotations

import re

PATTERN = re.compile(r"[*?\[]")
_SPECIAL = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def regex(pattern: str) -> str:
    out = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern):
        if part in _SPECIAL:
            out += _SPECIAL[part]
        elif part.startswith("[") and part.endswith("]"):
            out += _one_of(part[1:-1])
        else:
            out += re.escape(part)
    return out


def _one_of(inside: str) -> str:
    negated = "^" if inside[0] == "!" else ""
    return f"[{negated}" + re.sub(r"([][\\^&|~])", r"\\\1", inside.removeprefix("!")) + "]"


def pattern_error(path: str) -> str:
    """What is wrong with a pattern, or nothing."""
    try:
        re.compile(regex(path) if PATTERN.search(path) else "")
    except re.error as error:
        return str(error)
    return ""


def stands_for(pattern: str, path: str) -> bool:
    """Is `path` that file, below that folder, or does it match?  Names may hold anything, line breaks too."""
    if path == pattern or path.startswith(f"{pattern}/"):
        return True
    return PATTERN.search(pattern) is not None and re.fullmatch(regex(pattern), path, re.DOTALL) is not None
