"""Targets that measure code and score it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.graph import Limits, Target
from pipeline.tree.draft import Draft, Paths, command_files, command_params
from pipeline.tree.model import PER_CONFIG, CheckCommand, Command
from pipeline.tree.positions import FIRST, HOLDOUT, REST
from pipeline.tree.slots import ROOT, Place, Slot

DRY_CONFIGS, DRY_BLOCKS = 3, 8  # where only the command knows how many there are


class Part(NamedTuple):
    """Of a sweep: the blocks that are measured at once, of the files that a record names.  Without a name it is all.

    `configs`: their ids, where the spec has them; `limit`: for a command that wants their number; `reads`: what takes
    the place of ports."""

    name: str
    blocks: Sequence[str]
    tree: str
    configs: Sequence[int] = ()
    limit: int | None = None
    reads: Mapping[str, Paths] = {}

    @property
    def target(self) -> str:
        return self.name or "sweep"

    def files(self, draft: Draft, where: Slot | Place) -> dict[str, Paths]:
        names = {"sweep": "sweep.json", "log": "sweep.log", "cost": "sweep.cost.json"}
        csv = self.record(draft, where, "results.csv") if self.name else draft.at.csv(where)
        return {"csv": csv, **{port: self.record(draft, where, name) for port, name in names.items()}}

    def record(self, draft: Draft, where: Slot | Place, name: str) -> str:
        if self.name == HOLDOUT:
            return draft.at.of_holdout(where, name)
        return _record(draft, where, f"{self.name}/{name}" if self.name else name)

    def sealed(self, draft: Draft) -> dict[str, list[str]]:
        return {} if self.name == HOLDOUT else draft.sealed

    def ports(self, draft: Draft) -> dict[str, Paths]:
        command = draft.spec.sweep.command
        sealed = {f"in.{port}": paths for port, paths in self.reads.items()}
        return {"tree": self.tree, **command_files(command), **sealed, **draft.guarded}


def test(draft: Draft, where: Slot | Place, tests: Command) -> Target:
    """Of a slot; or of the root, whose tests must pass before anything is paid for."""
    names = {"test": "test.json", "tree": "tested.txt", "log": "test.log", "cost": "test.cost.json"}
    writes = {port: _record(draft, where, name) for port, name in names.items()}
    reads = {"tree": _record(draft, where, "tree.txt"), **command_files(tests), **draft.guarded}
    params = command_params(tests) | ({"limits": draft.sealed} if draft.sealed else {})
    limits = draft.limits(_place(where), tests.timeout)
    return draft.target(f"{where}.test", "test", reads, writes, params, limits, tests.line)


def check(draft: Draft, where: Slot | Place) -> Target:
    """Does it keep off what is protected and pass all checks?  A root that does not is no ground to search from."""
    names = {"checks": "checks.json", "tree": "checked.txt", "log": "checks.log", "cost": "checks.cost.json"}
    writes = {port: _record(draft, where, name) for port, name in names.items()}
    reads: dict[str, Paths] = {"tree": _record(draft, where, "tested.txt" if draft.tests else "tree.txt")}
    for each in draft.checks:
        reads |= {f"in.{each.name}.{port}": paths for port, paths in each.command.reads.items()}
    reads |= draft.guarded
    timeouts = [each.command.timeout for each in draft.checks]
    params = {
        "checks": [_checked(each) for each in draft.checks],
        "pass": sorted({name for each in draft.checks for name in each.command.passed}),
        "limits": {"timeouts": timeouts, **draft.sealed},
    }
    longest = [limit * each.runs for limit, each in zip(timeouts, draft.checks, strict=True) if limit is not None]
    limits = draft.limits(_place(where), sum(longest) if None not in timeouts else None)
    line = draft.checks[0].command.line if draft.checks else draft.spec.protect.line
    return draft.target(f"{where}.checks", "checks", reads, writes, params, limits, line)


def _checked(each: CheckCommand) -> dict[str, Any]:
    canary = None if each.canary is None else each.canary._asdict()
    return {"name": each.name, "canary": canary, **command_params(each.command)}


def sound(draft: Draft, where: Slot | Place) -> Iterator[Target]:
    """What must have passed before a slot is measured, or the root as its baseline."""
    if draft.tests:
        yield test(draft, where, draft.tests)
    if draft.checking:
        yield check(draft, where)


def measured(draft: Draft, where: Slot | Place, part: Part) -> Iterator[Target]:
    """A sweep is one command, or one for each config."""
    if draft.spec.sweep.mode == PER_CONFIG and not draft.spec.dry_run:
        rows = [_row(draft, where, part, config) for config in part.configs]
        yield from rows
        yield _gather(draft, where, part, rows)
    else:
        yield _sweep(draft, where, part)


def whole(draft: Draft, where: Slot | Place) -> Part:
    return Part("", block_ids(draft), swept_tree(draft, where), config_ids(draft), _limit(draft))


def first(draft: Draft, where: Slot | Place) -> Part:
    assert draft.spec.cascade is not None
    return whole(draft, where)._replace(name=FIRST, blocks=block_ids(draft)[: draft.spec.cascade.blocks])


def rest(draft: Draft, where: Slot | Place) -> Part:
    """The baseline is measured by the same two commands as a candidate."""
    assert draft.spec.cascade is not None
    tree = draft.at.of_eval(where, "rest.txt") if isinstance(where, Slot) else swept_tree(draft, where)
    return whole(draft, where)._replace(name=REST, blocks=block_ids(draft)[draft.spec.cascade.blocks :], tree=tree)


def config_ids(draft: Draft) -> Sequence[int]:
    return () if draft.spec.sweep.configs is None else draft.spec.sweep.ids


def _limit(draft: Draft) -> int | None:
    sweep = draft.spec.sweep
    return sweep.grid if sweep.limit is None else sweep.limit


def _sweep(draft: Draft, where: Slot | Place, part: Part) -> Target:
    sweep, command = draft.spec.sweep, draft.spec.sweep.command
    params = {**command_params(command), **_seed(draft)}
    if "limit" in command.uses:
        params["limit"] = part.limit
    if "blocks" in command.uses:
        params["blocks"] = [*part.blocks]
    if "configs" in command.uses:
        params["configs"] = [dict((sweep.configs or ())[n]) for n in part.configs]
        params |= {"config_ids": [*part.configs]} if sweep.held else {}
    if draft.spec.dry_run:
        known = [count for count in (sweep.limit, sweep.grid) if count is not None]
        params = {"dry": {"configs": min(known, default=DRY_CONFIGS), "metrics": _metrics(draft)}}
        params["dry"] |= {"config_ids": [*part.configs]} if sweep.held else {}
        if sweep.blocks:
            ids = part.blocks or [str(n) for n in range(DRY_BLOCKS)]
            params["dry"] |= {"block": sweep.blocks.column, "blocks": [*ids]}
    keep = draft.spec.keep
    params["limits"] = {"keep": keep.failed_artifacts, "keep_checkout": keep.rejected_worktrees, **part.sealed(draft)}
    limits = _sweeping(draft, where)
    writes = part.files(draft, where)
    name = f"{where}.{part.target}"
    return draft.target(name, "sweep", part.ports(draft), writes, params, limits, command.line)


def _row(draft: Draft, where: Slot | Place, part: Part, config: int) -> Target:
    command, configs = draft.spec.sweep.command, draft.spec.sweep.configs or ()
    names = {"csv": f"rows/{config}.csv", "log": f"rows/{config}.log", "cost": f"rows/{config}.json"}
    writes = {port: part.record(draft, where, name) for port, name in names.items()}
    params = {**command_params(command), **_seed(draft), "config_id": config, "values": dict(configs[config])}
    params |= {"limits": sealed} if (sealed := part.sealed(draft)) else {}
    if draft.spec.sweep.blocks:
        params["block"] = draft.spec.sweep.blocks.column
    if "blocks" in command.uses:
        params["blocks"] = [*part.blocks]
    name = ".".join(filter(None, [str(where), part.name, "row", str(config)]))
    reads, limits = part.ports(draft), _sweeping(draft, where)
    return draft.target(name, "row", reads, writes, params, limits, command.line)


def _gather(draft: Draft, where: Slot | Place, part: Part, rows: Sequence[Target]) -> Target:
    reads = {"tree": part.tree} | {port: [dict(row.writes)[port][0] for row in rows] for port in ("csv", "log", "cost")}
    blocks = draft.spec.sweep.blocks
    columns = [*([blocks.column] if blocks else []), *_metrics(draft)]
    return draft.target(f"{where}.{part.target}", "gather", reads, part.files(draft, where), {"columns": columns})


def scored(draft: Draft, slot: Slot) -> Iterator[Target]:
    """By the means of a candidate alone; or by blocks, once all of its depth has been weighed."""
    at, rules = draft.at, draft.spec.rules
    summary = {"summary": at.of_eval(slot, "summary.json")}
    if rules.paired is None:
        yield draft.target(f"{slot}.score", "score", compared(draft, slot), summary, draft.measure())
        return
    pairs = {"pairs": at.of_eval(slot, "pairs.json")}
    yield draft.target(f"{slot}.pairs", "pair", compared(draft, slot), pairs, draft.complete())
    reads = {**pairs, "weighed": at.of_depth(slot.depth, "weighed.json")}
    yield draft.target(f"{slot}.score", "settle", reads, summary, {**draft.measure(), "slot": str(slot)})


def compared(draft: Draft, slot: Slot) -> dict[str, Paths]:
    at = draft.at
    return {
        "candidate": at.of_eval(slot, "candidate.json"),
        "test": [at.of_eval(slot, "test.json")] if draft.tests else [],
        "checks": [at.of_eval(slot, "checks.json")] if draft.checking else [],
        "sweep": at.of_eval(slot, "sweep.json"),
        "csv": at.csv(slot),
        "parent": at.csv(slot.place),
        "root": at.csv(ROOT),
    }


def _seed(draft: Draft) -> dict[str, int]:
    """Only for a command that names it: others know nothing of seeds."""
    return {} if draft.spec.sweep.seed is None else {"seed": draft.spec.sweep.seed}


def block_ids(draft: Draft) -> list[str]:
    blocks = draft.spec.sweep.blocks
    return [*blocks.ids] if blocks and blocks.ids else []


def _metrics(draft: Draft) -> list[str]:
    return [metric.name for metric in draft.spec.rules.metrics]


def _record(draft: Draft, where: Slot | Place, name: str) -> str:
    return draft.at.of_eval(where, name) if isinstance(where, Slot) else draft.at.of_node(where, name)


def swept_tree(draft: Draft, where: Slot | Place) -> str:
    return _record(draft, where, "checked.txt" if draft.checking else "tested.txt" if draft.tests else "tree.txt")


def _place(where: Slot | Place) -> Place:
    return where.place if isinstance(where, Slot) else where


def _sweeping(draft: Draft, where: Slot | Place) -> Limits:
    return draft.limits(_place(where), draft.spec.sweep.command.timeout)
