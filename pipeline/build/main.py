"""doit's command line with our commands: what `coppice` runs once there is something to do."""

from __future__ import annotations

from typing import Any

from doit.cmd_base import TaskLoader2
from doit.cmd_help import Help
from doit.doit_cmd import DoitMain

from pipeline.build import commands
from pipeline.dodo import DOIT_CONFIG


class SpecLoader(TaskLoader2):  # type: ignore[misc]
    """Stands where doit loads dodo.py: specs are loaded by the commands, which know what is asked for."""

    def load_doit_config(self) -> dict[str, Any]:
        return dict(DOIT_CONFIG)

    def load_tasks(self, cmd: Any, pos_args: list[str]) -> list[Any]:
        return []


class Main(DoitMain):  # type: ignore[misc]
    BIN_NAME = "coppice"
    DOIT_CMDS = (
        Help, commands.Run, commands.List, commands.Info, commands.Clean, commands.Forget, commands.Ignore,
    )  # fmt: skip

    def get_cmds(self) -> Any:
        """Ours only: plugins are for the `doit` command."""
        cmds = super().get_cmds()
        for name in [n for n in cmds if n not in {c.get_name() for c in self.DOIT_CMDS}]:
            del cmds[name]
        return cmds


def main(words: list[str]) -> int:
    return int(Main(SpecLoader(), config_filenames=()).run(words) or 0)
