"""The seal of what is held out: its files are hidden from commands, and every opening is written down.

Hidden where the kernel can; else there is a tripwire: the time of access is set to 0 before a command starts.  Mounts
that keep it at all (relatime) move it with the first read; whoever sets it back moves ctime, which nobody can set.
Commands that run at the same time are all blamed: which of them it was does not show.

Openings are in runs/<run>/holdout.jsonl, a line for each, and never one less.  A line is on the disk before anything of
the held-out part is measured.  The run's repository has a copy, and the receipts know of what was measured: to remove
the file alone makes nothing fresh again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple

from pipeline.core.text import join_names
from pipeline.errors import SpecError
from pipeline.git.refs import copy_of, keep_copy
from pipeline.git.repository import run_repository
from pipeline.machine.confine import Confinement, landlock_version
from pipeline.machine.job import Job
from pipeline.store.files import append_lines, files_behind
from pipeline.store.receipts import Receipts
from pipeline.tree.rules.positions import EVENTS, OPENINGS, VERDICT, RunLayout
from pipeline.tree.rules.protection import VOID
from pipeline.tree.run.records import EventLog, Record, load_if_whole

Tripwire = dict[str, int]  # path -> ctime

_ARMING = Lock()


def sealed_paths(job: Job) -> list[str]:
    return [os.path.abspath(path) for path in job.target.params.get("limits", {}).get("sealed", ())]


def hide_paths(confined: Confinement | None, paths: Iterable[str]) -> Confinement | None:
    """Besides what else a command is kept from."""
    there = tuple(path for path in paths if os.path.exists(path))
    if not there or not landlock_version():
        return confined
    return (confined or Confinement())._replace(unreadable=there)


def arm_tripwire(paths: Iterable[str], hidden: bool) -> Tripwire:
    """`hidden`: commands cannot read it, so that whoever does is none of them."""
    return dict(_armed_files(paths, hidden))


def _armed_files(paths: Iterable[str], hidden: bool) -> Iterator[tuple[str, int]]:
    with _ARMING:
        for path in (file for each in paths for file in files_behind(each)):
            status = os.stat(path)
            if status.st_atime_ns and not hidden:
                try:
                    os.utime(path, ns=(0, status.st_mtime_ns))
                except PermissionError:  # somebody else's file, on which there can be no wire
                    continue
                status = os.stat(path)
            yield path, status.st_ctime_ns


def tripwire_reason(wire: Tripwire, hidden: bool) -> str:
    """`void: …` when something has been read, or its times were set."""
    for path, ctime in wire.items():
        status = _status(path)
        if status is None or (status.st_atime_ns and not hidden) or status.st_ctime_ns != ctime:
            what = "touched" if hidden else "read"
            return f"{VOID}the sealed holdout was {what} while it ran ({os.path.relpath(path)})"
    return ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


HOLDOUT_REF = "holdout"
SEAL_OPENED, SEAL_LOST, SEAL_RESTORED = "opened", "lost", "restored"
SEARCH_EVENT = "searching"
# By these an opening is the same as another: whoever asks the same again learns nothing new.
QUESTION_FIELDS = ("tree", "root_tree", "blocks", "configs", "reads")


class SealLog(NamedTuple):
    """`lines`: those of the file, and those that it lacks though they were written once."""

    path: str
    lines: list[Record]
    lacking: int

    @property
    def lines_lost(self) -> int:
        """How many lines were missing at some time."""
        return self.lacking + sum(int(line["lines"]) for line in self.lines if line["event"] == SEAL_RESTORED)

    @property
    def openings(self) -> list[Record]:
        return [line for line in self.lines if line["event"] in (SEAL_OPENED, SEAL_LOST)]


def seal_log(run: str) -> SealLog:
    path = RunLayout(run).of_run(OPENINGS)
    there, copy = [*EventLog(path).read()], _copied(run)
    missing = [line for line in copy if line not in there]
    if not there and not copy and Receipts(run).receipt(f"{run}:holdout"):
        missing = [{"event": SEAL_LOST, "at": None, "why": "it was measured, and no line says when or for what"}]
    return SealLog(path, sorted([*there, *missing], key=lambda line: line["at"] or 0), len(missing))


def _copied(run: str) -> list[Record]:
    repo = run_repository(run)
    text = copy_of(repo, run, HOLDOUT_REF) if os.path.exists(f"{repo}/HEAD") else b""
    return [json.loads(line) for line in text.splitlines()]


def open_seal(run: str, question: Mapping[str, Any], reopen: bool) -> None:
    """Returns when it is written down, or has been before."""
    found = seal_log(run)
    same = [line for line in found.openings if line["event"] == SEAL_OPENED and _asks(line) == _asks(question)]
    if not same:
        _check_fresh(run, question, found, reopen)
    at = round(time.time(), 3)
    lines: list[Record] = [{"event": SEAL_RESTORED, "at": at, "lines": found.lacking}] if found.lacking else []
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    lines += [] if same else [{"event": SEAL_OPENED, "at": at, "when": when, **question, "reopened": reopen}]
    if lines:
        _append(found, lines)
    keep_copy(run_repository(run), run, HOLDOUT_REF, _text([*found.lines, *lines]))


def _asks(line: Mapping[str, Any]) -> list[Any]:
    return [line.get(name) for name in QUESTION_FIELDS]


def _check_fresh(run: str, question: Mapping[str, Any], found: SealLog, reopen: bool) -> None:
    if reopen:
        return
    anew = f"`coppice holdout {run} --reopen` opens it all the same, and that is written down"
    if found.openings:
        last = found.openings[-1]
        what = f"for {last['final']}, commit {last['commit'][:10]}" if last["event"] == SEAL_OPENED else last["why"]
        raise SpecError(f"{run}: what is held out was opened before ({what}): a second look is not fresh; {anew}")
    if searched := searched_before(run, question):
        raise SpecError(f"{run}: {searched} searched before it was held out, and is not fresh; {anew}")


def searched_before(run: str, question: Mapping[str, Any]) -> str:
    """What of the held-out part the search has seen, by its events."""
    for event in EventLog(RunLayout(run).of_run(EVENTS)).read():
        for word in ("blocks", "configs") if event["event"] == SEARCH_EVENT else ():
            held, seen = question[word], event[word]
            if names := [str(each) for each in held if seen is None or each in seen]:
                return f"of the {word} {join_names(names)} {'was' if len(names) == 1 else 'were'}"
    return ""


def searched_parts(config: Mapping[str, Any]) -> Record:
    """What a search measures, by its configuration; None: the spec does not say."""
    counts = [count for count in (config["sweep_config_limit"], config["grid"]) if count is not None]
    ids = config.get("config_ids", [*range(min(counts))] if counts else None)
    return {"blocks": config["blocks"] and config["blocks"]["ids"], "configs": ids}


def _append(found: SealLog, lines: Iterable[Record]) -> None:
    """What was taken from the file comes back with it."""
    there = [*EventLog(found.path).read()]
    append_lines(found.path, _text([*(line for line in found.lines if line not in there), *lines]), durable=True)


def _text(lines: Iterable[Record]) -> bytes:
    return b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in lines)


def seal_record(run: str) -> Record:
    """All openings, and what the last of them found."""
    found = seal_log(run)
    path = RunLayout(run).of_run(VERDICT)
    result = load_if_whole(path) if os.path.exists(path) else None
    return {"run": run, "openings": found.openings, "lacking": found.lines_lost, "result": result}
