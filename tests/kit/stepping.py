"""A search that is quick and easy to follow: its ideas add numbers, and its sweep prints their sum."""

import json
from typing import Any

from kit.project import Project, Said
from kit.searches import adding, idea, write_idea

SWEEP = """echo "$(basename "$PWD")" >> "$2/ran"
while [ -e "$2/wait" ]; do echo $$ > "$2/here"; sleep 0.02; done
total=$(cat plus/* | awk '{ sum += $1 } END { print sum }')
printf 'config_id,status,m\\n0,ok,%s\\n' "$total" > "$1"
"""
CONFIG = """# what no flag says
repo: code
sandbox: plain
roles: {ideas: {backend: patches, folder: ideas},
  coder: {backend: patches}}
sweep:
  run: sh {in} {results} {project}   # the sum of all that is in plus/
  reads: sweep.sh
metrics: {m: {primary: true}}
"""
SHAPE = "ideas_per_node: 2\nmax_depth: 3\n"


def planted(project: Project, *gains: int) -> Project:
    """With an idea for each number to be added; two are tried at each of three depths."""
    project.write("code/plus/start", "10\n")
    project.write("sweep.sh", SWEEP)
    for n, gain in enumerate(gains):
        write_idea(project, f"{n:02}", idea(f"{n}."), adding(f"plus/{n}", str(gain)))
    project.write("agent.yaml", CONFIG)
    return project


def spec(project: Project, more: str = "") -> None:
    project.spec("x", f"kind: tree\n{CONFIG}{SHAPE}{more}")


def stand(said: Said) -> dict[str, Any]:
    """Standard output is one document and nothing else."""
    found: dict[str, Any] = json.loads(said.out)
    return found


def swept(project: Project) -> list[str]:
    """Where sweeps ran since the last look."""
    note = project.root / "ran"
    lines = sorted(note.read_text().split()) if note.exists() else []
    note.unlink(missing_ok=True)
    return lines
