"""An mcts run accounts for its decisions: each journal decided anew, each trace folded from it once more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
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
    found = [each for target in there for each in _differences(target)]
    return {
        "run": run,
        "searches": len(there),
        "missing": len(searches) - len(there),
        "decisions": sum(len(_lines(_path(target, "journal.jsonl"))) for target in there),
        "same": not found,
        "edited": sum(_edited(target) for target in there),
        "differences": found,
    }


def _differences(target: Target) -> list[Record]:
    """The first of a search."""
    for port, look in LOOKS.items():
        path = _path(target, port)
        try:
            found = look(target, path)
        except (OSError, SpecError) as error:
            found = [Difference(1, "", getattr(error, "strerror", None) or str(error))]
        if found:
            return [{"path": path, **each._asdict()} for each in found]
    return []


def _configured(target: Target, path: str) -> list[Difference]:
    """Whether the journal begins with the rules that were recorded."""
    config, lines = _loaded(path), _lines(_path(target, "journal.jsonl"))
    if not lines:
        return []
    begun = json.loads(lines[0])
    rules = {name: begun[name] for name in ("mode", "rules", "team", "time") if name in begun}
    return [] if rules == config.get("rules") else [Difference(1, str(config.get("rules")), lines[0])]


def _decided(target: Target, path: str) -> list[Difference]:
    """Of a goal that was refused there is nothing to be decided."""
    lines = _lines(path)
    refused = _loaded(_path(target, "summary.json")).get("status") == REFUSED
    return decided_again(lines) if lines or not refused else []


def _folded(target: Target, path: str) -> list[Difference]:
    """Where the trace is not the one of the journal."""
    journal = _lines(_path(target, "journal.jsonl"))
    pairs = enumerate(zip_longest(_lines(path), traced(journal) if journal else []), 1)
    return [Difference(number, then or "", now or "") for number, (then, now) in pairs if then != now][:1]


LOOKS: Mapping[str, Callable[[Target, str], list[Difference]]] = {
    "journal.jsonl": _decided,
    "run_config.json": _configured,
    TRACE: _folded,
}


def _edited(target: Target) -> bool:
    """Was it decided by other rules or guides than the spec has today?"""
    try:
        config = _loaded(_path(target, "run_config.json"))
    except (OSError, SpecError):
        return False  # which is a difference
    return any(config.get(name) != target.params[name] for name in ("rules", "guides"))


def _loaded(path: str) -> Record:
    """What a search recorded; what is no record any more is a line for people."""
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
        {"scenario": scenario, "seed": seed, **_summary(target), **_end(target)}
        for scenario, seed, target in goals[name]
        if os.path.exists(_path(target, "summary.json"))
    ]
    if not searches:
        raise SpecError(f"{run}: nothing is recorded of '{name}' yet; `coppice {run}` builds it")
    return {"run": run, "goal": name, "searches": searches}


def _summary(target: Target) -> Record:
    path = _path(target, "summary.json")
    found = _loaded(path)
    for name in ("status", "verified", "error", "to_proof", "reasons", "script", "iterations", "calls", "nodes"):
        if name not in found:
            raise SpecError(f"{path}: damaged: '{name}' is missing; remove it, and build it again")
    return found


def _end(target: Target) -> Record:
    """Where the last iteration went."""
    path = _path(target, TRACE)
    lines = _lines(path)
    try:
        last = json.loads(lines[-1]) if lines else {"reason": "", "selected_path": []}
        return {"last": {name: last[name] for name in ("reason", "selected_path")}}
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise SpecError(f"{path}:{len(lines)}: damaged: {error}; remove it, and build it again") from error


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
