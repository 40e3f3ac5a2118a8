"""Chance that is a function of what it is for: no draw moves another, in whatever order they are made."""

from __future__ import annotations

from hashlib import blake2b


def draw(seed: int, *what: object) -> float:
    """At least 0 and below 1."""
    named = "\x1f".join(map(str, (seed, *what)))
    return int.from_bytes(blake2b(named.encode(), digest_size=8).digest()) / 2**64
