"""Records as JSON files: sorted and indented, so that equal records are equal files and people can read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

Record = dict[str, Any]


def dumped(record: Mapping[str, Any]) -> bytes:
    """Text that is not Unicode (names of files) is kept as what Python makes of it."""
    return (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def load(path: str) -> Record:
    with open(path, "rb") as file:
        record: Record = json.loads(file.read())
    return record


def load_if_whole(path: str) -> Record | None:
    """Nothing when it is not there, or is damaged: its target makes it again as soon as it is its turn."""
    try:
        return load(path)
    except (FileNotFoundError, ValueError):
        return None


def save(path: str, record: Mapping[str, Any]) -> None:
    write(path, dumped(record))


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def read_text(path: str) -> str:
    return read_bytes(path).decode(errors="replace")


def name_of(content: bytes) -> str:
    """What names a file of results; empty for one that does not exist."""
    return sha256(content).hexdigest() if content else ""


def write(path: str, content: bytes | str) -> None:
    with open(path, "wb") as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)
