"""A build from the words of the command line to the exit code: lock, look, run what is stale, remember.

Besides the reporter that was asked for, the build tells the followers of its runs (kinds that write what no target
does) and JUnit's.  Reporters of doit's and of plugins for doit are told of tasks, in doit's words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from doit.exceptions import InvalidCommand, TaskFailed, UnmetDependency

from pipeline import kinds
from pipeline.build.project import RunPlan
from pipeline.build.runner import RoomRunner, TargetTask, TaskSelection
from pipeline.build.session import BuildSession
from pipeline.commands.selection import plans_for
from pipeline.core.graph import Target
from pipeline.core.outcome import FAILED, FRESH, IGNORED, SKIPPED, Outcome
from pipeline.core.text import join_names
from pipeline.kinds import Follower
from pipeline.machine.lock import lock_runs
from pipeline.views.events import Build, Reporter
from pipeline.views.reporters import REPORTERS, ReporterGroup, junit_reporter


class FollowerReporter(Reporter):
    """Reporter that passes the events of one run to its follower."""

    def __init__(self, kind: str, run: str) -> None:
        self._kind, self._run, self._stopped = kind, run, False
        self._follower: Follower | None = None

    def initialize(self, tasks: Any, selected: Any) -> None:
        todo = self._own_targets(self.build.targets[i] for i in sorted(self.build.todo))
        makes = kinds.ability_module(self._kind, kinds.FOLLOW)
        follower = makes.follower(self._run, self._own_targets(self.build.targets), todo)
        follower.begin()
        self._follower = follower

    def _own_targets(self, targets: Iterable[Target]) -> Sequence[Target]:
        return [target for target in targets if target.run == self._run]

    def stopping(self, why: str) -> None:
        self._stopped = True

    def target_started(self, target: Target) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_started(target, self.build.receipt(target) is None)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_ended(target, outcome)

    def complete_run(self) -> None:
        if self._follower and (said := self._follower.finish(self._stopped)):
            sys.stderr.write(f"{self._run}: {said}\n")


def followers(plans: Mapping[str, RunPlan]) -> Iterator[FollowerReporter]:
    return (
        FollowerReporter(plan.kind, run) for run, plan in plans.items() if kinds.has_ability(plan.kind, kinds.FOLLOW)
    )


class ForeignReporter(Reporter):
    """Adapter between our events and `theirs`, a reporter of doit's, which knows no `begin` and no `stopping`."""

    def __init__(self, theirs: Any, session: BuildSession) -> None:
        self._theirs, self._session = theirs, session

    def target_started(self, target: Target) -> None:
        self._theirs.execute_task(self._task(target))

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        done = self._task(target)
        if outcome.status == FRESH:
            self._theirs.skip_uptodate(done)
        elif outcome.status == IGNORED:
            self._theirs.skip_ignore(done)
        elif outcome.status in (FAILED, SKIPPED):
            failure = TaskFailed if outcome.status == FAILED else UnmetDependency
            self._theirs.add_failure(done, failure(outcome.why))
        else:
            self._theirs.add_success(done)

    def initialize(self, tasks: Any, selected: Any) -> None:
        if hasattr(self._theirs, "initialize"):  # doit asks that, too
            self._theirs.initialize(tasks, selected)

    def complete_run(self) -> None:
        self._theirs.complete_run()

    def _task(self, target: Target) -> TargetTask:
        return TargetTask(self._session, self._session.graph.index[target.name])


def build(words: list[str], params: Mapping[str, Any], reporters: Mapping[str, Any]) -> int:
    plans = plans_for(words)
    with lock_runs([*plans]) as locks:
        return build_locked(plans, locks, words, params, reporters)


def build_locked(
    plans: Mapping[str, RunPlan],
    locks: Sequence[int],
    words: Iterable[str],
    params: Mapping[str, Any],
    reporters: Mapping[str, Any],
    aside: Sequence[Target] = (),
) -> int:
    """Build, for a caller who has the locks of `plans`.  `aside`: targets that no plan has."""
    session = BuildSession(plans, locks, params["always"], aside)
    try:
        return _build_targets(session, session.select(words), params, reporters)
    finally:
        session.close()


def _build_targets(
    session: BuildSession, wanted: set[int], params: Mapping[str, Any], reporters: Mapping[str, Any]
) -> int:
    todo = session.stale(wanted)
    session.check_sources(todo)
    session.prepare()
    _warn_unset(session, todo)
    at_once = job_count(params["num_process"], session.plans)
    with _report_stream(params["outfile"]) as stream:
        reporter = _reporter(session, stream, params, reporters)
        reporter.begin(_announcement(session, wanted, todo, at_once))
        runner = RoomRunner(session, todo, at_once, reporter, params["continue"])
        try:
            code = int(runner.run_all(TaskSelection({}, [session.graph.targets[i].name for i in sorted(wanted)])))
        except BaseException:
            with suppress(OSError):  # what has gone wrong is told, not that it cannot be remembered what has not
                session.save(runner.statuses)
            raise
        session.save(runner.statuses)
        return code


def _warn_unset(session: BuildSession, todo: set[int]) -> None:
    """Warn of variables to pass through that are not set.  No mistake: a proxy, say, is not set everywhere."""
    targets, stages = session.graph.targets, session.maker.stages
    passed = {(t.run, name) for t in map(targets.__getitem__, todo) for name in stages[t.run][t.stage].passed(t)}
    unset = sorted((run, name) for run, name in passed if name not in os.environ)
    for run in dict.fromkeys(run for run, _ in unset):
        names = [name for of, name in unset if of == run]
        verb = "is" if len(names) == 1 else "are"
        sys.stderr.write(f"coppice: {run}: {join_names(names)} {verb} not set; what passes it on runs without it\n")


def _reporter(
    session: BuildSession, stream: Any, params: Mapping[str, Any], reporters: Mapping[str, Any]
) -> ReporterGroup:
    """Make the reporter that was asked for, with the followers of runs and JUnit's beside it."""
    name = params["reporter"]
    made = ({**reporters, **REPORTERS}[name] if isinstance(name, str) else name)(stream, params)
    if not isinstance(made, Reporter):
        made = ForeignReporter(made, session)
    return ReporterGroup(
        [*followers(session.plans), made, *([junit_reporter(params["junit"])] if params["junit"] else [])]
    )


def _report_stream(named: Any) -> AbstractContextManager[Any]:
    """Open the file of `-o`, or standard output."""
    return open(named, "w", encoding="utf-8") if isinstance(named, str) else nullcontext(sys.stdout)


def _announcement(session: BuildSession, wanted: set[int], todo: set[int], at_once: int) -> Build:
    graph, receipts = session.graph, session.maker.receipts
    needed, places = graph.upstream(wanted), session.room_places()
    return Build(graph.targets, graph.above, needed, todo, at_once, places, lambda t: receipts[t.run].receipt(t.name))


def job_count(asked: int, plans: Mapping[str, RunPlan]) -> int:
    """Number of targets at once: as asked for, or one for each CPU we may use, and no less than a run wants."""
    if asked < 0:
        raise InvalidCommand(f"-n {asked}: give 1 or more, or 0 for as many as there are CPUs")
    if asked:
        return asked
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cpus, *(plan.at_once for plan in plans.values()))
