"""Commands of doit's that have nothing to do in a project made of specs: it has no database and no tasks to trace.

`doit` finds them as plugins. In a project that is not made of specs they do what they always did."""

from __future__ import annotations

import os
from typing import Any

from doit.cmd_dumpdb import DumpDB as StockDumpDB
from doit.cmd_resetdep import ResetDep as StockResetDep
from doit.cmd_strace import Strace as StockStrace
from doit.exceptions import InvalidCommand

from pipeline.build.command import SpecCommand


class Meaningless(SpecCommand):
    def on_specs(self, params: Any, args: list[str]) -> int:
        raise InvalidCommand(f"`{self.name}` means nothing in a Coppice project; `coppice help` says what does")


class ResetDep(Meaningless, StockResetDep):  # type: ignore[misc]
    name = "reset-dep"


class Strace(Meaningless, StockStrace):  # type: ignore[misc]
    name = "strace"


class DumpDB(Meaningless, StockDumpDB):  # type: ignore[misc]
    name = "dumpdb"
    base_options = ()  # it names the database itself

    def execute(self, params: Any, args: list[str]) -> int:
        """doit's own needs no dodo.py."""
        return super().execute(params, args) if os.path.exists(params["dodoFile"]) else self.stock(params, args)

    def stock(self, params: Any, args: list[str]) -> int:
        return int(StockDumpDB.execute(self, params, args) or 0)
