"""A repository as LeanDojo leaves it when it has traced it: one file with one theorem, its syntax written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "Demo/Swap.lean"
NAME = "Demo.swap"
TEXT = """namespace Demo

theorem swap : ∀ p q : Prop, p ∧ q → q ∧ p := by
  intro p q h
  exact ⟨h.2, h.1⟩

end Demo
"""
Syntax = dict[str, Any]


def traced(root: Path) -> None:
    """Of what a trace has, as much as a Dojo looks at."""
    for name, text in {FILE: TEXT, "Lean4Repl.lean": "", "lakefile.toml": 'name = "demo"\n'}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    trace = root / ".lake" / "build" / "ir" / FILE
    trace.parent.mkdir(parents=True)
    trace.with_suffix(".ast.json").write_text(json.dumps(_syntax()))
    trace.with_suffix(".dep_paths").write_text("")


def _syntax() -> Syntax:
    proof = TEXT[TEXT.index("by") : TEXT.index("\n\nend")]
    statement = TEXT[TEXT.index(": ∀") : TEXT.index(" := by")]
    theorem = _node(
        "Command.theorem",
        _leaf("atom", "theorem"),
        _node("Command.declId", _leaf("ident", "swap")),
        _node("Command.declSig", _leaf("atom", statement)),
        _node("Command.declValSimple", _leaf("atom", ":="), _node("Term.byTactic", _leaf("atom", proof))),
    )
    commands = [
        _node("Module.header"),
        _node("Command.namespace", _leaf("atom", "namespace"), _leaf("ident", "Demo")),
        _node("Command.declaration", _node("Command.declModifiers"), theorem),
    ]
    return {"commandASTs": commands, "tactics": [], "premises": []}


def _node(kind: str, *args: Syntax) -> Syntax:
    return {"node": {"kind": f"Lean.Parser.{kind}", "info": "none", "args": [*args]}}


def _leaf(kind: str, text: str) -> Syntax:
    start = len(TEXT[: TEXT.index(text)].encode())
    place = {"leading": "", "pos": start, "trailing": "", "endPos": start + len(text.encode())}
    return {kind: {"info": {"original": place}, "val": text, "rawVal": text, "preresolved": []}}
