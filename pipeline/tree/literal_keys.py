"""Whether a text looks like an API key, which does not belong into a file that is shared."""

from __future__ import annotations

import re

# How the keys of well-known services look, anywhere in a text.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|xai|nvapi|pplx)-(?=[\w-]*\d)[\w-]{16,}"
    r"|(?:gsk|hf|gh[pousr])_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|AIza[\w-]{30,}|AKIA[A-Z0-9]{12,}"
    r"|Bearer\s+[\w.~+/=-]{16,})",
    re.ASCII,
)
_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LONG = re.compile(r"[\w.+=-]{20,}", re.ASCII)


def is_key(text: str) -> bool:
    return bool(_KNOWN.search(text))


def is_key_of(name: str, value: str) -> bool:
    """Of a variable that by its name holds a key.  What local servers want as one is short."""
    return bool(_NAMED.search(name) and _LONG.fullmatch(value))


def is_random(name: str) -> bool:
    """Not a name: a long part of letters and digits without a seam."""
    part = max(name.split("_"), key=len)
    return len(part) >= 20 and any(c.isdigit() for c in part) and any(c.isalpha() for c in part)
