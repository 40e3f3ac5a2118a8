"""Explain and replay of an mcts run: each journal decided again, each trace folded from it once more."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

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
    path = path_of_port(target, "journal.jsonl")
    lines, trace = split_lines(read_bytes(path)), list[str]()
    found = journal_differences(search_form(lambda record: trace.append(trace_line(record))), lines)
    try:
        refused = _load_record(path_of_port(target, "summary.json")).get("status") == REFUSED
        if refused and not lines:  # a refused goal may have no journal
            found = []
        if not found:  # the journal begins with the rules, which are recorded too
            path = path_of_port(target, "run_config.json")
            recorded, first = _load_record(path).get("rules"), json.loads(lines[0]) if lines else {}
            rules = {name: first[name] for name in ("mode", "rules", "team", "time") if name in first}
            found = [JournalDifference(1, str(recorded), lines[0])] if lines and rules != recorded else []
        if not found:
            path = path_of_port(target, TRACE)
            pairs = enumerate(zip_longest(split_lines(read_bytes(path)), trace), 1)
            found = [JournalDifference(n, then or "", now or "") for n, (then, now) in pairs if then != now]
    except (OSError, SpecError) as error:
        found = [JournalDifference(1, "", getattr(error, "strerror", None) or str(error))]
    return len(lines), [{"path": path, **each._asdict()} for each in found[:1]]


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
            found.append({"scenario": scenario, "seed": int(seed), **_load_search(target)})
    if not found:
        raise not_built(run, f"'{name}'")
    return {"run": run, "goal": name, "searches": found}


def _load_search(target: Target) -> Record:
    """Its summary, with the end and the way of its last iteration."""
    path, trace = path_of_port(target, "summary.json"), path_of_port(target, TRACE)
    summary = _load_record(path)
    with intact(path):
        for name in ("status", "verified", "error", "to_proof", "reasons", "script", "iterations", "calls", "nodes"):
            if name not in summary:
                raise KeyError(name)
    lines = split_lines(read_bytes(trace))
    with intact(f"{trace}:{len(lines)}"):
        last = json.loads(lines[-1]) if lines else {"reason": "", "selected_path": []}
        return {**summary, "last": {name: last[name] for name in ("reason", "selected_path")}}


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
