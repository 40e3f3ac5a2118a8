"""The command `help`: a line for each command, or all that one of them can do."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline.commands.command import NAME, NAMES, NewCommand
from pipeline.errors import did_you_mean

# doit's own commands and options, in words that fit targets rather than tasks.
STOCK_COMMANDS = {
    "run": ("build what is not up to date; `run` may be left out", NAMES),
    "list": ("list the runs, or all of their targets", NAMES),
    "info": ("show all of one target or run: status, command, what it reads and writes", NAME),
    "clean": ("remove outputs", NAMES),
    "forget": ("have targets made anew by the next build, not recalled; also ends `ignore`", NAMES),
    "ignore": ("leave targets, and what is made from them, out of builds until forgotten", f"{NAME} ..."),
}
STOCK_OPTIONS = {
    "always": "execute also what is fresh or could be recalled",
    "continue": "go on after a failure with all that does not depend on it",
    "reporter": "console; executed-only: without what was recalled, skipped or ignored; json: one document at the end;"
    " error-only; zero: silent",
    "outfile": "write the report there",
    "subtasks": "each target, not only the runs",
    "quiet": "names only",
    "status": "U up to date, R stale, I left out: ignored, or made from what is",
    "list_deps": "with the files each reads",
    "template": "such as '{name}: {doc}'",
    "sort": "definition, the order in which they are built, or name",
    "hide_status": "not whether it is up to date",
    "cleandep": "also the outputs of what they are made from",
    "cleanall": "of all runs",
    "dryrun": "only say what would go",
    "cleanforget": "and forget them",
    "forget_sub": "and what they are made from",
    "forget_all": "all runs",
}
VALUES = {"reporter": "NAME", "outfile": "FILE", "sort": "ORDER", "template": "TEXT"}
WIDTH = 100


class HelpCommand(NewCommand):
    name = "help"
    doc_usage = "[COMMAND]"
    doc_purpose = "say what commands there are, or all that one can do"
    takes = (0, 1, "one command at a time")

    def __init__(self, cmds: Any, **kwargs: Any) -> None:
        super().__init__(cmds=cmds, **kwargs)
        self.cmds, self.kwargs = cmds, kwargs

    def on_specs(self, params: Any, args: list[str]) -> int:
        if unknown := [name for name in args if name not in self.cmds]:
            raise InvalidCommand(f"help: there is no command '{unknown[0]}'{did_you_mean(unknown[0], self.cmds)}")
        print("\n".join(self._overview() if not args else self._command_help(args[0])))
        return 0

    def _overview(self) -> Iterator[str]:
        yield f"usage: {self.bin_name} [COMMAND] [OPTION]... {NAMES}"
        yield ""
        for name in self.cmds:
            stock = STOCK_COMMANDS.get(name)
            yield two_columns(name, stock[0] if stock else self.cmds.get_plugin(name).doc_purpose, 10)
        yield ""
        yield f"`{self.bin_name} help COMMAND` has its options; without a name all runs in specs/ are meant."
        yield "A pattern such as 'demo:words.*', in quotes, stands for the targets or outputs that it matches."

    def _command_help(self, name: str) -> Iterator[str]:
        command = self.cmds.get_plugin(name)(cmds=self.cmds, **self.kwargs)
        purpose, usage = STOCK_COMMANDS.get(name, (command.doc_purpose, command.doc_usage))
        options = [option for option in command.get_options() if option.short or option.long]
        yield f"usage: {self.bin_name} {name} {'[OPTION]... ' if options else ''}{usage}".rstrip()
        yield ""
        yield fill(f"{purpose[0].upper()}{purpose[1:]}.", WIDTH)
        if command.doc_description:
            yield fill(command.doc_description, WIDTH)
        if options:
            yield ""
        for option in options:
            value = "" if option.type is bool else f" {VALUES.get(option.name, option.metavar)}"
            names = [("-", option.short, value), ("--", option.long, value), ("--", option.inverse, "")]
            words = ", ".join(f"{dashes}{word}{value}" for dashes, word, value in names if word)
            yield two_columns(words, STOCK_OPTIONS.get(option.name, option.help), 26)


def two_columns(left: str, right: str, column: int) -> str:
    """Format two columns; a left one that is too long gets a line of its own."""
    start = " " * (column + 2)
    text = fill(right, WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False)
    return f"  {left:{column}}{text[column + 2 :]}" if len(left) < column else f"  {left}\n{text}"
