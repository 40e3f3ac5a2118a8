"""Targets that measure and score: tests, checks, sweeps and their parts, the cascade, the holdout.

A sweep is one command, or one for each config with a target that gathers the rows.  SweepPart is a sweep or a part of
one: the first blocks, the rest, the holdout.  Holdout targets are in no build of the search: they are planned once the
seal is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.cages import CAGES
from pipeline.core.graph import Target
from pipeline.tree.rules.positions import FIRST_PART, HOLDOUT_PART, REST_PART, ROOT, EvalSlot, NodePlace
from pipeline.tree.spec.model import (
    ANSWER,
    JUDGE,
    JUDGE_TREE,
    PER_CONFIG,
    Cascade,
    CheckoutCommand,
    GivenBaseline,
    HoldoutKeys,
    Params,
)
from pipeline.tree.targets.builder import Paths, TargetBuilder, cage_limits, command_files, command_params

DRY_CONFIGS, DRY_BLOCKS = 3, 8  # where only the command knows how many there are


class SweepPart(NamedTuple):
    """A sweep at a position or a part of it: the blocks that are measured at once, of the files in `tree`.

    `name`: empty for all blocks; `configs`: their ids, where the spec has them; `limit`: for a command that wants their
    number; `reads`: files in place of ports."""

    draft: TargetBuilder
    where: EvalSlot | NodePlace
    name: str
    blocks: Sequence[str]
    tree: str
    configs: Sequence[int] = ()
    limit: int | None = None
    reads: Mapping[str, Paths] = {}

    def record(self, name: str) -> str:
        if self.name == HOLDOUT_PART:
            return self.draft.at.of_holdout(self.where, name)
        return self.draft.at.of_position(self.where, f"{self.name}/{name}" if self.name else name)

    @property
    def files(self) -> dict[str, Paths]:
        names = {"sweep": "sweep.json", "log": "sweep.log", "cost": "sweep.cost.json"}
        csv = self.record("results.csv") if self.name else self.draft.at.csv(self.where)
        return {"csv": csv, **{port: self.record(name) for port, name in names.items()}}

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the command, or of those of two, and the seed where one names it."""
        sweep = self.draft.spec.sweep
        commands = command_params(sweep.command)
        if sweep.judge:
            commands = {ANSWER: commands, JUDGE: command_params(sweep.judge)}
            commands["pass"] = sorted({name for command in sweep.commands for name in command.passed})
        return {**commands, **({} if sweep.seed is None else {"seed": sweep.seed})}

    @property
    def seal_limits(self) -> dict[str, Any]:
        """Limits about files and cages, and the time limit of each of two commands."""
        sweep = self.draft.spec.sweep
        hidden = self.draft.truth_limits(self.reads) if self.name == HOLDOUT_PART else self.draft.seal_limits
        if self.draft.spec.dry_run:
            return {**hidden}
        if sweep.judge is None:
            return {**hidden, **cage_limits(sweep.command)}
        cages = {part: command.cage.record for part, command in zip((ANSWER, JUDGE), sweep.commands, strict=True)}
        cages = {CAGES: cages} if any(cages.values()) else {}
        return {**hidden, "timeouts": {ANSWER: sweep.command.timeout, JUDGE: sweep.judge.timeout}, **cages}

    @property
    def rows(self) -> int:
        """The number of rows of a whole sweep; 0 where only the command knows it."""
        sweep = self.draft.spec.sweep
        configs = self.limit if sweep.grid is None and "limit" in sweep.uses else sweep.grid
        return self.rows_of(configs or 0)

    def rows_of(self, configs: int) -> int:
        return configs * (len(self.blocks) if self.draft.spec.sweep.blocks else 1)

    @property
    def _command_reads(self) -> dict[str, Paths]:
        """Ports of the command; of two, those of the judge too, and the files that it runs in: the root's."""
        draft, sweep = self.draft, self.draft.spec.sweep
        sealed = {f"in.{port}": paths for port, paths in self.reads.items() if port in sweep.command.reads}
        ports = {**command_files(sweep.command), **sealed}
        if sweep.judge is None:
            return ports
        sealed = {f"{JUDGE}.{port}": paths for port, paths in self.reads.items() if port in sweep.judge.reads}
        judge = {**command_files(sweep.judge, JUDGE), **sealed}
        return {**ports, **judge, JUDGE_TREE: draft.at.of_position(ROOT, "tree.txt")}

    def target(self, stage: str, writes: Mapping[str, Paths], params: Params, config: int | None = None) -> Target:
        """A target that runs the command of the sweep."""
        draft, sweep = self.draft, self.draft.spec.sweep
        name = self.name or "sweep" if config is None else ".".join(filter(None, [self.name, "row", str(config)]))
        reads = {"tree": self.tree, **self._command_reads, **draft.protected_reads}
        timeouts = [command.timeout for command in sweep.commands if command.timeout is not None]
        limits = draft.limits(self.where, sum(timeouts) if len(timeouts) == len(sweep.commands) else None)
        limits = limits._replace(exclusive=sweep.exclusive and not draft.spec.dry_run)
        return draft.target(f"{self.where}.{name}", stage, reads, writes, params, limits, sweep.command.line)


def test_target(draft: TargetBuilder, where: EvalSlot | NodePlace, tests: CheckoutCommand) -> Target:
    """Tests a slot; or the root, whose tests must pass before anything is paid for."""
    reads = {"tree": draft.at.of_position(where, "tree.txt"), **command_files(tests), **draft.protected_reads}
    own = {**draft.seal_limits, **cage_limits(tests)}
    params = command_params(tests) | ({"limits": own} if own else {})
    limits = draft.limits(where, tests.timeout)
    return draft.target(f"{where}.test", "test", reads, _step_files(draft, where, "test"), params, limits, tests.line)


def check_target(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Target:
    """Checks a slot against what is protected and by the checks of the spec; or the root, which must pass them."""
    writes = _step_files(draft, where, "checks")
    reads: dict[str, Paths] = {"tree": draft.at.of_position(where, "tested.txt" if draft.tests else "tree.txt")}
    reads |= {f"in.{each.name}.{port}": paths for each in draft.checks for port, paths in each.command.reads.items()}
    timeouts = [each.command.timeout for each in draft.checks]
    params: dict[str, Any] = {
        "checks": [
            {"name": each.name, "canary": each.canary and each.canary._asdict(), **command_params(each.command)}
            for each in draft.checks
        ],
        "pass": sorted({name for each in draft.checks for name in each.command.passed}),
        "limits": {"timeouts": timeouts, **draft.seal_limits},
    }
    cages = {each.name: each.command.cage.record for each in draft.checks}
    if any(cages.values()):
        params["limits"][CAGES] = cages
    runs = (1 + (each.canary.cuts if each.canary else 0) for each in draft.checks)
    longest = [limit * count for limit, count in zip(timeouts, runs, strict=True) if limit is not None]
    limits = draft.limits(where, sum(longest) if None not in timeouts else None)
    line = draft.checks[0].command.line if draft.checks else draft.spec.protect.line
    return draft.target(f"{where}.checks", "checks", reads | draft.protected_reads, writes, params, limits, line)


def _step_files(draft: TargetBuilder, where: EvalSlot | NodePlace, step: str) -> dict[str, Paths]:
    tree = f"{step.removesuffix('s')}ed.txt"
    names = {step: f"{step}.json", "tree": tree, "log": f"{step}.log", "cost": f"{step}.cost.json"}
    return {port: draft.at.of_position(where, name) for port, name in names.items()}


def precheck_targets(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Iterator[Target]:
    """Tests and checks that must pass before a slot is measured, or the root as its baseline."""
    if draft.tests:
        yield test_target(draft, where, draft.tests)
    if draft.has_checks:
        yield check_target(draft, where)


def sweep_targets(part: SweepPart) -> Iterator[Target]:
    """A sweep as one command; or a command for each config, and a target that gathers the rows."""
    draft, spec = part.draft, part.draft.spec
    if spec.sweep.mode != PER_CONFIG or spec.dry_run:
        yield _sweep_target(part)
        return
    rows = [_row_target(part, config) for config in part.configs]
    yield from rows
    reads = {"tree": part.tree} | {port: [dict(row.writes)[port][0] for row in rows] for port in ("csv", "log", "cost")}
    columns = [*([spec.sweep.blocks.column] if spec.sweep.blocks else []), *(m.name for m in spec.rules.metrics)]
    yield draft.target(f"{part.where}.{part.name or 'sweep'}", "gather", reads, part.files, {"columns": columns})


def whole_sweep(draft: TargetBuilder, where: EvalSlot | NodePlace) -> SweepPart:
    sweep = draft.spec.sweep
    blocks = (sweep.blocks and sweep.blocks.ids) or ()
    configs = () if sweep.configs is None else sweep.ids
    name = "checked.txt" if draft.has_checks else "tested.txt" if draft.tests else "tree.txt"
    limit = sweep.grid if sweep.limit is None else sweep.limit
    return SweepPart(draft, where, "", blocks, draft.at.of_position(where, name), configs, limit)


def given_target(draft: TargetBuilder, given: GivenBaseline) -> Target:
    """Takes the root's results from a file, in place of its sweep."""
    whole = whole_sweep(draft, ROOT)
    reads: dict[str, Paths] = {"tree": whole.tree, "given": given.path}
    return draft.target(f"{ROOT}.sweep", "given", reads, whole.files, draft.completeness_params(), line=given.line)


def cascade_parts(draft: TargetBuilder, where: EvalSlot | NodePlace) -> tuple[SweepPart, SweepPart]:
    """The first blocks and the rest; the baseline is measured by the same two commands as a candidate."""
    assert draft.spec.cascade is not None
    whole, first = whole_sweep(draft, where), draft.spec.cascade.blocks
    tree = draft.at.of_eval(where, "rest.txt") if isinstance(where, EvalSlot) else whole.tree
    rest = whole._replace(name=REST_PART, blocks=whole.blocks[first:], tree=tree)
    return whole._replace(name=FIRST_PART, blocks=whole.blocks[:first]), rest


def _sweep_target(part: SweepPart) -> Target:
    spec, uses = part.draft.spec, part.draft.spec.sweep.uses
    sweep, held = spec.sweep, {"config_ids": [*part.configs]} if spec.sweep.held else {}
    if spec.dry_run:
        counts = [count for count in (sweep.limit, sweep.grid) if count is not None]
        dry = {"configs": min(counts, default=DRY_CONFIGS), "metrics": [m.name for m in spec.rules.metrics], **held}
        if sweep.blocks:
            dry |= {"block": sweep.blocks.column, "blocks": [*(part.blocks or map(str, range(DRY_BLOCKS)))]}
        params: dict[str, Any] = {"dry": dry}
    else:
        params = part.params
        if "limit" in uses:
            params["limit"] = part.limit
        if "blocks" in uses:
            params["blocks"] = [*part.blocks]
        if "configs" in uses:
            params |= {"configs": [dict((sweep.configs or ())[n]) for n in part.configs], **held}
    keep = {"keep": spec.keep.failed_artifacts, "keep_checkout": spec.keep.rejected_worktrees}
    due = {"rows": part.rows} if part.rows else {}
    return part.target("sweep", part.files, params | {"limits": {**keep, **part.seal_limits, **due}})


def _row_target(part: SweepPart, config: int) -> Target:
    sweep = part.draft.spec.sweep
    names = {"csv": f"rows/{config}.csv", "log": f"rows/{config}.log", "cost": f"rows/{config}.json"}
    params = {**part.params, "config_id": config, "values": dict((sweep.configs or ())[config])}
    due = {"rows": rows} if (rows := part.rows_of(1)) else {}
    params |= {"limits": limits} if (limits := {**part.seal_limits, **due}) else {}
    if sweep.blocks:
        params["block"] = sweep.blocks.column
    if "blocks" in sweep.uses:
        params["blocks"] = [*part.blocks]
    return part.target("row", {port: part.record(name) for port, name in names.items()}, params, config)


def score_targets(draft: TargetBuilder, slot: EvalSlot) -> Iterator[Target]:
    """Score a slot: by means alone; or by blocks, once all of its depth has been weighed."""
    at = draft.at
    summary, reads = {"summary": at.of_eval(slot, "summary.json")}, comparison_reads(draft, slot)
    if draft.spec.rules.paired is None:
        yield draft.target(f"{slot}.score", "score", reads, summary, draft.scoring_params())
        return
    pairs = {"pairs": at.of_eval(slot, "pairs.json")}
    yield draft.target(f"{slot}.pairs", "pair", reads, pairs, draft.completeness_params())
    weighed = {**pairs, "weighed": at.of_depth(slot.depth, "weighed.json")}
    yield draft.target(f"{slot}.score", "settle", weighed, summary, {**draft.scoring_params(), "slot": str(slot)})


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


def early_targets(draft: TargetBuilder, slot: EvalSlot, cascade: Cascade) -> Iterator[Target]:
    """Measure the first blocks of an idea and pair them with its parent's."""
    part, _ = cascade_parts(draft, slot)
    yield from sweep_targets(part)
    files = part.files
    reads = {**comparison_reads(draft, slot), "sweep": files["sweep"], "csv": files["csv"]}
    params = {**draft.completeness_params(), "first": cascade.blocks}
    yield draft.target(f"{slot}.early", "pair", reads, {"pairs": part.record("pairs.json")}, params)


def cascade_target(draft: TargetBuilder, depth: int, keys: Cascade) -> Target:
    slots = draft.shape.slots(depth)
    parts = [cascade_parts(draft, slot) for slot in slots]
    reads = {"pairs": [first.record("pairs.json") for first, _ in parts], "tree": [first.tree for first, _ in parts]}
    writes: dict[str, Paths] = {
        "cascade": draft.at.of_depth(depth, "cascade.json"),
        "tree": [rest.tree for _, rest in parts],
    }
    params = {**draft.weighing_params(), "first": keys.blocks, "keep": keys.keep, "slots": [*map(str, slots)]}
    return draft.target(f"d{depth}.cascade", "cascade", reads, writes, params)


def joined_targets(draft: TargetBuilder, where: EvalSlot | NodePlace) -> Iterator[Target]:
    """Measure what is left to measure, of the root both parts, and join the parts as one sweep."""
    parts, writes = cascade_parts(draft, where), whole_sweep(draft, where).files
    for part in parts if where == ROOT else parts[1:]:
        yield from sweep_targets(part)
    files = [part.files for part in parts]
    reads = {port: [str(each[port]) for each in files] for port in writes}
    yield draft.target(f"{where}.sweep", "join", reads, writes, {"first": len(parts[0].blocks)})


def holdout_targets(draft: TargetBuilder, held: HoldoutKeys, final: NodePlace, source: EvalSlot) -> Iterator[Target]:
    """Measure the start and the final node, which `source` became, by the same command as in the search."""
    parts: list[SweepPart] = []
    for where, measured in ((ROOT, ROOT), (final, source)):
        part = whole_sweep(draft, measured)._replace(where=where, name=HOLDOUT_PART, reads=held.reads)
        if held.blocks:
            part = part._replace(blocks=held.blocks)
        if held.configs:  # a command that wants a number of configs measures those before them too
            part = part._replace(configs=held.configs, limit=max(held.configs) + 1)
        parts.append(part)
        yield from sweep_targets(part)
    params = draft.weighing_params() if draft.spec.rules.paired else draft.scoring_params()
    if held.blocks:
        params["blocks"] = {**params["blocks"], "ids": [*held.blocks]}
    if held.configs:
        params |= {"config_ids": [*held.configs], "sweep_config_limit": None}
    params |= {"final": str(final), "source": str(source)}
    reads = {port: part.files["csv"] for port, part in zip(("root", "own"), parts, strict=True)}
    writes = {"verdict": draft.at.of_run("holdout.json")}
    yield draft.target("holdout", "holdout", reads, writes, params, line=held.line)
