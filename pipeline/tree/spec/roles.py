"""The key `roles:`: which backend answers for each role, and the keys of that backend, as plain data.

BACKENDS is the table: for each backend its keys, how each is read, and what must fit together.  API keys have no place
in a spec, which is shared: whatever looks like one is refused before any other message could repeat it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

from pipeline.core.templates import TemplateError, parse_template
from pipeline.errors import cut_text, did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import checked_variable
from pipeline.tree.spec.model import MANUAL, NONE, PATCHES

# How the keys of well-known services look, anywhere in a text.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|xai|nvapi|pplx)-(?=[\w-]*\d)[\w-]{16,}"
    r"|(?:gsk|hf|gh[pousr])_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|AIza[\w-]{30,}|AKIA[A-Z0-9]{12,}"
    r"|Bearer\s+[\w.~+/=-]{16,})",
    re.ASCII,
)
_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LONG = re.compile(r"[\w.+=-]{20,}", re.ASCII)


def is_api_key(text: str) -> bool:
    return bool(_KNOWN.search(text))


def is_api_key_value(name: str, value: str) -> bool:
    """Of a variable that by its name holds a key.  What local servers want as one is short."""
    return bool(_NAMED.search(name) and _LONG.fullmatch(value))


def looks_random(name: str) -> bool:
    """Not a name: a long part of letters and digits without a seam."""
    part = max(name.split("_"), key=len)
    return len(part) >= 20 and any(c.isdigit() for c in part) and any(c.isalpha() for c in part)


KeyReader = Callable[[Item, str], Any]

# What may stand in braces in a command; the prompt itself never does.
COMMAND_NAMES = ("prompt_file", "answer_file", "model", "project")
OWN_FIELDS = ("model", "messages", "stream", "temperature", "seed", "max_tokens")
ADVICE = (
    "put it into an environment variable and name that: `key_env: NAME` for openai, `pass: [NAME]` for command; "
    "a spec is shared"
)


class BackendKeys(NamedTuple):
    """The keys of a backend and how each is read, those that it must have, and what has to fit together."""

    read: dict[str, KeyReader]
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
        names = parse_template(text).names
    except TemplateError as error:
        item.wrong(f"{what}: {error}")
    for name in names:
        if name not in COMMAND_NAMES:
            hint = did_you_mean(name, COMMAND_NAMES)
            item.wrong(f"{what}: '{{{name}}}' is not known here{hint}; the prompt arrives on stdin")
    return text


def _files(item: Item, what: str) -> list[str]:
    return [_text(path, what) for path in (item.items(what) if item.is_list else [item])]


def _variable(item: Item, what: str) -> str:
    name = item.text(what)
    if looks_random(name):
        item.wrong(f"{what}: this looks like a key, not like the name of a variable that holds one; {ADVICE}")
    return checked_variable(name, item, what)


def _variables(item: Item, what: str) -> list[str]:
    return [_variable(value, what) for value in item.items(what)]


def _env(item: Item, what: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in item.pairs(what):
        out[checked_variable(name, value, what)] = text = value.text(f"{what}: {name}")
        if is_api_key_value(name, text):
            value.wrong(f"{what}: {name}: a literal key; have it passed through by name: `pass: [{name}]`")
    return out


def _usage(item: Item, what: str) -> dict[str, list[str]]:
    found = item.fields(what, ("text", "usd", "input_tokens", "output_tokens"))
    return {name: _paths(value, f"{what}: {name}", name != "text") for name, value in found.items()}


def _paths(item: Item, what: str, many: bool) -> list[str]:
    values = item.items(what) if many and item.is_list else [item]
    for value in values:
        if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", value.text(what)):
            value.wrong(f"{what}: '{cut_text(value.text(what))}' is no path into JSON, such as usage.input_tokens")
    return [value.text(what) for value in values]


def _price(item: Item, what: str) -> dict[str, float]:
    both = ("input", "output")
    return {name: _number(value, f"{what}: {name}") for name, value in item.fields(what, both, both).items()}


def _number(item: Item, what: str) -> float:
    value = item.plain()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        item.wrong(f"{what}: expected a number, 0 or more, found {item.summary()}")
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


def _count(least: int, most: int | None = None) -> KeyReader:
    return lambda item, what: item.count(what, least, most)


def _seconds(item: Item, what: str) -> float:
    return item.seconds(what)


def _check_command(read: dict[str, Any], item: Item, what: str) -> None:
    used = {name for word in read["run"] for name in parse_template(word).names}
    if "model" in used and "model" not in read:
        item.wrong(f"{what}: {{model}} in `run:` stands for nothing; say which: `model: NAME`")
    if "answer_file" in used and "text" in read.get("usage", {}):
        item.wrong(f"{what}: the answer is taken from {{answer_file}}, or from what is printed: drop `usage: text`")


_COMMON: dict[str, KeyReader] = {"backend": _text, "prompt": _text}
_COMMAND: dict[str, KeyReader] = {
    "run": _words,
    "reads": _files,
    "model": _text,
    "env": _env,
    "pass": _variables,
    "timeout": _seconds,
    "usage": _usage,
    "price": _price,
}
_OPENAI: dict[str, KeyReader] = {
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
BACKENDS: dict[str, BackendKeys] = {
    "command": BackendKeys(_COMMON | _COMMAND, ("run",), _check_command),
    "openai": BackendKeys(_COMMON | _OPENAI, ("url", "model")),
    "replay": BackendKeys(_COMMON | {"folder": _text}, ("folder",)),
    "patches": BackendKeys({"backend": _text, "folder": _text}, ("folder",)),
    "manual": BackendKeys(_COMMON | {"folder": _text}, ("folder",)),
    "none": BackendKeys({"backend": _text}),
}
# The changes lie beside the ideas: the folder is theirs.
KEYS_OF_ROLE = {("coder", "patches"): BackendKeys({"backend": _text})}


# Which backends may answer for a role.  Without a plan or a review a search can do.
_ASKED = ("command", "openai", "replay")
ROLE_BACKENDS = {
    "ideas": (*_ASKED, PATCHES, MANUAL),
    "planner": (*_ASKED, NONE),
    "coder": (*_ASKED, PATCHES, MANUAL),
    "reviewer": (*_ASKED, NONE),
}
NEEDED_ROLES = ("ideas", "coder")
KEY_WORDS = ("key", "api_key", "apikey", "token", "access_token", "secret", "password")


def read_roles(item: Item) -> dict[str, dict[str, Any]]:
    found = item.fields("roles", ROLE_BACKENDS, NEEDED_ROLES)
    return {role: _role(role, found[role]) if role in found else {"backend": NONE} for role in ROLE_BACKENDS}


def _role(role: str, item: Item) -> dict[str, Any]:
    what = f"role {role}"
    named = dict(item.pairs(what))
    _refuse_keys(named, item, what)
    if "backend" not in named:
        item.wrong(f"{what}: 'backend' is missing; one of {', '.join(ROLE_BACKENDS[role])}")
    name = named["backend"].text(f"{what}: backend")
    if name not in ROLE_BACKENDS[role]:
        named["backend"].wrong(
            f"{what}: backend '{cut_text(name)}' cannot be {role}{did_you_mean(name, ROLE_BACKENDS[role])}"
        )
    keys = KEYS_OF_ROLE.get((role, name), BACKENDS[name])
    found = item.fields(f"{what}: {name}", keys.read, keys.needed)
    read = {key: keys.read[key](value, f"{what}: {key}") for key, value in found.items()}
    keys.check(read, item, what)
    return read


def _refuse_keys(named: dict[str, Item], item: Item, what: str) -> None:
    """Before anything else is said, which might repeat it."""
    for value in _texts(item, what):
        if is_api_key(value.text(what)):
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
