"""What screens show of a search: the same numbers as its summary, in each state that a run has, and as it went."""

import gzip
import json
import re
import zlib
from base64 import b85decode
from collections import Counter
from contextlib import chdir
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.made_searches import Shape, made_manifest
from kit.project import ROOT, Project
from kit.searches import Search, agent
from kit.tree_runs import SPEC, config_of, small_search
from test_tree_paired import search as by_blocks

from pipeline.build.project import load
from pipeline.core.projection import RUN_STATES, STATUSES, Json, Moment, RunningTarget, apply_delta, as_json, delta
from pipeline.errors import SpecError
from pipeline.machine.lock import is_locked
from pipeline.screens.feed import page_sources
from pipeline.store.steering import SteeringLog
from pipeline.tree import view
from pipeline.tree.report.figures import best_path, building_seconds
from pipeline.tree.report.happenings import folded_events
from pipeline.tree.report.live import current_manifest, manifest_at
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.obstacles import NO_OBSTACLES, SearchObstacles, obstacles_of
from pipeline.tree.report.projection import projection_of
from pipeline.tree.report.summary import summary_text
from pipeline.tree.run.records import dump_record, lives_of, read_events
from pipeline.views.pages.document import report_document
from pipeline.views.pages.drawing import html_text
from pipeline.views.snapshot import snapshot

EVENTS, MANIFEST = "runs/x/events.jsonl", "runs/x/manifest.json"
BLOCKS = {"text", "table", "picture", "heat", "code"}


class Seen:
    """A search that was built so far, and what is to be seen of it."""

    def __init__(self, project: Project, moment: Moment | None = None) -> None:
        self.project = project
        with chdir(project.root):
            self.targets = load(["x"])["x"].targets
            self.moment = moment or Moment(bool(is_locked("x")), SteeringLog("x").pause(), 2e9)
            self.manifest = current_manifest("x", config_of(project))
            self.obstacles = obstacles_of("x", self.targets)
            self.json = strict(as_json(view.project("x", self.targets, self.moment)))

    def details(self, item: str) -> dict[str, Json]:
        with chdir(self.project.root):
            return {block["name"]: block for block in strict(as_json(view.details("x", self.targets, item)))}


def strict(record: Any) -> Any:
    """As a page would read it: there is no NaN in JSON."""
    return json.loads(json.dumps(record, allow_nan=False))


def block(projection: Json, name: str) -> Json:
    return next(each for each in projection["blocks"] if each["name"] == name)


def figure(projection: Json, name: str) -> Json:
    return next(each for each in projection["figures"] if each["name"].startswith(name))


def tree_rows(projection: Json) -> dict[str, Json]:
    return {row["item"]: row for row in block(projection, "tree")["rows"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seen")


@pytest.fixture(scope="module")
def done(folder: Path) -> Seen:
    """Each sweep keeps the manifest as it was then."""
    project = small_search(Project(folder / "done"), "sandbox: plain\n")
    keep = 'cp ../../manifest.json "../../seen.$(basename "$PWD").json" || true\n'
    project.write("code/sweep.sh", keep + project.read("code/sweep.sh"))
    assert project.call("run", "x").code == 0
    return Seen(project)


@pytest.fixture(scope="module")
def weighed(folder: Path) -> Seen:
    project = Project(folder / "weighed")
    by_blocks(project).build()
    return Seen(project)


@pytest.fixture(scope="module")
def begun(folder: Path) -> Project:
    """One idea of the first depth has ended, and the build with it."""
    project = small_search(Project(folder / "begun"))
    assert project.call("run", "x:d0.n0.i1.score").code == 0
    return project


@pytest.fixture(scope="module")
def every(folder: Path, done: Seen, weighed: Seen, begun: Project) -> dict[str, Seen]:
    """Searches in every state, but for one that is built just now, which is known from outside alone."""
    whole = (begun.root / EVENTS).read_bytes()
    killed = begun.copy(folder / "killed")
    killed.write(EVENTS, b"".join(line for line in whole.splitlines(True) if b'"build_ended"' not in line))
    paused = begun.copy(folder / "paused")
    assert paused.call("pause", "x").code == 0
    failed = small_search(Project(folder / "failed"))
    failed.write("code/sweep.sh", "exit 3\n")
    assert failed.call("run", "x").code == 1
    roles = {name: agent(name) for name in ("ideas", "coder")}
    out = Search(Project(folder / "out"), {}, roles=roles, ideas_per_node=2)
    out.project.write("agent.ideas", "exit 75\n")
    out.build(code=69)
    return {
        "empty": Seen(small_search(Project(folder / "empty"))),
        "stopped": Seen(begun),
        "killed": Seen(killed),
        "paused": Seen(paused),
        "failed": Seen(failed),
        "out": Seen(out.project),
        "done": done,
        "weighed": weighed,
        "live": Seen(begun, Moment(True, None, 2e9)),
    }


@pytest.fixture(scope="module")
def large(done: Seen) -> dict[str, Any]:
    return made_manifest(done.manifest, Shape(11, 10, 20))


class Made(dict[str, Any]):
    """A small one of these, which does not print all of itself where a law is broken."""

    def __repr__(self) -> str:
        return "made"


@pytest.fixture(scope="module")
def made(done: Seen) -> Made:
    return Made(made_manifest(done.manifest, Shape(4, 3, 6)))


# --- States.


def test_each_state_of_a_run_is_told_as_what_it_is(every: dict[str, Seen]) -> None:
    states = {name: seen.json["state"]["word"] for name, seen in every.items()}
    same = ("empty", "stopped", "killed", "paused", "failed", "done", "live")
    assert states == {**{name: name for name in same}, "out": "stopped", "weighed": "done"}
    assert {*states.values()} == {*RUN_STATES}
    whys = {name: seen.json["state"]["why"] for name, seen in every.items()}
    assert "a model cannot be asked" in whys["out"]
    assert whys["done"] == "the search stopped: max_depth_reached"
    assert "1 target of the last build failed" in whys["failed"]
    assert all(seen.json["state"]["since"] for name, seen in every.items() if name not in ("empty", "live"))


def test_a_dead_run_is_not_live_and_nothing_of_it_runs(every: dict[str, Seen], large: dict[str, Any]) -> None:
    for name in ("stopped", "killed", "paused", "out"):
        assert "going on" not in every[name].json["headline"], name
        assert figure(every[name].json, "running")["value"] == 0
    half = manifest_at(large, large["events"][4000]["at"])
    assert any(each["task_state"] == "running" for each in half["evaluations"].values())
    dead, live = (strict(as_json(projection_of(half, Moment(is_building)))) for is_building in (False, True))
    assert (dead["state"]["word"], live["state"]["word"]) == ("killed", "live")
    assert "running" not in [each["name"] for each in dead["blocks"]]
    statuses = [{row["status"] for row in block(each, "tree")["rows"]} for each in (dead, live)]
    assert "running" not in statuses[0]
    assert "running" in statuses[1]
    assert figure(live, "running")["value"] == len(block(live, "running")["rows"]) > 0


def test_of_a_build_that_is_gone_nothing_runs_or_is_next_and_the_way_on_is_said(every: dict[str, Seen]) -> None:
    for name in ("killed", "stopped", "out"):
        shown = every[name].json
        cells = [row["cells"][2] for row in tree_rows(shown).values()]
        assert not {"running", "queued"} & {*cells, *(row["status"] for row in tree_rows(shown).values())}, name
        assert "`coppice x` goes on" in shown["state"]["why"], name
    assert "not begun" in [row["cells"][2] for row in tree_rows(every["killed"].json).values()]
    assert "over 1 evaluation" in block(every["killed"].json, "stair")["sentence"]
    nothing = {**every["killed"].manifest, "evaluations": {}}
    assert "over 0 evaluations" in block(as_json(projection_of(nothing, Moment())), "stair")["sentence"]


def test_a_target_of_the_start_that_failed_is_seen_with_its_reason_its_log_and_the_way_on(folder: Path) -> None:
    project = small_search(Project(folder / "start"))
    keys = project.read("specs/x.yaml").replace('"! grep -q 9 a b c d"', '[sh, -c, "echo no such thing >&2; exit 4"]')
    project.spec("x", keys)
    assert project.call("run", "x").code == 1
    seen = Seen(project)
    (row,) = block(seen.json, "failures")["rows"]
    place, _, stage, why, _, log = row["cells"]
    assert (place, row["item"], stage, log) == (
        "d0.n0.test",
        "d0.n0.test",
        "test",
        "runs/x/.coppice/logs/d0.n0.test.log",
    )
    for said in (why, seen.json["state"]["why"], project.read("runs/x/TREE_SUMMARY.md").replace("\n  ", " ")):
        assert "the tests of the root failed: exit status 4" in said
        assert "coppice forget x:root" in said
    assert "no such thing" in seen.details("d0.n0.test")["log"]["text"]
    of_place = seen.details("d0.n0")
    assert block({"blocks": [*of_place.values()]}, "failures")["rows"] == [row]
    assert "no such thing" in of_place["log-d0.n0.test"]["text"]
    project.spec("x", keys.replace("exit 4", "exit 0"))
    assert project.call("run", "x").code == 0
    assert "d0.n0.test" not in str([each for each in Seen(project).json["blocks"] if each["name"] == "failures"])


def test_where_events_are_missing_that_is_said_and_a_search_that_has_stopped_is_not_killed(
    done: Seen, every: dict[str, Seen], folder: Path
) -> None:
    whole = (done.project.root / EVENTS).read_bytes()
    cases = {"": "has no event", "\0\xff\n": "has no event", None: "is not there", "torn": "ends within a line"}
    cases["odd"] = "has 1 line that is no event"
    for number, (content, said) in enumerate(cases.items()):
        project = done.project.copy(folder / f"events-{number}")
        log = project.root / EVENTS
        log.unlink()
        if content is not None:
            log.write_bytes({"torn": whole[:-5], "odd": b"{}\n" + whole}.get(content, content.encode()))
        seen = Seen(project)
        assert said in block(seen.json, "missing")["text"]
        assert seen.json["state"]["word"] == "done"
        page = summary_text(seen.manifest, seen.moment, seen.obstacles).partition("## What happened")[2]
        assert f"Events are missing: {EVENTS} {said}" in " ".join(page.split())
    names = [each["name"] for seen in every.values() for each in seen.json["blocks"]]
    assert "missing" not in names, "where nothing was built there are none to miss"


def test_events_are_told_in_the_order_of_time(done: Seen) -> None:
    first, *others = done.manifest["events"]
    late = {"at": first["at"] - 3, "event": "answered", "slot": "d0.n0.i0"}
    shown = as_json(projection_of({**done.manifest, "events": [first, late, *others]}, Moment()))
    lines = block(shown, "events")["text"].splitlines()
    assert lines == sorted(lines, key=lambda line: line[:19])
    assert "a person answered" in lines[0]


def test_time_in_which_no_build_ran_does_not_count_though_a_person_asked_for_something_in_it() -> None:
    def event(name: str, at: float) -> dict[str, Any]:
        return {"event": name, "at": 1e9 + at}

    killed = [event("build", 0.0), event("working", 3.0)]
    asked = [event(name, 33.0) for name in ("paused", "resumed", "idea_given", "answered", "retried", "lock_takeover")]
    again = [event("build", 40.0), event("build_ended", 85.8)]
    assert building_seconds([*killed, *asked, *again], None) == 48.8
    assert building_seconds([*killed, *asked], None) == 3.0


def test_what_is_paid_is_told_once_and_the_budget_says_what_it_does_not_count(done: Seen) -> None:
    manifest = deepcopy(done.manifest)
    bill = {**manifest["money"], "calls": 4, "unknown_calls": 4, "unended_calls": 1}
    bill["over_time"] = [{"eval_id": "d0.n0.i0", "usd": 0.0, "unknown_calls": 4}]
    manifest |= {"money": bill, "state": {**manifest["state"], "stop_reason": None}}
    manifest["state"]["spent"] = {**manifest["state"]["spent"], "unknown_calls": 3}
    shown = as_json(projection_of(manifest, Moment(True)))
    assert figure(shown, "spent")["text"] == "0 USD + 4 calls of unknown price"
    assert block(shown, "money")["sentence"] == "Paid: 0 USD + 4 calls of unknown price for 4 calls."
    assert "Not counted here: 0 USD + 1 call of unknown price" in block(shown, "budget")["sentence"]
    assert "spending" not in [each["name"] for each in shown["blocks"]], "a line at zero says nothing"


def test_where_nobody_may_ask_the_lock_that_is_said_and_nothing_is_called_killed(every: dict[str, Seen]) -> None:
    for name, word in (("killed", "stopped"), ("stopped", "stopped"), ("done", "done")):
        state = projection_of(every[name].manifest, Moment(unasked="runs/x/.coppice/lock")).state
        assert state.word == word
        assert word == "done" or "is not known: runs/x/.coppice/lock may not be read" in state.why


def test_that_a_run_is_paused_is_told_by_its_requests_and_beside_what_else_stands_of_it(
    every: dict[str, Seen],
) -> None:
    pause, manifest = {"event": "paused", "at": 1e9}, every["killed"].manifest
    since, way = "2001-09-09 01:46:40 UTC", "`coppice resume x`, then `coppice x` goes on where it was"
    killed = projection_of(manifest, Moment(False, pause, 2e9))
    assert killed.state.word == "killed"
    assert f"paused since {since}: {way}" in killed.state.why
    assert killed.state.since == manifest["events"][-1]["at"]
    assert projection_of(manifest, Moment(False, pause, 2e9, heard=1.9e9)).state.since == 1.9e9
    for headline in (killed.headline, summary_text(manifest, Moment(False, pause, 2e9)).replace("**", "")):
        assert f"the last one was killed; paused since {since}" in " ".join(headline.split())
    heeded = {**manifest, "events": [*manifest["events"], {**pause, "at": manifest["events"][-1]["at"]}]}
    for each, headed in ((manifest, pause), (heeded, pause), (heeded, None)):
        shown = projection_of(each, Moment(True, headed, 2e9))
        assert shown.state.word == ("paused" if headed else "live")
        assert shown.headline.startswith("Paused since" if headed else "Still going on")
    failed = projection_of(every["failed"].manifest, Moment(False, pause, 2e9))
    assert (failed.state.word, way in failed.state.why) == ("failed", True)
    out = projection_of(every["out"].manifest, Moment(False, pause, 2e9))
    assert (out.state.word, "a model cannot be asked" in out.state.why) == ("paused", True)


def test_a_node_on_which_nothing_was_tried_is_not_open_and_says_why_and_the_best_one_is_marked(done: Seen) -> None:
    manifest = deepcopy(done.manifest)
    slots = [each for each in manifest["evaluations"].values() if each["parent_node_id"] == "d1.n0"]
    assert slots
    for each in slots:
        each |= {"empty": "no idea", "empty_why": "the role gave none", "decision": None}
    rows = tree_rows(as_json(projection_of(manifest, Moment())))
    assert manifest["nodes"]["d1.n0"]["status"] == "expanded"
    assert rows["d1.n0"]["status"] == "done"
    assert "nothing was tried on it" in rows["d1.n0"]["cells"][2]
    why = f"{len(slots)} no idea (the role gave none)"
    assert why in rows["d1.n0"]["cells"][7]
    shown = as_json(projection_of(manifest, Moment()))
    assert why in [part for row in block(shown, "depths")["rows"] for part in row["cells"][-1].split("; ")]
    assert why in summary_text(manifest)
    assert [item for item, row in rows.items() if row["cells"][2].startswith("best")] == [best_path(manifest)[-1]]


def test_refused_is_counted_beside_what_it_is_counted_as(done: Seen) -> None:
    manifest = deepcopy(done.manifest)
    shown = as_json(projection_of(manifest, Moment()))
    refused = [row for row in tree_rows(shown).values() if row["status"] == "refused"]
    told = re.findall(r"\((\d+) of them refused\)", figure(shown, "evaluations")["note"])
    assert sum(map(int, told)) == len(refused)


def test_repeats_of_what_goes_on_are_one_line() -> None:
    def event(name: str, at: float, **more: Any) -> dict[str, Any]:
        return {"event": name, "at": at, "eval_id": "d0.n0.i0", **more}

    works = [event("working", 1e9 + at, stage="sweep") for at in range(100)]
    lines = [each.line for each in folded_events([event("queued", 1e9), *works, event("completed", 2e9)])]
    assert len(lines) == 3
    assert lines[1].endswith("working: sweep (100 times, last at 2001-09-09 01:48:19 UTC)")


def when_one_ran(done: Seen) -> tuple[dict[str, Any], str]:
    """The manifest as it was when the first evaluation had been started, and which one that is."""
    started = next(event for event in done.manifest["events"] if event["event"] == "started")
    half = manifest_at(done.manifest, started["at"])
    assert half["evaluations"][started["eval_id"]]["task_state"] == "running"
    return half, started["eval_id"]


def test_what_a_build_says_that_it_works_on_is_shown_as_it_says(done: Seen) -> None:
    half, _ = when_one_ran(done)
    at_work = [RunningTarget("x:d0.n0.i0.sweep", 1e9, "row 3 of 9"), RunningTarget("x:root", 1e9)]
    shown = as_json(projection_of(half, Moment(True, None, 2e9, at_work, 90.0)))
    rows = block(shown, "running")["rows"]
    assert [row["cells"] for row in rows] == [
        ["d0.n0.i0.sweep", "Raise a.", "1000000000.000", "row 3 of 9"],
        ["root", "-", "1000000000.000", "-"],
    ]
    assert [row["item"] for row in rows] == ["d0.n0.i0", ""]
    assert figure(shown, "time")["until"] == 2e9 + 90


def test_once_all_that_ran_before_a_pause_has_ended_nothing_runs(done: Seen) -> None:
    half, running = when_one_ran(done)
    pause = {"event": "paused", "at": half["events"][-1]["at"]}
    shown = as_json(projection_of(half, Moment(True, pause, 2e9, (), None, is_told=True)))
    assert figure(shown, "running")["text"] == "0"
    assert "running" not in [each["name"] for each in shown["blocks"]]
    row = tree_rows(shown)[running]
    assert (row["status"], row["cells"][2]) == ("queued", "begun, not ended")
    still = Moment(True, pause, 2e9, [RunningTarget(f"x:{running}.sweep", 1e9)], None, is_told=True)
    assert tree_rows(as_json(projection_of(half, still)))[running]["status"] == "running"


def test_an_outage_waits_and_is_no_failure(done: Seen) -> None:
    half, running = when_one_ran(done)
    last = half["events"][-1]["at"]
    wait = {
        "at": last + 1,
        "event": "waiting",
        "eval_id": running,
        "kind": "rate limit",
        "seconds": 30.0,
        "why": "slow",
    }
    shown = as_json(projection_of({**half, "events": [*half["events"], wait]}, Moment(True, None, last + 2)))
    assert shown["state"]["word"] == "live"
    assert shown["state"]["why"].startswith("Waits since ")
    assert tree_rows(shown)[running]["status"] == "waiting"
    (row,) = block(shown, "outages")["rows"]
    assert (row["cells"][1:3], row["status"]) == (["a model (rate limit)", "1"], "waiting")
    assert "failures" not in [each["name"] for each in shown["blocks"]]


# --- The same numbers everywhere.


def cells_of_summary(text: str) -> dict[str, list[str]]:
    """The cells of each row of its tables by their first cell, the last row of that name."""
    lines = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| "))
    return {cells[0].strip(): [cell.strip().replace("\\", "") for cell in cells] for cells in lines}


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def check_alike(
    manifest: dict[str, Any], shown: Json, moment: Moment, obstacles: SearchObstacles = NO_OBSTACLES
) -> None:
    """Every number that both have is the same in the summary and in the projection."""
    text = summary_text(manifest, moment, obstacles)
    plain = " ".join(text.replace("**", "").replace("\n> ", " ").split())
    if shown["state"]["word"] != "empty":
        assert " ".join(shown["headline"].split()) in plain
    assert shown["meaning"].split(" Cages")[0] in plain
    assert f"Evaluations: {figure(shown, 'evaluations')['note']}." in plain
    assert f"{figure(shown, 'depth')['text']} depths done" in plain
    best = figure(shown, "best")
    assert best["text"] == "-" or f" {best['text']} " in plain or f" {best['text']}." in plain
    assert best["note"].rpartition(", ")[2] in plain
    depth_tables = "".join(re.findall(r"(?ms)^## Evaluations at depth.*?(?=^## |\Z)", text))
    ideas, nodes = cells_of_summary(depth_tables), cells_of_summary(section(text, "Best path"))
    rows = tree_rows(shown) if manifest["nodes"] else {}
    assert {name for name in ideas if name != "slot" and not name.startswith("-")} == rows.keys() - manifest[
        "nodes"
    ].keys()
    for name, row in rows.items():
        _, _, outcome, change, _, _, chance, _, took, cost = row["cells"]
        if name in manifest["nodes"]:
            assert name not in nodes or nodes[name][2] == change
        else:
            _, _, summary_outcome, _, *numbers = ideas[name]
            assert (summary_outcome, numbers) == (outcome, [change, chance, took, cost])
    budget = cells_of_summary(section(text, "Budget"))
    for row in block(shown, "budget")["rows"]:
        assert budget[row["cells"][0]] == row["cells"]
    paid = figure(shown, "spent")["text"]
    assert "Paid: " not in plain if nobody_was_asked(manifest) else f"Paid: {paid}" in plain
    remarks = block(shown, "budget")["sentence"].partition("seconds.")[2].strip()
    assert remarks in " ".join(section(text, "Budget").split()).replace("**", "")
    money = [each for each in shown["blocks"] if each["name"] == "money"]
    roles = cells_of_summary(section(text, "Money"))
    assert [roles[row["cells"][0]] for each in money for row in each["rows"]] == [
        row["cells"] for each in money for row in each["rows"]
    ]
    failures = {row["cells"][0] for each in shown["blocks"] if each["name"] == "failures" for row in each["rows"]}
    targets = {each.name for each in obstacles.failed}
    assert failures == {name for name, each in manifest["evaluations"].items() if each["error"]} | targets
    assert all(f"- {name}: " in text for name in failures)


def test_summary_and_projection_have_the_same_numbers_in_every_state(every: dict[str, Seen]) -> None:
    for seen in every.values():
        check_alike(seen.manifest, seen.json, seen.moment, seen.obstacles)


def test_they_have_the_same_numbers_of_two_thousand_evaluations(large: dict[str, Any]) -> None:
    shown = strict(as_json(projection_of(large, Moment())))
    check_alike(large, shown, Moment())
    rows = block(shown, "tree")["rows"]
    assert len(rows) == len(large["evaluations"]) + len(large["nodes"]) > 2000
    assert all(row["depth"] <= 11 and row["status"] in STATUSES for row in rows)
    counts = Counter(row["status"] for row in rows if row["item"] in large["evaluations"])
    verdicts = Counter(
        each["scoring_summary"]["recommendation"]["evidence"]["verdict"]
        for each in large["evaluations"].values()
        if each["scoring_summary"]
    )
    assert counts["rejected"] == verdicts["rejected"]
    assert counts["indecisive"] == verdicts["indecisive"] + verdicts["undecidable"]
    assert counts["promoted"] + counts["passed"] == verdicts["promoted"]
    assert figure(shown, "kept")["text"].startswith(f"{counts['promoted']} of ")
    ended = sum(counts[status] for status in ("failed", "refused", "rejected", "indecisive", "promoted", "passed"))
    assert ended == figure(shown, "evaluations")["value"]


def words(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_terminal_and_page_have_them_too(every: dict[str, Seen], large: dict[str, Any]) -> None:
    shown = {name: seen.json for name, seen in every.items()}
    for projection in (*shown.values(), strict(as_json(projection_of(large, Moment())))):
        lines, page = snapshot(projection, 400), report_document(page_sources(), projection, []).html
        text = words(lines)
        assert words([projection["headline"]]) in text
        for each in projection["figures"]:
            assert f"{each['name']} {each['text']}" in text or f"{each['name']}: {each['text']}" in text
            assert f"<dt>{each['name']}</dt><dd>{html_text(each['text'])}</dd>" in page
        for each in projection["blocks"]:
            for row in each.get("rows", ())[:40]:
                numbers = [cell for cell in row["cells"] if re.search(r"\d", cell) and len(cell) < 20]
                assert any(all(words([cell]) in words([line]) for cell in numbers) for line in lines), row
        assert page_data(page)["projection"] == projection


def page_data(page: str) -> Json:
    """What the script of a page draws; of a large run it is packed."""
    data: Json = json.loads(re.findall(r'(?s)<script type="application/json" id="data">(.*?)</script>', page)[0])
    first = json.loads(zlib.decompress(b85decode(data["packed"][0].translate(str.maketrans(",:.", "<>&"))), -15))
    return first | {name: value for name, value in data.items() if value is not None}


def test_children_stand_below_their_parents(large: dict[str, Any]) -> None:
    above: dict[int, str] = {}
    for row in block(as_json(projection_of(large, Moment())), "tree")["rows"]:
        entry = large["nodes"].get(row["item"]) or large["evaluations"][row["item"]]
        if row["depth"]:
            assert above[row["depth"] - 1] == entry["parent_node_id"]
        if row["item"] in large["nodes"]:
            above[row["depth"]] = row["item"]


@given(st.data())
def test_no_number_breaks_a_projection(made: Made, data: st.DataObject) -> None:
    """NaN, infinities, what is missing, what is all the same."""
    manifest = {**made, "evaluations": dict(made["evaluations"]), "nodes": dict(made["nodes"])}
    odd = st.sampled_from([float("nan"), float("inf"), -float("inf"), -1e300, 0.0, 1e-300, None])
    for name in data.draw(st.lists(st.sampled_from([*made["nodes"]]), max_size=3)):
        mean = data.draw(odd)
        manifest["nodes"][name] = {**made["nodes"][name], "metrics": {} if mean is None else {"gain": mean}}
    for name in data.draw(st.lists(st.sampled_from([*made["evaluations"]]), max_size=3)):
        each, number = deepcopy(made["evaluations"][name]), data.draw(odd)
        each["primary"] = None if number is None else {"before": number, "after": -number}
        manifest["evaluations"][name] = each
    shown = strict(as_json(projection_of(manifest, Moment())))
    svgs = [each["svg"] for each in shown["blocks"] if each["is"] == "picture"]
    assert not [
        svg for svg in svgs if "nan" in re.sub(r"<title>.*?</title>", "", svg) or "inf" in svg.partition(">")[2][:0]
    ]


def nobody_was_asked(manifest: Any) -> bool:
    return not (manifest["money"]["calls"] or manifest["money"]["usd"])


def test_what_is_missing_is_shown_as_missing(every: dict[str, Seen]) -> None:
    assert every["empty"].json["headline"] == "Nothing was built yet."
    assert [figure(every["empty"].json, name)["text"] for name in ("best", "kept", "time")] == ["-", "-", "-"]
    assert figure(every["empty"].json, "best")["value"] is None
    row = tree_rows(every["stopped"].json)["d0.n0.i0"]
    assert row["cells"][3:] == ["-"] * 7
    spent = figure(every["stopped"].json, "spent")
    assert (spent["text"], spent["value"], spent["note"]) == ("-", None, "no limit"), "nobody was asked"


def test_texts_of_models_are_one_visible_line(done: Seen) -> None:
    manifest = deepcopy(done.manifest)
    manifest["evaluations"]["d0.n0.i0"]["idea_title"] = "a\x1b[31m\u202eb\n<script>" + "x" * 500
    cells = tree_rows(as_json(projection_of(manifest, Moment())))["d0.n0.i0"]["cells"]
    assert cells[1].startswith("a [31m b <script>xx")
    assert len(cells[1]) <= 80
    assert all(cell.isprintable() for cell in cells)


def test_a_metric_of_which_less_is_better_keeps_its_direction(done: Seen) -> None:
    manifest = deepcopy(done.manifest)
    for metric in manifest["run_config"]["metrics"]:
        metric["better"] = "lower"
    shown = as_json(projection_of(manifest, Moment()))
    assert figure(shown, "best")["better"] == "lower"
    assert "lower is better" in block(shown, "stair")["sentence"]
    plus_is_better = {name: row["cells"] for name, row in tree_rows(shown).items() if name in manifest["evaluations"]}
    measured = [cells for cells in plus_is_better.values() if " -> " in cells[3]]
    assert measured
    for cells in measured:
        before, after = map(float, cells[3].split(" -> "))
        assert float(cells[4]) == pytest.approx(before - after, abs=0.01)
    best = cells_of_summary(section(summary_text(manifest), "Best path"))
    for name, cells in best.items():
        if name in manifest["nodes"] and cells[5] != "-":
            assert cells[5] == tree_rows(shown)[name]["cells"][4]  # in all


# --- The manifest that it is made of.


def test_a_manifest_that_is_behind_its_events_is_folded_on_to_the_same(done: Seen) -> None:
    project, config = done.project, config_of(done.project)
    newest = project.read(MANIFEST)
    with chdir(project.root):
        whole = dump_record(fold_manifest("x", config, lives_of(read_events(EVENTS))))
        older = sorted((project.root / "runs/x").glob("seen.*.json"))
        assert len(older) >= 4
        for path in older:
            assert len(json.loads(path.read_text())["events"]) < len(done.manifest["events"])
            project.write(MANIFEST, path.read_text())
            assert dump_record(current_manifest("x", config)) == whole
        for damaged in ("{", '{"version": 2}'):
            project.write(MANIFEST, damaged)
            assert dump_record(current_manifest("x", config)) == whole
        project.write(MANIFEST, newest)
        assert dump_record(current_manifest("x", config)) == whole


def test_what_a_manifest_has_not_heard_of_yet_is_read_from_the_records(begun: Project, folder: Path) -> None:
    project, config = begun.copy(folder / "behind"), config_of(begun)
    with chdir(project.root):
        whole = current_manifest("x", config)
        assert {each["status"] for each in whole["evaluations"].values()} == {"completed", "pending"}
        for event in whole["events"][:-1]:
            then = manifest_at(whole, event["at"])
            known = {name: then["evaluations"].get(name, each) for name, each in whole["evaluations"].items()}
            known["d0.n0.i0"] = whole["evaluations"]["d0.n0.i0"]  # of which no event tells
            project.write(MANIFEST, dump_record({**then, "evaluations": known}))
            assert dump_record(current_manifest("x", config)) == dump_record(whole)


def test_a_manifest_of_another_spec_is_not_believed(done: Seen, folder: Path) -> None:
    project = done.project.copy(folder / "edited")
    project.spec("x", SPEC.replace("max_depth: 2", "max_depth: 1") + "sandbox: plain\n")
    assert figure(Seen(project).json, "depth")["text"] == "1 of 1"


def test_what_it_is_made_of_is_watched(begun: Project, folder: Path) -> None:
    project = begun.copy(folder / "watched")

    def marks() -> list[tuple[int, int]]:
        with chdir(project.root):
            paths = [Path(path) for path in view.watched("x", load(["x"])["x"].targets)]
            return [(path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0) for path in paths]

    before = marks()
    assert project.call("pause", "x").code == 0
    paused = marks()
    assert project.call("resume", "x").code == 0
    assert project.call("run", "x").code == 0
    assert len({*map(tuple, (before, paused, marks()))}) == 3


# --- Details.


def test_details_of_an_evaluation_are_its_records(weighed: Seen) -> None:
    found = weighed.details("d0.n0.i0")
    assert {each["is"] for each in found.values()} <= BLOCKS
    assert found["idea"]["text"].startswith("IDEA: better\n")
    assert found["diff"]["text"] == weighed.project.read("runs/x/eval/d0.n0.i0/change.patch")
    explained = json.loads(weighed.project.call("explain", "--json", "x:d0.n0.i0").out)
    assert [row["cells"][0] for row in found["gate"]["rows"]] == [each["check"] for each in explained["checks"]]
    assert [row["cells"][4] for row in found["gate"]["rows"]] == [each["what"] or "-" for each in explained["checks"]]
    assert ["became", "d1.n0", "better"] in [row["cells"] for row in found["relatives"]["rows"]]
    assert "coppice explain x:d0.n0.i0" in found["commands"]["text"]
    facts = {row["cells"][0]: row["cells"][1] for row in found["facts"]["rows"]}
    cells = tree_rows(weighed.json)["d0.n0.i0"]["cells"]
    assert (facts["outcome"], facts["p"], facts["gain between"]) == (cells[2], cells[6], cells[5])


def rows_by_key(text: str) -> dict[tuple[str, str], float]:
    lines = (line.split(",") for line in text.splitlines()[1:])
    return {(cells[0], cells[1]): float(cells[3]) for cells in lines if cells[2] == "ok"}


def test_the_heat_map_is_candidate_minus_parent_and_what_was_not_measured_is_none(weighed: Seen, folder: Path) -> None:
    project = weighed.project.copy(folder / "gaps")
    path = "runs/x/artifacts/d0.n0.i0.csv"
    lines = project.read(path).splitlines(True)
    project.write(path, "".join(line.replace(",ok,", ",error,") if line.startswith("1,3,") else line for line in lines))
    own, parent = (rows_by_key(project.read(f"runs/x/artifacts/{name}.csv")) for name in ("d0.n0.i0", "d0.n0"))
    heat = Seen(project).details("d0.n0.i0")["configs"]
    assert (len(heat["rows"]), len(heat["columns"]), heat["centre"], heat["better"]) == (3, 20, 0.0, "higher")
    for config, row in enumerate(heat["rows"]):
        for column, value in zip(heat["columns"], row["values"], strict=True):
            key = (str(config), column)
            assert value == (pytest.approx(own[key] - parent[key], rel=1e-3, abs=1e-9) if key in own else None)
    assert heat["rows"][1]["values"][3] is None
    assert heat["sentence"].endswith("The results were changed since they were scored.")


def test_details_of_what_has_not_ended_go_as_far_as_it_has_come(begun: Project) -> None:
    found = Seen(begun).details("d0.n0.i0")
    assert "has not been scored yet" in found["gate"]["sentence"]
    assert [row["cells"][:2] for row in found["gate"]["rows"]][:1] == [["assigned", "passed"]]
    assert not {"configs", "diff"} & found.keys()


def test_details_of_what_failed_have_the_end_of_its_log(done: Seen) -> None:
    found = done.details("d1.n0.i1")
    statuses = {row["cells"][0]: row["status"] for row in found["gate"]["rows"]}
    assert statuses["tests"] == "rejected"
    assert statuses["sweep"] == "skipped"
    assert "coppice retry x d1.n0.i1" in found["commands"]["text"]


def test_details_of_a_node_are_its_chain_and_all_that_was_changed(done: Seen) -> None:
    found = done.details("d2.n0")
    assert [row["cells"][0] for row in found["chain"]["rows"]] == ["d0.n0", "d1.n0", "d2.n0"]
    assert found["diff"]["text"].count("diff --git") == 2
    assert found["facts"]["rows"][2]["cells"] == ["worktree", "runs/x/wt/d2.n0"]
    tried = [row["item"] for row in done.details("d1.n0")["tried"]["rows"]]
    assert tried == ["d1.n0.i0", "d1.n0.i1"]
    assert "diff" not in done.details("d0.n0")


def test_long_files_are_cut_and_folders_of_the_machine_left_out(done: Seen, folder: Path) -> None:
    project = done.project.copy(folder / "long")
    text = f"\x1b[31mred\x1b[0m {project.root}/runs/x/cand\n" + "line\n" * 5000
    for name in ("change.patch", "sweep.log"):
        project.write(f"runs/x/eval/d0.n0.i0/{name}", text)
    project.write("runs/x/eval/d0.n0.i0/test.log", text[:200])
    found = Seen(project).details("d0.n0.i0")
    assert found["diff"]["left_out"] == len(text) - len(found["diff"]["text"].encode()) > 0
    assert found["log-sweep"]["left_out"] == len(text) - 4000
    assert found["log-sweep"]["path"] == "runs/x/eval/d0.n0.i0/sweep.log"
    assert found["log-test"]["text"].startswith("red runs/x/cand\nline\n")
    assert "\x1b" not in found["diff"]["text"]


@pytest.mark.parametrize("item", ["", "x", "d9.n0", "d0.n0.i9", "../../etc/passwd", "d0.n0.i0/../.."])
def test_details_of_nothing_are_refused(done: Seen, item: str) -> None:
    with pytest.raises(SpecError, match="is no node or evaluation"):
        done.details(item)


# --- As it went, and as it was recorded.


RECORDING = ROOT / "examples/momentum/show.json.gz"


def form(blocks: list[Json], metric: str) -> dict[str, Any]:
    """The fields of blocks by their names, and of tables the columns; a metric may be named `gain`, as a column is."""
    forms: dict[str, Any] = {}
    for each in blocks:
        titles = [column["title"] for column in each["columns"]] if each["is"] == "table" else []
        columns = [title.replace(metric, "gain") for title in titles]
        rows = {key for row in each.get("rows", ()) for key in row}
        forms[each["name"]] = (each["is"], {*each}, columns, rows)
    return forms


def test_the_recording_of_the_demo_has_the_form_of_today_and_nothing_of_a_machine(weighed: Seen) -> None:
    """Otherwise it is to be made anew: examples/momentum/README.md says how."""
    assert RECORDING.stat().st_size <= 100_000
    text = gzip.decompress(RECORDING.read_bytes()).decode()
    show = json.loads(text)
    assert not re.search(r"/(tmp|home|root|Users|work|var)/", text)
    last = show["start"]
    for _, change in show["changes"]:
        last = apply_delta(last, change)
    assert last.keys() == weighed.json.keys()
    names = [[each["name"].replace(metric, "metric") for each in shown["figures"]] for shown, metric in
             ((last, "sharpe"), (weighed.json, "gain"))]  # fmt: skip
    assert names[0] == names[1]
    blocks, today = form(last["blocks"], "sharpe"), form(weighed.json["blocks"], "gain")
    assert {name: blocks[name] for name in ("tree", "stair", "budget", "events")} == {
        name: today[name] for name in ("tree", "stair", "budget", "events")
    }
    assert show["details"].keys() == tree_rows(last).keys()
    for item, like in (("d0.n0.i0", "d0.n0.i0"), ("d1.n0", "d0.n0")):
        recorded, now = form(show["details"][item], "sharpe"), form([*weighed.details(like).values()], "gain")
        shared = recorded.keys() & now.keys()
        assert len(shared) >= 5
        assert {name: recorded[name] for name in shared} == {name: now[name] for name in shared}


def moments(seen: Seen) -> list[Json]:
    with chdir(seen.project.root):
        return [strict(as_json(each)) for each in view.moments("x", seen.targets)]


@pytest.mark.parametrize("name", ["done", "weighed", "killed", "out", "empty"])
def test_a_show_ends_with_the_run_as_it_stands(every: dict[str, Seen], name: str) -> None:
    shown = moments(every[name])
    assert all(before["at"] < after["at"] for before, after in pairwise(shown))
    assert shown[-1:] == ([every[name].json] if name != "empty" else [])
    built = shown[0] if shown else {}
    for before, after in pairwise(shown):
        built = apply_delta(built, delta(before, after))
        assert built == after


def test_a_show_tells_nothing_before_it_happened(weighed: Seen) -> None:
    words = [each["state"]["word"] for each in moments(weighed)]
    assert words == [*["live"] * (len(words) - 1), "done"]
    for each in moments(weighed)[:-1]:
        rows = tree_rows(each) if "tree" in [block["name"] for block in each["blocks"]] else {}
        for name, entry in weighed.manifest["evaluations"].items():
            if name in rows and entry["finished_at"] > each["at"]:
                assert rows[name]["status"] in ("queued", "running"), name
                assert rows[name]["cells"][2:] == [rows[name]["cells"][2], *["-"] * 7]
            elif name in rows and entry["scored_at"] > each["at"]:
                assert rows[name]["status"] == "measured"
        assert ("d1.n0" in rows) == (figure(each, "depth")["value"] == 1)
        assert not figure(each, "kept")["value"] or "d1.n0" in rows


@given(part=st.floats(0, 1))
def test_at_any_time_its_counts_and_its_money_are_those_of_what_had_ended(made: Made, part: float) -> None:
    events = made["events"]
    at = events[round(part * (len(events) - 1))]["at"]
    then = manifest_at(made, at)
    so_far = Counter(event["event"] for event in events if event["at"] <= at)
    shown = as_json(projection_of(then, view.moment_at(then, at)))
    assert figure(shown, "evaluations")["value"] == so_far["completed"] + so_far["failed"]
    assert len(then["nodes"]) == so_far["promotion"] + (so_far["queued"] > 0)
    ended = [each for each in then["evaluations"].values() if each["finished_at"]]
    assert then["state"]["spent"]["usd"] == pytest.approx(0.25 * len(ended))
    over = {name for name, each in then["evaluations"].items() if each["finished_at"] or each["empty"]}
    sums = [0.0, *(each["usd"] for each in made["money"]["over_time"])]
    paid = zip(made["money"]["over_time"], pairwise(sums), strict=True)
    assert then["money"]["usd"] == pytest.approx(sum(b - a for each, (a, b) in paid if each["eval_id"] in over))
    usd = figure(shown, "spent")["value"]
    assert usd == (None if nobody_was_asked(then) else then["money"]["usd"]), "the bill"
    summary_text(then)
