"""A `lake` for machines without one: what LeanDojo asks of it, answered by the Lean from npm.

`lake build` has nothing to do.  `lake env lean FILE` serves LeanDojo's protocol where the file has LeanDojo's tactic
in it, as Lean4Repl.lean would, and is otherwise `lean --json FILE`.  It knows files with one theorem, stated without
binders before the colon, the last in its file.  `#print axioms`, which that Lean does not have, is answered from the
axioms that our REPL reports."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.lean.model import Lean, LeanError, LeanStartError, ProofFinished, TacticState, Theorem
from pipeline.lean.repl.pool import Pool
from tests.kit import leaning

FURTHER = "LAKE_STAND_IN_AXIOMS"  # names that it says every theorem rests on, too
LONG = 3600.0  # its caller ends it
SORRY = "proof contains `sorry`"
_AXIOMS = re.compile(r"^#print axioms (\S+)", re.MULTILINE)
_THEOREM = re.compile(
    r"(?P<before>.*?)(?:set_option maxHeartbeats 0 in\s+)?"
    r"theorem (?P<name>\S+) : (?P<statement>(?:(?!\ntheorem ).)*?)\s*:=\s*by\n(?P<proof>(?:  .*\n|\n)*)(?P<rest>.*)",
    re.DOTALL,
)


class Here:
    """Starts what it starts in the terminal that LeanDojo gave us, so that it ends with it."""

    stopping = False

    def start(self, argv: Any, env: Any, confined: None = None, **how: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(list(argv), env={**os.environ, **env}, **how)

    def end(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        child.wait()


class File(NamedTuple):
    """`text`: without its imports, of which the Lean from npm has only what it imports anyway."""

    text: str
    theorem: Theorem
    proof: str


def installed(folder: Path) -> str:
    """A `lake` in `folder`, for a PATH.  It has our HOME, whatever that of its caller is."""
    own = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in own.items())
    lake = folder / "lake"
    argv = f"{shlex.quote(sys.executable)} -I {shlex.quote(__file__)}"
    lake.write_text(f'#!/bin/sh\nexec env {setting} {argv} "$@"\n')
    lake.chmod(0o755)
    return str(folder)


def read(path: str) -> File:
    text = re.sub(r"^import .*$", "", Path(path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = _THEOREM.fullmatch(text)
    if found is None:
        sys.exit(f"{path}: no theorem that the stand-in can read")
    before = (found["before"],) if found["before"].strip() else ()
    return File(text, Theorem(found["name"], found["statement"], before), found["proof"])


def serve(lean: Lean, theorem: Theorem) -> None:
    """As Lean4Repl.lean does; it does not look at axioms."""
    session, state = lean.open(theorem)
    states = {state.id: state}
    say(sid=state.id, tacticState=state.pp)
    for line in sys.stdin:
        if line.strip() == "exit":
            break
        request = json.loads(line)
        answer = session.run_tac(states[request["sid"]], request["cmd"], LONG)
        if isinstance(answer, TacticState):
            states[answer.id] = answer
            say(sid=answer.id, tacticState=answer.pp)
        elif isinstance(answer, ProofFinished):
            say(sid=answer.id, tacticState="no goals")
        elif isinstance(answer, LeanError):
            say(**refused(answer))
        else:
            say(error=SORRY)
    session.close()


def refused(answer: LeanError) -> Mapping[str, Any]:
    if answer.kind == "crash":
        sys.exit(1)
    if answer.kind == "axioms":
        return {"sid": -1, "tacticState": "no goals"}
    return {"error": {"sorry": SORRY, "parse": f"<stdin>:1:1: {answer.error}"}.get(answer.kind, answer.error)}


def say(**fields: Any) -> None:
    print(
        "REPL>", json.dumps({"sid": None, "tacticState": None, "error": None, **fields}, ensure_ascii=False), flush=True
    )


def elaborate(lean: Lean, file: File) -> int:
    """The statement by itself; then the file, and of its theorem the axioms."""
    lean.open(file.theorem)[0].close()
    asked = _AXIOMS.search(file.text)
    if asked is None:
        return 0
    name = asked[1]
    whole = Theorem("told", f"type_of% @{name}", (file.text[: asked.start()],))
    session, state = lean.open(whole)
    answer = session.run_tac(state, f"exact @{name}", LONG)
    if isinstance(answer, LeanError) and answer.kind not in ("sorry", "axioms"):
        raise LeanStartError(answer.error)
    axioms = answer.axioms if isinstance(answer, ProofFinished) else ("sorryAx",)
    axioms = (*axioms, *os.environ.get(FURTHER, "").split())
    line = file.text[: asked.start()].count("\n") + 1
    told = f"depends on axioms: [{', '.join(axioms)}]" if axioms else "does not depend on any axioms"
    tell("information", f"'{name.removeprefix('_root_.')}' {told}", line)
    return 0


def tell(severity: str, text: str, line: int) -> None:
    print(json.dumps({"severity": severity, "data": text, "pos": {"line": line, "column": 0}}), flush=True)


def main(argv: list[str]) -> int:
    if argv[:2] != ["env", "lean"]:
        return 0
    file = read(argv[-1])
    lean = Pool(leaning.command(), Here())
    try:
        if "lean_dojo_repl" in file.proof:
            serve(lean, file.theorem)
            return 0
        return elaborate(lean, file)
    except LeanStartError as error:
        tell("error", str(error), 1)
        return 1
    finally:
        lean.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
