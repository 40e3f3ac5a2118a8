"""A real pseudo-terminal with a command in it, and what a person would see there."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from pathlib import Path

from kit.project import PATIENCE

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    """Text as a terminal shows it: the sequences that the display uses, and no others."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column = width, [""], 0, 0
        self.cursor_hidden = False

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if found := _SEQUENCE.match(text, at):
                self.sequence(*found.groups())
                at = found.end()
            else:
                self.character(text[at])
                at += 1

    def sequence(self, private: str, number: str, letter: str) -> None:
        if letter == "A":
            self.row = max(0, self.row - int(number or 1))
        elif letter == "J":
            self.rows[self.row] = self.rows[self.row][: self.column]
            del self.rows[self.row + 1 :]
        elif private and letter in "hl" and number == "25":
            self.cursor_hidden = letter == "l"
        elif letter != "m":
            raise AssertionError(f"a sequence not every terminal knows: {private}{number}{letter}")

    def character(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
        else:
            if self.column == self.width:
                self.row, self.column = self.row + 1, 0
            self.extend()
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += 1
        self.extend()

    def extend(self) -> None:
        self.rows += [""] * (self.row + 1 - len(self.rows))


class Terminal:
    """A command with a terminal of its own, as a shell would start it."""

    def __init__(self, words: list[str], cwd: Path, env: dict[str, str], width: int = 80, height: int = 24) -> None:
        self.ours, theirs = pty.openpty()
        self.width = width
        self.resize(width, height)
        self.process = subprocess.Popen(words, cwd=cwd, env=env, preexec_fn=lambda: os.login_tty(theirs))  # noqa: PLW1509
        os.close(theirs)
        self.raw = ""
        self._decoder = getincrementaldecoder("utf-8")()

    def resize(self, width: int, height: int) -> None:
        self.width = width
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, timeout: float) -> bool:
        """More of what was printed; False at its end."""
        ready, _, _ = select.select([self.ours], [], [], timeout)
        if not ready:
            return True
        try:
            more = os.read(self.ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += self._decoder.decode(more)
        return bool(more)

    @property
    def frames(self) -> list[str]:
        return self.raw.split("\x1b[J")

    @property
    def screen(self) -> Screen:
        screen = Screen(self.width)
        screen.feed(self.raw)
        return screen

    @property
    def seen(self) -> str:
        return "\n".join(self.screen.rows)

    def wait_for(self, shown: str | Callable[[str], bool]) -> str:
        until = time.monotonic() + PATIENCE
        found = shown if callable(shown) else lambda seen: shown in seen
        while not found(self.seen):
            assert time.monotonic() < until, f"never shown: {shown}; but:\n{self.seen}"
            assert self.read(0.2) or found(self.seen), f"ended without showing {shown}; but:\n{self.seen}"
        return self.seen

    def end(self) -> int:
        until = time.monotonic() + PATIENCE
        while self.read(0.2):
            assert time.monotonic() < until, f"it does not end:\n{self.seen}"
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """The window is closed: its processes are told, and can write no more."""
        os.close(self.ours)
        self.ours = -1

    def clean_up(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.ours != -1:
            self.close()
