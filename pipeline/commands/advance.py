"""The command `advance`: a search one depth further, and its progress as JSON.

A round is what ends one depth.  States of a search: the first `done` rounds are fresh -> one more is built -> the
search has stopped, or no round is left -> all that remains of the run is built."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stdout, suppress
from math import inf
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build.project import RunPlan
from pipeline.commands.command import ONE_RUN, NewCommand, build_plainly, opt_jobs, option, reporting
from pipeline.commands.selection import ability_of, plans_of_run
from pipeline.machine.lock import HEARTBEAT_PERIOD, LEAST_PATIENCE, Takeover, lock_runs
from pipeline.store.noop import up_to_date

stale_help = "take the run over from a process that has not been heard of for S seconds"
opt_stale = option("lock_stale_seconds", stale_help, None, "S")
opt_force = option("force", "take the run over from the process that builds it, which is ended")


class AdvanceCommand(NewCommand):
    name = "advance"
    doc_usage = "RUN"
    doc_purpose = "take a search at most one depth further; print where it stands as JSON"
    doc_description = (
        "Builds what the first depth that is not over needs, then its nodes. Once the search has stopped it builds what"
        " is left: the report and its validation. Progress goes to standard error."
    )
    cmd_options = (opt_jobs, opt_stale, opt_force)
    takes = ONE_RUN

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
