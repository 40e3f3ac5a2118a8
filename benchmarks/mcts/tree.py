"""The tree's maths beside TreeQuest's StandardMCTS and the package `mcts`: same shapes, taking turns, CPU time."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = Path(__file__).with_name("rounds.py")
TOOLS = ("coppice", "coppice-puct", "treequest", "mcts")
PACKAGES = {"treequest": "treequest==0.3.3", "mcts": "mcts==1.0.4"}
SIZES = (100, 1_000, 10_000)
TREES = {100: 40, 1_000: 4, 10_000: 1}
ROUNDS = {100: 20, 1_000: 100, 10_000: 200}
STANDING = {100: 50, 1_000: 500, 10_000: 1_000}
KILOBYTES = 2.0
TIMES_TREEQUEST = 50.0


class Missing(Exception):
    """A peer that cannot be measured here, and why."""


class Promise(NamedTuple):
    what: str
    found: float
    least: float

    @property
    def reached(self) -> bool:
        return self.found >= self.least


class Process:
    """A tool with a tree, in a process of its own, which stays."""

    def __init__(self, tool: str, branching: int, python: str) -> None:
        command = [python, str(SCRIPT), tool, str(branching)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what: int) -> Any:
        if self.child.stdin is None or self.child.stdout is None:
            raise RuntimeError("it has no pipes")
        self.child.stdin.write(json.dumps(what) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self) -> None:
        self.child.communicate()


def python_for(tool: str, venvs: Path) -> str:
    if tool not in PACKAGES:
        return sys.executable
    python = venvs / tool / "bin" / "python"
    if not python.exists():
        venv.create(venvs / tool, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", PACKAGES[tool]]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            python.unlink()
            raise Missing(f"pip install {PACKAGES[tool]}: {done.stderr.strip()[-300:]}")
    return str(python)


def processes(branching: int, venvs: Path) -> tuple[dict[str, Process], dict[str, str]]:
    """Those that are there, and why others are not."""
    found, missing = {}, {}
    for tool in TOOLS:
        try:
            found[tool] = Process(tool, branching, python_for(tool, venvs))
        except Missing as why:
            missing[tool] = str(why)
    return found, missing


def measured(running: dict[str, Process], size: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Tools take turns, in rotating order; one turn of each before those that count warms up."""
    asked = {"size": size, "trees": TREES[size], "rounds": ROUNDS[size], "standing": STANDING[size]}
    found: dict[str, list[dict[str, float]]] = {tool: [] for tool in running}
    names = list(running)
    for turn in range(rounds + 1):
        for tool in names[turn % len(names) :] + names[: turn % len(names)]:
            answer = running[tool].ask(**asked)
            if turn:
                found[tool].append(answer)
    return found


def ratio(found: dict[str, list[dict[str, float]]], what: str, tool: str, peer: str) -> float:
    pairs = zip(found[tool], found[peer], strict=True)
    return statistics.median(ours[what] / theirs[what] for ours, theirs in pairs)


def promises(found: dict[str, list[dict[str, float]]], size: int, each: float) -> list[Promise]:
    told = []
    if "treequest" in found and size == max(SIZES):
        told.append(Promise("rounds, times treequest", ratio(found, "rounds", "coppice", "treequest"), TIMES_TREEQUEST))
    if "mcts" in found:
        told.append(Promise("select and backup, times mcts", ratio(found, "standing", "coppice", "mcts"), 1.0))
    return [*told, Promise("nodes in 2 KB", 1024 * KILOBYTES / each, 1.0)]


def table(entries: Sequence[dict[str, Any]]) -> str:
    lines = ["| moves | nodes | tool | rounds/s | select + backup/s | bytes a node |", "|---|---|---|---|---|---|"]
    for each in entries:
        cells = (each["branching"], f"{each['size']:,}", each["tool"], f"{each['rounds']:,.0f}")
        size = "" if each["bytes"] is None else f"{each['bytes']:,.0f}"
        lines.append("| " + " | ".join(map(str, (*cells, f"{each['standing']:,.0f}", size))) + " |")
    return "\n".join(lines)


def study(branching: int, asked: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    running, missing = processes(branching, asked.venvs)
    for tool, why in missing.items():
        print(f"{tool} is missing: {why}", file=sys.stderr)
    entries, told = [], []
    for size in asked.sizes:
        found = measured(running, size, asked.rounds)
        each = {tool: running[tool].ask(memory=size) for tool in running if tool != "treequest" or size < 10_000}
        for tool, answers in found.items():
            figures = {what: statistics.median(one[what] for one in answers) for what in ("rounds", "standing")}
            place = {"branching": branching, "size": size, "tool": tool}
            entries.append({**place, **figures, "bytes": each.get(tool)})
        told += [
            {"branching": branching, "size": size, **promise._asdict(), "reached": promise.reached}
            for promise in promises(found, size, each["coppice"])
        ]
    for process in running.values():
        process.end()
    return entries, told


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcts tree", description=__doc__)
    parser.add_argument("--branching", type=int, nargs="+", default=[4], help="moves of a node (default: 4)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--venvs", type=Path, default=Path("runs/mcts-bench"), help="where the peers are installed")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    studies = [study(branching, asked) for branching in asked.branching]
    entries = [entry for found, _ in studies for entry in found]
    told = [promise for _, found in studies for promise in found]
    print(table(entries), end="\n\n")
    for each in told:
        verdict = "reached" if each["reached"] else "MISSED"
        where = f"{each['branching']} moves, {each['size']:,} nodes"
        print(f"- {verdict}: {each['what']}: {each['found']:.2f}, at least {each['least']:g} ({where})")
    if asked.json:
        asked.json.write_text(json.dumps({"entries": entries, "promises": told}, indent=1) + "\n")
    return 0 if all(each["reached"] for each in told) else 1
