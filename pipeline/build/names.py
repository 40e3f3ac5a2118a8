"""The names of commands: where each is, and which of them no run may have."""

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
