"""Seal of the holdout: its files are hidden from commands, and every opening is recorded.

Files are hidden where the kernel can; else there is a tripwire: the access time is set to 0 before a command starts.
Mounts that keep it at all (relatime) move it with the first read; a command that sets it back moves ctime, which nobody
can set.  Commands that run at the same time are all blamed, as one cannot tell which of them it was.

States: sealed -> opened (the first question) -> opened again (--reopen only).  Openings are lines in
runs/<run>/holdout.jsonl and never become fewer.  A line is on the disk before anything of the holdout is measured.  The
run's repository has a copy, and receipts show what was measured: removing the file makes nothing fresh again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, NamedTuple

from pipeline.core.text import join_names
from pipeline.errors import SpecError
from pipeline.git.objects import keep_copy, read_copy
from pipeline.git.repository import run_repository
from pipeline.machine.job import Job
from pipeline.store.files import append_lines, files_behind
from pipeline.store.receipts import Receipts
from pipeline.tree.rules.positions import EVENTS, OPENINGS, VERDICT, RunLayout
from pipeline.tree.rules.protection import VOID
from pipeline.tree.run.records import Record, load_if_intact, read_events

Tripwire = dict[str, int]  # path -> ctime

_ARMING = Lock()


def sealed_paths(job: Job, walled: bool) -> list[str]:
    """The files that commands of a target must not read: of the holdout, and what a judge apart reads alone.

    The latter only where they can be hidden: a judge at work beside it would set off the tripwire."""
    limits = job.target.params.get("limits", {})
    truth = limits.get("truth", ()) if walled else ()
    return [os.path.abspath(path) for path in (*limits.get("sealed", ()), *truth)]


def file_limits(params: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a target about files, for one of several commands of it."""
    return {name: params["limits"][name] for name in ("sealed", "truth") if name in params.get("limits", {})}


def arm_tripwire(paths: Iterable[str], hidden: bool) -> Tripwire:
    """Set the tripwire; `hidden`: commands cannot read the files, so that a reader is none of them."""
    wire: Tripwire = {}
    with _ARMING:
        for path in (file for each in paths for file in files_behind(each)):
            status = os.stat(path)
            if status.st_atime_ns and not hidden:
                try:
                    os.utime(path, ns=(0, status.st_mtime_ns))
                except PermissionError:  # somebody else's file, on which there can be no wire
                    continue
                status = os.stat(path)
            wire[path] = status.st_ctime_ns
    return wire


def tripwire_reason(wire: Tripwire, hidden: bool) -> str:
    """Reason `void: …` when a file was read or its times were set; else empty."""
    for path, ctime in wire.items():
        try:
            status = os.stat(path)
            touched = (status.st_atime_ns and not hidden) or status.st_ctime_ns != ctime
        except OSError:
            touched = True
        if touched:
            what = "a sealed file was touched" if hidden else "the sealed holdout was read"
            return f"{VOID}{what} while it ran ({os.path.relpath(path)})"
    return ""


HOLDOUT_REF = "holdout"
SEAL_OPENED, SEAL_LOST, SEAL_RESTORED = "opened", "lost", "restored"
SEARCH_EVENT = "searching"
# Openings with equal fields are the same: the same question again gives nothing new.
QUESTION_FIELDS = ("tree", "root_tree", "blocks", "configs", "reads")


class SealLog(NamedTuple):
    """Lines of the file with those that it has lost, and these alone."""

    lines: list[Record]
    lost: list[Record]

    @property
    def openings(self) -> list[Record]:
        return [line for line in self.lines if line["event"] in (SEAL_OPENED, SEAL_LOST)]


def seal_log(run: str) -> SealLog:
    there, repo = [*read_events(RunLayout(run).of_run(OPENINGS))], run_repository(run)
    copy = read_copy(repo, run, HOLDOUT_REF) if os.path.exists(f"{repo}/HEAD") else b""
    lost = [line for line in map(json.loads, copy.splitlines()) if line not in there]
    if not there and not copy and Receipts(run).receipt(f"{run}:holdout"):
        lost = [{"event": SEAL_LOST, "at": None, "why": "it was measured, and no line says when or for what"}]
    return SealLog(sorted([*there, *lost], key=lambda line: line["at"] or 0), lost)


def open_seal(run: str, question: Mapping[str, Any], reopen: bool) -> None:
    """Open the seal; returns when this is on the disk, or has been before."""
    log, asked = seal_log(run), _question(question)
    same = [line for line in log.openings if line["event"] == SEAL_OPENED and _question(line) == asked]
    if not same and not reopen:
        _check_fresh(run, question, log)
    at = round(time.time(), 3)
    lines: list[Record] = [{"event": SEAL_RESTORED, "at": at, "lines": len(log.lost)}] if log.lost else []
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    lines += [] if same else [{"event": SEAL_OPENED, "at": at, "when": when, **question, "reopened": reopen}]
    if lines:
        append_lines(RunLayout(run).of_run(OPENINGS), _json_lines([*log.lost, *lines]), durable=True)
    keep_copy(run_repository(run), run, HOLDOUT_REF, _json_lines([*log.lines, *lines]))


def _question(line: Mapping[str, Any]) -> list[Any]:
    return [line.get(name) for name in QUESTION_FIELDS]


def _check_fresh(run: str, question: Mapping[str, Any], log: SealLog) -> None:
    """Refuse what was opened before, and what the search has seen, by its events."""
    anew = f"`coppice holdout {run} --reopen` opens it all the same, and that is written down"
    if log.openings:
        last = log.openings[-1]
        what = f"for {last['final']}, commit {last['commit'][:10]}" if last["event"] == SEAL_OPENED else last["why"]
        raise SpecError(f"{run}: what is held out was opened before ({what}): a second look is not fresh; {anew}")
    for event in read_events(RunLayout(run).of_run(EVENTS)):
        for word in ("blocks", "configs") if event["event"] == SEARCH_EVENT else ():
            held, seen = question[word], event[word]
            if names := [str(each) for each in held if seen is None or each in seen]:
                searched = f"of the {word} {join_names(names)} {'was' if len(names) == 1 else 'were'} searched before"
                raise SpecError(f"{run}: {searched} it was held out, and is not fresh; {anew}")


def searched_parts(config: Mapping[str, Any]) -> Record:
    """The blocks and configs that a search measures, by its configuration; None where the spec does not say."""
    counts = [count for count in (config["sweep_config_limit"], config["grid"]) if count is not None]
    ids = config.get("config_ids", [*range(min(counts))] if counts else None)
    return {"blocks": config["blocks"] and config["blocks"]["ids"], "configs": ids}


def _json_lines(lines: Iterable[Record]) -> bytes:
    return b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in lines)


def seal_record(run: str) -> Record:
    """The openings, and the result of the last one."""
    log, result = seal_log(run), load_if_intact(RunLayout(run).of_run(VERDICT))
    # those that are missing now, and those that were at some time
    lacking = len(log.lost) + sum(line["lines"] for line in log.lines if line["event"] == SEAL_RESTORED)
    return {"run": run, "openings": log.openings, "lacking": lacking, "result": result}
