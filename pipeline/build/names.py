"""Table of commands and their modules; names that no run may have.

It stands here and not in commands/, because a project checks the names of its runs by it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pipeline.errors import did_you_mean

# Commands of doit's, which do the same with targets.
DOIT_COMMANDS = {
    "help": "pipeline.commands.help:HelpCommand",
    "run": "pipeline.commands.run:RunCommand",
    "list": "pipeline.commands.doit_commands:ListCommand",
    "info": "pipeline.commands.doit_commands:InfoCommand",
    "clean": "pipeline.commands.doit_commands:CleanCommand",
    "forget": "pipeline.commands.doit_commands:ForgetCommand",
    "ignore": "pipeline.commands.doit_commands:IgnoreCommand",
}
NEW_COMMANDS = {
    "why": "pipeline.commands.questions:WhyCommand",
    "plan": "pipeline.commands.questions:PlanCommand",
    "graph": "pipeline.commands.questions:GraphCommand",
    "advance": "pipeline.commands.searches:AdvanceCommand",
    "tree": "pipeline.commands.tree:TreeCommand",
    "explain": "pipeline.commands.questions:ExplainCommand",
    "replay": "pipeline.commands.questions:ReplayCommand",
    "prompt": "pipeline.commands.questions:PromptCommand",
    "calibrate": "pipeline.commands.searches:CalibrateCommand",
    "holdout": "pipeline.commands.searches:HoldoutCommand",
    "report": "pipeline.commands.screens:ReportCommand",
    "pause": "pipeline.commands.steer:PauseCommand",
    "resume": "pipeline.commands.steer:ResumeCommand",
    "idea": "pipeline.commands.steer:IdeaCommand",
    "answer": "pipeline.commands.steer:AnswerCommand",
    "branches": "pipeline.commands.tree:BranchesCommand",
    "retry": "pipeline.commands.searches:RetryCommand",
    "bank": "pipeline.commands.proofs:BankCommand",
    "bg": "pipeline.commands.proofs:BgCommand",
    "stats": "pipeline.commands.proofs:StatsCommand",
    "mcts": "pipeline.commands.proofs:MctsCommand",
    "log": "pipeline.commands.questions:LogCommand",
    "watch": "pipeline.commands.screens:WatchCommand",
    "dashboard": "pipeline.commands.screens:DashboardCommand",
    "init": "pipeline.commands.upkeep:InitCommand",
    "schema": "pipeline.commands.upkeep:SchemaCommand",
    "gc": "pipeline.commands.upkeep:GcCommand",
    "doctor": "pipeline.commands.doctor:DoctorCommand",
}
COMMANDS = {**DOIT_COMMANDS, **NEW_COMMANDS}
# For `doit` alone, whose own commands of these names have nothing to do here.
MEANINGLESS = {
    "dumpdb": "pipeline.commands.doit_commands:DumpDBCommand",
    "reset-dep": "pipeline.commands.doit_commands:ResetDepCommand",
    "strace": "pipeline.commands.doit_commands:StraceCommand",
}
PAGE_PORT = 8350  # where pages are served, unless another is named
# Packages of the extras that commands of the same names need.
EXTRAS = {"dashboard": ("starlette", "uvicorn"), "watch": ("textual",)}
# `coppice mcts` builds the run of that name, so a run may have it.
_SHARED = {"mcts"}
# Why no run may have a name; the name of the run that flags ask for would hide a spec of that name.
RESERVED = {
    **dict.fromkeys({*COMMANDS, *MEANINGLESS, "tabcompletion"} - _SHARED, "is the name of a command"),
    "mcts-flags": "is the run that `coppice mcts` builds with flags",
}
# The form of a command's name; a word with a dot, a colon or a slash is a file or a target.
_LIKE_A_COMMAND = re.compile(r"[a-z]+(-[a-z]+)*")


def unknown_command(words: Sequence[str]) -> str:
    """A message on a first word that looks like a command but is neither that nor a run; else nothing."""
    first = next(iter(words), "")
    if first in COMMANDS or not _LIKE_A_COMMAND.fullmatch(first) or os.path.exists(first) or not os.path.isdir("specs"):
        return ""
    runs = {name.rpartition(".")[0] for name in os.listdir("specs") if name.endswith((".yaml", ".yml"))}
    if not runs or first in runs:
        return ""
    near = did_you_mean(first, {*runs, *COMMANDS}, ())
    return (
        f"there is no run '{first}': no specs/{first}.yaml; nor is it a command{near};"
        f" runs: {', '.join(sorted(runs)[:10])}{', …' if len(runs) > 10 else ''};"
        f" commands: {', '.join(COMMANDS)}; see `coppice help`"
    )
