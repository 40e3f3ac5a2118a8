"""doit's own commands on our targets: list, info, clean, forget, ignore.  `doit` finds them as plugins.

Those of doit that have nothing to do in a project made of specs (reset-dep, strace, dumpdb: there is no database and
there are no tasks to trace) say so there, and do what they always did elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from doit.cmd_clean import Clean as StockClean
from doit.cmd_dumpdb import DumpDB as StockDumpDB
from doit.cmd_forget import Forget as StockForget
from doit.cmd_ignore import Ignore as StockIgnore
from doit.cmd_info import Info as StockInfo
from doit.cmd_list import List as StockList
from doit.cmd_resetdep import ResetDep as StockResetDep
from doit.cmd_strace import Strace as StockStrace
from doit.exceptions import InvalidCommand

from pipeline.build.runner import ReceiptDatabase, doit_tasks
from pipeline.build.session import BuildSession
from pipeline.commands.command import SpecCommand, print_text
from pipeline.commands.exits import FAILED
from pipeline.commands.selection import plans_for, run_answer
from pipeline.machine.lock import lock_runs


class TaskCommand(SpecCommand):
    """Command of doit's, given targets for tasks and receipts for a database."""

    writes = False

    def on_specs(self, params: Any, args: list[str]) -> int:
        if not self.writes:
            return run_answer(args, lambda words: self.on_tasks(BuildSession(plans_for(words)), params, args))
        plans = plans_for(args)
        with lock_runs([*plans]):
            return self.on_tasks(BuildSession(plans), params, args)

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        self.task_list = doit_tasks(session)
        self.dep_manager = ReceiptDatabase(session)
        tasks: dict[str, None] = {}  # each once: a run as it is, otherwise the targets that a word stands for
        for word in args:
            own = [] if word in session.plans else sorted(session.select([word]))
            tasks |= dict.fromkeys([session.graph.targets[i].name for i in own] or [word])
        self.sel_tasks, self.sel_default_tasks = [*tasks], not args
        names = self._execute.__code__.co_varnames[1 : self._execute.__code__.co_argcount]
        values = {**params, "pos_args": self.sel_tasks}
        return int(self._execute(**{name: values[name] for name in names}) or 0)


class ListCommand(TaskCommand, StockList):  # type: ignore[misc]
    name = "list"
    preferred: ClassVar = {"sort": "definition"}

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        bare = "{status} {name}" if params["status"] else "{name}"
        template = params["template"] or (bare if params["quiet"] else None)
        return super().on_tasks(session, {**params, "template": template}, args)


class InfoCommand(TaskCommand, StockInfo):  # type: ignore[misc]
    name = "info"
    takes = (1, 1, "name one run, step or target")

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        from pipeline.build.inquiry import run_info, step_info, target_info

        with_status = not params["hide_status"]
        own = [*session.select(args)]
        if args[0] in session.plans:
            text, fresh = run_info(session, args[0], with_status)
        elif len(own) > 1:
            text, fresh = step_info(session, args[0], own, with_status)
        else:
            text, fresh = target_info(session, own[0], with_status)
        print_text(text)
        return 0 if fresh else FAILED


class CleanCommand(TaskCommand, StockClean):  # type: ignore[misc]
    name = "clean"
    writes = True
    doc_description = (
        "Without a name: all runs. What was removed is recalled by the next build, unless it is forgotten too."
    )

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        """Readers before what they read, as doit has it; but by loops: a chain may be long."""
        every = params["cleanall"] or not args
        wanted = session.select([] if every else args)
        if params["cleandep"]:
            wanted = session.graph.upstream(wanted)
        records = ReceiptDatabase(session)
        for i in sorted(wanted, reverse=True):
            target = session.graph.targets[i]
            for path in filter(os.path.lexists, target.outputs):
                print(f"{target.name} - {'would remove' if params['dryrun'] else 'removing'} {path}")
                if not params["dryrun"]:
                    os.unlink(path)
            if params["cleanforget"] and not params["dryrun"]:
                records.remove(target.name)
        records.close()
        return 0


class ForgetCommand(TaskCommand, StockForget):  # type: ignore[misc]
    name = "forget"
    writes = True

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        return super().on_tasks(session, params, args or list(session.plans))


class IgnoreCommand(TaskCommand, StockIgnore):  # type: ignore[misc]
    name = "ignore"
    writes = True

    def on_tasks(self, session: BuildSession, params: Mapping[str, Any], args: list[str]) -> int:
        if not args:
            raise InvalidCommand("ignore: name a run or targets; to ignore everything is not to build")
        return super().on_tasks(session, params, args)


class MeaninglessCommand(SpecCommand):
    def on_specs(self, params: Any, args: list[str]) -> int:
        raise InvalidCommand(f"`{self.name}` means nothing in a Coppice project; `coppice help` says what does")


class ResetDepCommand(MeaninglessCommand, StockResetDep):  # type: ignore[misc]
    name = "reset-dep"


class StraceCommand(MeaninglessCommand, StockStrace):  # type: ignore[misc]
    name = "strace"


class DumpDBCommand(MeaninglessCommand, StockDumpDB):  # type: ignore[misc]
    name = "dumpdb"
    base_options = ()  # it names the database itself

    def execute(self, params: Any, args: list[str]) -> int:
        """Do without a dodo.py, as doit's own does."""
        return super().execute(params, args) if os.path.exists(params["dodoFile"]) else self.run_stock(params, args)

    def run_stock(self, params: Any, args: list[str]) -> int:
        return int(StockDumpDB.execute(self, params, args) or 0)
