"""The command `holdout`: opens what a search has held out, once, for the node that it ended with.

sealed -> opened (on the disk before anything is measured) -> measured -> told by the report.  An interrupted opening
stays open; the same question is answered from the record, another one is refused without --reopen."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.accounts import opt_json, print_result
from pipeline.commands.advance import DEFAULT_OPTIONS, Search
from pipeline.commands.command import NewCommand, opt_jobs
from pipeline.commands.exits import refuse
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

    def on_specs(self, params: Any, args: list[str]) -> int:
        if len(args) != 1:
            raise InvalidCommand(f"holdout: name one run, not {len(args)}")
        plan = _plan(args[0])
        code = _open(plan, params["num_process"], params["reopen"])
        if code == 0:
            kind = kinds.ability_module(plan.kind, kinds.HOLDOUT)
            told = kind.seal_record(plan.run)
            print_result(told, [*kind.holdout_lines(told)], params["json"])
        return code


def _plan(run: str) -> project.RunPlan:
    known = project.spec_paths()
    if run not in known:
        raise SpecError(f"holdout: '{run}' is no run; name one of: {', '.join(known)}")
    plan = project.load([run])[run]
    if not kinds.has_ability(plan.kind, kinds.HOLDOUT):
        raise SpecError(f"{plan.spec}:1: kind: {plan.kind} holds nothing out")
    return plan


def _open(plan: project.RunPlan, jobs: int, reopen: bool) -> int:
    from pipeline.build.runner import BuildInterrupted

    try:
        with redirect_stdout(sys.stderr):
            return _Opening(plan, jobs, reopen).run()
    except BuildInterrupted as error:
        return refuse(f"{error}; what was finished is kept, the seal is open", 128 + error.number)


class _Opening:
    def __init__(self, plan: project.RunPlan, jobs: int, reopen: bool) -> None:
        self.plan, self.reopen = plan, reopen
        self.how = {**DEFAULT_OPTIONS, "num_process": jobs}
        self.kind = kinds.ability_module(plan.kind, kinds.HOLDOUT)
        self.spec = project.read_spec(plan.run, plan.spec)

    def run(self) -> int:
        from pipeline.commands.build import build_locked

        run = self.plan.run
        plans = project.load([run, *self.kind.sources(self.spec)])
        with lock_runs([*plans]) as locks:
            self._check_stopped(plans)
            asked = self.kind.question(run, self.spec, self.plan.targets)
            self.kind.open_seal(run, asked, self.reopen)
            if code := build_locked({**plans, run: self._planned(asked)}, locks, [f"{run}:holdout"], self.how, {}):
                return code
            _forget(run, self.kind.REPORT_TARGETS)
            return build_locked(plans, locks, [run], self.how, {})

    def _check_stopped(self, plans: Mapping[str, project.RunPlan]) -> None:
        """Nothing of the search is built here: it must have ended by the spec as it is now."""
        if not Search(self.plan, plans, 0).stopped():
            run = self.plan.run
            what = "the search has not stopped yet by the spec as it is, and what is held out is for its end"
            raise SpecError(f"{run}: {what}; `coppice {run}` builds it")

    def _planned(self, asked: Mapping[str, Any]) -> project.RunPlan:
        """Another plan than what was built by last: no signature of its sources says that all was seen."""
        targets = Graph([*self.plan.targets, *self.kind.targets(self.spec, asked)]).targets
        return self.plan._replace(targets=targets, signatures=(0,) * len(self.plan.signatures))


def _forget(run: str, names: Sequence[str]) -> None:
    """They are made anew, and tell of what was found."""
    receipts = Receipts(run)
    receipts.append([receipt_entry(f"{run}:{name}", FORGOTTEN, {}) for name in names])
    receipts.sync()
    receipts.close()
