"""What is refused: each kind of syntax that by its name could run code is refused, or said to be harmless."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pipeline.lean.toolchain import cache
from pipeline.lean.toolchain.wasm import ready_toolchain

RULES = (cache.SOURCES / "Refuse.lean").read_text(encoding="utf-8")
# How syntax is called that runs code, trusts it, reads, prints or waits.
SOUNDS = r"(?i)run|eval|unsafe|native|bvdec|bvtrace|bvcheck|extern|init|elab|sleep|include|dbg|wait|unblock|implement"
SOUNDS += r"|simproc|propagator|code_?action|delab|widget|export$|by_?elab|println"
# These do nothing of it: each was looked at.
HARMLESS = {
    "Lean.Parser.Tactic.declareSimpLikeTactic": "a command",
    "Lean.Parser.Term.debugAssert": "compiled, and never run",
    "Lean.Parser.Term.doDebugAssert": "compiled, and never run",
    "Lean.Parser.Term.elabToSyntax": "has no syntax that could be written",
    "Lean.Parser.Tactic.showTermElab": "prints the term that was found",
    "Lean.Parser.Term.showTermElabImpl": "prints the term that was found",
    "Lean.Parser.Tactic.sleep": "only takes its time, of which there is a limit",
    "Lean.Elab.Term.Quotation.commandElab_stx_quot_": "a command",
    "termPrintln!__": "a term of IO, which nothing runs",
    "Lean.Meta.Grind.doElemReportDbgIssue!__": "a step of code, which nothing runs",
    "Lean.Parser.Attr.externEntry": "a part of an attribute that is refused",
    "Lean.Parser.simprocPattern": "a command",
    "Lean.Parser.simprocPatternBuiltin": "a command",
    "Lean.Parser.Term.falseVal": "false, in an option",
    "Lean.Parser.Term.trueVal": "true, in an option",
    "Lean.Parser.Term.letOptPostponeValue": "postpones an elaboration",
    "Lean.Parser.Term.waitIfContainsMVar": "postpones an elaboration",
    "Lean.Parser.Term.waitIfTypeContainsMVar": "postpones an elaboration",
    "Lean.Parser.Term.waitIfTypeMVar": "postpones an elaboration",
}
COMMANDS = re.compile(r"command|Command|Cmd|Lean\.Option\.|configElab|elabConfigGetter|ConfigElab|Lean\.Widget\.")


@pytest.fixture(scope="module")
def kinds() -> set[str]:
    command = ready_toolchain().command(Path(__file__).with_name("lean_kinds.lean"))
    done = subprocess.run(
        command.argv, env=dict(command.env), cwd=command.cwd, capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.endswith("\nALL\n"), (done.returncode, done.stderr[-2000:])
    return {line.removeprefix("KIND ") for line in done.stdout.splitlines() if line.startswith("KIND ")}


def listed(name: str) -> set[str]:
    """The names of a list in the rules."""
    part = RULES.partition(f"  {name} := setOf [")[2].partition("]\n")[0]
    return set(re.findall(r"`([^\s,\]`]+)", part))


def test_what_is_refused_is_there(kinds: set[str]) -> None:
    """A name with a slip in it would refuse nothing."""
    assert len(listed("kinds")) > 40
    assert listed("kinds") <= kinds
    assert listed("commands") <= kinds


def test_each_kind_that_sounds_dangerous_is_decided(kinds: set[str]) -> None:
    spoken = {kind for kind in kinds if re.search(SOUNDS, kind.rpartition(".")[2])}
    unknown = {kind for kind in spoken - listed("kinds") - set(HARMLESS) if not is_other(kind)}
    assert not unknown, f"refuse them in Refuse.lean, or say here why they are harmless: {sorted(unknown)}"


def is_other(kind: str) -> bool:
    """Commands and attributes are refused unless they are listed; antiquotations stand in quotations only."""
    return kind.endswith((".antiquot", ".quot")) or bool(COMMANDS.search(kind)) or kind.startswith("token.")


def test_nothing_said_to_be_harmless_is_refused(kinds: set[str]) -> None:
    assert not set(HARMLESS) & listed("kinds")
    assert set(HARMLESS) <= kinds
