"""The command `holdout`: opens what a search has held out, once, for the node that it ended with.

States of the seal:

    sealed   -> opened    noted on the disk before anything is measured
    opened   -> measured  the target `holdout` is built; an interrupted opening stays open
    measured -> reported  the report is made anew

The same question is answered from the record; another one is refused without --reopen."""

from __future__ import annotations

import sys
from contextlib import closing, redirect_stdout
from typing import Any

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.advance import Search
from pipeline.commands.command import ONE_RUN, NewCommand, build_plainly, opt_jobs, opt_json, option, print_result
from pipeline.commands.selection import ability_of
from pipeline.core.graph import Graph
from pipeline.errors import SpecError
from pipeline.machine.lock import lock_runs
from pipeline.store.receipts import FORGOTTEN, Receipts, receipt_entry


class HoldoutCommand(NewCommand):
    name = "holdout"
    doc_usage = "RUN"
    doc_purpose = "compare what a search has found with its start, on what was held out"
    doc_description = (
        "For the final node of a search that has stopped. Each opening is on the disk before anything is measured; the"
        " same question is answered from the record, another one is refused. Progress goes to standard error."
    )
    cmd_options = (
        opt_jobs,
        opt_json,
        option("reopen", "open it once more, for another candidate or other parts; that is written down"),
    )
    takes = ONE_RUN
    after_interrupt = "what was finished is kept, the seal is open"

    def on_specs(self, params: Any, args: list[str]) -> int:
        run, specs = args[0], project.spec_paths()
        if run not in specs:
            raise SpecError(f"holdout: '{run}' is no run; name one of: {', '.join(specs)}")
        plan = project.load([run])[run]
        kind = ability_of(plan, kinds.HOLDOUT, "holds nothing out")
        with redirect_stdout(sys.stderr):
            code = open_holdout(plan, kind, params["num_process"], params["reopen"])
        if code == 0:
            record = kind.seal_record(run)
            print_result(record, [*kind.holdout_lines(record)], params["json"])
        return code


def open_holdout(plan: project.RunPlan, kind: kinds.HoldoutModule, jobs: int, reopen: bool) -> int:
    """Open what the run of `plan` has held out; nothing of its search is built here."""
    run, spec = plan.run, project.read_spec(plan.run, plan.spec)
    plans = project.load([run, *kind.sources(spec)])
    with lock_runs([*plans]) as locks:
        if not Search(plan, plans, 0).stopped():
            what = "the search has not stopped yet by the spec as it is, and what is held out is for its end"
            raise SpecError(f"{run}: {what}; `coppice {run}` builds it")
        question = kind.question(run, spec, plan.targets)
        kind.open_seal(run, question, reopen)
        # Without signatures, since nothing was built by it before.
        targets = Graph([*plan.targets, *kind.targets(spec, question)]).targets
        opened = plan._replace(targets=targets, signatures=(0,) * len(plan.signatures))
        if code := build_plainly({**plans, run: opened}, locks, [f"{run}:holdout"], jobs):
            return code
        with closing(Receipts(run)) as receipts:  # so that they are made anew and include what was found
            receipts.append([receipt_entry(f"{run}:{name}", FORGOTTEN, {}) for name in kind.REPORT_TARGETS])
            receipts.sync()
        return build_plainly(plans, locks, [run], jobs)
