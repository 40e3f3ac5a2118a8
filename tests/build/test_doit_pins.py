"""What we rely on in doit 0.37 without a promise in its documentation.  When one fails, read build/ before going on."""

import inspect
import tomllib
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from doit import cmd_clean, cmd_forget, cmd_ignore, cmd_info, cmd_list, cmd_run, reporter
from doit.cmd_base import DoitCmdBase, TaskLoader2, check_tasks_exist, subtasks_iter, tasks_and_deps_iter
from doit.cmdparse import CmdOption, CmdParse, CmdParseError, DefaultUpdate
from doit.dependency import DependencyStatus
from doit.doit_cmd import DoitMain
from doit.exceptions import InvalidCommand, InvalidTask, TaskFailed, UnmetDependency
from doit.plugin import PluginDict, PluginEntry
from doit.runner import FAILURE, SUCCESS, Runner
from doit.task import Task
from kit.project import ROOT

from pipeline.build.names import COMMANDS
from pipeline.build.names import MEANINGLESS as MEANINGLESS_COMMANDS
from pipeline.build.runner import ReceiptDatabase
from pipeline.commands.command import MEANINGLESS_OPTIONS
from pipeline.views.reporters import ReporterGroup

DEFINITION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("doit") == "0.37.0"
    assert "doit==0.37.0" in DEFINITION["dependencies"]
    assert "doit==0.37.0" in (ROOT / "constraints.txt").read_text().split()


# -- the runner


class Log:
    """A reporter that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def initialize(self, tasks: Any, selected: Any) -> None:
        self.heard.append(("initialize", tasks, selected))

    def complete_run(self) -> None:
        self.heard.append("complete_run")

    def runtime_error(self, message: str) -> None:
        self.heard.append(message)


class Dispatcher:
    tasks = {"a": 1}  # noqa: RUF012
    selected_tasks = ["a"]  # noqa: RUF012


class Kept(Runner):
    """Overrides what our runner overrides."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__("records", Log(), continue_=True)
        self.fault = fault

    def run_tasks(self, dispatcher: Any) -> None:
        self.reporter.heard.append("run_tasks")
        if self.fault:
            raise self.fault
        self.final_result = FAILURE

    def finish(self) -> int:
        self.reporter.heard.append("finish")
        return 99


def test_run_all_initializes_runs_and_finishes_in_this_order_and_returns_the_result() -> None:
    runner = Kept()
    assert runner.run_all(Dispatcher()) == FAILURE == 1
    assert runner.reporter.heard == [("initialize", {"a": 1}, ["a"]), "run_tasks", "finish"]


def test_run_all_finishes_also_after_a_fault_and_lets_it_through() -> None:
    runner = Kept(OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        runner.run_all(Dispatcher())
    assert runner.reporter.heard[-1] == "finish"
    assert Kept(InvalidTask("bad")).run_all(Dispatcher()) == 2


def test_a_runner_has_the_attributes_that_ours_uses() -> None:
    runner = Kept()
    assert (runner.dep_manager, runner.continue_) == ("records", True)
    assert (runner.final_result, runner._stop_running) == (SUCCESS, False)
    assert parameters(Runner.__init__) == ["dep_manager", "reporter", "continue_", "always_execute", "stream"]


# -- reporters


EVENTS = {
    "initialize": 2, "get_status": 1, "execute_task": 1, "add_failure": 2, "add_success": 1, "skip_uptodate": 1,
    "skip_ignore": 1, "cleanup_error": 1, "runtime_error": 1, "teardown_task": 1, "complete_run": 0,
}  # fmt: skip


REPORTERS = [reporter.ConsoleReporter, reporter.ZeroReporter, reporter.ErrorOnlyReporter]


def test_what_is_wrong_with_a_task_is_told_by_our_reporters(capsys: pytest.CaptureFixture[str]) -> None:
    runner = Kept(InvalidTask("a task that is none"))
    runner.reporter = ReporterGroup([])
    runner.reporter.heard = []
    assert runner.run_all(Dispatcher()) == 2
    assert capsys.readouterr().err == "a task that is none\n"


@pytest.mark.parametrize("made", REPORTERS)
def test_reporters_hear_these_events_with_so_many_facts(made: Any) -> None:
    heard = made(StringIO(), {"failure_verbosity": 0})
    for event, facts in EVENTS.items():
        inspect.signature(getattr(heard, event)).bind(*range(facts))


def test_doit_tells_no_other_events() -> None:
    told = {name for name in dir(reporter.ConsoleReporter) if not name.startswith("_")} - {"write", "desc"}
    assert told == set(EVENTS)


def test_failures_carry_a_message() -> None:
    assert TaskFailed("why").get_msg().strip() == "why"
    assert UnmetDependency("a b").message == "a b"
    assert not UnmetDependency("a b").report or UnmetDependency("a b").get_name() == "UnmetDependency"


# -- tasks and their status


def test_a_task_takes_and_keeps_what_we_give_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").touch()
    task = Task(
        "x:a", None, file_dep=("in",), targets=("out",), task_dep=["x:b"], subtask_of="x", doc="run", clean=True
    )
    assert (task.name, task.doc, task.subtask_of, task.task_dep, task.setup_tasks) == ("x:a", "run", "x", ["x:b"], [])
    assert ([*task.file_dep], [*task.targets]) == (["in"], ["out"])
    task.clean(StringIO(), dryrun=False)
    assert not Path("out").exists()
    group = Task("x", None, task_dep=["x:a"], has_subtask=True, doc="all")
    assert [*subtasks_iter({"x:a": task}, group)] == [task]
    every = {"x": group, "x:a": task, "x:b": Task("x:b", None)}
    assert [t.name for t in tasks_and_deps_iter(every, ["x"])] == [*every]


def test_tasks_sort_by_name() -> None:
    assert [t.name for t in sorted([Task("b", None), Task("a", None)])] == ["a", "b"]


def test_a_status_is_up_to_date_until_it_has_a_reason() -> None:
    status = DependencyStatus(get_log=False)
    assert status.status == "up-to-date"
    assert status.add_reason("uptodate_false", ("why", [], {})), "without a log the first reason is enough"
    assert status.status == "run"
    logged = DependencyStatus(get_log=True)
    assert not logged.add_reason("uptodate_false", ("why", [], {}))
    assert logged.reasons["uptodate_false"] == [("why", [], {})]


def test_list_knows_these_statuses() -> None:
    assert cmd_list.List.STATUS_MAP == {"ignore": "I", "up-to-date": "U", "run": "R", "error": "E"}


OFFERED = {"get_status", "status_is_ignore", "ignore", "remove", "remove_all", "close", "remove_success", "get_values"}


def test_stock_commands_ask_no_more_of_a_database_than_our_records_offer() -> None:
    asked = set()
    for module in (cmd_list, cmd_info, cmd_clean, cmd_forget, cmd_ignore):
        asked |= {word.split("(")[0] for word in inspect.getsource(module).split("self.dep_manager.")[1:]}
    assert {word.split()[0] for word in asked} <= OFFERED <= set(dir(ReceiptDatabase))


# -- commands


STOCK = {c.get_name(): c for c in (cmd_list.List, cmd_info.Info, cmd_clean.Clean, cmd_forget.Forget, cmd_ignore.Ignore)}
EXECUTE = {
    "list": ["subtasks", "quiet", "status", "private", "list_deps", "template", "sort", "pos_args"],
    "info": ["pos_args", "hide_status"],
    "clean": ["dryrun", "cleandep", "cleanall", "cleanforget", "pos_args"],
    "forget": ["forget_sub", "forget_disable_default", "forget_all"],
    "ignore": ["pos_args"],
}


@pytest.mark.parametrize("name", STOCK)
def test_what_a_stock_command_executes_is_called_with_its_options_by_name(name: str) -> None:
    command = STOCK[name]
    assert parameters(command._execute) == EXECUTE[name]
    assert {*EXECUTE[name]} - {"pos_args"} <= {option["name"] for option in command.cmd_options}
    assert command.name is None
    assert command.get_name() == name


def test_the_options_without_meaning_here_are_options_of_doit() -> None:
    every = {option["name"] for command in (*STOCK.values(), cmd_run.Run) for option in command.cmd_options}
    assert every >= MEANINGLESS_OPTIONS


def test_commands_print_to_this_stream_and_read_these_attributes() -> None:
    command = cmd_list.List(task_loader=TaskLoader2(), cmds={})
    used = {
        "sel_tasks",
        "sel_default_tasks",
        "dep_manager",
        "outstream",
        "loader",
        "config_vals",
        "bin_name",
        "opt_vals",
    }
    assert used <= vars(command).keys()
    command.task_list, command.outstream = [Task("x", None, doc="all")], StringIO()
    command._execute(pos_args=[])
    assert command.outstream.getvalue() == "x   \n"
    with pytest.raises(InvalidCommand):
        check_tasks_exist({"x": 1}, ["y"])


class Recorded(DoitCmdBase):
    name = "recorded"
    cmd_options = ({"name": "loud", "short": "l", "long": "loud", "type": bool, "default": False, "help": ""},)

    def execute(self, params: Any, args: list[str]) -> int:
        self.got = (params, args)
        return 7


def test_parse_execute_parses_and_hands_over() -> None:
    command = Recorded(task_loader=TaskLoader2(), cmds={})
    assert command.parse_execute(["-l", "a", "b"]) == 7
    params, args = command.got
    assert (params["loud"], args) == (True, ["a", "b"])
    params.update_defaults({"loud": False, "more": 1})
    assert (params["loud"], params["more"]) == (True, 1)
    with pytest.raises(CmdParseError):
        command.parse_execute(["--bogus"])


def test_options_are_parsed_in_getopt_form() -> None:
    parser = CmdParse([CmdOption(o) for o in (*cmd_run.Run.cmd_options, *Recorded.cmd_options)])
    assert "n:" in parser.get_short()
    assert "process=" in parser.get_long()
    assert "loud" in parser.get_long()
    params, words = parser.parse(["-n", "3", "-c", "x"])
    assert (params["num_process"], params["continue"], words) == (3, True, ["x"])
    assert isinstance(params, DefaultUpdate)
    parser.overwrite_defaults({"num_process": 5})
    assert parser.parse([])[0]["num_process"] == 5


def test_run_has_the_options_and_reporters_that_we_keep() -> None:
    names = {option["name"] for option in cmd_run.Run.cmd_options}
    assert names >= {"always", "continue", "reporter", "outfile", "num_process"}
    command = cmd_run.Run(task_loader=TaskLoader2(), cmds={})
    assert set(command.reporters) == {"console", "executed-only", "json", "zero", "error-only"}


# -- plugins and the main program


def test_plugins_come_after_dois_own_commands_and_win() -> None:
    class Main(DoitMain):
        DOIT_CMDS = (cmd_list.List,)

    commands = Main(config_filenames=()).get_cmds()
    assert isinstance(commands, PluginDict)
    commands["list"] = PluginEntry("COMMAND", "list", "doit.cmd_info:Info")
    assert commands.get_plugin("list") is cmd_info.Info
    assert PluginDict.entry_point_prefix == "doit"
    assert "doit.COMMAND" in DEFINITION["entry-points"]


def test_doit_finds_the_same_commands_as_coppice_has() -> None:
    ours = {name: place for name, place in COMMANDS.items() if name != "help"}
    assert DEFINITION["entry-points"]["doit.COMMAND"] == ours | MEANINGLESS_COMMANDS


def test_main_runs_the_command_named_first_and_otherwise_run() -> None:
    class Named(Recorded):
        def execute(self, params: Any, args: list[str]) -> int:
            heard.append((self.name, args, self.bin_name))
            return 0

    class RunNamed(Named):
        name = "run"

    class Main(DoitMain):
        BIN_NAME = "mine"

        def get_cmds(self) -> PluginDict:
            commands = PluginDict()
            commands["recorded"], commands["run"] = Named, RunNamed
            return commands

    heard: list[Any] = []
    loader = TaskLoader2()
    for words in (["recorded", "a"], ["b"], []):
        assert Main(loader, config_filenames=()).run(words) == 0
    assert heard == [("recorded", ["a"], "mine"), ("run", ["b"], "mine"), ("run", [], "mine")]
    assert loader.cmd_names == ["recorded", "run"]
