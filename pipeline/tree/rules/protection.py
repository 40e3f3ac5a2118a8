"""Check of a candidate's files against the protected ones, by how they differ from the root's.

Protected files must stay as they are, and nothing may take their place: no link on the way, no name that differs in
case alone, no module that shadows an import of a protected Python file, nothing that Python or a test runner loads by
name.  The result is `void: ...` with the reasons, or empty: a candidate may change everything else."""

from __future__ import annotations

import ast
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.graph import covers_path

VOID = "void: "
GitEntry = tuple[str, str]  # mode and blob, as git has them
# A path, its entry before and its entry now; None for no entry.
FileDifference = tuple[str, GitEntry | None, GitEntry | None]

_LINK = "120000"
# Files that Python or a test runner loads by name, without being asked to.
_AUTOLOADED = {
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
_MOST_REASONS = 3


class ProtectedFiles(NamedTuple):
    """Files that a search may not change.  `tree`: the root's files.  `patterns`: of paths in it, as the spec has them.

    `files`: those that match, by path.  `imports`: the modules that Python files among them import.
    `looked_in`: folders where Python finds modules, besides those that a file is in.
    `project`: patterns of paths of the project, with the digest of each."""

    tree: str
    patterns: Sequence[str] = ()
    files: Mapping[str, GitEntry] = {}
    imports: Mapping[str, Sequence[str]] = {}
    looked_in: Sequence[str] = ()
    project: Mapping[str, str] = {}

    def covers(self, path: str) -> bool:
        return any(covers_path(pattern, path) for pattern in self.patterns)


def void_reason(protected: ProtectedFiles, differences: Iterable[FileDifference]) -> str:
    """Reason `void: …` for a candidate with forbidden differences; else empty."""
    checks = _Checks(protected)
    found = [why for difference in differences if (why := checks.why(*difference))]
    more = f" (and {len(found) - _MOST_REASONS} more)" if len(found) > _MOST_REASONS else ""
    return f"{VOID}{'; '.join(found[:_MOST_REASONS])}{more}" if found else ""


class _Checks:
    def __init__(self, protected: ProtectedFiles) -> None:
        self.protected = protected
        self.folders = {folder for path in protected.files for folder in folders_above(path)} - {""}
        self.alike = {_folded(path): path for path in (*protected.files, *self.folders)}
        self.modules = _needed_modules(protected.imports, protected.looked_in)

    def why(self, path: str, before: GitEntry | None, after: GitEntry | None) -> str:
        if path in self.protected.files:
            why = f"is protected and {_change_words(before, after)}"
        elif after is None or before == after:
            return ""
        else:
            why = self._taken_reason(path, after) or _autoload_reason(path, before)
            why = why or ("" if before else self._shadow_reason(path, after[0] == _LINK))
        return f"{printable_path(path)} {why}" if why else ""

    def _taken_reason(self, path: str, after: GitEntry) -> str:
        """The reason against a file where something protected is, or by another name may be."""
        if path in self.folders:
            what = "a symbolic link" if after[0] == _LINK else "a file"
            return f"is {what} now, where a folder with protected files is"
        if self.protected.covers(path):
            return "was added where all is protected"
        folder, _, name = path.rpartition("/")
        if name == "GNUmakefile" and (original := self.alike.get(_folded(f"{folder}/makefile".lstrip("/")))):
            return f"is what make reads in place of the protected {printable_path(original)}"
        for part in (path, *folders_above(path)):
            original = self.alike.get(_folded(part), part)
            if original != part:
                return f"is at the protected {printable_path(original)} where upper and lower case are one"
        return ""

    def _shadow_reason(self, path: str, is_link: bool) -> str:
        for folder, needed in self.modules.items():
            module = _module_in(path, folder, is_link)
            if module in needed:
                return f"takes the place of the module {module}, which the protected {needed[module]}"
            if module in sys.stdlib_module_names:
                where = "for the protected files that are run from there"
                return f"takes the place of Python's own module {module} {where}"
        return ""


def _change_words(before: GitEntry | None, after: GitEntry | None) -> str:
    if after is None:
        return "was removed"
    if before is not None and before[0] != after[0]:
        return "was replaced by a symbolic link" if after[0] == _LINK else f"has the mode {after[0]}, not {before[0]}"
    return "was changed"


def _autoload_reason(path: str, before: GitEntry | None) -> str:
    parts = path.split("/")
    last = parts[-1].casefold()
    why = _AUTOLOADED.get(last, "")
    if "__pycache__" in parts or last.endswith(_COMPILED):
        why = "compiled code that nobody can read in place of the source"
    elif last.endswith(".pth"):
        why = "Python runs it where modules are installed"
    return f"was {'changed' if before else 'added'}: {why}" if why else ""


def _needed_modules(imports: Mapping[str, Sequence[str]], looked_in: Sequence[str]) -> dict[str, dict[str, str]]:
    """Modules that must not be shadowed, by the folder where Python finds them, each with the file that needs it."""
    needing: dict[str, dict[str, str]] = {}
    for path, named in imports.items():
        for folder in (*folders_above(path), *looked_in):
            needed = needing.setdefault(folder, {})
            # `python -m` runs a package rather than a file of its name
            for module in _prefixes(_module_in(path, folder)):
                needed.setdefault(module, f"{printable_path(path)} is part of")
            for module in named:
                for whole in _prefixes(module):
                    needed.setdefault(whole, f"{printable_path(path)} imports")
    return needing


def _module_in(path: str, folder: str, is_link: bool = False) -> str:
    """The module that a file is when Python searches `folder`; empty when it is none, or not found there.

    A folder is a module by its `__init__`, and a link may lead to a folder."""
    below = f"{folder}/" if folder else ""
    *folders, last = path.removeprefix(below).split("/")
    stem = last.partition(".")[0] if last.endswith(_BINARY) else last.removesuffix(".py")
    if not path.startswith(below) or (stem == last and not is_link):
        return ""
    parts = [*folders] if stem == "__init__" else [*folders, stem]
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


def folders_above(path: str) -> Iterator[str]:
    """The folders above a path, up to the top, which is empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".") if module else []
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def imported_modules(source: bytes) -> list[str]:
    """The modules that a Python file imports, sorted; none for a file that is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return sorted({name for node in ast.walk(tree) for name in _imported_names(node)})


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = f"{node.module}." if node.module else ""
        yield from (f"{start}{alias.name}".removesuffix(".*") for alias in node.names if start or alias.name != "*")


def _folded(path: str) -> str:
    """A path as file systems compare it that ignore upper and lower case."""
    return unicodedata.normalize("NFC", path.casefold())


def printable_path(path: str) -> str:
    """A path that a candidate has chosen, for people: on one line, of bounded length."""
    text = path if path.isprintable() else repr(path)[1:-1]
    return text if len(text) <= 120 else f"{text[:60]}…{text[-59:]}"
