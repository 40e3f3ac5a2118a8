"""One table of fields for each mapping of a spec: key, reader, help, default, and the option that says the same.

A table reads YAML.  It gives the options of commands, the variables of the environment, the key pages in docs/ and the
JSON Schema as well.  Readers take an Item and the words that messages begin with, and give the checked value."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple, NoReturn

from pipeline.core.cages import AUTO, GRADES, LANDLOCK, LOCAL, NETWORKS, NO_NETWORK, PLAIN, SIZE_LIMITS, CageKeys
from pipeline.core.templates import Template, TemplateError, parse_template
from pipeline.errors import cut_text, did_you_mean
from pipeline.spec import Item

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

Schema = Mapping[str, Any]
WORTH_SHARING = 100  # letters of a part of a schema


class Reader:
    """A reader of values and their JSON Schema.  The schema may allow what the reader refuses, never the reverse."""

    __slots__ = ("read", "schema")

    def __init__(self, read: Callable[[Item, str], Any], schema: Schema) -> None:
        self.read, self.schema = read, schema

    def __call__(self, item: Item, what: str) -> Any:
        return self.read(item, what)


class Field(NamedTuple):
    """A key.  `help` is Markdown; `without`: what the page says of a spec without the key, if not its default.

    An option has a `value`, which is what its value is called, or is a `switch`; `flag` is its name where that is not
    the key.  `variable`: of the environment, says the same where no option does.  `needs`: keys without which this one
    means nothing; `group.key` where they stand in another mapping."""

    key: str
    read: Reader
    help: str
    default: Any = None
    without: str = ""
    needed: bool = False
    value: str = ""
    switch: bool = False
    inverse: bool = False
    flag: str = ""
    variable: str = ""
    needs: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        default = {"default": self.default} if isinstance(self.default, str | int | float) else {}
        return {**self.read.schema, "description": plain_help(self.help), **default}


class FieldTable:
    """The keys of a mapping.  `defaults` are of fields that have none; `rules`: what a schema says beside the keys."""

    def __init__(self, *fields: Field, defaults: Mapping[str, Any] | None = None, rules: Schema | None = None) -> None:
        given = defaults or {}
        settled = (each if each.default is not None else each._replace(default=given.get(each.key)) for each in fields)
        self.fields = {each.key: each for each in settled}
        self._needed = tuple(each.key for each in fields if each.needed)
        self._rules = rules or {}

    def __getitem__(self, key: str) -> Field:
        return self.fields[key]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())

    def read(self, item: Item, what: str, before: str | None = None) -> Values:
        """The mapping there; what is wrong with a value begins with `before`, or with `what`."""
        items = item.fields(what, self.fields, self._needed)
        return Values(self, item, items, f"{what}: " if before is None else before)

    @property
    def flags(self) -> tuple[Field, ...]:
        return tuple(each for each in self if each.value or each.switch)

    @property
    def schema(self) -> Schema:
        needs = {each.key: beside for each in self if (beside := [key for key in each.needs if key in self.fields])}
        return {
            "type": "object",
            "properties": {each.key: each.schema for each in self},
            "additionalProperties": False,
            **({"required": [*self._needed]} if self._needed else {}),
            **({"dependentRequired": needs} if needs else {}),
            **self._rules,
        }


class Values:
    """A mapping of a spec, read key by key: a key that it lacks has its default."""

    __slots__ = ("before", "item", "items", "table")

    def __init__(self, table: FieldTable, item: Item, items: dict[str, Item], before: str) -> None:
        self.table, self.item, self.items, self.before = table, item, items, before

    def __contains__(self, key: object) -> bool:
        return key in self.items

    def __getitem__(self, key: str) -> Any:
        field, item = self.table.fields[key], self.items.get(key)
        return field.default if item is None else field.read.read(item, self.before + key)

    def at(self, key: str) -> Item:
        """Place to point at when something about `key` is wrong."""
        return self.items.get(key, self.item)

    def wrong(self, key: str, what: str) -> NoReturn:
        self.at(key).wrong(self.before + what)

    def record(self, kind: Any, **others: Any) -> Any:
        """A NamedTuple of the values of the keys that are called like its fields, and of others."""
        fields = self.table.fields
        return kind(**{name: self[name] for name in kind._fields if name in fields and name not in others}, **others)

    def as_dict(self) -> dict[str, Any]:
        """Values of the keys that are there."""
        return {key: self[key] for key in self.items}


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def plain_help(text: str) -> str:
    """Markdown without links."""
    return _LINK.sub(r"\1", text)


def checked_name(name: str, item: Item, what: str) -> str:
    if not NAME.fullmatch(name):
        item.wrong(f"{what}: '{cut_text(name)}' is not a name; use letters, digits, _ and -, a letter first")
    return name


def checked_variable(name: str, item: Item, what: str) -> str:
    from pipeline.machine.process import OWN_VARIABLES  # here: most plan without all that starting processes takes

    if name in OWN_VARIABLES:
        item.wrong(f"{what}: {name} {OWN_VARIABLES[name]}; choose another name")
    if not VARIABLE.fullmatch(name):
        item.wrong(f"{what}: '{name}' is not the name of an environment variable")
    return name


def environment(item: Item, what: str) -> tuple[dict[str, Item], tuple[str, ...]]:
    """The variables that are set, and the names that are passed through: a list, or names without a value."""
    if item.is_list:
        return {}, tuple(checked_variable(name.text(what), name, what) for name in item.items(what))
    pairs = [(checked_variable(name, value, what), value) for name, value in item.pairs(what)]
    return {name: value for name, value in pairs if not value.is_null}, tuple(n for n, v in pairs if v.is_null)


def read_template(item: Item, what: str, parse: Callable[[str], Template] = parse_template) -> Template:
    try:
        return parse(item.text(what))
    except TemplateError as error:
        item.wrong(f"{what}: {error}")


def count(least: int, most: int | None = None) -> Reader:
    limit = {} if most is None else {"maximum": most}
    return Reader(lambda item, what: item.count(what, least, most), {"type": "integer", "minimum": least, **limit})


def checked(read: Reader, is_right: Callable[[Any], bool], mistake: str, **schema: Any) -> Reader:
    """The reader of values that are right besides; `schema`: what the schema says of that."""

    def read_checked(item: Item, what: str) -> Any:
        value = read(item, what)
        return value if is_right(value) else item.wrong(f"{what}: {mistake}")

    return Reader(read_checked, {**read.schema, **schema})


def number(least: float | None = None, most: float | None = None) -> Reader:
    words = "" if least is None else f", {least:g} or more" if most is None else f" from {least:g} to {most:g}"
    low, high = -inf if least is None else least, inf if most is None else most

    def read(item: Item, what: str) -> float:
        value = item.plain()
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            item.wrong(f"{what}: expected a number{words}, found {item.summary()}")
        return float(value)

    limits = {"minimum": least, "maximum": most}
    return Reader(read, {"type": "number"} | {name: limit for name, limit in limits.items() if limit is not None})


def choice(allowed: Iterable[str]) -> Reader:
    def read(item: Item, what: str) -> str:
        value = item.text(what)
        if value not in allowed:
            word = value if isinstance(item.plain(), str) else ""  # `true` is like no word
            item.wrong(f"{what}: '{cut_text(value)}' is unknown{did_you_mean(word, allowed)}")
        return value

    return Reader(read, {"enum": [*allowed]})


def _boolean(item: Item, what: str) -> bool:
    value = item.plain()
    if not isinstance(value, bool):
        item.wrong(f"{what}: expected true or false, found {item.summary()}")
    return value


class StorePlace(NamedTuple):
    """The folder for results; `sign`: only results that this user has signed are believed."""

    path: str
    sign: bool


def folder_path(item: Item, what: str) -> str:
    """The path of a folder as it is written; `~/…` is for whoever opens it to expand, and nobody else has a `~`."""
    path = item.text(what) or item.wrong(f"{what}: expected the path of a folder, found ''")
    if path.startswith("~") and path.partition("/")[0] != "~":
        name = path.partition("/")[0]
        item.wrong(f"{what}: {cut_text(name)}: the HOME of another user has no name here; write the path out, or ~/…")
    return path


def _store(item: Item, what: str) -> StorePlace:
    if not item.is_map:
        return StorePlace(folder_path(item, what), sign=False)
    keys = _STORE_KEYS.read(item, what)
    return StorePlace(keys["path"], keys["sign"])


def object_of(values: Schema, **rules: Any) -> Schema:
    """The schema of a mapping with keys of its own."""
    return {"type": "object", "additionalProperties": values, **rules}


def names_of(values: Schema, *taken: str, least: int = 0) -> Schema:
    """The schema of a mapping of so many names or more, none of them `taken`."""
    names = {"pattern": f"^{NAME.pattern}$", **({"not": {"enum": [*taken]}} if taken else {})}
    return object_of(values, propertyNames=names, minProperties=least)


def list_of(values: Schema, **rules: Any) -> Schema:
    return {"type": "array", "items": values, **rules}


def as_item(schema: Schema) -> Reader:
    """Reader of what needs more than the value: the place of it."""
    return Reader(lambda item, _what: item, schema)


def any_of(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas]}


BOOLEAN = Reader(_boolean, {"type": "boolean"})
_ZERO = re.compile(r"0+(\.0+)? ?[smhd]?")
TEXT = Reader(lambda item, what: item.text(what), {"type": ["string", "number", "boolean"]})
SECONDS = Reader(
    lambda item, what: item.seconds(what),
    any_of({"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": r"^\d+(\.\d+)? ?[smhd]?$"}),
)
# The same, or 0.
PAUSE = Reader(
    lambda item, what: 0.0 if _ZERO.fullmatch(str(item.plain())) else item.seconds(what),
    any_of({"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\d+(\.\d+)? ?[smhd]?$"}),
)
SHARE = number(0, 1)
# An empty text is no path, and a mapping in braces without quotes is no text.
SOME_TEXT: Schema = {**TEXT.schema, "minLength": 1}
FOLDER = Reader(folder_path, {**SOME_TEXT, "pattern": "^(~$|~/|[^~])"})
TEXTS: Schema = any_of(SOME_TEXT, list_of(SOME_TEXT))
COMMAND_SCHEMA = any_of(SOME_TEXT, list_of(TEXT.schema, minItems=1))
# Names to pass through in a list; or a mapping, in which a name without a value is passed through.
_VARIABLE_NAME = {"type": "string", "pattern": f"^{VARIABLE.pattern}$"}
ENV_SCHEMA = any_of(
    list_of(_VARIABLE_NAME), object_of(any_of(TEXT.schema, {"type": "null"}), propertyNames=_VARIABLE_NAME)
)
_STORE_KEYS = FieldTable(
    Field("path", FOLDER, "the folder", default="runs/.store"),
    Field("sign", BOOLEAN, "sign results, and believe only those that are signed with the same key", default=False),
)
STORE = Field(
    "store",
    Reader(_store, any_of(FOLDER.schema, _STORE_KEYS.schema)),
    "folder for results, from the project's root or with `~/`; other checkouts and machines may share it."
    " `{path: …, sign: true}` believes only [results that you have signed](internals.md#signed-results)",
    without="`runs/.store`",
)


# --- Cages: what holds a command, the same words wherever a spec has one.
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]?)B?")
_SIZES = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


_LARGEST = 1 << 60  # bytes, more than any machine has


def _size(least: str) -> Reader:
    """Reader of sizes from `least` on: with less not even a shell would do its work."""

    def read(item: Item, what: str) -> int:
        size, fewest = (float(found[1]) * _SIZES[found[2]] if (found := _SIZE.fullmatch(text)) else 0.0
                        for text in (str(item.plain()), least))  # fmt: skip
        if not 1 <= size <= _LARGEST:
            item.wrong(f"{what}: expected a size such as 2 GB, 512 MB or 64 kB, found {item.summary()}")
        if size < fewest:
            item.wrong(f"{what}: {item.summary()} is too little for any command; {least} or more")
        return int(size)

    number = {"type": "number", "exclusiveMinimum": 0}
    return Reader(read, any_of(number, {"type": "string", "pattern": f"^{_SIZE.pattern}$"}))


SIZES = {name: _size(least) for name, least in zip(SIZE_LIMITS, ("16 MB", "4 kB", "64 kB", "1 kB"), strict=True)}
LIMITS = FieldTable(
    Field("memory", SIZES["memory"], "of all its processes together", without="3/4 of the machine's"),
    Field("cpu", SECONDS, "CPU time of all its processes together: `90`, `10m`", without="none"),
    Field("processes", count(4, 4_000_000), "processes and threads at once", 4096),
    Field("files", count(16, 1_000_000), "files that one of its processes has open", 8192),
    Field("file_size", SIZES["file_size"], "of one file that it writes", without="8 GB"),
    Field("output", SIZES["output"], "what it adds to the disk, in its checkout and its output", without="16 GB"),
    Field("log", SIZES["log"], "what it prints", without="64 MB"),
)  # fmt: skip
_IN_VARIABLE = re.compile(r"\$(\w|\{)")


def _visible(item: Item, what: str) -> tuple[str, ...]:
    return tuple(_visible_path(path, what) for path in (item.items(what) if item.is_list else [item]))


def _visible_path(item: Item, what: str) -> str:
    """A path that a command may read besides, unless it can never be right."""
    path = item.text(what) or item.wrong(f"{what}: an empty path")
    if _IN_VARIABLE.search(path):
        item.wrong(f"{what}: {cut_text(path)}: variables have no value here; write ~/… or the path itself")
    first, _, inner = folder_path(item, what).partition("/")
    if first == "~" and posixpath.normpath(inner).partition("/")[0] in (".", ".."):
        item.wrong(f"{what}: {cut_text(path)} is all of HOME, with its keys; name folders in it, as ~/.cache/models")
    whole = f"{posixpath.normpath(path)}/"
    if not whole.strip("/"):
        item.wrong(f"{what}: / is all of the machine; name the folders that are needed")
    if whole.startswith(("/proc/", "//proc/")):
        item.wrong(f"{what}: {cut_text(path)}: a cage has a /proc of its own, which cannot be another; drop it")
    return path


def _limits(item: Item, what: str) -> dict[str, float]:
    return LIMITS.read(item, what).as_dict()


_NO_CAGE = CageKeys()
CAGE_FIELDS = ("sandbox", "network", "limits", "visible")


def cage_fields(grade: str, network: str) -> tuple[Field, ...]:
    """The keys of a cage.  `grade` and `network`: what holds without them, in words."""
    known = [AUTO, *GRADES]
    return (
        Field("sandbox", choice(known), f"what holds it: {quoted(known)}: [sandbox.md](sandbox.md)", without=grade),
        Field("network", choice(NETWORKS), without=network, help=
              f"{quoted(NETWORKS)}: none at all, addresses of its own that nothing else has, or that of the machine"),
        Field("limits", Reader(_limits, LIMITS.schema), without="[wide ones](sandbox.md#limits)", help=
              f"of {quoted(LIMITS.fields)}: who passes one is ended, and has failed"),
        Field("visible", Reader(_visible, TEXTS), without="what it is given", help=
              "paths that it may read besides, such as `~/.cache/models`: [sandbox.md](sandbox.md#what-is-visible)"),
    )  # fmt: skip


def read_cage(values: Values, outer: CageKeys = _NO_CAGE, grade: str = "") -> CageKeys:
    """The keys of a cage there, within those of a whole run, checked against each other.

    `grade`: which one it is if neither names one."""
    own = CageKeys(*(values[name] or CageKeys._field_defaults[name] for name in CAGE_FIELDS))
    if any(own):
        own = own._replace(line=values.at("sandbox" if "sandbox" in values else "network").line)
    keys = own.within(outer)
    if any(keys):
        keys = keys._replace(sandbox=keys.sandbox or grade)
    if why := cage_mistake(keys):
        key = "network" if "network" in values else "sandbox"
        values.wrong(key, f"{key}: {why}")
    return keys


def cage_mistake(keys: CageKeys) -> str:
    """Why a network cannot be had in a cage on any machine; empty if it can."""
    if keys.sandbox == PLAIN and keys.network in (NO_NETWORK, LOCAL):
        return f"plain has the machine's network; `network: {keys.network}` needs a cage, such as `sandbox: auto`"
    if keys.sandbox == LANDLOCK and keys.network == LOCAL:
        return "landlock has no network, or the machine's; `network: local` needs `sandbox: isolated`"
    return ""


def kind_field(kind: str) -> Field:
    return Field("kind", Reader(choice((kind,)), {"const": kind}), f"`{kind}`", needed=True)


def schema_of(tables: Mapping[str, FieldTable]) -> Schema:
    """The JSON Schema of specs of one kind, or of several."""
    kinds = {name: table.schema for name, table in tables.items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A spec of Coppice"}
    if len(kinds) == 1:
        return _with_shared_parts({**head, **next(iter(kinds.values()))})
    kind = {"enum": [*kinds], "description": "The kind of run."}
    one_of = [{"$ref": f"#/$defs/{name}"} for name in kinds]
    rules = {"type": "object", "required": ["kind"], "properties": {"kind": kind}, "oneOf": one_of}
    return _with_shared_parts({**head, **rules, "$defs": kinds})


def _with_shared_parts(schema: Schema) -> Schema:
    """The same schema, in which what stands several times stands once, under `$defs`."""
    firsts: dict[str, dict[str, Any]] = {}
    shared: dict[str, Schema] = {}

    def visit(part: Any) -> Any:
        if not isinstance(part, dict):
            return [visit(each) for each in part] if isinstance(part, list) else part
        is_schema = isinstance(part.get("type"), str | list) or isinstance(part.get("anyOf"), list)
        text = repr(part) if is_schema else ""
        if len(text) < WORTH_SHARING or text not in firsts:
            new = firsts[text] = {key: visit(value) for key, value in part.items()}
            return new
        first = firsts[text]
        if "$ref" not in first:
            name = f"shared{len(shared)}"
            shared[name] = {**first}
            first.clear()
            first["$ref"] = f"#/$defs/{name}"
        return {**first}

    parts = visit(schema)
    return {**parts, "$defs": {**parts.get("$defs", {}), **shared}}
