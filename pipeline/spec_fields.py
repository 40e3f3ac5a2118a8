"""Fields that specs of several kinds share: names, variables, flags, numbers, choices, texts with braces.

Each function takes an Item and the words that messages begin with, and gives the checked value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pipeline.core.templates import Template, TemplateError, parse_template
from pipeline.errors import cut_text, did_you_mean
from pipeline.spec import Item

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SpecFlag(NamedTuple):
    """As `abilities.Flag` has it.  `variable`: of the environment, which says the same where no option does."""

    key: str
    read: Callable[[Item, str], Any]
    default: Any
    value: str
    help: str
    variable: str = ""
    inverse: bool = False


def checked_name(name: str, item: Item, what: str) -> str:
    if not NAME.fullmatch(name):
        item.wrong(f"{what}: '{cut_text(name)}' is not a name; use letters, digits, _ and -, a letter first")
    return name


def checked_variable(name: str, item: Item, what: str) -> str:
    from pipeline.machine.process import MARK  # here: most specs plan without all that starting processes takes

    if name == MARK:
        item.wrong(f"{what}: {MARK} is set by Coppice itself, to find what a build leaves behind; choose another name")
    if not VARIABLE.fullmatch(name):
        item.wrong(f"{what}: '{name}' is not the name of an environment variable")
    return name


def boolean(item: Item, what: str) -> bool:
    value = item.plain()
    if not isinstance(value, bool):
        item.wrong(f"{what}: expected true or false, found {item.summary()}")
    return value


def number(item: Item, what: str, least: float | None = None) -> float:
    value: Any = item.plain()
    if isinstance(value, bool) or not isinstance(value, int | float) or (least is not None and value < least):
        range_ = "" if least is None else f", {least:g} or more"
        item.wrong(f"{what}: expected a number{range_}, found {item.summary()}")
    return float(value)


def choice(item: Item, what: str, allowed: Iterable[str]) -> str:
    value = item.text(what)
    if value not in allowed:
        item.wrong(f"{what}: '{cut_text(value)}' is unknown{did_you_mean(value, allowed)}")
    return value


def read_template(item: Item, what: str, parse: Callable[[str], Template] = parse_template) -> Template:
    try:
        return parse(item.text(what))
    except TemplateError as error:
        item.wrong(f"{what}: {error}")
