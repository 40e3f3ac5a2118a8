"""Command-line flags for keys of a spec: parse them, and check that they agree with the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pipeline.errors import SpecError
from pipeline.spec import Item, parse
from pipeline.spec_fields import Field, plain_help

_PLAIN_WORD = re.compile(r"[\w.+-]+")

Keys = Mapping[str, Item]


class TypedItem(Item):
    """Words typed on the command line, to be read like a value of a spec."""

    __slots__ = ()

    def wrong(self, what: str) -> NoReturn:
        raise SpecError(f"{self.file}: {what}")


class FlagValue(NamedTuple):
    """A flag of the command line, its value, and both as they were typed."""

    flag: Field
    value: Any
    typed: str


def flag_options(flags: Iterable[Field]) -> Iterator[dict[str, Any]]:
    """Options as doit wants them; None stands for a flag that is not given."""
    for flag in flags:
        text = plain_help(flag.help).replace("`", "").partition(". ")[0]  # the first sentence, and the default
        if flag.default not in (None, "") and flag.default is not False:
            text += f" [{yaml_text(flag.default)}]"
        long = long_name(flag.key)
        inverse = {"inverse": f"no-{long}"} if flag.inverse else {}
        value = {"type": str, "metavar": flag.value} if flag.value else {"type": bool}
        yield {"name": flag.key, "long": long, "default": None, "help": text, **value, **inverse}


def long_name(key: str) -> str:
    return key.replace("_", "-")


def flag_values(command: str, flags: Iterable[Field], params: Mapping[str, Any]) -> list[FlagValue]:
    """The flags that are given."""
    given: list[FlagValue] = []
    for flag in flags:
        name, value = f"--{long_name(flag.key)}", params[flag.key]
        if isinstance(value, bool):
            given.append(FlagValue(flag, value, name if value else f"--no-{name[2:]}"))
        elif value is not None:
            text = value if _PLAIN_WORD.fullmatch(value) else json.dumps(value)
            try:
                item = TypedItem(command, parse(text.encode(), command).node)
            except SpecError as error:
                raise SpecError(f"{command}: {name}: '{value}' cannot be read; write a plain value") from error
            given.append(FlagValue(flag, flag.read(item, name), f"{name} {value}"))
    return given


def check_agreed(flags: Iterable[FlagValue], file: str, keys: Keys, whole: bool) -> None:
    """Refuse a flag that says something else than the file.  `whole`: a key that is not there has its default."""
    for each in flags:
        key = each.flag.key
        if key in keys and each.flag.read(keys[key], key) != each.value:
            raise SpecError(f"{each.typed} contradicts {file}:{keys[key].line}: {key}: {item_text(keys[key])}")
        if key not in keys and whole and each.value != each.flag.default:
            means = "no limit" if each.flag.default is None else yaml_text(each.flag.default)
            raise SpecError(f"{each.typed} contradicts {file}: {key} is not in it, which means {means}")


def check_same(config: str, wanted: Keys, file: str, keys: Keys, flags: Iterable[Field]) -> None:
    """Refuse a `config` that says something else than the file that was once made from it."""
    readers = {flag.key: flag.read for flag in flags}
    for key, item in wanted.items():
        if key not in keys:
            raise SpecError(f"{config}:{item.line}: {key}: is not in {file}, the spec of this run")
        read = readers.get(key)
        mine, others = (read(each, key) if read else each.plain() for each in (item, keys[key]))
        if mine != others:
            inner, ours, theirs = _difference(key, item, keys[key])
            other = f"{file}:{theirs.line}: {item_text(theirs)}"
            raise SpecError(f"{config}:{ours.line}: {inner}: {item_text(ours)} contradicts {other}")


def _difference(what: str, ours: Item, theirs: Item) -> tuple[str, Item, Item]:
    """Difference as far inside as both have the same keys: where it is, and what each has there."""
    if ours.is_map and theirs.is_map:
        inner, other = dict(ours.pairs(what)), dict(theirs.pairs(what))
        if inner.keys() == other.keys():
            key = next(key for key in inner if inner[key].plain() != other[key].plain())
            return _difference(f"{what}: {key}", inner[key], other[key])
    return what, ours, theirs


def item_text(item: Item) -> str:
    return item.summary().strip("'")


def yaml_text(value: Any) -> str:
    """Format a value as it stands in a spec."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
