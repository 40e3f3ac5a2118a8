"""lean.wasm without the names of its 200,000 exports: their functions stay reachable by their places in the table."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipeline.edge.lean.wasm_binary import (
    ELEMENT,
    END,
    EXPORT,
    FUNCREF,
    FUNCTION,
    GLOBAL_KIND,
    I32_CONST,
    MAGIC,
    TABLE,
    Binary,
    Export,
    constants,
    exports,
    places,
    signed,
    table_size,
    unsigned,
)


@dataclass
class Table:
    """The table, and the functions that are put behind what it has."""

    size: int
    place: dict[int, int]
    added: list[int] = field(default_factory=list)

    def place_of(self, function: int) -> int:
        if function not in self.place:
            self.place[function] = self.size + len(self.added)
            self.added.append(function)
        return self.place[function]


def trimmed(binary: Binary, needed: frozenset[str]) -> tuple[bytes, dict[str, int]]:
    """Only the exports that are `needed` by name; and for every name its place in the table, or its value."""
    table, values = Table(table_size(binary), places(binary)), constants(binary)
    exported = exports(binary)
    symbols: dict[str, int] = {}
    for export in exported:
        if export.kind == FUNCTION:
            symbols[export.name] = table.place_of(export.index)
        elif export.kind == GLOBAL_KIND and (value := values[export.index]) is not None:
            symbols[export.name] = value
    changed = {
        TABLE: bytes([1, FUNCREF, 0]) + unsigned(table.size + len(table.added)),
        EXPORT: _export_section([export for export in exported if export.name in needed]),
        ELEMENT: _element_section(binary, table),
    }
    return b"".join([MAGIC, *_written(binary.sections, changed)]), symbols


def _export_section(exported: list[Export]) -> bytes:
    entries = (
        unsigned(len(name := export.name.encode())) + name + bytes([export.kind]) + unsigned(export.index)
        for export in exported
    )
    return unsigned(len(exported)) + b"".join(entries)


def _element_section(binary: Binary, table: Table) -> bytes:
    """The segment there is, and one of the functions added."""
    before = bytes(binary.reader(ELEMENT).content[1:])
    head = bytes([0, I32_CONST]) + signed(table.size) + bytes([END])
    return bytes([2]) + before + head + unsigned(len(table.added)) + b"".join(map(unsigned, table.added))


def _written(sections: Iterable[tuple[int, memoryview]], changed: dict[int, bytes]) -> Iterator[bytes]:
    for number, content in sections:
        written = changed.get(number, content)
        yield bytes([number]) + unsigned(len(written))
        yield bytes(written)


def hashed(symbols: dict[str, int]) -> bytes:
    """As `hostSymbol` in wasm_host.js looks names up: open addressing, three words a slot; a value 0 is a free slot."""
    slots = 1 << max(4, (2 * len(symbols)).bit_length())
    words = [0] * (slots * 3)
    for name, value in symbols.items():
        first, second = _hashes(name.encode())
        slot = first % slots
        while words[slot * 3 + 2] and tuple(words[slot * 3 : slot * 3 + 2]) != (first, second):
            slot = (slot + 1) % slots
        words[slot * 3 : slot * 3 + 3] = first, second, value % (1 << 32)
    return struct.pack(f"<{len(words)}I", *words)


def _hashes(name: bytes) -> tuple[int, int]:
    first, second = 0x811C9DC5, 0x1234567
    for byte in name:
        first = (first ^ byte) * 0x01000193 & 0xFFFFFFFF
        second = (second ^ byte) * 0x5BD1E995 & 0xFFFFFFFF
        second ^= second >> 15
    return first, second
