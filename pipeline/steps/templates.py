"""Texts with {braces}: values are filled in when a run is planned, files when a target runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter
from typing import NamedTuple


class TemplateError(ValueError):
    """The text uses braces in a way that means nothing."""


class Template(NamedTuple):
    """`text` in parts, (literal, name or None) pairs; and the same as a format for %."""

    parts: tuple[tuple[str, str | None], ...]
    names: tuple[str, ...]
    form: str


def template(text: str) -> Template:
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


def filled(template: Template, values: Mapping[str, str]) -> str:
    """Values put in and braces unescaped: a finished text."""
    return template.form % tuple([values[name] for name in template.names])


def half_filled(template: Template, values: Mapping[str, str], quote: Callable[[str], str] = str) -> str:
    """Values put in, names of files left in braces: still a template."""
    out = []
    for literal, name in template.parts:
        out.append(_escaped(literal))
        if name is not None:
            out.append(_escaped(quote(values[name])) if name in values else f"{{{name}}}")
    return "".join(out)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}") if "{" in text or "}" in text else text


def argv(words: Sequence[str], files: Mapping[str, Sequence[str]]) -> list[str]:
    """A word that is just {name} becomes as many words as there are files."""
    out: list[str] = []
    for word in words:
        name = word[1:-1]
        if word == f"{{{name}}}" and name in files:
            out += files[name]
        else:
            out.append(word.format_map(_Single(files)) if "{" in word or "}" in word else word)
    return out


def shell_line(line: str, files: Mapping[str, Sequence[str]]) -> str:
    return line.format_map({name: " ".join(map(shlex.quote, group)) for name, group in files.items()})


def mentioned(words: Iterable[str]) -> set[str]:
    return {name for word in words for name in template(word).names}


class _Single(dict[str, str]):
    """Inside a longer word, a port stands for one file; that it is one was checked when the spec was read."""

    def __init__(self, files: Mapping[str, Sequence[str]]) -> None:
        super().__init__({name: group[0] for name, group in files.items() if len(group) == 1})
