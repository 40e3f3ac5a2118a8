"""`python -m benchmarks.night`: 40 ideas, 4 at once, with everything going wrong; what is left of it in the morning.

The same search runs undisturbed first.  Exit code 1 if a promise is not kept."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.clients.searched import RUN, Outcome, Search
from benchmarks.night.bill import Bill, audit
from benchmarks.night.trouble import TROUBLES, MachineTrouble, ModelTrouble, small_disk
from tests.kit.scripted_models import PRICES, Entry, ScriptedModels, serving

IDEAS = 40
SHAPE = {"ideas_per_node": 8, "beam_width": 2, "max_depth": 3, "max_parallel_evals": 4}
ANSWER_SECONDS = 0.2
TIMEOUT = "6s"  # of a call, less than a slow answer takes
PATIENCE = "8m"
MOST_SECONDS, MOST_STARTS = 600.0, 60
ROLES = ("ideas", "planner", "coder", "reviewer")
PAUSE = 1.0  # until somebody starts a build that has ended again
KILLED = "killed by the script"
REJECTED = frozenset({7, 30})


class Start(NamedTuple):
    """A start of the build, and how it ended."""

    seconds: float
    code: int
    words: str


class Night(NamedTuple):
    starts: list[Start]
    outcome: Outcome | None
    answers: list[Entry]
    requests: int
    calls: list[dict[str, Any]]
    kills: list[float]
    befell: list[str]
    seconds: float


def note(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def search_in(folder: Path, url: str) -> Search:
    price = PRICES["scripted"]
    model = {
        "backend": "openai",
        "url": f"{url}/v1",
        "model": "scripted",
        "timeout": TIMEOUT,
        "price": {"input": price.input, "output": price.output},
    }
    search = Search(folder, dict.fromkeys(ROLES, model))
    schema = subprocess.run(
        [sys.executable, "-m", "pipeline", "schema"],
        env=search.environment({}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    patience = {"patience": PATIENCE} if '"patience"' in schema else {}
    search.write_spec(**SHAPE, **patience)
    return search


def undisturbed(folder: Path) -> Night:
    with serving(ScriptedModels(seconds=ANSWER_SECONDS, rejected=REJECTED)) as models:
        search = search_in(folder, models.url)
        began = time.monotonic()
        code, printed = search.build(MOST_SECONDS)
        if code:
            raise SystemExit(f"undisturbed, the search failed:\n{printed}")
        return _night(search, models, [Start(time.monotonic() - began, code, "")], None)


def disturbed(folder: Path, seed: int, without: frozenset[str], kept: bool = False) -> Night:
    """Start the build again and again until it ends well, as somebody would who looks after it."""
    trouble = ModelTrouble(seed, without)
    with serving(ScriptedModels(trouble.fault, ANSWER_SECONDS, REJECTED)) as models:
        search = search_in(folder, models.url)
        with small_disk(search.root / "runs") as disk, MachineTrouble(search, models, disk, without) as machine:
            starts: list[Start] = []
            began = time.monotonic()
            while len(starts) < MOST_STARTS and time.monotonic() - began < MOST_SECONDS:
                starts.append(_start(search, machine, MOST_SECONDS - (time.monotonic() - began)))
                print(
                    f"  start {len(starts)}: {starts[-1].seconds:.0f} s, {starts[-1].words}",
                    file=sys.stderr,
                    flush=True,
                )
                if starts[-1].code == 0:
                    break
                time.sleep(PAUSE)
            night = _night(search, models, starts, machine)
            if kept:
                shutil.copytree(search.run, folder / "run", symlinks=True)
            return night


def _start(search: Search, machine: MachineTrouble, seconds: float) -> Start:
    began, killed = time.monotonic(), len(machine.kills)
    machine.process = search.start(("run", RUN))
    try:
        printed = machine.process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(machine.process.pid, signal.SIGKILL)
        printed = machine.process.communicate()[0] + "\nit was not done in time"
    code = machine.process.returncode
    last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
    words = KILLED if len(machine.kills) > killed else "done" if code == 0 else f"exit code {code}: {last}"
    return Start(time.monotonic() - began, code, words)


def _night(search: Search, models: ScriptedModels, starts: list[Start], machine: MachineTrouble | None) -> Night:
    outcome = search.outcome() if (search.run / "manifest.json").exists() else None
    kills, befell = (machine.kills, machine.befell) if machine else ([], [])
    seconds = sum(start.seconds for start in starts)
    return Night(starts, outcome, models.answers(), len(models.log), search.calls(), kills, befell, seconds)


def _different(usual: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What stands otherwise in `now`, by its name: as usual, and now."""
    names = sorted({*usual, *now})
    return {name: (usual.get(name), now.get(name)) for name in names if usual.get(name) != now.get(name)}


def judge(calm: Night, night: Night, bill: Bill) -> list[tuple[str, bool, str]]:
    """Each promise, whether it was kept, and figures."""
    assert calm.outcome is not None
    if night.outcome is None or night.starts[-1].code:
        return [("it came to its end", False, f"after {len(night.starts)} starts: {night.starts[-1].words}")]
    usual, failures, spent = calm.outcome.failures, night.outcome.failures, night.outcome.usd
    outages = {name: why for name, why in failures.items() if name not in usual}
    missing = {name for name in usual if name not in failures}
    by_hand = [start.words for start in night.starts if start.code and start.words != KILLED]
    nodes = len(night.outcome.nodes)
    others = _different(calm.outcome.nodes, night.outcome.nodes) | _different(calm.outcome.states, night.outcome.states)
    tried = sum(state != "skipped" for state in night.outcome.states.values())
    return [
        ("every idea tried", tried == IDEAS, f"{tried} of {IDEAS}"),
        (
            "the same promotions as undisturbed",
            not others,
            f"{nodes} nodes; {others or 'all alike'}",
        ),
        ("no call asked again whose answer had arrived", not bill.again, f"{len(bill.again)} {bill.again[:3]}"),
        ("no question that was not asked undisturbed", not bill.unknown, str(bill.unknown)),
        ("no outage among the failures", not outages | dict.fromkeys(missing, ""), f"{len(outages)} {outages or ''}"),
        (
            "the bill exact",
            abs(spent - bill.usd) < 1e-6 and abs(bill.recorded - bill.usd) < 1e-6,
            f"manifest {spent:.6f}, calls {bill.recorded:.6f}, server {bill.usd:.6f}; by kills {bill.lost_usd:.6f}",
        ),
        (
            "the same bill as undisturbed",
            abs(bill.usd - calm.outcome.usd) < 1e-6,
            f"{calm.outcome.usd:.6f} undisturbed",
        ),
        ("started by hand only after a kill", not by_hand, f"{len(by_hand)} times {by_hand[:2]}"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the script of what goes wrong")
    parser.add_argument("--without", nargs="*", choices=TROUBLES, default=[], help="what is not to go wrong")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    parser.add_argument("--keep", type=Path, help="folder for the two projects; without it they are removed")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="coppice-night-") as made:
        folder = options.keep or Path(made)
        calm = undisturbed(folder / "undisturbed")
        note(f"undisturbed: {calm.seconds:.0f} s, {calm.requests} requests")
        night = disturbed(folder / "disturbed", options.seed, frozenset(options.without), bool(options.keep))
    bill = audit(night.answers, calm.answers, night.calls, night.kills)
    verdicts = judge(calm, night, bill)
    print(f"Undisturbed {calm.seconds:.0f} s, disturbed {night.seconds:.0f} s in {len(night.starts)} starts; ", end="")
    print(f"{night.requests} requests, {bill.answers} answers; befell: {', '.join(night.befell)}\n")
    print("| promise | kept | figures |\n|---|---|---|")
    for promise, kept, figures in verdicts:
        print(f"| {promise} | {'yes' if kept else 'no'} | {figures} |")
    if options.json:
        record = {"seed": options.seed, "verdicts": verdicts, "starts": night.starts, "bill": bill._asdict()}
        options.json.write_text(json.dumps(record, indent=1))
    return int(not all(kept for _, kept, _ in verdicts))


if __name__ == "__main__":
    sys.exit(main())
