"""The command `holdout`: opens what a search has held out, once, for the node that it ended with.

States of the seal:

    sealed   -> opened    noted on the disk before anything is measured
    opened   -> measured  the target `holdout` is built; an interrupted opening stays open
    measured -> reported  the report is made anew

The same question is answered from the record; another one is refused without --reopen."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.advance import Search
from pipeline.commands.command import ONE_RUN, NewCommand, build_plainly, opt_jobs, opt_json, print_result
from pipeline.commands.selection import ability_of
from pipeline.core.graph import Graph
from pipeline.errors import SpecError
from pipeline.machine.lock import lock_runs
from pipeline.store.receipts import FORGOTTEN, Receipts, receipt_entry

opt_reopen = {
    "name": "reopen", "long": "reopen", "type": bool, "default": False,
    "help": "open it once more, for another candidate or other parts; that is written down",
}  # fmt: skip


class HoldoutCommand(NewCommand):
    name = "holdout"
    doc_usage = "RUN"
    doc_purpose = "compare what a search has found with its start, on what was held out"
    doc_description = (
        "For the final node of a search that has stopped. Each opening is on the disk before anything is measured; the"
        " same question is answered from the record, another one is refused. Progress goes to standard error."
    )
    cmd_options = (opt_jobs, opt_json, opt_reopen)
    takes = ONE_RUN
    after_interrupt = "what was finished is kept, the seal is open"

    def on_specs(self, params: Any, args: list[str]) -> int:
        opening = _Opening(_plan_of_run(args[0]), params["num_process"], params["reopen"])
        with redirect_stdout(sys.stderr):
            code = opening.run()
        if code == 0:
            record = opening.kind.seal_record(args[0])
            print_result(record, [*opening.kind.holdout_lines(record)], params["json"])
        return code


def _plan_of_run(run: str) -> project.RunPlan:
    known = project.spec_paths()
    if run not in known:
        raise SpecError(f"holdout: '{run}' is no run; name one of: {', '.join(known)}")
    return project.load([run])[run]


class _Opening:
    """Opening of what the run of `plan` has held out."""

    def __init__(self, plan: project.RunPlan, jobs: int, reopen: bool) -> None:
        self.plan, self.jobs, self.reopen = plan, jobs, reopen
        self.kind = ability_of(plan, kinds.HOLDOUT, "holds nothing out")
        self.spec = project.read_spec(plan.run, plan.spec)

    def run(self) -> int:
        run = self.plan.run
        plans = project.load([run, *self.kind.sources(self.spec)])
        with lock_runs([*plans]) as locks:
            self._check_stopped(plans)
            asked = self.kind.question(run, self.spec, self.plan.targets)
            self.kind.open_seal(run, asked, self.reopen)
            if code := build_plainly({**plans, run: self._plan_to_open(asked)}, locks, [f"{run}:holdout"], self.jobs):
                return code
            _forget_targets(run, self.kind.REPORT_TARGETS)
            return build_plainly(plans, locks, [run], self.jobs)

    def _check_stopped(self, plans: Mapping[str, project.RunPlan]) -> None:
        """Check that the search has ended by the spec as it is: nothing of it is built here."""
        if not Search(self.plan, plans, 0).stopped():
            run = self.plan.run
            what = "the search has not stopped yet by the spec as it is, and what is held out is for its end"
            raise SpecError(f"{run}: {what}; `coppice {run}` builds it")

    def _plan_to_open(self, asked: Mapping[str, Any]) -> project.RunPlan:
        """Plan with the targets that open the holdout; without signatures, since nothing was built by it before."""
        targets = Graph([*self.plan.targets, *self.kind.targets(self.spec, asked)]).targets
        return self.plan._replace(targets=targets, signatures=(0,) * len(self.plan.signatures))


def _forget_targets(run: str, names: Sequence[str]) -> None:
    """Forget targets, so that they are made anew and include what was found."""
    receipts = Receipts(run)
    receipts.append([receipt_entry(f"{run}:{name}", FORGOTTEN, {}) for name in names])
    receipts.sync()
    receipts.close()
