"""Write Lean files for LeanDojo, parse its answers, refuse unsafe text.

Pure.  A proof is judged by its words: more is refused than could do harm, not less.  Our REPL asks Lean about
the parts of a tactic; that of LeanDojo runs all it gets."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from pipeline.lean import model
from pipeline.lean.model import IMPORT, TRUSTED, LeanError, Theorem, is_import

REPL_MODULE = "Lean4Repl"  # the module of LeanDojo that every file for it imports
GAP = "by\n  lean_dojo_repl\n  sorry\n"  # what LeanDojo puts where a proof was
INDENT = "  "


@dataclass(frozen=True)
class WholeProofFile:
    """A file with a whole proof; `line` is that of the command which tells the axioms of `name`."""

    text: str
    line: int
    name: str


def statement_head(theorem: Theorem, name: str) -> str:
    """Text before the proof.  Commands `import M` come first, as Lean wants it.

    LeanDojo's own module is imported for the check too, so that the check has the same environment."""
    imports = [IMPORT + REPL_MODULE, *(text.strip() for text in theorem.before if is_import(text))]
    before = [text.strip() for text in theorem.before if not is_import(text)]
    # in brackets, which end on a line of their own: `statement_refusal` knows that they are a pair
    statement = f"set_option maxHeartbeats 0 in\ntheorem {name} : ({theorem.statement.strip()}\n) := "
    return "\n\n".join(["\n".join(imports), *before, statement])


def file_with_gap(theorem: Theorem, name: str) -> str:
    return statement_head(theorem, name) + GAP


def file_with_proof(before: str, proof: str, name: str) -> WholeProofFile:
    """`before`: the file up to the proof."""
    text = f"{before}by\n{indent(proof, INDENT)}\n\n"
    return WholeProofFile(f"{text}#print axioms {name}\n", text.count("\n") + 1, name)


def text_before_proof(modified: str) -> str:
    """Text before the gap, in a file that LeanDojo made."""
    return modified.partition(GAP)[0]


# LeanDojo tells what went wrong as text alone.  The first that is found says the kind.
ERROR_KINDS = (
    ("contains `sorry`", "sorry"),
    ("kernel", "kernel"),
    ("maximum number of heartbeats", "heartbeats"),
    ("maximum recursion depth", "recursion"),
    ("<stdin>:", "parse"),
)
_CASE = re.compile(r"\Acase [^\n]*\n")
_BROKEN = re.compile(r"\n\s+")
_SPACE = re.compile(r"\s+")
_AXIOMS = re.compile(r"'(?P<name>\S+)' (?:does not depend on any axioms|depends on axioms: \[(?P<list>[^\]]*)\])")

Message = Mapping[str, Any]


def split_goals(pp: str) -> tuple[str, ...]:
    """Split a printed state into goals, a line for each hypothesis as in our REPL; LeanDojo breaks long lines."""
    return tuple(_BROKEN.sub(" ", goal.strip()) for goal in pp.split("\n\n") if "⊢" in goal)


def error_kind(error: str) -> str:
    return next((kind for sign, kind in ERROR_KINDS if sign in error), "tactic")


def printed_goal_key(before: Sequence[str], goal: str) -> str:
    """Key of a printed goal, without its name and how its lines are broken.

    Names of hypotheses, and their order, tell goals apart: text cannot say what else is the same."""
    plain = _SPACE.sub(" ", _CASE.sub("", goal.strip())).strip()
    return model.goal_key(before, plain)


def parse_messages(printed: str) -> list[Message]:
    """Messages of `lean --json`, a line each.  Any other line was printed by something else."""
    found: list[Message] = []
    for line in printed.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "severity" in message and "data" in message:
            found.append(message)
    return found


def first_error(found: Sequence[Message]) -> str:
    return next((str(message["data"]).strip() for message in found if message["severity"] == "error"), "")


def check_verdict(file: WholeProofFile, code: int, found: Sequence[Message]) -> LeanError | None:
    """Verdict on a file, None when it holds: no error, no hole, only trusted axioms, as Lean says in its place."""
    if wrong := first_error(found):
        return LeanError(wrong, error_kind(wrong))
    if code:
        return LeanError(f"Lean ended with {code}", "crash")
    texts = [str(message["data"]) for message in found]
    if any("declaration uses" in text and "sorry" in text for text in texts):
        return LeanError("there is a `sorry` in it", "sorry")
    places = [message.get("pos") for message in found]
    lines = [int(place["line"]) if isinstance(place, dict) else 0 for place in places]
    axioms = _AXIOMS.fullmatch(texts[lines.index(file.line)].strip()) if lines.count(file.line) == 1 else None
    if axioms is None or axioms["name"] != file.name.removeprefix("_root_."):
        return LeanError("Lean did not say which axioms it rests on", "axioms")
    foreign = sorted({name.strip() for name in (axioms["list"] or "").split(",")} - TRUSTED - {""})
    return LeanError(f"the proof rests on {', '.join(foreign)}", "axioms") if foreign else None


# They run code, or change how code runs: neither before a statement, nor in one, nor in a proof.
CODE_WORDS = frozenset((
    "run_tac", "run_cmd", "run_elab", "run_meta", "by_elab", "elab", "elab_rules", "eval", "simproc", "dsimproc",
    "simproc_decl", "builtin_simproc", "initialize", "builtin_initialize", "unsafe", "implemented_by", "extern",
    "csimp", "reduceBool", "reduceNat", "ofReduceBool", "ofReduceNat", "trustCompiler", "native_decide", "native",
    "bv_decide", "include_str", "IO", "BaseIO", "EIO", "unsafeIO", "unsafeEIO", "unsafeBaseIO", "unsafeCast",
    "dbg_trace", "dbgTrace", "dbgTraceVal", "dbgTraceIfShared", "dbgStackTrace", "lcProof", "lcUnreachable",
    "skipKernelTC", "addDecl", "addDeclCore", "addDeclWithoutChecking", "lean_dojo_repl", "autoParam",
))  # fmt: skip
# They are commands: a proof in which one stands wants out of its theorem.
COMMAND_WORDS = frozenset((
    "theorem", "lemma", "def", "abbrev", "example", "instance", "axiom", "opaque", "inductive", "structure",
    "class", "mutual", "namespace", "section", "end", "universe", "variable", "include", "omit", "export",
    "deriving", "import", "private", "protected", "scoped", "noncomputable", "macro", "macro_rules", "syntax",
    "declare_syntax_cat", "notation", "infix", "infixl", "infixr", "prefix", "postfix", "attribute", "alias",
    "register_option", "add_decl_doc", "public", "meta", "module", "prelude",
))  # fmt: skip
# They put syntax of their own in place of the text, and that syntax was not checked.
MACRO_WORDS = ("macro", "macro_rules", "syntax", "declare_syntax_cat", "binder_predicate")
# Attributes that a definition may have; others make it a part of Lean, which then runs it.
ALLOWED_ATTRIBUTES = (
    "simp", "ext", "grind", "inline", "noinline", "specialize", "reducible", "semireducible", "irreducible",
    "instance", "default_instance", "refl", "symm", "trans", "rfl", "congr", "gcongr", "mono", "norm_cast", "coe",
    "push_cast", "match_pattern", "elab_as_elim", "induction_eliminator", "cases_eliminator", "inherit_doc",
    "deprecated", "fun_prop", "continuity", "measurability",
)  # fmt: skip
# Options that a proof may set: limits, and nothing about the check.
ALLOWED_OPTIONS = ("maxRecDepth", "maxHeartbeats", "synthInstance.maxHeartbeats", "synthInstance.maxSize")

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


def tactic_refusal(tactic: str) -> str:
    """Reason why a tactic may not be part of a proof; nothing if it may."""
    if why := _command_refusal(tactic):
        return why
    if _ATTRIBUTE.search(tactic):
        return "`@[` gives an attribute, which outlasts a proof"
    for option in _OPTION.findall(tactic):
        if option not in ALLOWED_OPTIONS:
            return f"`set_option {option}`: a proof may set {', '.join(ALLOWED_OPTIONS)}"
    return text_refusal(tactic)


def text_refusal(text: str) -> str:
    """Reason why a text may stand nowhere, neither in a tactic nor in or before a statement; nothing if it may."""
    if found := _HASH_COMMAND.search(text):
        return f"`{found[0]}` does what it likes while it is elaborated"
    if word := _first(text, CODE_WORDS):
        return f"`{word}` runs code, or trusts what code says"
    return ""


def statement_refusal(statement: str) -> str:
    """Reason why a statement is not one proposition that brackets can be put around; nothing if it is."""
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
    return _command_refusal(statement) or text_refusal(statement)


def preamble_refusal(text: str) -> str:
    """Reason why a command may not stand before a statement; nothing if it may."""
    if word := _first(text, MACRO_WORDS):
        return f"`{word}` puts anything in place of what is written; a `notation` may stand there"
    lists = _LIST.findall(text)
    if len(lists) < len(_ATTRIBUTE.findall(text)):
        return "there are brackets or comments in a list of attributes; leave them out"
    for name in (name for each in lists for name in _NAMED.findall(each)):
        if name not in ALLOWED_ATTRIBUTES:
            return f"the attribute `{name}` may make code a part of Lean; leave it out"
    return text_refusal(text)


def _command_refusal(text: str) -> str:
    word = _first(text, COMMAND_WORDS)
    return f"`{word}` begins a command, which no part of a statement or a proof does" if word else ""


def _first(text: str, refused: Collection[str]) -> str:
    """The first word of the text that is among them."""
    return next((word for word in _WORD.findall(text) if word in refused), "")
