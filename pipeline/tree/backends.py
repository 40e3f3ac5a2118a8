"""What each backend may be told in a spec, and how that is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from pipeline.core.templates import TemplateError, template
from pipeline.declared import checked_variable
from pipeline.errors import clipped, instead
from pipeline.spec import Item
from pipeline.tree.literal_keys import is_key_of, is_random

Reader = Callable[[Item, str], Any]

# What may stand in braces in a command; the prompt itself never does.
WORDS = ("prompt_file", "answer_file", "model", "project")
OWN_FIELDS = ("model", "messages", "stream", "temperature", "seed", "max_tokens")
ADVICE = (
    "put it into an environment variable and name that: `key_env: NAME` for openai, `pass: [NAME]` for command; "
    "a spec is shared"
)


class Keys(NamedTuple):
    """The keys of a backend and how each is read, those that it must have, and what has to fit together."""

    read: dict[str, Reader]
    needed: tuple[str, ...] = ()
    check: Callable[[dict[str, Any], Item, str], None] = lambda read, item, what: None


def _text(item: Item, what: str) -> str:
    text = item.text(what)
    if not text.strip():
        item.wrong(f"{what}: expected text, found '{text}'")
    return text


def _words(item: Item, what: str) -> list[str]:
    words = [_word(word, what) for word in item.items(what)]
    if not words or not words[0]:
        item.wrong(f"{what}: there is no command; give it and its arguments: [claude, -p]")
    return words


def _word(item: Item, what: str) -> str:
    text = item.text(what)
    try:
        names = template(text).names
    except TemplateError as error:
        item.wrong(f"{what}: {error}")
    for name in names:
        if name not in WORDS:
            item.wrong(f"{what}: '{{{name}}}' is not known here{instead(name, WORDS)}; the prompt arrives on stdin")
    return text


def _files(item: Item, what: str) -> list[str]:
    return [_text(path, what) for path in (item.items(what) if item.is_list else [item])]


def _variable(item: Item, what: str) -> str:
    name = item.text(what)
    if is_random(name):
        item.wrong(f"{what}: this looks like a key, not like the name of a variable that holds one; {ADVICE}")
    return checked_variable(name, item, what)


def _variables(item: Item, what: str) -> list[str]:
    return [_variable(value, what) for value in item.items(what)]


def _env(item: Item, what: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in item.pairs(what):
        out[checked_variable(name, value, what)] = text = value.text(f"{what}: {name}")
        if is_key_of(name, text):
            value.wrong(f"{what}: {name}: a literal key; have it passed through by name: `pass: [{name}]`")
    return out


def _usage(item: Item, what: str) -> dict[str, list[str]]:
    found = item.fields(what, ("text", "usd", "input_tokens", "output_tokens"))
    return {name: _paths(value, f"{what}: {name}", name != "text") for name, value in found.items()}


def _paths(item: Item, what: str, many: bool) -> list[str]:
    values = item.items(what) if many and item.is_list else [item]
    for value in values:
        if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", value.text(what)):
            value.wrong(f"{what}: '{clipped(value.text(what))}' is no path into JSON, such as usage.input_tokens")
    return [value.text(what) for value in values]


def _price(item: Item, what: str) -> dict[str, float]:
    both = ("input", "output")
    return {name: _number(value, f"{what}: {name}") for name, value in item.fields(what, both, both).items()}


def _number(item: Item, what: str) -> float:
    value = item.plain()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        item.wrong(f"{what}: expected a number, 0 or more, found {item.found()}")
    return value


def _url(item: Item, what: str) -> str:
    url = item.text(what)
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", url):
        item.wrong(f"{what}: expected the base URL of an API, without a user or a query: http://localhost:8000/v1")
    if url.rstrip("/").endswith("/chat/completions"):
        item.wrong(f"{what}: leave /chat/completions out, it is put behind the base URL")
    return url


def _body(item: Item, what: str) -> dict[str, Any]:
    for name, value in item.pairs(what):
        if name in OWN_FIELDS:
            where = "is set by Coppice" if name in ("messages", "stream") else "is a key of the backend itself"
            value.wrong(f"{what}: '{name}' {where}; leave it out here")
    fields: dict[str, Any] = item.plain()
    return fields


def _count(least: int, most: int | None = None) -> Reader:
    return lambda item, what: item.count(what, least, most)


def _seconds(item: Item, what: str) -> float:
    return item.seconds(what)


def _check_command(read: dict[str, Any], item: Item, what: str) -> None:
    used = {name for word in read["run"] for name in template(word).names}
    if "model" in used and "model" not in read:
        item.wrong(f"{what}: {{model}} in `run:` stands for nothing; say which: `model: NAME`")
    if "answer_file" in used and "text" in read.get("usage", {}):
        item.wrong(f"{what}: the answer is taken from {{answer_file}}, or from what is printed: drop `usage: text`")


_COMMON: dict[str, Reader] = {"backend": _text, "prompt": _text}
_COMMAND: dict[str, Reader] = {
    "run": _words,
    "reads": _files,
    "model": _text,
    "env": _env,
    "pass": _variables,
    "timeout": _seconds,
    "usage": _usage,
    "price": _price,
}
_OPENAI: dict[str, Reader] = {
    "url": _url,
    "model": _text,
    "key_env": _variable,
    "temperature": _number,
    "seed": _count(0),
    "max_tokens": _count(1),
    "body": _body,
    "timeout": _seconds,
    "retries": _count(0, 100),
    "price": _price,
}
BACKENDS: dict[str, Keys] = {
    "command": Keys(_COMMON | _COMMAND, ("run",), _check_command),
    "openai": Keys(_COMMON | _OPENAI, ("url", "model")),
    "replay": Keys(_COMMON | {"folder": _text}, ("folder",)),
    "patches": Keys({"backend": _text, "folder": _text}, ("folder",)),
    "manual": Keys(_COMMON | {"folder": _text}, ("folder",)),
    "none": Keys({"backend": _text}),
}
# The changes lie beside the ideas: the folder is theirs.
OF_ROLE = {("coder", "patches"): Keys({"backend": _text})}
