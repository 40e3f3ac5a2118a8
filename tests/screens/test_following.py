"""Whoever follows a run hears all that changes, once and in order: live, paused, killed, done, and after a break."""

import asyncio
import json
import os
import subprocess
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import partial, reduce
from hashlib import sha256
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
from pipeline.errors import SpecError
from pipeline.screens.access import Discretion, Site
from pipeline.screens.feed import FeedDesk, RunFeed, ledger_stats, readable, run_list
from pipeline.screens.server import Dashboard
from pipeline.screens.stream import PIECE, SEND_SECONDS, FeedFrame, Sending, abort_stuck, loop_time
from pipeline.store.ledger import Ledger
from pipeline.store.steering import PAUSED, RESUMED, append_request
from pipeline.tree.run.records import append_event
from pipeline.views.snapshot import state_text

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


def test_what_a_build_works_on_is_on_the_screen_while_it_does(project: Project) -> None:
    search = waiting_search(project)
    with served(project, "x") as server, server.events() as events:
        watcher = Watcher(events)
        watcher.until("empty")
        with building(project) as build:
            until((search.root / "asked").exists, build)
            while not any(".idea" in name for name in watcher.running):
                watcher.step()
            assert not (search.root / "go").exists(), "it still waits"
            project.write("go", "")
            build.wait(PATIENCE)


def test_a_run_that_was_paused_and_then_killed_can_be_resumed_and_an_idea_needs_a_free_slot(project: Project) -> None:
    search = waiting_search(project)
    with chdir(project.root), building(project) as build:
        until((search.root / "asked").exists, build)
        feed = RunFeed("x")
        assert feed.now()["can"] == ["pause", "idea"]
        project.call("pause", "x")
        assert feed.now()["can"] == ["resume", "idea"]
        build.kill()
        build.wait()
        killed = feed.now()
        assert (killed["state"]["word"], killed["can"]) == ("killed", ["resume", "idea"])
        assert "✕ killed and paused since" in state_text(killed)
        project.call("resume", "x")
        assert feed.now()["can"] == ["idea"]
        for number in range(2):
            project.write("own.md", idea(f"of a person {number}"))
            assert project.call("idea", "x", "own.md").code == 0
        assert feed.now()["can"] == [], "each slot has one"
        assert "has no free slot left" in project.call("idea", "x", "own.md").err


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
    whole, *changes = server.ask("/api/runs/x?since=0").json()
    assert (whole["event"], {each["event"] for each in changes}) in (("projection", set()), ("projection", {"delta"}))
    now = reduce(apply_delta, (each["data"] for each in changes), whole["data"])
    assert now == server.projection()
    assert server.ask(f"/api/runs/x?since={[whole, *changes][-1]['version']}").json() == []


def test_who_asks_is_told_that_the_records_cannot_be_read_any_more(server: Served, ready: Project) -> None:
    version = server.ask("/api/runs/x").headers["x-coppice-version"]
    with chdir(ready.root), damaged("runs/x/manifest.json") as manifest:
        manifest.write_text("[]")

        def problem() -> str:
            return server.ask("/api/runs/x").headers.get("x-coppice-problem") or ""

        until(lambda: "damaged or do not fit together" in problem(), server.process)
        *_, last = server.ask(f"/api/runs/x?since={version}").json()
        assert (last["event"], "damaged or do not fit together" in last["data"]) == ("problem", True)
    until(lambda: not problem(), server.process)
    assert all(each["event"] != "problem" for each in server.ask(f"/api/runs/x?since={version}").json())


def test_a_log_that_a_table_names_can_be_read(server: Served) -> None:
    table = next(each for each in server.projection()["blocks"] if each["name"] == "failures")
    at = [column["title"] for column in table["columns"]].index("log")
    path = table["rows"][0]["cells"][at]
    assert server.ask(f"/api/runs/x/log?path={path}").status_code == 200


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


def test_a_ledger_that_is_damaged_takes_nothing_away_from_the_others(project: Project) -> None:
    for run in ("a", "b", "c"):
        project.spec(run, f"kind: proof\nbank: b.jsonl\nprofile: 0\nledger: runs/{run}.db\n")
    project.spec("d", "kind: proof\nprofle: 0\n")
    with chdir(project.root):
        for run in ("a", "b"):
            Ledger(f"runs/{run}.db").close()
        project.write("runs/b.db", b"no database" * 1000)
        whole, broken, spec = ledger_stats()["ledgers"]
    assert (whole["ledger"], whole["problem"], whole["goals"]) == ("runs/a.db", "", 0)
    assert broken["ledger"] == "runs/b.db"
    assert broken["problem"].startswith("runs/b.db: damaged (")
    assert spec["problem"].startswith("specs/d.yaml:")


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


def test_of_a_project_at_the_root_no_slash_is_taken_for_its_place() -> None:
    discretion = Discretion({"MY_TOKEN": 'pä"ss\\word', "HOME": "/home/jörg"}, "/")
    value = ["a/b", "/home/jörg/c", 'of pä"ss\\word']
    assert json.loads(discretion.json_text(value)) == ["a/b", "~/c", "of [MY_TOKEN]"]


@pytest.mark.usefixtures("inside")
def test_a_secret_that_is_a_word_of_the_script_leaves_the_script_as_it_is() -> None:
    sent = bytearray()
    desk = FeedDesk("x", sent.extend, Discretion({"MY_KEY": "function", "MY_TOKEN": "querySelector"}, "/nowhere"))
    desk.answer({"id": 1, "ask": "page"})
    [(facts, page)] = frames(bytes(sent))
    script = page.rpartition(b"<script>")[2].partition(b"</script>")[0]
    assert b64encode(sha256(script).digest()).decode() in facts["policy"]


@contextmanager
def damaged(path: str) -> Iterator[Path]:
    """A file that a test may replace by anything; it is as it was afterwards."""
    place, kept = Path(path), Path(f"{path}.kept")
    place.rename(kept)
    try:
        yield place
    finally:
        place.unlink(missing_ok=True)
        kept.rename(place)


def without_artifacts(content: str) -> str:
    record = json.loads(content)
    record["nodes"]["d1.n0"]["artifacts"] = True
    return json.dumps(record)


@pytest.mark.usefixtures("inside")
def test_records_that_do_not_fit_are_a_problem_until_they_do() -> None:
    sent = bytearray()
    desk = FeedDesk("x", sent.extend, Discretion({}, "/nowhere"))
    desk.look(0)
    content = Path("runs/x/manifest.json").read_text()
    with damaged("runs/x/manifest.json") as manifest:
        manifest.write_text(without_artifacts(content))
        desk.look(1000)
        desk.look(2000)
        with pytest.raises(SpecError, match="records are damaged or do not fit together"):
            RunFeed("x").now()
    desk.look(3000)
    told = [facts["is"] for facts, _ in frames(bytes(sent))]
    assert told == ["projection", "problem", "projection"], "said once, and that it is over"


def test_a_mistake_of_ours_is_no_damage_of_records() -> None:
    with pytest.raises(AttributeError), readable("x"):
        Site(1, "token").nothing  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(NameError), readable("x"):
        nothing  # type: ignore[name-defined] # noqa: B018, F821
    with pytest.raises(SpecError, match=r"\(AttributeError: .*, test_following.py:\d+\)") as refused, readable("x"):
        json.loads("[]").items()
    assert isinstance(refused.value.__cause__, AttributeError)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("path", ["runs/x/manifest.json", "runs/x/events.jsonl", "runs/x/.coppice/builds"])
def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(path: str) -> None:
    with damaged(path) as place:
        os.mkfifo(place)
        with pytest.raises(SpecError, match="not a plain file"):
            RunFeed("x").now()
        assert {"x"} == {row["run"] for row in run_list()}


@pytest.mark.usefixtures("inside")
def test_lines_of_the_log_that_are_no_events_are_passed_over_and_told_of() -> None:
    before = RunFeed("x").now()
    content = Path("runs/x/events.jsonl").read_bytes()
    lines = [
        {"at": 1},
        {"event": "build"},
        {"at": 1e300, "event": "build"},
        {"at": "1", "event": "build"},
        {"event": []},
    ]
    with damaged("runs/x/events.jsonl") as events:
        events.write_bytes(content + b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        shown = RunFeed("x").now()
        missing = blocks_of(shown)["missing"]
        assert "runs/x/events.jsonl has 5 lines that are no event" in missing["text"]
        assert {**shown, "blocks": [each for each in shown["blocks"] if each is not missing]} == before


@pytest.mark.usefixtures("inside")
def test_a_damaged_call_takes_no_other_detail_away() -> None:
    with open("runs/x/eval/d0.n0.i0/calls.jsonl", "ab") as file:
        size = file.tell()
        file.write(b"{}\n")
    try:
        blocks = {block["name"]: block for block in RunFeed("x").details("d0.n0.i0")}
        assert "not a recorded call" in blocks["calls"]["text"]
        assert "diff" in blocks
    finally:
        os.truncate("runs/x/eval/d0.n0.i0/calls.jsonl", size)


def test_an_event_is_on_the_screen_within_a_second(server: Served, ready: Project) -> None:
    log = ready.root / "runs/x/events.jsonl"
    content = log.read_bytes()
    try:
        with server.events() as events:
            watcher, late = Watcher(events), []
            watcher.until("done")
            for number in range(5):
                asked = time.time()
                append_event(str(log), {"event": "resumed" if number % 2 else "paused"})
                watcher.step()
                late.append(time.time() - asked)
    finally:
        log.write_bytes(content)
    assert min(late) < 1, "the quickest of some, since tests share the machine"


def test_who_takes_nothing_off_is_cut_off() -> None:
    cut: list[str] = []

    async def nothing_is_taken(_message: object) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        ways = {name: Sending({"state": {"abort": partial(cut.append, name)}}, nothing_is_taken) for name in "abc"}
        sending = [asyncio.create_task(ways[name].body(b"x")) for name in "ab"]
        await asyncio.sleep(0)
        ways["a"].since = loop_time() - SEND_SECONDS - 1
        abort_stuck()
        for each in sending:
            each.cancel()

    asyncio.run(run())
    assert cut == ["a"], "b has had no time yet, c sends nothing"


def test_two_who_end_idle_runs_at_once_do_not_meet(project: Project) -> None:
    small_search(project)

    async def run() -> None:
        dashboard = Dashboard(Site(1, "token"))
        for name in ("", "x"):
            await dashboard._follow(name)
        await asyncio.gather(dashboard._end_idle(-1.0), dashboard._end_idle(-1.0))
        await dashboard.close()

    with chdir(project.root):
        asyncio.run(run())


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
        assert run_list()[0]["last"] is None
        assert RunFeed("x").now()["state"]["word"] == "empty"
        assert not Path("runs/x/manifest.json").exists()
