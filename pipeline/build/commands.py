"""doit's own commands on our targets: `doit` finds them as plugins, `coppice` lists them itself.

In a project that is not ours (its dodo.py does not say so) each stock command does what it always did."""

from __future__ import annotations

from typing import Any

from doit.cmd_clean import Clean as StockClean
from doit.cmd_forget import Forget as StockForget
from doit.cmd_ignore import Ignore as StockIgnore
from doit.cmd_info import Info as StockInfo
from doit.cmd_list import List as StockList

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
