"""Edits in the answer of a coder that only writes text: SEARCH/REPLACE blocks, whole files, or a unified diff.

    answer -> read_answer -> edits, or a diff  -> contents_after -> the new contents, or what is wrong
                          -> mistakes

A search text is whole lines, and must be found exactly once; spaces at the ends of lines are overlooked only where that
leaves one place.  It is all or nothing: who asks drops every edit of an answer with a mistake.  An answer is hostile
until it was checked: it is read line by line, once, and its paths stay inside the repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pipeline.core.text import plural
from pipeline.errors import cut_text

LONGEST_ANSWER = 8_000_000  # characters
MOST_EDITS, MOST_MISTAKES = 500, 8
LONGEST_NAME, LONGEST_PATH = 255, 700  # bytes that the file systems of all machines take
_MOST_LINES_COMPARED = 3000

_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_FENCE = re.compile(r"(`{3,10})([^`]*)")
_DIFF_FENCE = re.compile(r"(?:diff|patch)[ \t]*")
_STARTS = ("diff --git ", "--- ")
_DRESS = " \t*`\"':"  # around a path
_LABEL = re.compile(r"(?:file|path|filename)[ \t]*:", re.IGNORECASE)
_INFO_KEY = re.compile(r"(?:file|path|filename|title|name)=", re.IGNORECASE)
_FILE_NAME = re.compile(r"[^/]*\.[A-Za-z][\w-]*")  # `v2.0` and `Done.` are none
_NAMED_LIKE_A_FILE = re.compile(r"[A-Z][a-z]*file|`[^`]+`:?|\*\*[^*]+\*\*:?")
_CUT_OFF = "the answer was cut off"
_HOW_NEW = "if the block is to be one, give it as a SEARCH block with nothing between SEARCH and ======="
_DIFF_NAMES = re.compile(
    r"^(?:diff --git a/(.+) b/(.+)|--- (?:a/)?([^\t\n]+).*\n\+\+\+ (?:b/)?([^\t\n]+).*)$", re.MULTILINE
)


class Edit(NamedTuple):
    """A change of one file.  `search`: the lines that go, none for a new file; None: the lines are the whole file."""

    path: str
    search: tuple[str, ...] | None
    replace: tuple[str, ...]
    line: int


class AnswerChange(NamedTuple):
    """The change in an answer: edits or a diff, or neither.  With `mistakes` nothing of it may be used."""

    edits: tuple[Edit, ...] = ()
    diff: str = ""
    mistakes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.edits and not self.diff and not self.mistakes


def read_answer(text: str, whole_files: bool = False, names: Container[str] = ()) -> AnswerChange:
    """The change in an answer.  Fenced blocks under a path are files only if `whole_files`: a report may quote code.

    `names`: the files there are, by which a name such as `Makefile` is told from a word."""
    if len(text) > LONGEST_ANSWER:
        return AnswerChange(mistakes=(f"the answer has {len(text)} characters; {LONGEST_ANSWER} is most",))
    lines = text.replace("\r\n", "\n").split("\n")
    blocks, mistakes = _search_blocks(lines)
    diff, wrong = _diff_in(text)
    if (blocks or mistakes) and diff:
        mistakes.append("it has a diff and SEARCH/REPLACE blocks: give the whole change in one form")
    mistakes += wrong
    if whole_files:
        taken = {number for edit, last in blocks for number in range(edit.line - 1, last)}
        files, wrong = _whole_files(lines, taken, names, bool(blocks or diff))
        mistakes += [*_given_twice(blocks, files), *wrong]
        mistakes += ["it has a diff and whole files: give the whole change in one form"] * bool(files and diff)
        blocks = sorted([*blocks, *files], key=lambda each: each[0].line)
    if len(blocks) > MOST_EDITS:
        mistakes.append(f"it has {len(blocks)} edits; {MOST_EDITS} is most")
    edits = tuple(edit for edit, _ in blocks)
    mistakes += [f"line {edit.line}: {why}" for edit in edits if (why := path_mistake(edit.path))]
    return AnswerChange(edits, diff, tuple(mistakes[:MOST_MISTAKES]))


_Blocks = list[tuple[Edit, int]]  # each with the number of its last line


def _search_blocks(lines: Sequence[str]) -> tuple[_Blocks, list[str]]:
    """SEARCH/REPLACE blocks; one without a path of its own is of the same file as the one before it."""
    found: _Blocks = []
    mistakes: list[str] = []
    path, at = "", 0
    while at < len(lines):
        if lines[at].rstrip() != _SEARCH:
            at += 1
            continue
        first, marks = at, list(_until_end(lines, at))
        path = _path_above(lines, first, found[-1][1] if found else 0) or path
        at = marks[-1] + 1 if marks else len(lines)
        where = f"line {first + 1}: the SEARCH block"
        if not marks or lines[marks[-1]].rstrip() != _REPLACE:
            mistakes.append(f"{where} does not end with {_REPLACE}")
        elif len(marks) != 2:
            mistakes.append(f"{where} has {len(marks) - 1} lines {_DIVIDER}; one is right, or answer with a diff")
        elif not path:
            mistakes.append(f"{where} has no path in the line above it")
        else:
            search, replace = lines[first + 1 : marks[0]], lines[marks[0] + 1 : marks[1]]
            found.append((Edit(path, tuple(search), tuple(replace), first + 1), at))
    return found, mistakes


def _until_end(lines: Sequence[str], start: int) -> Iterator[int]:
    """The dividers of a block, and the line that ends it: its end, or the start of another one."""
    for number in range(start + 1, len(lines)):
        line = lines[number].rstrip()
        if line in (_DIVIDER, _REPLACE, _SEARCH):
            yield number if line != _SEARCH else number - 1
        if line in (_REPLACE, _SEARCH):
            return


def _path_above(lines: Sequence[str], at: int, floor: int) -> str:
    """The path in the last line above that says something; between them may be the fence of the block."""
    for number in range(at - 1, max(floor, at - 4) - 1, -1):
        line = lines[number].strip()
        if line and not (fence := _FENCE.fullmatch(line)):
            return _path_in(line)
        if line and fence and (path := _path_in_info(fence[2])):
            return path
    return ""


def _path_in(line: str) -> str:
    """The path that a line is, apart from what models put around one: a heading, quotes, a word before it."""
    bare = line[: 2 * LONGEST_PATH + 1].lstrip(" \t#>*-").strip(_DRESS)
    if label := _LABEL.match(bare):
        bare = bare[label.end() :].strip(_DRESS)
    return bare if bare and len(bare) <= 2 * LONGEST_PATH and not any(c.isspace() for c in bare) else ""


def _path_in_info(info: str) -> str:
    """The path behind the language of a fence, as in `python src/a.py`, `python:src/a.py`, `python title=src/a.py`."""
    words = info.split()
    word = words[-1].rpartition(":")[2] if 0 < len(words) < 3 else ""
    word = _INFO_KEY.sub("", word, count=1).strip("\"'")
    return word if "/" in word or _FILE_NAME.fullmatch(word) else ""


def _whole_files(
    lines: Sequence[str], taken: set[int], names: Container[str], has_more: bool
) -> tuple[_Blocks, list[str]]:
    """Fenced blocks with a path: in the line above, or behind the language.

    One under what only may be a path is a mistake where there is another change: it would be dropped silently."""
    found: _Blocks = []
    mistakes: list[str] = []
    doubtful: list[str] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at].rstrip())
        if not fence:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if _closes(lines[n], len(fence[1]))), len(lines))
        above = next((lines[n].strip() for n in (at - 1, at - 2) if n >= 0 and lines[n].strip()), "")
        path = _path_in_info(fence[2]) or (_path_in(above) if not _FENCE.match(above) else "")
        if path and not _DIFF_FENCE.fullmatch(fence[2].strip()) and taken.isdisjoint(range(at, end)):
            if "/" in path or path in names or _FILE_NAME.fullmatch(path):
                if end == len(lines):
                    mistakes.append(f"line {at + 1}: the block of {cut_text(path)} is not closed: {_CUT_OFF}")
                found.append((Edit(path, None, tuple(lines[at + 1 : end]), at + 1), end))
            elif _NAMED_LIKE_A_FILE.fullmatch(above):
                doubtful.append(f"line {at + 1}: there is no file {cut_text(path)}; {_HOW_NEW}")
        at = end + 1
    return found, [*mistakes, *(doubtful if found or has_more else [])]


def _given_twice(blocks: _Blocks, files: _Blocks) -> Iterator[str]:
    """Mistakes of files that are given whole, and once more."""
    searched, whole = {edit.path for edit, _ in blocks}, set[str]()
    for edit, _ in files:
        if edit.path in searched or edit.path in whole:
            how = "by SEARCH blocks" if edit.path in searched else "whole once more"
            yield f"line {edit.line}: {cut_text(edit.path)} is given whole, and {how}: give each file in one way"
        whole.add(edit.path)


def _closes(line: str, backticks: int) -> bool:
    bare = line.rstrip()
    return len(bare) >= backticks and not bare.strip("`")


def _diff_in(text: str) -> tuple[str, list[str]]:
    """The diff in an answer, empty when there is none: its diff blocks, each of other files, or all of the answer."""
    blocks = [*_diff_blocks(text)]
    whole = text.lstrip("\r\n")
    if len(blocks) < 2:
        return blocks[0][1] if blocks else whole if whole.startswith(_STARTS) else "", []
    mistakes: list[str] = []
    seen: set[str] = set()
    for line, block in blocks:
        names = {name for found in _DIFF_NAMES.findall(block) for name in found} - {"", "/dev/null"}
        if not names:
            mistakes.append(f"line {line}: the diff block does not say of which file it is, in lines --- and +++")
        mistakes += [f"line {line}: {cut_text(name)} is in another diff block too" for name in sorted(names & seen)]
        seen |= names
    return "".join(block for _, block in blocks), mistakes


def _diff_blocks(text: str) -> Iterator[tuple[int, str]]:
    """The contents of diff blocks, each with the number of its line."""
    lines, at, unclosed = text.split("\n"), 0, 11
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at].rstrip())
        if fence and _DIFF_FENCE.fullmatch(fence[2]) and len(fence[1]) < unclosed:
            end = next((n for n in range(at + 1, len(lines)) if _closes(lines[n], len(fence[1]))), None)
            if end is None:
                unclosed = len(fence[1])  # so is every later one of that length
            else:
                yield at + 1, "".join(f"{line}\n" for line in lines[at + 1 : end])
                at = end
        at += 1


def path_mistake(path: str) -> str:
    """The reason why a path cannot be that of a file of the repository; else empty."""
    parts, raw = path.split("/"), path.encode(errors="surrogateescape")
    if not path.isprintable() or "\\" in path:
        return f"{cut_text(ascii(path))} is no path: it has a character that no path here may have"
    if path.startswith(("/", "~")) or any(part in ("", ".", "..") for part in parts):
        return f"'{cut_text(path)}' is no path from the root of the repository, such as src/model.py"
    if any(part.casefold().rstrip(". ") in (".git", "git~1") for part in parts):
        return f"'{cut_text(path)}' is a file of git itself"
    if len(raw) > LONGEST_PATH or max(map(len, raw.split(b"/"))) > LONGEST_NAME:
        return f"'{cut_text(path)}' is too long"
    return ""


def contents_after(
    edits: Sequence[Edit], read: Callable[[str], bytes | None], refuse: Callable[[str], str]
) -> tuple[dict[str, bytes], list[str]]:
    """The new contents of the files that edits change, in their order; and what is wrong with the edits.

    `read` gives a file as it is, `refuse` why a path may not be changed."""
    contents: dict[str, bytes] = {}
    mistakes: list[str] = []
    for edit in edits:
        wrong = path_mistake(edit.path) or refuse(edit.path) or _clash(edit.path, contents)
        if not wrong:
            old = contents.get(edit.path) if edit.path in contents else read(edit.path)
            new, wrong = _after(edit, old)
            contents[edit.path] = new
        if wrong:
            mistakes.append(f"line {edit.line}: {cut_text(edit.path)}: {wrong}")
    return contents, mistakes[:MOST_MISTAKES]


def _clash(path: str, contents: Iterable[str]) -> str:
    """The reason why a path cannot stand beside those that were written before it; else empty."""
    file = next((other for other in contents if path.startswith(f"{other}/")), "")
    within = next((other for other in contents if other.startswith(f"{path}/")), "")
    if file or within:
        return f"{cut_text(file or path)} cannot be both a file and a folder"
    return ""


def _after(edit: Edit, old: bytes | None) -> tuple[bytes, str]:
    if any("\0" in line for line in (*(edit.search or ()), *edit.replace)):
        return old or b"", "the text holds a NUL"
    if edit.search is None or (not edit.search and not old):
        crlf = old is not None and _is_crlf(old)
        return _encoded("".join(f"{line}\n" for line in edit.replace), crlf), ""
    if old is None:
        return b"", "there is no such file; for a new one leave SEARCH empty"
    if not edit.search:
        return old, "SEARCH is empty, but the file exists and is not empty"
    if b"\0" in old:
        return old, "the file is binary"
    text = old.decode(errors="surrogateescape")
    crlf = _is_crlf(old)
    text = text.replace("\r\n", "\n") if crlf else text
    end = "\n" if text.endswith("\n") else ""
    lines = text.removesuffix("\n").split("\n")
    place, wrong = _place_of(edit.search, lines)
    if wrong:
        return old, wrong
    lines[place : place + len(edit.search)] = edit.replace
    return _encoded("\n".join(lines) + (end if lines else ""), crlf), ""


def _is_crlf(content: bytes) -> bool:
    return b"\n" in content and content.count(b"\n") == content.count(b"\r\n")


def _encoded(text: str, crlf: bool) -> bytes:
    return (text.replace("\n", "\r\n") if crlf else text).encode(errors="surrogateescape")


def _place_of(search: Sequence[str], lines: Sequence[str]) -> tuple[int, str]:
    """The first line of the one place where the search text stands; or what is wrong with it."""
    for form in (lambda line: line, str.rstrip):
        places = _places([*map(form, search)], [*map(form, lines)])
        if len(places) == 1:
            return places[0], ""
        if places:
            loose = ", spaces at the ends of lines overlooked" if form is str.rstrip else ""
            return 0, f"the SEARCH text stands there more than once{loose}; add lines around it"
    first = next((line for line in search if line.strip()), "")
    near = get_close_matches(first[:400], [line[:400] for line in lines[:_MOST_LINES_COMPARED]], 3, 0.6)
    hint = f"; lines like its first: {'; '.join(repr(line) for line in near)}" if near else ""
    return 0, f"the SEARCH text of {plural(len(search), 'line')} is not there, as whole lines{hint}"


def _places(search: Sequence[str], lines: Sequence[str]) -> list[int]:
    """The first lines of the first two places."""
    needle, hay = "\n".join(["", *search, ""]), "\n".join(["", *lines, ""])
    found: list[int] = []
    at = hay.find(needle)
    while at >= 0 and len(found) < 2:
        found.append(hay.count("\n", 0, at))
        at = hay.find(needle, at + 1)
    return found
