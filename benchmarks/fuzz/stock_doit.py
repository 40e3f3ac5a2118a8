"""doit as it comes, without the plugins that Coppice installs beside it.  Run as a script."""

import sys
from typing import Any

from doit.doit_cmd import DoitMain
from doit.plugin import PluginDict


class Stock(DoitMain):  # type: ignore[misc]
    def get_cmds(self) -> Any:
        return PluginDict({command.get_name(): command for command in self.DOIT_CMDS})


if __name__ == "__main__":
    sys.exit(Stock().run(sys.argv[1:]))
