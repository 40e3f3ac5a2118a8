"""python -m benchmarks.fuzz --rounds N [--seed S] [--against coppice|doit]"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fuzz.rounds import Summary, fuzz, report, told

MIDDLE = "in the middle of a build"


def main(arguments: Sequence[str] | None = None) -> int:
    args = _arguments(arguments)
    folder = Path(args.folder or tempfile.mkdtemp(prefix="fuzz-")).resolve()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what was started is ended on the way out
    started = time.monotonic()
    summary = fuzz(args.rounds, args.seed, args.against, folder, args.failures)
    for failure in summary.failures:
        print(told(failure), file=sys.stderr)
    print(report(summary, args.against, args.seed, time.monotonic() - started, _cpu()))
    if not summary.failures and not args.folder:
        folder.rmdir()
    return _verdict(summary)


def _verdict(summary: Summary) -> int:
    if summary.failures:
        return 1
    kills = {name: count for name, count in summary.counts.items() if name.endswith(MIDDLE)}
    if not sum(kills.values()):
        print(f"no kill landed {MIDDLE}: this shows nothing, take more rounds", file=sys.stderr)
        return 1
    return 0


def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the first project")
    parser.add_argument("--against", choices=("coppice", "doit"), default="coppice")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many projects went wrong [default: 1]")
    parser.add_argument("--folder", help="where projects lie; those that went wrong stay there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
