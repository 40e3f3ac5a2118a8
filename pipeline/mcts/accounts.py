"""Explain and replay of an mcts run: each journal decided again, each trace folded from it once more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from pipeline.core.graph import Target, path_of_port
from pipeline.core.journal import JournalDifference, difference_lines, journal_differences, split_lines
from pipeline.core.text import join_names, plural
from pipeline.errors import SpecError, did_you_mean
from pipeline.mcts.plan import SEARCH, TRACE
from pipeline.mcts.report.figures import REFUSED
from pipeline.mcts.search.journal import search_form
from pipeline.mcts.search.trace import trace_line
from pipeline.store.records import Record, load


class ReplayedJournal(NamedTuple):
    """Gone through once: where it is decided otherwise, and the trace up to there."""

    lines: Sequence[str]
    differences: list[JournalDifference]
    trace: Sequence[str]


def replay(run: str, targets: Sequence[Target]) -> Record:
    searches = _search_targets(targets)
    there = [target for target in searches if os.path.exists(path_of_port(target, "journal.jsonl"))]
    if not there:
        raise SpecError(f"{run}: nothing is recorded of it yet; `coppice {run}` builds it")
    decisions, found = 0, list[Record]()
    for target in there:
        journal = _replay_journal(target)
        decisions += len(journal.lines)
        found += _first_difference(target, journal)
    return {
        "run": run,
        "searches": len(there),
        "missing": len(searches) - len(there),
        "decisions": decisions,
        "same": not found,
        "edited": sum(_edited_since(target) for target in there),
        "differences": found,
    }


def _replay_journal(target: Target) -> ReplayedJournal:
    lines, trace = _read_lines(path_of_port(target, "journal.jsonl")), list[str]()
    form = search_form(lambda told: trace.append(trace_line(told)))
    return ReplayedJournal(lines, journal_differences(form, lines), trace)


def _first_difference(target: Target, journal: ReplayedJournal) -> list[Record]:
    """The first of a search."""
    for port, look in CHECKS.items():
        path = path_of_port(target, port)
        try:
            found = look(target, path, journal)
        except (OSError, SpecError) as error:
            found = [JournalDifference(1, "", getattr(error, "strerror", None) or str(error))]
        if found:
            return [{"path": path, **each._asdict()} for each in found]
    return []


def _check_decisions(target: Target, _path: str, journal: ReplayedJournal) -> list[JournalDifference]:
    """List what differs in the decisions; a refused goal may have no journal."""
    refused = _load_record(path_of_port(target, "summary.json")).get("status") == REFUSED
    return journal.differences if journal.lines or not refused else []


def _check_config(_target: Target, path: str, journal: ReplayedJournal) -> list[JournalDifference]:
    """Compare the rules that the journal begins with to those recorded."""
    config = _load_record(path)
    if not journal.lines:
        return []
    begun = json.loads(journal.lines[0])
    rules = {name: begun[name] for name in ("mode", "rules", "team", "time") if name in begun}
    return [] if rules == config.get("rules") else [JournalDifference(1, str(config.get("rules")), journal.lines[0])]


def _check_trace(_target: Target, path: str, journal: ReplayedJournal) -> list[JournalDifference]:
    """Where the trace is not the one of the journal."""
    pairs = enumerate(zip_longest(_read_lines(path), journal.trace), 1)
    return [JournalDifference(number, then or "", now or "") for number, (then, now) in pairs if then != now][:1]


CHECKS: Mapping[str, Callable[[Target, str, ReplayedJournal], list[JournalDifference]]] = {
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
    """Read what a search recorded; a damaged record is a line for people."""
    try:
        found = load(path)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path}: damaged: {error}; remove it, and build it again") from error
    if not isinstance(found, dict):
        raise SpecError(f"{path}: damaged: no object; remove it, and build it again")
    return found


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
    goals: dict[str, list[tuple[str, int, Target]]] = {}
    for target in _search_targets(targets):
        _, scenario, seed, goal = target.name.partition(":")[2].split(".", 3)
        goals.setdefault(goal, []).append((scenario, int(seed), target))
    if name not in goals:
        raise SpecError(f"{run}: no goal '{name}' is searched{did_you_mean(name, goals)}")
    searches = [
        {"scenario": scenario, "seed": seed, **_load_summary(target), **_last_iteration(target)}
        for scenario, seed, target in goals[name]
        if os.path.exists(path_of_port(target, "summary.json"))
    ]
    if not searches:
        raise SpecError(f"{run}: nothing is recorded of '{name}' yet; `coppice {run}` builds it")
    return {"run": run, "goal": name, "searches": searches}


def _load_summary(target: Target) -> Record:
    path = path_of_port(target, "summary.json")
    found = _load_record(path)
    for name in ("status", "verified", "error", "to_proof", "reasons", "script", "iterations", "calls", "nodes"):
        if name not in found:
            raise SpecError(f"{path}: damaged: '{name}' is missing; remove it, and build it again")
    return found


def _last_iteration(target: Target) -> Record:
    """Where the last iteration went."""
    path = path_of_port(target, TRACE)
    lines = _read_lines(path)
    try:
        last = json.loads(lines[-1]) if lines else {"reason": "", "selected_path": []}
        return {"last": {name: last[name] for name in ("reason", "selected_path")}}
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise SpecError(f"{path}:{len(lines)}: damaged: {error}; remove it, and build it again") from error


def explain_lines(explained: Mapping[str, Any]) -> Sequence[str]:
    name = f"{explained['run']}:{explained['goal']}"
    return [line for each in explained["searches"] for line in _search_lines(name, each)]


def _search_lines(name: str, each: Mapping[str, Any]) -> Iterator[str]:
    if each["status"] == REFUSED:
        yield f"{name}, {each['scenario']}, seed {each['seed']}: not searched: {each['error']}"
        return
    how = "proved" if each["verified"] else f"{each['status']}{': ' + each['error'] if each['error'] else ''}"
    spent = each["to_proof"] or each
    cost = f"{plural(spent['iterations'], 'iteration')}, {plural(spent['calls'], 'call')}"
    yield f"{name}, {each['scenario']}, seed {each['seed']}: {how} after {cost}, {plural(each['nodes'], 'goal')}"
    yield f"  iterations: {join_names([f'{count} {reason}' for reason, count in each['reasons'].items()])}"
    yield from (f"    {line}" for line in each["script"])


def _search_targets(targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if target.stage == SEARCH]


def _read_lines(path: str) -> list[str]:
    with open(path, "rb") as file:
        return split_lines(file.read())
