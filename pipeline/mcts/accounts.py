"""Explain and replay of an mcts run: each journal decided again, each trace folded from it once more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from pipeline.core.graph import Target, path_of_port
from pipeline.core.journal import JournalDifference, difference_lines, journal_differences, split_lines
from pipeline.core.text import join_names, plural
from pipeline.errors import SpecError, did_you_mean, not_built
from pipeline.mcts.plan import SEARCH, TRACE, goal_of_target
from pipeline.mcts.report.figures import REFUSED
from pipeline.mcts.search.journal import search_form
from pipeline.mcts.search.trace import trace_line
from pipeline.store.files import read_bytes
from pipeline.store.records import Record, intact, load


class ReplayedJournal(NamedTuple):
    """Gone through once: where it is decided otherwise, and the trace up to there."""

    lines: Sequence[str]
    differences: list[JournalDifference]
    trace: Sequence[str]


def replay(run: str, targets: Sequence[Target]) -> Record:
    searches = [target for target in targets if target.stage == SEARCH]
    there = [target for target in searches if os.path.exists(path_of_port(target, "journal.jsonl"))]
    if not there:
        raise not_built(run)
    replayed = [_replay_search(target) for target in there]
    differences = [each for _, found in replayed for each in found]
    return {
        "run": run,
        "searches": len(there),
        "missing": len(searches) - len(there),
        "decisions": sum(lines for lines, _ in replayed),
        "same": not differences,
        "edited": sum(map(_edited_since, there)),
        "differences": differences,
    }


def _replay_search(target: Target) -> tuple[int, list[Record]]:
    """The number of its decisions, and its first difference, if there is one."""
    lines, trace = split_lines(read_bytes(path_of_port(target, "journal.jsonl"))), list[str]()
    form = search_form(lambda record: trace.append(trace_line(record)))
    journal = ReplayedJournal(lines, journal_differences(form, lines), trace)
    for port, check in CHECKS.items():
        path = path_of_port(target, port)
        try:
            found = check(target, path, journal)
        except (OSError, SpecError) as error:
            found = JournalDifference(1, "", getattr(error, "strerror", None) or str(error))
        if found:
            return len(lines), [{"path": path, **found._asdict()}]
    return len(lines), []


def _check_decisions(target: Target, _path: str, journal: ReplayedJournal) -> JournalDifference | None:
    """Find what differs in the decisions; a refused goal may have no journal."""
    refused = _load_record(path_of_port(target, "summary.json")).get("status") == REFUSED
    return journal.differences[0] if journal.differences and (journal.lines or not refused) else None


def _check_config(_target: Target, path: str, journal: ReplayedJournal) -> JournalDifference | None:
    """Compare the rules that the journal begins with to those recorded."""
    recorded = _load_record(path).get("rules")
    first = json.loads(journal.lines[0]) if journal.lines else {}
    rules = {name: first[name] for name in ("mode", "rules", "team", "time") if name in first}
    return JournalDifference(1, str(recorded), journal.lines[0]) if journal.lines and rules != recorded else None


def _check_trace(_target: Target, path: str, journal: ReplayedJournal) -> JournalDifference | None:
    """Find the first line of the trace that is not the one of the journal."""
    pairs = enumerate(zip_longest(split_lines(read_bytes(path)), journal.trace), 1)
    return next((JournalDifference(n, then or "", now or "") for n, (then, now) in pairs if then != now), None)


CHECKS: Mapping[str, Callable[[Target, str, ReplayedJournal], JournalDifference | None]] = {
    "journal.jsonl": _check_decisions,
    "run_config.json": _check_config,
    TRACE: _check_trace,
}


def _edited_since(target: Target) -> bool:
    """Was it decided by other rules or guides than the spec has today?"""
    try:
        config = _load_record(path_of_port(target, "run_config.json"))
    except (OSError, SpecError):
        return False  # which is a difference
    return any(config.get(name) != target.params[name] for name in ("rules", "guides"))


def _load_record(path: str) -> Record:
    with intact(path):
        record = load(path)
        if not isinstance(record, dict):
            raise TypeError("no object")
    return record


def agrees(replay: Mapping[str, Any]) -> bool:
    return bool(replay["same"])


def replay_lines(replay: Mapping[str, Any]) -> Sequence[str]:
    differ = difference_lines(replay["differences"])
    of = f"{plural(replay['decisions'], 'line')} of {plural(replay['searches'], 'journal')}"
    missing = f"; {replay['missing']} not there yet" if replay["missing"] else ""
    edited = f"; {replay['edited']} by another spec than today's" if replay["edited"] else ""
    how = f"{len(differ)} different" if differ else "the same again, and so are the traces"
    return [*differ, f"{replay['run']}: {of}: {how}{missing}{edited}"]


def explain(run: str, targets: Sequence[Target], word: str) -> Record:
    """Each search of the goal that `RUN:GOAL` names."""
    name = word.partition(":")[2]
    searches = [target for target in targets if target.stage == SEARCH]
    if name not in (goals := [goal_of_target(target) for target in searches]):
        raise SpecError(f"{run}: no goal '{name}' is searched{did_you_mean(name, {*goals})}")
    found = []
    for target, goal in zip(searches, goals, strict=True):
        if goal == name and os.path.exists(path_of_port(target, "summary.json")):
            _, scenario, seed, _ = target.name.partition(":")[2].split(".", 3)
            place = {"scenario": scenario, "seed": int(seed)}
            found.append({**place, **_load_summary(target), **_last_iteration(target)})
    if not found:
        raise not_built(run, f"'{name}'")
    return {"run": run, "goal": name, "searches": found}


def _load_summary(target: Target) -> Record:
    path = path_of_port(target, "summary.json")
    summary = _load_record(path)
    with intact(path):
        for name in ("status", "verified", "error", "to_proof", "reasons", "script", "iterations", "calls", "nodes"):
            if name not in summary:
                raise KeyError(name)
    return summary


def _last_iteration(target: Target) -> Record:
    """The end and the way of the last iteration."""
    path = path_of_port(target, TRACE)
    lines = split_lines(read_bytes(path))
    with intact(f"{path}:{len(lines)}"):
        last = json.loads(lines[-1]) if lines else {"reason": "", "selected_path": []}
        return {"last": {name: last[name] for name in ("reason", "selected_path")}}


def explain_lines(explained: Mapping[str, Any]) -> Sequence[str]:
    lines = []
    for each in explained["searches"]:
        head = f"{explained['run']}:{explained['goal']}, {each['scenario']}, seed {each['seed']}"
        if each["status"] == REFUSED:
            lines.append(f"{head}: not searched: {each['error']}")
            continue
        how = "proved" if each["verified"] else f"{each['status']}{': ' + each['error'] if each['error'] else ''}"
        spent = each["to_proof"] or each
        cost = f"{plural(spent['iterations'], 'iteration')}, {plural(spent['calls'], 'call')}"
        lines.append(f"{head}: {how} after {cost}, {plural(each['nodes'], 'goal')}")
        lines.append(f"  iterations: {join_names([f'{count} {reason}' for reason, count in each['reasons'].items()])}")
        lines += [f"    {line}" for line in each["script"]]
    return lines
