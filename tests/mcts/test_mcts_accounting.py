"""What is told of searches that are over, and decided once more, from what they left: no Lean is needed for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from kit.mcts_worlds import World, played
from kit.project import Project

from pipeline.build import project as projects
from pipeline.core.graph import Target
from pipeline.mcts.plan import SEARCH
from pipeline.mcts.search.journal import record_from_json
from pipeline.mcts.search.records import SearchRules
from pipeline.mcts.search.trace import TraceTally, trace_line
from pipeline.store.records import save

SPEC = "kind: mcts\nbank: bank.jsonl\nmode: centralized\n"
WORLD = World({"g": {"skip": None, "exact \u2028": ()}})


def recorded(project: Project, run: str) -> None:
    """A search that has ended."""
    project.spec(run, SPEC)
    project.write("bank.jsonl", '{"id": "one.first", "goal": "1 = 1"}\n')
    (target,) = searches(run)
    played_ = played(WORLD, record_from_json(SearchRules, target.params["rules"]["rules"]))
    tally = TraceTally()
    for told in played_.trace:
        tally.add_iteration(told)
    paths = {port: path for port, (path,) in target.writes}
    project.write(paths["journal.jsonl"], text(played_.lines))
    project.write(paths["mcts_trace.jsonl"], text([trace_line(told) for told in played_.trace]))
    save(paths["run_config.json"], {name: target.params[name] for name in ("rules", "guides")})
    status = {"status": "solved", "verified": True, "error": "", "script": ["exact 1"]}
    save(paths["summary.json"], {**status, **tally.as_record(tally.calls)})


def searches(run: str) -> Sequence[Target]:
    return [target for target in projects.load([run])[run].targets if target.stage == SEARCH]


def text(lines: Sequence[str]) -> str:
    return "".join(f"{each}\n" for each in lines)


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.root)
    return project


@pytest.mark.parametrize("run", ["x", "x.2"])
def test_a_search_is_explained_whatever_the_name_of_its_run(place: Project, run: str) -> None:
    recorded(place, run)
    said = place.call("explain", f"{run}:one.first")
    assert said.out.startswith(f"{run}:one.first, centralized, seed 0: proved after "), said


def test_only_a_line_feed_ends_a_line_of_a_journal(place: Project) -> None:
    recorded(place, "x")
    said = place.call("replay", "x")
    assert (said.code, "the same again, and so are the traces" in said.out) == (0, True), said


@pytest.mark.parametrize("key", ["calls: 7", "priors: uniform"])
def test_what_was_decided_by_another_spec_is_told(place: Project, key: str) -> None:
    recorded(place, "x")
    assert json.loads(place.call("replay", "x", "--json").out)["edited"] == 0
    place.spec("x", f"{SPEC}{key}\n")
    assert json.loads(place.call("replay", "x", "--json").out)["edited"] == 1


def test_a_journal_that_is_no_text_any_more_differs(place: Project) -> None:
    recorded(place, "x")
    path = place.root / "runs/x/searches/centralized/0/one.first/journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"skip", b"sk\xffp", 1))
    said = place.call("replay", "x")
    assert (said.code, "journal.jsonl:" in said.out) == (1, True), said


WHERE = "runs/x/searches/centralized/0/one.first"
DAMAGE = {
    "journal.jsonl": ["", "[" * 100_000],
    "run_config.json": ["{}", "[]", '{"rules', ""],
    "one.first_mcts_trace.jsonl": ["", "{}\n"],
}


@pytest.mark.parametrize(("name", "content"), [(name, each) for name, all_ in DAMAGE.items() for each in all_])
def test_what_is_damaged_is_a_difference(place: Project, name: str, content: str) -> None:
    recorded(place, "x")
    place.write(f"{WHERE}/{name}", content)
    said = place.call("replay", "x")
    assert (said.code, said.err, f"{WHERE}/{name}:1" in said.out) == (1, "", True), said


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_missing_is_a_difference(place: Project, name: str) -> None:
    recorded(place, "x")
    (place.root / WHERE / name).unlink()
    said = place.call("replay", "x")
    assert (said.code, said.out.count("\n")) == ((2, 0) if name == "journal.jsonl" else (1, 2)), said


def test_a_line_more_or_less_of_a_trace_is_a_difference(place: Project) -> None:
    recorded(place, "x")
    path = place.root / WHERE / "one.first_mcts_trace.jsonl"
    whole = path.read_text()
    for changed in (f"{whole}\n", whole[: whole.rstrip().rfind("\n") + 1]):
        path.write_text(changed)
        assert place.call("replay", "x").code == 1


def test_a_journal_of_other_rules_than_were_recorded_is_a_difference(place: Project) -> None:
    recorded(place, "x")
    path = place.root / WHERE / "journal.jsonl"
    path.write_text(path.read_text().replace('"iterations":2000', '"iterations":1000000'))
    assert f"{WHERE}/run_config.json:1: recorded" in place.call("replay", "x").out


@pytest.mark.parametrize(
    ("name", "content"),
    [("summary.json", "{}"), ("summary.json", '{"sta'), ("one.first_mcts_trace.jsonl", "{}\n"),
     ("one.first_mcts_trace.jsonl", "[" * 100_000)],
)  # fmt: skip
def test_what_is_damaged_is_told_when_it_is_to_be_explained(place: Project, name: str, content: str) -> None:
    recorded(place, "x")
    place.write(f"{WHERE}/{name}", content)
    said = place.call("explain", "x:one.first")
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert f"{WHERE}/{name}" in said.err
    assert "damaged" in said.err
