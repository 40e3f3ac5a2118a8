"""Targets that measure and score: tests, checks, sweeps and their parts, the cascade, the holdout.

A sweep is one command, or one for each config with a target that gathers the rows.  SweepPart is a sweep or a part of
one: the first blocks, the rest, the holdout.  Holdout targets are in no build of the search: they are planned once the
seal is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.graph import Limits, Target
from pipeline.tree.rules.positions import FIRST_PART, HOLDOUT_PART, REST_PART, ROOT, EvalSlot, NodePlace
from pipeline.tree.spec.model import PER_CONFIG, Cascade, CheckCommand, CheckoutCommand, HoldoutKeys
from pipeline.tree.targets.builder import Paths, TargetBuilder, command_files, command_params

DRY_CONFIGS, DRY_BLOCKS = 3, 8  # where only the command knows how many there are


class SweepPart(NamedTuple):
    """A part of a sweep: the blocks that are measured at once, of the files in `tree`; all of them without a name.

    `configs`: their ids, where the spec has them; `limit`: for a command that wants their number; `reads`: files in
    place of ports."""

    name: str
    blocks: Sequence[str]
    tree: str
    configs: Sequence[int] = ()
    limit: int | None = None
    reads: Mapping[str, Paths] = {}

    @property
    def target(self) -> str:
        return self.name or "sweep"

    def files(self, draft: TargetBuilder, where: EvalSlot | NodePlace) -> dict[str, Paths]:
        names = {"sweep": "sweep.json", "log": "sweep.log", "cost": "sweep.cost.json"}
        csv = self.record(draft, where, "results.csv") if self.name else draft.at.csv(where)
        return {"csv": csv, **{port: self.record(draft, where, name) for port, name in names.items()}}

    def record(self, draft: TargetBuilder, where: EvalSlot | NodePlace, name: str) -> str:
        if self.name == HOLDOUT_PART:
            return draft.at.of_holdout(where, name)
        return _record(draft, where, f"{self.name}/{name}" if self.name else name)

    def seal_limits(self, draft: TargetBuilder) -> dict[str, list[str]]:
        return {} if self.name == HOLDOUT_PART else draft.seal_limits

    def ports(self, draft: TargetBuilder) -> dict[str, Paths]:
        command = draft.spec.sweep.command
        sealed = {f"in.{port}": paths for port, paths in self.reads.items()}
        return {"tree": self.tree, **command_files(command), **sealed, **draft.protected_reads}


def test_target(draft: TargetBuilder, where: EvalSlot | NodePlace, tests: CheckoutCommand) -> Target:
    """Tests a slot; or the root, whose tests must pass before anything is paid for."""
    names = {"test": "test.json", "tree": "tested.txt", "log": "test.log", "cost": "test.cost.json"}
    writes = {port: _record(draft, where, name) for port, name in names.items()}
    reads = {"tree": _record(draft, where, "tree.txt"), **command_files(tests), **draft.protected_reads}
    params = command_params(tests) | ({"limits": draft.seal_limits} if draft.seal_limits else {})
    limits = draft.limits(_place(where), tests.timeout)
    return draft.target(f"{where}.test", "test", reads, writes, params, limits, tests.line)


def check_target(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Target:
    """Checks a slot against what is protected and by the checks of the spec; or the root, which must pass them."""
    names = {"checks": "checks.json", "tree": "checked.txt", "log": "checks.log", "cost": "checks.cost.json"}
    writes = {port: _record(draft, where, name) for port, name in names.items()}
    reads: dict[str, Paths] = {"tree": _record(draft, where, "tested.txt" if draft.tests else "tree.txt")}
    for each in draft.checks:
        reads |= {f"in.{each.name}.{port}": paths for port, paths in each.command.reads.items()}
    reads |= draft.protected_reads
    timeouts = [each.command.timeout for each in draft.checks]
    params = {
        "checks": [_check_params(each) for each in draft.checks],
        "pass": sorted({name for each in draft.checks for name in each.command.passed}),
        "limits": {"timeouts": timeouts, **draft.seal_limits},
    }
    longest = [limit * each.runs for limit, each in zip(timeouts, draft.checks, strict=True) if limit is not None]
    limits = draft.limits(_place(where), sum(longest) if None not in timeouts else None)
    line = draft.checks[0].command.line if draft.checks else draft.spec.protect.line
    return draft.target(f"{where}.checks", "checks", reads, writes, params, limits, line)


def _check_params(each: CheckCommand) -> dict[str, Any]:
    canary = None if each.canary is None else each.canary._asdict()
    return {"name": each.name, "canary": canary, **command_params(each.command)}


def precheck_targets(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Iterator[Target]:
    """Tests and checks that must pass before a slot is measured, or the root as its baseline."""
    if draft.tests:
        yield test_target(draft, where, draft.tests)
    if draft.has_checks:
        yield check_target(draft, where)


def sweep_targets(draft: TargetBuilder, where: EvalSlot | NodePlace, part: SweepPart) -> Iterator[Target]:
    """A sweep as one command; or a command for each config, and a target that gathers the rows."""
    if draft.spec.sweep.mode == PER_CONFIG and not draft.spec.dry_run:
        rows = [_row_target(draft, where, part, config) for config in part.configs]
        yield from rows
        yield _gather_target(draft, where, part, rows)
    else:
        yield _sweep_target(draft, where, part)


def whole_sweep(draft: TargetBuilder, where: EvalSlot | NodePlace) -> SweepPart:
    sweep = draft.spec.sweep
    limit = sweep.grid if sweep.limit is None else sweep.limit
    return SweepPart("", block_ids(draft), tree_to_sweep(draft, where), config_ids(draft), limit)


def first_part(draft: TargetBuilder, where: EvalSlot | NodePlace) -> SweepPart:
    assert draft.spec.cascade is not None
    return whole_sweep(draft, where)._replace(name=FIRST_PART, blocks=block_ids(draft)[: draft.spec.cascade.blocks])


def rest_part(draft: TargetBuilder, where: EvalSlot | NodePlace) -> SweepPart:
    """The part after the first blocks; the baseline is measured by the same two commands as a candidate."""
    assert draft.spec.cascade is not None
    tree = draft.at.of_eval(where, "rest.txt") if isinstance(where, EvalSlot) else tree_to_sweep(draft, where)
    return whole_sweep(draft, where)._replace(
        name=REST_PART, blocks=block_ids(draft)[draft.spec.cascade.blocks :], tree=tree
    )


def config_ids(draft: TargetBuilder) -> Sequence[int]:
    return () if draft.spec.sweep.configs is None else draft.spec.sweep.ids


def _sweep_target(draft: TargetBuilder, where: EvalSlot | NodePlace, part: SweepPart) -> Target:
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
        params = {"dry": {"configs": min(known, default=DRY_CONFIGS), "metrics": _metric_names(draft)}}
        params["dry"] |= {"config_ids": [*part.configs]} if sweep.held else {}
        if sweep.blocks:
            ids = part.blocks or [str(n) for n in range(DRY_BLOCKS)]
            params["dry"] |= {"block": sweep.blocks.column, "blocks": [*ids]}
    keep = draft.spec.keep
    params["limits"] = {
        "keep": keep.failed_artifacts,
        "keep_checkout": keep.rejected_worktrees,
        **part.seal_limits(draft),
    }
    writes, limits = part.files(draft, where), _sweep_limits(draft, where)
    return draft.target(f"{where}.{part.target}", "sweep", part.ports(draft), writes, params, limits, command.line)


def _row_target(draft: TargetBuilder, where: EvalSlot | NodePlace, part: SweepPart, config: int) -> Target:
    command, configs = draft.spec.sweep.command, draft.spec.sweep.configs or ()
    names = {"csv": f"rows/{config}.csv", "log": f"rows/{config}.log", "cost": f"rows/{config}.json"}
    writes = {port: part.record(draft, where, name) for port, name in names.items()}
    params = {**command_params(command), **_seed(draft), "config_id": config, "values": dict(configs[config])}
    params |= {"limits": sealed} if (sealed := part.seal_limits(draft)) else {}
    if draft.spec.sweep.blocks:
        params["block"] = draft.spec.sweep.blocks.column
    if "blocks" in command.uses:
        params["blocks"] = [*part.blocks]
    name = ".".join(filter(None, [str(where), part.name, "row", str(config)]))
    reads, limits = part.ports(draft), _sweep_limits(draft, where)
    return draft.target(name, "row", reads, writes, params, limits, command.line)


def _gather_target(
    draft: TargetBuilder, where: EvalSlot | NodePlace, part: SweepPart, rows: Sequence[Target]
) -> Target:
    reads = {"tree": part.tree} | {port: [dict(row.writes)[port][0] for row in rows] for port in ("csv", "log", "cost")}
    blocks = draft.spec.sweep.blocks
    columns = [*([blocks.column] if blocks else []), *_metric_names(draft)]
    return draft.target(f"{where}.{part.target}", "gather", reads, part.files(draft, where), {"columns": columns})


def score_targets(draft: TargetBuilder, slot: EvalSlot) -> Iterator[Target]:
    """Score a slot: by means alone; or by blocks, once all of its depth has been weighed."""
    at, rules = draft.at, draft.spec.rules
    summary = {"summary": at.of_eval(slot, "summary.json")}
    if rules.paired is None:
        yield draft.target(f"{slot}.score", "score", comparison_reads(draft, slot), summary, draft.scoring_params())
        return
    pairs = {"pairs": at.of_eval(slot, "pairs.json")}
    yield draft.target(f"{slot}.pairs", "pair", comparison_reads(draft, slot), pairs, draft.completeness_params())
    reads = {**pairs, "weighed": at.of_depth(slot.depth, "weighed.json")}
    yield draft.target(f"{slot}.score", "settle", reads, summary, {**draft.scoring_params(), "slot": str(slot)})


def comparison_reads(draft: TargetBuilder, slot: EvalSlot) -> dict[str, Paths]:
    at = draft.at
    return {
        "candidate": at.of_eval(slot, "candidate.json"),
        "test": [at.of_eval(slot, "test.json")] if draft.tests else [],
        "checks": [at.of_eval(slot, "checks.json")] if draft.has_checks else [],
        "sweep": at.of_eval(slot, "sweep.json"),
        "csv": at.csv(slot),
        "parent": at.csv(slot.place),
        "root": at.csv(ROOT),
    }


def _seed(draft: TargetBuilder) -> dict[str, int]:
    """The seed, for a command that names it."""
    return {} if draft.spec.sweep.seed is None else {"seed": draft.spec.sweep.seed}


def block_ids(draft: TargetBuilder) -> list[str]:
    blocks = draft.spec.sweep.blocks
    return [*blocks.ids] if blocks and blocks.ids else []


def _metric_names(draft: TargetBuilder) -> list[str]:
    return [metric.name for metric in draft.spec.rules.metrics]


def _record(draft: TargetBuilder, where: EvalSlot | NodePlace, name: str) -> str:
    return draft.at.of_eval(where, name) if isinstance(where, EvalSlot) else draft.at.of_node(where, name)


def tree_to_sweep(draft: TargetBuilder, where: EvalSlot | NodePlace) -> str:
    return _record(draft, where, "checked.txt" if draft.has_checks else "tested.txt" if draft.tests else "tree.txt")


def _place(where: EvalSlot | NodePlace) -> NodePlace:
    return where.place if isinstance(where, EvalSlot) else where


def _sweep_limits(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Limits:
    return draft.limits(_place(where), draft.spec.sweep.command.timeout)


def cascade_baseline_targets(draft: TargetBuilder) -> Iterator[Target]:
    for part in (first_part, rest_part):
        yield from sweep_targets(draft, ROOT, part(draft, ROOT))
    yield _join_parts(draft, ROOT)


def early_targets(draft: TargetBuilder, slot: EvalSlot, cascade: Cascade) -> Iterator[Target]:
    """Measure the first blocks of an idea and pair them with its parent's."""
    part = first_part(draft, slot)
    yield from sweep_targets(draft, slot, part)
    files = part.files(draft, slot)
    reads = {**comparison_reads(draft, slot), "sweep": files["sweep"], "csv": files["csv"]}
    pairs, params = part.record(draft, slot, "pairs.json"), {**draft.completeness_params(), "first": cascade.blocks}
    yield draft.target(f"{slot}.early", "pair", reads, {"pairs": pairs}, params)


def cascade_target(draft: TargetBuilder, depth: int, keys: Cascade) -> Target:
    slots = draft.slots(depth)
    reads: dict[str, Paths] = {
        "pairs": [first_part(draft, slot).record(draft, slot, "pairs.json") for slot in slots],
        "tree": [tree_to_sweep(draft, slot) for slot in slots],
    }
    writes: dict[str, Paths] = {
        "cascade": draft.at.of_depth(depth, "cascade.json"),
        "tree": [rest_part(draft, slot).tree for slot in slots],
    }
    params = {**draft.weighing_params(), "first": keys.blocks, "keep": keys.keep, "slots": [*map(str, slots)]}
    return draft.target(f"d{depth}.cascade", "cascade", reads, writes, params)


def late_targets(draft: TargetBuilder, slot: EvalSlot) -> Iterator[Target]:
    yield from sweep_targets(draft, slot, rest_part(draft, slot))
    yield _join_parts(draft, slot)


def _join_parts(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Target:
    assert draft.spec.cascade is not None
    parts = [part(draft, where).files(draft, where) for part in (first_part, rest_part)]
    writes = whole_sweep(draft, where).files(draft, where)
    reads = {port: [str(part[port]) for part in parts] for port in writes}
    return draft.target(f"{where}.sweep", "join", reads, writes, {"first": draft.spec.cascade.blocks})


class FinalNode(NamedTuple):
    """The node that the search ended with, and the evaluation that it comes from."""

    place: NodePlace
    source: EvalSlot


def holdout_targets(draft: TargetBuilder, held: HoldoutKeys, final: FinalNode) -> Iterator[Target]:
    """Measure the start and the final node by the same command as in the search."""
    parts = {ROOT: _holdout_part(draft, held, ROOT), final.place: _holdout_part(draft, held, final.source)}
    for where, part in parts.items():
        yield from sweep_targets(draft, where, part)
    files = [part.files(draft, where) for where, part in parts.items()]
    reads = {"root": files[0]["csv"], "own": files[1]["csv"]}
    writes = {"verdict": draft.at.of_run("holdout.json")}
    yield draft.target("holdout", "holdout", reads, writes, _holdout_params(draft, held, final), line=held.line)


def _holdout_part(draft: TargetBuilder, held: HoldoutKeys, where: NodePlace | EvalSlot) -> SweepPart:
    """The holdout of a node; a command that wants a number of configs measures those before it too."""
    tree, limit = tree_to_sweep(draft, where), max(held.configs) + 1 if held.configs else None
    sweep = draft.spec.sweep
    blocks, ids = held.blocks or block_ids(draft), held.configs or config_ids(draft)
    return SweepPart(HOLDOUT_PART, blocks, tree, ids, limit or sweep.limit or sweep.grid, held.reads)


def _holdout_params(draft: TargetBuilder, held: HoldoutKeys, final: FinalNode) -> dict[str, Any]:
    params = draft.weighing_params() if draft.spec.rules.paired else draft.scoring_params()
    if held.blocks:
        params["blocks"] = {**params["blocks"], "ids": [*held.blocks]}
    if held.configs:
        params |= {"config_ids": [*held.configs], "sweep_config_limit": None}
    return {**params, "final": str(final.place), "source": str(final.source)}
