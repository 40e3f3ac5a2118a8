"""What the targets of a tree run do, by the name of the stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps

from pipeline.core.graph import Target
from pipeline.edge.git.command import GitProblem
from pipeline.edge.job import Job, Stage, StageFailed
from pipeline.tree.checking import check
from pipeline.tree.deciding import DECIDERS
from pipeline.tree.handing import by_hand
from pipeline.tree.ideation import idea, recorded
from pipeline.tree.implementing import implement
from pipeline.tree.protected import protect
from pipeline.tree.reporting import report, validate
from pipeline.tree.starting import node, root, start
from pipeline.tree.sweeping import row, sweep, test
from pipeline.tree.unsealing import unseal


def passed(target: Target) -> Sequence[str]:
    """Names of variables that a command gets from whoever builds."""
    roles = target.params.get("limits", {}).values()
    return [
        *target.params.get("pass", ()),
        *(name for role in roles if isinstance(role, dict) for name in role.get("pass", ())),
    ]


# What git says of objects that are cut short or gone, after a power cut for one.
_DAMAGED = re.compile(r"\bcorrupt|is empty|unable to (?:read|unpack)|bad object|could not parse")


def _told(do: Callable[[Job], None]) -> Callable[[Job], None]:
    """What git cannot do is a line for people, and nobody's result."""

    @wraps(do)
    def done(job: Job) -> None:
        try:
            do(job)
        except GitProblem as problem:
            damaged = _DAMAGED.search(str(problem))
            how = f"; remove runs/{job.target.run}/repo.git and build again: it is made again" if damaged else ""
            raise StageFailed(f"{problem}{how}", 2) from problem

    return done


_STAGES = {
    **{name: decider.stage() for name, decider in DECIDERS.items()},
    "root": Stage("tree.root/1", root),
    "protected": Stage("tree.protected/1", protect),
    "start": Stage("tree.start/1", start),
    "node": Stage("tree.node/1", node),
    "idea": Stage("tree.idea/1", idea, passed=passed),
    "recorded": Stage("tree.recorded/1", recorded),
    "by_hand": Stage("tree.by_hand/1", by_hand),
    "implement": Stage("tree.implement/1", implement, passed=passed),
    "test": Stage("tree.test/1", test, passed=passed),
    "checks": Stage("tree.checks/1", check, passed=passed),
    "sweep": Stage("tree.sweep/1", sweep, passed=passed),
    "row": Stage("tree.row/1", row, passed=passed),
    "holdout": Stage("tree.holdout/1", unseal),
    "report": Stage("tree.report/1", report),
    "validate": Stage("tree.validate/1", validate),
}
STAGES = {name: stage._replace(do=_told(stage.do)) for name, stage in _STAGES.items()}
