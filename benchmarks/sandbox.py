"""What a cage costs: `python -m benchmarks.sandbox [--rounds 200] [--json out.json]`

A command that does nothing is started in each grade, in turns with the same from bare `subprocess` and from bubblewrap
itself; then the commands of an evaluation, and a build that has nothing to do.  CPU is of all processes together."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pipeline.core.cages import ISOLATED, LANDLOCK, PLAIN, CageKeys
from pipeline.machine.cage import Cage
from pipeline.machine.grades import UNSHARED, lacking, resolve_network
from pipeline.machine.limits import CageLimits, default_limits
from pipeline.machine.process import Environment, Exit, Processes, children_of

ROOT = Path(__file__).parents[1]
MOST_MORE = 8.0  # ms of wall that a command in an isolated cage may take more than one in none
TRUE = shutil.which("true") or "/bin/true"
# The shape of the demo's: one command answers, a judge scores, and three more answer with the end of the data cut off.
ANSWER = "import csv, json; rows = [*csv.reader(open('{data}'))]; json.dump(len(rows), open('{out}/answers.json', 'w'))"
JUDGE = "import json; open('{out}/results.csv', 'w').write(str(json.load(open('{out}/answers.json'))))"
SPEC = "kind: steps\nsteps:\n  one:\n    run: 'echo 1 > {out}'\n    writes: one.txt\n"

Act = Callable[[], object]


class Cost(NamedTuple):
    """Milliseconds of one turn."""

    wall: float
    cpu: float


def cpu_ms() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent) * 1000


def reap_others(known: set[int]) -> None:
    """Ask how those ended that lost their parents, so that their time counts in the turn that it belongs to."""
    for pid in {*children_of(os.getpid())} - known:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def measure(subjects: Mapping[str, Act], rounds: int) -> dict[str, Cost]:
    """Median cost of each subject; they take turns, in rotating order."""
    turns: dict[str, list[Cost]] = {name: [] for name in subjects}
    names = [*subjects]
    for act in subjects.values():  # the first starts what later ones find
        act()
    known = {*children_of(os.getpid())}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began, spent = time.perf_counter(), cpu_ms()
            subjects[name]()
            wall = (time.perf_counter() - began) * 1000
            reap_others(known)
            turns[name].append(Cost(wall, cpu_ms() - spent))
    return {
        name: Cost(median(cost.wall for cost in costs), median(cost.cpu for cost in costs))
        for name, costs in turns.items()
    }


class Commands:
    """Commands in a folder of their own, as a build starts them."""

    def __init__(self, base: str) -> None:
        self.folder, self.output = f"{base}/tree", f"{base}/output"
        self.data = f"{base}/data.csv"
        for folder in (self.folder, self.output):
            os.mkdir(folder)
        Path(self.data).write_text("\n".join(f"{n},{n * 0.5},{n % 7}" for n in range(20_000)))
        self.processes = Processes(["benchmark"])
        self.env = Environment({name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ})

    def cage(self, grade: str) -> Cage:
        limits = CageLimits() if grade == PLAIN else default_limits()
        own = (self.folder, self.output)
        network = resolve_network("", grade)
        return Cage(grade, network, limits, self.folder, own, (self.data,))

    def run(self, grade: str, *words: str) -> None:
        ended = self.processes.run(words, self.env, os.devnull, 60, cwd=self.folder, cage=self.cage(grade))
        if ended != Exit(0):
            raise SystemExit(f"{grade}: {ended}")

    def evaluate(self, grade: str) -> None:
        names = {"data": self.data, "out": self.output}
        for program in (ANSWER, JUDGE, ANSWER, ANSWER, ANSWER):
            self.run(grade, sys.executable, "-I", "-c", program.format(**names))


def bare_bubblewrap() -> list[str]:
    program = shutil.which("bwrap") or ""
    made = [program, *UNSHARED, "--unshare-net", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    return [*made, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", TRUE]


def started(words: Sequence[str]) -> Act:
    return lambda: subprocess.run(words, check=True, env={}, stdout=subprocess.DEVNULL)


def grades() -> list[str]:
    return [grade for grade in (PLAIN, LANDLOCK, ISOLATED) if not lacking(CageKeys(grade))]


def of_commands(commands: Commands, rounds: int) -> dict[str, Cost]:
    subjects = {"subprocess": started([TRUE])}
    if ISOLATED in grades():
        subjects["bubblewrap"] = started(bare_bubblewrap())
    subjects |= {grade: lambda grade=grade: commands.run(grade, TRUE) for grade in grades()}  # type: ignore[misc]
    return measure(subjects, rounds)


def of_evaluations(commands: Commands, rounds: int) -> dict[str, Cost]:
    subjects: dict[str, Act] = {
        grade: lambda grade=grade: commands.evaluate(grade)  # type: ignore[misc]
        for grade in grades()
    }
    return measure(subjects, rounds)


def of_builds(base: str, rounds: int) -> dict[str, Cost]:
    """A build that has nothing to do, which must not pay for cages, beside a Python that does nothing."""
    project, env = Path(base, "project"), {**os.environ, "PYTHONPATH": str(ROOT)}
    (project / "specs").mkdir(parents=True)
    (project / "specs/x.yaml").write_text(SPEC)

    def run(*words: str) -> None:
        subprocess.run([sys.executable, *words], cwd=project, env=env, check=True, capture_output=True)

    return measure({"python": lambda: run("-c", "pass"), "coppice": lambda: run("-m", "pipeline", "run", "x")}, rounds)


def table(what: str, costs: Mapping[str, Cost], peer: str) -> str:
    lines = [f"| {what} | wall, ms | to {peer} | CPU, ms | to {peer} |", "|---|---|---|---|---|"]
    base = costs[peer]
    for name, cost in costs.items():
        ratio = cost.cpu / base.cpu if base.cpu else float("nan")
        lines.append(f"| {name} | {cost.wall:.2f} | {cost.wall / base.wall:.2f} | {cost.cpu:.2f} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="turns of each command; a tenth of evaluations, builds")
    parser.add_argument("--json", help="write the figures here, too")
    asked = parser.parse_args()
    few = max(3, asked.rounds // 10)
    with TemporaryDirectory(prefix="coppice-benchmark-", dir=os.path.expanduser("~")) as base:
        os.chdir(base)
        commands = Commands(base)
        found = {"command": of_commands(commands, asked.rounds), "evaluation": of_evaluations(commands, few)}
        commands.processes.close()
        found["build without work"] = of_builds(base, few)
    peers = {"command": "subprocess", "build without work": "python"}
    print("\n\n".join(table(what, costs, peers.get(what, PLAIN)) for what, costs in found.items()))
    command = found["command"]
    more = command[ISOLATED].wall - command[PLAIN].wall if ISOLATED in command else 0.0
    load = os.getloadavg()[0]
    print(f"\nisolated: {more:.2f} ms a command more than plain; promised: at most {MOST_MORE:g}; load {load:.1f}")
    if asked.json:
        record = {what: {name: cost._asdict() for name, cost in costs.items()} for what, costs in found.items()}
        Path(asked.json).write_text(json.dumps(record, indent=1))
    return int(more > MOST_MORE)


if __name__ == "__main__":
    sys.exit(main())
