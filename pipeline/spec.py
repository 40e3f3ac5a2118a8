"""YAML with positions: every mistake is one message that says file:line, what is wrong and what would be right.

Does no I/O: `parse` gets the text.  An Item is a place in the document: it reads the value there, or says what is
wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isfinite
from typing import Any, NoReturn

import yaml

from pipeline.errors import SpecError, cut_text, did_you_mean

_PLAIN = yaml.SafeLoader("")
_STR, _INT, _NULL, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "int", "null", "merge"))
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
YEAR = 366 * 86400.0
DEEPEST = 100
FEW_ALIASES = 10
_BRACKETS = {"[": 1, "{": 1, "]": -1, "}": -1}
_INDENTED = re.compile(rf"[ ?:\t-]{{{DEEPEST // 2}}}")
_BRACES = re.compile(r"(?:^|[:,\[-])\s+(\{[\w-]+\})(?!\s*(?:[,\]}]|#|$))")
_ALIAS = re.compile(rb"[\s,:\[{-]\*[^\s,\]}]")
MOST_VALUES = 5_000_000


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNLIKE_TEXT = {*_Loader.yaml_implicit_resolvers}  # the first characters of numbers, dates, booleans, nulls


class Loader(_Loader):  # type: ignore[misc]
    """libyaml's, where there is one."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: tuple[bool, bool]) -> Any:
        """The tag of a node.  That most are text shows in the first character: this saves a sixth of all parsing."""
        if kind is yaml.ScalarNode and value and value[0] not in _UNLIKE_TEXT:
            return _STR
        return _Loader.resolve(self, kind, value, implicit)


class Item:
    """A place in a YAML file: the value there, and how to complain about it."""

    __slots__ = ("file", "node")

    def __init__(self, file: str, node: yaml.Node) -> None:
        self.file = file
        self.node = node

    @property
    def line(self) -> int:
        return self.node.start_mark.line + 1

    def wrong(self, what: str) -> NoReturn:
        raise SpecError(f"{self.file}:{self.line}: {what}")

    @property
    def is_map(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_null(self) -> bool:
        return self.node.tag == _NULL

    @property
    def is_bare_name(self) -> bool:
        """`{name}`, which is a mapping to YAML when it has no quotes."""
        if not (isinstance(self.node, yaml.MappingNode) and self.node.flow_style and len(self.node.value) == 1):
            return False
        ((key, value),) = self.node.value
        return isinstance(key, yaml.ScalarNode) and bool(key.end_mark.index == value.end_mark.index)  # no colon either

    def pairs(self, what: str) -> Iterator[tuple[str, Item]]:
        """The entries of a mapping, in order; a key given twice is an error."""
        if not self.is_map:
            self.wrong(f"{what}: expected a mapping (name: value), found {self.summary()}")
        seen: set[str] = set()
        for key, value in self.node.value:
            if not isinstance(key, yaml.ScalarNode):
                Item(self.file, key).wrong(f"{what}: a key must be a word")
            if key.tag == _MERGE:
                Item(self.file, key).wrong(f"{what}: merge keys (<<) are not supported; write the keys out")
            if key.value in seen:
                Item(self.file, key).wrong(f"{what}: '{cut_text(key.value)}' is given twice")
            seen.add(key.value)
            yield key.value, Item(self.file, value)

    def words(self) -> Iterator[tuple[int, str]]:
        """All values below that are words, each with its line; keys are none."""
        seen: set[int] = set()
        left = [self.node]
        while left:
            node = left.pop()
            if id(node) in seen:  # an alias
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                left += [value for _, value in node.value]
            elif isinstance(node, yaml.SequenceNode):
                left += node.value
            else:
                yield Item(self.file, node).line, node.value

    def fields(self, what: str, allowed: Iterable[str], required: Iterable[str] = ()) -> dict[str, Item]:
        """A mapping with known keys only."""
        allowed = tuple(allowed)
        found: dict[str, Item] = {}
        for name, value in self.pairs(what):
            if name not in allowed:
                key = next(k for k, _ in self.node.value if k.value == name)
                Item(self.file, key).wrong(f"{what}: unknown key '{cut_text(name)}'{did_you_mean(name, allowed)}")
            found[name] = value
        for name in required:
            if name not in found:
                self.wrong(f"{what}: '{name}' is missing")
        return found

    def items(self, what: str) -> list[Item]:
        if not self.is_list:
            self.wrong(f"{what}: expected a list, found {self.summary()}")
        return [Item(self.file, node) for node in self.node.value]

    def entry(self, i: int) -> Item:
        """Entry of a list."""
        return Item(self.file, self.node.value[i])

    def columns(self, names: Sequence[str]) -> list[list[str]] | None:
        """A list of rows that all have these names, in this order, and texts: a column for each name.

        None when a row is not like that and needs a closer look: five times as slow, for it tells each place."""
        if not self.is_list or {*map(type, self.node.value)} != {yaml.MappingNode}:
            return None
        pairs = [pair for row in self.node.value for pair in row.value]
        if [key.value for key, _ in pairs] != [*names] * len(self.node.value):
            return None
        tags = {node.tag for pair in pairs for node in pair}
        if {type(value) for _, value in pairs} != {yaml.ScalarNode} or not tags.isdisjoint((_NULL, _MERGE)):
            return None
        texts = [value.value for _, value in pairs]
        return None if "\0" in "".join(texts) else [texts[i :: len(names)] for i in range(len(names))]

    def text(self, what: str) -> str:
        """A scalar as it is written: `0.10` stays `0.10`."""
        node = self.node
        advice = ""
        if isinstance(node, yaml.ScalarNode):
            if not self.is_null:
                if "\0" in node.value:
                    self.wrong(f"{what}: a NUL character cannot be passed on")
                return str(node.value)
            advice = f'; if the word is meant: "{node.value}"' if node.value else '; an empty text is ""'
        elif self.is_bare_name:
            advice = f'; in quotes it is text: "{{{cut_text(node.value[0][0].value)}}}"'
        elif isinstance(node, yaml.CollectionNode) and node.flow_style:
            advice = "; text that starts with { or [ must be in quotes"
        return self.wrong(f"{what}: expected text, found {self.summary()}{advice}")

    def count(self, what: str, least: int, most: int | None = None) -> int:
        value = self.plain() if self.node.tag == _INT else None
        if not isinstance(value, int) or value < least or (most is not None and value > most):
            range_ = f"{least} or more" if most is None else f"from {least} to {most}"
            self.wrong(f"{what}: expected a whole number, {range_}, found {self.summary()}")
        return value

    def seconds(self, what: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smhd]?)", str(self.node.value))
        if not isinstance(self.node, yaml.ScalarNode) or not match or not float(match[1]):
            self.wrong(f"{what}: expected a time such as 90, 90s, 10m or 2h, found {self.summary()}")
        seconds = float(match[1]) * _SECONDS[match[2]]
        if seconds > YEAR:
            self.wrong(f"{what}: {self.summary()} is longer than a year; leave it out for no limit")
        return seconds

    def plain(self) -> Any:
        """The value as plain Python (str, int, float, bool, None, list, dict)."""
        node = self.node
        if node.tag == _STR:
            return node.value
        if self.is_list:
            return [Item(self.file, n).plain() for n in node.value]
        if self.is_map:
            return {name: value.plain() for name, value in self.pairs("value")}
        try:
            value = _PLAIN.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self.wrong(f"'{node.value}' is not a {node.tag.rpartition(':')[2]}: {error}")
        if isinstance(value, float) and not isfinite(value):
            self.wrong(f"'{node.value}' is not a number to compute with; put it in quotes if it is text")
        if value is not None and not isinstance(value, (str, int, float)):
            self.wrong(f"'{node.value}' reads as a {type(value).__name__}; put it in quotes if it is text")
        return value

    def summary(self) -> str:
        if self.is_map:
            return "a mapping"
        if self.is_list:
            return "a list"
        return "nothing" if self.is_null else f"'{cut_text(self.node.value)}'"


def parse(text: bytes, file: str) -> Item:
    """The document in `text`; `file` is for messages."""
    try:
        _check_depth(decoded := text.decode(), file)
        loader = Loader(decoded)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise SpecError(f"{file}:{line}: {what}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise SpecError(f"{file}:{line}: not YAML: {_problem(error, text, line)}") from error
    except yaml.YAMLError as error:
        line = text.count(b"\n", 0, getattr(error, "position", None) or 0) + 1
        raise SpecError(f"{file}:{line}: not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise SpecError(f"{file}:1: nested too deeply") from error
    if node is None:
        raise SpecError(f"{file}:1: the file is empty; a spec starts with `kind:`")
    # A few aliases cannot stand for much, nor be worth a walk over all that is there.
    if b"!" in text or (text.count(b"*") > FEW_ALIASES and len(_ALIAS.findall(text)) > FEW_ALIASES):
        _check_nodes(node, file)
    return Item(file, node)


def _problem(error: yaml.MarkedYAMLError, text: bytes, line: int) -> str:
    lines = text.splitlines()[:line]
    if len(lines) == line and lines[-1].lstrip(b" ").startswith(b"\t"):
        return "a tab is no indentation; use spaces"
    # `run: {tool} -1`, which YAML takes for a mapping with something behind it.
    braces = _BRACES.search(lines[-1].decode()) if lines else None
    advice = f"; a value that starts with {{ must be in quotes, here the one with {braces[1]}" if braces else ""
    return (error.problem or error.context or "it cannot be parsed") + advice


def _check_depth(text: str, file: str) -> None:
    """Refuse what is nested too deeply: libyaml composes by recursion in C, and would crash the process.

    Brackets and indentation tell at the speed of C that it is not; only then are the events counted."""
    depths = [0, *accumulate(map(_BRACKETS.__getitem__, re.findall(r"[\[\]{}]", text)))]
    indented = DEEPEST // 2
    if _INDENTED.search(text):
        indented = max(len(line) - len(line.lstrip(" -?:\t")) for line in text.splitlines())
    if max(depths) - min(depths) + indented <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = text.count("\n", 0, getattr(event.start_mark, "index", 0)) + 1
            raise SpecError(f"{file}:{line}: nested too deeply (more than {DEEPEST} levels)")


def _check_nodes(node: yaml.Node, file: str) -> None:
    """Tags that mean nothing here, aliases inside themselves, and aliases that stand for too much."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        item = Item(file, node)
        if id(node) in open_nodes:
            item.wrong("an alias inside what it stands for; it has no end")
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.startswith("tag:yaml.org,2002:python"):
            item.wrong(f"tag '{cut_text(node.tag)}' is not known here; leave it out")
        if isinstance(node, yaml.ScalarNode):
            return 1
        open_nodes.add(id(node))
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        total = 1 + sum(map(size, parts))
        open_nodes.discard(id(node))
        if total > MOST_VALUES:
            item.wrong(f"the aliases here stand for more than {MOST_VALUES} values; write out what you need")
        sizes[id(node)] = total
        return total

    size(node)
