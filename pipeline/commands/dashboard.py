"""The command `dashboard`: checks what it is asked for, opens the socket, and becomes the server.

The server is a process without the command line in it: of the memory that it may have this would be a quarter."""

from __future__ import annotations

import errno
import os
import socket
import sys
from importlib.util import find_spec
from typing import Any, NoReturn

from doit.exceptions import InvalidCommand

from pipeline.build import project
from pipeline.commands.command import NewCommand, option
from pipeline.commands.doctor import SCREENS
from pipeline.errors import SpecError, Unavailable, did_you_mean
from pipeline.screens.access import LOCALHOST, is_loopback
from pipeline.screens.feed import module_command

PORT, HOST = 8350, "127.0.0.1"
INSTALL = "pip install 'coppice[dashboard]'"
MEANS = (
    "whoever reaches this machine over the network can ask the dashboard, and whoever listens on the way reads its"
    " token and all that is shown, since nothing is encrypted"
)


class DashboardCommand(NewCommand):
    name = "dashboard"
    doc_usage = "[RUN]"
    doc_purpose = "serve a page that follows a run while it is built, and the list of all runs"
    doc_description = (
        "It prints a link to click, with a token without which nobody gets an answer, and serves until Ctrl-C. Only"
        " this machine can reach it; from another one go through `ssh -L`. Searches over code are paused, resumed,"
        f" given ideas and answered from the page. It needs the extra `dashboard`: {INSTALL}."
    )
    cmd_options = (
        option("port", "the port; 0 stands for any that is free", PORT, "N"),
        option("host", "the address to be reached at", HOST, "H"),
        option("open_to_network", f"allow a --host that others reach: {MEANS}"),
    )
    takes = (0, 1, "name one run, or none for the list of all")

    def on_specs(self, params: Any, args: list[str]) -> int:
        check_installed(self.name)
        runs = project.spec_paths()
        if args and args[0] not in runs:
            raise SpecError(f"dashboard: '{args[0]}' is no run{did_you_mean(args[0], runs)}")
        host, port = params["host"], params["port"]
        if not is_loopback(host) and not params["open_to_network"]:
            raise InvalidCommand(
                f"dashboard: --host {host} means that {MEANS}; better: `ssh -L {port}:127.0.0.1:{port} THIS_MACHINE`;"
                " if you do mean it, add --open-to-network"
            )
        become_server(host, port, *args[:1] or [""])


def check_installed(name: str) -> None:
    if lacking := [package for package in SCREENS["dashboard"] if find_spec(package) is None]:
        raise Unavailable(f"{name}: it needs the package {lacking[0]}: {INSTALL}")


def become_server(host: str, port: int, *words: str) -> NoReturn:
    """Open the socket and become the server, which is told these words."""
    listening = listen(host, port)
    listening.set_inheritable(True)
    sys.stdout.flush()
    command = module_command("pipeline.screens.server", str(listening.fileno()), host, *words)
    os.execv(command[0], command)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket to serve at."""
    if not 0 <= port < 2**16:
        raise InvalidCommand(f"dashboard: --port {port}: there are ports from 1 to 65535, and 0 for any")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = HOST if host == LOCALHOST else host
    try:
        return socket.create_server((address, port), family=family, backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} of {host} is in use, perhaps by another dashboard; --port 0 takes one that is free"
            raise Unavailable(f"dashboard: {why}") from error
        raise SpecError(f"dashboard: {host}:{port} cannot be served at: {error.strerror or error}") from error
