"""The commands, as doit commands: `doit` finds them as plugins, `coppice` lists them itself.

In a project that is not ours (its dodo.py does not say so) each stock command does what it always did."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from doit.cmd_clean import Clean as StockClean
from doit.cmd_forget import Forget as StockForget
from doit.cmd_ignore import Ignore as StockIgnore
from doit.cmd_info import Info as StockInfo
from doit.cmd_list import List as StockList
from doit.cmd_run import Run as StockRun

from pipeline.build.ours import Ours, jobs, opt_jobs, plans_for
from pipeline.build.runner import Interrupted, RoomRunner, Todo
from pipeline.build.session import Session
from pipeline.build.tasks import Records, tasks
from pipeline.edge.lock import locked
from pipeline.views.events import Build
from pipeline.views.reporters import REPORTERS, Told, junit


class OnTasks(Ours):
    """A stock command of doit, on our tasks and our records."""

    writes = False

    def stock(self, params: Any, args: list[str]) -> int:
        return int(super(Ours, self).execute(params, args) or 0)

    def ours(self, params: Any, args: list[str]) -> int:
        plans = plans_for(args)
        if not self.writes:
            return self.on(Session(plans), params, args)
        with locked([*plans]):
            return self.on(Session(plans), params, args)

    def on(self, session: Session, params: Any, args: list[str]) -> int:
        self.sel_tasks = args
        self.sel_default_tasks = not args
        self.task_list = tasks(session)
        self.dep_manager = Records(session)
        words = {t.name for t in self.task_list}
        for word in args:
            if word not in words and "*" not in word:
                session.select([word])
        names = self._execute.__code__.co_varnames[1 : self._execute.__code__.co_argcount]
        params["pos_args"] = args
        return int(self._execute(**{name: params[name] for name in names}) or 0)


class List(OnTasks, StockList):  # type: ignore[misc]
    name = "list"


class Info(OnTasks, StockInfo):  # type: ignore[misc]
    name = "info"


class Clean(OnTasks, StockClean):  # type: ignore[misc]
    name = "clean"
    writes = True


class Forget(OnTasks, StockForget):  # type: ignore[misc]
    name = "forget"
    writes = True

    def on(self, session: Session, params: Any, args: list[str]) -> int:
        return super().on(session, params, args or list(session.plans))


class Ignore(OnTasks, StockIgnore):  # type: ignore[misc]
    name = "ignore"
    writes = True


opt_junit = {
    "name": "junit", "short": "", "long": "junit", "type": str, "default": "",
    "help": "write the targets and how they ended to FILE as JUnit XML",
}  # fmt: skip


class Run(OnTasks, StockRun):  # type: ignore[misc]
    name = "run"
    doc_usage = "[RUN | RUN:TARGET | FILE]..."
    cmd_options = (*(opt for opt in StockRun.cmd_options if opt["name"] != "num_process"), opt_jobs, opt_junit)

    def ours(self, params: Any, args: list[str]) -> int:
        plans = plans_for(args)
        with locked([*plans]) as locks:
            session = Session(plans, locks, params["always"])
            try:
                return self.build(session, session.select(args), params)
            except Interrupted as error:
                return self.refuse(f"{error}; what was finished is kept", 128 + error.number)
            finally:
                session.close()

    def build(self, session: Session, wanted: set[int], params: Any) -> int:
        todo = session.stale(wanted)
        session.check_sources(todo)
        session.prepare()
        at_once = jobs(params["num_process"])
        with output(params["outfile"]) as stream:
            reporter = self.reporter(stream, params)
            reporter.begin(announced(session, wanted, todo, at_once))
            runner = RoomRunner(session, todo, at_once, Records(session), reporter, params["continue"])
            try:
                return int(runner.run_all(Todo({}, [session.graph.targets[i].name for i in sorted(wanted)])))
            finally:
                session.save(runner.ended)

    def reporter(self, stream: Any, params: Any) -> Told:
        """Ours, or one of doit's or of a plugin; and JUnit's besides."""
        name = params["reporter"]
        made = {**self.reporters, **REPORTERS}[name] if isinstance(name, str) else name
        return Told([made(stream, params), *([junit(params["junit"])] if params["junit"] else [])])


def output(named: Any) -> AbstractContextManager[Any]:
    """The file of `-o`, or standard output."""
    return open(named, "w", encoding="utf-8") if isinstance(named, str) else nullcontext(sys.stdout)


def announced(session: Session, wanted: set[int], todo: set[int], at_once: int) -> Build:
    graph, receipts = session.graph, session.maker.receipts
    needed = wanted if len(wanted) == len(graph.targets) else graph.needed(wanted)
    rooms = {f"{run}:{room}": places for run, plan in session.plans.items() for room, places in plan.rooms.items()}
    return Build(graph.targets, graph.above, needed, todo, at_once, rooms, lambda t: receipts[t.run].receipt(t.name))
