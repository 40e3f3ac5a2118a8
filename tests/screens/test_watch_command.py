"""`coppice watch` and `coppice replay --show`: on a terminal, on one without textual, and on none."""

import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import chdir
from typing import Any

import pytest
from kit.project import COPPICE, ROOT, Project, call_in, environment
from kit.serving import served
from kit.terminal import Terminal
from kit.tree_runs import searched

from pipeline.commands.screens import RunSteering
from pipeline.core.projection import Json, apply_delta
from pipeline.machine.lock import lock_runs
from pipeline.screens.feed import RunFeed
from pipeline.screens.show import read_show
from pipeline.store.steering import SteeringLog

WITHOUT_TEXTUAL = (
    sys.executable, "-c",
    "import sys; sys.modules['textual'] = None; from pipeline.commands.main import main; sys.exit(main(sys.argv[1:]))",
)  # fmt: skip
LEFT = ("\x1b[?1049l", "\x1b[?25h")  # the other screen, and a hidden cursor


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A search that has ended, of which these tests only read, but for one."""
    made = searched(Project(tmp_path_factory.mktemp("watched")))
    made.call("replay", "x", "--show", "--save", "show.gz")
    return made


Start = Callable[..., Terminal]


@pytest.fixture
def start(project: Project) -> Iterator[Start]:
    opened: list[Terminal] = []

    def started(*words: str, command: tuple[str, ...] = COPPICE, **more: str) -> Terminal:
        env = environment({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more})
        opened.append(Terminal([*command, *words], project.root, env))
        return opened[-1]

    yield started
    for terminal in opened:
        terminal.clean_up()


def wait_for_text(terminal: Terminal, text: str) -> None:
    """Wait for a text in what was written, whatever moves the cursor there."""
    while text not in terminal.raw:
        assert terminal.read(60), f"ended without {text!r}: {terminal.raw[-2000:]}"


def type_keys(terminal: Terminal, keys: str) -> None:
    os.write(terminal.ours, keys.encode())


def modes(terminal: Terminal) -> list[Any]:
    return termios.tcgetattr(terminal.ours)


def files_of(project: Project) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.root.rglob("*") if path.is_file()}


# --- Without a terminal.


def test_without_a_terminal_it_prints_one_snapshot_and_changes_nothing(project: Project) -> None:
    project.call("watch", "x")  # the plan is kept from now on
    before = files_of(project)
    said = project.call("watch", "x")
    assert (said.code, said.err) == (0, "")
    assert re.match(r"coppice watch x +● done since ", said.out)
    with chdir(project.root):
        projection = RunFeed("x").now()
    for figure in projection["figures"]:
        assert figure["text"] in said.out
    [tree] = [block for block in projection["blocks"] if block["name"] == "tree"]
    names = {row["cells"][0] for row in tree["rows"]}
    assert {word for word in said.out.split() if re.fullmatch(r"d\d\.n\d(\.i\d)?", word)} >= names
    assert files_of(project) == before


def test_with_a_closed_input_it_is_no_terminal(project: Project) -> None:
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *COPPICE, "watch", "x"]
    said = subprocess.run(words, cwd=project.root, env=environment({}), capture_output=True, text=True, check=True)
    assert "coppice watch x" in said.stdout


def test_it_takes_no_lock_so_that_a_run_is_watched_while_it_is_built(project: Project) -> None:
    with chdir(project.root), lock_runs(["x"]):
        said = project.call("watch", "x")
    assert said.code == 0, said


def test_an_item_a_view_and_a_filter_narrow_the_snapshot(project: Project) -> None:
    item = project.call("watch", "x:d0.n0.i0").out
    assert "Raise a." in item
    assert "-0\n+3\n" in item
    view = project.call("watch", "x", "--view", "tree", "--filter", "promoted").out
    assert "d0.n0.i0" in view
    assert "▲ promoted" in view
    assert "✕ failed" not in view
    assert "events" not in view.lower().partition("── ")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch", "x", "--view", "treee"], "watch: --view treee: there is no such view; did you mean 'tree'?"),
        (["watch", "y"], "there is no run 'y'"),
        (["watch", "x:d9.n9.i9"], "d9.n9.i9"),
        (["watch"], "watch: name one run, not 0"),
        (["replay", "x", "--speed", "2"], "replay: --speed goes with --show"),
        (["replay", "x", "--from", "show.gz"], "replay: --from goes with --show"),
        (["replay", "x", "--show", "--speed", "0"], "replay: --speed wants a number above 0, such as 2, not '0'"),
        (["replay", "x", "--show", "--speed", "nan"], "not 'nan'"),
        (["replay", "x", "--show", "--speed", "fast"], "not 'fast'"),
        (["replay", "x", "--show", "--json"], "replay: --show does not go with --json"),
        (["replay", "x", "--show", "--save", "a", "--from", "b"], "replay: --from does not go with --save"),
        (["replay", "x", "--show", "--save", "a", "--speed", "2"], "replay: --speed does not go with --save"),
        (["replay", "x", "--show", "--save", "a", "--page"], "replay: --page does not go with --save"),
        (["replay", "x", "--page"], "replay: --page goes with --show"),
        (["replay", "x", "--show", "--from", "specs/x.yaml"], "specs/x.yaml: cannot be read as a recording"),
        (["replay", "y", "--show", "--from", "show.gz"], "is a recording of run 'x', not of 'y'"),
        (["replay", "y", "--show"], "there is no run 'y'"),
    ],
)
def test_a_mistake_is_one_line(project: Project, words: list[str], message: str) -> None:
    said = project.call(*words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_a_show_without_a_terminal_is_its_headlines_and_how_it_ends(project: Project) -> None:
    for more in ([], ["--from", "show.gz"]):
        said = project.call("replay", "x", "--show", *more)
        assert said.code == 0, said
        lines = said.out.split("\n")
        assert re.match(r" +0 s  \S", lines[0])
        assert re.search(r"^ +\d.* s  Stopped: ", said.out, re.MULTILINE)
        assert f"coppice replay x --show {' '.join(more)}".strip() in said.out


def test_a_recording_ends_as_the_run_stands(project: Project) -> None:
    with chdir(project.root):
        show, now = read_show("show.gz", "x"), RunFeed("x").now()
        items = [row["item"] for block in now["blocks"] for row in block.get("rows", ()) if row.get("item")]
        assert {*show.details} >= {*items}
    *_, (_, last) = show.frames()
    assert last["figures"] == now["figures"]
    assert last["state"]["word"] == "done"


def test_the_recording_of_the_demo_is_played_with_nothing_built() -> None:
    path = "examples/momentum/show.json.gz"
    said = call_in(ROOT, "replay", "momentum", "--show", "--from", path)
    assert said.code == 0, said
    assert "Stopped: max_depth_reached" in said.out
    assert (ROOT / path).stat().st_size <= 100_000
    assert "replay momentum --show --from examples/momentum/show.json.gz" in (ROOT / "scripts/run").read_text()


def test_a_show_on_a_page_comes_to_its_end_and_nothing_can_be_asked_of_the_run(project: Project) -> None:
    words = ["x", "--show", "--from", "show.gz", "--speed", "50", "--page"]
    with served(project, *words, command="replay") as server:
        with server.events() as events:
            seen = []
            for event in events:
                seen.append(event)
                if event.name == "done":
                    break
        projection: Json = {}
        for event in seen[:-1]:
            projection = event.data if event.name == "projection" else apply_delta(projection, event.data)
        assert seen[0].data["headline"].startswith("recorded, 0 s of ")
        assert len([event for event in seen if event.name == "delta"]) >= 1
        assert projection["headline"].startswith("recorded, all of ")
        assert projection["command"] == "coppice replay x --show --speed 50 --from show.gz"
        assert '"can":' not in server.ask("/").text
        refusal = server.post("/api/runs/x/pause")
        assert (refusal.status_code, refusal.text) == (409, "a recording cannot be steered\n")
        assert server.ask("/api/runs/y").status_code == 404
        assert server.ask("/api/runs/x/items/d0.n0.i0").json()
    assert not (project.root / "runs/x/steering.jsonl").exists()


# --- On a terminal.


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_it_is_a_full_screen_until_q_and_the_terminal_is_as_it_was(start: Start, no_color: str) -> None:
    terminal = start("watch", "x", NO_COLOR=no_color)
    before = modes(terminal)
    wait_for_text(terminal, "coppice watch x")
    wait_for_text(terminal, "? keys")
    type_keys(terminal, "jj\r")
    wait_for_text(terminal, "coppice watch x:d")
    type_keys(terminal, "q")
    assert terminal.end() == 0
    assert all(sequence in terminal.raw for sequence in LEFT)
    assert not (no_color and re.search(r"\x1b\[[\d;]*\b[34][1-7]\b", terminal.raw))
    assert modes(terminal) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_full_screen_and_leaves_the_terminal_in_order(start: Start, number: int) -> None:
    terminal = start("watch", "x")
    before = modes(terminal)
    wait_for_text(terminal, "? keys")
    os.kill(terminal.process.pid, number)
    assert terminal.end() == 128 + number
    assert all(sequence in terminal.raw for sequence in LEFT)
    assert modes(terminal) == before


@pytest.mark.parametrize(("keys", "code"), [("xq", 0), ("\x03", 0), ("", 143)])
def test_without_textual_the_snapshot_is_redrawn_and_says_so(start: Start, keys: str, code: int) -> None:
    terminal = start("watch", "x", command=WITHOUT_TEXTUAL)
    before = modes(terminal)
    seen = terminal.wait_for("get textual, `coppice doctor` says how")
    assert "coppice watch x" in seen
    assert "── Nodes and ideas" in seen
    if keys:
        type_keys(terminal, keys)
    else:
        os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.end() == code
    assert modes(terminal) == before
    assert not terminal.screen.cursor_hidden


def test_without_textual_a_show_ends_by_itself_and_its_last_frame_stays(start: Start) -> None:
    terminal = start("replay", "x", "--show", "--from", "show.gz", "--speed", "1000", command=WITHOUT_TEXTUAL)
    assert terminal.end() == 0
    assert "recorded, all of " in terminal.seen
    assert "● done since" in terminal.seen
    assert "pip install" not in terminal.seen


def test_a_show_on_a_full_screen_comes_to_its_end_and_waits_there(start: Start) -> None:
    terminal = start("replay", "x", "--show", "--from", "show.gz", "--speed", "1000")
    wait_for_text(terminal, "recorded, all of ")
    type_keys(terminal, "p")
    wait_for_text(terminal, "the show is held")
    type_keys(terminal, "q")
    assert terminal.end() == 0


# --- Pausing.


def test_p_pauses_a_run_as_the_commands_do_and_lets_it_go_on(project: Project) -> None:
    copy = project.copy(project.root.parent / "steered")
    with chdir(copy.root):
        steering = RunSteering("x")
        assert steering.question().startswith("pause x, so that ")
        assert steering.act().startswith("x is paused: no build of x runs; ")
        assert SteeringLog("x").pause() is not None
        assert steering.question() == "let x go on?"
        assert steering.act().startswith("x is not paused any more")
        assert SteeringLog("x").pause() is None
