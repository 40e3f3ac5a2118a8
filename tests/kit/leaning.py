"""A Lean for the tests: the toolchain that everyone has, made when it is not there yet."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.lean.repl import process
from pipeline.lean.repl.process import LeanCommand, Repl
from pipeline.lean.toolchain import native
from pipeline.lean.toolchain.wasm import ready_toolchain
from pipeline.machine.process import Processes

REPL = Path(process.__file__).with_name("Repl.lean")


def command() -> LeanCommand:
    return ready_toolchain().command(REPL)


def importing(folder: Path, modules: Mapping[str, str]) -> LeanCommand:
    """One that has imported these modules: their texts are compiled in the folder."""
    toolchain = ready_toolchain()
    for name, text in modules.items():
        (folder / f"{name}.lean").write_text(text)
        argv = [*toolchain.lean, f"--root={folder}", "-o", str(folder / f"{name}.olean"), str(folder / f"{name}.lean")]
        subprocess.run(argv, env=toolchain.environment, cwd=folder, check=True, capture_output=True)
    (folder / "Main.lean").write_text(native.with_imports(REPL.read_text(), modules))
    placed = toolchain.command(folder / "Main.lean")
    return replace(placed, env={"LEAN_PATH": f"{placed.env['LEAN_PATH']}:{folder}"})


@contextmanager
def started(how: LeanCommand | None = None) -> Iterator[Repl]:
    """A process of it, to which one speaks the protocol itself."""
    with closing(Processes(["lean"])) as processes:
        repl = Repl(how or command(), processes)
        try:
            repl.await_ready()
            yield repl
        finally:
            repl.end()


# As `lean FILE` does it, but for the imports: each begins with what this very file has imported, in a process for all.
EACH = """\
import Lean
open Lean Elab
#eval show Command.CommandElabM Unit from do
  let env ← getEnv
  for file in FILES do
    let whole ← IO.FS.readFile file
    let text : Parser.InputContext := { inputString := whole, fileName := file, fileMap := whole.toFileMap }
    let (_, state, messages) ← Parser.parseHeader text
    let ended ← IO.processCommands text state (Command.mkState env messages {})
    for message in ended.commandState.messages.toList do
      IO.println s!"{file}: {← message.toString}"
    IO.println s!"{file}: ended"
"""


def says_each(folder: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Of several files that import Lean: the messages about each."""
    (folder / "Each.lean").write_text(EACH.replace("FILES", json.dumps([f"{name}.lean" for name in names])))
    lines = says(folder / "Each.lean").splitlines()
    assert lines[-1] == "exit 0", lines
    return {name: [line for line in lines if line.startswith(f"{name}.lean: ")] for name in names}


def says(file: Path) -> str:
    """Of a whole file: its messages, and how Lean ended."""
    toolchain = ready_toolchain()
    how: dict[str, Any] = {"env": toolchain.environment, "cwd": file.parent, "capture_output": True, "text": True}
    done = subprocess.run([*toolchain.lean, file.name], check=False, **how)
    return "\n".join(line for line in [*done.stdout.splitlines(), f"exit {done.returncode}"] if "DEBUG" not in line)
