"""What a tree search costs beside the work it is for: time an evaluation, disk a candidate, deciding to do nothing.

    python -m benchmarks.tree                                  # 50, 500 and 2,000 evaluations, one at a time
    python -m benchmarks.tree --evals 500 --only cost,parallel

An evaluation applies a recorded one-line change to a repository of 10 files, few so that the checkout does not drown
the rest, checks it out, runs a command that writes a row, scores it. `own` is what is left of it when the same
checkouts and the same commands, run bare in the same process tree, are taken away. Beside it a shell script that does
the same with git: worktree, apply, commit, command, a line of JSON, and the worktree removed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks import measure

FILES = 10
HERE = Path(__file__).resolve().parent
SWEEP = "printf 'config_id,status,score\\n0,ok,%s\\n' $(cat value) > {results}"
SPEC = """kind: tree
repo: repo
ideas_per_node: {evals}
max_depth: 1
max_parallel_evals: {at_once}
roles:
  ideas: {{backend: patches, folder: ideas}}
  coder: {{backend: patches}}
sweep: {{run: "{sweep}"}}
metrics: {{score: {{primary: true}}}}
"""
PATCH = """diff --git a/value b/value
--- a/value
+++ b/value
@@ -1 +1 @@
-1
+{value}
"""
PEER = """set -eu
cd "$1"
for idea in ideas/*; do
    name=${idea#ideas/}
    git -C repo worktree add --quiet --detach "../cand/$name" HEAD
    git -C "cand/$name" apply --index "../../$idea/change.patch"
    git -C "cand/$name" -c user.name=x -c user.email=x@localhost commit --quiet --message="$name"
    mkdir -p "eval/$name"
    line="printf 'config_id,status,score\\n0,ok,%s\\n' \\$(cat value) > ../../eval/$name/results.csv"
    (cd "cand/$name" && /bin/sh -c "$line")
    printf '{"eval": "%s", "commit": "%s"}\\n' "$name" "$(git -C "cand/$name" rev-parse HEAD)" >> manifest.jsonl
    git -C repo worktree remove --force "../cand/$name"
done
"""
BARE = """
import sys
from pipeline.git.repository import root_commit as root_of
from pipeline.git.worktrees import Worktrees
from pipeline.machine.process import Processes
root = root_of("repo", "bare")
trees = Worktrees(root.repo, "runs/bare/cand")
processes = Processes(["bare"])
env = processes.environment("bare", {}, ())
for i in range(int(sys.argv[1])):
    tree = trees.add(f"d0.n0.i{i}", root.commit)
    line = "printf 'config_id,status,score\\\\n0,ok,%s\\\\n' $(cat value) > ../../results.csv"
    processes.run(["/bin/sh", "-c", line], env, "runs/bare/log", cwd=tree.path)
    trees.remove(f"d0.n0.i{i}")
processes.close()
"""


class Cost(NamedTuple):
    """Milliseconds an evaluation."""

    wall: float
    cpu: float

    def minus(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)

    def __str__(self) -> str:
        return f"{self.wall:6.1f} wall {self.cpu:6.1f} CPU"


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(HERE.parent), "LC_ALL": "C"}
        self.env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

    def project(self, name: str, evals: int, at_once: int = 1, sweep: str = SWEEP) -> Path:
        """With a repository of the user's own, whose HEAD is where it starts."""
        top = self.folder / name
        repo = top / "repo"
        for i in range(FILES):
            file = repo / f"part{i // 10}" / f"module{i}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# module {i}\n" + "x = 1\n" * 200)
        (repo / "value").write_text("1\n")
        for i in range(evals):
            idea = top / "ideas" / f"{i:05}"
            idea.mkdir(parents=True)
            (idea / "idea.md").write_text(f"IDEA: Value {i}.\n\nRATIONALE: None.\n\nREQUIRED_CHANGES:\n- value\n")
            (idea / "change.patch").write_text(PATCH.format(value=f"1.{i + 1:05}"))
        (top / "specs").mkdir()
        (top / "specs" / "x.yaml").write_text(
            SPEC.format(evals=evals, at_once=at_once, sweep=sweep.replace('"', '\\"').replace("\\n", "\\\\n"))
        )
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        for words in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "-m", "start"]):
            subprocess.run(["git", *words], cwd=repo, env=self.env, check=True)
        return top

    def run(self, top: Path, *command: str) -> measure.Usage:
        return measure.run(list(command), top, self.env, top / "log", cap=3600)

    def coppice(self, top: Path, *words: str) -> measure.Usage:
        return self.run(top, sys.executable, "-m", "pipeline", *words)


def each(usage: measure.Usage, evals: int) -> Cost:
    return Cost(usage.wall_s * 1000 / evals, usage.cpu_s * 1000 / evals)


def cost(bench: Bench, evals: int) -> Iterator[tuple[str, object]]:
    """What is bare is measured before and after: this file system is slower for a while after files were deleted."""
    top = bench.project(f"cost{evals}", evals)
    half = str((evals + 1) // 2)
    before = bench.run(top, sys.executable, "-c", BARE, half)
    whole = each(bench.coppice(top, "x", "-n", "1"), evals)
    check(top, evals)
    after = bench.run(top, sys.executable, "-c", BARE, half)
    bare = Cost(*(sum(pair) / 2 for pair in zip(each(before, int(half)), each(after, int(half)), strict=True)))
    peer = bench.project(f"peer{evals}", evals)
    yield "whole", whole
    yield "checkout and command alone", bare
    yield "own", whole.minus(bare)
    yield "bash and git, whole", each(bench.run(peer, str(shutil.which("bash")), "-c", PEER, "peer", str(peer)), evals)
    yield "KB of disk a candidate", round(size(top / "runs" / "x") / evals, 1)
    yield "KB of disk in the store", round(size(top / "runs" / ".store") / evals, 1)
    yield "again, nothing to do, s of wall", round(bench.coppice(top, "x").wall_s, 3)
    (top / "runs/x/.coppice/state").unlink()
    yield "again, without what is cached, s of wall", round(bench.coppice(top, "x").wall_s, 3)
    shutil.rmtree(top)
    shutil.rmtree(peer)


def parallel(bench: Bench, evals: int) -> Iterator[tuple[str, object]]:
    """Evaluations of one second, two at once, beside the time that they take at the least."""
    top = bench.project("parallel", evals, 2, "sleep 1; " + SWEEP)
    wall = bench.coppice(top, "x", "-n", "2").wall_s
    at_least = -(-(evals) // 2) + 1  # the baseline goes first, alone
    yield f"{evals} evaluations of 1 s, 2 at once, s of wall", round(wall, 2)
    yield "efficiency", f"{at_least / wall:.1%}"
    shutil.rmtree(top)


def check(top: Path, evals: int) -> None:
    done = [*(top / "runs/x/artifacts").glob("d0.n0.i*.csv")]
    if len(done) != evals or not all(file.stat().st_size for file in done):
        raise measure.Failed(f"{len(done)} of {evals} evaluations have results")


def size(folder: Path) -> float:
    """KB on the disk, blocks and folders counted."""
    listed = [folder, *folder.rglob("*")]
    return sum(path.lstat().st_blocks * 512 for path in listed) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--evals", type=lambda text: [int(n) for n in text.split(",")], default=[50, 500, 2000])
    parser.add_argument("--parallel", type=int, default=30, help="evaluations of a second each")
    parser.add_argument("--only", default="cost,parallel")
    parser.add_argument("--folder", type=Path, default=None, help="where to work (default: a temporary folder)")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    measure.adopt_orphans()
    found: dict[str, Mapping[str, object]] = {}
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        bench = Bench(Path(folder))
        for evals in asked.evals if "cost" in asked.only else []:
            found[f"{evals} evaluations"] = told(f"{evals} evaluations", cost(bench, evals))
        if "parallel" in asked.only:
            found["parallel"] = told("parallel", parallel(bench, asked.parallel))
    if asked.json:
        asked.json.write_text(json.dumps(found, default=str, indent=1))


def told(title: str, figures: Iterator[tuple[str, object]]) -> dict[str, object]:
    print(title, flush=True)
    out: dict[str, object] = {}
    for name, figure in figures:
        out[name] = figure
        print(f"  {name:45} {figure}", flush=True)
    return out


if __name__ == "__main__":
    main()
