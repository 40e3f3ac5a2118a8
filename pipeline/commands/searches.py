"""Commands about searches that go on in rounds: advance, calibrate, holdout, retry.

A round is what ends one depth.  States of a search: the first `done` rounds are fresh -> one more is built -> the
search has stopped, or no round is left -> all that remains of the run is built.

States of the seal on what a search has held out, which is opened once, for the node that it ended with:

    sealed   -> opened    noted on the disk before anything is measured
    opened   -> measured  the target `holdout` is built; an interrupted opening stays open
    measured -> reported  the report is made anew

The same question is answered from the record; another one is refused without --reopen."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stdout, suppress
from math import inf
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.project import RunPlan
from pipeline.commands.command import (
    NewCommand,
    OneRunCommand,
    build_plainly,
    check_buildable,
    opt_jobs,
    opt_json,
    option,
    print_result,
    print_text,
    reporting,
)
from pipeline.commands.selection import ability_of, plans_of_run
from pipeline.core.graph import Graph
from pipeline.errors import SpecError
from pipeline.machine.lock import HEARTBEAT_PERIOD, LEAST_PATIENCE, Takeover, lock_runs
from pipeline.store.noop import up_to_date
from pipeline.store.receipts import FORGOTTEN, ReceiptLine, Receipts
from pipeline.store.steering import RETRIED, append_request

STALE_HELP = "take the run over from a process that has not been heard of for S seconds"
opt_stale = option("lock_stale_seconds", STALE_HELP, None, "S")
opt_force = option("force", "take the run over from the process that builds it, which is ended")


class AdvanceCommand(OneRunCommand):
    name = "advance"
    doc_purpose = "take a search at most one depth further; print where it stands as JSON"
    doc_description = (
        "Builds what the first depth that is not over needs, then its nodes. Once the search has stopped it builds what"
        " is left: the report and its validation. Progress goes to standard error."
    )
    cmd_options = (opt_jobs, opt_stale, opt_force)

    def on_specs(self, params: Any, args: list[str]) -> int:
        return advance(args[0], params["num_process"], takeover_by(self.name, args[0], params))


def takeover_by(command: str, run: str, params: Mapping[str, Any]) -> Takeover | None:
    """Read from the options if and when a lock that is held may be taken over."""
    text, patience = params["lock_stale_seconds"], 0.0
    with suppress(ValueError):
        patience = LEAST_PATIENCE if text is None else float(text)
    if not LEAST_PATIENCE <= patience < inf:
        wanted = f"a number of seconds, {LEAST_PATIENCE:g} or more, not '{text}'"
        why = f"who builds is heard of every {HEARTBEAT_PERIOD:g} s"
        raise InvalidCommand(f"{command}: --lock-stale-seconds wants {wanted}; {why}")
    return Takeover(run, params["force"], patience) if text is not None or params["force"] else None


def advance(run: str, jobs: int, takeover: Takeover | None) -> int:
    plans = plans_of_run("advance", run)
    search = Search(plans[run], plans, jobs)
    with reporting(lambda: print(json.dumps(search.standing(), indent=1))):
        if up_to_date([run]) is not None:
            search.done = len(search.rounds)
            return 0
        with lock_runs([*plans], takeover) as locks, redirect_stdout(sys.stderr):
            return search.advance(locks)


class Search:
    """Search that goes on in rounds.  `done`: this many, from the first on, are as they should be."""

    def __init__(self, plan: RunPlan, plans: Mapping[str, RunPlan], jobs: int) -> None:
        self._plan, self._plans, self._jobs = plan, plans, jobs
        self._kind = ability_of(plan, kinds.ADVANCE, f"has no depths to advance by; `coppice {plan.run}` builds it")
        self.rounds = self._kind.rounds(plan.targets)
        self.done = 0

    def advance(self, locks: Sequence[int]) -> int:
        """Build one round, and what is left when it was the last."""
        self.done = self._fresh_rounds(0)
        if not self._is_over():
            if code := build_plainly(self._plans, locks, self.rounds[self.done], self._jobs):
                return code
            self.done = self._fresh_rounds(self.done)
        if self._is_over():
            return build_plainly(self._plans, locks, [self._plan.run], self._jobs)
        self._kind.summarize(self._plan.run, self._plan.targets, self.done)
        return 0

    def stopped(self) -> bool:
        """Check that no round is left, with all as it should be."""
        self.done = self._fresh_rounds(0)
        return self._is_over()

    def standing(self) -> Mapping[str, Any]:
        return self._kind.progress_record(self._plan.run, self._plan.targets, self.done)

    def _is_over(self) -> bool:
        return self.done == len(self.rounds) or self._kind.has_stopped(self._plan.run, self.done)

    def _fresh_rounds(self, first: int) -> int:
        """Number of rounds from the first on that are fresh with all they are made from; `first` are known to be."""
        from pipeline.build.rehearsal import target_statuses
        from pipeline.build.session import BuildSession
        from pipeline.core.outcome import FRESH

        with closing(BuildSession(self._plans)) as session:
            for n in range(first, len(self.rounds)):
                statuses = target_statuses(session, (session.graph.index[name] for name in self.rounds[n]))
                if any(each.status != FRESH for each in statuses.values()):
                    return n
            return len(self.rounds)


SEEDS = 5
# Of each option the default, the least and the most.
RANGES = {"depths": (0, 100, 100_000), "seeds": (SEEDS, 0, 1000), "seed": (0, 0, 2**31)}


class CalibrateCommand(OneRunCommand):
    name = "calibrate"
    doc_purpose = "hold the baseline of a search against itself: what would be promoted by chance, and what found"
    doc_description = (
        "Measures the root, and where its sweep names {seed} the root with other seeds; nothing else is run and nobody"
        " is asked. From how these differ it makes depths of ideas without effect, and tells how many promote one; then"
        " with an effect planted in one of them, how many find it; the same with twice and four times the blocks."
        " Progress goes to standard error."
    )
    cmd_options = (
        opt_jobs,
        option("depths", "so many made-up depths for each line [default: 2000, fewer where ideas are many]", 0, "N"),
        option("seeds", f"measure the root with so many other seeds; 0: none [default: {SEEDS}]", SEEDS, "N"),
        option("seed", "another number makes up others", 0, "N"),
        opt_json,
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        for name, (default, least, most) in RANGES.items():
            if params[name] != default and not least <= params[name] <= most:
                raise InvalidCommand(f"calibrate: --{name} {params[name]}: give a number from {least} to {most}")
        plans = plans_of_run("calibrate", args[0])
        plan = plans[args[0]]
        kind = ability_of(plan, kinds.CALIBRATE, "promotes nothing that could be promoted by chance")
        again = kind.seed_targets(plan.run, plan.targets, params["seeds"])
        with lock_runs([*plans]) as locks, redirect_stdout(sys.stderr):
            needed = kind.needed_targets(plan.run, again)
            if code := build_plainly(plans, locks, needed, params["num_process"], again):
                return code
        record = kind.calibrate(plan.run, plan.targets, again, params["depths"], params["seed"])
        print_result(record, kind.calibration_lines(record), params["json"])
        return 0


class HoldoutCommand(OneRunCommand):
    name = "holdout"
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


def open_holdout(plan: RunPlan, kind: kinds.HoldoutModule, jobs: int, reopen: bool) -> int:
    """Open what the run of `plan` has held out; nothing of its search is built here."""
    run, spec = plan.run, project.read_spec(plan.run, plan.spec)
    plans = project.load([run, *kind.sources(spec)])
    with lock_runs([*plans]) as locks:
        if not Search(plan, plans, 0).stopped():
            what = "the search has not stopped yet by the spec as it is, and what is held out is for its end"
            raise SpecError(f"{run}: {what}; `coppice {run}` builds it")
        question = kind.question(run, spec, plan.targets)
        # Without signatures, since nothing was built by it before.
        targets = Graph([*plan.targets, *kind.targets(spec, question)]).targets
        opened = plan._replace(targets=targets, signatures=(0,) * len(plan.signatures))
        check_buildable({**plans, run: opened}, [f"{run}:holdout"], jobs)
        kind.open_seal(run, question, reopen)
        if code := build_plainly({**plans, run: opened}, locks, [f"{run}:holdout"], jobs):
            return code
        with closing(Receipts(run)) as receipts:  # so that they are made anew and include what was found
            receipts.append([ReceiptLine(f"{run}:{name}", FORGOTTEN, {}) for name in kind.REPORT_TARGETS])
            receipts.sync()
        return build_plainly(plans, locks, [run], jobs)


class RetryCommand(NewCommand):
    name = "retry"
    doc_usage = "RUN [SLOT]..."
    doc_purpose = "do evaluations whose candidate failed again, all of them or the ones named, such as d0.n0.i2"
    doc_description = (
        "Says what is done again and what that took the last time, forgets the implementations of these evaluations and"
        " all that was measured of them, and builds. Their ideas stay. An outage needs no retry: the next build goes on"
        " by itself."
    )
    takes = (1, inf, "name a run, and the evaluations if not all that failed")
    cmd_options = (
        option("dry_run", "only say what would be done", short="n"),
        {key: value for key, value in opt_jobs.items() if key != "short"},
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        plans = plans_of_run("retry", args[0])
        plan = plans[args[0]]
        kind = ability_of(plan, kinds.RETRY, f"has no evaluations; `coppice {plan.run}` builds again what failed")
        if params["dry_run"]:
            print_text("\n".join(kind.plan_retry(plan.run, plan.targets, args[1:]).lines))
            return 0
        with lock_runs([*plans]) as locks:
            retry = kind.plan_retry(plan.run, plan.targets, args[1:])
            if retry.forget:
                check_buildable(plans, [plan.run], params["num_process"], redo=retry.forget)
            print_text("\n".join(retry.lines))
            if not retry.forget:
                return 0
            with closing(Receipts(plan.run)) as receipts:
                receipts.append([ReceiptLine(name, FORGOTTEN, {}) for name in retry.forget])
                receipts.sync()
            append_request(plan.run, RETRIED, slots=[*retry.slots])  # last: it tells what was done
            return build_plainly(plans, locks, [plan.run], params["num_process"])
