"""The base of all commands: specs instead of tasks of dodo.py, options anywhere, and each mistake in one line.

Below it doit's own command line, with our commands in place of its own: they are imported when they are asked for.
`doit` finds the same classes as plugins; in a project that is not made of specs they do what doit always did."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from getopt import GetoptError, gnu_getopt
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from doit.cmd_base import DoitCmdBase, TaskLoader2
from doit.cmd_run import Run as StockRun
from doit.cmdparse import CmdOption, CmdParse, CmdParseError, DefaultUpdate
from doit.doit_cmd import DoitMain
from doit.exceptions import InvalidCommand
from doit.plugin import PluginDict, PluginEntry
from doit.version import VERSION as DOIT

from pipeline import __version__
from pipeline.build.names import COMMANDS, NEW_COMMANDS
from pipeline.commands.exits import BAD_INPUT, discard_output, exit_code_of, refuse
from pipeline.dodo import DOIT_CONFIG, foreign_tasks
from pipeline.errors import BuildInterrupted, SpecError
from pipeline.views.lines import clean_text, encodable

if TYPE_CHECKING:
    from pipeline.build.project import RunPlan
    from pipeline.core.graph import Target


OTHER_FILE = "with Coppice in it, `doit` builds specs/ alone; put tasks in another file, for `doit -f FILE`"
# Options of doit's that have no meaning here: an error, rather than accepted and without effect.
MEANINGLESS_OPTIONS = {
    "par_type", "pdb", "single", "auto_delayed_regex", "failure_verbosity", "verbosity", "private",
    "forget_disable_default",
}  # fmt: skip
# What doit says of a bad value, and in words for whoever typed it.
MISTAKES = [
    (r"Error parsing parameter 'num_process' .* with base 10: (.*)\n", r"-n wants a whole number, not \1"),
    (r"Error parsing parameter '(\w+)'\. Provided (.*) but available choices are: (.*)\.", r"--\1 has no \2, only \3"),
]
# How a command is told what it is about.
NAME = "RUN | RUN:STEP | RUN:TARGET | PATTERN | FILE"
NAMES = f"[{NAME}]..."


def option(
    name: str, text: str, default: bool | int | str | None = False, metavar: str = "", **others: str
) -> dict[str, Any]:
    """Option as doit wants it: a switch, or with a `metavar` one that takes a value; None stands for none."""
    kind = str if default is None else type(default)
    plain = {"name": name, "long": name.replace("_", "-"), "type": kind, "default": default, "metavar": metavar}
    return {**plain, "help": text, **others}


opt_json = option("json", "print JSON, for tools")
opt_jobs = option(
    "num_process", "how many targets at once; 0 stands for as many as there are CPUs [default: 0]", 0, "N",
    short="n", long="process",
)  # fmt: skip


def check_whole(words: Sequence[str], parser: CmdParse) -> None:
    """Refuse an option cut short: getopt takes `--bud` for --budget, and for another one once that begins so too."""
    letters = {*re.findall("(.):", parser.get_short())}  # short options that take a value
    names = {name.removesuffix("="): name.endswith("=") for name in parser.get_long()}
    left = iter(words)
    for word in left:
        name, equals, _ = word.removeprefix("--").partition("=")
        if word == "--":
            return
        if not word.startswith("--"):
            takes_next = word[:1] == "-" and word[-1:] in letters and letters.isdisjoint(word[1:-1])
        elif meant := [] if name in names else sorted(f"--{each}" for each in names if each.startswith(name)):
            raise CmdParseError(f"--{name} is no option; write it in full: {' or '.join(meant)}")
        else:
            takes_next = names.get(name, False) and not equals
        if takes_next:
            next(left, None)


class SpecCommand(DoitCmdBase):  # type: ignore[misc]
    """Command on specs instead of dodo.py and receipts instead of a database; mistakes take one line.

    In a project that is not made of specs (its dodo.py does not say so) doit does what it always did."""

    preferred: ClassVar[Mapping[str, str]] = {}  # defaults of options, where doit's do not suit
    # How many words, at least and at most; and what begins the message about any other number.
    takes: ClassVar[tuple[int, float, str]] = (0, inf, "")
    after_interrupt = "what was finished is kept"  # the rest of the message when a signal stopped a build

    def parse_execute(self, in_args: list[str]) -> int:
        self.words = in_args
        try:
            if self.is_ours:
                check_whole(in_args, CmdParse(self.get_options()))
            code = int(super().parse_execute(in_args) or 0)
            sys.stdout.flush()  # in here, while it can still be answered that nobody reads it
        except BrokenPipeError:
            return discard_output()
        except CmdParseError as error:
            return refuse(self.mistake_line(error), BAD_INPUT)
        return code

    def execute(self, params: Any, args: list[str]) -> int:
        self.loader.setup(params)
        config = self.loader.load_doit_config()
        if not config.get("coppice"):
            # doit lets no task have the name of a command, and we brought some that doit has not
            self.loader.cmd_names = [name for name in self.loader.cmd_names if name not in NEW_COMMANDS]
            return self.run_stock(params, args)
        if others := foreign_tasks(getattr(self.loader, "namespace", {})):
            sys.stderr.write(f"coppice: dodo.py: {', '.join(others)} not seen; {OTHER_FILE}\n")
        return self.run_guarded(config)

    def run_guarded(self, config: dict[str, Any]) -> int:
        """Run the command, and say in one line what is wrong."""

        def answer() -> int:
            params, args = self.parse_words()
            params.update_defaults(config)
            least, most, what = self.takes
            if not least <= len(args) <= most:
                raise InvalidCommand(f"{self.name}: {what}, not {len(args)}")
            try:
                return self.on_specs(params, args)
            except BuildInterrupted as error:
                return refuse(f"{error}; {self.after_interrupt}", 128 + error.number)

        return exit_code_of(answer, (SpecError, InvalidCommand))

    def mistake_line(self, error: CmdParseError | GetoptError) -> str:
        """Reword a message about an option: one line, with the names that are typed."""
        text = str(error).partition(" (parsing options")[0].removeprefix("Error parsing Command: ")
        for pattern, better in MISTAKES:
            text = re.sub(pattern, better, text, flags=re.DOTALL)
        return f"{self.name}: {text}; see `{self.bin_name} help {self.name}`"

    def parse_words(self) -> tuple[Any, list[str]]:
        """Parse options anywhere; doit stops at the first word, since a task may have options of its own."""
        parser = CmdParse([CmdOption(each) for each in self.cmd_options if each["name"] not in MEANINGLESS_OPTIONS])
        parser.overwrite_defaults({**self.preferred, **self.config_vals})
        try:
            check_whole(self.words, parser)
            options, words = gnu_getopt(self.words, parser.get_short(), parser.get_long())
            switches = {name for name, _ in options if parser.get_option(name)[0].type is bool}
            parts = [part for name, value in options for part in ([name] if name in switches else [name, value])]
            params, words = parser.parse(parts + words)
        except (CmdParseError, GetoptError) as error:
            raise InvalidCommand(self.mistake_line(error)) from error
        every = DefaultUpdate({each["name"]: each["default"] for each in self.cmd_options})
        every.update(params)
        return every, words

    def run_stock(self, params: Any, args: list[str]) -> int:
        """Run doit's own command of the name."""
        return int(super().execute(params, args) or 0)

    @property
    def is_ours(self) -> bool:
        """True for `coppice`, which knows that the project is made of specs; `doit` has yet to look."""
        return bool(getattr(self.loader, "looked", False))

    def get_backends(self) -> dict[str, Any]:
        """List doit's databases; `coppice` has none, and does not search all installed packages for more."""
        return {} if self.is_ours else dict(super().get_backends())

    def get_options(self) -> list[CmdOption]:
        """List the options; with `coppice`, only those that mean something here."""
        options: list[CmdOption] = super().get_options()
        if not self.is_ours:
            return options
        return [each for each in options if each.name not in MEANINGLESS_OPTIONS and each.section == ""]

    def on_specs(self, params: Any, args: list[str]) -> int:
        """Run the command in a project made of specs; its exit code."""
        raise NotImplementedError


class NewCommand(SpecCommand):
    """Command that doit has not, or not like this: without the options by which doit's own choose a database."""

    base_options = ()

    def run_stock(self, params: Any, args: list[str]) -> int:
        """Run doit's own command of that name."""
        run = StockRun(task_loader=self.loader, config=self.config, bin_name=self.bin_name, opt_vals=self.opt_vals)
        return int(run.parse_execute([self.name, *self.words]) or 0)


class AnywhereCommand(NewCommand):
    """Command that needs no project; in somebody else's its name may be that of a task of theirs."""

    def execute(self, params: Any, args: list[str]) -> int:
        theirs = os.path.exists("dodo.py") and not self.is_ours
        return super().execute(params, args) if theirs else self.run_guarded({})


class OneRunCommand(NewCommand):
    doc_usage = "RUN"
    takes = (1, 1, "name one run")


@contextmanager
def reporting(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` after the block, also when a signal stopped the build in it."""
    try:
        yield
    except BuildInterrupted:
        report()
        raise
    report()


def print_result(record: Mapping[str, Any], lines: Sequence[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(record, indent=1))
    else:
        print_text("\n".join(lines))


def print_text(text: str) -> None:
    """Print what tells of others' texts: nothing in them moves the cursor of a terminal."""
    print(encodable(clean_text(text), sys.stdout), flush=True)


# The options of a build that `coppice run` would do without any.
PLAIN_OPTIONS = {
    "always": False,
    "continue": False,
    "reporter": "console",
    "outfile": None,
    "junit": "",
    "verbose": False,
}


def build_plainly(
    plans: Mapping[str, RunPlan], locks: Sequence[int], words: Iterable[str], jobs: int, aside: Sequence[Target] = ()
) -> int:
    """Build as `coppice run -n JOBS` does; the caller has the locks.  Imported here: most commands do not build."""
    from pipeline.commands.build import build_locked

    return build_locked(plans, locks, words, {**PLAIN_OPTIONS, "num_process": jobs}, {}, aside)


def check_buildable(plans: Mapping[str, RunPlan], words: Iterable[str], jobs: int, redo: Iterable[str] = ()) -> None:
    """Refuse what a build of `words` would refuse, for a caller who changes something before it.

    `redo`: names of targets that the caller will forget, so that they are made again."""
    from pipeline.build.session import BuildSession
    from pipeline.commands.build import admit_targets, job_count

    job_count(jobs, plans)
    with closing(BuildSession(plans)) as session:
        admit_targets(session, words, redo)


class SpecLoader(TaskLoader2):  # type: ignore[misc]
    """Loader that loads no tasks: the commands load specs, since they know which are asked for."""

    looked = True  # `coppice` has looked already whether there is anything to do

    def load_doit_config(self) -> dict[str, Any]:
        return dict(DOIT_CONFIG)

    def load_tasks(self, cmd: Any, pos_args: list[str]) -> list[Any]:
        return []


class CoppiceMain(DoitMain):  # type: ignore[misc]
    BIN_NAME = "coppice"

    def get_cmds(self) -> Any:
        """Ours only, and imported when asked for; plugins are for the `doit` command."""
        return PluginDict({name: PluginEntry("COMMAND", name, place) for name, place in COMMANDS.items()})

    def process_args(self, cmd_args: list[str]) -> list[str]:
        """doit takes name=value for a variable of its own; here such a word is the name of something unknown."""
        return cmd_args

    @staticmethod
    def print_version() -> None:
        print(f"coppice {__version__} (doit {'.'.join(map(str, DOIT))}, Python {platform.python_version()})")


def run_doit_line(words: list[str]) -> int:
    return int(CoppiceMain(SpecLoader(), config_filenames=()).run(words) or 0)
