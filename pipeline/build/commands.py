"""doit's own commands on our targets: `doit` finds them as plugins, `coppice` lists them itself.

In a project that is not ours (its dodo.py does not say so) each stock command does what it always did."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from doit.cmd_clean import Clean as StockClean
from doit.cmd_forget import Forget as StockForget
from doit.cmd_ignore import Ignore as StockIgnore
from doit.cmd_info import Info as StockInfo
from doit.cmd_list import List as StockList
from doit.exceptions import InvalidCommand

from pipeline.build.ours import Ours, plans_for
from pipeline.build.session import Session
from pipeline.build.tasks import Records, tasks
from pipeline.edge.lock import locked


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

    def on(self, session: Session, params: Mapping[str, Any], args: list[str]) -> int:
        self.task_list = tasks(session)
        self.dep_manager = Records(session)
        self.sel_tasks = named(session, args)
        self.sel_default_tasks = not args
        names = self._execute.__code__.co_varnames[1 : self._execute.__code__.co_argcount]
        values = {**params, "pos_args": self.sel_tasks}
        return int(self._execute(**{name: values[name] for name in names}) or 0)


def named(session: Session, words: list[str]) -> list[str]:
    """Names of tasks; an output stands for the target that writes it."""
    out: list[str] = []
    for word in words:
        as_it_is = word in session.plans or "*" in word
        out += [word] if as_it_is else [session.graph.targets[i].name for i in session.select([word])]
    return out


class List(OnTasks, StockList):  # type: ignore[misc]
    name = "list"


class Info(OnTasks, StockInfo):  # type: ignore[misc]
    name = "info"

    @staticmethod
    def get_reasons(reasons: Mapping[str, list[Any]]) -> str:
        return "\n".join(f" * {reason}" for reason, _, _ in reasons["uptodate_false"])


class Clean(OnTasks, StockClean):  # type: ignore[misc]
    name = "clean"
    writes = True
    doc_description = (
        "Without a name: all runs. What was removed is recalled by the next build, unless it is forgotten too."
    )

    def on(self, session: Session, params: Mapping[str, Any], args: list[str]) -> int:
        """Readers before what they read, as doit has it; but by loops: a chain may be long."""
        every = params["cleanall"] or not args
        wanted = session.select([] if every else args)
        if params["cleandep"]:
            wanted = session.graph.needed(wanted)
        records = Records(session)
        for i in sorted(wanted, reverse=True):
            target = session.graph.targets[i]
            for path in filter(os.path.lexists, target.outputs):
                print(f"{target.name} - removing {path}")
                if not params["dryrun"]:
                    os.unlink(path)
            if params["cleanforget"] and not params["dryrun"]:
                records.remove(target.name)
        records.close()
        return 0


class Forget(OnTasks, StockForget):  # type: ignore[misc]
    name = "forget"
    writes = True

    def on(self, session: Session, params: Mapping[str, Any], args: list[str]) -> int:
        return super().on(session, params, args or list(session.plans))


class Ignore(OnTasks, StockIgnore):  # type: ignore[misc]
    name = "ignore"
    writes = True

    def on(self, session: Session, params: Mapping[str, Any], args: list[str]) -> int:
        if not args:
            raise InvalidCommand("ignore: name a run or targets; to ignore everything is not to build")
        return super().on(session, params, args)
