"""An mcts run accounts for its decisions: each journal decided anew, each trace folded from it once more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.banks.records import Record, load
from pipeline.core.graph import Target
from pipeline.core.retold import Difference
from pipeline.core.words import listed, plural
from pipeline.errors import SpecError, clipped, instead
from pipeline.mcts.journal import lines_of
from pipeline.mcts.outcomes import REFUSED
from pipeline.mcts.plan import SEARCH, TRACE
from pipeline.mcts.replaying import replay as decided_again
from pipeline.mcts.replaying import traced


def replay(run: str, targets: Sequence[Target]) -> Record:
    searches = _searches(targets)
    there = [target for target in searches if os.path.exists(_path(target, "journal.jsonl"))]
    if not there:
        raise SpecError(f"{run}: nothing is recorded of it yet; `coppice {run}` builds it")
    counts, differences = 0, []
    for target in there:
        lines = _lines(_path(target, "journal.jsonl"))
        counts += len(lines)
        differences += _differences(target, lines)
    return {
        "run": run,
        "searches": len(there),
        "missing": len(searches) - len(there),
        "decisions": counts,
        "same": not differences,
        "edited": sum(_edited(target) for target in there),
        "differences": differences,
    }


def _differences(target: Target, lines: Sequence[str]) -> list[Record]:
    """Of a goal that was refused there is nothing."""
    if not lines:
        return []
    path, found = _path(target, "journal.jsonl"), decided_again(lines)
    if not found:
        path, found = _path(target, TRACE), _folded(lines, _lines(_path(target, TRACE)))
    return [{"path": path, **each._asdict()} for each in found]


def _folded(journal: Sequence[str], trace: Sequence[str]) -> list[Difference]:
    """Where the trace is not the one of the journal."""
    now = traced(journal)
    for n in range(max(len(now), len(trace))):
        recorded, told = (each[n] if n < len(each) else "" for each in (trace, now))
        if recorded != told:
            return [Difference(n + 1, recorded, told)]
    return []


def _edited(target: Target) -> bool:
    """Was it decided by other rules or guides than the spec has today?"""
    config = load(_path(target, "run_config.json"))
    return any(config[name] != target.params[name] for name in ("rules", "guides"))


def agrees(replay: Mapping[str, Any]) -> bool:
    return bool(replay["same"])


def replay_lines(replay: Mapping[str, Any]) -> Sequence[str]:
    differ = [
        f"{each['path']}:{each['line']}: recorded {clipped(each['recorded'])}, decided again {clipped(each['now'])}"
        for each in replay["differences"]
    ]
    of = f"{plural(replay['decisions'], 'line')} of {plural(replay['searches'], 'journal')}"
    missing = f"; {replay['missing']} not there yet" if replay["missing"] else ""
    edited = f"; {replay['edited']} by another spec than today's" if replay["edited"] else ""
    how = f"{len(differ)} different" if differ else "the same again, and so are the traces"
    return [*differ, f"{replay['run']}: {of}: {how}{missing}{edited}"]


def explain(run: str, targets: Sequence[Target], word: str) -> Record:
    """Each search of the goal that `RUN:GOAL` names."""
    name = word.partition(":")[2]
    goals: dict[str, list[tuple[str, int, Target]]] = {}
    for target in _searches(targets):
        _, scenario, seed, goal = target.name.partition(":")[2].split(".", 3)
        goals.setdefault(goal, []).append((scenario, int(seed), target))
    if name not in goals:
        raise SpecError(f"{run}: no goal '{name}' is searched{instead(name, goals)}")
    searches = [
        {"scenario": scenario, "seed": seed, **load(_path(target, "summary.json")), **_end(target)}
        for scenario, seed, target in goals[name]
        if os.path.exists(_path(target, "summary.json"))
    ]
    if not searches:
        raise SpecError(f"{run}: nothing is recorded of '{name}' yet; `coppice {run}` builds it")
    return {"run": run, "goal": name, "searches": searches}


def _end(target: Target) -> Record:
    """Where the last iteration went."""
    lines = _lines(_path(target, TRACE))
    last = json.loads(lines[-1]) if lines else {"reason": "", "selected_path": []}
    return {"last": {name: last[name] for name in ("reason", "selected_path")}}


def explain_lines(explained: Mapping[str, Any]) -> Sequence[str]:
    name = f"{explained['run']}:{explained['goal']}"
    return [line for each in explained["searches"] for line in _told(name, each)]


def _told(name: str, each: Mapping[str, Any]) -> Iterator[str]:
    if each["status"] == REFUSED:
        yield f"{name}, {each['scenario']}, seed {each['seed']}: not searched: {each['error']}"
        return
    how = "proved" if each["verified"] else f"{each['status']}{': ' + each['error'] if each['error'] else ''}"
    spent = each["to_proof"] or each
    cost = f"{plural(spent['iterations'], 'iteration')}, {plural(spent['calls'], 'call')}"
    yield f"{name}, {each['scenario']}, seed {each['seed']}: {how} after {cost}, {plural(each['nodes'], 'goal')}"
    yield f"  iterations: {listed([f'{count} {reason}' for reason, count in each['reasons'].items()])}"
    yield from (f"    {line}" for line in each["script"])


def _searches(targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if target.stage == SEARCH]


def _path(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path


def _lines(path: str) -> list[str]:
    with open(path, "rb") as file:
        return lines_of(file.read())
