"""One start of the tool, watched: what it executes is held against what it may execute."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from traceback import print_exc
from typing import NoReturn

import pipeline
from benchmarks.fuzz.world import World, until

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 120.0
_WARM = tuple(
    f"pipeline.{room}" for room in ("build", "commands", "core", "machine", "spec", "steps", "store", "views")
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_COLD = 0.03  # the share of starts that are a Python of their own, as users have it


class Forked:
    """The tool in a fork of this process, which has it imported: a process like any other, without its start.

    As much of `subprocess.Popen` as is asked for here."""

    def __init__(self, words: list[str], root: Path, env: dict[str, str], log: Path) -> None:
        _warm()
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until they mean what they mean to the tool
        self.pid = os.fork()
        if not self.pid:
            _as_the_tool(words, root, env, output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(output)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float) -> int:
        if not until(lambda: self.poll() is not None, timeout):
            raise subprocess.TimeoutExpired("a fork", timeout)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _warm() -> None:
    """Import what a build may, once."""
    if "pipeline.commands.command" not in sys.modules:
        for module in walk_packages(pipeline.__path__, "pipeline."):
            if module.name.startswith(_WARM) and ".lean" not in module.name and not module.name.endswith(".worker"):
                import_module(module.name)


def _as_the_tool(words: list[str], root: Path, env: dict[str, str], output: int) -> NoReturn:
    """From here on it is `python -m pipeline`; nothing of the fuzz is ever returned to."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - open to the end
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        os.chdir(root)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["coppice", *words]
        sys.path = [str(ROOT), *filter(_is_pythons_own, sys.path), str(root)]
        code = _ended()
    finally:
        os._exit(code)


def _is_pythons_own(path: str) -> bool:
    """What else is needed is imported; doit would look for plugins in all that is installed, which costs 10 ms."""
    return path.startswith(sys.base_prefix) and not path.endswith("site-packages")


def _ended() -> int:
    """As in `pipeline/__main__.py`."""
    from pipeline.cli import main

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - it is in the log, and looked for there
        print_exc()
        return 1
    return code


class Start:
    """The process, and the state of the project when it was started."""

    def __init__(self, world: World, words: list[str], idle: bool = False) -> None:
        """An `idle` one has no reason to execute anything."""
        self.world, self.words = world, words
        self.states = [] if idle else [world.truths()]
        self.allowed = {name for state in self.states for name in world.tool.allowed(world, state)}
        self.before = len(world.ran())
        self.log = world.outside / f"log{world.counts['starts']}"
        world.counts["starts"] += 1
        self.process = self._forked() if world.tool.forks and world.rng.random() >= _COLD else self._opened()
        world.started.append(self.process)

    def _forked(self) -> Forked:
        return Forked(self.words, self.world.root, _environment(self.world), self.log)

    def _opened(self) -> subprocess.Popen[bytes]:
        with open(self.log, "wb") as log:
            return subprocess.Popen(
                self.world.tool.command(self.words), cwd=self.world.root, env=_environment(self.world),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=_hears_signals,  # noqa: PLW1509 - no threads here
            )  # fmt: skip

    def ran(self) -> list[str]:
        return self.world.ran()[self.before :]

    def until(self, condition: Callable[[], bool]) -> bool:
        """Wait; False when the process ended first."""
        met = until(lambda: condition() or self.process.poll() is not None, PATIENCE)
        return met and self.process.poll() is None

    def to_do(self) -> list[str]:
        """Names of the targets that it is going to execute, if it is a whole build."""
        return [name for name in self.states[0] if name in self.allowed]

    def marks(self, name: str) -> set[str]:
        """Of the target and of those that would give the same: only one of them need be executed."""
        state = self.states[0]
        return {each.target.mark for each in state.values() if each.identity == state[name].identity}

    def one_of(self, marks: set[str]) -> bool:
        """One of them was executed."""
        return not marks.isdisjoint(self.ran())

    def unfinished(self) -> set[str]:
        """Marks of the targets that may run still after it was killed, and note so while the next build does."""
        state = self.states[0]
        return {state[name].target.mark for name in self.world.tool.allowed(self.world, state)}

    def changed(self) -> None:
        """The sources were edited while it ran: what depends on them may see old ones, new ones, and some of each."""
        now = self.world.truths()
        self.allowed |= {name for name, truth in now.items() if truth.identity != self.states[0][name].identity}
        self.states.append(now)

    def end(self, *codes: int) -> int:
        """Wait for it; how many targets it finished.  `codes` are the exit codes that would be right."""
        world, code = self.world, self.wait()
        ran = self.ran()
        finished = world.tool.learn(world, self.states, ran)
        world.log(f"{world.tool.name} {' '.join(self.words)} -> {code}, ran {len(ran)}, recorded {finished}")
        self._check_ran(ran)
        if world.tool.answers:
            self._check_answer(code, codes)
        world.counts["executions"] += len(ran)
        return finished

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.world.find("hangs", f"{self.words} after {PATIENCE:g} s")
            self.world.end_all()
            return self.process.wait(PATIENCE)

    def _check_answer(self, code: int, codes: tuple[int, ...]) -> None:
        output = self.log.read_text(errors="replace")
        if code not in codes:
            self.world.find("exit code", f"{code}, expected {codes}: {output[-800:]}")
        # One of a step is shown indented; without a file of ours it was Python itself that had only begun.
        if re.search("^Traceback", output, re.MULTILINE) and f"{ROOT}/pipeline/" in output:
            self.world.find("traceback", output[-1500:])
        self.world.counts["found up to date at once"] += output.startswith("up to date")

    def _check_ran(self, ran: list[str]) -> None:
        marks = {truth.target.mark: name for state in self.states for name, truth in state.items()}
        for mark, times in (Counter(ran) - Counter(self.world.stragglers)).items():
            name = marks.get(mark, mark)
            if name not in self.allowed:
                self.world.find("executed again", f"{name}, which was finished")
            elif times > 1:
                self.world.find("executed again", f"{name}, {times} times in one build")
        self.world.stragglers.clear()


def _hears_signals() -> None:
    """A background job of a shell ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _environment(world: World) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "FUZZED": str(world.root)}
