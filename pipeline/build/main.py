"""doit's command line with our commands: what `coppice` runs once there is something to do."""

from __future__ import annotations

import gc
import platform
from typing import Any

from doit.cmd_base import TaskLoader2
from doit.doit_cmd import DoitMain
from doit.plugin import PluginDict, PluginEntry
from doit.version import VERSION as DOIT

from pipeline import __version__
from pipeline.dodo import DOIT_CONFIG

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
    "init": "pipeline.build.upkeep:Init",
    "gc": "pipeline.build.upkeep:Gc",
}


class SpecLoader(TaskLoader2):  # type: ignore[misc]
    """Stands where doit loads dodo.py: specs are loaded by the commands, which know what is asked for."""

    looked = True  # `coppice` has looked already whether there is anything to do

    def load_doit_config(self) -> dict[str, Any]:
        return dict(DOIT_CONFIG)

    def load_tasks(self, cmd: Any, pos_args: list[str]) -> list[Any]:
        return []


class Main(DoitMain):  # type: ignore[misc]
    BIN_NAME = "coppice"

    def get_cmds(self) -> Any:
        """Ours only, and imported when asked for; plugins are for the `doit` command."""
        cmds = PluginDict()
        for name, place in COMMANDS.items():
            cmds[name] = PluginEntry("COMMAND", name, place)
        return cmds

    def process_args(self, cmd_args: list[str]) -> list[str]:
        """doit takes name=value for a variable of its own; here such a word is the name of something unknown."""
        return cmd_args

    @staticmethod
    def print_version() -> None:
        print(f"coppice {__version__} (doit {'.'.join(map(str, DOIT))}, Python {platform.python_version()})")


def asked_for_help(words: list[str]) -> list[str]:
    """`coppice list -h` is `coppice help list`."""
    if not {"-h", "--help"} & {*words}:
        return words
    return ["help", *[word for word in words[:1] if word in COMMANDS]]


def main(words: list[str]) -> int:
    gc.disable()  # graphs are large and live to the end: collecting would only walk them again and again
    return int(Main(SpecLoader(), config_filenames=()).run(asked_for_help(words)) or 0)
