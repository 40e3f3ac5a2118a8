"""TargetBuilder: common parts of the targets of a tree run; the brief of those that ask a role.

Ports, limits, and the groups of parameters on which verdicts depend.  A parameter under `limits` is not part of the
recipe: it says how something is done, and does not change the result.

The brief is the measure of a search in the words of its prompts: metrics, score, configs, commands, protected paths,
budget.  It is a limit of the targets that ask a role, and in no recipe: another wording of a question that was answered
and paid for makes nothing stale.  It is made once for all targets of a run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from pipeline.core.cages import CAGE, cage_in
from pipeline.core.graph import Leavings, Limits, Ports, Target
from pipeline.core.text import plural
from pipeline.tree.rules.positions import EvalSlot, NodePlace, RunLayout
from pipeline.tree.rules.scoring import HIGHER, PAIRED, WEIGHTED_MEANS, Metric, ScoringRules, metric_weight
from pipeline.tree.spec.model import (
    ANSWER,
    DRY,
    JUDGE,
    NONE,
    ROLES,
    CheckCommand,
    CheckoutCommand,
    Params,
    TreeSpec,
    Waves,
    waves_of,
)

NO_LIMITS = Limits()

Paths = str | Iterable[str]

_MOST_CONFIGS, _MOST_PATHS, _LONGEST_LINE = 6, 20, 400
# The folders of an absolute path; a path behind a name in braces is none.
_FOLDERS = re.compile(r"(?<![\w{}.\-/])/(?:[\w.+@-]+/)+")


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


def make_brief(
    spec: TreeSpec, tests: CheckoutCommand | None, checks: Sequence[CheckCommand], sheet: Params, truth: Sequence[str]
) -> dict[str, Any]:
    """`sheet`: the parameters by which results are read; `truth`: files that only a judge apart reads."""
    judge = {JUDGE: spec.sweep.judge} if spec.sweep.judge else {}
    steps = {"sweep": spec.sweep.command, **judge, **({"tests": tests} if tests else {})}
    commands = {name: command_line(command) for name, command in steps.items()}
    commands |= {f"check {each.name}": command_line(each.command) for each in checks}
    return {
        "lines": [*_measure_lines(spec), *_rule_lines(spec, commands)],
        "commands": [*commands.values()],
        "sheet": {**sheet, "metrics": [{"name": m.name, "better": m.better} for m in spec.rules.metrics]},
        "primary": spec.rules.primary,
        "repo": spec.repo,
        "protect": [*spec.protect.repo],
        "protect_project": [*spec.protect.project],
        "max_depth": spec.shape.max_depth,
        "ideas_per_node": spec.shape.ideas_per_node,
        "budget": {"budget": spec.budget._asdict(), "ceiling": spec.ceiling._asdict()},
        "left_out": (spec.leave_out or Leavings()).sentence,
        "withheld": [*chain(*(spec.holdout.reads if spec.holdout else {}).values()), *truth],
    }


def command_line(command: CheckoutCommand) -> str:
    """The command as one line, without folders of this machine."""
    words: Mapping[str, Any] = command.words
    line = words["shell"] if "shell" in words else " ".join(map(_quoted, words["argv"]))
    return _FOLDERS.sub("…/", " ".join(line.split()))[:_LONGEST_LINE]


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w{}./=:,+-]+", word) else shlex.quote(word)


def _measure_lines(spec: TreeSpec) -> Iterator[str]:
    rules, by_name = spec.rules, {metric.name: metric for metric in spec.rules.metrics}
    yield f"Primary metric: {_metric_text(by_name[rules.primary])}."
    if rules.guards:
        yield f"Guards, which must not get worse: {'; '.join(_guard_text(rules, each) for each in rules.guards)}."
    guards = {metric.name for metric in rules.guards}
    if others := [each for each in rules.metrics if each.name != rules.primary and each.name not in guards]:
        yield f"Other metrics: {'; '.join(map(_metric_text, others))}."
    yield f"A change is kept by this rule: {_score_text(rules)}."


def _metric_text(metric: Metric) -> str:
    return f"{metric.name}, {'more' if metric.better == HIGHER else 'less'} is better"


def _guard_text(rules: ScoringRules, metric: Metric) -> str:
    if rules.paired:
        return f"{_metric_text(metric)}, at most {metric.margin or 0:g} worse"
    return f"{_metric_text(metric)}, at most {rules.constants.guard_drop:.0%} of its baseline worse"


def _score_text(rules: ScoringRules) -> str:
    if paired := rules.paired:
        least = f" by at least {paired.smallest_effect:g}" if paired.smallest_effect else ""
        return (
            f"block by block it must be better in {rules.primary}{least} than chance allows among all ideas tried "
            f"beside it (alpha {paired.alpha:g} of a {paired.alpha_over}), with no guard in doubt"
        )
    weights = ", ".join(f"{each.name} x{metric_weight(rules, each):g}" for each in rules.metrics)
    c = rules.constants
    return (
        f"{rules.primary} is no worse, and the score, the mean of the relative changes by weight ({weights}), "
        f"is at least {c.explore:g}; the best by score become the ground for the next ideas"
    )


def _rule_lines(spec: TreeSpec, commands: Mapping[str, str]) -> Iterator[str]:
    if (configs := spec.sweep.configs) is not None:
        shown = [json.dumps(dict(configs[n]), sort_keys=True) for n in spec.sweep.ids[:_MOST_CONFIGS]]
        named = "; ".join(shown)[:_LONGEST_LINE] if any(configs) else ""
        more = ", …" if len(spec.sweep.ids) > _MOST_CONFIGS and named else ""
        yield f"It is measured on {plural(len(spec.sweep.ids), 'config')}{f': {named}{more}' if named else ''}."
    if spec.sweep.blocks and spec.sweep.blocks.ids:
        yield f"Each config is measured on {plural(len(spec.sweep.blocks.ids), 'block')}."
    if JUDGE in commands:
        yield f"Command of the sweep, which writes answers into {{answers}}: `{commands['sweep']}`."
        yield (
            f"A judge then scores these answers alone: `{commands[JUDGE]}`. It runs with the files of the start, so no "
            "change of its files counts, and nothing that the command of the sweep writes elsewhere does."
        )
    else:
        yield f"Command of the sweep: `{commands['sweep']}`."
    if before := [f"{name} (`{line}`)" for name, line in commands.items() if name not in ("sweep", JUDGE)]:
        yield f"Before it is measured, these must pass: {', '.join(before)}."
    if paths := spec.protect.repo:
        more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        yield f"Protected; a change of any of them is refused: {', '.join(paths[:_MOST_PATHS])}{more}."
