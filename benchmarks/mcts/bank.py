"""How many goals of a bank are proved with so many tactics: by one controller, by several, by the worker `micro`.

All have the same Lean and the same portfolio, and a tactic is a call. What brings a goal to the front, keys, and the
check of a whole proof do not count. Time that Lean may take is stretched by as much as the machine is busy. A search
is run once, with the most calls; whether fewer would have done is told by how many there were up to the proof."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from benchmarks.bank import Metered, Patient
from benchmarks.mcts.searchers import How, Row, named, searched
from benchmarks.mcts.tree import Promise
from pipeline.goals.bank import Goal, read_bank
from pipeline.lean.model import NotElaborated, Theorem
from pipeline.lean.repl import process
from pipeline.lean.repl.pool import Pool
from pipeline.lean.toolchain.wasm import ready_toolchain
from pipeline.mcts.search import guides
from pipeline.mcts.search.guides import Guide

REPL = Path(process.__file__).with_name("Repl.lean")
SHARE = 0.05  # of CPU, for the tree's maths
NAME = "goal"  # an id need not be a name in Lean


def run(goals: Sequence[Goal], searchers: Sequence[str], how: How) -> Iterator[list[Row]]:
    """Of each goal, searchers in rotating order."""
    meter = Metered()
    try:
        with closing(Pool(ready_toolchain().command(REPL), meter)) as pool:
            for number, goal in enumerate(goals):
                first = number % len(searchers)
                yield [*tried(goal, [*searchers[first:], *searchers[:first]], Patient(pool, meter), how)]
    finally:
        meter.close()


def tried(goal: Goal, searchers: Sequence[str], lean: Patient, how: How) -> Iterator[Row]:
    for searcher in searchers:
        try:
            row = searched(Row(goal.id, searcher), Theorem(NAME, goal.text, goal.context), lean, how)
        except NotElaborated as error:
            print(f"{goal.id}: {error}", file=sys.stderr)
            return
        print(
            f"{row.goal} {searcher}: {row.status} {row.calls} {row.all:.1f} s {row.error}", file=sys.stderr, flush=True
        )
        yield row


def of(rows: Sequence[Row], searcher: str) -> dict[str, Row]:
    return {row.goal: row for row in rows if row.searcher == searcher}


def share(rows: Sequence[Row], what: str) -> float:
    spent = sum(row.all for row in rows)
    return sum(float(getattr(row, what)) for row in rows) / spent if spent else 0.0


def table(rows: Sequence[Row], searchers: Sequence[str], limits: Sequence[int]) -> str:
    """`dead`: all was tried.  `cut`: time ran out, or Lean crashed.  `no proof`: it does not hold as a whole."""
    head = ["searcher", *(f"≤ {limit} calls" for limit in limits), "median calls to proof", "dead", "cut", "no proof"]
    lines = [[*head, "CPU s", "tree % of CPU", "Python % of CPU"]]
    for searcher in searchers:
        own = [*of(rows, searcher).values()]
        calls = [row.calls for row in own if row.solved]
        told = [sum(each <= limit for each in calls) for limit in limits]
        wrong = sum(row.status == "solved" and not row.solved for row in own)
        cut = sum(bool(row.error) for row in own) - wrong
        ended = [sum(row.status == "dead" for row in own), cut, wrong]
        shares = [f"{100 * share(own, what):.2f}" for what in ("tree", "python")]
        median = statistics.median(calls) if calls else "-"
        lines.append([searcher, *map(str, (*told, median, *ended)), f"{sum(row.all for row in own):.0f}", *shares])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def pairs(rows: Sequence[Row], searchers: Sequence[str]) -> Iterator[str]:
    """Which goals only one of two has solved."""
    solved = {searcher: {goal for goal, row in of(rows, searcher).items() if row.solved} for searcher in searchers}
    to_one = [(searcher, "centralized") for searcher in searchers if searcher != "centralized"]
    countings = [(searcher, searcher.replace("wu", "vl")) for searcher in searchers if searcher.startswith("wu")]
    for one, other in [*to_one, *countings]:
        for these, those in ((one, other), (other, one)):
            goals = sorted(solved[these] - solved[those])
            yield f"- {these} and not {those}: {' '.join([str(len(goals)), *goals])}"


def yields(rows: Sequence[Row], searchers: Sequence[str], limits: Sequence[int]) -> Iterator[str]:
    """What calls come to where reservations are visits not yet observed, and where they are losses."""
    for one in [searcher for searcher in searchers if searcher.startswith("wu")]:
        ours, theirs = of(rows, one), of(rows, other := one.replace("wu", "vl"))
        both = [goal for goal, row in ours.items() if row.solved and theirs[goal].solved]
        needed = [sum(each[goal].calls for goal in both) for each in (ours, theirs)]
        yield f"- {one} and {other}: {needed[0]:,} and {needed[1]:,} calls for what both prove ({len(both)})"
        for limit in limits:
            rates = [per_call([*each.values()], limit) for each in (ours, theirs)]
            yield f"- {one} and {other}: {rates[0]:.1f} and {rates[1]:.1f} proofs in 1,000 calls, ≤ {limit} a goal"


def per_call(rows: Sequence[Row], limit: int) -> float:
    """Proofs in 1,000 calls, as if searches had ended at the limit."""
    spent = sum(min(row.calls, limit) for row in rows)
    return 1000 * sum(row.solved and row.calls <= limit for row in rows) / spent if spent else 0.0


def promises(rows: Sequence[Row], searchers: Sequence[str]) -> list[Promise]:
    told = []
    for searcher in searchers[1:]:
        spent = max(share([*of(rows, searcher).values()], "tree"), 1e-9)
        told.append(Promise(f"tree's maths in {100 * SHARE:g} % of CPU, {searcher}", SHARE / spent, 1.0))
    if "vl 1" in searchers:
        one, all_ = of(rows, "vl 1"), of(rows, "centralized")
        needed = [goal for goal, row in all_.items() if row.solved]
        had = sum(one[goal].solved for goal in needed) / len(needed) if needed else 1.0
        told.append(Promise("solved by one agent, of what is solved by one controller", had, 1.0))
    return told


def numbers(text: str) -> list[int]:
    return sorted(map(int, text.split(",")))


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcts bank", description=__doc__)
    parser.add_argument("bank", type=Path, help="a goal a line, as `kind: proof` reads them")
    parser.add_argument("--calls", type=numbers, default=[200, 1000], help="budgets; the largest is run")
    parser.add_argument("--agents", type=numbers, default=[1, 4, 16])
    parser.add_argument("--attempts", type=int, default=4, help="tactics of an iteration, at most")
    parser.add_argument("--inflight", type=int, default=8, help="tactics of a goal at once")
    parser.add_argument("--seconds", type=float, default=900.0, help="of CPU, after which a search is given up")
    parser.add_argument("--priors", default="moves", choices=["moves", "uniform"])
    parser.add_argument("--only", default="", help="ids, or parts of them")
    parser.add_argument("--json", type=Path, help="rows that are there already are not made again")
    return parser.parse_args(given)


def begun(file: Path | None, how: dict[str, object]) -> list[Row]:
    if file is None or not file.exists():
        return []
    found = json.loads(file.read_text())
    if found["how"] != how:
        sys.exit(f"{file} is of another run, {found['how']}; remove it first")
    return [Row(**row) for row in found["rows"]]


def main(given: Sequence[str]) -> int:
    asked = arguments(given)
    how = How(max(asked.calls), asked.attempts, asked.inflight, asked.seconds, guide(asked.priors))
    searchers, parts = named(asked.agents), asked.only.split(",")
    run_by = {**how._asdict(), "guide": asked.priors, "searchers": searchers, "lean": ready_toolchain().version}
    rows = begun(asked.json, run_by)
    known = {row.goal for row in rows}
    goals = [goal for goal in mixed(read_bank(asked.bank.read_bytes()).goals) if any(part in goal.id for part in parts)]
    for new in run([goal for goal in goals if goal.id not in known], searchers, how):
        rows += new
        if asked.json:
            asked.json.write_text(json.dumps({"how": run_by, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    told = [*pairs(rows, searchers), *yields(rows, searchers, asked.calls)]
    print(table(rows, searchers, asked.calls), *told, sep="\n", end="\n\n")
    promised = promises(rows, searchers)
    for each in promised:
        verdict = "reached" if each.reached else "MISSED"
        print(f"- {verdict}: {each.what}: {each.found:.2f}, at least {each.least:g}")
    return 0 if all(each.reached for each in promised) else 1


def mixed(goals: Sequence[Goal]) -> list[Goal]:
    """So that a run that was ended early is a fair sample: banks have like beside like."""
    return sorted(goals, key=lambda goal: sha256(goal.id.encode()).digest())


def guide(name: str) -> Guide:
    return Guide(guides.choose_priors(name), guides.choose_rewards("printed"))
