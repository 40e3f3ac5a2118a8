"""How fast tactics are tried in a Lean process: by the raw protocol, through sessions, and in two processes; as JSON.

The peer, measured in the same rounds on the same process, is a loop that writes lines made before and reads lines."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import machine
from pipeline.lean.model import LeanError, Session, TacticState, Theorem
from pipeline.lean.repl import process
from pipeline.lean.repl.pool import Pool
from pipeline.lean.repl.process import LeanCommand
from pipeline.lean.toolchain.wasm import ready_toolchain
from pipeline.machine.process import Processes

REPL = Path(process.__file__).with_name("Repl.lean")
SWAP = Theorem("swap", "∀ p q : Prop, p ∧ q → q ∧ p")
CHEAP = ("intro p q h", "exact ⟨h.2, h.1⟩")
# Each of them closes its goal.
TACTICS = {
    "simp": ("∀ (a b : Nat) (l : List Nat), (a :: l).length + b * 0 = l.length + 1", "simp"),
    "omega": ("∀ a b c : Int, a < b → 2 * b ≤ c → 2 * a + 1 ≤ c - 1", "omega"),
    "grind": ("∀ (f : Nat → Nat) (a b : Nat), f a = b → f b = a → f (f a) = a", "grind"),
    "decide": ("∀ a b : Fin 4, a + b = b + a", "decide"),
}
# At least so many, or (of the last three) at most.
TARGETS = {"session_per_second": 1500.0, "ratio_to_raw": 0.9, "two_processes": 1.7}
LIMITS = {"start_s": 6.0, "rss_mb": 1024.0}


def command(processes: Processes) -> LeanCommand:
    found = ready_toolchain().command(REPL)
    return replace(found, env=processes.environment("benchmark", found.env, ()).variables)


def started(how: LeanCommand, processes: Processes) -> dict[str, float]:
    """From nothing to the first answer of a tactic."""
    with closing(Pool(how, processes)) as pool:
        begun = time.perf_counter()
        session, state = pool.open(SWAP)
        session.run_tac(state, CHEAP[0], 60)
        seconds, lean = time.perf_counter() - begun, psutil.Process(pool.pids()[0])
        return {"start_s": seconds, "start_cpu_s": cpu(lean), "rss_mb": lean.memory_info().rss / 2**20}


def cpu(lean: psutil.Process) -> float:
    times = lean.cpu_times()
    return times.user + times.system


def measured(lean: psutil.Process, count: int, run: Callable[[], object]) -> dict[str, float]:
    """What `count` tactics took: by the clock, and in the CPUs of Lean and of this thread."""
    wall, ours, theirs = time.perf_counter(), time.thread_time(), cpu(lean)
    run()
    wall, ours, theirs = time.perf_counter() - wall, time.thread_time() - ours, cpu(lean) - theirs
    return {"per_second": count / wall, "our_us": 1e6 * ours / count, "lean_us": 1e6 * theirs / count}


def raw_lines(sid: int, count: int) -> list[bytes]:
    """Pairs: the second goes on from what the first came to, whose number is the next."""
    lines = []
    for n in range(count // 2):
        for tactic, on in zip(CHEAP, (sid, sid + 1 + 2 * n), strict=True):
            asked = {"cmd": "tac", "sid": on, "tactic": tactic, "timeout_ms": 1000, "word": f"{n:016x}"}
            lines.append(json.dumps(asked, ensure_ascii=False).encode() + b"\n")
    return lines


def raw_rate(pool: Pool, count: int) -> dict[str, float]:
    """On the pool's own process, which nobody else uses just then."""
    slot = pool._slots[0]
    repl = slot._repl
    assert repl is not None
    named = {"statement": SWAP.statement, "name": SWAP.name}
    lines = raw_lines(repl.ask({"cmd": "start", "env": 0, **named}, 60)["sid"], count)
    os.set_blocking(repl._in, True)
    with open(os.dup(repl._out), "rb") as out:

        def loop() -> None:
            for line in lines:
                os.write(repl._in, line)
                while not out.readline().startswith(b"0"):
                    pass

        found = measured(psutil.Process(repl.pid), count, loop)
    os.set_blocking(repl._in, False)
    return found


def pairs(session: Session, start: TacticState, count: int) -> None:
    for _ in range(count // 2):
        state = session.run_tac(start, CHEAP[0], 1)
        assert isinstance(state, TacticState), state
        session.run_tac(state, CHEAP[1], 1)


def session_rate(pool: Pool, count: int) -> dict[str, float]:
    session, start = pool.open(SWAP)
    with closing(session):
        return measured(psutil.Process(pool.pids()[0]), count, lambda: pairs(session, start, count))


def two_rate(pool: Pool, count: int) -> float:
    """As many in each of two processes, in two threads: tactics a second."""
    opened = [pool.open(SWAP) for _ in range(2)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(pairs, session, start, count) for session, start in opened]:
            done.result()
    seconds = time.perf_counter() - begun
    for session, _ in opened:
        session.close()
    return 2 * count / seconds


def milliseconds(pool: Pool, statement: str, tactic: str, count: int) -> float:
    session, state = pool.open(Theorem("timed", statement))
    with closing(session):
        started = session.run_tac(state, "intros", 5)
        state = started if isinstance(started, TacticState) and tactic != "decide" else state
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            answer = session.run_tac(state, tactic, 5)
            times.append(time.perf_counter() - begun)
            assert not isinstance(answer, LeanError), answer
    return 1e3 * statistics.median(times)


def rounds(pool: Pool, count: int, times: int) -> dict[str, Any]:
    """The raw loop and the sessions take turns; ratios are taken within a round, and the median counts."""
    each = []
    two_rate(pool, count)  # warms up
    for _ in range(times):
        one = {"raw": raw_rate(pool, count), "session": session_rate(pool, count), "two": two_rate(pool, count)}
        each.append(one)
    sessions = [one["session"] for one in each]
    return {
        "raw_per_second": statistics.median(one["raw"]["per_second"] for one in each),
        "session_per_second": statistics.median(one["per_second"] for one in sessions),
        "ratio_to_raw": statistics.median(one["session"]["per_second"] / one["raw"]["per_second"] for one in each),
        "ratio_to_raw_by_cpu": statistics.median(map(_by_cpu, each)),
        "two_processes": statistics.median(one["two"] / one["session"]["per_second"] for one in each),
        "our_us": statistics.median(one["our_us"] for one in sessions),
        "lean_us": statistics.median(one["lean_us"] for one in sessions),
        "rounds": each,
    }


def _by_cpu(one: Mapping[str, Mapping[str, float]]) -> float:
    """The same ratio where the clock tells of other work: the CPU time of both sides, ours and Lean's."""
    raw, session = ({side: found[side] for side in ("our_us", "lean_us")} for found in (one["raw"], one["session"]))
    return (raw["our_us"] + session["lean_us"]) / (session["our_us"] + session["lean_us"])


def table(found: Mapping[str, Any]) -> str:
    lines = [f"{name:24} {value:10.2f}" for name, value in found.items() if isinstance(value, float)]
    lines += [f"{name:24} {value:10.2f} ms" for name, value in found["tactics_ms"].items()]
    for name, target in found["target"].items():
        sign = "<=" if name in LIMITS else ">="
        verdict = "reached" if found["reached"][name] else "MISSED"
        lines.append(f"{name:24} {found[name]:10.2f}  promised {sign} {target:g}: {verdict}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tactics", type=int, default=3000, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with closing(Processes(["benchmark"])) as processes:
            how = command(processes)
            found: dict[str, Any] = started(how, processes)
            with closing(Pool(how, processes, 2)) as pool:
                found |= rounds(pool, options.tactics, options.rounds)
                timed = {name: milliseconds(pool, *which, 200) for name, which in TACTICS.items()}
        found["tactics_ms"] = {"intro/exact": 1e3 / found["session_per_second"], **timed}
        found["target"] = {**TARGETS, **LIMITS}
        found["reached"] = {name: found[name] >= least for name, least in TARGETS.items()}
        found["reached"] |= {name: found[name] <= most for name, most in LIMITS.items()}
        about = machine({"lean": ready_toolchain().version}, Path(folder), 0.0)
    print(table(found), file=sys.stderr)
    print(json.dumps({"machine": about, "command": sys.argv[1:], **found}, indent=1))


if __name__ == "__main__":
    main()
