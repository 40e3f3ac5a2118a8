"""The names of commands: where each is, which of them no run may have, and what is said of other words."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pipeline.errors import instead

COMMANDS = {
    "help": "pipeline.build.help:Help",
    "run": "pipeline.build.run:Run",
    "list": "pipeline.build.commands:List",
    "info": "pipeline.build.commands:Info",
    "clean": "pipeline.build.commands:Clean",
    "forget": "pipeline.build.commands:Forget",
    "ignore": "pipeline.build.commands:Ignore",
    "why": "pipeline.build.questions:Why",
    "plan": "pipeline.build.questions:Plan",
    "graph": "pipeline.build.questions:GraphCommand",
    "advance": "pipeline.build.advance:Advance",
    "tree": "pipeline.build.tree_command:Tree",
    "explain": "pipeline.build.accounts:Explain",
    "replay": "pipeline.build.accounts:Replay",
    "calibrate": "pipeline.build.calibrate:Calibrate",
    "holdout": "pipeline.build.holdout:Holdout",
    "bank": "pipeline.build.bank:Bank",
    "bg": "pipeline.build.bg:Bg",
    "stats": "pipeline.build.stats:Stats",
    "mcts": "pipeline.build.mcts_command:Mcts",
    "init": "pipeline.build.upkeep:Init",
    "gc": "pipeline.build.upkeep:Gc",
}
# For `doit` alone: what it should say of its own commands that have nothing to do here.
MEANINGLESS = {
    "dumpdb": "pipeline.build.meaningless:DumpDB",
    "reset-dep": "pipeline.build.meaningless:ResetDep",
    "strace": "pipeline.build.meaningless:Strace",
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
    near = instead(first, {*runs, *COMMANDS}, ())
    return (
        f"there is no run '{first}': no specs/{first}.yaml; nor is it a command{near};"
        f" runs: {_some(sorted(runs))}; commands: {', '.join(COMMANDS)}; see `coppice help`"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
