"""The measure of a search, in the words of its prompts: metrics, score, configs, commands, protected paths, budget.

A brief is a limit of the targets that ask a role, and in no recipe: another wording of a question that was answered and
paid for makes nothing stale.  It is made once for all targets of a run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pipeline.core.graph import Leavings
from pipeline.core.text import plural
from pipeline.tree.rules.scoring import HIGHER, Metric, ScoringRules, metric_weight
from pipeline.tree.spec.model import JUDGE, CheckCommand, CheckoutCommand, Params, TreeSpec

_MOST_CONFIGS, _MOST_PATHS, _LONGEST_LINE = 6, 20, 400
# The folders of an absolute path; a path behind a name in braces is none.
_FOLDERS = re.compile(r"(?<![\w{}.\-/])/(?:[\w.+@-]+/)+")


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
