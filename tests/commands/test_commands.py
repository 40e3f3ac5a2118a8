"""Every command on a clean tree, a finished one and a broken one."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
from contextlib import chdir

import pytest
from doit.plugin import PluginEntry
from kit.building import ALL, SPEC, planted, ran, steps
from kit.project import COPPICE, PATIENCE, Project, Said, environment
from kit.searches import Search

from pipeline.build.names import COMMANDS as PLACES
from pipeline.cli import noop
from pipeline.commands import exits
from pipeline.commands.command import MEANINGLESS_OPTIONS
from pipeline.commands.exits import OUTPUT_CLOSED
from pipeline.core.outcome import PROGRAM_MISSING
from pipeline.errors import UNAVAILABLE
from pipeline.git.command import GitOutage

COMMANDS = ["run", "list", "info", "clean", "forget", "ignore", "why", "plan", "graph"]


@pytest.fixture
def tree(project: Project) -> Project:
    return planted(project)


@pytest.fixture
def finished(tree: Project) -> Project:
    assert do(tree).code == 0
    assert ran(tree) == ALL
    return tree


def do(project: Project, *words: str, code: int = 0) -> Said:
    said = project.call(*words)
    assert said.code == code, said
    assert "Traceback" not in said.err
    return said


def refused(project: Project, *words: str) -> str:
    said = do(project, *words, code=2)
    assert said.err.startswith("coppice: "), said
    assert said.err.count("\n") == 1, said
    assert "CmdOption" not in said.err
    assert not said.out
    return said.err


def statuses(project: Project) -> dict[str, str]:
    lines = do(project, "list", "--all", "--status").out.splitlines()
    return {line.split()[1]: line[0] for line in lines}


# -- a clean tree


def test_on_a_clean_tree_all_is_listed_and_nothing_is_done(tree: Project) -> None:
    assert do(tree, "list").out.split()[0] == "x"
    assert statuses(tree) == {"x": "R", "x:alone": "R", "x:part.1": "R", "x:part.2": "R", "x:whole": "R"}
    assert "x:part.1" in do(tree, "info", "x:whole", code=1).out
    assert do(tree, "clean").out == ""
    do(tree, "why", "x:whole", code=1)
    do(tree, "plan")
    do(tree, "graph")
    assert ran(tree) == []
    assert not [*(tree.root / "runs").rglob("*.txt")]


def test_forget_and_ignore_work_before_anything_was_built(tree: Project) -> None:
    do(tree, "forget")
    do(tree, "ignore", "x:part.1")
    do(tree)
    assert ran(tree) == ["alone", "part.2"]


# -- selecting


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ALL),
        (["x"], ALL),
        (["run"], ALL),
        (["run", "x"], ALL),
        (["x:part.1"], ["part.1"]),
        (["x:whole"], ["part.1", "part.2", "whole"]),
        (["runs/x/part2.txt"], ["part.2"]),
        (["./runs/x/../x/part2.txt"], ["part.2"]),
        (["x:part.1", "x:alone"], ["alone", "part.1"]),
        (["x:part.1", "x:part.1"], ["part.1"]),
        (["-n", "1", "x:alone"], ["alone"]),
        (["x:alone", "-n1"], ["alone"]),
        (["x:alone", "--process", "3"], ["alone"]),
        (["-n", "0", "x:alone"], ["alone"]),
        (["x:part"], ["part.1", "part.2"]),
        (["run", "x:part", "x:part.1"], ["part.1", "part.2"]),
        (["x:part.*"], ["part.1", "part.2"]),
        (["x:*.[!1]"], ["part.2"]),
        (["x:*o*"], ALL),
        (["runs/x/part?.txt"], ["part.1", "part.2"]),
        (["*:alone"], ["alone"]),
    ],
)
def test_what_is_selected_is_built_and_what_it_needs(tree: Project, words: list[str], expected: list[str]) -> None:
    do(tree, *words)
    assert ran(tree) == expected


def test_one_run_of_two_is_built_and_the_other_may_be_broken(tree: Project) -> None:
    tree.spec("y", "kind: stepz\n")
    do(tree, "x")
    assert ran(tree) == ALL
    for command in ("list", "info", "why", "plan", "graph", "forget", "ignore", "clean"):
        do(tree, command, "x:alone" if command != "graph" else "x", code=0)
    assert "specs/y.yaml:1: " in do(tree, "run", code=2).err
    assert ran(tree) == []


WRONG = "coppice: specs/y.yaml:2: step s: unknown key 'runn'"
MISSING = "coppice: specs/lacking.yaml:3: nowhere is missing, which lacking:s reads"


@pytest.fixture
def mistaken(tree: Project) -> Project:
    """With `below`, which reads what a run with a mistake makes, and `lacking`, whose source is not there."""
    tree.spec("y", "kind: steps\nsteps: {s: {runn: 'echo > {out}', writes: s}}\n")
    tree.spec("below", steps("s: {run: 'cp {in} {out}', reads: runs/y/s, writes: s}"))
    tree.spec("lacking", steps("s: {run: 'cp {in} {out}', reads: nowhere, writes: s}"))
    return tree


@pytest.mark.parametrize("word", ["plan", "run"])
def test_runs_that_cannot_be_built_are_told_and_do_not_stop_the_others(mistaken: Project, word: str) -> None:
    for _ in range(2):
        said = do(mistaken, word, code=2)
        told = [line.partition(";")[0] for line in said.err.splitlines()]
        assert told == [WRONG, MISSING, "coppice: left out: below, lacking, y"]
        assert said.out.startswith(("4 targets: 4 to run", "built x:", "up to date: 4 targets"))
    assert ran(mistaken) == (ALL if word == "run" else [])
    mistaken.spec("x", SPEC.replace("echo alone", "exit 1; echo alone"))
    assert do(mistaken, word, code=2).err.startswith(WRONG)


@pytest.mark.parametrize("words", ["list", "list --all --status", "why", "graph", "plan --graph-only"])
def test_of_runs_with_mistakes_the_others_are_still_told(mistaken: Project, words: str) -> None:
    said = do(mistaken, *words.split(), code=2)
    told = [line.partition(";")[0] for line in said.err.splitlines()]
    assert told == [WRONG, "coppice: left out: below, y"]
    for name in ("y", "below"):
        (mistaken.root / f"specs/{name}.yaml").unlink()
    assert mistaken.call(*words.split()).out.split("\n", 1)[1] == said.out.split("\n", 1)[1]


def test_nothing_is_cleaned_or_forgotten_while_it_is_not_known_what_all_is(finished: Project) -> None:
    finished.spec("y", "kind: stepz\n")
    for command in ("clean", "forget"):
        assert "specs/y.yaml:1: " in refused(finished, command)
    (finished.root / "specs/y.yaml").unlink()
    assert do(finished).out == "up to date: 4 targets\n"


@pytest.mark.parametrize("command", ["list", "info", "why", "forget", "ignore", "clean", "plan"])
def test_a_target_can_be_named_by_its_output(finished: Project, command: str) -> None:
    do(finished, command, "runs/x/part1.txt")


@pytest.mark.parametrize("word", ["x:part", "x:part.*", "runs/x/part*"])
def test_a_step_or_a_pattern_stands_for_its_targets_in_every_command(finished: Project, word: str) -> None:
    listed = ["x:part.1", "x:part.2"]
    assert do(finished, "list", "-q", word).out.split() == listed
    assert do(finished, "list", "-q", word, "x:part.1", "x").out.split() == [*listed, "x"]
    assert do(finished, "why", word).out == f"{word} is fresh: 2 targets\n"
    told = [word, "  targets 2: x:part.1, x:part.2", "  status  2 fresh"]
    assert do(finished, "info", word).out.splitlines() == told
    removed = [f"{name} - removing runs/{name.replace(':', '/').replace('.', '')}.txt\n" for name in reversed(listed)]
    assert do(finished, "clean", word).out == "".join(removed)
    assert do(finished, "plan", word).out.startswith("2 targets: 2 recalled\n")
    for command in ("forget", "ignore"):
        said = f"{command.removesuffix('e')}{'t' * (command == 'forget')}ing {{}}\n"
        assert do(finished, command, word).out == "".join(map(said.format, listed))


def test_a_step_without_for_is_its_only_target(project: Project) -> None:
    step = "{run: 'touch {out}', writes: %s}"
    project.spec("x", f"kind: steps\nsteps: {{a: {step % 'a'}, ab: {step % 'ab'}}}\n")
    assert do(project, "list", "-q", "x:a").out == "x:a\n"


@pytest.mark.parametrize("run", ["x", "dotted.name"])
def test_an_unknown_target_is_answered_with_the_steps_not_with_all_targets(project: Project, run: str) -> None:
    step = "for: {i: {range: 300}}, run: 'echo {i} > {out}', writes: '{i}'"
    project.spec(run, f"kind: steps\nsteps: {{some: {{{step}}}}}\n")
    unknown = f"coppice: there is no target '{run}:{'zyx' * 5}'; allowed: {run}:some; `coppice list --all` shows all\n"
    assert refused(project, "why", f"{run}:{'zyx' * 5}") == unknown
    assert f"did you mean '{run}:some'?" in refused(project, "why", f"{run}:soem")


UNKNOWN = {
    "y*": "there is no run 'y*'",
    "x:z*": "there is no target 'x:z*'",
    "y": "there is no run 'y'",
    "lst": "there is no run 'lst'",
    "x:hole": "there is no target 'x:hole'; did you mean 'x:whole'?",
    "x:part.3": "there is no target 'x:part.3'; did you mean 'x:part.",
    "runs/x/wole.txt": "did you mean",
    "src.txt": "there is no ",
    "": "there is no ",
    "a=b": "there is no run 'a=b'",
}


@pytest.mark.parametrize("word", UNKNOWN)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_unknown_is_refused_by_every_command(finished: Project, command: str, word: str) -> None:
    assert UNKNOWN[word] in refused(finished, command, word)
    assert ran(finished) == []


@pytest.mark.parametrize("command", [*COMMANDS, "gc", "init"])
@pytest.mark.parametrize("option", ["--bogus", "-Z", "--db-file=x", "--backend=json"])
def test_unknown_options_and_those_without_meaning_here_are_refused(tree: Project, command: str, option: str) -> None:
    message = refused(tree, command, option)
    assert option.partition("=")[0].lstrip("-") in message
    assert f"`coppice help {command}`" in message


STRANGERS = {"foo": "", "plna": "did you mean 'plan'?", "lst": "did you mean 'list'?"}


@pytest.mark.parametrize("word", STRANGERS)
def test_a_word_that_is_neither_a_run_nor_a_command_is_told_so(tree: Project, word: str) -> None:
    said = refused(tree, word, "x")
    assert f"there is no run '{word}': no specs/{word}.yaml; nor is it a command{STRANGERS[word] and '; '}" in said
    assert STRANGERS[word] in said
    assert "; runs: x; commands: help, run, list, " in said
    assert "nor is it a command" not in refused(tree, "run", word), "who says `run` means a run"


@pytest.mark.parametrize("command", [name for name in PLACES if name != "help"])
def test_options_are_written_in_full(tree: Project, command: str) -> None:
    """An abbreviation would mean another option, or nothing, as soon as one is added."""
    options = {word for word in do(tree, "help", command).out.replace(",", " ").split() if word.startswith("--")}
    for option in options:
        short = option[:-1]
        if short not in options and short != "--":
            said = refused(tree, command, short)
            assert f"{command}: {short} is no option; write it in full: --" in said
            assert option in said
            assert refused(tree, command, f"{short}=1").startswith(f"coppice: {command}: {short} is no option; write")
    assert ran(tree) == []


def test_a_value_that_looks_like_an_abbreviation_is_a_value(tree: Project) -> None:
    assert do(tree, "run", "--output-file", "--cont", "x").code == 0
    assert (tree.root / "--cont").exists()
    assert refused(tree, "--cont", "x").startswith("coppice: run: --cont is no option; write it in full: --continue;")


BAD_VALUES = ["-n many", "-n -3", "-n 1.5", "-n", "--reporter nope", "-P thread", "--pdb", "-s", "--junit"]


@pytest.mark.parametrize("words", BAD_VALUES)
def test_bad_values_of_options_are_refused(tree: Project, words: str) -> None:
    refused(tree, *words.split())
    assert ran(tree) == []


def test_bad_values_are_named_as_they_were_typed(tree: Project) -> None:
    assert "plan: -n wants a whole number, not 'many'; see" in refused(tree, "plan", "-n", "many")
    assert "run: --reporter has no 'nope', only 'console', 'executed-only', " in refused(tree, "-r", "nope")


def test_help_and_version_are_ours(tree: Project) -> None:
    assert "0.1.0" in do(tree, "--version").out
    for words in (["help"], ["--help"], ["help", "run"], ["help", "list"], ["-h"], ["list", "--help"]):
        said = do(tree, *words)
        assert "coppice" in said.out
        assert "--db-file" not in said.out
        assert "task" not in said.out


@pytest.mark.parametrize("command", PLACES)
def test_help_on_a_command_has_each_of_its_options(tree: Project, command: str) -> None:
    said = do(tree, "help", command).out
    assert said.startswith(f"usage: coppice {command} ")
    class_ = PluginEntry("COMMAND", command, PLACES[command]).get()
    for option in class_.cmd_options:
        assert (f"--{option['long']}" in said) == (option["name"] not in MEANINGLESS_OPTIONS), option


def test_help_on_something_else_is_refused(tree: Project) -> None:
    assert "there is no command 'gra'; did you mean 'graph'?" in refused(tree, "help", "gra")
    assert "one command at a time" in refused(tree, "help", "list", "run")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words",
    ["list --all", "info x:whole", "why", "plan --all", "graph", "help", "help run", "--version", "gc", "run", ""],
)
def test_when_nobody_reads_any_more_it_ends_without_a_word(finished: Project, words: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*COPPICE, *words.split()], cwd=finished.root, env=environment({"PYTHONUNBUFFERED": unbuffered}),
        stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (OUTPUT_CLOSED, "")


@pytest.mark.parametrize("words", ["list --all", "why", "plan --graph-only", "help", "--version", "gc", "run", ""])
@pytest.mark.parametrize(("closed", "code"), [(">&-", OUTPUT_CLOSED), ("<&- >&- 2>&-", OUTPUT_CLOSED), ("<&-", 0)])
def test_a_stream_that_was_closed_before_is_one_that_nobody_reads_or_writes(
    finished: Project, words: str, closed: str, code: int
) -> None:
    program = ["sh", "-c", f'exec "$@" {closed}', "sh", *COPPICE, *words.split()]
    ended = subprocess.run(
        program, cwd=finished.root, env=environment({}), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, "")


def test_what_is_built_with_all_streams_closed_is_what_it_is_with_them(tree: Project) -> None:
    program = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COPPICE, "run", "-o", "said.txt"]
    ended = subprocess.run(program, cwd=tree.root, env=environment({}), timeout=60, check=False)
    assert (ended.returncode, ran(tree)) == (0, ALL)
    assert "4 targets: 4 built" in tree.read("said.txt")


def test_modules_of_the_project_do_not_stand_in_for_those_of_python(tree: Project) -> None:
    for name in ("code", "queue", "signal", "textwrap"):
        tree.write(f"{name}.py", "raise SystemExit('the wrong one')\n")
    said = tree.coppice("x:alone")
    assert (said.returncode, said.stderr) == (0, "")


# -- a finished tree


def test_a_finished_tree_is_left_alone(finished: Project) -> None:
    for words in ([], ["x"], ["x:whole"], ["runs/x/whole.txt"]):
        do(finished, *words)
    assert statuses(finished) == dict.fromkeys(["x", *(f"x:{name}" for name in ALL)], "U")
    do(finished, "info", "x:whole")
    do(finished, "why", "x:whole")
    assert ran(finished) == []


def test_up_to_date_is_said_by_the_fast_path_and_by_the_long_one(finished: Project) -> None:
    for words in ([], ["x"], ["run"], ["run", "x"]):
        assert finished.coppice(*words).stdout == "up to date: 4 targets\n"
    assert "up to date" in do(finished).out


def test_an_edit_is_seen_by_every_command(finished: Project) -> None:
    finished.write("src.txt", "2\n")
    assert statuses(finished) == {"x": "R", "x:part.1": "R", "x:part.2": "R", "x:whole": "R", "x:alone": "U"}
    assert "src.txt" in do(finished, "info", "x:part.1", code=1).out
    do(finished, "info", "x:whole", code=1)
    do(finished)
    assert ran(finished) == ["part.1", "part.2", "whole"]


def test_an_edited_spec_is_seen_even_after_another_command_has_looked(finished: Project) -> None:
    finished.spec("x", SPEC.replace("echo > ", "echo new > "))
    do(finished, "list")
    do(finished)
    assert ran(finished) == ["alone"]
    assert finished.read("runs/x/alone.txt") == "new\n"


def test_always_executes_what_is_selected_and_what_it_needs(finished: Project) -> None:
    do(finished, "-a", "x:whole")
    assert ran(finished) == ["part.1", "part.2", "whole"]
    do(finished)
    assert ran(finished) == []


def test_clean_removes_outputs_which_are_then_recalled(finished: Project) -> None:
    assert "runs/x/whole.txt" in do(finished, "clean", "-n").out
    assert (finished.root / "runs/x/whole.txt").exists()
    do(finished, "clean", "x:whole")
    assert not (finished.root / "runs/x/whole.txt").exists()
    assert (finished.root / "runs/x/part1.txt").exists()
    do(finished, "clean")
    assert not [*(finished.root / "runs/x").glob("*.txt")]
    assert do(finished).out.count("recalled x:") == 4
    assert ran(finished) == []


def test_a_long_chain_is_no_obstacle_for_any_command(project: Project) -> None:
    lines = [f"  s{i}: {{run: 'cp {{in}} {{out}}', reads: f{i - 1}, writes: f{i}}}\n" for i in range(1, 1500)]
    project.spec("x", "kind: steps\nsteps:\n  s0: {run: 'echo > {out}', writes: f0}\n" + "".join(lines))
    for command in ("list", "why", "graph", "forget", "clean"):
        do(project, command, "x:s1499", code=int(command == "why"))
    for words in ("list --all -s", "plan", "clean", "clean -a", "clean -c x:s1499", "forget -s x:s1499"):
        do(project, *words.split())


def test_clean_of_one_run_leaves_the_other(finished: Project) -> None:
    finished.spec("y", SPEC)
    do(finished, "y")
    do(finished, "clean", "y")
    assert (finished.root / "runs/x/whole.txt").exists()
    assert not (finished.root / "runs/y/whole.txt").exists()


def test_clean_leaves_files_that_no_target_writes(finished: Project) -> None:
    finished.write("runs/x/notes.md", "mine")
    do(finished, "clean")
    assert finished.read("runs/x/notes.md") == "mine"


def test_forgotten_is_made_anew_and_not_recalled(finished: Project) -> None:
    do(finished, "forget", "x:part.1")
    assert statuses(finished)["x:part.1"] == "R"
    do(finished)
    assert ran(finished) == ["part.1"], "the others see the same contents as before"
    do(finished)
    assert ran(finished) == []


def test_forget_of_a_run_and_of_all_of_them(finished: Project) -> None:
    for words in (["x"], [], ["-a"], ["x", "-a"]):
        do(finished, "forget", *words)
        do(finished)
        assert ran(finished) == ALL


def test_forget_with_what_it_needs(finished: Project) -> None:
    do(finished, "forget", "-s", "x:whole")
    do(finished)
    assert ran(finished) == ["part.1", "part.2", "whole"]


def test_forgotten_and_cleaned_is_made_anew(finished: Project) -> None:
    do(finished, "clean", "--forget", "x:alone")
    do(finished)
    assert ran(finished) == ["alone"]


def test_ignored_is_left_out_with_all_that_needs_it_until_it_is_forgotten(finished: Project) -> None:
    do(finished, "ignore", "x:part.1")
    finished.write("src.txt", "2\n")
    do(finished)
    assert ran(finished) == ["part.2"]
    assert statuses(finished) == {"x": "U", "x:part.1": "I", "x:part.2": "U", "x:whole": "I", "x:alone": "U"}
    finished.spec("y", "kind: steps\nsteps: {copy: {run: 'cp {in} {out}', reads: runs/x/whole.txt, writes: copy}}\n")
    assert do(finished, "list", "-s", "y:copy").out.startswith("I y:copy")
    do(finished, "forget", "x:part.1")
    do(finished)
    assert ran(finished) == ["part.1", "whole"]


def test_ignore_wants_a_name_and_info_exactly_one(tree: Project) -> None:
    assert "ignore" in refused(tree, "ignore")
    refused(tree, "info")
    refused(tree, "info", "x:alone", "x:whole")


def test_info_has_all_of_a_target(finished: Project) -> None:
    seen = re.sub(r"[-:\d]+ [-:\d]+ UTC in \d.\d s", "WHEN", do(finished, "info", "runs/x/whole.txt").out)
    assert seen.splitlines() == [
        "x:whole",
        "  status  fresh",
        "  run     echo whole >> ran; cat runs/x/part1.txt runs/x/part2.txt > runs/x/whole.txt",
        "  reads   runs/x/part1.txt  <- x:part.1",
        "          runs/x/part2.txt  <- x:part.2",
        "  writes  runs/x/whole.txt",
        "  made    WHEN",
    ]
    finished.write("src.txt", "2\n")
    assert "status" not in do(finished, "info", "--no-status", "x:whole").out


LIMITED = """kind: steps
steps:
  argv:
    run: [cp, "{in}", "{out}"]
    reads: a file.txt
    writes: copy.txt
    env: {SEED: "1", TOKEN: }
    timeout: 90
    retries: 2
    room: 3
  call: {call: "f.py:f", with: {digits: 3, names: [a, b]}, reads: "*.txt", writes: [call.txt], env: [TOKEN]}
"""


def test_info_has_what_is_called_with_what_and_all_limits(project: Project) -> None:
    project.spec("x", LIMITED)
    project.write("a file.txt", "1")
    said = do(project, "info", "--no-status", "x:argv").out
    assert said.splitlines() == [
        "x:argv", "  run     cp 'a file.txt' runs/x/copy.txt", "  env     SEED=1", "          TOKEN (passed through)",
        "  timeout 1 min 30 s", "  retries 2", "  room    argv, 3 at once", "  reads   a file.txt",
        "  writes  runs/x/copy.txt",
    ]  # fmt: skip
    assert do(project, "info", "--no-status", "x:call").out.splitlines() == [
        "x:call", "  call    f.py:f", "  with    digits: 3", '          names: ["a", "b"]',
        "  env     TOKEN (passed through)", "  reads   *.txt", "          f.py", "  writes  runs/x/call.txt",
    ]  # fmt: skip


PASTED = """kind: steps
steps:
  a:
    for: {x: ["it's"]}
    run: "printf %s {in} > {out}; echo '{x}' >> {out}"
    reads: a file.txt
    writes: out
"""


def test_the_command_that_info_shows_can_be_pasted(project: Project) -> None:
    project.write("a file.txt", "")
    project.spec("x", PASTED)
    do(project)
    built = project.read("runs/x/out")
    (project.root / "runs/x/out").unlink()
    said = do(project, "info", "--no-status", "runs/x/out").out
    (command,) = re.findall(r"^  run     (.*)$", said, re.MULTILINE)
    subprocess.run(["/bin/sh", "-c", command], cwd=project.root, check=True)
    assert project.read("runs/x/out") == built == "a file.txtit's\n"


def test_info_has_the_commands_of_a_search_as_a_shell_takes_them(project: Project) -> None:
    words = ["sh", "-c", "echo 'it''s' \"$1\"", "a b"]
    tried = {name: {"run": [*words, name]} for name in ("one", "two")}
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "command", "run": words}}
    Search(project, {"a": ":"}, sweep={"run": words, "reads": "sweep.sh"}, checks=tried, roles=roles)
    shown = [("sweep", []), ("checks", ["one"]), ("checks", ["two"]), ("i0.implement", [])]
    for target, more in shown:
        said = do(project, "info", "--no-status", f"x:d0.n0.{target}").out
        assert [*words, *more] in [shlex.split(line) for line in re.findall(r"run:? +(sh -c .*)$", said, re.MULTILINE)]


def test_info_keeps_every_word_apart_from_what_is_beside_it(project: Project) -> None:
    Search(project, {"a": ":"})
    for target in ("sweep", "i0.implement", "i0.score", "node"):
        said = do(project, "info", f"x:d0.n0.{target}", code=1).out.splitlines()
        words = [re.match(r"  \w+ +", line) for line in said[1:] if line[2] != " "]
        (beside,) = {found and len(found[0]) for found in words}
        assert beside is not None
        assert all(line[:beside].isspace() for line in said[1:] if line[2] == " ")


def test_info_says_why_a_target_is_not_fresh(tree: Project) -> None:
    tree.spec("x", SPEC.replace("echo alone", "exit 1; echo"))
    do(tree, "run", "-c", code=1)
    said = do(tree, "info", "x:alone", code=1).out
    assert "  status  failed\n          it failed\n          it would run\n" in said
    assert re.search(r"  failed  .*: exit status 1$", said, re.MULTILINE)
    do(tree, "ignore", "x:part.1")
    assert "  status  ignored\n" in do(tree, "info", "x:part.1", code=1).out


def test_info_has_all_of_a_run(tree: Project) -> None:
    tree.spec("x", SPEC.replace("kind: steps", "kind: steps\nrooms: {gpu: 2}"))
    do(tree, "x:alone")
    assert do(tree, "info", "x", code=1).out.splitlines() == [
        "x", "  spec    specs/x.yaml", "  kind    steps", "  store   runs/.store", "  targets 4", "  rooms   gpu 2",
        "  status  1 fresh, 3 stale",
    ]  # fmt: skip


def test_list_takes_its_options(finished: Project) -> None:
    in_order = ["x", "x:part.1", "x:part.2", "x:whole", "x:alone"]
    assert do(finished, "list", "--all", "-q").out == "".join(f"{name}\n" for name in in_order)
    assert do(finished, "list", "-q", "-s", "x:alone").out == "U x:alone\n"
    assert do(finished, "list", "--all", "-q", "--sort", "name").out.split() == sorted(in_order)
    assert "runs/x/whole.txt" in do(finished, "list", "x:whole").out
    assert "runs/x/part1.txt" in do(finished, "list", "--deps", "x:whole").out
    assert do(finished, "list", "--template", "<{name}>", "x:alone").out == "<x:alone>\n"


@pytest.mark.parametrize("reporter", ["console", "executed-only", "json", "zero", "error-only"])
def test_every_reporter_can_be_asked_for(tree: Project, reporter: str) -> None:
    out = do(tree, "--reporter", reporter).out
    assert ("x:alone" in out) == (reporter in ("console", "executed-only", "json"))
    if reporter == "json":
        assert [json.loads(line) for line in out.splitlines()] or json.loads(out)


def test_one_target_is_counted_as_one(project: Project) -> None:
    project.spec("x", "kind: steps\nsteps: {a: {run: 'touch {out}', writes: a}}\n")
    assert do(project, "list").out == "x   steps, 1 target (specs/x.yaml)\n"


# -- failures


def test_a_mistake_of_ours_is_told_as_such_with_all_that_helps_to_find_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.exit_code_of(lambda: [].index(0)) == exits.BROKEN
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("Traceback")
    assert said[-1] == "coppice: this is a mistake in Coppice itself, please report it"


def test_what_is_out_now_is_neither_bad_input_nor_a_mistake_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    def answer() -> int:
        raise GitOutage("git was not found", PROGRAM_MISSING)

    assert exits.exit_code_of(answer) == UNAVAILABLE
    assert capsys.readouterr().err == "coppice: git was not found\n"


BROKEN = SPEC.replace("echo part.{n} >> ran;", "echo part.{n} >> ran; [ {n} = 2 ] || exit 9;")


def test_a_failure_ends_the_build_and_with_continue_only_what_needs_it(tree: Project) -> None:
    tree.spec("x", BROKEN)
    said = do(tree, "-n", "1", code=1)
    assert ran(tree) == ["part.1"]
    assert "x:part.1" in said.out
    do(tree, "-n", "1", "--continue", code=1)
    assert ran(tree) == ["alone", "part.1", "part.2"]
    do(tree, code=1)
    assert ran(tree) == ["part.1"]
    tree.spec("x", SPEC)
    do(tree)
    assert "part.1" in ran(tree)


def test_a_failure_shows_the_last_lines_and_where_the_log_is(tree: Project) -> None:
    tree.spec("x", BROKEN.replace("exit 9", "{{ echo the reason >&2; exit 9; }}"))
    said = do(tree, code=1)
    assert "the reason" in said.out + said.err
    assert "runs/x/.coppice/logs/part.1.log" in said.out + said.err


def test_a_target_that_failed_is_stale_and_its_old_output_is_still_there(finished: Project) -> None:
    finished.spec("x", BROKEN)
    do(finished, code=1)
    assert statuses(finished)["x:part.1"] == "R"
    assert finished.read("runs/x/part1.txt") == "1\n"


# -- while another process builds


def test_while_a_run_is_built_it_can_be_looked_at_but_not_changed(tree: Project) -> None:
    wait = "touch here; i=0; while [ ! -e go ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done; echo > {out}"
    tree.spec("y", f"kind: steps\nsteps: {{slow: {{run: '{wait}', writes: slow}}}}\n")
    with tree.popen("y") as build:
        while not (tree.root / "here").exists():
            assert build.poll() is None
        for words in ("run y", "clean y", "forget y", "ignore y:slow"):
            said = do(tree, *words.split(), code=75)
            assert said.err.startswith(f"coppice: run y is being built by process {build.pid} on "), said.err
        assert "is being built by process" in do(tree, "gc", "--dry-run", code=75).err
        for words in ("list --all --status", "plan", "graph y", "x:alone"):
            do(tree, *words.split())
        tree.write("go", "")
        assert build.wait(timeout=PATIENCE) == 0


# -- a broken tree


def test_without_a_source_the_rest_can_be_listed_cleaned_and_built(finished: Project) -> None:
    (finished.root / "src.txt").unlink()
    assert "src.txt is missing" in refused(finished, "run")
    assert "src.txt is missing" in refused(finished, "run", "--continue")
    assert statuses(finished)["x:part.1"] == "R"
    do(finished, "x:alone")
    assert "src.txt" in do(finished, "info", "x:part.1", code=1).out
    do(finished, "why", "x:part.1", code=1)
    do(finished, "graph")
    do(finished, "forget", "x:alone")
    do(finished, "ignore", "x:part.1", "x:part.2")
    do(finished, "clean")
    assert ran(finished) == []


RECEIPTS = {
    "cut in a line": lambda raw: raw[: len(raw) - 30],
    "a line of another program": lambda raw: raw + b"hello\n",
    "zeros at the end, as after a power cut": lambda raw: raw + b"\0" * 4096,
    "a bit flipped": lambda raw: raw[:100] + bytes([raw[100] ^ 1]) + raw[101:],
    "empty": lambda raw: b"",
    "random": lambda raw: random.Random(0).randbytes(5000),
}


@pytest.mark.parametrize("damage", RECEIPTS)
def test_damaged_receipts_cost_at_most_a_recall(finished: Project, damage: str) -> None:
    receipts = finished.root / "runs/x/.coppice/receipts"
    receipts.write_bytes(RECEIPTS[damage](receipts.read_bytes()))
    for words in (["list", "--all", "--status"], ["clean", "-n"]):
        do(finished, *words)
    do(finished)
    assert ran(finished) == []
    assert set(statuses(finished).values()) == {"U"}


CACHES = ["runs/x/.coppice/state", "runs/x/.coppice/graph", "runs/x/.coppice/logs", ".doit.db", ".doit.db.dat"]


@pytest.mark.parametrize("gone", [*([path] for path in CACHES), CACHES], ids=[*CACHES, "all"])
def test_deleting_a_cache_redoes_nothing(finished: Project, gone: list[str]) -> None:
    for path in gone:
        place = finished.root / path
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
    do(finished)
    assert ran(finished) == []


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A bit flipped, zeros (as a power cut leaves them), other bytes, or cut off."""
    at, size = rng.randrange(len(content)), rng.randrange(1, 100)
    flipped = bytes([content[at] ^ 1 << rng.randrange(8)])
    middle = rng.choice([flipped, b"\0" * size, rng.randbytes(size), None])
    return content[:at] if middle is None else content[:at] + middle + content[at + len(middle) :]


@pytest.mark.parametrize("path", CACHES[:2])
def test_a_damaged_cache_redoes_nothing(finished: Project, path: str) -> None:
    do(finished)
    cache = finished.root / path
    whole = cache.read_bytes()
    rng = random.Random(path)
    for _ in range(60):
        cache.write_bytes(damaged(whole, rng))
        with chdir(finished.root):
            noop(["x"])
        do(finished, "x")
        assert ran(finished) == []
        cache.write_bytes(whole)


QUESTIONS = [
    "why x",
    "why x:alone",
    "plan",
    "plan --graph-only",
    "list --all --status",
    "graph",
    "info x",
    "info x:alone",
]
# What is run after it finds nothing below the folder that can be written, also by root.
READ_ONLY = [
    "unshare",
    "-rm",
    "sh",
    "-c",
    'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"',
    "sh",
]


@pytest.mark.parametrize("built", [True, False], ids=["built", "new"])
def test_questions_are_answered_where_the_plan_cannot_be_kept(tree: Project, built: bool) -> None:
    if built:
        do(tree, "run")
        tree.spec("x", SPEC.replace("echo part", "echo  part"))
    before = [tree.call(*question.split()) for question in QUESTIONS]
    (tree.root / "runs/x/.coppice/graph").unlink()
    (tree.root / "runs/x/.coppice/graph").mkdir()
    assert [tree.call(*question.split()) for question in QUESTIONS] == before
    assert os.listdir(tree.root / "runs/x/.coppice/graph") == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_answered_where_nothing_can_be_written(tree: Project, question: str) -> None:
    if subprocess.run([*READ_ONLY, "true"], cwd=tree.root, capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a folder for reading alone")
    words = [*READ_ONLY, *COPPICE, *question.split()]
    told = subprocess.run(words, cwd=tree.root, env=environment({}), capture_output=True, text=True, check=False)
    assert not (tree.root / "runs").exists()
    assert (told.returncode, told.stdout, told.stderr) == tree.call(*question.split())


def test_deleting_receipts_and_caches_recalls_all(finished: Project) -> None:
    shutil.rmtree(finished.root / "runs/x")
    assert do(finished).out.count("recalled x:") == 4
    assert ran(finished) == []


def test_deleting_everything_builds_everything(finished: Project) -> None:
    shutil.rmtree(finished.root / "runs")
    do(finished)
    assert ran(finished) == ALL


def test_a_spec_saved_while_the_build_starts_is_not_taken_for_the_one_before(project: Project) -> None:
    """After the look whether there is anything to do, before the plan is read."""
    spec = "kind: steps\nsteps:\n  one: {run: 'cp {in} {out}', reads: src, writes: one}\n"
    two = "  two: {run: 'echo AAA > {out}', writes: two}\n"
    project.write("src", "1")
    project.spec("demo", spec + two)
    assert project.call("run").code == 0
    project.write("src", "2")
    with chdir(project.root):
        assert not noop(["demo"])
    project.spec("demo", spec + two.replace("AAA", "BBB"))
    assert project.call("run").code == 0
    assert project.read("runs/demo/two") == "BBB\n"


def test_what_is_forgotten_while_the_build_starts_is_made_anew(project: Project) -> None:
    project.write("src", "1")
    both = (
        "one: {run: 'cp {in} {out}', reads: src, writes: one}\ntwo: {run: 'echo two >> ran; echo > {out}', writes: two}"
    )
    project.spec("demo", steps(both))
    assert project.call("run").code == 0
    project.write("src", "2")
    with chdir(project.root):
        assert not noop(["demo"])
    assert project.coppice("forget", "demo:two").returncode == 0
    assert project.call("run").code == 0
    assert ran(project) == ["two"] * 2
