"""`python -m benchmarks.proof COMMAND`: record, regret, kinds, scheduler or ledger.

Each prints a table in Markdown; `--svg FILE` draws it; `--json FILE` keeps the figures.  The exit code is 1 where a
promise was missed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.proof import bernoulli, figures, ledger, scheduler, splits
from benchmarks.proof.arms import ARMS, WHOLE
from benchmarks.proof.recorded import Item, load, restricted


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_ in HELP.items():
        of = commands.add_parser(name, help=help_)
        of.add_argument("--json", type=Path)
        if name in ("record", "kinds", "regret"):
            of.add_argument("files", type=Path, nargs="*" if name == "regret" else "+", metavar="FILE")
        if name in ("regret", "kinds"):
            of.add_argument("--svg", type=Path)
            of.add_argument("--runs", type=int, default=bernoulli.SEEDS if name == "regret" else splits.REPEATS)
    commands.choices["scheduler"].add_argument("--goals", type=int, default=scheduler.GOALS)
    commands.choices["ledger"].add_argument("--attempts", type=int, default=20_000)
    commands.choices["ledger"].add_argument("--folder", default=None, help="on the disk to be measured")
    return parser.parse_args()


def record(asked: argparse.Namespace) -> tuple[Any, bool]:
    from benchmarks.proof.record import record

    record(*asked.files)
    return None, True


def regret(asked: argparse.Namespace) -> tuple[Any, bool]:
    found = {bernoulli.SETTINGS[key].title: of for key, of in bernoulli.regrets(asked.runs).items()}
    print(figures.regret_table(found, f"successes lost after {bernoulli.PULLS:,} attempts"), end="\n\n")
    seconds = {}
    for title, items in recordings(asked.files):
        seconds |= {
            f"{name}: CPU s lost": splits.lost(some, asked.runs) for name, some in with_and_without(title, items)
        }
    if seconds:
        print(figures.regret_table(seconds, "CPU seconds lost in the end"))
    found |= seconds
    _draw(asked, figures.regret_svg(found))
    return found, True


def kinds(asked: argparse.Namespace) -> tuple[Any, bool]:
    found = {}
    for title, items in recordings(asked.files):
        print(figures.arms_table(items), end="\n\n")
        for name, some in with_and_without(title, items):
            found[name] = splits.compared(some, asked.runs)
            print(f"{name}:\n\n{figures.kinds_table(found[name])}\n")
    _draw(asked, figures.kinds_svg(found))
    return {name: {policy: one._asdict() for policy, one in of.items()} for name, of in found.items()}, True


def recordings(files: Sequence[Path]) -> Iterator[tuple[str, list[Item]]]:
    """Each recording is followed by its bank."""
    for recording, bank in zip(files[::2], files[1::2], strict=True):
        yield figures.NAMES.get(recording.stem, recording.stem), load(recording, bank)


def with_and_without(title: str, items: Sequence[Item]) -> Iterator[tuple[str, list[Item]]]:
    """The arm that is the whole of `micro`, beside which no other one is needed much."""
    yield f"{title}, all arms", restricted(items, [*ARMS])
    yield f"{title}, without `{WHOLE}`", restricted(items, [arm for arm in ARMS if arm != WHOLE])


def _draw(asked: argparse.Namespace, svg: str) -> None:
    if asked.svg:
        asked.svg.write_text(svg)


def decisions(asked: argparse.Namespace) -> tuple[Any, bool]:
    found = scheduler.costs(asked.goals)
    print(figures.scheduler_table(found))
    each = [one for of in found.values() for one in of.values()]
    reached = all(max(one.decision, one.journalled) <= scheduler.TARGET_MS for one in each)
    return {name: {arms: one._asdict() for arms, one in of.items()} for name, of in found.items()}, reached


def attempts(asked: argparse.Namespace) -> tuple[Any, bool]:
    found = ledger.measured(asked.attempts, asked.folder)
    print(json.dumps(found, indent=1))
    return found, found["reached"]


HELP = {
    "record": "what each kind of move does on each goal of a bank, with a real Lean: BANK.jsonl OUT.json",
    "regret": "of the bandits, on arms of which everything is known; and on [RECORDING.json BANK.jsonl …]",
    "kinds": "orders of kinds of move, on goals that they were not learnt from: RECORDING.json BANK.jsonl …",
    "scheduler": "what a decision costs with many goals in the queues",
    "ledger": "attempts a second that are made durable, and how old one gets before it is",
}
COMMANDS: Mapping[str, Callable[[argparse.Namespace], tuple[Any, bool]]] = {
    "record": record,
    "regret": regret,
    "kinds": kinds,
    "scheduler": decisions,
    "ledger": attempts,
}


def main() -> int:
    asked = arguments()
    found, reached = COMMANDS[asked.command](asked)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
