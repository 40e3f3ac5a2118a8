"""Whether a candidate touches what is protected, by what its files differ in from the root's.

Protected files must be as they are, and nothing may take their place: no link on the way, no name that differs in case
alone, no module that shadows what a protected Python file imports, nothing that Python or a test runner loads by name.
What it returns is `void: ...` with the reasons, or nothing: a candidate may change everything else."""

from __future__ import annotations

import ast
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.graph import covers_path

VOID = "void: "
GitEntry = tuple[str, str]  # mode and blob, as git has them
# From path to what was there and what is there now; None is nothing.
FileDifference = tuple[str, GitEntry | None, GitEntry | None]

_LINK = "120000"
# What Python or a test runner loads by its name alone, whoever asked for what.
_LOADED = {
    "sitecustomize.py": "Python runs it before any program",
    "usercustomize.py": "Python runs it before any program",
    "conftest.py": "pytest runs it before any test",
    **dict.fromkeys(
        ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml"),
        "it says what a test runner loads and runs",
    ),
    "pyvenv.cfg": "it says where Python finds its modules",
}
_COMPILED = (".pyc", ".pyo")
_BINARY = (".so", ".pyd")
_SHOWN = 3


class ProtectedFiles(NamedTuple):
    """What a search may not change.  `tree`: the root's files.  `patterns`: of paths in it, as the spec has them.

    `files`: those that match, by path.  `imports`: of the Python files among them, the modules that they name.
    `looked_in`: folders where Python finds modules, besides those that a file is in.
    `project`: patterns of paths of the project, and what was found there."""

    tree: str
    patterns: Sequence[str] = ()
    files: Mapping[str, GitEntry] = {}
    imports: Mapping[str, Sequence[str]] = {}
    looked_in: Sequence[str] = ()
    project: Mapping[str, str] = {}

    def covers(self, path: str) -> bool:
        return any(covers_path(pattern, path) for pattern in self.patterns)


def void_reason(protected: ProtectedFiles, differences: Iterable[FileDifference]) -> str:
    """`void: …`, or nothing: a candidate may change all else."""
    checks = _Checks(protected)
    found = [why for difference in differences if (why := checks.why(*difference))]
    more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    return f"{VOID}{'; '.join(found[:_SHOWN])}{more}" if found else ""


class _Checks:
    def __init__(self, protected: ProtectedFiles) -> None:
        self.protected = protected
        self.folders = {folder for path in protected.files for folder in folders_above(path)} - {""}
        self.alike = {_folded(path): path for path in (*protected.files, *self.folders)}
        self.modules = _modules(protected.imports, protected.looked_in)

    def why(self, path: str, before: GitEntry | None, after: GitEntry | None) -> str:
        name = printable_path(path)
        if path in self.protected.files:
            return f"{name} is protected and {_how(before, after)}"
        if after is None or before == after:
            return ""
        found = self._in_the_way(path, name, after) or _loaded(path, name, before)
        return found or ("" if before else self._shadow(path, name, after[0] == _LINK))

    def _in_the_way(self, path: str, name: str, after: GitEntry) -> str:
        if path in self.folders:
            what = "a symbolic link" if after[0] == _LINK else "a file"
            return f"{name} is {what} now, where a folder with protected files is"
        if self.protected.covers(path):
            return f"{name} was added where all is protected"
        for part in (path, *folders_above(path)):
            original = self.alike.get(_folded(part), part)
            if original != part:
                return f"{name} is at the protected {printable_path(original)} where upper and lower case are one"
        return ""

    def _shadow(self, path: str, name: str, is_link: bool) -> str:
        for folder in self.modules:
            module = _named_in(path, folder, is_link)
            if module and (why := self._shadow_reason(folder, module)):
                return f"{name} {why}"
        return ""

    def _shadow_reason(self, folder: str, module: str) -> str:
        whose = self.modules[folder].get(module)
        if whose is not None:
            return f"takes the place of the module {module}, which the protected {whose}"
        if module in sys.stdlib_module_names:
            return f"takes the place of Python's own module {module} for the protected files that are run from there"
        return ""


def _how(before: GitEntry | None, after: GitEntry | None) -> str:
    if after is None:
        return "was removed"
    if before is not None and before[0] != after[0]:
        return "was replaced by a symbolic link" if after[0] == _LINK else f"has the mode {after[0]}, not {before[0]}"
    return "was changed"


def _loaded(path: str, name: str, before: GitEntry | None) -> str:
    parts = path.split("/")
    how = "added" if before is None else "changed"
    last = parts[-1].casefold()
    if "__pycache__" in parts or last.endswith(_COMPILED):
        return f"{name} was {how}: compiled code that nobody can read in place of the source"
    if last.endswith(".pth"):
        return f"{name} was {how}: Python runs it where modules are installed"
    return f"{name} was {how}: {_LOADED[last]}" if last in _LOADED else ""


def _module(path: str, is_link: bool) -> str:
    """The module that a file is, by its path from the folder that Python looks in; empty when it is none.

    A folder is one by its `__init__`, and a link may lead to a folder."""
    *folders, last = path.split("/")
    stem = last.partition(".")[0] if last.endswith(_BINARY) else last.removesuffix(".py")
    if stem == last and not is_link:
        return ""
    parts = [*folders] if stem == "__init__" else [*folders, stem]
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


def _modules(imports: Mapping[str, Sequence[str]], looked_in: Sequence[str]) -> dict[str, dict[str, str]]:
    """By each folder where a protected Python file finds modules, or is found: those that such files import or are
    part of, and which does or is."""
    found: dict[str, dict[str, str]] = {}
    for path, named in imports.items():
        for folder in (*folders_above(path), *looked_in):
            known = found.setdefault(folder, {})
            # `python -m` runs a package rather than a file of its name
            for module in _prefixes(_named_in(path, folder)):
                known.setdefault(module, f"{printable_path(path)} is part of")
            for module in named:
                for whole in _prefixes(module):
                    known.setdefault(whole, f"{printable_path(path)} imports")
    return found


def _named_in(path: str, folder: str, is_link: bool = False) -> str:
    """The module that a file is for who looks for it in a folder; empty when it is not found there."""
    below = f"{folder}/" if folder else ""
    return _module(path.removeprefix(below), is_link) if path.startswith(below) else ""


def folders_above(path: str) -> Iterator[str]:
    """The folders that it is in, up to the top, which is empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".") if module else []
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def imported_modules(source: bytes) -> list[str]:
    """The modules that a Python file names in its imports, sorted; none of one that is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return sorted({name for node in ast.walk(tree) for name in _named(node)})


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = f"{node.module}." if node.module else ""
        yield from (f"{start}{alias.name}".removesuffix(".*") for alias in node.names if start or alias.name != "*")


def _folded(path: str) -> str:
    """As file systems compare names that take upper and lower case for one."""
    return unicodedata.normalize("NFC", path.casefold())


def printable_path(path: str) -> str:
    """A name that a candidate has chosen, for people: on one line, of bounded length."""
    text = path if path.isprintable() else repr(path)[1:-1]
    return text if len(text) <= 120 else f"{text[:60]}…{text[-59:]}"
