"""YAML -> who answers for each role: `roles:` of a tree spec as plain data, for each role the keys of its backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.errors import clipped, instead
from pipeline.spec import Item
from pipeline.tree.backends import ADVICE, BACKENDS, OF_ROLE
from pipeline.tree.literal_keys import is_key
from pipeline.tree.model import MANUAL, NONE, PATCHES

# Which backends may answer for a role.  Without a plan or a review a search can do.
_ASKED = ("command", "openai", "replay")
ROLES = {
    "ideas": (*_ASKED, PATCHES, MANUAL),
    "planner": (*_ASKED, NONE),
    "coder": (*_ASKED, PATCHES, MANUAL),
    "reviewer": (*_ASKED, NONE),
}
NEEDED = ("ideas", "coder")
KEY_WORDS = ("key", "api_key", "apikey", "token", "access_token", "secret", "password")


def roles(item: Item) -> dict[str, dict[str, Any]]:
    found = item.fields("roles", ROLES, NEEDED)
    return {role: _role(role, found[role]) if role in found else {"backend": NONE} for role in ROLES}


def _role(role: str, item: Item) -> dict[str, Any]:
    what = f"role {role}"
    named = dict(item.pairs(what))
    _refuse_keys(named, item, what)
    if "backend" not in named:
        item.wrong(f"{what}: 'backend' is missing; one of {', '.join(ROLES[role])}")
    name = named["backend"].text(f"{what}: backend")
    if name not in ROLES[role]:
        named["backend"].wrong(f"{what}: backend '{clipped(name)}' cannot be {role}{instead(name, ROLES[role])}")
    keys = OF_ROLE.get((role, name), BACKENDS[name])
    found = item.fields(f"{what}: {name}", keys.read, keys.needed)
    read = {key: keys.read[key](value, f"{what}: {key}") for key, value in found.items()}
    keys.check(read, item, what)
    return read


def _refuse_keys(named: dict[str, Item], item: Item, what: str) -> None:
    """Before anything else is said, which might repeat it."""
    for value in _texts(item, what):
        if is_key(value.text(what)):
            value.wrong(f"{what}: this is an API key; {ADVICE}")
    for word in KEY_WORDS:
        if word in named:
            named[word].wrong(f"{what}: a key has no place here; {ADVICE}")


def _texts(item: Item, what: str) -> Iterator[Item]:
    """All that is written in it, wherever."""
    if item.is_map:
        for _, value in item.pairs(what):
            yield from _texts(value, what)
    elif item.is_list:
        for value in item.items(what):
            yield from _texts(value, what)
    elif not item.is_null:
        yield item
