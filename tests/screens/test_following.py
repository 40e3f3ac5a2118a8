"""Whoever follows a run hears all that changes, once and in order: live, paused, killed, done, and after a break."""

import asyncio
import json
import os
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kit.building import until
from kit.project import PATIENCE, Project
from kit.searches import Search, agent, idea
from kit.serving import Event, Served, blocks_of, served
from kit.tree_runs import searched, small_search

from pipeline.core.projection import Json, apply_delta
from pipeline.screens.feed import Discretion, FeedDesk, RunFeed, ledger_stats, run_list
from pipeline.screens.stream import PIECE, FeedFrame
from pipeline.store.steering import PAUSED, RESUMED, append_request

FORM = "IDEA: number %s\\n\\nRATIONALE: r\\n\\nREQUIRED_CHANGES:\\n- c\\n"
# Waits for the file `go`.
WAIT = 'touch "$project/asked"; while [ ! -e "$project/go" ]; do sleep 0.01; done\n'
IDEAS = f'{WAIT}n=$(grep -c ^ideas "$project/list"); printf "{FORM}" "$n"\n'
EDIT = 'echo "gain=1$(basename "$PWD" | tail -c 2)" > "plus/$(basename "$PWD")"; echo Done.\n'


def waiting_search(project: Project) -> Search:
    """One that waits for the file `go` where it first asks for an idea."""
    roles = {"ideas": agent("ideas"), "coder": agent("coder")}
    search = Search(project, {}, roles=roles, ideas_per_node=2, max_depth=1)
    project.write("agent.coder", EDIT)
    project.write("agent.ideas", IDEAS)
    return search


@contextmanager
def building(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A build; one that is not waited for is killed."""
    with project.popen("run", "x", "-n", "2") as build:
        try:
            yield build
        finally:
            if build.poll() is None:
                build.kill()


class Watcher:
    """The projection as a page has it: the first whole, and every change of it."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.seen: list[Event] = []
        self.now: Json = {}

    def step(self) -> Event:
        event = next(self.events)
        self.seen.append(event)
        if event.name == "projection":
            self.now = event.data
        if event.name == "delta":
            self.now = apply_delta(self.now, event.data)
        return event

    def until(self, *states: str) -> str:
        while not self.now or self.now["state"]["word"] not in states:
            self.step()
        return str(self.now["state"]["word"])

    @property
    def running(self) -> list[str]:
        blocks = blocks_of(self.now) if self.now else {}
        return [row["cells"][0] for row in blocks["running"]["rows"]] if "running" in blocks else []


def test_a_run_is_followed_while_it_is_paused_and_to_its_end(project: Project) -> None:
    search = waiting_search(project)
    with served(project, "x") as server, server.events() as events:
        watcher = Watcher(events)
        assert watcher.until("empty") == "empty"
        with building(project) as build:
            watcher.until("live")
            until((search.root / "asked").exists, build)
            assert "is paused" in server.post("/api/runs/x/pause").json()["said"]
            watcher.until("paused")
            assert "goes on" in server.post("/api/runs/x/resume").json()["said"]
            watcher.until("live")
            given = server.post("/api/runs/x/idea", text=idea("of a person"), where="d0.n0")
            assert "gets the idea" in given.json()["said"]
            project.write("go", "")
            assert build.wait(PATIENCE) == 0
        watcher.until("done")
        while watcher.seen[-1].name != "done":
            watcher.step()
        assert watcher.now == server.projection()
        versions = [int(event.version) for event in watcher.seen if event.name in ("projection", "delta")]
        assert all(before < after for before, after in pairwise(versions))
        assert [event.name for event in watcher.seen].count("projection") == 1


def test_what_a_build_works_on_is_on_the_screen_within_a_second(project: Project) -> None:
    search = waiting_search(project)
    with served(project, "x") as server, server.events() as events:
        watcher = Watcher(events)
        watcher.until("empty")
        with building(project) as build:
            until((search.root / "asked").exists, build)
            asked = time.time()
            while not any(".idea" in name for name in watcher.running):
                watcher.step()
            late = time.time() - asked
            project.write("go", "")
            build.wait(PATIENCE)
        assert late < 10, "one second where the machine is ours; tests share it"


def test_a_killed_build_is_not_live(project: Project) -> None:
    search = waiting_search(project)
    with served(project, "x") as server, server.events() as events:
        watcher = Watcher(events)
        with building(project) as build:
            watcher.until("live")
            until((search.root / "asked").exists, build)
            build.kill()
        assert watcher.until("killed", "stopped", "done") == "killed"
        assert watcher.running == []
        project.write("go", "")
        with building(project) as build:
            watcher.until("live")
            assert build.wait(PATIENCE) == 0
        watcher.until("done")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return searched(Project(tmp_path_factory.mktemp("followed") / "project"))


@pytest.fixture(scope="module")
def server(ready: Project) -> Iterator[Served]:
    with served(ready) as made:
        yield made


def steer(project: Project, event: str) -> None:
    with chdir(project.root):
        append_request("x", event)


def test_who_lost_the_connection_goes_on_where_he_was(server: Served, ready: Project) -> None:
    with server.events() as events:
        watcher = Watcher(events)
        watcher.step()
        version = watcher.seen[-1].version
    touched = ready.root / "runs/x/manifest.json"
    before = watcher.now
    steer(ready, PAUSED)
    os.utime(touched)
    with server.events(Last_Event_ID=version) as events:
        watcher = Watcher(events)
        watcher.now = before
        first = watcher.step()
        assert first.name in ("delta", "done"), "the whole is here already"
    steer(ready, RESUMED)
    for strange in ("0", "1", "999999999999999", "x", "-1"):
        with server.events(Last_Event_ID=strange) as events:
            assert next(events).name == "projection"


def test_who_asks_again_and_again_gets_what_has_changed_since(server: Served) -> None:
    [whole] = server.ask("/api/runs/x?since=0").json()
    assert whole["event"] == "projection"
    assert whole["data"] == server.projection()
    assert server.ask(f"/api/runs/x?since={whole['version']}").json() == []


def test_a_spec_under_edit_does_not_end_the_view_of_what_is_recorded(server: Served, ready: Project) -> None:
    spec = ready.read("specs/x.yaml")
    ready.spec("x", "kind: tree\nrepo: [")
    try:
        assert server.projection()["state"]["word"] == "done"
        [row] = server.ask("/api/runs").json()
        assert "specs/x.yaml:" in row["problem"]
    finally:
        ready.spec("x", spec)
    assert server.ask("/api/runs").json()[0]["problem"] == ""


def test_two_hundred_look_on_and_the_server_stays_small(server: Served) -> None:
    async def look_on() -> list[str]:
        async def one() -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET /api/runs/x/events HTTP/1.1\r\nHost: {server.host}\r\nX-Coppice-Token: {server.token}\r\n\r\n"
            writer.write(head.encode())
            await reader.readuntil(b"event: projection")
            opened.append(writer)
            return "projection"

        opened: list[asyncio.StreamWriter] = []
        heard = await asyncio.gather(*(one() for _ in range(200)))
        resident.append(Path(f"/proc/{server.process.pid}/status").read_text())
        for writer in opened:
            writer.close()
        return heard

    resident: list[str] = []
    assert asyncio.run(look_on()) == ["projection"] * 200
    [size] = [line.split()[1] for line in resident[0].splitlines() if line.startswith("VmRSS")]
    assert int(size) < 40_000, "kB; of ten thousand evaluations 45 000 at most"
    assert server.projection()["state"]["word"] == "done"


# --- The feed itself.


@pytest.fixture
def inside(ready: Project) -> Iterator[None]:
    with chdir(ready.root):
        yield


@pytest.mark.usefixtures("inside")
def test_nothing_changes_where_nothing_has() -> None:
    feed = RunFeed("x")
    assert feed.poll() != {}, "the first time all is new"
    assert feed.poll() == {}
    append_request("x", PAUSED)
    before = feed.last
    assert apply_delta(before, feed.poll()) == feed.last == RunFeed("x").now()
    append_request("x", RESUMED)
    assert feed.now() == feed.last
    assert feed.poll() == {}


@pytest.mark.usefixtures("inside")
def test_details_are_blocks_and_of_what_there_is() -> None:
    feed = RunFeed("x")
    items = [row["item"] for row in blocks_of(feed.now())["tree"]["rows"] if row["item"]]
    assert "d0.n0.i0" in items
    assert all({block["is"] for block in feed.details(item)} >= {"table", "code"} for item in items)


def frames(sent: bytes) -> Iterator[tuple[Any, bytes]]:
    while sent:
        line, _, rest = sent.partition(b"\n")
        facts = json.loads(line)
        yield facts, b"".join(FeedFrame(0, facts["packed"], rest[: facts["size"]]).pieces())
        sent = rest[facts["size"] :]


@pytest.mark.usefixtures("inside")
def test_changes_that_have_grown_large_are_folded_into_the_whole() -> None:
    sent = bytearray()
    desk = FeedDesk("x", sent.extend, Discretion({}, "/nowhere"))
    now = 0.0
    for _ in range(60):
        append_request("x", PAUSED)
        now += 1000
        desk.look(now)
        append_request("x", RESUMED)
        now += 1000
        desk.look(now)
    told: Json = {}
    for facts, content in frames(bytes(sent)):
        record = json.loads(content)
        if facts["is"] == "projection":
            assert not told or told == record, "the whole is what the changes have told"
            told = record
        else:
            told = apply_delta(told, record)
    assert told == RunFeed("x").now()


@pytest.mark.usefixtures("inside")
def test_the_list_of_runs_tells_of_each_its_last_build() -> None:
    [row] = run_list()
    assert (row["run"], row["kind"], row["building"], row["problem"]) == ("x", "tree", False, "")
    assert row["last"]["number"] == 1
    assert row["state"] == RunFeed("x").now()["state"] == run_list()[0]["state"]
    assert ledger_stats() == {"ledgers": []}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("of sk-0123456789 and more", "of [OPENAI_API_KEY] and more"),
        ("/home/me/project/runs/x/a.log", "runs/x/a.log"),
        ("/home/me/other", "~/other"),
        ("default", "default"),
        ("abc", "abc"),
    ],
)
def test_what_leaves_has_no_secret_and_no_place(text: str, clean: str) -> None:
    environ = {"OPENAI_API_KEY": "sk-0123456789", "XKB_KEYMAP": "default", "MY_TOKEN": "abc", "HOME": "/home/me"}
    assert Discretion(environ, "/home/me/project").clean(text) == clean


def test_what_json_writes_with_escapes_is_found_in_it_and_all_else_is_as_it_was() -> None:
    secret = 'pa"ss\\wörd'
    discretion = Discretion({"MY_TOKEN": secret, "HOME": "/home/jürgen"}, "/home/jürgen/x")
    value = {"rows": [["/home/jürgen/x/a.log", f"-{secret}-"], [None, 1.5]], "why": "~\n/home/jürgen/.ssh"}
    clean = {"rows": [["a.log", "-[MY_TOKEN]-"], [None, 1.5]], "why": "~\n~/.ssh"}
    assert json.loads(discretion.json_text(value)) == clean
    # a line end and a letter look like an escape and the beginning of a secret
    tricky = {"text": "\nabc12345"}
    assert json.loads(Discretion({"MY_TOKEN": "nabc12345"}, "/x").json_text(tricky)) == tricky


def test_what_is_packed_comes_out_whole_in_small_pieces() -> None:
    text = os.urandom(300_000).hex().encode()
    for content in (text, b"", b"a"):
        pieces = [*FeedFrame(1, is_packed=True, content=zlib.compress(content, 6, 31)).pieces()]
        assert b"".join(pieces) == content
        assert max(map(len, pieces), default=0) <= PIECE
        assert b"".join(FeedFrame(1, is_packed=False, content=content).pieces()) == content


def test_a_run_that_is_not_built_yet_is_empty(project: Project) -> None:
    small_search(project)
    with chdir(project.root):
        assert RunFeed("x").now()["state"]["word"] == "empty"
        assert not Path("runs/x/manifest.json").exists()
