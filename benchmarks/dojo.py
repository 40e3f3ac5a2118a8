"""What a tactic takes through lean_dojo's own Dojo, and through a session of ours, on the same Lean in the same rounds.

    pip install -e '.[lean,leandojo]'
    python -m benchmarks.dojo --rounds 40

The Dojo is lean_dojo's as it comes: a theorem of a traced repository. Its `lake` is tests/kit/lake_stand_in.py, which
asks the same session of ours that is measured beside it, so what it adds is a process that reads and writes lines. The
trace is written by hand, for want of a full toolchain, and has no part in what a tactic takes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.lean.model import ProofFinished, TacticState, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes
from tests.kit import lake_stand_in, lean_repositories, lean_traces, leaning

STATEMENT = "∀ a b c : Nat, ∀ p q : Prop, p ∧ q → a < b → b < c → (q ∧ p) ∧ a + 0 + 1 < c + 0"
# Each on what the one before left.
TACTICS = (
    "intro a b c p q h hab hbc",
    "constructor",
    "exact ⟨h.2, h.1⟩",
    "simp only [Nat.add_zero]",
    "omega",
)
TARGET = 1 / 20  # of what lean_dojo takes for the same tactics
Times = dict[str, dict[str, list[float]]]  # of a tool, of a tactic: milliseconds by round
Run = Callable[[Any, str], Any]  # a state, a tactic, and what it comes to


@contextmanager
def theirs(folder: Path) -> Iterator[tuple[Run, Any]]:
    for name in ("bin", "demo"):
        (folder / name).mkdir()
    commit = lean_repositories.committed(folder / "demo")
    lean_traces.traced(folder / "cache" / f"gitpython-demo-{commit}" / "demo", STATEMENT)
    path = f"{lake_stand_in.installed(folder / 'bin')}:{os.environ['PATH']}"
    # lean_dojo reads them when it is imported
    os.environ.update(PATH=path, CACHE_DIR=str(folder / "cache"), DISABLE_REMOTE_CACHE="1", GITHUB_ACCESS_TOKEN="")
    import lean_dojo

    repository = lean_dojo.LeanGitRepo(str(folder / "demo"), commit)
    theorem = lean_dojo.Theorem(repository, Path(lean_traces.FILE), lean_traces.NAME)
    with lean_dojo.Dojo(theorem, timeout=600) as (dojo, state):
        yield dojo.run_tac, state


@contextmanager
def ours() -> Iterator[tuple[Run, Any]]:
    with closing(Processes(["benchmark"])) as processes, closing(Pool(leaning.command(), processes)) as lean:
        session, state = lean.open(Theorem("swap", STATEMENT))
        yield lambda state, tactic: session.run_tac(state, tactic, 60.0), state


def round_of(run: Run, first: Any, times: dict[str, list[float]]) -> None:
    state = first
    for tactic in TACTICS:
        begun = time.perf_counter()
        state = run(state, tactic)
        times[tactic].append(1e3 * (time.perf_counter() - begun))
        _demand(tactic, state)


def _demand(tactic: str, answer: Any) -> None:
    """Both answer with records of the same names."""
    expected = ProofFinished if tactic == TACTICS[-1] else TacticState
    if type(answer).__name__ != expected.__name__:
        raise SystemExit(f"{tactic}: {answer}")


def measured(rounds: int) -> Times:
    """They take turns; the first round of each warms up."""
    times: Times = {name: {each: [] for each in TACTICS} for name in ("lean_dojo", "coppice")}
    with tempfile.TemporaryDirectory() as folder, theirs(Path(folder)) as dojo, ours() as session:
        for _ in range(rounds + 1):
            round_of(*dojo, times["lean_dojo"])
            round_of(*session, times["coppice"])
    return {name: {tactic: each[1:] for tactic, each in found.items()} for name, found in times.items()}


def report(times: Times) -> dict[str, Any]:
    """Of each tactic the fastest round counts: what a busy machine adds is neither's.  The median tactic is judged.
    In the sum of all most is Lean's own work, which both wait for."""
    fastest = {name: {tactic: min(each) for tactic, each in found.items()} for name, found in times.items()}
    ratio, of_sums = (_ratio(fastest, figure) for figure in (median, sum))
    tools = {
        name: {
            "ms": {tactic: round(each, 3) for tactic, each in found.items()},
            "median_round_ms": {tactic: round(median(each), 3) for tactic, each in times[name].items()},
        }
        for name, found in fastest.items()
    }
    return {**tools, "ratio": ratio, "ratio_of_sums": of_sums, "target": TARGET, "reached": ratio <= TARGET}


def _ratio(fastest: Mapping[str, Mapping[str, float]], figure: Callable[[Iterable[float]], float]) -> float:
    own, other = (figure(fastest[name].values()) for name in ("coppice", "lean_dojo"))
    return round(own / other, 5)


def table(found: Mapping[str, Any]) -> str:
    tools = ("lean_dojo", "coppice")
    lines = [f"{'ms':28}" + "".join(f"{tool:>12}" for tool in tools)]
    lines += [f"{each:28}" + "".join(f"{found[tool]['ms'][each]:12.2f}" for tool in tools) for each in TACTICS]
    verdict = "reached" if found["reached"] else "MISSED"
    lines.append(
        f"the median tactic: 1/{1 / found['ratio']:.0f} of lean_dojo; at most 1/{1 / TARGET:g} wanted: {verdict}"
    )
    lines.append(f"all of them together: 1/{1 / found['ratio_of_sums']:.1f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    found = report(measured(parser.parse_args().rounds))
    print(json.dumps({"python": sys.version.split()[0], **found}, indent=1, ensure_ascii=False))
    print(table(found), file=sys.stderr)
    return 0 if found["reached"] else 1


if __name__ == "__main__":
    sys.exit(main())
