"""Files of the repository in a prompt, for a model that cannot look at them.

The names of all files come first.  Then come contents, as far as the budget goes: files that the texts of this idea
name, files that the commands of the search name, files that those import or mention, then the others, small ones
first, code before data.  What does not fit is named.  Files that are binary, huge or a link, protected data, and files
that by their name hold keys, are named only.  The order depends on names and contents alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.text import plural
from pipeline.tree.rules.protection import imported_modules, printable_path

CHARACTERS_PER_TOKEN = 4  # an estimate: each model has a tokenizer of its own
DEFAULT_TOKENS = 30_000
LARGEST_FILE = 400_000  # bytes
_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".lock", ".log", ".svg", ".xml", ".dat", ".parquet", ".ipynb")
_KEYS = re.compile(
    r"\.env(\..*)?|.*\.(pem|key|p12|pfx|keystore)|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.pgpass|credentials"
)
_WORD = re.compile(r"[\w./+-]+")
_MOST_NAMESAKES, _MOST_LEFT_OUT = 3, 40


class RepoFile(NamedTuple):
    """A file of a tree; `is_plain`: no link."""

    path: str
    size: int
    is_plain: bool = True


class ContextTexts(NamedTuple):
    """Texts that name files: those of this idea, and the commands of the search."""

    about: str
    commands: str


Read = Callable[[Sequence[str]], Mapping[str, bytes]]  # the contents of files


def is_data(path: str) -> bool:
    return path.lower().endswith(_DATA)


def files_section(
    files: Sequence[RepoFile], texts: ContextTexts, tokens: int, read: Read, withheld: Callable[[str], bool]
) -> str:
    """The section about the repository; `withheld`: files that are named only."""
    budget = tokens * CHARACTERS_PER_TOKEN
    ordered = sorted(files)
    names = "\n".join(_name_lines(ordered, budget // 4))
    shown, left_out = _Choice(ordered, texts, budget - len(names), read, withheld).choose()
    parts = [f"{plural(len(files), 'file')}:\n\n{names}\n"]
    parts += [f"### {path}\n\n{_fenced(text)}" for path, text in shown.items()]
    if left_out:
        more = len(left_out) - _MOST_LEFT_OUT
        named = ", ".join(f"{printable_path(each.path)} ({each.size} bytes)" for each in left_out[:_MOST_LEFT_OUT])
        parts.append(f"Not shown, for lack of room: {named}{f' and {more} more' if more > 0 else ''}\n")
    return "\n".join(parts)


def _name_lines(files: Sequence[RepoFile], room: int) -> Iterator[str]:
    """The path of each file; where these are too many, folders with the number of their files."""
    paths = [printable_path(each.path) for each in files]
    if sum(len(path) + 1 for path in paths) <= max(room, 2000):
        yield from paths
        return
    folders: dict[str, int] = {}
    for path in paths:
        folder = "/".join(path.split("/")[:-1][:2])
        folders[folder] = folders.get(folder, 0) + 1
    for folder, count in [*folders.items()][: max(room, 2000) // 40]:
        yield f"{folder or '.'}/ ({plural(count, 'file')})"


class _Choice:
    """The choice of files whose contents are shown."""

    def __init__(
        self,
        files: Sequence[RepoFile],
        texts: ContextTexts,
        room: int,
        read: Read,
        withheld: Callable[[str], bool],
    ) -> None:
        self.files = {each.path: each for each in files if each.is_plain and not _is_key_file(each.path)}
        self.files = {p: each for p, each in self.files.items() if not withheld(p) and printable_path(p) == p}
        self.texts, self.room, self.read = texts, room, read
        self.shown: dict[str, str] = {}
        self.left_out: dict[str, RepoFile] = {}
        self.not_text: set[str] = set()

    def choose(self) -> tuple[dict[str, str], list[RepoFile]]:
        by_name = _by_name(self.files)
        self._take(mentioned_files(self.texts.about, self.files, by_name))
        self._take(mentioned_files(self.texts.commands, self.files, by_name))
        self._take([path for text in [*self.shown.items()] for path in _used_by(*text, self.files, by_name)])
        self._take(sorted(self.files, key=lambda path: (is_data(path), self.files[path].size, path)))
        return self.shown, [*self.left_out.values()]

    def _take(self, paths: Iterable[str]) -> None:
        """Show files in this order while there is room for them."""
        chosen: list[str] = []
        for path in dict.fromkeys(paths):
            each = self.files[path]
            if path in self.shown or path in self.left_out or path in self.not_text:
                continue
            cost = each.size + len(path) + 20
            if cost > self.room or each.size > LARGEST_FILE:
                self.left_out[path] = each
                continue
            self.room -= cost
            chosen.append(path)
        contents = self.read(chosen) if chosen else {}
        for path in chosen:
            text = _text_of(contents[path])
            if text is None:
                self.room += self.files[path].size + len(path) + 20
                self.not_text.add(path)
            else:
                self.shown[path] = text


def _is_key_file(path: str) -> bool:
    return _KEYS.fullmatch(posixpath.basename(path).lower()) is not None


def _text_of(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(posixpath.basename(path), []).append(path)
    return found


def mentioned_files(text: str, files: Iterable[str], by_name: Mapping[str, Sequence[str]]) -> list[str]:
    """Files that a text names: by path, by a name that few files have, or as a Python module."""
    words = dict.fromkeys(word.strip("/.").removeprefix("./") for word in _WORD.findall(text))
    known, found = {*files}, dict[str, None]()
    for word in words:
        namesakes = by_name.get(word, ()) if "." in word else ()
        module = word.replace(".", "/")
        ways = (
            word,
            f"{module}.py",
            f"{module}/__main__.py",
            *(namesakes if len(namesakes) <= _MOST_NAMESAKES else ()),
        )
        found |= dict.fromkeys(path for path in ways if path in known)
    return [*found]


def _used_by(path: str, text: str, files: Iterable[str], by_name: Mapping[str, Sequence[str]]) -> list[str]:
    """Files that a file uses: what it imports, or mentions by path."""
    if not path.endswith(".py"):
        return [] if is_data(path) else mentioned_files(text, files, by_name)
    known, folder = {*files}, posixpath.dirname(path)
    found: dict[str, None] = {}
    for module in imported_modules(text.encode()):
        parts = module.split(".")
        for base in (folder, "", "src"):
            for depth in range(len(parts), 0, -1):
                stem = posixpath.join(base, *parts[:depth])
                found |= dict.fromkeys(each for each in (f"{stem}.py", f"{stem}/__init__.py") if each in known)
    return [*found, *mentioned_files(text, files, by_name)]


def _fenced(text: str) -> str:
    """A text in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}\n"
