"""Proofs as files for Lean: one by one, or all in one file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.lean.model import IMPORT, Theorem, is_import

# Options of a check that a file has to set: the REPL sets the first and the last, a lake project may set the second.
OPTIONS = ("maxRecDepth 1000", "autoImplicit true", "relaxedAutoImplicit false")
_NOT_IN_NAMES = re.compile(r"[«»\s]")
# Commands that mean something beyond the end of a namespace, or have to do with where it ends.
_BEYOND = re.compile(
    r"@\[|(?<![\w.«'!?])(?:_root_|attribute|class|end|grind_pattern|import|infix[lr]?|instance|namespace|notation"
    r"|postfix|prefix|section)(?![\w»'!?])"
)
_NOTATION = re.compile(r"\b(?:infix[lr]?|notation|postfix|prefix)\b")
_DOTTED = re.compile(r"\b(?:abbrev|def|inductive|opaque|structure|theorem)\s+([^\s.:({\[]+)\.")
_TYPE = re.compile(r"\b(?:inductive|structure)\s+([^\s.:({\[]+)")


class Proof(NamedTuple):
    """A script that proves a theorem; `about`: a line about it."""

    name: str
    theorem: Theorem
    script: Sequence[str]
    about: str = ""


def lean_file(proof: Proof, imports: Iterable[str]) -> str:
    """A file of one proof, in which Lean is as in a check; what its context leaves open ends with the file."""
    before = proof.theorem.before
    imported = [each.strip() for each in before if is_import(each)]
    commands = [each for each in before if not is_import(each)]
    head = [*_head_lines(imports, imported), *_title_lines(proof), *_public_section(commands)]
    return "\n".join([*head, *commands, _theorem_text(proof)]) + "\n"


def lean_files_in_one(proofs: Iterable[Proof], imports: Iterable[str]) -> str:
    """One file of all proofs that can share it; the others as comments, each for a file of its own."""
    blocks = (
        _namespace_block(each) if stays_inside(each.theorem.before) else _commented_block(each) for each in proofs
    )
    return "\n\n".join(["\n".join(_head_lines(imports)), *blocks]) + "\n"


def stays_inside(before: Sequence[str]) -> bool:
    """True if nothing of these commands outlasts a namespace, and they mean in it what they mean outside.

    An instance, a notation, an attribute is left; `def Nat.double` is found as `n.double` only outside."""
    text = "\n".join(before)
    return not _BEYOND.search(text) and not {*_DOTTED.findall(text)} - {*_TYPE.findall(text)}


def _head_lines(imports: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    return [*(IMPORT + each for each in imports), *more, *(f"set_option {each}" for each in OPTIONS)]


def _title_lines(proof: Proof) -> list[str]:
    return ["", f"-- {proof.name}: {proof.about}"] if proof.about else [""]


def _namespace_block(proof: Proof) -> str:
    lines, before = [_theorem_text(proof)], proof.theorem.before
    if before:
        space = f"«context of {_NOT_IN_NAMES.sub('_', proof.name)}»"
        lines = [f"namespace {space}", *before, *lines, f"end {space}"]
    return "\n".join([*_title_lines(proof)[1:], *lines])


def _commented_block(proof: Proof) -> str:
    text = "\n".join([*proof.theorem.before, _theorem_text(proof)])
    why = "-- In a file of its own, for what stands before it would be left to the proofs below:"
    return "\n".join([*_title_lines(proof)[1:], why, *(f"-- {line}".rstrip() for line in text.split("\n"))])


def _theorem_text(proof: Proof) -> str:
    """Text of the theorem. A long statement keeps its columns; a comment in it takes the rest of its line."""
    statement = proof.theorem.statement
    above = "\n" if "\n" in statement else " "
    below = "\n  " if "\n" in statement or "--" in statement else " "
    lines = [f"  {line}".rstrip() for tactic in proof.script for line in tactic.split("\n")]
    # goals are called like theorems that there are: this name none has
    name = f"«proof of {_NOT_IN_NAMES.sub('_', proof.name)}»"
    return "\n".join([f"theorem {name} :{above}{statement}{below}:= by", *lines])


def _public_section(commands: Sequence[str]) -> list[str]:
    """Open a public section for a notation: the Lean from npm takes each file for a module, whose private parts have
    none. Elsewhere the line does nothing."""
    text = "\n".join(commands)
    is_needed = _NOTATION.search(text) and not re.search(r"\bprivate\b", text)
    return ["@[expose] public section"] if is_needed else []
