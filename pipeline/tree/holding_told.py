"""What is told of the seal: every opening, and what was found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.words import plural
from pipeline.tree.layout import VERDICT, Layout
from pipeline.tree.records import Record, load_if_whole
from pipeline.tree.sealing import LOST, ledger
from pipeline.tree.tables import clipped, moved, number


def told(run: str) -> Record:
    """All openings, and what the last of them found."""
    found = ledger(run)
    path = Layout(run).of_run(VERDICT)
    result = load_if_whole(path) if os.path.exists(path) else None
    return {"run": run, "openings": found.openings, "lacking": found.taken, "result": result}


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    result, openings = told["result"], told["openings"]
    if result:
        yield from _verdict(result)
    if len(openings) > 1:
        yield f"Opened {len(openings)} times: only what was found the first time is fresh."
    for line in openings if len(openings) > 1 else ():
        yield f"- {_opening(line)}"
    if told["lacking"]:
        yield f"From holdout.jsonl {plural(told['lacking'], 'line')} had been taken; what else was, nobody knows."


def _verdict(result: Mapping[str, Any]) -> Iterator[str]:
    found = result["comparison"]
    held = plural(len(result["blocks"]), "block") if result["blocks"] else plural(len(result["configs"]), "config")
    primary = next(each for each in found["metrics"] if each["delta"] == found["primary_delta"])
    change = f"{primary['name']} {moved(primary['baseline'], primary['candidate'])}"
    if evidence := found["evidence"]:
        yield (
            f"{result['final']} against the start on {held} held out: {change}, "
            f"estimate {number(evidence['estimate'])}, {number(evidence['lower'])} to {number(evidence['upper'])}, "
            f"p {evidence['p']:.3g}: "
            f"{evidence['verdict']} ({', '.join(evidence['reasons'])})."
        )
    else:
        yield f"{result['final']} against the start on {held} held out: {change}, score {number(found['score'])}."


def _opening(line: Mapping[str, Any]) -> str:
    if line["event"] == LOST:
        return clipped(line["why"], 100)
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(line["at"]))
    again = ", by --reopen" if line["reopened"] else ""
    return f"{at}: {line['final']}, commit {line['commit'][:10]}{again}"
