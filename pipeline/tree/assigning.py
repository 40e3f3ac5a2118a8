"""The stage that gives each slot of a depth its task, and reserves what that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.edge.job import Papers
from pipeline.tree.budget import Ceiling, Ledger, Limits, Spent
from pipeline.tree.ideas import NO_IDEA, Assignment, Ground, Task, Tried, assign
from pipeline.tree.positions import depth_of
from pipeline.tree.records import Record, load, read_text, save
from pipeline.tree.slots import Place, Slot, parse_place, parse_slot, slots_of


def hand_out(job: Papers) -> None:
    params = job.target.params
    depth = depth_of(job.target.name)
    origins = [load(path) for path in job.reads["origins"]]
    slots = slots_of(depth, len(origins), params["ideas_per_node"])
    before = load(job.reads["before"][0]) if job.reads["before"] else {"spent": {}, "tried": []}
    had = dict(zip(slots, map(load, job.reads["costs"]), strict=False))  # recorded ideas cost nothing
    spent = spent_of(before["spent"]) | {f"{slot}.idea": _cost(record) for slot, record in had.items()}
    tried = [Tried(parse_slot(slot), identity) for slot, identity in before["tried"]]
    made = assign(
        [_ground(Place(depth, n), origin) for n, origin in enumerate(origins)],
        _texts(slots, [read_text(path) for path in job.reads["ideas"]]),
        Ledger(Limits(**params["budget"]), {}, spent),
        params["dedupe_scope"],
        ideas_per_node=params["ideas_per_node"],
        ceiling=Ceiling(**params["ceiling"]),
        tried=tried,
    )
    reasons = {slot: record["why"] for slot, record in had.items()}
    made = made._replace(tasks=tuple(_with_reason(task, reasons.get(task.slot, "")) for task in made.tasks))
    for task, path in zip(made.tasks, job.writes["tasks"], strict=True):
        save(path, _task(task))
    save(job.writes["assigned"][0], _assigned(made, tried))


def _ground(place: Place, origin: Mapping[str, Any]) -> Ground:
    """An empty place has no commit; one that the search stops at is closed."""
    ancestors = tuple(map(parse_place, origin.get("ancestors", ())))
    why = origin["empty"] or origin["closed"]
    return Ground(place, "" if origin["empty"] else "there", ancestors, why)


def _texts(slots: tuple[Slot, ...], texts: list[str]) -> dict[Place, list[str]]:
    found: dict[Place, list[str]] = {}
    for slot, text in zip(slots, texts, strict=True):
        found.setdefault(slot.place, []).append(text)
    return found


def _cost(record: Mapping[str, Any]) -> Spent:
    return Spent(0, record["usd"], record["tokens"], record["seconds"])


def spent_of(record: Mapping[str, Any]) -> dict[str, Spent]:
    return {name: Spent(*amounts) for name, amounts in record.items()}


def _with_reason(task: Task, why: str) -> Task:
    """Whoever was asked for an idea may have said why there is none."""
    return task._replace(why=f"{task.why}: {why}") if task.empty == NO_IDEA and why else task


def _task(task: Task) -> Record:
    """All that an implementation has to know.  No position: the same idea on the same code is the same work."""
    return {"idea": task.idea, "empty": task.empty, "why": task.why}


def _assigned(made: Assignment, tried: list[Tried]) -> Record:
    """For people and for what comes after the depth."""
    return {
        "tasks": {str(task.slot): _listed(task) for task in made.tasks},
        "cut": [*made.cut],
        "spent": {name: [*amounts] for name, amounts in made.ledger.spent.items()},
        "reserved": sorted(made.ledger.reserved),
        "tried": [[str(each.slot), each.identity] for each in (*tried, *made.tried)],
    }


def _listed(task: Task) -> Record:
    first = str(task.duplicate_of) if task.duplicate_of else None
    return {"empty": task.empty, "why": task.why, "identity": task.identity, "duplicate_of": first}
