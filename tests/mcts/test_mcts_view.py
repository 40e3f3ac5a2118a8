"""What there is to see of searches by scenario: going on, compared, compared earlier; one search, one goal."""

import json
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from kit.browsing import Seen
from kit.mcts_comparisons import LEAN, search
from kit.mcts_papers import Given
from kit.mcts_worlds import World, played
from kit.project import Project

from pipeline.build import project as projects
from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target, path_of_port
from pipeline.core.outcome import PastBuild
from pipeline.core.projection import Moment, Projection, RunningTarget, Table, as_json
from pipeline.errors import SpecError
from pipeline.mcts import view
from pipeline.mcts.plan import COMPARE_FILES, journal_path
from pipeline.mcts.search.journal import record_from_json
from pipeline.mcts.search.records import SearchRules
from pipeline.mcts.search.trace import trace_line
from pipeline.mcts.stages import write_comparison
from pipeline.store import noop
from pipeline.store.receipts import Receipts, done_line
from pipeline.store.records import save

SPEC = """\
kind: mcts
bank: bank.jsonl
seeds: [1, 2]
scenarios:
  alone: {mode: centralized}
  team: {mode: distributed, agents: 3, inflight: 2}
"""
NAMES = ("easy", "hard", "odd")
BANK = "".join(json.dumps({"id": name, "goal": f"{name} = {name}"}) + "\n" for name in NAMES)
WRONG = "it is false, by `decide`"
NOW = Moment()
FIRST = "x:search.alone.1.easy"
WORLD = World({"g": {"skip": None, "exact 1": ()}})


@pytest.fixture
def planned(project: Project) -> Project:
    project.spec("x", SPEC)
    project.write("bank.jsonl", BANK)
    return project


@pytest.fixture
def searched(planned: Project) -> Project:
    """All searches have ended: `easy` is solved by all but one, `hard` by none, `odd` is no goal."""
    with chdir(planned.root):
        by_name = targets(planned)
        record_goals(by_name)
        for name, target in by_name.items():
            if target.stage == "search":
                record_search(target, *name.split(".")[1:])
    return planned


def targets(project: Project) -> dict[str, Target]:
    with chdir(project.root):
        return {each.name: each for each in projects.load(["x"])["x"].targets}


def place(path: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return path


def record_goals(by_name: Mapping[str, Target]) -> None:
    save(place("runs/x/rows.json"), {"refused": [], "lines": {name: at for at, name in enumerate(NAMES, 1)}})
    save("runs/x/toolchain.json", LEAN)
    for name in NAMES:
        goal = {"refused": WRONG} if name == "odd" else {"text": f"{name} = {name}", "context": [], "key": name}
        save(place(path_of_port(by_name[f"x:goal.{name}"], "goal.json")), goal)


def record_search(target: Target, scenario: str, seed: str, goal: str) -> None:
    made = search(goal, scenario, int(seed), 7 if goal == "easy" and (scenario, seed) != ("team", "2") else None)
    if goal == "odd":
        made |= {"status": "refused", "verified": False, "error": WRONG, "to_proof": None, "script": []}
    summary = {name: value for name, value in made.items() if name not in ("scenario", "seed", "goal")}
    save(place(path_of_port(target, "summary.json")), summary)
    Path(path_of_port(target, "proof.lean")).write_text(f"theorem {goal} := by rfl\n")


def compare(project: Project) -> None:
    """The comparison, as its stage makes it."""
    with chdir(project.root):
        target = targets(project)["x:compare"]
        reads = {port: [*paths] for port, paths in target.reads}
        write_comparison(Given(target, reads, {port: [f"runs/x/{port}"] for port in COMPARE_FILES}))


def seen(project: Project, moment: Moment = NOW) -> Projection:
    by_name = targets(project)
    with chdir(project.root):
        return view.project("x", [*by_name.values()], moment)


def details(project: Project, item: str) -> dict[str, Any]:
    by_name = targets(project)
    with chdir(project.root):
        return {each.name: as_json(each) for each in view.details("x", [*by_name.values()], item)}


def figures(projection: Projection) -> dict[str, Any]:
    return {each.name: each.value for each in projection.figures}


def table(projection: Projection, name: str) -> Table | None:
    return next((each for each in projection.blocks if isinstance(each, Table) and each.name == name), None)


def rows(projection: Projection, name: str) -> list[Any]:
    found = table(projection, name)
    assert found
    return [*found.rows]


def test_what_was_never_built_shows_its_searches_and_no_number_that_nobody_measured(planned: Project) -> None:
    found = seen(planned)
    assert (found.state.word, found.headline) == ("empty", "0 of 12 searches ended, 0 with a proof.")
    assert figures(found) == {"searches": 0}
    assert {row.status for row in rows(found, "searches")} == {"queued"}
    assert not table(found, "solved-by")


def test_while_it_goes_on_searches_are_counted_and_scenarios_not_compared(searched: Project) -> None:
    running = (RunningTarget(FIRST, 90.0, "50 calls, 9 goals"),)
    found = seen(searched, Moment(True, None, 100.0, running, None, (PastBuild(1, 80.0),)))
    assert (found.state.word, found.headline) == ("live", "11 of 12 searches ended, 2 with a proof.")
    assert (figures(found)["solved"], figures(found)["goals proved"]) == (2, 1)
    assert [[*row.cells] for row in rows(found, "progress")] == [
        ["alone", "5 of 6", "1 running, 2 open, 2 refused, 1 solved"],
        ["team", "6 of 6", "1 solved, 3 open, 2 refused"],
    ]
    assert rows(found, "searches")[0].status == "running"
    assert not table(found, "solved-by")


def test_what_is_over_is_compared_as_its_page_says(searched: Project) -> None:
    compare(searched)
    found = seen(searched)
    assert found.headline == "2 goals, 2 seeds: alone 1.0 solved, team 0.5."
    assert (figures(found)["searches"], figures(found)["solved"], figures(found)["goals proved"]) == (12, 3, 1)
    assert (figures(found)["most solved"], figures(found)["rows refused"]) == (0.5, 1)
    assert not table(found, "progress")
    words = Seen(searched.read("runs/x/comparison.html")).words
    assert found.headline.rstrip(".") in words
    for name in ("solved-by", "paired-by", "within-by", "effort", "outcomes", "goals", "scenarios", "refused"):
        assert all(cell in words for row in rows(found, name) for cell in row.cells)
    drawn = {block.svg for block in found.blocks if hasattr(block, "svg")}
    assert len(drawn) == 3
    assert all(svg in searched.read("runs/x/comparison.html") for svg in drawn)
    json.dumps(as_json(found), allow_nan=False)


def test_scenarios_that_solve_as_much_share_the_first_place(searched: Project) -> None:
    with chdir(searched.root):
        record_search(targets(searched)["x:search.team.2.easy"], "team", "1", "easy")
    compare(searched)
    assert [each.note for each in seen(searched).figures if each.name == "most solved"] == ["alone, team"]


def test_a_comparison_of_other_searches_is_told_to_be_an_earlier_one(searched: Project) -> None:
    compare(searched)
    for content, current in (("one", True), ("other", False)):
        receipts(searched, content)
        found = seen(searched)
        assert (table(found, "progress") is None) == current
        assert any(each.name == "earlier" for each in found.blocks) != current
        assert ("most solved" in figures(found)) == current


def receipts(project: Project, content: str) -> None:
    by_name = targets(project)
    path = path_of_port(by_name[FIRST], "summary.json")
    with chdir(project.root):
        Path(noop.folder("x")).mkdir(parents=True, exist_ok=True)
        book = Receipts("x")
        made = Receipt("", {}, {}, {path: "one"}, 1.0, 2.0, 1, 0, "built")
        read = Receipt("", {}, {path: content}, {}, 2.0, 3.0, 1, 0, "built")
        book.append([done_line(FIRST, made), done_line("x:compare", read)])
        book.close()


def test_a_proof_that_did_not_hold_is_none(searched: Project) -> None:
    path = searched.root / "runs/x/searches/alone/1/easy/summary.json"
    save(str(path), {**json.loads(path.read_text()), "verified": False, "error": "axioms: sorryAx"})
    found = seen(searched)
    assert figures(found)["solved"] == 2
    first = rows(found, "searches")[0]
    assert (first.status, first.cells[3], first.cells[5], first.cells[-1]) == (
        "refused", "unverified", "-", "axioms: sorryAx",
    )  # fmt: skip
    assert "proof" not in details(searched, FIRST)


def test_of_equal_statements_the_second_does_not_count(searched: Project) -> None:
    goal = {"text": "easy = easy", "context": [], "key": "easy"}
    save(str(searched.root / "runs/x/goals/hard.json"), goal)
    found = seen(searched)
    assert {row.cells[3] for row in rows(found, "searches") if row.cells[1] == "hard"} == {"refused"}
    assert figures(found)["rows refused"] == 2


def test_a_search_has_its_settings_its_proof_and_the_end_of_its_trace(searched: Project) -> None:
    target = targets(searched)[FIRST]
    played_ = played(WORLD, record_from_json(SearchRules, target.params["rules"]["rules"]))
    trace = "".join(f"{trace_line(each)}\n" for each in played_.trace)
    searched.write(path_of_port(target, "mcts_trace.jsonl"), trace)
    found = details(searched, FIRST)
    facts = dict(row["cells"] for row in found["search"]["rows"])
    assert (facts["settings"], facts["stands"], facts["up to the proof"]) == (
        "mode: centralized", "solved", "7 iterations, 7 calls",
    )  # fmt: skip
    assert (found["proof"]["look"], found["proof"]["text"]) == ("lean", "theorem easy := by rfl\n")
    assert len(found["trace"]["rows"]) == len(played_.trace)
    assert found["trace"]["rows"][0]["cells"][-1] == "- skip; + exact 1"


def test_a_search_that_is_not_over_has_the_end_of_its_journal(planned: Project) -> None:
    target = targets(planned)[FIRST]
    planned.write(journal_path(target), '{"what":"begin"}\n')
    found = details(planned, FIRST)
    assert found["journal"]["text"] == '{"what":"begin"}\n'
    assert "trace" not in found


def test_a_goal_is_told_over_scenarios_and_seeds_with_its_shortest_proof(searched: Project) -> None:
    found = details(searched, "goal.easy")
    assert found["statement"]["text"] == "easy = easy"
    assert [row["cells"][0] + row["cells"][2] for row in found["searches"]["rows"]] == [
        "alone1", "alone2", "team1", "team2",
    ]  # fmt: skip
    assert found["searches"]["sentence"] == "3 of 4 searches have a proof."
    assert "theorem easy" in found["proof"]["text"]
    assert details(searched, "goal.odd")["statement"]["text"] == WRONG


def test_every_row_that_names_an_item_opens_it_and_no_other_does(searched: Project) -> None:
    compare(searched)
    running = (RunningTarget("x:compare", 90.0),)
    found = seen(searched, Moment(True, None, 100.0, running))
    items = {row.item for block in found.blocks if isinstance(block, Table) for row in block.rows} - {""}
    assert len(items) == 12 + 2 + 1
    assert all(details(searched, item)["facts"] for item in items)
    with pytest.raises(SpecError, match=r"x has no search or goal 'goal\.lost'"):
        details(searched, "goal.lost")


def test_damage_is_one_line_that_names_the_file(searched: Project) -> None:
    searched.write("runs/x/searches/alone/1/easy/summary.json", "{}")
    with pytest.raises(SpecError, match=r"alone/1/easy/summary.json: damaged"):
        seen(searched)


def test_all_that_a_projection_is_made_of_is_watched(planned: Project) -> None:
    watched = view.watched("x", [*targets(planned).values()])
    assert {Receipts.path_of("x"), "runs/x/comparison.json"} <= {*watched}
