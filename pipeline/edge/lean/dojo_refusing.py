"""What may not stand in a proof for LeanDojo, judged by its words: more is refused than could do harm, not less.

Our REPL asks Lean what a tactic is made of; that of LeanDojo runs whatever it is given."""

from __future__ import annotations

import re
from collections.abc import Collection

# They run code, or change how code runs: neither before a statement, nor in one, nor in a proof.
RUNS = frozenset((
    "run_tac", "run_cmd", "run_elab", "run_meta", "by_elab", "elab", "elab_rules", "eval", "simproc", "dsimproc",
    "simproc_decl", "builtin_simproc", "initialize", "builtin_initialize", "unsafe", "implemented_by", "extern",
    "csimp", "reduceBool", "reduceNat", "ofReduceBool", "ofReduceNat", "trustCompiler", "native_decide", "native",
    "bv_decide", "include_str", "IO", "BaseIO", "EIO", "unsafeIO", "unsafeEIO", "unsafeBaseIO", "unsafeCast",
    "dbg_trace", "dbgTrace", "dbgTraceVal", "dbgTraceIfShared", "dbgStackTrace", "lcProof", "lcUnreachable",
    "skipKernelTC", "addDecl", "addDeclCore", "addDeclWithoutChecking", "lean_dojo_repl", "autoParam",
))  # fmt: skip
# They are commands: a proof in which one stands wants out of its theorem.
COMMANDS = frozenset((
    "theorem", "lemma", "def", "abbrev", "example", "instance", "axiom", "opaque", "inductive", "structure",
    "class", "mutual", "namespace", "section", "end", "universe", "variable", "include", "omit", "export",
    "deriving", "import", "private", "protected", "scoped", "noncomputable", "macro", "macro_rules", "syntax",
    "declare_syntax_cat", "notation", "infix", "infixl", "infixr", "prefix", "postfix", "attribute", "alias",
    "register_option", "add_decl_doc", "public", "meta", "module", "prelude",
))  # fmt: skip
# They put syntax that they make themselves in place of what is written, which nobody has looked at.
MACROS = ("macro", "macro_rules", "syntax", "declare_syntax_cat", "binder_predicate")
# What may be said of a definition; other attributes make it a part of Lean, which then runs it.
ATTRIBUTES = (
    "simp", "ext", "grind", "inline", "noinline", "specialize", "reducible", "semireducible", "irreducible",
    "instance", "default_instance", "refl", "symm", "trans", "rfl", "congr", "gcongr", "mono", "norm_cast", "coe",
    "push_cast", "match_pattern", "elab_as_elim", "induction_eliminator", "cases_eliminator", "inherit_doc",
    "deprecated", "fun_prop", "continuity", "measurability",
)  # fmt: skip
# What a proof may set: limits, and nothing about what is checked.
OPTIONS = ("maxRecDepth", "maxHeartbeats", "synthInstance.maxHeartbeats", "synthInstance.maxSize")

# Parts of names count by themselves: `Lean.Elab.Tactic.run_tac` is `run_tac`.
_WORD = re.compile(r"\w+")
_HASH_COMMAND = re.compile(r"#\s*[^\W\d]\w*")
_OPTION = re.compile(r"set_option\b\s*([\w.«»]*)")
_ATTRIBUTE = re.compile(r"@\s*\[|\battribute\b")
_LIST = re.compile(r"(?:@|\battribute\b)\s*\[([^\[\]]*)\]")
_NAMED = re.compile(r"(?:^|,)\s*(?:local\b|scoped\b|-)?\s*(\w*)")
# Texts and characters; a comment; brackets.
_PIECE = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'|(--|/-|-/)|([()\[\]{}⟨⟩])""", re.DOTALL)
_CLOSING = {")": "(", "]": "[", "}": "{", "⟩": "⟨"}


def refused_tactic(tactic: str) -> str:
    """Why it may not be part of a proof; nothing if it may."""
    if why := _refused_command(tactic):
        return why
    if _ATTRIBUTE.search(tactic):
        return "`@[` gives an attribute, which outlasts a proof"
    for option in _OPTION.findall(tactic):
        if option not in OPTIONS:
            return f"`set_option {option}`: a proof may set {', '.join(OPTIONS)}"
    return refused_text(tactic)


def refused_text(text: str) -> str:
    """Why it may stand nowhere, be it a tactic, a statement or what is before one; nothing if it may."""
    if found := _HASH_COMMAND.search(text):
        return f"`{found[0]}` does what it likes while it is elaborated"
    if word := _first(text, RUNS):
        return f"`{word}` runs code, or trusts what code says"
    return ""


def refused_statement(statement: str) -> str:
    """Why it is not one proposition that a pair of brackets can be put around; nothing if it is."""
    opened: list[str] = []
    for comment, bracket in _PIECE.findall(statement):
        if comment:
            return f"there is a comment (`{comment}`) in the statement; put it elsewhere"
        if bracket in _CLOSING:
            if not opened or opened.pop() != _CLOSING[bracket]:
                return f"`{bracket}` closes nothing"
        elif bracket:
            opened.append(bracket)
    if opened:
        return f"`{opened[-1]}` is not closed"
    # texts in other brackets, such as r"\", can hide one from this count; what would follow it is a command
    return _refused_command(statement) or refused_text(statement)


def refused_before(text: str) -> str:
    """Why it may not stand before a statement; nothing if it may."""
    if word := _first(text, MACROS):
        return f"`{word}` puts anything in place of what is written; a `notation` may stand there"
    lists = _LIST.findall(text)
    if len(lists) < len(_ATTRIBUTE.findall(text)):
        return "there are brackets or comments in a list of attributes; leave them out"
    for name in (name for each in lists for name in _NAMED.findall(each)):
        if name not in ATTRIBUTES:
            return f"the attribute `{name}` may make code a part of Lean; leave it out"
    return refused_text(text)


def _refused_command(text: str) -> str:
    word = _first(text, COMMANDS)
    return f"`{word}` begins a command, which no part of a statement or a proof does" if word else ""


def _first(text: str, refused: Collection[str]) -> str:
    """The first word of the text that is among them."""
    return next((word for word in _WORD.findall(text) if word in refused), "")
