"""Explain and replay of a proof run: the journal decided again, and each goal with all attempts at it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.journal import difference_lines, journal_differences, split_lines
from pipeline.core.text import duration, plural
from pipeline.errors import SpecError, cut_text, did_you_mean, not_built
from pipeline.proof.records import PROVED
from pipeline.proof.report import check_fields
from pipeline.proof.schedule.policy import SCHEDULE_FORM, first_line
from pipeline.proof.search_stage import schedule_rules
from pipeline.proof.spec.model import Pace, SearchSettings
from pipeline.store.files import read_bytes
from pipeline.store.records import Record, intact, load, load_lines


def replay(run: str, targets: Sequence[Target]) -> Record:
    path = _recorded_path(run, targets, "journal.jsonl")
    lines = split_lines(read_bytes(path))
    found = journal_differences(SCHEDULE_FORM, lines)
    return {
        "run": run,
        "decisions": len(lines),
        "same": not found,
        "edited": bool(lines) and _edited_since(lines[0], targets),
        "differences": [{"path": path, **each._asdict()} for each in found],
    }


def _edited_since(first: str, targets: Sequence[Target]) -> bool:
    """Was it decided by other rules than the spec has today?"""
    params = next(target.params for target in targets if target.stage == "prove")
    today = schedule_rules(SearchSettings(**params["search"]), Pace(**params["limits"]["pace"]))
    return first != first_line(today)


def agrees(replay: Mapping[str, Any]) -> bool:
    return bool(replay["same"])


def replay_lines(replay: Mapping[str, Any]) -> Sequence[str]:
    differ = difference_lines(replay["differences"])
    how = "different from there on" if differ else "the same again"
    edited = "; by another spec than today's" if replay["edited"] else ""
    return [*differ, f"{replay['run']}: {plural(replay['decisions'], 'line')} of the journal: {how}{edited}"]


def explain(run: str, targets: Sequence[Target], word: str) -> Record:
    """The goal that `RUN:GOAL` names, as it stands after the last check, if that was made."""
    proofs, checked = _recorded_path(run, targets, "proofs.jsonl"), _output_path(targets, "checked.json")
    with intact(checked):
        judged = load(checked)["checked"] if os.path.exists(checked) else {}
    with intact(proofs):
        found = {line["key"]: {**line, **check_fields(judged.get(line["key"]))} for line in load_lines(proofs)}
    name = word.partition(":")[2]
    if name not in found:
        raise SpecError(f"{run}: no goal '{name}' was searched{did_you_mean(name, found)}")
    return {"run": run, **found[name]}


def explain_lines(explained: Mapping[str, Any]) -> Sequence[str]:
    proved = explained["status"] == PROVED
    how = f"proved by {explained['strategy']}" if proved else f"not proved: {explained['why']}"
    lines = [f"{explained['run']}:{explained['key']} ({cut_text(explained['of']['text'])}): {how}"]
    lines += [f"  {_attempt_line(each)}" for each in explained["attempts"]]
    return [*lines, *(f"    {line}" for tactic in explained["tactics"] for line in tactic.splitlines())]


def _attempt_line(each: Mapping[str, Any]) -> str:
    budget, took = duration(each["budget"]), duration(each["seconds"], 2)
    ended = "proved" if each["success"] else f"failed: {cut_text(each['error'])}"
    recalled = ", recalled" if each["recalled"] else ""
    return f"{each['strategy']}, level {each['level']} ({budget}){recalled}: {ended} after {took}"


def _output_path(targets: Sequence[Target], port: str) -> str:
    return next(path for target in targets for name, (path,) in target.writes if name == port)


def _recorded_path(run: str, targets: Sequence[Target], port: str) -> str:
    path = _output_path(targets, port)
    if not os.path.exists(path):
        raise not_built(run)
    return path
