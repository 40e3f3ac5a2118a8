"""A build from the command line's words to the exit code: lock, look, run what is stale, remember."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from pipeline.build.asked import plans_for
from pipeline.build.command import jobs
from pipeline.build.following import followers
from pipeline.build.project import RunPlan
from pipeline.build.runner import Interrupted, RoomRunner, Todo
from pipeline.build.session import Session
from pipeline.core.graph import Target
from pipeline.core.rooms import rooms
from pipeline.core.words import listed
from pipeline.edge.lock import locked
from pipeline.views.events import Build, Reporter
from pipeline.views.reporters import REPORTERS, Reporters, junit

__all__ = ["Interrupted", "build", "build_locked"]


def build(words: list[str], params: Mapping[str, Any], reporters: Mapping[str, Any]) -> int:
    plans = plans_for(words)
    with locked([*plans]) as locks:
        return build_locked(plans, locks, words, params, reporters)


def build_locked(
    plans: Mapping[str, RunPlan],
    locks: Sequence[int],
    words: Iterable[str],
    params: Mapping[str, Any],
    reporters: Mapping[str, Any],
    aside: Sequence[Target] = (),
) -> int:
    """For who has the locks of `plans` already.  `aside`: targets that no plan has."""
    session = Session(plans, locks, params["always"], aside)
    try:
        return _built(session, session.select(words), params, reporters)
    finally:
        session.close()


def _built(session: Session, wanted: set[int], params: Mapping[str, Any], reporters: Mapping[str, Any]) -> int:
    todo = session.stale(wanted)
    session.check_sources(todo)
    session.prepare()
    _tell_unset(session, todo)
    at_once = jobs(params["num_process"], session.plans)
    with _output(params["outfile"]) as stream:
        reporter = _reporter(session, stream, params, reporters)
        reporter.begin(_announced(session, wanted, todo, at_once))
        runner = RoomRunner(session, todo, at_once, reporter, params["continue"])
        try:
            code = int(runner.run_all(Todo({}, [session.graph.targets[i].name for i in sorted(wanted)])))
        except BaseException:
            with suppress(OSError):  # what has gone wrong is told, not that it cannot be remembered what has not
                session.save(runner.ended)
            raise
        session.save(runner.ended)
        return code


def _tell_unset(session: Session, todo: set[int]) -> None:
    """Variables to pass through that are not there.  No mistake: a proxy, say, is not set everywhere."""
    targets, stages = session.graph.targets, session.maker.stages
    passed = {(t.run, name) for t in map(targets.__getitem__, todo) for name in stages[t.run][t.stage].passed(t)}
    unset = sorted((run, name) for run, name in passed if name not in os.environ)
    for run in dict.fromkeys(run for run, _ in unset):
        names = [name for of, name in unset if of == run]
        verb = "is" if len(names) == 1 else "are"
        sys.stderr.write(f"coppice: {run}: {listed(names)} {verb} not set; what passes it on runs without it\n")


def _reporter(session: Session, stream: Any, params: Mapping[str, Any], reporters: Mapping[str, Any]) -> Reporters:
    """One of coppice, of doit or of a plugin; besides it those of runs that follow their build, and JUnit's."""
    name = params["reporter"]
    made = ({**reporters, **REPORTERS}[name] if isinstance(name, str) else name)(stream, params)
    if not isinstance(made, Reporter):
        from pipeline.build.foreign import ForeignReporter

        made = ForeignReporter(made, session)
    return Reporters([*followers(session.plans), made, *([junit(params["junit"])] if params["junit"] else [])])


def _output(named: Any) -> AbstractContextManager[Any]:
    """The file of `-o`, or standard output."""
    return open(named, "w", encoding="utf-8") if isinstance(named, str) else nullcontext(sys.stdout)


def _announced(session: Session, wanted: set[int], todo: set[int], at_once: int) -> Build:
    graph, receipts = session.graph, session.maker.receipts
    needed, places = graph.needed(wanted), rooms(session.plans.values())
    return Build(graph.targets, graph.above, needed, todo, at_once, places, lambda t: receipts[t.run].receipt(t.name))
