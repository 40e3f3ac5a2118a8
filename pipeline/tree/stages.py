"""Stages of a tree run: STAGES, by the name of the stage, with its code.

The code (`tree.sweep/1`) is part of every recipe.  Raise its number when a stage would make other outputs from the same
inputs; codes of stages that decide are in `run/decisions.py`, in DECIDERS.  A GitProblem becomes a StageFailed with a
line for people: it is the fault of the tool or of the disk, and nobody's result.  A git that was killed from outside is
an outage, like any other command: the stage begins again, and finds what it has paid for in its journal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps

from pipeline.core.cages import CageKeys, cages_in
from pipeline.core.graph import Target
from pipeline.git.command import GitOutage, GitProblem
from pipeline.machine.job import Away, Job, Stage, StageFailed, StageOutage
from pipeline.machine.process import BuildStopping
from pipeline.tree.holdout import holdout_stage
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.summary import summary_text
from pipeline.tree.report.validation import validate_run, validation_report
from pipeline.tree.rules.positions import ASKING_STAGES, PAID_STAGES
from pipeline.tree.run.asker import idea_stage, recorded_ideas_stage
from pipeline.tree.run.command import CommandOutages
from pipeline.tree.run.decisions import DECIDERS
from pipeline.tree.run.implement import by_hand_stage, implement_stage
from pipeline.tree.run.measure import check_stage, row_stage, sweep_stage, test_stage
from pipeline.tree.run.nodes import given_stage, node_stage, root_stage, start_stage
from pipeline.tree.run.protect import protect_stage
from pipeline.tree.run.records import write
from pipeline.tree.run.run_repo import code_records, keep_git_state, settle_code
from pipeline.tree.spec.model import JUDGE


def report_stage(job: Job) -> None:
    """Write the summary.  It tells of the builds of this checkout too, so the store does not keep it."""
    write(job.writes["summary"][0], summary_text(fold_manifest(job.target.run, job.target.params)))


def validate_stage(job: Job) -> None:
    """Validate a search; the git state of recalled targets may have to be made again first."""
    keep_git_state(job.target.run, fold_manifest(job.target.run, job.target.params))
    write(job.writes["report"][0], validation_report(validate_run(job.target.run, job.target.params)))


def passed_variables(target: Target) -> Sequence[str]:
    """Names of the variables that commands get from the environment of the build, and of those with keys."""
    limits = target.params.get("limits", {}).values()
    askers = [target.params, *(role for role in limits if isinstance(role, dict))]
    keys = [asker["key_env"] for asker in askers if asker.get("key_env")]
    return [*keys, *(name for asker in askers for name in asker.get("pass", ()))]


def command_cages(target: Target) -> Iterator[CageKeys]:
    """The cages of the commands that a target runs, as the spec has them."""
    params = target.params
    if "dry" not in params and params.get("checks", True):  # one that only looks at what is protected runs nothing
        named = [*cages_in(params.get("limits", {}))]
        yield from (keys._replace(judged=JUDGE in params) for keys in named or [CageKeys()])


def role_cages(target: Target) -> Iterator[CageKeys]:
    return cages_in(target.params.get("limits", {}))


# Messages of git about objects that are cut short or gone, for instance after a power cut.
_DAMAGED = re.compile(r"\bcorrupt|is empty|unable to (?:read|unpack)|bad object|could not parse")


def _fail_on_git_problems(do: Callable[[Job], None]) -> Callable[[Job], None]:
    """Turn a GitProblem of a stage into a StageFailed; where git was killed from outside, begin the stage again."""

    @wraps(do)
    def guarded(job: Job) -> None:
        outages = CommandOutages(job.target.limits.patience or 0.0)
        while True:
            try:
                return do(job)
            except GitOutage as outage:
                if job.processes.stopping:
                    raise BuildStopping from outage
                outages.wait(job, str(outage), StageOutage(f"{outage}; build again", outage.reason))
            except GitProblem as problem:
                damaged = _DAMAGED.search(str(problem))
                how = f"; remove runs/{job.target.run}/repo.git and build again: it is made again" if damaged else ""
                raise StageFailed(f"{problem}{how}", 2) from problem

    return guarded


# Followers write tasks down as queued before the first may start, and the summary up to the last promotion.
_TOLD_FIRST = ("assign", "wave", "admit", "promote")

AWAY = Away(code_records, settle_code)
_STAGES = {
    **{
        name: decider.stage()._replace(minor=True, told_first=name in _TOLD_FIRST) for name, decider in DECIDERS.items()
    },
    "root": Stage("tree.root/1", root_stage, minor=True),
    "protected": Stage("tree.protected/1", protect_stage, minor=True),
    "start": Stage("tree.start/1", start_stage, minor=True),
    "node": Stage("tree.node/1", node_stage, minor=True),
    "idea": Stage("tree.idea/1", idea_stage, passed=passed_variables, cages=role_cages),
    "recorded": Stage("tree.recorded/1", recorded_ideas_stage, minor=True),
    "by_hand": Stage("tree.by_hand/1", by_hand_stage, minor=True),
    "implement": Stage("tree.implement/1", implement_stage, passed=passed_variables, cages=role_cages),
    "test": Stage("tree.test/1", test_stage, passed=passed_variables, cages=command_cages, away=AWAY),
    "checks": Stage("tree.checks/1", check_stage, passed=passed_variables, cages=command_cages, away=AWAY),
    "given": Stage("tree.given/1", given_stage),
    "sweep": Stage("tree.sweep/1", sweep_stage, passed=passed_variables, cages=command_cages, away=AWAY),
    "row": Stage("tree.row/1", row_stage, passed=passed_variables, cages=command_cages, away=AWAY),
    "holdout": Stage("tree.holdout/1", holdout_stage),
    "report": Stage("tree.report/1", report_stage, stored=False, minor=True),
    "validate": Stage("tree.validate/1", validate_stage, minor=True),
}
STAGES = {
    name: stage._replace(do=_fail_on_git_problems(stage.do), paid=name in PAID_STAGES, asks=name in ASKING_STAGES)
    for name, stage in _STAGES.items()
}
