"""The key `roles:`: which backend answers for each role, and the keys of that backend, as plain data.

BACKENDS has a table of keys for each backend.  API keys have no place in a spec, which is shared:
whatever looks like one is refused before any other message could repeat it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import spec_fields as fields
from pipeline.core.cages import CAGE, LOCAL, NO_NETWORK
from pipeline.core.templates import parse_template
from pipeline.errors import cut_text, did_you_mean
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader, checked_variable, read_template
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


def is_api_key_value(name: str, value: str) -> bool:
    """Check the value of a variable that by its name holds a key.  What local servers want as one is short."""
    return bool(_NAMED.search(name) and _LONG.fullmatch(value))


# What a role may name by patterns; that a program was killed or is missing shows by itself.
OUTAGE_KINDS = ("rate limit", "overload", "credit", "login", "server", "network", "malformed", "time-out")
# What may stand in braces in a command; the prompt itself never does.
COMMAND_NAMES = ("prompt_file", "answer_file", "model", "project")
OWN_FIELDS = ("model", "messages", "stream", "temperature", "seed", "max_tokens")
ADVICE = (
    "put it into an environment variable and name that: `key_env: NAME` for openai, `pass: [NAME]` for command; "
    "a spec is shared"
)


def _text(item: Item, what: str) -> str:
    text = item.text(what)
    if not text.strip():
        item.wrong(f"{what}: expected text, found '{text}'")
    return text


def _words(item: Item, what: str) -> list[str]:
    words = [word.text(what) for word in item.items(what)]
    for word in item.items(what):
        for name in read_template(word, what).names:
            if name not in COMMAND_NAMES:
                hint = did_you_mean(name, COMMAND_NAMES)
                word.wrong(f"{what}: '{{{name}}}' is not known here{hint}; the prompt arrives on stdin")
    if not words or not words[0]:
        item.wrong(f"{what}: there is no command; give it and its arguments: [claude, -p]")
    return words


def _files(item: Item, what: str) -> list[str]:
    return [_text(path, what) for path in (item.items(what) if item.is_list else [item])]


def _variable(item: Item, what: str) -> str:
    name = item.text(what)
    part = max(name.split("_"), key=len)
    # no name: a long part of letters and digits without a seam
    if len(part) >= 20 and any(c.isdigit() for c in part) and any(c.isalpha() for c in part):
        item.wrong(f"{what}: this looks like a key, not like the name of a variable that holds one; {ADVICE}")
    return checked_variable(name, item, what)


def _env(item: Item, what: str) -> dict[str, str]:
    env = {checked_variable(name, value, what): value for name, value in item.pairs(what)}
    for name, value in env.items():
        if is_api_key_value(name, value.text(f"{what}: {name}")):
            value.wrong(f"{what}: {name}: a literal key; have it passed through by name: `pass: [{name}]`")
    return {name: value.text(f"{what}: {name}") for name, value in env.items()}


def _paths(item: Item, what: str, many: bool) -> list[str]:
    values = item.items(what) if many and item.is_list else [item]
    for value in values:
        if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", value.text(what)):
            value.wrong(f"{what}: '{cut_text(value.text(what))}' is no path into JSON, such as usage.input_tokens")
    return [value.text(what) for value in values]


def _patterns(item: Item, what: str) -> dict[str, list[str]]:
    """Regular expressions by the kind of outage that they tell of."""
    kinds = item.pairs(what) if item.is_map else [("server", item)]
    found: dict[str, list[str]] = {}
    for kind, words in kinds:
        if kind not in OUTAGE_KINDS:
            words.wrong(f"{what}: '{cut_text(kind)}' is no kind of outage{did_you_mean(kind, OUTAGE_KINDS)}")
        for word in words.items(what) if words.is_list else [words]:
            try:
                re.compile(_text(word, what))
            except re.error as error:
                word.wrong(f"{what}: '{cut_text(word.text(what))}' is no regular expression: {error}")
            found.setdefault(kind, []).append(word.text(what))
    return found


def _number(item: Item, what: str) -> float:
    """A number as it is written: it goes into requests."""
    fields.number(0)(item, what)
    value: float = item.plain()
    return value


def _url(item: Item, what: str) -> str:
    url = item.text(what)
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", url):
        item.wrong(f"{what}: expected the base URL of an API, without a user or a query: http://localhost:8000/v1")
    for path in ("/chat/completions", "/messages"):
        if url.rstrip("/").endswith(path):
            item.wrong(f"{what}: leave {path} out, it is put behind the base URL")
    return url


def _body(item: Item, what: str) -> dict[str, Any]:
    for name, value in item.pairs(what):
        if name in OWN_FIELDS:
            where = "is set by Coppice" if name in ("messages", "stream") else "is a key of the backend itself"
            value.wrong(f"{what}: '{name}' {where}; leave it out here")
    found: dict[str, Any] = item.plain()
    return found


TEXT = Reader(_text, fields.SOME_TEXT)
VARIABLE_NAME = Reader(_variable, {"type": "string"})
NUMBER = Reader(_number, {"type": "number", "minimum": 0})
# A path, or several of numbers that are added up.
JSON_PATH = Reader(lambda item, what: _paths(item, what, False), fields.SOME_TEXT)
JSON_PATHS = Reader(lambda item, what: _paths(item, what, True), fields.TEXTS)
USAGE = FieldTable(
    Field("text", JSON_PATH, "the answer"),
    Field("usd", JSON_PATHS, "what it cost, in USD"),
    Field("input_tokens", JSON_PATHS, "tokens of the prompt, the cached ones too"),
    Field("output_tokens", JSON_PATHS, "tokens of the answer"),
    Field("cached_tokens", JSON_PATHS, "those of the prompt that the service had kept"),
    Field("cache_write_tokens", JSON_PATHS, "those of the prompt that the service has put into its cache"),
)
PRICE = FieldTable(
    Field("input", NUMBER, "of a million tokens of the prompt, in USD", needed=True),
    Field("output", NUMBER, "of a million tokens of the answer, in USD", needed=True),
    Field("cached", NUMBER, "of a million cached tokens of the prompt, in USD"),
    Field("cache_write", NUMBER, "of a million tokens of the prompt that are put into the cache, in USD"),
)


def _given(table: FieldTable) -> Reader:
    return Reader(lambda item, what: table.read(item, what).as_dict(), table.schema)


FREE_PRICE = "free"


def _price(item: Item, what: str) -> dict[str, Any] | str:
    if item.is_map:
        return PRICE.read(item, what).as_dict()
    if item.text(what) != FREE_PRICE:
        item.wrong(f"{what}: expected {{input: …, output: …}} in USD for a million tokens, or {FREE_PRICE}")
    return FREE_PRICE


PRICES = Reader(_price, fields.any_of({"const": FREE_PRICE}, PRICE.schema))
PRICE_HELP = (
    "`{input: …, output: …, cached: …, cache_write: …}` in USD for a million tokens (the last two: of the prompt, read "
    "from the service's cache or put into it, without them as `input`), or `free`, as a model of your own is"
)


def is_price_unknown(role: Mapping[str, Any]) -> bool:
    """Check if nobody will know what the calls of a role cost: no price, and no cost in what it prints."""
    tells = role["backend"] in CLIENTS_WITH_COST or "usd" in role.get("usage", {})
    return role["backend"] in PAID_BACKENDS and "price" not in role and not tells


OUTAGE_TEXTS = fields.any_of(fields.TEXTS, fields.object_of(fields.TEXTS, propertyNames={"enum": [*OUTAGE_KINDS]}))
PROMPT = Field("prompt", TEXT, "the path of a template in the project, in place of the one that comes with Coppice")
CONTEXT_TOKENS = Field("context_tokens", fields.count(0, 10_000_000), help=
    "tokens of the repository's files in its prompts, at 4 characters each; for models behind HTTP, which cannot look "
    "at files, and for programs that only answer; 0: none", without="30000 for models behind HTTP, else 0")  # fmt: skip
PROMPT_FIELDS = (PROMPT, CONTEXT_TOKENS)
CODER_FIELDS = (
    Field("max_repairs", fields.count(0, 20), without="2", help=
          "how often, in each round, it is told why the change in its answer could not be used"),
    Field("partial", fields.choice(("drop", "keep")), without="`drop`", help=
          "`keep`: what a program changed before it failed, at its limit of turns for instance, becomes the candidate, "
          "and is reviewed and tested like any other. An outage is never kept"),
)  # fmt: skip
_OF_PROGRAMS = (
    Field("env", Reader(_env, fields.object_of(fields.TEXT.schema)), "name: value, variables that are set"),
    Field("pass", Reader(lambda item, what: [_variable(each, what) for each in item.items(what)],
                         fields.list_of(VARIABLE_NAME.schema)),
          "list of names: variables passed through from the environment of `coppice`, keys above all; one that is "
          "not set is left out"),
    Field("timeout", fields.SECONDS, without="`1h`", help=
          "then the program and all that it has started are ended, and the target fails"),
    Field("outage", Reader(_patterns, OUTAGE_TEXTS),
          "regular expressions for what it prints at its end when its service is out: a text, a list, or a mapping by "
          f"kind ({fields.quoted(OUTAGE_KINDS)}): [below](#patterns-of-an-outage)"),
    *fields.cage_fields("that of the spec", "`full`"),
)  # fmt: skip
_PROGRAM_PRICE = Field("price", PRICES, f"{PRICE_HELP}; for programs that do not say what they cost")
_ENDPOINT_PRICE = Field("price", PRICES, f"{PRICE_HELP}; without it, the cost is unknown")
# Clients by recipe, with the keys that only some have.
CLIENTS: dict[str, tuple[Field, ...]] = {
    "claude": (
        Field("max_turns", fields.count(1), "how many turns the agent may take"),
        Field("max_usd", NUMBER, "what one call may cost, by its own account"),
    ),
    "codex": (),
    "aider": (),
    "gemini": (),
    "opencode": (),
}
CLIENTS_WITH_COST = ("claude", "aider", "opencode")  # the others tell tokens alone
_ARGS = Reader(lambda item, what: [_text(word, what) for word in item.items(what)], fields.list_of(fields.SOME_TEXT))


def _client(*more: Field) -> tuple[Field, ...]:
    model = Field("model", TEXT, "as the client calls it", without="the client's own choice")
    args = Field("args", _ARGS, "list of further words for its command line")
    return (PROMPT, model, *more, args, *_OF_PROGRAMS, _PROGRAM_PRICE)


_FIELDS: dict[str, tuple[Field, ...]] = {
    "command": (
        PROMPT,
        Field("run", Reader(_words, fields.list_of(fields.SOME_TEXT, minItems=1)), needed=True, help=
              "the command as a list of words. In braces: `{prompt_file}`, `{answer_file}`, `{model}`, and "
              "`{project}`, the project's root, for programs that are files of the project; `{{` and `}}` are braces"),
        Field("reads", Reader(_files, fields.TEXTS),
              "files that it is made of, such as a program named with `{project}`: when one is edited, it is asked "
              "anew"),
        Field("model", TEXT, "what `{model}` stands for; recorded with the call"),
        *_OF_PROGRAMS,
        Field("usage", _given(USAGE),
              "where in the JSON that it prints something stands: `text` (the answer), `usd`, `input_tokens`, "
              "`output_tokens`, `cached_tokens` (those of `input_tokens` that the service had kept), "
              "`cache_write_tokens` (those that it has put into its cache)"),
        _PROGRAM_PRICE,
    ),
    **{name: _client(*more) for name, more in CLIENTS.items()},
    "openai": (
        PROMPT,
        Field("url", Reader(_url, {"type": "string", "pattern": "^https?://"}), needed=True, help=
              "the base URL; `/chat/completions` is put behind it"),
        Field("model", TEXT, "as the service calls it", needed=True),
        Field("key_env", VARIABLE_NAME,
              "the name of the environment variable that holds the key; local servers need none"),
        Field("temperature", NUMBER, "as the service understands it"),
        Field("seed", fields.count(0), "a whole number; few services promise the same answer for the same seed"),
        Field("max_tokens", fields.count(1), "the longest answer; one that is cut off has failed"),
        Field("body", Reader(_body, {"type": "object", "propertyNames": {"not": {"enum": [*OWN_FIELDS]}}}),
              "mapping: further fields of the request, for what only some services have"),
        Field("timeout", fields.SECONDS, "for each try, from the start to the last byte", without="`10m`"),
        Field("retries", fields.count(0, 100), without="0", help=
              "how often a request that was refused or lost is sent again, after a second at most"),
        _ENDPOINT_PRICE,
    ),
    "anthropic": (
        PROMPT,
        Field("url", Reader(_url, {"type": "string", "pattern": "^https?://"}),
              "the base URL, with or without `/v1`; `/messages` is put behind it",
              without="`https://api.anthropic.com`"),
        Field("model", TEXT, "as the service calls it", needed=True),
        Field("key_env", VARIABLE_NAME, "the name of the environment variable that holds the key",
              without="`ANTHROPIC_API_KEY`"),
        Field("max_tokens", fields.count(1), "the longest answer; one that is cut off has failed", without="8192"),
        Field("temperature", NUMBER, "as the service understands it"),
        Field("body", Reader(_body, {"type": "object", "propertyNames": {"not": {"enum": [*OWN_FIELDS]}}}),
              "mapping: further fields of the request, such as `system` or `thinking`"),
        Field("timeout", fields.SECONDS, "for each try, from the start to the last byte", without="`10m`"),
        Field("retries", fields.count(0, 100), without="0", help=
              "how often a request that was refused or lost is sent again, after a second at most"),
        _ENDPOINT_PRICE,
    ),
    "replay": (PROMPT, Field("folder", fields.FOLDER, "all files `*.jsonl` in it and below it are read", needed=True)),
    PATCHES: (Field("folder", fields.FOLDER, "the folder in which they are", needed=True, without=
              "needed, for `ideas` alone"),),
    MANUAL: (PROMPT, Field("folder", fields.FOLDER, "where the answers are put", needed=True)),
    NONE: (),
}  # fmt: skip


def _backend(name: str, keys: tuple[Field, ...]) -> FieldTable:
    return FieldTable(Field("backend", Reader(_text, {"const": name}), f"`{name}`", needed=True), *keys)


PROGRAM_BACKENDS = ("command", *CLIENTS)
# A recorded answer has its cost, which is not paid again.
PAID_BACKENDS = (*PROGRAM_BACKENDS, "openai", "anthropic")
_ASKED = (*PAID_BACKENDS, "replay")
_WITH_PROMPT = {name: (*keys, CONTEXT_TOKENS) if name in _ASKED else keys for name, keys in _FIELDS.items()}
BACKENDS = {name: _backend(name, keys) for name, keys in _WITH_PROMPT.items()}
# The changes lie beside the ideas: the folder is theirs.
KEYS_OF_ROLE = {("coder", PATCHES): _backend(PATCHES, ())}
KEYS_OF_ROLE |= {("coder", name): _backend(name, (*_WITH_PROMPT[name], *CODER_FIELDS)) for name in _ASKED}


# Which backends may answer for a role.  Without a plan or a review a search can do.
ROLE_BACKENDS = {
    "ideas": (*_ASKED, PATCHES, MANUAL),
    "planner": (*_ASKED, NONE),
    "coder": (*_ASKED, PATCHES, MANUAL),
    "reviewer": (*_ASKED, NONE),
}
NEEDED_ROLES = ("ideas", "coder")
KEY_WORDS = ("key", "api_key", "apikey", "token", "access_token", "secret", "password")


def _role_field(role: str) -> Field:
    names = ROLE_BACKENDS[role]
    schema = fields.any_of(*(KEYS_OF_ROLE.get((role, name), BACKENDS[name]).schema for name in names))
    read = Reader(lambda item, _what: _role(role, item), schema)
    return Field(role, read, f"backends: {fields.quoted(names)}", {"backend": NONE}, needed=role in NEEDED_ROLES)


_PATCHES = {"properties": {"backend": {"const": PATCHES}}}
ROLES = FieldTable(
    *map(_role_field, ROLE_BACKENDS),
    rules={"if": {"properties": {"coder": _PATCHES}}, "then": {"properties": {"ideas": _PATCHES}}},
)


def read_roles(item: Item, what: str = "roles") -> dict[str, dict[str, Any]]:
    found = ROLES.read(item, what)
    return {role: found[role] for role in ROLE_BACKENDS}


ROLES_READER = Reader(read_roles, ROLES.schema)


def _role(role: str, item: Item) -> dict[str, Any]:
    what = f"role {role}"
    named = dict(item.pairs(what))
    _refuse_keys(named, item, what)
    if "backend" not in named:
        item.wrong(f"{what}: 'backend' is missing; one of {', '.join(ROLE_BACKENDS[role])}")
    name = named["backend"].text(f"{what}: backend")
    if name not in ROLE_BACKENDS[role]:
        hint = did_you_mean(name, ROLE_BACKENDS[role])
        named["backend"].wrong(f"{what}: backend '{cut_text(name)}' cannot be {role}{hint}")
    values = KEYS_OF_ROLE.get((role, name), BACKENDS[name]).read(item, f"{what}: {name}", f"{what}: ")
    read = {key: value for key, value in values.as_dict().items() if key not in fields.CAGE_FIELDS}
    if name in PROGRAM_BACKENDS and any(cage := fields.read_cage(values)):
        read[CAGE] = cage.record
        if name in CLIENTS and cage.network in (NO_NETWORK, LOCAL):
            why = "its model is reached by the network of the machine; drop the key, or say `full`"
            values.wrong("network", f"network: {name} asks nobody with `{cage.network}`: {why}")
    used = {name for word in read.get("run", ()) for name in parse_template(word).names}
    if "model" in used and "model" not in read:
        item.wrong(f"{what}: {{model}} in `run:` stands for nothing; say which: `model: NAME`")
    if "answer_file" in used and "text" in read.get("usage", {}):
        item.wrong(f"{what}: the answer is taken from {{answer_file}}, or from what is printed: drop `usage: text`")
    return read


def _refuse_keys(named: dict[str, Item], item: Item, what: str) -> None:
    """Refuse keys before anything else is said, which might repeat them."""
    for value in _texts(item, what):
        if _KNOWN.search(value.text(what)):
            value.wrong(f"{what}: this is an API key; {ADVICE}")
    for word in KEY_WORDS:
        if word in named:
            named[word].wrong(f"{what}: a key has no place here; {ADVICE}")


def _texts(item: Item, what: str) -> Iterator[Item]:
    """Every text that stands in it, wherever."""
    if item.is_map or item.is_list:
        for value in [value for _, value in item.pairs(what)] if item.is_map else item.items(what):
            yield from _texts(value, what)
    elif not item.is_null:
        yield item
