"""Bad input is one message that says where, what is wrong and what would be right; and nothing has been executed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.mistakes import Mistake, read_mistakes, refused, refused_mistake
from kit.project import Project, Said, environment

GOOD = 'good:\n    run: "echo good > {out}"\n    writes: good.txt'
STEPS = f"kind: steps\nsteps:\n  {GOOD}\n"
# Before `x` in the order of runs: were anything executed in spite of a mistake in x, this would be.
FIRST = "kind: steps\nsteps:\n  count: {run: 'echo ran >> executed; touch {out}', writes: a.txt}\n"


MISTAKES = read_mistakes(Path(__file__).with_name("bad_specs.txt"), {"GOOD": GOOD})


@pytest.fixture
def ready(project: Project) -> Project:
    return stocked(project)


def stocked(project: Project) -> Project:
    project.spec("first", FIRST)
    project.write("in.txt", "in\n")
    project.write("src/a.py", "print()\n")
    project.write("function.py", "def make(reads, writes):\n    open(writes[0], 'w').close()\n")
    return project


def builds_when_corrected(project: Project) -> None:
    """What a refused build may have left below runs/ is not in the way of the next one."""
    if (project.root / "runs/x").exists():
        project.spec("x", STEPS)
        assert project.call("run", "x").code == 0
        assert project.read("runs/x/good.txt") == "good\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_one_message_with_file_and_line(ready: Project, mistake: Mistake) -> None:
    refused_mistake(ready, mistake)
    builds_when_corrected(ready)


DEEP = "kind: steps\nsteps:\n  a:\n    call: function.py:make\n    writes: a.txt\n    with: {a: %s}\n"
PAIRS = zip("abcdefghi", "bcdefghij", strict=True)
NINEFOLD = (f"      {name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in PAIRS)
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(NINEFOLD)
LONG = "l" * 500
WRITTEN = {
    "empty": (b"", 1, "the file is empty"),
    "only white space": (b"\n\n  \n", 1, "the file is empty"),
    "tab indentation": (b"kind: steps\nsteps:\n\tgood:\n", 3, "tab"),
    "not UTF-8": (b"kind: steps\nsteps:\n  caf\xe9: 1\n", 3, "byte 0xe9 is not UTF-8; save the file as UTF-8"),
    "UTF-16": ("kind: steps\n".encode("utf-16"), 1, "is not UTF-8"),
    "NUL": (b"kind: steps\0\n", 1, "#x0000"),
    "control character": (b"kind: steps\nsteps: \x01\n", 2, "#x0001"),
    "half a surrogate": (b'kind: steps\nsteps: "\\ud800"\n', 2, "not YAML"),
    "an alias inside itself": (f"{STEPS}    reads: &r [*r]\n".encode(), 1, "an alias inside what it stands for"),
    "nested in a value": ((DEEP % ("[" * 900 + "]" * 900)).encode(), 6, "nested"),
    "nested in reads": (f"{STEPS}    reads: {'[' * 900}in.txt{']' * 900}\n".encode(), 6, "nested"),
    "step name too long": (STEPS.replace("good:", f"{LONG}:").encode(), 4, "too long"),
    "value too long": (f"{STEPS}    for: {{n: [{LONG}]}}\n".encode(), 4, "too long"),
    "output name too long": (STEPS.replace("good.txt", LONG).encode(), 5, "240 bytes"),
    "output path too long": (STEPS.replace("good.txt", "d/" * 2500 + "f").encode(), 5, ""),
    "a path longer than any": (f"{STEPS}    reads: {'r' * 5000}\n".encode(), 6, "is missing"),
    "a key longer than any": (f"{STEPS}{'k' * 900}: 1\n".encode(), 6, "unknown key"),
    "a key of two lines": (f'{STEPS}"two\\nlines": 1\n'.encode(), 6, "unknown key"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_odd_files_are_refused_like_any_other_mistake(ready: Project, name: str) -> None:
    written, line, says = WRITTEN[name]
    ready.write("specs/x.yaml", written)
    assert says in refused(ready, ready.call("run", "x"), f"specs/x.yaml:{line}: ")
    builds_when_corrected(ready)


BOMBS = {
    "nested beyond the stack": b"kind: steps\nsteps: " + b"[" * 100_000 + b"]" * 100_000,
    "lists of lists on one line": b"kind: steps\nsteps:\n  " + b"- " * 100_000 + b"x\n",
    "a billion laughs": (DEEP % "0").replace("{a: 0}", f"\n      {LAUGHS}").encode(),
    "a billion files read": f"{STEPS}    reads:\n      {LAUGHS}".encode(),
    "a node inside itself": (DEEP % "0").replace("{a: 0}", "&w {a: *w}").encode(),
    "a matrix of many columns": f"{STEPS}    for: {{{', '.join(f'n{i}: [1, 2]' for i in range(60))}}}\n".encode(),
}


LIMITED = """
import resource, runpy, sys
if sys.platform == "linux":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
runpy.run_module("pipeline", run_name="__main__")
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_spec_can_neither_crash_coppice_nor_eat_the_memory(ready: Project, name: str) -> None:
    ready.write("specs/x.yaml", BOMBS[name])
    start = [sys.executable, "-c", LIMITED, "run", "x"]
    ended = subprocess.run(
        start, cwd=ready.root, env=environment({}), capture_output=True, text=True, timeout=20, check=False
    )
    refused(ready, Said(ended.returncode, ended.stdout, ended.stderr), "specs/x.yaml:")


def test_aliases_that_stand_for_a_little_are_welcome(ready: Project) -> None:
    more = "  more: {run: 'echo $A > {out}', writes: more.txt, env: *env}\n"
    ready.spec("x", f"{STEPS}    env: &env {{A: '1'}}\n{more}")
    assert ready.call("run", "x").code == 0
    assert ready.read("runs/x/more.txt") == "1\n"


def test_line_ends_of_windows_and_a_byte_order_mark_are_no_mistakes(ready: Project) -> None:
    ready.write("specs/x.yaml", b"\xef\xbb\xbf" + STEPS.replace("\n", "\r\n").encode())
    assert ready.call("run", "x").code == 0


NAMES = {
    "list.yaml": "'list' is the name of a command; rename the file",
    "why.yml": "'why' is the name of a command; rename the file",
    "watch.yaml": "'watch' is the name of a command; rename the file",
    "mcts-flags.yaml": "'mcts-flags' is the run that `coppice mcts` builds with flags; rename the file",
    "my run.yaml": "'my run' is not a name for a run",
    "a:b.yaml": "'a:b' is not a name for a run",
    "-n.yaml": "'-n' is not a name for a run",
    "ünïcode.yaml": "is not a name for a run; use letters, digits",
    "two\nlines.yaml": "is not a name for a run",
    f"{'n' * 150}.yaml": "is not a name for a run",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_is_named_so_that_it_can_be_selected(ready: Project, name: str) -> None:
    (ready.root / "specs/first.yaml").unlink()
    ready.write(f"specs/{name}", STEPS)
    assert NAMES[name] in refused(ready, ready.call(), "specs/")


def test_two_specs_of_one_run_are_refused(ready: Project) -> None:
    ready.spec("x", STEPS)
    ready.write("specs/x.yml", STEPS)
    message = refused(ready, ready.call("run", "x"), "specs/")
    assert "specs/x.yaml" in message
    assert "specs/x.yml" in message


def test_files_in_specs_that_are_no_specs_are_left_alone(ready: Project) -> None:
    (ready.root / "specs/first.yaml").unlink()
    ready.spec("x", STEPS)
    for name in ("notes.md", ".hidden.yaml", "x.yaml~", "x.yaml.swp", "plan"):
        ready.write(f"specs/{name}", "no: [yaml")
    assert ready.call("run").code == 0


def test_a_spec_that_is_a_folder_is_refused(ready: Project) -> None:
    (ready.root / "specs/x.yaml").mkdir()
    refused(ready, ready.call("run", "x"), "specs/x.yaml: ")


def test_a_spec_that_is_a_pipe_is_refused_and_not_waited_for(ready: Project) -> None:
    os.mkfifo(ready.root / "specs/x.yaml")
    ended = ready.coppice("run", "x", timeout=10)
    refused(ready, Said(ended.returncode, ended.stdout, ended.stderr), "specs/x.yaml: ")


def test_a_spec_that_leads_nowhere_is_refused(ready: Project) -> None:
    (ready.root / "specs/x.yaml").symlink_to("gone.yaml")
    refused(ready, ready.call("run", "x"), "specs/x.yaml: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_spec_that_may_not_be_read_is_refused(ready: Project) -> None:
    ready.spec("x", STEPS).chmod(0)
    assert "denied" in refused(ready, ready.call("run", "x"), "specs/x.yaml: ")


def test_without_a_folder_of_specs_init_is_proposed(project: Project) -> None:
    (project.root / "specs").rmdir()
    assert "`coppice init`" in refused(project, project.call(), "there is no folder specs/")


def test_in_a_folder_inside_of_a_project_its_place_is_told(ready: Project) -> None:
    for place in ("strategies/deep", "specs"):
        inner = Project(ready.root / place / "specs")
        (inner.root / "specs").rmdir()
        message = refused(inner, inner.call(), "there is no folder specs/ here; ")
        assert message.endswith(f"; this is inside the project {ready.root}; run it there\n")


def test_an_empty_folder_of_specs_is_not_a_finished_build(project: Project) -> None:
    assert "`coppice init`" in refused(project, project.call(), "")


def test_specs_that_is_a_file_is_refused(project: Project) -> None:
    (project.root / "specs").rmdir()
    project.write("specs", "kind: steps")
    refused(project, project.call(), "")


def test_an_output_cannot_leave_the_run_by_a_symbolic_link(ready: Project) -> None:
    ready.spec("x", STEPS.replace("good.txt", "away/good.txt"))
    outside = ready.root / "outside"
    outside.mkdir()
    (ready.root / "runs/x").mkdir(parents=True)
    (ready.root / "runs/x/away").symlink_to(outside)
    message = refused(ready, ready.call("run", "x"), "specs/x.yaml:4: ")
    assert "runs/x/away leads outside runs/x by a symbolic link" in message
    assert not [*outside.iterdir()]


def test_a_missing_input_that_is_a_dead_link_is_named_as_such(ready: Project) -> None:
    (ready.root / "dead.txt").symlink_to("gone.txt")
    ready.spec("x", f"{STEPS}    reads: dead.txt\n")
    message = refused(ready, ready.call("run", "x"), "specs/x.yaml:6: ")
    assert "dead.txt is missing" in message
    assert "a symbolic link that leads nowhere" in message


READS = "kind: steps\nsteps:\n  s:\n    run: 'cat {in} > {out}'\n    reads: %s\n    writes: out\n"


def test_a_cycle_over_two_runs_is_shown_whole(ready: Project) -> None:
    ready.spec("x", READS % "runs/y/out")
    ready.spec("y", READS % "runs/x/out")
    assert "a cycle, each makes what the next one reads: x:s -> y:s -> x:s" in refused(
        ready, ready.call("run", "x"), "specs/x.yaml:5: "
    )


@pytest.mark.parametrize(
    ("reads", "says"), [("runs/first/b.txt", "did you mean 'runs/first/a.txt'?"), ("runs/first", "")]
)
def test_what_no_step_of_another_run_writes_cannot_be_read(ready: Project, reads: str, says: str) -> None:
    ready.spec("x", READS % reads)
    assert says in refused(ready, ready.call("run", "x"), "specs/x.yaml:5: ")


def test_a_mistake_in_a_run_that_is_read_from_is_named_there(ready: Project) -> None:
    ready.spec("x", READS % "runs/y/out")
    ready.spec("y", "kind: steps\nstepz: {}\n")
    refused(ready, ready.call("run", "x"), "specs/y.yaml:2: ")


def test_a_corrected_spec_builds_and_the_result_of_before_the_mistake_is_kept(ready: Project) -> None:
    ready.spec("x", STEPS)
    assert ready.call("run", "x").code == 0
    ready.spec("x", STEPS + "oops: 1\n")
    refused(ready, ready.call("run", "x"), "specs/x.yaml:6: ")
    ready.spec("x", STEPS)
    again = ready.call("run", "x")
    assert again.code == 0
    assert "built" not in again.out


WHOLE = """kind: steps
store: runs/.store
max_targets: 50
rooms: {gpu: 1, light: 4}
env: [LANG]
steps:
  good:
    for: {n: {range: 2}, word: [one, two]}
    run: [cp, "{in}", "{out}"]
    reads: [in.txt]
    writes: "{n}/{word}.txt"
    timeout: 5s
    retries: 1
    room: gpu
  make:
    call: function.py:make
    with: {}
    reads: {a: {step: good}, b: src/}
    writes: made.txt
    env: {A: "1", B: }
    by_content: true
    room: 2
"""
ODD = ["", "~", "null", "0", "-1", "1e999", ".nan", "[]", "{}", "[[]]", "{a: 1}", "true", "2020-01-01", "'", '"', "*x"]
ODD += [
    "&x a",
    "!t a",
    "{",
    "}",
    "{in}",
    "{out}",
    "{n}",
    "..",
    ".",
    "a/../b",
    "*",
    "src/**",
    "[z-a]",
    "|",
    ">",
    "@",
    "%",
]
ODD += ["\t", "\u2028", "é", "- a", "? a", "runs/x", "specs/x.yaml", ".coppice/a"]
WORDS = re.findall(r"[A-Za-z_.]+|\d+|\{\w+\}", WHOLE)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The whole spec with one to three things wrong, or by luck none."""
    lines = WHOLE.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        tokens = re.findall(r"\w+|\W", lines[at]) or [""]
        spot = draw(st.integers(0, len(tokens) - 1))
        token = draw(st.sampled_from(ODD) | st.sampled_from(WORDS))
        changes = {
            "drop the line": [],
            "twice": [lines[at], lines[at]],
            "indent": ["  " + lines[at]],
            "outdent": [lines[at][2:]],
            "replace": ["".join([*tokens[:spot], token, *tokens[spot + 1 :]])],
            "value": [f"{lines[at].partition(':')[0]}: {token}"],
            "cut": [lines[at][:spot]],
        }
        lines[at : at + 1] = draw(st.sampled_from([*changes.values()]))
    return "\n".join(lines)


@settings(max_examples=250, deadline=None)
@given(spec=mutated())
def test_whatever_is_in_a_spec_there_is_a_message_and_never_a_traceback(spec: str) -> None:
    with TemporaryDirectory() as folder:
        ready = stocked(Project(Path(folder) / "project"))
        ready.write("specs/x.yaml", spec.encode())
        said = ready.call("list", "--all", "x")
        if said.code == 0:
            said = ready.call("run", "x")
        assert said.code in (0, 1, 2), said
        if said.code == 2:
            refused(ready, said, "specs/x.yaml:")
        assert "Traceback" not in said.out + said.err, said
