"""What each kind of move does on each goal of a bank, with a real Lean: is it proved, and in how many CPU seconds."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.bank import Metered, Patient
from benchmarks.proof.arms import ARMS, BUDGET
from pipeline.goals.bank import Goal, read_bank
from pipeline.lean.model import Interrupted, LeanCrash, NotElaborated
from pipeline.lean.repl import process
from pipeline.lean.repl.pool import Pool
from pipeline.lean.toolchain.wasm import ready_toolchain
from pipeline.proof.workers import micro
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.tactics.moves import ALL_FAMILIES

REPL = Path(process.__file__).with_name("Repl.lean")
SLACK = 10.0  # CPU seconds over its budget: then it is interrupted; half of them are for a start
NAME = "goal"  # an id need not be a name in Lean
WARM = Goal(NAME, "∀ a b c : Nat, a < b → b < c → a + 1 < c ∧ a + b = b + a")

Tried = list[tuple[int, float]]  # of each arm: whether it proved the goal, and its CPU seconds


def record(bank: Path, out: Path) -> None:
    """A goal is written as soon as all arms were tried on it, and is not tried again."""
    toolchain, meter = ready_toolchain(), Metered()
    found = _begun(out, toolchain.version)
    try:
        with closing(Pool(toolchain.command(REPL), meter)) as pool:
            _attempt(WARM, "all", pool, meter)
            for goal in read_bank(bank.read_bytes()).goals:
                if goal.id not in found["goals"]:
                    found["goals"][goal.id] = _tried(goal, pool, meter)
                    _save(out, found)
    finally:
        meter.close()


def _begun(out: Path, lean: str) -> dict[str, Any]:
    how = {"budget": BUDGET, "worker": micro.CODE, "lean": lean, "arms": [*ARMS]}
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {**how, "goals": {}}
    if {name: found[name] for name in how} != how:
        sys.exit(f"{out} was recorded with other arms, or another worker or Lean; remove it first")
    return found


def _tried(goal: Goal, pool: Pool, meter: Metered) -> Tried:
    """Of each arm, in order; of none where Lean does not take the statement."""
    try:
        found = [_attempt(replace(goal, id=NAME), arm, pool, meter) for arm in ARMS]
    except NotElaborated as error:
        print(f"{goal.id}: {error}", file=sys.stderr)
        return []
    print(
        goal.id, *(f"{arm} {'+' if ok else '-'}{s:.2f}" for arm, (ok, s) in zip(ARMS, found, strict=True)), flush=True
    )
    return found


def _attempt(goal: Goal, arm: str, pool: Pool, meter: Metered) -> tuple[int, float]:
    families = ARMS[arm]
    options = SearchOptions(families=ALL_FAMILIES if families is None else frozenset(families))
    begun = meter.seconds()
    with _limited(meter) as stop:
        try:
            result = micro.prove_goal(goal, BUDGET, Patient(pool, meter), options, stop, meter.seconds)
        except (Interrupted, LeanCrash):
            return 0, round(meter.seconds() - begun, 3)
    return int(result.success), round(result.time_seconds, 3)


@contextmanager
def _limited(meter: Metered) -> Iterator[threading.Event]:
    """Lean may be at something that knows no time."""
    over, stop, begun = threading.Event(), threading.Event(), meter.seconds()

    def watch() -> None:
        while not over.wait(0.25):
            if meter.seconds() - begun > BUDGET + SLACK:
                stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield stop
    finally:
        over.set()
        watcher.join()


def _save(out: Path, found: Mapping[str, Any]) -> None:
    """A goal a line."""
    how = {name: value for name, value in found.items() if name != "goals"}
    goals = ",\n".join(f" {json.dumps(name)}: {json.dumps(tried)}" for name, tried in found["goals"].items())
    out.write_text(json.dumps(how)[:-1] + ', "goals": {\n' + goals + "\n}}\n")
