"""A WebAssembly binary: its sections, and what the trim step must know of them."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.edge.lean.model import LeanStartError

MAGIC = b"\0asm\1\0\0\0"
# numbers of sections
IMPORT, TABLE, GLOBAL, EXPORT, ELEMENT = 2, 4, 6, 7, 9
# kinds of what is imported or exported
FUNCTION, TABLE_KIND, MEMORY, GLOBAL_KIND, TAG = range(5)
END = 0x0B
I32_CONST, I64_CONST, F32_CONST, F64_CONST, GLOBAL_GET = 0x41, 0x42, 0x43, 0x44, 0x23
FUNCREF = 0x70


@dataclass
class Reader:
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


def unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def signed(number: int) -> bytes:
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

    def reader(self, number: int) -> Reader:
        found = [content for other, content in self.sections if other == number]
        if len(found) != 1:
            raise LeanStartError(f"lean.wasm is not the one that is known: {len(found)} sections {number}, not one")
        return Reader(found[0])


def parsed(content: bytes) -> Binary:
    if content[:8] != MAGIC:
        raise LeanStartError("lean.wasm is no WebAssembly")
    whole, sections = Reader(memoryview(content), 8), []
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


def _import(reader: Reader) -> int:
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


def constants(binary: Binary) -> list[int | None]:
    """What each global starts with: None for those that come from outside, and for floats."""
    values: list[int | None] = [None] * imported_globals(binary)
    reader = binary.reader(GLOBAL)
    for _ in range(reader.unsigned()):
        reader.skip(2)
        values.append(_constant(reader, values))
    return values


def _constant(reader: Reader, before: list[int | None]) -> int | None:
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


def places(binary: Binary) -> dict[int, int]:
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
