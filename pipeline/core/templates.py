"""Texts with {braces}: values are filled in when a run is planned, files when a target runs.

In a shell line each value stands for just itself, also inside quotes; what would have to be understood better than is
done here is refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from string import Formatter
from typing import NamedTuple

Columns = Mapping[str, Sequence[str]]  # values by name, one for each row
Spell = Callable[[str, int], str]  # how a value is put into the n-th place of a template

# What matters for quotes in a shell line; NUL stands where a name in braces is.
_SHELL = re.compile(r"""\\[^\0]|['"`()\n\0]|\$\(|(?<![^\s;&|()])#""")
# A here-document: how it ends, the rest of the line it starts on, and its lines, in which quotes are but characters.
_HERE = re.compile(r"""<<-?[ \t]*\\?(['"]?)(\w+)\1([^\n]*\n)(.*?)(?=^\t*\2$)""", re.DOTALL | re.MULTILINE)
_EATS = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_CASE = re.compile(r"(?:\$\(|`).*\bcase\b", re.DOTALL)
_CLOSED_BY = {"'": "'", '"': '"', "`": "`", "(": ")", "#": "\n"}
_OPENS = {"": ("'", '"', "`", "$(", "(", "#"), '"': ("`", "$(")}


class TemplateError(ValueError):
    """The text uses braces in a way that means nothing."""


class Template(NamedTuple):
    """Parsed text: pairs of (literal, name or None), and the same as a format for %."""

    parts: tuple[tuple[str, str | None], ...]
    names: tuple[str, ...]
    form: str


def parse_template(text: str) -> Template:
    try:
        parsed = list(Formatter().parse(text))
    except ValueError as error:
        raise TemplateError(f"{error} in '{text}'; write a brace that is meant as such twice: {{{{ or }}}}") from error
    for _, name, form, conversion in parsed:
        if name is not None and (form or conversion or not name.replace("-", "_").isidentifier()):
            raise TemplateError(f"'{{{name}}}' in '{text}': only plain names go in braces; {{{{ and }}}} are braces")
    parts = tuple((literal, name) for literal, name, _, _ in parsed)
    form = "".join(literal.replace("%", "%%") + ("" if name is None else "%s") for literal, name in parts)
    return Template(parts, tuple(name for _, name in parts if name is not None), form)


def fill(template: Template, columns: Columns, size: int) -> Sequence[str]:
    """Fill in each row's values and unescape braces: finished texts."""
    if not template.names:
        return [template.form % ()] * size
    return [*map(template.form.__mod__, zip(*[columns[name] for name in template.names], strict=True))]


def fill_values(
    template: Template, columns: Columns, size: int, spell: Spell = lambda value, _: value
) -> Sequence[str]:
    """Fill in each row's values and leave the names of files in braces: still templates."""
    form = ""
    values: list[Sequence[str]] = []
    for n, (literal, name) in enumerate(template.parts):
        form += _escaped(literal).replace("%", "%%")
        if name is not None and name in columns:
            form += "%s"
            values.append([_escaped(spell(value, n)) for value in columns[name]])
        elif name is not None:
            form += f"{{{name}}}"
    return [*map(form.__mod__, zip(*values, strict=True))] if values else [form % ()] * size


def fill_shell_values(line: Template, columns: Columns, size: int) -> Sequence[str]:
    """Fill in each row's values so that the shell takes each for just itself."""
    marks = _open_quotes(line)
    return fill_values(line, columns, size, lambda value, n: _in_shell([value], marks[n]))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}") if "{" in text or "}" in text else text


def files_by_name(reads: Mapping[str, Sequence[str]], writes: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Map names in braces to files, for a command that is about to run."""
    return {"in": [*chain(*reads.values())], "out": [*chain(*writes.values())], **reads, **writes}


def fill_argv(words: Sequence[str], files: Mapping[str, Sequence[str]]) -> list[str]:
    """A word that is just {name} becomes as many words as there are files."""
    out: list[str] = []
    # A port inside a longer word stands for one file; the number was checked with the spec.
    single = {name: group[0] for name, group in files.items() if len(group) == 1}
    for word in words:
        name = word[1:-1]
        if word == f"{{{name}}}" and name in files:
            out += files[name]
        else:
            out.append(word.format_map(single) if "{" in word or "}" in word else word)
    return out


def parse_shell_template(text: str) -> Template:
    """Parse a shell line; refuse what cannot be understood well enough to put values in safely."""
    parsed = parse_template(text)
    if any(name is not None and _EATS.search(literal) for literal, name in parsed.parts):
        raise TemplateError("a backslash before a name in braces would eat a quote; values are quoted by themselves")
    if parsed.names and _CASE.search(text):
        raise TemplateError("`case` inside $() or `` is not understood here; put it into a script of its own")
    return parsed


def fill_shell_line(line: str, files: Mapping[str, Sequence[str]]) -> str:
    parsed = parse_template(line)
    parts = zip(parsed.parts, _open_quotes(parsed), strict=True)
    return "".join(text if name is None else text + _in_shell(files[name], mark) for (text, name), mark in parts)


def _in_shell(texts: Sequence[str], mark: str) -> str:
    """Quote texts as words of their own; inside quotes, interrupt the quotes for texts with special characters."""
    if not mark:
        return " ".join(map(shlex.quote, texts))
    text = " ".join(texts)
    return text if shlex.quote(text) == text else f"{mark}{shlex.quote(text)}{mark}"


def _open_quotes(line: Template) -> list[str]:
    """List the quote that is open at the end of each literal of a shell line, or nothing."""
    marks: list[str] = []
    inside: list[str] = []
    text = "".join(f"{literal}\0" for literal, _ in line.parts)
    for token in _SHELL.findall(_HERE.sub(lambda found: found[3] + "\0" * found[4].count("\0"), text)):
        if token == "\0":
            marks.append(inside[-1] if inside and inside[-1] in "'\"" else "")
        else:
            _follow(inside, token)
    return marks


def _follow(inside: list[str], token: str) -> None:
    """Update `inside`, all that is open: quotes, (, a comment.  In $() quotes begin anew, also within quotes."""
    top = inside[-1] if inside else ""
    literal = top in ("'", "#")  # where a backslash is one
    if (token[-1] if literal else token) == _CLOSED_BY.get(top):
        inside.pop()
    elif not literal and token in _OPENS.get(top, _OPENS[""]):
        inside.append(token[-1])
