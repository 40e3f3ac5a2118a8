"""Targets of a run and its depths: root, protection, ideas, candidates, nodes, promotion, report, validation.

Keys of a role that decide on the answer go into parameters; keys that say how it is asked (ASIDE_KEYS) go into
`limits`; files count by their contents, as inputs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.core.cages import CAGE
from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.tree.rules.positions import ROOT, SUMMARY, VALIDATION, EvalSlot, NodePlace
from pipeline.tree.spec.model import DRY, FOLDER_BACKENDS, GIVEN, MANUAL, NONE, PATCHES, ROLES, Params
from pipeline.tree.targets.builder import Paths, TargetBuilder, cage_limits, command_files, command_params

_TREE = "{tree}"


def protect_target(draft: TargetBuilder) -> Target:
    """Records protected files when a run begins.  Files of the project are no inputs: a change is refused."""
    spec, reads = draft.spec, {"root": draft.at.of_run("root.json")}
    commands = [spec.sweep.command, *([spec.tests] if spec.tests else []), *(check.command for check in spec.checks)]
    params: dict[str, Any] = {"repo": [*spec.protect.repo], "project": [*spec.protect.project]}
    params["looked_in"] = sorted({folder for command in commands for folder in _module_folders(command.env)})
    if spec.protect.project:  # another run begins on another day
        params["run"] = spec.name
    return draft.target("protected", "protected", reads, draft.protected_reads, params, line=spec.protect.line)


def _module_folders(env: Mapping[str, str]) -> Iterator[str]:
    """Folders of the checkout, from its top on, in which Python searches for modules."""
    for part in env.get("PYTHONPATH", "").split(":"):
        path = posixpath.normpath(part.removeprefix(_TREE).lstrip("/") if part.startswith(_TREE) else part)
        if part and not path.startswith(("/", "{", "..")):
            yield "" if path == "." else path


# Keys of a role that say how it is asked, and do not change the answer.
ASIDE_KEYS = ("timeout", "retries", "price", "key_env", "pass", "outage", CAGE)
# What is read of the usage is no part of the answer; the other paths count since they always did.
ASIDE_USAGE = ("cached_tokens", "cache_write_tokens")
# Keys of a role that name files: these count by contents.
FILE_KEYS = ("prompt", "folder", "reads")


def idea_target(draft: TargetBuilder, slot: EvalSlot) -> Target:
    if str(slot) in draft.spec.given and draft.roles["ideas"]["backend"] not in (*FOLDER_BACKENDS, DRY):
        return _given_target(draft, slot)
    role = draft.roles["ideas"]
    asked = role["backend"] not in (*FOLDER_BACKENDS, DRY)
    reads: dict[str, Paths] = {"context": draft.at.of_node(slot.place, "context.json")}
    writes = {suffix: draft.at.idea(slot, suffix) for suffix in ("md", "json")}
    if asked:
        reads["before"] = [draft.at.idea(slot._replace(idea=i), "md") for i in range(slot.idea)]
        writes["calls"] = draft.at.idea(slot, "calls.jsonl")
    params: dict[str, Any] = {"role": _lasting(role), "limits": {"ideas": _aside(role), **draft.seal_limits}}
    if asked:
        params["limits"]["brief"] = draft.brief
        params |= {"constraints": draft.spec.loop.constraints, **_draw(draft, [role]), **_likeness(draft)}
    elif role["backend"] == MANUAL:
        params["slot"] = str(slot)
    else:
        params["number"] = slot.depth * draft.shape.ideas_per_node + slot.idea
    reads |= _files_of({"ideas": role})
    return draft.target(f"{slot}.idea", "idea", reads, writes, params, draft.limits(slot.place))


def _given_target(draft: TargetBuilder, slot: EvalSlot) -> Target:
    """Takes the idea that a person gave for a slot: nobody is asked, so its recipe is none of a model's answer."""
    reads = {"context": draft.at.of_node(slot.place, "context.json"), "given": draft.at.given_idea(slot)}
    writes = {suffix: draft.at.idea(slot, suffix) for suffix in ("md", "json", "calls.jsonl")}
    writes["calls"] = writes.pop("calls.jsonl")
    return draft.target(f"{slot}.idea", "idea", reads, writes, {"role": {"backend": GIVEN}}, draft.limits(slot.place))


def recorded_ideas_target(draft: TargetBuilder) -> Target:
    """Takes all ideas of a folder at once: one target reads it, however many slots there are."""
    slots = draft.shape.all_slots()
    writes = {suffix: [draft.at.idea(slot, suffix) for slot in slots] for suffix in ("md", "patch")}
    numbers = [slot.depth * draft.shape.ideas_per_node + slot.idea for slot in slots]
    return draft.target("ideas", "recorded", _files_of({"ideas": draft.roles["ideas"]}), writes, {"numbers": numbers})


def assign_target(draft: TargetBuilder, depth: int) -> Target:
    at, slots = draft.at, draft.shape.slots(depth)
    reads: dict[str, Paths] = {
        "origins": [at.of_node(place, "origin.json") for place in draft.shape.places(depth)],
        "ideas": [at.idea(slot, "md") for slot in slots],
        "costs": [at.idea(slot, "json") for slot in slots] if draft.roles["ideas"]["backend"] != PATCHES else [],
        "before": [at.of_depth(depth - 1, "promoted.json")] if depth else [],
    }
    name = PROPOSED if draft.waves.size else "task.json"
    writes = {
        "tasks": [at.of_eval(slot, name) for slot in slots],
        "assigned": at.of_depth(depth, "assigned.json"),
    }
    shape = draft.shape
    params = {**draft.budget_params(), "dedupe_scope": shape.dedupe_scope, "ideas_per_node": shape.ideas_per_node}
    params |= _likeness(draft) | ({"turns": True} if draft.waves.size else {})
    return draft.target(f"d{depth}.assign", "assign", reads, writes, params)


PROPOSED = "proposed.json"
AHEAD = "ahead/"  # the folder of what was begun before its turn


def turn_targets(draft: TargetBuilder, depth: int) -> Iterator[Target]:
    """Admit the slots of a depth one after the other.  Those of a wave that fit at their ceilings are asked for before.

    What is asked for ahead is the same work as in its turn: it is recalled then, or its calls are found."""
    at, slots, (size, can_run_ahead) = draft.at, draft.shape.slots(depth), draft.waves
    for n, slot in enumerate(slots):
        reads: dict[str, Paths] = {"proposed": at.of_eval(slot, PROPOSED), "assigned": [], "purse": [], "calls": []}
        if n:
            before = slots[n - 1]
            reads |= {"purse": at.of_eval(before, "purse.json"), "calls": at.of_eval(before, "calls.jsonl")}
        else:
            reads["assigned"] = at.of_depth(depth, "assigned.json")
        if can_run_ahead and n % size == 0:
            wave = slots[n : n + size]
            proposed = {"proposed": [at.of_eval(each, PROPOSED) for each in wave]}
            ahead = {"ahead": [at.of_eval(each, f"{AHEAD}task.json") for each in wave]}
            yield draft.target(
                f"d{depth}.wave.{n // size}", "wave", {**reads, **proposed}, ahead, draft.budget_params()
            )
        begun = ("task.json", "calls.jsonl") if can_run_ahead else ()
        reads |= {"ahead": [at.of_eval(slot, f"{AHEAD}{name}") for name in begun[:1]]}
        reads |= {"begun": [at.of_eval(slot, f"{AHEAD}{name}") for name in begun[1:]]}
        writes = {name: at.of_eval(slot, f"{name}.json") for name in ("task", "purse")}
        yield draft.target(f"{slot}.admit", "admit", reads, writes, draft.budget_params())
        if can_run_ahead:
            yield implement_target(draft, slot, "ahead")


def by_hand_target(draft: TargetBuilder, slot: EvalSlot) -> Target:
    """Takes one change made by hand: another one beside it must not cost a review of this one."""
    reads = _implement_reads(draft, slot) | _files_of({"coder": draft.roles["coder"]})
    writes = {"patch": draft.at.of_eval(slot, "by_hand.patch")}
    return draft.target(f"{slot}.change", "by_hand", reads, writes, {"slot": str(slot)})


def _implement_reads(draft: TargetBuilder, slot: EvalSlot, folder: str = "") -> dict[str, Paths]:
    return {"task": draft.at.of_eval(slot, f"{folder}task.json"), "code": draft.at.of_node(slot.place, "code.json")}


def implement_target(draft: TargetBuilder, slot: EvalSlot, step: str = "implement") -> Target:
    at, loop, folder = draft.at, draft.spec.loop, AHEAD if step == "ahead" else ""
    asked = {name: draft.roles[name] for name in ROLES[1:]}
    reads = _implement_reads(draft, slot, folder)
    ready = {PATCHES: at.idea(slot, "patch"), MANUAL: at.of_eval(slot, "by_hand.patch")}
    if asked["coder"]["backend"] in ready:
        reads["patch"] = ready[asked["coder"]["backend"]]
    if asked["planner"]["backend"] != NONE:
        reads["context"] = at.of_node(slot.place, "context.json")
    names = {"candidate": "candidate.json", "patch": "change.patch", "tree": "tree.txt", "calls": "calls.jsonl"}
    writes: dict[str, Paths] = {port: at.of_eval(slot, folder + name) for port, name in names.items()}
    if asked["reviewer"]["backend"] != NONE:
        rounds = range(1, loop.max_review_rounds + 2)
        writes["reviews"] = [at.of_eval(slot, f"{folder}review_round_{n}.md") for n in rounds]
    params: dict[str, Any] = {
        "roles": {name: _lasting(role) for name, role in asked.items()},
        "limits": {**{name: _aside(role) for name, role in asked.items()}, **draft.seal_limits},
        "max_review_rounds": loop.max_review_rounds,
        "proceed_on_max_review_rounds": loop.proceed_on_max_review_rounds,
        **_draw(draft, asked.values()),
        **({"leave_out": draft.spec.leave_out.as_params} if draft.spec.leave_out else {}),
    }
    if any(role["backend"] not in (*FOLDER_BACKENDS, DRY, NONE) for role in asked.values()):
        params["limits"] |= {"brief": draft.brief, **_test_limits(draft, asked["coder"])}
    reads |= {port: path for port, path in _files_of(asked).items() if port != "coder_folder" or "patch" not in reads}
    return draft.target(f"{slot}.{step}", "implement", reads, writes, params, draft.limits(slot.place))


def _draw(draft: TargetBuilder, roles: Iterable[Params]) -> dict[str, Any]:
    """The number of the replicate, where a model is asked: its answers are drawn anew, and nothing else."""
    asks = any(role["backend"] not in (*FOLDER_BACKENDS, DRY, NONE) for role in roles)
    return {"replicate": draft.spec.replicate} if asks and draft.spec.replicate is not None else {}


def _likeness(draft: TargetBuilder) -> dict[str, Any]:
    return {} if draft.spec.similar is None else {"similar": draft.spec.similar}


def _test_limits(draft: TargetBuilder, coder: Params) -> dict[str, Any]:
    """The tests that a coder is told of when they fail; `.test` runs them again, and it alone decides."""
    rounds = draft.spec.loop.max_test_rounds
    if draft.tests is None or not rounds or coder["backend"] in (*FOLDER_BACKENDS, DRY):
        return {}
    files = {
        port: [paths] if isinstance(paths, str) else [*paths] for port, paths in command_files(draft.tests).items()
    }
    reads = {**files, **{port: [path] for port, path in draft.protected_reads.items()}}
    tests = {"command": command_params(draft.tests), "reads": reads, "timeout": draft.tests.timeout}
    return {"tests": {**tests, "rounds": rounds, **cage_limits(draft.tests)}}


def _lasting(role: Params) -> dict[str, Any]:
    """Keys that decide on the answer."""
    found = {key: value for key, value in role.items() if key not in (*ASIDE_KEYS, *FILE_KEYS)}
    if not {*ASIDE_USAGE}.isdisjoint(found.get("usage", {})):
        found["usage"] = {name: paths for name, paths in found["usage"].items() if name not in ASIDE_USAGE}
    return {key: value for key, value in found.items() if key != "usage" or value}


def _aside(role: Params) -> dict[str, Any]:
    keys = ASIDE_KEYS if {*ASIDE_USAGE}.isdisjoint(role.get("usage", {})) else (*ASIDE_KEYS, "usage")
    return {key: value for key, value in role.items() if key in keys}


def _files_of(roles: Mapping[str, Params]) -> dict[str, Paths]:
    """Files of roles: prompts, programs, and folders that a person keeps."""
    return {f"{name}_{key}": role[key] for name, role in roles.items() for key in FILE_KEYS if key in role}


def root_target(draft: TargetBuilder) -> Target:
    """Takes the code to start from.  Of a repository it is today's commit, so another run has a target of its own."""
    repo = draft.spec.repo
    writes = {"root": draft.at.of_run("root.json"), "tree": draft.at.of_node(ROOT, "tree.txt")}
    reads: dict[str, Paths] = {"repo": repo} if draft.spec.plain else {}
    params = {"repo": repo} if draft.spec.plain else {"repo": repo, "run": draft.spec.name}
    return draft.target("root", "root", reads, writes, params)


def start_target(draft: TargetBuilder) -> Target:
    """Makes the root a node: nothing is paid for before its baseline is complete."""
    at = draft.at
    reads = {"root": at.of_run("root.json"), "csv": at.csv(ROOT)}
    writes = {name: at.of_node(ROOT, f"{name}.json") for name in ("code", "context", "origin", "node")}
    return draft.target(f"{ROOT}.node", "start", reads, writes, draft.completeness_params() | draft.budget_params())


def node_target(draft: TargetBuilder, place: NodePlace) -> Target:
    reads = {"code": draft.at.of_node(place, "code.json")}
    return draft.target(f"{place}.node", "node", reads, {"node": draft.at.of_node(place, "node.json")}, {})


def weigh_target(draft: TargetBuilder, depth: int) -> Target:
    """Weighs all ideas of a depth at once: how much luck the best may have had depends on their number."""
    at = draft.at
    reads: dict[str, Paths] = {
        "pairs": [at.of_eval(slot, "pairs.json") for slot in draft.shape.slots(depth)],
        "before": [at.of_depth(depth - 1, "weighed.json")] if depth else [],
    }
    params = {**draft.weighing_params(), "depth": depth, "slots": [str(slot) for slot in draft.shape.slots(depth)]}
    params["beam_width"] = draft.shape.beam_width  # a depth that fills it hands its alpha on to the next
    return draft.target(f"d{depth}.weigh", "weigh", reads, {"weighed": at.of_depth(depth, "weighed.json")}, params)


def promote_target(draft: TargetBuilder, depth: int) -> Target:
    at, shape, slots = draft.at, draft.shape, draft.shape.slots(depth)
    beside = ("task.json", "candidate.json", "change.patch", "calls.jsonl", "sweep.cost.json", "summary.json")
    reads: dict[str, Paths] = {"assigned": at.of_depth(depth, "assigned.json")}
    reads |= {name.partition(".")[0]: [at.of_eval(slot, name) for slot in slots] for name in beside}
    reads["test"] = [at.of_eval(slot, "test.cost.json") for slot in slots] if draft.tests else []
    reads["checks"] = [at.of_eval(slot, "checks.cost.json") for slot in slots] if draft.has_checks else []
    reads["csv"] = [at.csv(slot) for slot in slots]
    for name in ("code", "context", "origin"):
        reads[f"node_{name}"] = [at.of_node(place, f"{name}.json") for place in draft.shape.places(depth)]
    after = draft.shape.places(depth + 1)
    writes: dict[str, Paths] = {"promoted": at.of_depth(depth, "promoted.json")}
    writes |= {name: [at.of_node(place, f"{name}.json") for place in after] for name in ("code", "context", "origin")}
    writes["csv"] = [at.csv(place) for place in after]
    params = {**shape._asdict(), **draft.budget_params(), "depth": depth}
    return draft.target(f"d{depth}.promote", "promote", reads, writes, params)


def report_targets(draft: TargetBuilder) -> Iterator[Target]:
    """The summary of a search, and its validation."""
    at, config = draft.at, draft.run_config()
    if cages := draft.named_cages():
        config = {**config, LIMITS: {"cages_asked": cages}}
    reads = {
        "promoted": [at.of_depth(depth, "promoted.json") for depth in draft.shape.depths],
        "nodes": [at.of_node(place, "node.json") for place in draft.shape.all_places()],
    }
    summary, report = {"summary": at.of_run(SUMMARY)}, {"report": at.of_run(VALIDATION)}
    yield draft.target("report", "report", reads, summary, config)
    yield draft.target("validate", "validate", summary, report, config)
