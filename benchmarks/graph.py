"""The speed of the build graph against ninja, make, stock doit and snakemake."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers, report, scenarios, shape
from benchmarks.measure import adopt_orphans
from benchmarks.project import Project
from benchmarks.rounds import compare
from benchmarks.scenarios import SCENARIOS, TOGETHER


def main(arguments: Sequence[str] | None = None) -> int:
    args = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="graph-") as scratch:
        document = _measure_all(args, (args.work or Path(scratch)).resolve())
    given = sys.argv[1:] if arguments is None else arguments
    document["command"] = "python -m benchmarks.graph " + shlex.join(given)
    text = json.dumps(document, indent=1)
    _say(report.table(document["results"]))
    print(text)
    if args.json:
        args.json.write_text(text + "\n")
    return 1 if any("error" in entry for entry in document["results"]) else 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph", description=__doc__)
    known = ",".join([*SCENARIOS, *TOGETHER])
    parser.add_argument("--scenario", default="noop,edit,graph,cold", help=f"some of {known}")
    parser.add_argument("--targets", default="10000", help="how many, a multiple of 25; several with commas")
    parser.add_argument(
        "--tools", default="coppice,doit-coppice,ninja,make,doit", help=f"some of {','.join(peers.TOOLS)}"
    )
    parser.add_argument("--rounds", type=int, default=5, help="the figures are medians over them")
    parser.add_argument("--warmups", type=int, default=1, help="rounds before those, not counted")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets a tool may build at once")
    parser.add_argument("--cap", type=float, default=1800, help="seconds after which one run is an error")
    parser.add_argument("--coppice", type=Path, default=peers.HERE / "coppice", help="its executable")
    parser.add_argument("--work", type=Path, help="keep the built trees here and use them again next time")
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    args = parser.parse_args(arguments)
    args.scenario = _chosen(parser, args.scenario, SCENARIOS, TOGETHER)
    args.tools = _chosen(parser, args.tools, peers.TOOLS, {})
    try:
        args.targets = [int(count) for count in args.targets.split(",")]
        [shape.ideas(count) for count in args.targets]
    except ValueError as problem:
        parser.error(str(problem))
    return args


def _chosen(
    parser: argparse.ArgumentParser,
    given: str,
    known: Mapping[str, Any],
    together: Mapping[str, tuple[str, ...]],
) -> list[str]:
    names = [name for word in given.split(",") for name in together.get(word, (word,))]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{unknown[0]!r} is unknown; there are {', '.join([*known, *together])}")
    return list(dict.fromkeys(names))


def _measure_all(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    work.mkdir(parents=True, exist_ok=True)
    found, missing = _find(args, work)
    versions = {name: peers.version(exe) for name, exe in found.items()}
    machine = report.machine(versions, work, scenarios.fsync_ms(work))
    results: list[dict[str, Any]] = []
    for count in args.targets:
        fitting, too_slow = _fitting(found, count)
        missing += too_slow
        projects = [
            Project(work / str(count) / name, name, exe, count, args.jobs, args.cap) for name, exe in fitting.items()
        ]
        for name in args.scenario:
            results += compare(name, projects, args.rounds, args.warmups, _say)
    shutil.rmtree(work / "aside", ignore_errors=True)
    return {"machine": machine, "rounds": args.rounds, "missing": missing, "results": results}


def _find(args: argparse.Namespace, work: Path) -> tuple[dict[str, Path], list[dict[str, Any]]]:
    setting = peers.Setting(args.coppice, work / "venvs")
    found: dict[str, Path] = {}
    missing: list[dict[str, Any]] = []
    for name in args.tools:
        try:
            found[name] = peers.find(name, setting)
        except peers.Missing as why:
            missing.append({"tool": name, "why": str(why)})
            _say(f"not measured: {name}: {why}")
    return found, missing


def _fitting(found: dict[str, Path], count: int) -> tuple[dict[str, Path], list[dict[str, Any]]]:
    """The tools that can be measured at this size, and what is said of the others."""
    most = {name: peers.TOOLS[name].most_targets for name in found}
    fitting = {name: exe for name, exe in found.items() if count <= most[name]}
    too_slow = found.keys() - fitting.keys()
    return fitting, [
        {"tool": name, "targets": count, "why": f"measured up to {most[name]} targets"} for name in sorted(too_slow)
    ]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
