"""A build from the words of the command line to the exit code: lock, look, run what is stale, remember.

Besides the reporter that was asked for, the build tells the followers of its runs (kinds that write what no target
does) and JUnit's.  Reporters of doit's and of plugins for doit are told of tasks, in doit's words."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from doit.exceptions import InvalidCommand, TaskFailed, UnmetDependency

from pipeline import kinds
from pipeline.build.activity import ActivityReporter
from pipeline.build.history import HistoryReporter
from pipeline.build.project import RunPlan
from pipeline.build.rehearsal import last_seconds
from pipeline.build.runner import RoomRunner, TargetTask
from pipeline.build.session import BuildSession
from pipeline.commands.exits import LOCKED, refuse
from pipeline.commands.selection import plans_for
from pipeline.core.graph import ENGINES, Target, step_of
from pipeline.core.outcome import FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome, Wait
from pipeline.core.text import join_names
from pipeline.errors import NO_ROOM, UNAVAILABLE, RunPaused
from pipeline.kinds import Follower
from pipeline.machine.failures import describe_unwritten
from pipeline.machine.lock import lock_runs
from pipeline.machine.usage import ROOT, usable_cpus
from pipeline.views.events import Build, Reporter
from pipeline.views.lines import savings_line
from pipeline.views.reporters import REPORTERS, Console, ReporterGroup


class FollowerReporter(Reporter):
    """Reporter that passes the events of one run to its follower, and lines of it for people to `say`."""

    def __init__(self, kind: str, run: str) -> None:
        self._kind, self._run, self._stopped = kind, run, False
        self._follower: Follower | None = None
        self.say: Callable[[str], None] = lambda line: None

    @property
    def saved_usd(self) -> float:
        return self._follower.saved_usd if self._follower else 0.0

    def is_saved(self, target: Target) -> bool:
        return self._follower is None or target.run != self._run or self._follower.is_saved(target)

    def initialize(self, tasks: Any, selected: Any) -> None:
        own = {i: target for i, target in enumerate(self.build.targets) if target.run == self._run}
        todo = [target for i, target in own.items() if i in self.build.todo]
        module = kinds.ability_module(self._kind, kinds.FOLLOW)
        self._follower = module.follower(self._run, [*own.values()], todo)

    def stopping(self, why: str) -> None:
        self._stopped = True

    def target_started(self, target: Target) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_started(target, self.build.receipt(target) is None)

    def target_process(self, target: Target, pid: int) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_process(target, pid)

    def target_waits(self, target: Target, wait: Wait) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_waits(target, wait)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if target.run == self._run and self._follower:
            self._follower.target_ended(target, outcome)
            for line in self._follower.take_lines():
                self.say(line)

    def round_ended(self) -> None:
        if self._follower:
            self._follower.round_ended()

    def steered(self, run: str, request: Mapping[str, Any]) -> None:
        if run == self._run and self._follower:
            self._follower.steered()

    def complete_run(self) -> None:
        if self._follower and (text := self._follower.finish(self._stopped)):
            sys.stderr.write(f"{self._run}: {text}\n")


class SavingsReporter(Reporter):
    """Reporter of what recalled and fresh results need not be paid again; `tells`: time and money in one last line.

    `seconds`: by run, for its history."""

    def __init__(self, followers: Sequence[FollowerReporter], tells: bool) -> None:
        self._followers, self._tells = followers, tells
        self.seconds: dict[str, float] = defaultdict(float)
        self._counts = {RECALLED: 0, FRESH: 0}

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in self._counts and all(each.is_saved(target) for each in self._followers):
            self._counts[outcome.status] += 1
            self.seconds[target.run] += outcome.saved

    def complete_run(self) -> None:
        usd = sum(each.saved_usd for each in self._followers)
        if self._tells and (line := savings_line(self._counts, sum(self.seconds.values()), usd)):
            sys.stderr.write(f"{line}\n")


class ForeignReporter(Reporter):
    """Adapter between our events and `theirs`, a reporter of doit's, which knows no `begin` and no `stopping`."""

    def __init__(self, theirs: Any, session: BuildSession) -> None:
        self._theirs, self._session = theirs, session

    def target_started(self, target: Target) -> None:
        self._theirs.execute_task(self._task(target))

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        events = {FRESH: "skip_uptodate", IGNORED: "skip_ignore", FAILED: "add_failure", SKIPPED: "add_failure"}
        failures = {FAILED: TaskFailed, SKIPPED: UnmetDependency}
        details = [failures[outcome.status](outcome.why)] if outcome.status in failures else []
        getattr(self._theirs, events.get(outcome.status, "add_success"))(self._task(target), *details)

    def initialize(self, tasks: Any, selected: Any) -> None:
        if hasattr(self._theirs, "initialize"):  # doit asks that, too
            self._theirs.initialize(tasks, selected)

    def complete_run(self) -> None:
        self._theirs.complete_run()

    def _task(self, target: Target) -> TargetTask:
        return TargetTask(self._session, self._session.graph.index[target.name])


def build(words: list[str], params: Mapping[str, Any], reporters: Mapping[str, Any]) -> int:
    plans = with_engine(plans_for(words), params.get("engine"))
    with lock_runs([*plans]) as locks:
        return build_locked(plans, locks, words, params, reporters)


def with_engine(plans: Mapping[str, RunPlan], engine: str | None) -> Mapping[str, RunPlan]:
    """The plans under another engine, where one is named; runs that have no say in it stay as they are."""
    if engine is None:
        return plans
    if engine not in ENGINES:
        raise InvalidCommand(f"--engine {engine}: there is {', '.join(ENGINES)}")
    return {
        run: plan._replace(engine={**plan.engine, "engine": engine}) if plan.engine else plan
        for run, plan in plans.items()
    }


def build_locked(
    plans: Mapping[str, RunPlan],
    locks: Sequence[int],
    words: Iterable[str],
    params: Mapping[str, Any],
    reporters: Mapping[str, Any],
    aside: Sequence[Target] = (),
) -> int:
    """Build, for a caller who has the locks of `plans`.  `aside`: targets that no plan has."""
    with ExitStack() as closed:
        session = closed.enter_context(closing(BuildSession(plans, locks, params["always"], aside)))
        graph, out = session.graph, params["outfile"]
        wanted, todo, paused = admit_targets(session, words)
        for run in paused:
            sys.stderr.write(
                f"coppice: {_paused_text(session, run)}: nothing of it is started; {_resume_text([run])}\n"
            )
        session.prepare()
        _warn_unset(session, todo)
        _tell_of_cages(session, todo)
        at_once = job_count(params["num_process"], plans)
        stream = closed.enter_context(open(out, "w", encoding="utf-8")) if isinstance(out, str) else sys.stdout
        reporter = _reporter(session, stream, params, reporters)
        reporter.begin(_known_build(session, wanted, todo, at_once))
        runner = RoomRunner(session, todo, at_once, reporter, params["continue"])
        # what doit's runner asks of a dispatcher before our own loop takes over
        selection = SimpleNamespace(tasks={}, selected_tasks=[graph.targets[i].name for i in sorted(wanted)])
        code = _run_and_save(session, runner, selection)
        for refused in filter(None, (store.refusals() for store in {*session.maker.stores.values()})):
            sys.stderr.write(f"coppice: {refused}\n")
    if paused and not code:
        verb = "is" if len(paused) == 1 else "are"
        return refuse(f"left out: {join_names(paused)}, which {verb} paused; {_resume_text(paused)}", LOCKED)
    return code


def _known_build(session: BuildSession, wanted: Iterable[int], todo: Collection[int], at_once: int) -> Build:
    """The build as it is known before its first target starts."""
    graph, receipts, stage = session.graph, session.maker.receipts, session.maker.stage
    staged = {run for run, plan in session.plans.items() if plan.kind in kinds.FOLLOW.kinds}
    return Build(
        graph.targets,
        graph.above,
        graph.upstream(wanted),
        todo,
        at_once,
        session.room_places(),
        receipt=lambda t: receipts[t.run].receipt(t.name),
        is_minor=lambda t: stage(t).minor,
        seconds=partial(last_seconds, session),
        group=lambda t: f"{t.run}:{t.stage}" if t.run in staged else step_of(t.name),
        rooms_of=session.rooms_of,
    )


def _run_and_save(session: BuildSession, runner: RoomRunner, selection: SimpleNamespace) -> int:
    """Run what is stale, and remember.  Where runs have patience with a full disk, one that stays full is an outage."""
    code = 0
    try:
        try:
            code = int(runner.run_all(selection))
        except BaseException:
            with suppress(OSError):  # what has gone wrong is told, not that it cannot be remembered what has not
                session.save(runner.statuses)
            raise
        session.save(runner.statuses)
    except OSError as error:
        if error.errno not in NO_ROOM or all(target.limits.patience is None for target in session.graph.targets):
            raise
        return refuse(describe_unwritten(error), code or UNAVAILABLE)
    return code


def admit_targets(
    session: BuildSession, words: Iterable[str], redo: Iterable[str] = ()
) -> tuple[set[int], set[int], list[str]]:
    """The targets that are wanted, those in doubt, and the runs that are left out because a person has paused them.

    Refuses what cannot be built, before anything is changed.  `redo`: names of targets that will be forgotten."""
    again = {session.graph.index[name] for name in redo}
    session.suspects |= again
    wanted = session.select(words)
    todo = session.stale(wanted)
    session.check_sources(todo)
    paused = _paused_runs(session, todo, again)
    if not paused:
        return wanted, todo, []
    targets = session.graph.targets
    held = session.graph.downstream(i for i in todo if targets[i].run in paused)
    wanted = {i for i in wanted - held if targets[i].run not in paused}
    if not wanted:
        which = "; ".join(_paused_text(session, run) for run in paused)
        raise RunPaused(f"{which}: nothing was started; {_resume_text(paused)}")
    return wanted, session.stale(wanted), paused


def _paused_runs(session: BuildSession, todo: set[int], again: set[int]) -> list[str]:
    """Runs that a person has paused and that would cost something: a build that waits was running by then."""
    costly = {i for i in todo if session.is_paused(session.graph.targets[i])}
    if not costly:
        return []
    from pipeline.build.rehearsal import target_statuses  # here: hardly any build is paused

    stale = again | {i for i, seen in target_statuses(session, costly).items() if seen.status != FRESH}
    session.costs_nothing = {session.graph.targets[i].name for i in costly - stale}
    return sorted({session.graph.targets[i].run for i in stale & costly})


def _paused_text(session: BuildSession, run: str) -> str:
    request = session.steering[run].pause() or {"at": 0.0}
    return f"run {run} is paused since {time.strftime('%Y-%m-%d %H:%M:%S %z', time.localtime(request['at']))}"


def _resume_text(runs: Sequence[str]) -> str:
    commands = join_names([f"`coppice resume {run}`" for run in runs])
    return f"{commands} {'lets it' if len(runs) == 1 else 'let them'} go on"


def _warn_unset(session: BuildSession, todo: set[int]) -> None:
    """Warn of variables to pass through that are not set.  No mistake: a proxy, say, is not set everywhere."""
    targets, stages = session.graph.targets, session.maker.stages
    passed = {(t.run, name) for t in map(targets.__getitem__, todo) for name in stages[t.run][t.stage].passed(t)}
    unset = sorted((run, name) for run, name in passed if name not in os.environ)
    for run in dict.fromkeys(run for run, _ in unset):
        names = [name for of, name in unset if of == run]
        verb = "is" if len(names) == 1 else "are"
        sys.stderr.write(
            f"coppice: {run}: {join_names(names)} {verb} not set; what wants it runs without it, or fails\n"
        )


def _tell_of_cages(session: BuildSession, todo: set[int]) -> None:
    """Tell which grade `sandbox: auto` is on this machine, and what candidates could see that they should not."""
    for run in session.cages(todo):
        plan = session.plans[run]
        for line in kinds.ability_module(plan.kind, kinds.START).start_lines(plan.targets):
            sys.stderr.write(f"coppice: {run}: {line}\n")


def _reporter(
    session: BuildSession, stream: Any, params: Mapping[str, Any], reporters: Mapping[str, Any]
) -> ReporterGroup:
    """Make the reporter that was asked for, with the followers of runs and JUnit's beside it."""
    followed = [plan for plan in session.plans.values() if plan.kind in kinds.FOLLOW.kinds]
    followers = [FollowerReporter(plan.kind, plan.run) for plan in followed]
    name = params["reporter"]
    reporter = ({**reporters, **REPORTERS}[name] if isinstance(name, str) else name)(stream, params)
    ours = reporter if isinstance(reporter, Reporter) else ForeignReporter(reporter, session)
    for each in followers:
        each.say = ours.remark
    savings = SavingsReporter(followers, isinstance(ours, Console))
    group: list[Reporter] = [savings, *followers, ours]  # the first to listen ends last
    group += [*(HistoryReporter(run, savings.seconds) for run in session.plans), ActivityReporter(session.plans)]
    if params["junit"]:
        from pipeline.views.junit import JUnitReporter

        group.append(JUnitReporter(params["junit"]))
    return ReporterGroup(group)


def job_count(jobs: int, plans: Mapping[str, RunPlan], root: Path = ROOT) -> int:
    """Number of targets at once: as asked for, or one for each CPU we may use, and no less than a run wants.

    `root`: of the system's files that tell of CPUs; the part of a CPU that a quota may leave counts as one."""
    if jobs < 0:
        raise InvalidCommand(f"-n {jobs}: give 1 or more, or 0 for as many as there are CPUs")
    if jobs:
        return jobs
    return max(ceil(usable_cpus(root)), *(max(plan.at_once, plan.orders_at_once) for plan in plans.values()))
