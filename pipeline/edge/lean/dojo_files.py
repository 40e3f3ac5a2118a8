"""The files that Lean is given through LeanDojo: a statement with a gap in it, and the same with its whole proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from pipeline.edge.lean.model import Theorem

REPL = "Lean4Repl"  # the module of LeanDojo that every file for it imports
GAP = "by\n  lean_dojo_repl\n  sorry\n"  # what LeanDojo puts where a proof was
INDENT = "  "
_IMPORT = "import "


@dataclass(frozen=True)
class Checked:
    """A file with a whole proof; `line` is that of the command which tells the axioms of `name`."""

    text: str
    line: int
    name: str


def head(theorem: Theorem, name: str) -> str:
    """All that is before its proof.  Commands `import M` of what stands before it come first, as Lean wants it.

    LeanDojo's own module is imported for the check too: what is known there must be the same."""
    imports = [_IMPORT + REPL, *(text.strip() for text in theorem.before if _is_import(text))]
    before = [text.strip() for text in theorem.before if not _is_import(text)]
    # in brackets, which end on a line of their own: `refused_statement` knows that they are a pair
    statement = f"set_option maxHeartbeats 0 in\ntheorem {name} : ({theorem.statement.strip()}\n) := "
    return "\n\n".join(["\n".join(imports), *before, statement])


def gapped(theorem: Theorem, name: str) -> str:
    return head(theorem, name) + GAP


def one_tactic(script: Sequence[str]) -> str:
    """A whole proof in brackets: what Lean's parser takes as one tactic does not leave its theorem."""
    inside = indent("\n".join(script), INDENT)
    return f"(\n{inside}\n)"


def proved(before: str, proof: str, name: str) -> Checked:
    """`before`: the file up to the proof."""
    text = f"{before}by\n{indent(proof, INDENT)}\n\n"
    return Checked(f"{text}#print axioms {name}\n", text.count("\n") + 1, name)


def up_to_proof(modified: str) -> str:
    """Of a file that LeanDojo made, in which a theorem has a gap for its proof."""
    before, _, _ = modified.partition(GAP)
    return before


def _is_import(text: str) -> bool:
    return text.strip().startswith(_IMPORT)
