"""A tree spec as targets: a pure function of the spec, for all slots that a search can have.

What costs money or hours reads records without positions, so that its result is found again in whatever slot the same
work comes up; see `layout` for where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.graph import Limits, Ports, Target
from pipeline.tree.layout import Layout
from pipeline.tree.model import FOLDERS, MANUAL, NONE, PATCHES, PER_CONFIG, ROLES, Command, TreeSpec
from pipeline.tree.slots import ROOT, Place, Slot, places_of, slots_of

# Of a role: how it may be asked, not what comes of it.
ASIDE = ("timeout", "retries", "price", "key_env", "pass")
DRY = {"backend": "dry"}

Params = Mapping[str, Any]
Paths = str | Iterable[str]


def plan(spec: TreeSpec) -> Iterator[Target]:
    yield from _Planner(spec).targets()


class _Planner:
    def __init__(self, spec: TreeSpec) -> None:
        self.spec, self.at = spec, Layout(spec.name)
        self.roles = {name: DRY if spec.dry_run and name in ("ideas", "coder") else role for name, role in _roles(spec)}
        self.depths = range(spec.shape.max_depth)

    def targets(self) -> Iterator[Target]:
        yield self._root()
        yield from self._measured(ROOT)
        yield self._start()
        for depth in self.depths:
            if depth:
                yield from map(self._node, self._places(depth))
            yield from map(self._idea, self._slots(depth))
            yield self._assign(depth)
            for slot in self._slots(depth):
                yield from self._evaluation(slot)
            yield self._promote(depth)
        yield from map(self._node, self._places(self.depths.stop))
        yield self._report()
        yield self._validate()

    def _places(self, depth: int) -> tuple[Place, ...]:
        return places_of(depth, self.spec.shape.beam_width)

    def _slots(self, depth: int) -> tuple[Slot, ...]:
        return slots_of(depth, self.spec.shape.beam_width, self.spec.shape.ideas_per_node)

    def _target(
        self,
        name: str,
        stage: str,
        reads: Mapping[str, Paths],
        writes: Mapping[str, Paths],
        params: Params,
        limits: Limits = Limits(),
        line: int = 0,
    ) -> Target:
        return Target(
            f"{self.spec.name}:{name}", stage, _ports(reads), _ports(writes), params, limits, line or self.spec.line
        )

    def _limits(self, place: Place, timeout: float | None = None) -> Limits:
        """Of what an evaluation is made of: a place among all, and one among those of its node."""
        own = () if self.spec.per_node is None else (f"node {place.node}",)
        return Limits(timeout, self.spec.retries, ("evals", *own))

    def _root(self) -> Target:
        repo = self.spec.repo
        writes = {"root": self.at.of_run("root.json"), "tree": self.at.of_node(ROOT, "tree.txt")}
        return self._target("root", "root", {"repo": repo} if self.spec.plain else {}, writes, {"repo": repo})

    def _start(self) -> Target:
        """The node at the root: nothing is paid for before its baseline is complete."""
        at = self.at
        reads = {"root": at.of_run("root.json"), "csv": at.csv(ROOT), "sweep": at.of_node(ROOT, "sweep.json")}
        writes = {name: at.of_node(ROOT, f"{name}.json") for name in ("code", "context", "origin", "node")}
        params = {**self._measure(), **self._money(), "ideas_per_node": self.spec.shape.ideas_per_node}
        return self._target("d0.n0.node", "start", reads, writes, params)

    def _node(self, place: Place) -> Target:
        reads = {"code": self.at.of_node(place, "code.json")}
        return self._target(f"{place}.node", "node", reads, {"node": self.at.of_node(place, "node.json")}, {})

    def _idea(self, slot: Slot) -> Target:
        role = self.roles["ideas"]
        asked = role["backend"] not in (*FOLDERS, "dry")
        reads: dict[str, Paths] = {"context": self.at.of_node(slot.place, "context.json")}
        writes = {suffix: self.at.idea(slot, suffix) for suffix in ("md", "json")}
        if asked:
            reads["before"] = [self.at.idea(slot._replace(idea=i), "md") for i in range(slot.idea)]
            writes["calls"] = self.at.idea(slot, "calls.jsonl")
        if role["backend"] == PATCHES:
            writes["patch"] = self.at.idea(slot, "patch")
        params: dict[str, Any] = {"role": _lasting(role), "limits": {"ideas": _aside(role)}}
        if asked:
            params["constraints"] = self.spec.loop.constraints
        elif role["backend"] == MANUAL:
            params["slot"] = str(slot)
        else:
            params["number"] = slot.depth * self.spec.shape.ideas_per_node + slot.idea
        reads |= _files_of({"ideas": role})
        return self._target(f"{slot}.idea", "idea", reads, writes, params, self._limits(slot.place))

    def _assign(self, depth: int) -> Target:
        at, slots = self.at, self._slots(depth)
        reads: dict[str, Paths] = {
            "origins": [at.of_node(place, "origin.json") for place in self._places(depth)],
            "ideas": [at.idea(slot, "md") for slot in slots],
            "costs": [at.idea(slot, "json") for slot in slots],
            "before": [at.of_depth(depth - 1, "promoted.json")] if depth else [],
        }
        writes = {
            "tasks": [at.of_eval(slot, "task.json") for slot in slots],
            "assigned": at.of_depth(depth, "assigned.json"),
        }
        shape = self.spec.shape
        params = {**self._money(), "dedupe_scope": shape.dedupe_scope, "ideas_per_node": shape.ideas_per_node}
        return self._target(f"d{depth}.assign", "assign", reads, writes, params)

    def _evaluation(self, slot: Slot) -> Iterator[Target]:
        yield self._implement(slot)
        if self.spec.tests:
            yield self._test(slot, self.spec.tests)
        yield from self._measured(slot)
        yield self._score(slot)

    def _implement(self, slot: Slot) -> Target:
        at, loop = self.at, self.spec.loop
        asked = {name: self.roles[name] for name in ROLES[1:]}
        reads: dict[str, Paths] = {"task": at.of_eval(slot, "task.json"), "code": at.of_node(slot.place, "code.json")}
        if asked["coder"]["backend"] == PATCHES:
            reads["patch"] = at.idea(slot, "patch")
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
            "limits": {name: _aside(role) for name, role in asked.items()},
            "max_review_rounds": loop.max_review_rounds,
            "proceed_on_max_review_rounds": loop.proceed_on_max_review_rounds,
        }
        if asked["coder"]["backend"] == MANUAL:
            params["slot"] = str(slot)
        reads |= _files_of(asked)
        return self._target(f"{slot}.implement", "implement", reads, writes, params, self._limits(slot.place))

    def _test(self, slot: Slot, tests: Command) -> Target:
        writes = {
            "test": self.at.of_eval(slot, "test.json"),
            "tree": self.at.of_eval(slot, "tested.txt"),
            "log": self.at.of_eval(slot, "test.log"),
            "cost": self.at.of_eval(slot, "test.cost.json"),
        }
        reads = {"tree": self.at.of_eval(slot, "tree.txt"), **_prefixed(tests)}
        limits = self._limits(slot.place, tests.timeout)
        return self._target(f"{slot}.test", "test", reads, writes, _command(tests), limits, tests.line)

    def _measured(self, where: Slot | Place) -> Iterator[Target]:
        """The sweep of a slot, or of the root as its baseline: one command, or one for each config."""
        if self.spec.sweep.mode == PER_CONFIG and not self.spec.dry_run:
            rows = [self._row(where, config) for config in self.spec.sweep.ids]
            yield from rows
            yield self._gather(where, rows)
        else:
            yield self._sweep(where)

    def _record(self, where: Slot | Place, name: str) -> str:
        return self.at.of_eval(where, name) if isinstance(where, Slot) else self.at.of_node(where, name)

    def _swept_tree(self, where: Slot | Place) -> str:
        return self._record(where, "tested.txt" if self.spec.tests and isinstance(where, Slot) else "tree.txt")

    def _sweep(self, where: Slot | Place) -> Target:
        sweep, command = self.spec.sweep, self.spec.sweep.command
        reads = {"tree": self._swept_tree(where), **_prefixed(command)}
        params = _command(command)
        if "limit" in command.uses:
            params["limit"] = sweep.limit
        if "configs" in command.uses:
            params["configs"] = _plain(sweep.configs or ())[: sweep.limit]
        if self.spec.dry_run:
            ids = (
                range(min(sweep.limit or sweep.grid or 3, sweep.grid or 3))
                if sweep.configs
                else range(sweep.limit or 3)
            )
            params = {"dry": {"configs": len(ids), "metrics": [metric.name for metric in self.spec.rules.metrics]}}
        params["limits"] = {"keep": self.spec.keep.failed_artifacts, "keep_checkout": self.spec.keep.rejected_worktrees}
        limits = self._sweeping(where)
        return self._target(f"{where}.sweep", "sweep", reads, self._swept(where), params, limits, command.line)

    def _sweeping(self, where: Slot | Place) -> Limits:
        place = where.place if isinstance(where, Slot) else where
        return self._limits(place, self.spec.sweep.command.timeout)

    def _swept(self, where: Slot | Place) -> dict[str, Paths]:
        names = {"sweep": "sweep.json", "log": "sweep.log", "cost": "sweep.cost.json"}
        return {"csv": self.at.csv(where), **{port: self._record(where, name) for port, name in names.items()}}

    def _row(self, where: Slot | Place, config: int) -> Target:
        command, configs = self.spec.sweep.command, self.spec.sweep.configs or ()
        names = {"csv": f"rows/{config}.csv", "log": f"rows/{config}.log", "cost": f"rows/{config}.json"}
        writes = {port: self._record(where, name) for port, name in names.items()}
        reads = {"tree": self._swept_tree(where), **_prefixed(command)}
        params = {**_command(command), "config_id": config, "values": _plain(configs)[config]}
        params["metrics"] = [metric.name for metric in self.spec.rules.metrics]
        return self._target(f"{where}.row.{config}", "row", reads, writes, params, self._sweeping(where), command.line)

    def _gather(self, where: Slot | Place, rows: Sequence[Target]) -> Target:
        reads = {"tree": self._swept_tree(where)} | {
            port: [dict(row.writes)[port][0] for row in rows] for port in ("csv", "log", "cost")
        }
        return self._target(f"{where}.sweep", "gather", reads, self._swept(where), {})

    def _score(self, slot: Slot) -> Target:
        at = self.at
        reads: dict[str, Paths] = {
            "candidate": at.of_eval(slot, "candidate.json"),
            "test": [at.of_eval(slot, "test.json")] if self.spec.tests else [],
            "sweep": at.of_eval(slot, "sweep.json"),
            "csv": at.csv(slot),
            "parent": at.csv(slot.place),
            "root": at.csv(ROOT),
        }
        return self._target(
            f"{slot}.score", "score", reads, {"summary": at.of_eval(slot, "summary.json")}, self._measure()
        )

    def _promote(self, depth: int) -> Target:
        at, shape, slots = self.at, self.spec.shape, self._slots(depth)
        beside = ("task.json", "candidate.json", "change.patch", "calls.jsonl", "sweep.cost.json", "summary.json")
        reads: dict[str, Paths] = {"assigned": at.of_depth(depth, "assigned.json")}
        reads |= {name.partition(".")[0]: [at.of_eval(slot, name) for slot in slots] for name in beside}
        reads["test"] = [at.of_eval(slot, "test.cost.json") for slot in slots] if self.spec.tests else []
        reads["csv"] = [at.csv(slot) for slot in slots]
        for name in ("code", "context", "origin"):
            reads[f"node_{name}"] = [at.of_node(place, f"{name}.json") for place in self._places(depth)]
        after = self._places(depth + 1)
        writes: dict[str, Paths] = {"promoted": at.of_depth(depth, "promoted.json")}
        writes |= {
            name: [at.of_node(place, f"{name}.json") for place in after] for name in ("code", "context", "origin")
        }
        writes["csv"] = [at.csv(place) for place in after]
        params = {**shape._asdict(), **self._money(), "depth": depth}
        return self._target(f"d{depth}.promote", "promote", reads, writes, params)

    def _report(self) -> Target:
        reads: dict[str, Paths] = {"promoted": [self.at.of_depth(depth, "promoted.json") for depth in self.depths]}
        places = [place for depth in range(self.depths.stop + 1) for place in self._places(depth)]
        reads["nodes"] = [self.at.of_node(place, "node.json") for place in places]
        return self._target("report", "report", reads, {"summary": self.at.of_run("TREE_SUMMARY.md")}, self._told())

    def _validate(self) -> Target:
        reads = {"summary": self.at.of_run("TREE_SUMMARY.md")}
        return self._target(
            "validate", "validate", reads, {"report": self.at.of_run("VALIDATION_REPORT.md")}, self._told()
        )

    def _told(self) -> Params:
        """The run's configuration, as the manifest has it."""
        spec = self.spec
        return {
            "repo": spec.repo,
            **spec.shape._asdict(),
            **self._money(),
            **self._measure(),
            "max_review_rounds": spec.loop.max_review_rounds,
            "proceed_on_max_review_rounds": spec.loop.proceed_on_max_review_rounds,
            "backends": {name: role["backend"] for name, role in self.roles.items()},
            "tests": spec.tests is not None,
            "sweep_mode": spec.sweep.mode,
            "max_parallel_evals": spec.parallel,
            "max_parallel_per_node": spec.per_node,
            "eval_retries": spec.retries,
            "keep": spec.keep._asdict(),
            "dry_run": spec.dry_run,
        }

    def _measure(self) -> dict[str, Any]:
        rules, sweep = self.spec.rules, self.spec.sweep
        metrics = [metric._asdict() for metric in rules.metrics]
        return {
            "primary": rules.primary,
            "metrics": metrics,
            "score": rules.constants._asdict(),
            "sweep_config_limit": sweep.limit,
            "grid": sweep.grid,
        }

    def _money(self) -> dict[str, Any]:
        return {"budget": self.spec.budget._asdict(), "ceiling": self.spec.ceiling._asdict()}


def _ports(ports: Mapping[str, Paths]) -> Ports:
    return tuple((name, (paths,) if isinstance(paths, str) else tuple(paths)) for name, paths in ports.items())


def _roles(spec: TreeSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ROLES:
        role = spec.loop.roles[name]
        yield name, {"backend": NONE} if spec.dry_run and name in ("planner", "reviewer") else role


def _lasting(role: Params) -> dict[str, Any]:
    """What decides on the answer.  Files count by their contents, as inputs."""
    return {key: value for key, value in role.items() if key not in (*ASIDE, "prompt", "folder")}


def _aside(role: Params) -> dict[str, Any]:
    return {key: value for key, value in role.items() if key in ASIDE}


def _files_of(roles: Mapping[str, Params]) -> dict[str, Paths]:
    """Prompts and folders that a person keeps."""
    found = {f"{name}_{key}": role[key] for name, role in roles.items() for key in ("prompt", "folder") if key in role}
    return {
        port: path for port, path in found.items() if port != "coder_folder" or roles["coder"]["backend"] != PATCHES
    }


def _command(command: Command) -> dict[str, Any]:
    return {**command.words, "env": dict(command.env), "pass": [*command.passed]}


def _prefixed(command: Command) -> dict[str, Paths]:
    """The ports of a command apart from our own."""
    return {f"in.{port}": paths for port, paths in command.reads.items()}


def _plain(configs: Iterable[Params]) -> list[dict[str, Any]]:
    return [dict(config) for config in configs]
