"""The entry of `coppice` once there is something to do: doit's command line with our commands, or without doit."""

from __future__ import annotations

import gc
from collections.abc import Callable

from pipeline.build.names import COMMANDS, unknown_command
from pipeline.commands.exits import BAD_INPUT, exit_code_of, refuse
from pipeline.commands.selection import count_targets

# Questions that need no doit, whose import takes longer than the answer: a command with one option, besides words.
WITHOUT_DOIT: dict[tuple[str, ...], Callable[[list[str]], int]] = {("plan", "--graph-only"): count_targets}


def help_words(words: list[str]) -> list[str]:
    """Turn `coppice list -h` into `coppice help list`."""
    if not {"-h", "--help"} & {*words}:
        return words
    return ["help", *[word for word in words[:1] if word in COMMANDS]]


def main(words: list[str]) -> int:
    gc.disable()  # graphs are large and live to the end: collecting would only walk them again and again
    options = [word for word in words[1:] if word.startswith("-")]
    answer = WITHOUT_DOIT.get((*words[:1], *options))
    if answer is not None:
        return exit_code_of(lambda: answer([word for word in words[1:] if word not in options]))
    if wrong := unknown_command(words):
        return refuse(wrong, BAD_INPUT)
    from pipeline.commands.command import run_doit_line as with_doit

    return with_doit(help_words(words))
