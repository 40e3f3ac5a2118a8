"""What a person at a terminal sees of a build, and in which state the terminal is left."""

import os
import pty
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from io import TextIOWrapper

import pytest
from kit.project import COPPICE, PATIENCE, Project, environment
from kit.terminal import Terminal
from kit.tree_runs import small_search

from pipeline.views.live import STOPPED_SECONDS, Screen, ScreenLine

# Each step says by a file that it runs, and goes on when the test says so.
GATE = "touch {name}.runs; while [ ! -e go ]; do sleep 0.05; done; "
SPEC = f"""\
kind: steps
rooms: {{gpu: 2}}
steps:
  quick:
    run: "echo quick > {{out}}"
    writes: quick.txt
  gated:
    for: {{name: [red, blue, green]}}
    run: "{GATE} echo {{name}} > {{out}}"
    reads: [runs/demo/quick.txt]
    writes: "{{name}}.txt"
    room: gpu
  bad:
    run: "{GATE.format(name="bad")} echo the very end; exit 3; touch {{out}}"
    reads: [runs/demo/quick.txt]
    writes: bad.txt
"""
COLOUR = re.compile(r"\x1b\[\d+m")
Start = Callable[..., Terminal]


@pytest.fixture
def start(project: Project) -> Iterator[Start]:
    project.spec("demo", SPEC)
    project.write("x", "")
    opened: list[Terminal] = []

    def started(
        *words: str, width: int = 80, height: int = 24, command: tuple[str, ...] = COPPICE, **env: str
    ) -> Terminal:
        full = environment({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "NO_COLOR": "", **env})
        opened.append(Terminal([*command, *words], project.root, full, width, height))
        return opened[-1]

    yield started
    project.write("go", "")
    for terminal in opened:
        terminal.clean_up()


def running(terminal: Terminal, number: int = 2) -> str:
    return terminal.wait_for(lambda seen: f"{number}/4 running" in seen)


def test_it_shows_what_runs_and_how_full_the_rooms_are(start: Start) -> None:
    lines = running(start("-n", "4", "demo"), 3).split("\n")
    bar, places, *targets = lines[lines.index(next(line for line in lines if "1/5" in line)) :]
    assert re.match(r"█{4}░{20}  1/5  .*1 built  \d s", bar)
    assert places == "3/4 running  gpu 2/2"
    assert sorted(line.split(" s ")[1] for line in targets[:-1]) == ["demo:bad", "demo:gated.blue", "demo:gated.red"]
    assert targets[-1] == "", "the cursor has a line of its own"


def test_only_lines_and_the_summary_are_left_of_it(start: Start, project: Project) -> None:
    terminal = start("-n", "4", "demo")
    running(terminal, 3)
    project.write("go", "")
    assert terminal.end() == 1
    rows = [re.sub(r"\d+\.\d s", "T s", row) for row in terminal.screen.rows]
    rest = ["failed demo:bad (exit status 3, T s)", "    the very end", "    log: runs/demo/.coppice/logs/bad.log"]
    assert rows[0] == "built demo:quick  T s"
    assert [row for row in rows if "built demo:gated" not in row and "quick" not in row][:3] == rest
    assert re.fullmatch(r"5 targets: \d built, 0 recalled, 0 fresh, 1 failed(, 1 not run)? in T s", rows[-2])
    assert rows[-1] == ""


def test_executed_only_has_no_line_for_what_was_recalled(start: Start, project: Project) -> None:
    project.write("go", "")
    assert start("demo:quick").end() == 0
    (project.root / "runs/demo/quick.txt").unlink()
    terminal = start("-r", "executed-only", "demo:gated.red")
    assert terminal.end() == 0
    rows = terminal.screen.rows
    assert [row.partition("  ")[0] for row in rows[:1]] == ["built demo:gated.red"]
    assert rows[1].startswith("2 targets: 1 built, 1 recalled")


def test_times_tick_while_nothing_happens(start: Start) -> None:
    terminal = start("-n", "4", "demo:gated.red")
    running(terminal, 1)
    for seconds in (1, 2):
        terminal.wait_for(f"{seconds} s demo:gated.red")


def test_it_is_redrawn_no_more_than_ten_times_a_second(start: Start, project: Project) -> None:
    many = "kind: steps\nsteps:\n  s:\n    for: {n: {range: [1, 400]}}\n    call: f.py:f\n    writes: '{n}.txt'\n"
    project.spec("many", many)
    project.write("f.py", "def f(reads, writes):\n    open(writes[0], 'w').close()\n")
    begun = time.monotonic()
    terminal = start("many")
    assert terminal.end() == 0
    assert 1 < len(terminal.frames) <= (time.monotonic() - begun) * 10 + 2


WAYS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}


def in_order(terminal: Terminal) -> None:
    screen = terminal.screen
    assert not screen.cursor_hidden
    assert (screen.column, screen.rows[screen.row :]) == (0, [""]), "a prompt would not start on an empty line"
    assert terminal.raw.count("\x1b[") >= 2 * terminal.raw.count("\x1b[0m")
    assert not re.search(r"\x1b\[[1-9]\d*m[^\x1b]*$", terminal.raw), "a colour is left on"


@pytest.mark.parametrize("name", WAYS)
def test_the_terminal_is_in_order_after_a_signal(start: Start, name: str) -> None:
    terminal = start("-n", "4", "demo")
    running(terminal, 3)
    terminal.process.send_signal(getattr(signal, name))
    assert terminal.end() == WAYS[name]
    in_order(terminal)
    assert (name == "SIGKILL") == ("running" in terminal.seen)


def test_the_terminal_is_in_order_after_an_error_of_the_tool(start: Start, project: Project) -> None:
    terminal = start("-n", "4", "--junit", "reports/junit.xml", "demo")
    running(terminal, 3)
    shutil.rmtree(project.root / "reports")
    project.write("go", "")
    assert terminal.end() == 1
    in_order(terminal)
    assert "running" not in terminal.seen
    assert "No such file or directory" in terminal.seen


def test_an_error_before_the_display_is_up_is_told_as_it_is(start: Start, project: Project) -> None:
    small_search(project, "sandbox: plain\n")
    (project.root / "runs/x/events.jsonl").mkdir(parents=True)
    terminal = start("run", "x")
    assert terminal.end() == 1
    in_order(terminal)
    summary, error = terminal.screen.rows[:-1]
    assert re.match(r"\d+ targets: 0 built", summary)
    assert error == "coppice: runs/x/events.jsonl: Is a directory"


def test_ctrl_c_says_what_it_waits_for(start: Start, project: Project) -> None:
    deaf = "trap '' TERM; while :; do sleep 0.1; done; touch {out}"
    project.spec("slow", f'kind: steps\nsteps:\n  s:\n    run: "{deaf}"\n    writes: s.txt\n')
    terminal = start("-n", "4", "slow")
    running(terminal, 1)
    os.write(terminal.ours, b"\x03")
    terminal.wait_for("interrupted by signal 2: waiting for 1 target to end")
    assert terminal.end() == 130


def test_a_window_that_is_closed_ends_the_build(start: Start, project: Project) -> None:
    terminal = start("-n", "4", "demo")
    running(terminal, 3)
    terminal.close()
    assert terminal.process.wait(30) != 0
    assert not (project.root / "runs/demo/red.txt").exists()


def test_a_terminal_that_is_gone_is_no_error() -> None:
    ours, theirs = pty.openpty()
    os.close(ours)
    with TextIOWrapper(open(theirs, "wb", buffering=0), write_through=True) as stream:
        with pytest.raises(OSError, match="Input/output error"):
            stream.write("nobody is there")
        screen = Screen(stream, lambda width, height: [ScreenLine("block", 5)])
        screen.open()
        screen.say("line")
        screen.close()


def test_stopped_and_continued_it_begins_a_new_block(start: Start) -> None:
    terminal = start("-n", "4", "demo")
    running(terminal, 3)
    os.kill(terminal.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
    until = time.monotonic() + STOPPED_SECONDS
    while time.monotonic() < until:
        terminal.read(0.2)
    drawn = len(terminal.frames)
    terminal.raw += "the shell says something\r\n"
    os.kill(terminal.process.pid, signal.SIGCONT)

    def blocks(seen: str) -> list[int]:
        return [part.count("3/4 running") for part in seen.split("the shell says something\n")]

    terminal.wait_for(lambda seen: len(terminal.frames) > drawn + 1 and blocks(seen) == [1, 1])


def test_in_the_background_it_leaves_the_terminal_to_the_shell(start: Start, project: Project) -> None:
    terminal = start("-c", f"set -m; {' '.join(COPPICE)} -n 4 demo & wait", command=("/bin/sh",))
    terminal.wait_for("built demo:quick")
    for name in ("red", "bad"):
        wait_for_file(project, f"{name}.runs")
    project.write("go", "")
    terminal.wait_for("5 targets:")
    assert "running" not in terminal.raw


def wait_for_file(project: Project, name: str) -> None:
    until = time.monotonic() + PATIENCE
    while not (project.root / name).exists():
        assert time.monotonic() < until, f"{name} does not appear"
        time.sleep(0.02)


def test_it_fits_a_narrow_terminal_and_one_that_becomes_narrower(start: Start) -> None:
    terminal = start("-n", "4", "demo", width=40)
    running(terminal, 3)
    assert max(map(len, terminal.screen.rows)) < 40
    drawn = len(terminal.frames)
    terminal.resize(20, 24)
    terminal.wait_for(lambda _: len(terminal.frames) > drawn + 1)
    assert max(map(len, COLOUR.sub("", terminal.frames[-1]).split("\r\n"))) < 20


def test_a_low_terminal_shows_less(start: Start) -> None:
    terminal = start("-n", "4", "demo", height=4)
    lines = running(terminal, 3).split("\n")
    bar = lines.index(next(line for line in lines if "1/5" in line))
    assert lines[bar + 2 :] == ["         and 3 more", ""]


def test_no_color_is_respected(start: Start) -> None:
    terminal = start("demo:quick")
    assert terminal.end() == 0
    assert COLOUR.search(terminal.raw)
    terminal = start("-a", "demo:quick", NO_COLOR="1")
    assert terminal.end() == 0
    assert terminal.raw
    assert not COLOUR.search(terminal.raw)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(start: Start, term: str) -> None:
    terminal = start("demo:quick", TERM=term)
    assert terminal.end() == 0
    assert "\x1b" not in terminal.raw
    assert terminal.seen.startswith("built demo:quick")


def test_a_locale_without_unicode_gets_ascii(start: Start) -> None:
    terminal = start("-n", "4", "demo", LC_ALL="C")
    assert "####----" in running(terminal, 3)
    assert terminal.raw.isascii()


def test_among_hundreds_only_failures_get_a_line(start: Start, project: Project) -> None:
    many = "for: {n: {range: [0, 120]}}\n    call: f.py:f\n    with: {n: '{n}'}\n    writes: '{n}.txt'"
    project.spec("many", f"kind: steps\nsteps:\n  s:\n    {many}\n")
    project.write("f.py", "def f(reads, writes, n):\n    n == 60 and exit(1)\n    open(writes[0], 'w').close()\n")
    terminal = start("-c", "many")
    assert terminal.end() == 1
    said = [row.split(" (")[0] for row in terminal.screen.rows if row and row[0] != " "]
    assert said == ["failed many:s.60", said[-1]]
    assert said[-1].startswith("120 targets: 119 built, 0 recalled, 0 fresh, 1 failed")


def test_with_nothing_to_do_nothing_is_drawn(start: Start) -> None:
    for _ in range(2):  # what was written a moment ago is looked at once more
        assert start("demo:quick").end() == 0
    terminal = start("demo:quick")
    assert terminal.end() == 0
    assert terminal.raw == "up to date: 1 target\r\n"
