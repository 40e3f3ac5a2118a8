"""A small search that really runs: a folder, a shell script as its sweep, recorded ideas, two depths."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from typing import Any

from kit.project import Project
from kit.searches import write_idea
from pipeline.build.project import load
from pipeline.store.receipts import Receipts, done_line
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.validation import Validation, validate_run
from pipeline.tree.run.records import dump_record

SWEEP = """\
gain=$(cat a b c d | awk '{ sum += $1 } END { print sum }')
echo config_id,status,gain,risk > "$1"
for config in 0 1; do echo "$config,ok,$((10 + gain + config)),$(cat risk)" >> "$1"; done
"""
SPEC = """\
kind: tree
repo: code
ideas_per_node: 2
beam_width: 2
max_depth: 2
sweep_config_limit: 2
roles:
  ideas: {backend: patches, folder: ideas}
  coder: {backend: patches}
tests: {run: "! grep -q 9 a b c d"}
sweep: {run: [sh, sweep.sh, "{results}"]}
metrics:
  gain: {primary: true}
  risk: {guard: true, better: lower}
"""
# The file that each idea changes, and to what.  The third is tried on both nodes of depth 1, the last fails its tests.
IDEAS = {"Raise a.": ("a", 3), "Raise b.": ("b", 1), "Raise c|d\\.": ("c", 20), "Break d.": ("d", 9)}


def small_search(project: Project, more: str = "", ideas: dict[str, tuple[str, int]] = IDEAS) -> Project:
    """Repository, ideas and the spec of run `x`, with `more` keys."""
    for name in "abcd":
        project.write(f"code/{name}", "0\n")
    project.write("code/risk", "1\n")
    project.write("code/sweep.sh", SWEEP)
    for number, (title, (name, value)) in enumerate(ideas.items(), 1):
        write_change(project, f"{number:02}", title, name, value)
    project.spec("x", SPEC + more)
    return project


def write_change(project: Project, folder: str, title: str, name: str, value: int) -> None:
    text = f"IDEA: {title}\n\nRATIONALE: More is better.\n\nREQUIRED_CHANGES:\n- Write {value} into {name}.\n"
    change = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-0\n+{value}\n"
    write_idea(project, folder, text, change)


def searched(project: Project, more: str = "", ideas: dict[str, tuple[str, int]] = IDEAS) -> Project:
    said = small_search(project, more, ideas).call("run", "x")
    assert said.code == 0, said
    return project


def config_of(project: Project, run: str = "x") -> dict[str, Any]:
    """What the report is told of the run."""
    with chdir(project.root):
        return next(dict(target.params) for target in load([run])[run].targets if target.name == f"{run}:report")


def manifest_of(project: Project, **lifecycle: Any) -> dict[str, Any]:
    config = config_of(project)
    with chdir(project.root):
        return fold_manifest("x", config, lifecycle)


def validation_of(project: Project, stored: dict[str, Any] | None = None) -> Validation:
    config = config_of(project)
    with chdir(project.root):
        return validate_run("x", config, stored)


def problems(project: Project, stored: dict[str, Any] | None = None) -> list[str]:
    return [str(problem) for problem in validation_of(project, stored).problems]


def forge(project: Project, path: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record below runs/x/ so that its file and its receipt agree on it."""
    path = f"runs/x/{path}"
    record = json.loads(project.read(path))
    change(record)
    content = dump_record(record)
    project.write(path, content)
    with chdir(project.root):
        receipts = Receipts("x")
        target, receipt = next(
            (name, found)
            for name in receipts.names()
            if (found := receipts.receipt(name)) is not None and path in found.outputs
        )
        outputs = {**receipt.outputs, path: sha256(content).hexdigest()}
        receipts.append([done_line(target, receipt._replace(outputs=outputs))])
        receipts.close()


def restoring(project: Project, keep: Path, *names: str) -> Iterator[Project]:
    """A project that is the same each time, in place: worktrees know where they are.  The first time keeps a copy."""
    if not keep.exists():
        keep.mkdir()
        for number, name in enumerate(names):
            subprocess.run(["cp", "-a", project.root / name, keep / str(number)], check=True)
    yield project
    for number, name in enumerate(names):
        shutil.rmtree(project.root / name)
        subprocess.run(["cp", "-a", keep / str(number), project.root / name], check=True)
