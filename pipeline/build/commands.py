"""The commands, as doit commands: `doit` finds them as plugins, `coppice` lists them itself.

In a project that is not ours (its dodo.py does not say so) each stock command does what it always did."""

from __future__ import annotations

import os
import sys
from typing import Any

from doit.cmd_base import DoitCmdBase
from doit.cmd_clean import Clean as StockClean
from doit.cmd_forget import Forget as StockForget
from doit.cmd_ignore import Ignore as StockIgnore
from doit.cmd_info import Info as StockInfo
from doit.cmd_list import List as StockList
from doit.cmd_run import Run as StockRun
from doit.exceptions import InvalidCommand

from pipeline.build import project
from pipeline.build.runner import Interrupted, RoomRunner, Todo
from pipeline.build.session import Session
from pipeline.build.tasks import Records, tasks
from pipeline.edge.lock import Locked, locked
from pipeline.spec import SpecError
from pipeline.views.reporters import REPORTERS

FAILED, BAD_INPUT, LOCKED = 1, 2, 75


def run_of(word: str) -> str:
    """The run that a word on the command line speaks of: `run`, `run:target` or `runs/run/output`."""
    parts = os.path.normpath(word).split("/")
    if len(parts) > 2 and parts[0] == "runs":
        return parts[1]
    return word.partition(":")[0]


class Ours(DoitCmdBase):  # type: ignore[misc]
    """Loads specs instead of dodo.py, keeps receipts instead of a database, and speaks of mistakes in one line."""

    writes = False

    def execute(self, params: Any, args: list[str]) -> int:
        self.loader.setup(params)
        config = self.loader.load_doit_config()
        if not config.get("coppice"):
            return self.stock(params, args)
        params.update_defaults(config)
        try:
            return self.ours(params, args)
        except (SpecError, InvalidCommand) as error:
            return self.refuse(str(error), BAD_INPUT)
        except Locked as error:
            return self.refuse(str(error), LOCKED)
        except Interrupted as error:
            return self.refuse(f"{error}; what was finished is kept", 128 + error.number)
        except OSError as error:
            return self.refuse(f"{error.filename or 'coppice'}: {error.strerror}", FAILED)

    def stock(self, params: Any, args: list[str]) -> int:
        return int(super().execute(params, args) or 0)

    def ours(self, params: Any, args: list[str]) -> int:
        """The stock command, on our tasks and our records."""
        runs = sorted({run_of(word) for word in args}) or list(project.specs())
        if not self.writes:
            return self.on(Session(runs), params, args)
        with locked([*project.load(runs)]):
            return self.on(Session(runs), params, args)

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

    @staticmethod
    def refuse(message: str, code: int) -> int:
        sys.stdout.flush()
        sys.stderr.write(f"coppice: {message}\n")
        return code


class List(Ours, StockList):  # type: ignore[misc]
    name = "list"


class Info(Ours, StockInfo):  # type: ignore[misc]
    name = "info"


class Clean(Ours, StockClean):  # type: ignore[misc]
    name = "clean"
    writes = True


class Forget(Ours, StockForget):  # type: ignore[misc]
    name = "forget"
    writes = True

    def on(self, session: Session, params: Any, args: list[str]) -> int:
        return super().on(session, params, args or list(session.plans))


class Ignore(Ours, StockIgnore):  # type: ignore[misc]
    name = "ignore"
    writes = True


opt_jobs = {
    "name": "num_process", "short": "n", "long": "process", "type": int, "default": 0,
    "help": "how many targets at once [default: as many as there are CPUs]",
}  # fmt: skip
opt_junit = {
    "name": "junit", "short": "", "long": "junit", "type": str, "default": "",
    "help": "write the targets and how they ended to FILE as JUnit XML",
}  # fmt: skip


class Run(Ours, StockRun):  # type: ignore[misc]
    name = "run"
    doc_usage = "[RUN | RUN:TARGET | FILE]..."
    cmd_options = (*(opt for opt in StockRun.cmd_options if opt["name"] != "num_process"), opt_jobs, opt_junit)

    def get_reporters(self) -> dict[str, Any]:
        reporters: dict[str, Any] = super().get_reporters()
        return reporters | REPORTERS

    def ours(self, params: Any, args: list[str]) -> int:
        runs = sorted({run_of(word) for word in args}) or list(project.specs())
        with locked([*project.load(runs)]):
            session = Session(runs, always=params["always"])
            try:
                return self.build(session, session.select(args), params)
            finally:
                session.close()

    def build(self, session: Session, wanted: set[int], params: Any) -> int:
        todo = session.stale(wanted)
        session.check_sources(todo)
        session.prepare()
        reporter = self.reporter(session, wanted, todo, params)
        runner = RoomRunner(session, todo, jobs(params["num_process"]), Records(session), reporter, params["continue"])
        try:
            return int(runner.run_all(Todo({}, [session.graph.targets[i].name for i in sorted(wanted)])))
        finally:
            session.save(runner.ended)

    def reporter(self, session: Session, wanted: set[int], todo: set[int], params: Any) -> Any:
        name = params["reporter"]
        made = (REPORTERS[name] if isinstance(name, str) else name)(sys.stdout, params)
        return made


def jobs(asked: int) -> int:
    return asked or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else asked or os.cpu_count() or 1


