"""The two tools that can be fuzzed: Coppice, and stock doit to see that the oracle has teeth."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from signal import SIGKILL

from benchmarks.fuzz import spelling, stock_doit
from benchmarks.fuzz.memory import Memory, said
from benchmarks.fuzz.oracle import Truth
from benchmarks.fuzz.world import Tool, World

WORDS: tuple[list[str], ...] = ([], [], ["run"], ["-n", "1"], ["-n", "2"], ["-n", "8"])
OF_A_RUN = ("builds", "graph", "state", "receipts", "lock", "guard", "logs")
OF_A_STORE = ("results", "objects", "roots", "damaged", "lock")


def _was_killed(world: World, holder: Path) -> bool:
    """Did the very process that the file names end by SIGKILL?"""
    pid = json.loads(holder.read_text())["pid"]
    return any(each.pid == pid and each.returncode == -SIGKILL for each in world.started)


class Coppice:
    name = "coppice"
    answers = True
    forks = True

    def __init__(self) -> None:
        self.memory = Memory()

    def spell(self, world: World) -> None:
        """Specs that stay the same are left alone, also their times."""
        wanted = spelling.specs(world.project, str(world.outside))
        for old in (world.root / "specs").iterdir():
            if old.stem not in wanted:
                old.unlink()
        for run, text in wanted.items():
            path = world.root / f"specs/{run}.yaml"
            if not path.exists() or path.read_text() != text:
                path.write_text(text)

    def command(self, words: list[str]) -> list[str]:
        return [sys.executable, "-m", "pipeline", *words]

    def words(self, rng: Random) -> list[str]:
        return list(rng.choice(WORDS))

    def target(self, run: str, name: str) -> str:
        return f"{run}:{name}"

    def allowed(self, world: World, now: dict[str, Truth]) -> set[str]:
        known = said(world)
        return {name for name, truth in now.items() if self.memory.may_execute(world, name, truth, known)}

    def learn(self, world: World, states: list[dict[str, Truth]], ran: list[str]) -> int:
        return self.memory.learn(world, states)

    def check(self, world: World) -> None:
        """What was forgotten was made anew; nothing lies about that belongs nowhere."""
        self.memory.check_forgotten(world)
        for run in world.project.runs:
            own = world.root / f"runs/{run.name}"
            for path in _files(own):
                if path.startswith(".coppice/"):
                    if path.endswith("run.lock.json") and _was_killed(world, own / path):
                        # killed when all was done: who finds nothing to do takes no lock, the next build clears it away
                        world.counts["holders that were killed at the end"] += 1
                    elif path.split("/")[1] not in OF_A_RUN:
                        world.find("leftover", f"runs/{run.name}/{path}")
                elif f"runs/{run.name}/{path}" not in world.outputs:
                    world.find("leftover", f"runs/{run.name}/{path}")
        for path in _files(world.root / world.project.store):
            if path.split("/")[0] == "drafts":
                world.counts["drafts of killed builds in the store"] += 1
            elif path.split("/")[0] not in OF_A_STORE:
                world.find("leftover", f"store: {path}")

    def forget_caches(self, world: World) -> str:
        done = []
        for run in world.project.runs:
            for name in ("state", "graph"):
                path = world.root / f"runs/{run.name}/.coppice/{name}"
                if path.exists() and world.rng.random() < 0.6:
                    cut = world.rng.random() < 0.3
                    os.truncate(path, world.rng.randrange(path.stat().st_size + 1)) if cut else path.unlink()
                    done.append(f"{'cut' if cut else 'deleted'} {run.name}/{name}")
        return ", ".join(done)


class Doit:
    """Stock doit 0.37 with its stock backend; finished means that the outputs were complete after the build."""

    name = "doit"
    answers = False
    forks = False

    def __init__(self) -> None:
        self._finished: dict[str, str] = {}

    def spell(self, world: World) -> None:
        (world.root / "dodo.py").write_text(spelling.dodo(world.project, str(world.outside)))

    def command(self, words: list[str]) -> list[str]:
        return [sys.executable, stock_doit.__file__, *words]

    def words(self, rng: Random) -> list[str]:
        return list(rng.choice(WORDS))

    def target(self, run: str, name: str) -> str:
        return f"{run}:{name}"

    def allowed(self, world: World, now: dict[str, Truth]) -> set[str]:
        """Without a store, anything whose outputs are gone or damaged; and whatever else its slot held last."""
        return {
            name for name, truth in now.items()
            if self._finished.get(name) != truth.identity or not world.intact(truth)
        }  # fmt: skip

    def learn(self, world: World, states: list[dict[str, Truth]], ran: list[str]) -> int:
        done = [
            (name, truth.identity) for name, truth in states[-1].items()
            if truth.target.mark in ran and world.intact(truth)
        ]  # fmt: skip
        self._finished.update(done)
        return len(done)

    def check(self, world: World) -> None:
        """It promises nothing about what lies around."""

    def forget_caches(self, world: World) -> str:
        return ""  # none that it can do without


TOOLS: dict[str, Callable[[], Tool]] = {"coppice": Coppice, "doit": Doit}


def _files(folder: Path) -> list[str]:
    return [str(Path(top, name).relative_to(folder)) for top, _, names in os.walk(folder) for name in names]
