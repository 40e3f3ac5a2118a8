"""WebAssembly binary of Lean: its sections, and the same without the names of its 200,000 exports.

Their functions stay reachable by their places in the table, where wasm_host.js looks them up."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipeline.lean.model import LeanStartError

MAGIC = b"\0asm\1\0\0\0"
# numbers of sections
IMPORT, TABLE, GLOBAL, EXPORT, ELEMENT = 2, 4, 6, 7, 9
# kinds of what is imported or exported
FUNCTION, TABLE_KIND, MEMORY, GLOBAL_KIND, TAG = range(5)
END = 0x0B
I32_CONST, I64_CONST, F32_CONST, F64_CONST, GLOBAL_GET = 0x41, 0x42, 0x43, 0x44, 0x23
FUNCREF = 0x70


@dataclass
class SectionReader:
    """A section, from its start on."""

    content: memoryview
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def skip(self, count: int) -> None:
        self.at += count

    def unsigned(self) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def signed(self) -> int:
        start = self.at
        result = self.unsigned()
        bits = 7 * (self.at - start)
        return result - (1 << bits) if self.content[self.at - 1] & 64 else result

    def name(self) -> str:
        length = self.unsigned()
        self.at += length
        return str(self.content[self.at - length : self.at], "utf-8")

    def expect(self, expected: int, what: str) -> None:
        found = self.byte()
        if found != expected:
            raise LeanStartError(f"lean.wasm is not the one that is known: {what} is {found:#x}, not {expected:#x}")


def encode_unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def encode_signed(number: int) -> bytes:
    out = bytearray()
    while not -64 <= number < 64:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number & 127])


@dataclass(frozen=True)
class Export:
    name: str
    kind: int
    index: int


@dataclass(frozen=True)
class Binary:
    """The sections in their order, each with its number."""

    sections: tuple[tuple[int, memoryview], ...]

    def reader(self, number: int) -> SectionReader:
        found = [content for other, content in self.sections if other == number]
        if len(found) != 1:
            raise LeanStartError(f"lean.wasm is not the one that is known: {len(found)} sections {number}, not one")
        return SectionReader(found[0])


def parse_binary(content: bytes) -> Binary:
    if content[:8] != MAGIC:
        raise LeanStartError("lean.wasm is no WebAssembly")
    whole, sections = SectionReader(memoryview(content), 8), []
    while whole.at < len(content):
        number, length = whole.byte(), whole.unsigned()
        sections.append((number, whole.content[whole.at : whole.at + length]))
        whole.skip(length)
    return Binary(tuple(sections))


def exports(binary: Binary) -> tuple[Export, ...]:
    reader = binary.reader(EXPORT)
    return tuple(Export(reader.name(), reader.byte(), reader.unsigned()) for _ in range(reader.unsigned()))


def imported_globals(binary: Binary) -> int:
    reader = binary.reader(IMPORT)
    return sum(_import(reader) == GLOBAL_KIND for _ in range(reader.unsigned()))


def _import(reader: SectionReader) -> int:
    """Past one import; its kind."""
    reader.name()
    reader.name()
    kind = reader.byte()
    if kind == TABLE_KIND:
        reader.skip(1)
    if kind in (TABLE_KIND, MEMORY):
        limited = reader.byte() & 1
        reader.unsigned()
        if limited:
            reader.unsigned()
    elif kind == GLOBAL_KIND:
        reader.skip(2)
    else:
        reader.skip(1 if kind == TAG else 0)
        reader.unsigned()
    return kind


def global_constants(binary: Binary) -> list[int | None]:
    """What each global starts with: None for those that come from outside, and for floats."""
    values: list[int | None] = [None] * imported_globals(binary)
    reader = binary.reader(GLOBAL)
    for _ in range(reader.unsigned()):
        reader.skip(2)
        values.append(_constant(reader, values))
    return values


def _constant(reader: SectionReader, before: list[int | None]) -> int | None:
    operation = reader.byte()
    value: int | None = None
    if operation in (I32_CONST, I64_CONST):
        value = reader.signed()
    elif operation == GLOBAL_GET:
        value = before[reader.unsigned()]
    elif operation in (F32_CONST, F64_CONST):
        reader.skip(4 if operation == F32_CONST else 8)
    else:
        raise LeanStartError(f"lean.wasm is not the one that is known: a global starts with {operation:#x}")
    reader.expect(END, "the end of a global")
    return value


def table_places(binary: Binary) -> dict[int, int]:
    """Function -> its first place in the table."""
    reader = binary.reader(ELEMENT)
    for expected, what in ((1, "the number of element segments"), (0, "its kind"), (I32_CONST, "its offset")):
        reader.expect(expected, what)
    offset = reader.signed()
    reader.expect(END, "the end of its offset")
    found: dict[int, int] = {}
    for place in range(reader.unsigned()):
        found.setdefault(reader.unsigned(), offset + place)
    return found


def table_size(binary: Binary) -> int:
    reader = binary.reader(TABLE)
    for expected, what in ((1, "the number of tables"), (FUNCREF, "its type"), (0, "its limit")):
        reader.expect(expected, what)
    return reader.unsigned()


@dataclass
class FunctionTable:
    """The table, and the functions that are put behind what it has."""

    size: int
    place: dict[int, int]
    added: list[int] = field(default_factory=list)

    def place_of(self, function: int) -> int:
        if function not in self.place:
            self.place[function] = self.size + len(self.added)
            self.added.append(function)
        return self.place[function]


def trim_binary(binary: Binary, needed: frozenset[str]) -> tuple[bytes, dict[str, int]]:
    """Only the exports that are `needed` by name; and for every name its place in the table, or its value."""
    table, values = FunctionTable(table_size(binary), table_places(binary)), global_constants(binary)
    exported = exports(binary)
    symbols: dict[str, int] = {}
    for export in exported:
        if export.kind == FUNCTION:
            symbols[export.name] = table.place_of(export.index)
        elif export.kind == GLOBAL_KIND and (value := values[export.index]) is not None:
            symbols[export.name] = value
    changed = {
        TABLE: bytes([1, FUNCREF, 0]) + encode_unsigned(table.size + len(table.added)),
        EXPORT: _export_section([export for export in exported if export.name in needed]),
        ELEMENT: _element_section(binary, table),
    }
    return b"".join([MAGIC, *_section_bytes(binary.sections, changed)]), symbols


def _export_section(exported: list[Export]) -> bytes:
    entries = (
        encode_unsigned(len(name := export.name.encode())) + name + bytes([export.kind]) + encode_unsigned(export.index)
        for export in exported
    )
    return encode_unsigned(len(exported)) + b"".join(entries)


def _element_section(binary: Binary, table: FunctionTable) -> bytes:
    """The segment there is, and one of the functions added."""
    before = bytes(binary.reader(ELEMENT).content[1:])
    head = bytes([0, I32_CONST]) + encode_signed(table.size) + bytes([END])
    return bytes([2]) + before + head + encode_unsigned(len(table.added)) + b"".join(map(encode_unsigned, table.added))


def _section_bytes(sections: Iterable[tuple[int, memoryview]], changed: dict[int, bytes]) -> Iterator[bytes]:
    for number, content in sections:
        written = changed.get(number, content)
        yield bytes([number]) + encode_unsigned(len(written))
        yield bytes(written)


def symbol_table(symbols: dict[str, int]) -> bytes:
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
