"""A repository as LeanDojo leaves it when it has traced it: one file with one theorem, its syntax written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "Demo/Swap.lean"
NAME = "Demo.swap"
STATEMENT = "∀ p q : Prop, p ∧ q → q ∧ p"
PROOF = "by\n  intro p q h\n  exact ⟨h.2, h.1⟩"
Syntax = dict[str, Any]


def traced(root: Path, statement: str = STATEMENT, proof: str = PROOF) -> None:
    """Of what a trace has, as much as a Dojo looks at."""
    text = f"namespace Demo\n\ntheorem swap : {statement} := {proof}\n\nend Demo\n"
    for name, content in {FILE: text, "Lean4Repl.lean": "", "lakefile.toml": 'name = "demo"\n'}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    trace = root / ".lake" / "build" / "ir" / FILE
    trace.parent.mkdir(parents=True)
    syntax = {"commandASTs": _commands(text, f": {statement}", proof), "tactics": [], "premises": []}
    trace.with_suffix(".ast.json").write_text(json.dumps(syntax))
    trace.with_suffix(".dep_paths").write_text("")


def _commands(text: str, signature: str, proof: str) -> list[Syntax]:
    def leaf(kind: str, part: str) -> Syntax:
        start = len(text[: text.index(part)].encode())
        place = {"leading": "", "pos": start, "trailing": "", "endPos": start + len(part.encode())}
        return {kind: {"info": {"original": place}, "val": part, "rawVal": part, "preresolved": []}}

    theorem = _node(
        "Command.theorem",
        leaf("atom", "theorem"),
        _node("Command.declId", leaf("ident", "swap")),
        _node("Command.declSig", leaf("atom", signature)),
        _node("Command.declValSimple", leaf("atom", ":="), _node("Term.byTactic", leaf("atom", proof))),
    )
    return [
        _node("Module.header"),
        _node("Command.namespace", leaf("atom", "namespace"), leaf("ident", "Demo")),
        _node("Command.declaration", _node("Command.declModifiers"), theorem),
    ]


def _node(kind: str, *args: Syntax) -> Syntax:
    return {"node": {"kind": f"Lean.Parser.{kind}", "info": "none", "args": [*args]}}
