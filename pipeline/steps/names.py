"""Names: how they may be spelled, and that each one in braces means one thing."""

from __future__ import annotations

from typing import Any

from pipeline.core.templates import Template, TemplateError, mentioned
from pipeline.errors import instead
from pipeline.steps.model import File, Step

FILES = ("in", "out")


def check_names(step: Step, what: str) -> None:
    """Every name in braces means one thing; and a command names what it must write."""
    _check_ports(step, what)
    words = [*(step.argv or ()), *([step.shell] if step.shell else [])]
    _check_words(step, words, what)
    for file in (f for group in (*step.reads.values(), *step.writes.values()) for f in group if isinstance(f, File)):
        for name in file.path.names:
            if name not in step.matrix.columns:
                file.item.wrong(f"{what}: '{{{name}}}' is not a name of its `for:`{instead(name, step.matrix.columns)}")
    for variable, text in step.env.fixed.items():
        for name in text.names:
            if name not in step.matrix.columns:
                step.at("env").wrong(f"{what}: env {variable}: '{{{name}}}' is not a name of its `for:`")
    _check_arguments(step, step.arguments, what)


def _check_ports(step: Step, what: str) -> None:
    for name in step.matrix.columns:
        if name in {*step.reads, *step.writes, *FILES}:
            step.at("for").wrong(f"{what}: for: '{name}' is also the name of a port; rename one")
    if "out" in step.reads:
        step.at("reads").wrong(f"{what}: reads: 'out' stands for what the step writes; give the port another name")
    if "in" in step.writes:
        step.at("writes").wrong(f"{what}: writes: 'in' stands for what the step reads; give the port another name")
    if double := {*step.reads} & {*step.writes}:
        step.at("reads").wrong(f"{what}: port '{min(double)}' is both read and written; rename one")


def _check_words(step: Step, words: list[Template], what: str) -> None:
    known = {*step.matrix.columns, *step.reads, *step.writes, *FILES}
    used = {name for word in words for name in word.names}
    for name in sorted(used - known):
        step.at("run").wrong(f"{what}: run: '{{{name}}}' is not known here{instead(name, known)}")
    if step.argv is not None and not step.argv:
        step.at("run").wrong(f"{what}: run: the list is empty; give the command and its arguments")
    if step.shell is not None and not step.shell.parts:
        step.at("run").wrong(f"{what}: run: an empty line; give the command and its arguments")
    if "in" in used and not step.reads:
        step.at("run").wrong(f"{what}: run: {{in}} stands for nothing; the step has no `reads:`")
    if words and "out" not in used and (unnamed := [port for port in step.writes if port not in used]):
        step.at("run").wrong(
            f"{what}: run: the command never names its output; write to the path that {{{unnamed[0]}}} stands for"
        )


def _check_arguments(step: Step, value: Any, what: str) -> None:
    if isinstance(value, str):
        try:
            unknown = sorted(mentioned([value]) - {*step.matrix.columns})
        except TemplateError as error:
            step.at("with").wrong(f"{what}: with: {error}")
        if unknown:
            step.at("with").wrong(f"{what}: with: '{{{unknown[0]}}}' is not a name of its `for:`")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_arguments(step, inner, what)
