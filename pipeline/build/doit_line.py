"""doit's command line with our commands."""

from __future__ import annotations

import platform
from typing import Any

from doit.cmd_base import TaskLoader2
from doit.doit_cmd import DoitMain
from doit.plugin import PluginDict, PluginEntry
from doit.version import VERSION as DOIT

from pipeline import __version__
from pipeline.build.names import COMMANDS
from pipeline.dodo import DOIT_CONFIG


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


def main(words: list[str]) -> int:
    return int(Main(SpecLoader(), config_filenames=()).run(words) or 0)
