"""Targets that come by ideas and make them real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft, Params, Paths
from pipeline.tree.model import DRY, FOLDERS, MANUAL, NONE, PATCHES, ROLES
from pipeline.tree.slots import Slot

# Of a role: how it may be asked, not what comes of it.
ASIDE = ("timeout", "retries", "price", "key_env", "pass")
# And what is read of files: it counts by contents.
FILES = ("prompt", "folder", "reads")


def idea(draft: Draft, slot: Slot) -> Target:
    role = draft.roles["ideas"]
    asked = role["backend"] not in (*FOLDERS, DRY)
    reads: dict[str, Paths] = {"context": draft.at.of_node(slot.place, "context.json")}
    writes = {suffix: draft.at.idea(slot, suffix) for suffix in ("md", "json")}
    if asked:
        reads["before"] = [draft.at.idea(slot._replace(idea=i), "md") for i in range(slot.idea)]
        writes["calls"] = draft.at.idea(slot, "calls.jsonl")
    params: dict[str, Any] = {"role": _lasting(role), "limits": {"ideas": _aside(role), **draft.sealed}}
    if asked:
        params["constraints"] = draft.spec.loop.constraints
    elif role["backend"] == MANUAL:
        params["slot"] = str(slot)
    else:
        params["number"] = slot.depth * draft.spec.shape.ideas_per_node + slot.idea
    reads |= _files_of({"ideas": role})
    return draft.target(f"{slot}.idea", "idea", reads, writes, params, draft.limits(slot.place))


def recorded(draft: Draft) -> Target:
    """All ideas of a folder at once: it is looked at by one target, however many slots there are."""
    slots = [slot for depth in draft.depths for slot in draft.slots(depth)]
    writes = {suffix: [draft.at.idea(slot, suffix) for slot in slots] for suffix in ("md", "patch")}
    numbers = [slot.depth * draft.spec.shape.ideas_per_node + slot.idea for slot in slots]
    return draft.target("ideas", "recorded", _files_of({"ideas": draft.roles["ideas"]}), writes, {"numbers": numbers})


def assign(draft: Draft, depth: int) -> Target:
    at, slots = draft.at, draft.slots(depth)
    reads: dict[str, Paths] = {
        "origins": [at.of_node(place, "origin.json") for place in draft.places(depth)],
        "ideas": [at.idea(slot, "md") for slot in slots],
        "costs": [at.idea(slot, "json") for slot in slots] if draft.roles["ideas"]["backend"] != PATCHES else [],
        "before": [at.of_depth(depth - 1, "promoted.json")] if depth else [],
    }
    writes = {
        "tasks": [at.of_eval(slot, "task.json") for slot in slots],
        "assigned": at.of_depth(depth, "assigned.json"),
    }
    shape = draft.spec.shape
    params = {**draft.money(), "dedupe_scope": shape.dedupe_scope, "ideas_per_node": shape.ideas_per_node}
    return draft.target(f"d{depth}.assign", "assign", reads, writes, params)


def by_hand(draft: Draft, slot: Slot) -> Target:
    """A person's change, looked at by itself: another one beside it must not cost a review of this one."""
    at, coder = draft.at, draft.roles["coder"]
    reads = {"task": at.of_eval(slot, "task.json"), "code": at.of_node(slot.place, "code.json")}
    writes = {"patch": at.of_eval(slot, "by_hand.patch")}
    return draft.target(f"{slot}.change", "by_hand", reads | _files_of({"coder": coder}), writes, {"slot": str(slot)})


def implement(draft: Draft, slot: Slot) -> Target:
    at, loop = draft.at, draft.spec.loop
    asked = {name: draft.roles[name] for name in ROLES[1:]}
    reads: dict[str, Paths] = {"task": at.of_eval(slot, "task.json"), "code": at.of_node(slot.place, "code.json")}
    made = {PATCHES: at.idea(slot, "patch"), MANUAL: at.of_eval(slot, "by_hand.patch")}
    if asked["coder"]["backend"] in made:
        reads["patch"] = made[asked["coder"]["backend"]]
    if asked["planner"]["backend"] != NONE:
        reads["context"] = at.of_node(slot.place, "context.json")
    writes: dict[str, Paths] = {
        "candidate": at.of_eval(slot, "candidate.json"),
        "patch": at.of_eval(slot, "change.patch"),
        "tree": at.of_eval(slot, "tree.txt"),
        "calls": at.of_eval(slot, "calls.jsonl"),
    }
    if asked["reviewer"]["backend"] != NONE:
        rounds = range(1, loop.max_review_rounds + 2)
        writes["reviews"] = [at.of_eval(slot, f"review_round_{n}.md") for n in rounds]
    params: dict[str, Any] = {
        "roles": {name: _lasting(role) for name, role in asked.items()},
        "limits": {**{name: _aside(role) for name, role in asked.items()}, **draft.sealed},
        "max_review_rounds": loop.max_review_rounds,
        "proceed_on_max_review_rounds": loop.proceed_on_max_review_rounds,
    }
    reads |= {port: path for port, path in _files_of(asked).items() if port != "coder_folder" or "patch" not in reads}
    return draft.target(f"{slot}.implement", "implement", reads, writes, params, draft.limits(slot.place))


def _lasting(role: Params) -> dict[str, Any]:
    """What decides on the answer.  Files count by their contents, as inputs."""
    return {key: value for key, value in role.items() if key not in (*ASIDE, *FILES)}


def _aside(role: Params) -> dict[str, Any]:
    return {key: value for key, value in role.items() if key in ASIDE}


def _files_of(roles: Mapping[str, Params]) -> dict[str, Paths]:
    """Prompts, programs, and folders that a person keeps."""
    return {f"{name}_{key}": role[key] for name, role in roles.items() for key in FILES if key in role}
