"""The names of commands: where each is, and which names no run may have.

It stands here and not in commands/, because a project checks the names of its runs by it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pipeline.errors import did_you_mean

COMMANDS = {
    "help": "pipeline.commands.help:HelpCommand",
    "run": "pipeline.commands.run:RunCommand",
    "list": "pipeline.commands.doit_commands:ListCommand",
    "info": "pipeline.commands.doit_commands:InfoCommand",
    "clean": "pipeline.commands.doit_commands:CleanCommand",
    "forget": "pipeline.commands.doit_commands:ForgetCommand",
    "ignore": "pipeline.commands.doit_commands:IgnoreCommand",
    "why": "pipeline.commands.questions:WhyCommand",
    "plan": "pipeline.commands.questions:PlanCommand",
    "graph": "pipeline.commands.questions:GraphCommand",
    "advance": "pipeline.commands.advance:AdvanceCommand",
    "tree": "pipeline.commands.tree:TreeCommand",
    "explain": "pipeline.commands.accounts:ExplainCommand",
    "replay": "pipeline.commands.accounts:ReplayCommand",
    "calibrate": "pipeline.commands.calibrate:CalibrateCommand",
    "holdout": "pipeline.commands.holdout:HoldoutCommand",
    "bank": "pipeline.commands.proofs:BankCommand",
    "bg": "pipeline.commands.proofs:BgCommand",
    "stats": "pipeline.commands.proofs:StatsCommand",
    "mcts": "pipeline.commands.proofs:MctsCommand",
    "init": "pipeline.commands.upkeep:InitCommand",
    "schema": "pipeline.commands.upkeep:SchemaCommand",
    "gc": "pipeline.commands.upkeep:GcCommand",
}
# For `doit` alone: what it should say of its own commands that have nothing to do here.
MEANINGLESS = {
    "dumpdb": "pipeline.commands.doit_commands:DumpDBCommand",
    "reset-dep": "pipeline.commands.doit_commands:ResetDepCommand",
    "strace": "pipeline.commands.doit_commands:StraceCommand",
}
# Taken from the start, so that no run has to be renamed when they come.
_LATER = {"watch", "dashboard"}
# `coppice mcts` builds the run of that name; and what flags ask for is a run that no spec has.
_SHARED, _FLAGGED = {"mcts"}, {"mcts-flags"}
# A run of such a name could not be selected.
RESERVED = (frozenset(COMMANDS) - _SHARED) | frozenset(MEANINGLESS) | {"tabcompletion"} | _LATER | _FLAGGED
# As commands are called; what holds a dot, a colon or a slash is a file or a target.
_LIKE_A_COMMAND = re.compile(r"[a-z]+(-[a-z]+)*")


def unknown(words: Sequence[str]) -> str:
    """What is wrong with a first word that may have been meant as a command, and is neither that nor a run."""
    first = next(iter(words), "")
    if first in COMMANDS or not _LIKE_A_COMMAND.fullmatch(first) or os.path.exists(first) or not os.path.isdir("specs"):
        return ""
    runs = {name.rpartition(".")[0] for name in os.listdir("specs") if name.endswith((".yaml", ".yml"))}
    if not runs or first in runs:
        return ""
    near = did_you_mean(first, {*runs, *COMMANDS}, ())
    return (
        f"there is no run '{first}': no specs/{first}.yaml; nor is it a command{near};"
        f" runs: {_some(sorted(runs))}; commands: {', '.join(COMMANDS)}; see `coppice help`"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
