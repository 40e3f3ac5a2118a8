"""Cages in words for people: which would hold here before anything runs, and which limit was in the way afterwards."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.cages import AUTO, PLAIN, SIZE_LIMITS, CageKeys
from pipeline.core.text import byte_text, join_names
from pipeline.machine.grades import describe_auto, resolve_grade, resolve_network
from pipeline.machine.limits import CageLimits
from pipeline.machine.visibility import visible_path

MOST_NAMES = 12
NamedCages = Sequence[tuple[str, CageKeys]]  # of commands, by their names for people


def cage_lines(cages: NamedCages, can_be_judged: bool) -> Iterator[str]:
    """The cages that would hold on this machine, with the limits and paths that the spec names.

    `can_be_judged`: one of them measures without a judge apart, and leaves its grade to the machine."""
    if cages:
        lacks = _next_grade(cages, can_be_judged)[1]
        yield f"sandbox: {_grouped(cages, _held)}{f'; {lacks}' if lacks else ''}"
    for word, text in (("limits", _limits), ("visible", lambda keys: ", ".join(keys.visible))):
        if named := [(name, keys) for name, keys in cages if text(keys)]:
            yield f"{word}: {_grouped(named, text)}"


def start_lines(cages: NamedCages, can_be_judged: bool) -> Iterator[str]:
    """Lines before a build: what `auto` is here and what the next grade needs, and what is amiss with paths."""
    grade, lacks = _next_grade(cages, can_be_judged)
    if grade:
        yield f"sandbox auto is {grade}{f'; {lacks}' if lacks else ''}"
    yield from path_warnings(cages)


def path_warnings(cages: NamedCages) -> Iterator[str]:
    """Paths of `visible:` that show nothing on this machine, and those that show all that somebody has."""
    paths = dict.fromkeys(path for _, keys in cages for path in keys.visible)
    if gone := [path for path in paths if not os.path.lexists(visible_path(path))]:
        yield f"visible: {join_names(gone)} {'is' if len(gone) == 1 else 'are'} not there on this machine"
    home = os.path.abspath(os.path.expanduser("~"))
    for path in paths:
        if f"{home}/".startswith(f"{visible_path(path).rstrip('/')}/"):
            yield f"visible: {path} is all of HOME, with its keys; name folders in it"


def _next_grade(cages: NamedCages, can_be_judged: bool) -> tuple[str, str]:
    """The grade that `auto` is here, and what the next one needs; empty where every grade is named."""
    free = [keys for _, keys in cages if keys.sandbox in ("", AUTO)]
    grade, _, lacks = (
        describe_auto(any(keys.judged for keys in free), can_be_judged).partition("; ") if free else [""] * 3
    )
    return grade, lacks


def _grouped(cages: NamedCages, text: Callable[[CageKeys], str]) -> str:
    """Equal texts once, each with the names that it is for."""
    found: dict[str, list[str]] = {}
    for name, keys in cages:
        found.setdefault(text(keys), []).append(name)
    return "; ".join(f"{held} ({join_names(names, MOST_NAMES)})" for held, names in found.items())


def _held(keys: CageKeys) -> str:
    grade = resolve_grade(keys.sandbox, keys.judged)
    return grade if grade == PLAIN else f"{grade}, network {resolve_network(keys.network, grade)}"


def _limits(keys: CageKeys) -> str:
    return ", ".join(limit_text(name, value) for name, value in keys.limits.items())


def limit_text(name: str, value: float) -> str:
    return f"{name} {byte_text(value) if name in SIZE_LIMITS else f'{value:g}'}{' s' if name == 'cpu' else ''}"


# What programs print where the system refuses them more, by the limit of which it does so.
_REFUSALS: Mapping[str, Sequence[str]] = {
    "file_size": (os.strerror(errno.EFBIG),),
    "files": (os.strerror(errno.EMFILE),),
    "processes": ("can't start new thread", "cannot fork", f"fork: {os.strerror(errno.EAGAIN)}"),
}
_TAIL = 16 << 10


def refusing_limit(why: str, log: str, limits: CageLimits) -> str:
    """The reason of a failure with the limit that was in the way, where the end of its log tells of one.

    Who passes these is not ended: the system refuses, and the program says so, or goes on."""
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        printed = file.read().decode(errors="replace").lower()
    values: Mapping[str, Any] = limits._asdict()
    for name, words in _REFUSALS.items():
        if values[name] is not None and any(word.lower() in printed for word in words):
            return f"{why}, limit: {limit_text(name, values[name])}"
    return why
