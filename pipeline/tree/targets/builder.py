"""TargetBuilder: common parts of the targets of a tree run.

Ports, limits, and the groups of parameters on which verdicts depend.  A parameter under `limits` is not part of the
recipe: it says how something is done, and does not change the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from pipeline.core.cages import CAGE, cage_in
from pipeline.core.graph import Limits, Ports, Target
from pipeline.tree.rules.positions import EvalSlot, NodePlace, RunLayout
from pipeline.tree.rules.scoring import PAIRED, WEIGHTED_MEANS
from pipeline.tree.spec.model import ANSWER, DRY, JUDGE, NONE, ROLES, CheckoutCommand, Params, TreeSpec, Waves, waves_of
from pipeline.tree.targets.brief import make_brief

NO_LIMITS = Limits()

Paths = str | Iterable[str]


class TargetBuilder:
    """Builds targets of a spec: names, ports, limits and groups of parameters."""

    def __init__(self, spec: TreeSpec) -> None:
        self.spec, self.at, self.shape = spec, RunLayout(spec.name), spec.shape
        dry = {name: {"backend": DRY if name in ("ideas", "coder") else NONE} for name in ROLES}
        self.roles: Mapping[str, Params] = dry if spec.dry_run else {name: spec.loop.roles[name] for name in ROLES}
        self.tests = None if spec.dry_run else spec.tests
        self.checks = () if spec.dry_run else spec.checks
        self.baseline = None if spec.dry_run else spec.baseline  # a dry run makes up all results
        # the port of every target that runs a command of the spec: by it the command is watched
        is_protected = (spec.protect.repo or spec.protect.project) and not spec.dry_run
        self.protected_reads = {"protected": self.at.of_run("protected.json")} if is_protected else {}
        self.has_checks = bool(self.checks or self.protected_reads)  # there is a target before the sweep
        # the limit of whatever runs during the search: files that hold what is held out
        held = [path for paths in (spec.holdout.reads if spec.holdout else {}).values() for path in paths]
        sealed = [path for path in held if not path.startswith("runs/")]
        self.sealed = {"sealed": sealed} if sealed else {}
        # the same, and what the judge alone reads: for all that runs the candidate's code, and for who writes it
        self.seal_limits = self.sealed | self.truth_limits()
        truth = self.seal_limits.get("truth", [])
        self.brief = make_brief(spec, self.tests, self.checks, self.completeness_params(), truth)

    def truth_limits(self, replaced: Mapping[str, Paths] = {}) -> dict[str, list[str]]:
        """The limit that hides what a judge apart reads and nobody else is given.

        `replaced`: files that take the place of ports when what is held out is measured."""
        spec, judge = self.spec, self.spec.sweep.judge
        if judge is None:
            return {}
        commands = [spec.sweep.command, *([spec.tests] if spec.tests else []), *(each.command for each in spec.checks)]
        given = _files(*(each.reads for each in commands))
        given |= _files({name: role.get("reads", ()) for name, role in self.roles.items()})
        given |= _files({port: paths for port, paths in replaced.items() if port in spec.sweep.command.reads})
        read = _files(judge.reads, {port: paths for port, paths in replaced.items() if port in judge.reads})
        return {"truth": sorted(read - given)}

    @cached_property
    def waves(self) -> Waves:
        """The waves where not all slots of the search fit into the budget of money at their ceilings.

        Then slots are admitted by turns, so that what one did not spend is there for the next."""
        return waves_of(self.run_config())

    def target(
        self,
        name: str,
        stage: str,
        reads: Mapping[str, Paths],
        writes: Mapping[str, Paths],
        params: Params,
        limits: Limits = NO_LIMITS,
        line: int = 0,
    ) -> Target:
        name, line = f"{self.spec.name}:{name}", line or self.spec.line
        limits = limits._replace(patience=self.spec.patience)
        return Target(name, stage, _ports(reads), _ports(writes), params, limits, line)

    def limits(self, where: EvalSlot | NodePlace, timeout: float | None = None) -> Limits:
        """Limits of an evaluation's targets: a room among all, and one among those of its node."""
        own = () if self.spec.per_node is None else (f"node {where.node}",)
        return Limits(timeout, self.spec.retries, ("evals", *own))

    def budget_params(self) -> dict[str, Any]:
        return {"budget": self.spec.budget._asdict(), "ceiling": self.spec.ceiling._asdict()}

    def completeness_params(self) -> dict[str, Any]:
        """Parameters that decide whether results are complete, whatever their score."""
        sweep = self.spec.sweep
        blocks = sweep.blocks and {"column": sweep.blocks.column, "ids": sweep.blocks.ids and [*sweep.blocks.ids]}
        return {
            "metrics": [{"name": metric.name} for metric in self.spec.rules.metrics],
            "sweep_config_limit": sweep.limit,
            "grid": sweep.grid,
            "blocks": blocks,
            **({"config_ids": [*sweep.ids]} if sweep.held else {}),
        }

    def scoring_params(self) -> dict[str, Any]:
        rules = self.spec.rules
        return {
            **self.completeness_params(),
            "primary": rules.primary,
            "metrics": [metric._asdict() for metric in rules.metrics],
            "score": (rules.paired or rules.constants)._asdict(),
            "method": PAIRED if rules.paired else WEIGHTED_MEANS,
        }

    def weighing_params(self) -> dict[str, Any]:
        """Parameters of verdicts by blocks."""
        blocks = self.spec.sweep.blocks
        assert blocks is not None
        order: dict[str, Any] = {"ordered": blocks.ordered, "rho": blocks.rho}
        if blocks.repeats:
            order["repeats"] = [*blocks.repeats]
        return {**self.scoring_params(), **order, "max_depth": self.spec.shape.max_depth}

    def run_config(self) -> Params:
        """The configuration of the run, as the manifest has it."""
        spec = self.spec
        protected = [*spec.protect.repo, *(f"{{project}}/{path}" for path in spec.protect.project)]
        return {
            "run": spec.name,
            "repo": spec.repo,
            **spec.shape._asdict(),
            **self.budget_params(),
            **(self.weighing_params() if spec.rules.paired else self.scoring_params()),
            "max_review_rounds": spec.loop.max_review_rounds,
            "proceed_on_max_review_rounds": spec.loop.proceed_on_max_review_rounds,
            "backends": {name: role["backend"] for name, role in self.roles.items()},
            "tests": self.tests is not None,
            "checks": [check.name for check in self.checks],
            "protect": protected if self.protected_reads else [],
            "sweep_mode": spec.sweep.mode,
            **({"judged_apart": True} if spec.sweep.judge else {}),
            **({"baseline_csv": self.baseline.path} if self.baseline else {}),
            "cascade": spec.cascade and spec.cascade._asdict(),
            "holdout": spec.holdout and {"blocks": len(spec.holdout.blocks), "configs": len(spec.holdout.configs)},
            "max_parallel_evals": spec.at_once,
            "max_parallel_per_node": spec.per_node,
            "eval_retries": spec.retries,
            "keep": spec.keep._asdict(),
            "dry_run": spec.dry_run,
        }

    def named_cages(self) -> dict[str, Any]:
        """The grades and networks that the spec names, by command and role; empty where it names none."""
        if self.spec.dry_run:
            return {}
        sweep = self.spec.sweep
        parts = ("sweep",) if sweep.judge is None else (ANSWER, JUDGE)
        found = {"tests": self.tests.cage} if self.tests else {}
        found |= {f"check {check.name}": check.command.cage for check in self.checks}
        found |= {name: command.cage for name, command in zip(parts, sweep.commands, strict=True)}
        found |= {name: cage_in(role) for name, role in self.roles.items()}
        return {name: keys.named_words for name, keys in found.items() if keys.named_words}


def planned_config(targets: Iterable[Target]) -> Params:
    """The configuration of a run, from its plan."""
    return next(target.params for target in targets if target.stage == "report")


def _ports(ports: Mapping[str, Paths]) -> Ports:
    return tuple((name, _paths(paths)) for name, paths in ports.items())


def _paths(paths: Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else tuple(paths)


def _files(*ports: Mapping[str, Paths]) -> set[str]:
    return {path for each in ports for paths in each.values() for path in _paths(paths)}


def command_files(command: CheckoutCommand, prefix: str = "in") -> dict[str, Paths]:
    """The ports of a command, apart from our own."""
    return {f"{prefix}.{port}": paths for port, paths in command.reads.items()}


def command_params(command: CheckoutCommand) -> dict[str, Any]:
    """The words of a command that its result depends on."""
    cage = command.cage.recipe()
    return {**command.words, "env": dict(command.env), "pass": [*command.passed], **({CAGE: cage} if cage else {})}


def cage_limits(command: CheckoutCommand) -> dict[str, Any]:
    """The limit that says all of a command's cage; empty where the spec says nothing."""
    return {CAGE: record} if (record := command.cage.record) else {}
