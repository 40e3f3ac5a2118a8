"""How many goals of a bank are proved within so many seconds, by the worker `micro` and by tactics each tried once.

Seconds are CPU seconds of the Lean processes and of the search, so that a busy machine does not change what is found:
what Lean may take for a tactic is stretched by as much as the machine is busy. Every proof counts once
`lean.check` took it."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.goals.bank import Goal, read_bank
from pipeline.lean.model import (
    HEARTBEATS,
    Lean,
    LeanStartError,
    ProofFinished,
    Session,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.lean.repl import process
from pipeline.lean.repl.pool import Pool
from pipeline.lean.toolchain.wasm import ready_toolchain
from pipeline.machine.process import Processes
from pipeline.proof.workers import micro
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.tactics import moves

PORTFOLIO = ("rfl", "omega", "simp_all", "grind", "decide")
SLOWEST = 8.0  # how many times as long a tactic may take on a busy machine, at most


@dataclass(frozen=True)
class Row:
    """How a goal ended; `seconds` is when the proof stood, or when the time was over."""

    id: str
    portfolio: str
    solved: bool
    seconds: float
    wall: float
    calls: int = 0
    families: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    error: str = ""
    spent: dict[str, float] | None = None


class Metered(Processes):
    """Knows the CPU seconds of all that it started and of this process."""

    def __init__(self) -> None:
        super().__init__(["benchmark"])
        self.ended = 0.0
        self.running: dict[int, psutil.Process] = {}

    def start(self, *args: Any, **how: Any) -> Any:
        child = super().start(*args, **how)
        self.running[child.pid] = psutil.Process(child.pid)
        return child

    def end(self, child: Any) -> None:
        if one := self.running.pop(child.pid, None):
            self.ended += used(one)
        super().end(child)

    def seconds(self) -> float:
        return self.ended + time.process_time() + sum(map(used, self.running.values()))


def used(one: psutil.Process) -> float:
    try:
        times = one.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


class Patient:
    """A Lean whose tactics have so many CPU seconds, whatever else the machine does."""

    def __init__(self, lean: Lean, meter: Metered) -> None:
        self.lean, self.meter = lean, meter
        self.version, self.check, self.close = lean.version, lean.check, lean.close

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        session, state = self.lean.open(theorem, stop)
        return PatientSession(session, self.meter), state


class PatientSession:
    def __init__(self, session: Session, meter: Metered) -> None:
        self.session, self.meter = session, meter
        self.key, self.close = session.key, session.close
        self.busy = 1.0

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        wall, cpu = time.monotonic(), self.meter.seconds()
        answer = self.session.run_tac(state, tactic, timeout * self.busy, heartbeats)
        wall, cpu = time.monotonic() - wall, self.meter.seconds() - cpu
        if cpu > 0.05:
            self.busy = min(max(0.7 * self.busy + 0.3 * wall / cpu, 1.0), SLOWEST)
        return answer


def measured(goal: Goal, lean: Lean, meter: Metered, asked: argparse.Namespace) -> Row:
    try:
        first = portfolio(goal, lean) if asked.portfolio else ""
        return searched(goal, lean, meter, max(asked.seconds), asked.options, first)
    except LeanStartError as error:
        return Row(goal.id, "", solved=False, seconds=0.0, wall=0.0, error=f"no goal: {error}")


def portfolio(goal: Goal, lean: Lean) -> str:
    """The first of the tactics that proves it."""
    session, state = lean.open(theorem(goal))
    try:
        for tactic in PORTFOLIO:
            for whole in (tactic, f"(intros; {tactic})"):
                if isinstance(session.run_tac(state, whole, 5.0), ProofFinished):
                    return tactic
    finally:
        session.close()
    return ""


def searched(goal: Goal, lean: Lean, meter: Metered, seconds: float, options: SearchOptions, first: str) -> Row:
    begun = time.monotonic()
    result = micro.prove_goal(goal, seconds, lean, options, clock=meter.seconds)
    wall = time.monotonic() - begun
    wrong = lean.check(theorem(goal), result.tactics) if result.success else None
    error = f"{wrong.kind}: {wrong.error}" if wrong else result.error
    return Row(
        goal.id,
        first,
        solved=result.success and wrong is None,
        seconds=round(result.time_seconds, 3),
        wall=round(wall, 3),
        calls=result.metadata["calls"],
        families=tuple(result.metadata["families"]),
        script=result.tactics,
        error=error,
        spent=result.metadata["seconds_by_family"],
    )


def theorem(goal: Goal) -> Theorem:
    return Theorem(goal.id, goal.text, goal.context)


def work(asked: argparse.Namespace, goals: Any, rows: Any) -> None:
    """One Lean, for goal after goal."""
    meter = Metered()
    pool = Pool(ready_toolchain().command(Path(process.__file__).with_name("Repl.lean")), meter)
    try:
        for goal in iter(goals.get, None):
            rows.put(measured(goal, Patient(pool, meter), meter, asked))
    finally:
        pool.close()
        meter.close()


def run(goals: Sequence[Goal], asked: argparse.Namespace) -> Iterator[Row]:
    """In the order in which they end."""
    waiting, done = multiprocessing.Queue(), multiprocessing.Queue()  # type: ignore[var-annotated]
    for goal in [*goals, *[None] * asked.processes]:
        waiting.put(goal)
    workers = [multiprocessing.Process(target=work, args=(asked, waiting, done)) for _ in range(asked.processes)]
    for worker in workers:
        worker.start()
    try:
        for _ in goals:
            yield done.get()
    finally:
        for worker in workers:
            worker.join()


def line(row: Row) -> str:
    how = "+".join(dict.fromkeys(row.families)) if row.solved else f"-- {row.error[:90]}"
    return f"{row.seconds:7.2f} {row.wall:7.2f} {row.calls:5d} {row.portfolio:8} {row.id} {how}"


def table(rows: Iterable[Row], limits: Sequence[float]) -> str:
    rows = list(rows)
    counts = [sum(row.solved and row.seconds <= limit for row in rows) for limit in limits]
    told = [f"| goals | portfolio | {' | '.join(f'≤ {limit:g} s' for limit in limits)} |"]
    told += ["|---" * (len(limits) + 2) + "|"]
    told += [f"| {len(rows)} | {sum(bool(row.portfolio) for row in rows)} | {' | '.join(map(str, counts))} |"]
    told += ["", f"not proved: {' '.join(sorted(row.id for row in rows if not row.solved))}"]
    return "\n".join(told)


def limits(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bank", type=Path, help="a goal a line, as `kind: proof` reads them")
    parser.add_argument("--seconds", type=limits, default=[1.0, 10.0, 60.0], help="limits; the longest is run")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--portfolio", action="store_true", help="also each of " + ", ".join(PORTFOLIO))
    parser.add_argument("--families", default=",".join(moves.FAMILIES), help="kinds of moves that micro may use")
    parser.add_argument("--only", default="", help="ids, or parts of them")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    asked.options = SearchOptions(frozenset(asked.families.split(",")))
    return asked


def main() -> None:
    asked = arguments()
    bank = read_bank(asked.bank.read_bytes())
    parts = asked.only.split(",")
    rows = []
    for row in run([goal for goal in bank.goals if any(part in goal.id for part in parts)], asked):
        rows.append(row)
        print(line(row), file=sys.stderr, flush=True)
    print(table(rows, asked.seconds))
    if asked.json:
        found = {"seconds": "CPU", "limits": asked.seconds, "goals": [asdict(row) for row in rows]}
        asked.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
