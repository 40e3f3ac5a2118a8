"""The seal of what is held out: runs/<run>/holdout.jsonl, a line for each time that it was opened, and never one less.

A line is on the disk before anything of the held-out part is measured.  The run's repository has a copy, and the
receipts know of what was measured: to remove the file alone makes nothing fresh again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.core.words import listed
from pipeline.edge.files import append_all, sync
from pipeline.edge.git.copies import copy_of, keep_copy
from pipeline.edge.git.home import home_of
from pipeline.edge.receipts import Receipts
from pipeline.errors import SpecError
from pipeline.tree.event_log import EventLog
from pipeline.tree.layout import EVENTS, OPENINGS, Layout
from pipeline.tree.records import Record

REF = "holdout"
OPENED, LOST, RESTORED = "opened", "lost", "restored"
SEARCHING = "searching"
# By these an opening is the same as another: whoever asks the same again learns nothing new.
QUESTION = ("tree", "root_tree", "blocks", "configs", "reads")


class Ledger(NamedTuple):
    """`lines`: those of the file, and those that it lacks though they were written once."""

    path: str
    lines: list[Record]
    lacking: int

    @property
    def taken(self) -> int:
        """How many lines were missing at some time."""
        return self.lacking + sum(int(line["lines"]) for line in self.lines if line["event"] == RESTORED)

    @property
    def openings(self) -> list[Record]:
        return [line for line in self.lines if line["event"] in (OPENED, LOST)]


def ledger(run: str) -> Ledger:
    path = Layout(run).of_run(OPENINGS)
    there, copy = [*EventLog(path).read()], _copied(run)
    missing = [line for line in copy if line not in there]
    if not there and not copy and Receipts(run).receipt(f"{run}:holdout"):
        missing = [{"event": LOST, "at": None, "why": "it was measured, and no line says when or for what"}]
    return Ledger(path, sorted([*there, *missing], key=lambda line: line["at"] or 0), len(missing))


def _copied(run: str) -> list[Record]:
    repo = home_of(run)
    text = copy_of(repo, run, REF) if os.path.exists(f"{repo}/HEAD") else b""
    return [json.loads(line) for line in text.splitlines()]


def open_seal(run: str, question: Mapping[str, Any], reopen: bool) -> None:
    """Returns when it is written down, or has been before."""
    found = ledger(run)
    same = [line for line in found.openings if line["event"] == OPENED and _asks(line) == _asks(question)]
    if not same:
        _check_fresh(run, question, found, reopen)
    at = round(time.time(), 3)
    lines: list[Record] = [{"event": RESTORED, "at": at, "lines": found.lacking}] if found.lacking else []
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    lines += [] if same else [{"event": OPENED, "at": at, "when": when, **question, "reopened": reopen}]
    if lines:
        _append(found, lines)
    keep_copy(home_of(run), run, REF, _text([*found.lines, *lines]))


def _asks(line: Mapping[str, Any]) -> list[Any]:
    return [line.get(name) for name in QUESTION]


def _check_fresh(run: str, question: Mapping[str, Any], found: Ledger, reopen: bool) -> None:
    if reopen:
        return
    anew = f"`coppice holdout {run} --reopen` opens it all the same, and that is written down"
    if found.openings:
        last = found.openings[-1]
        what = f"for {last['final']}, commit {last['commit'][:10]}" if last["event"] == OPENED else last["why"]
        raise SpecError(f"{run}: what is held out was opened before ({what}): a second look is not fresh; {anew}")
    if searched := searched_before(run, question):
        raise SpecError(f"{run}: {searched} searched before it was held out, and is not fresh; {anew}")


def searched_before(run: str, question: Mapping[str, Any]) -> str:
    """What of the held-out part the search has seen, by its events."""
    for event in EventLog(Layout(run).of_run(EVENTS)).read():
        for word in ("blocks", "configs") if event["event"] == SEARCHING else ():
            held, seen = question[word], event[word]
            if names := [str(each) for each in held if seen is None or each in seen]:
                return f"of the {word} {listed(names)} {'was' if len(names) == 1 else 'were'}"
    return ""


def searched(config: Mapping[str, Any]) -> Record:
    """What a search measures, by its configuration; None: the spec does not say."""
    counts = [count for count in (config["sweep_config_limit"], config["grid"]) if count is not None]
    ids = config.get("config_ids", [*range(min(counts))] if counts else None)
    return {"blocks": config["blocks"] and config["blocks"]["ids"], "configs": ids}


def _append(found: Ledger, lines: Iterable[Record]) -> None:
    """What was taken from the file comes back with it."""
    there = [*EventLog(found.path).read()]
    fd = os.open(found.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(fd).st_size
        torn = b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""
        append_all(fd, torn + _text([*(line for line in found.lines if line not in there), *lines]))
        os.fsync(fd)
    finally:
        os.close(fd)
    sync(os.path.dirname(found.path))


def _text(lines: Iterable[Record]) -> bytes:
    return b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in lines)
