"""What there is to see of a search for proofs: recorded, going on, checked or not yet; and one of its goals."""

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from kit.browsing import Seen, pictures
from kit.project import Project
from test_proof_plan import LEAST

from pipeline.build import project as projects
from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.outcome import PastBuild
from pipeline.core.projection import Moment, Projection, RunningTarget, Table, as_json
from pipeline.errors import SpecError
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Bank, Goal, Refusal, bank_as_json, bank_from_json
from pipeline.proof import view
from pipeline.proof.records import SearchRecord, load_samples
from pipeline.proof.report import results_page, results_record
from pipeline.proof.search_stage import config_key, schedule_rules
from pipeline.proof.spec.model import Pace, SearchSettings
from pipeline.screens.feed import RunFeed
from pipeline.store import noop
from pipeline.store.ledger import Ledger
from pipeline.store.receipts import Receipts, done_line
from pipeline.store.records import load, save

RECORDED = Path(__file__).with_name("recorded")
BEGUN = 1000.0
STRATEGIES = "strategies: {micro: {timeout: 8}, simple: {worker: micro, families: [finishers], timeout: 20}}"
NOW = Moment()
GOALS = tuple(Goal(name, f"{name} = {name}", key=name * 8, line=at) for at, name in enumerate("abc", 1))
BANK = Bank(GOALS, (Refusal(4, "odd", "it is false"),))


@pytest.fixture
def recorded(project: Project) -> Project:
    """A search of three goals, all proved, that an earlier version made with a real Lean."""
    shutil.copytree(RECORDED, project.root, dirs_exist_ok=True)
    return project


@pytest.fixture
def begun(project: Project) -> Project:
    """A bank that was read, and no search of it yet."""
    project.spec("x", LEAST.replace("profile: 0", STRATEGIES))
    (project.root / "runs/x").mkdir(parents=True)
    save(str(project.root / "runs/x/bank.json"), bank_as_json(BANK))
    save(str(project.root / "runs/x/toolchain.json"), {"version": "lean"})
    return project


def targets(project: Project, run: str) -> dict[str, Target]:
    with chdir(project.root):
        return {each.stage: each for each in projects.load([run])[run].targets}


def seen(project: Project, run: str, moment: Moment = NOW) -> Projection:
    with chdir(project.root):
        return view.project(run, [*targets(project, run).values()], moment)


def details(project: Project, run: str, item: str) -> dict[str, Any]:
    with chdir(project.root):
        return {each.name: as_json(each) for each in view.details(run, [*targets(project, run).values()], item)}


def searching() -> Moment:
    running = (RunningTarget("x:prove", BEGUN + 1, "2 of 3, 1 proved"),)
    return Moment(True, None, BEGUN + 11, running, None, (PastBuild(1, BEGUN),))


def figures(projection: Projection) -> dict[str, Any]:
    return {each.name: each.value for each in projection.figures}


def rows(projection: Projection, name: str) -> list[Any]:
    return [*next(each for each in projection.blocks if isinstance(each, Table) and each.name == name).rows]


def attempt(project: Project, goal: Goal, strategy: str, at: float, *tactics: str) -> None:
    """One as the search of the run makes it, in the ledger; with tactics it is a proof."""
    params = targets(project, "x")["prove"].params
    rules = schedule_rules(SearchSettings(**params["search"]), Pace(**params["limits"]["pace"]))
    budget = next(rules.budget(each, 0) for each in rules.strategies if each.name == strategy)
    key = AttemptKey(goal.key, strategy, config_key(params["codes"], {})(goal, strategy), "lean", budget)
    made = Attempt(key, goal.text, bool(tactics), 2.0, at, tactics, "" if tactics else "no tactic", bool(tactics))
    with chdir(project.root), Ledger(params["limits"]["ledger"]) as ledger:
        ledger.record(made).result()


def test_what_was_proved_is_shown_as_its_results_tell_it(recorded: Project) -> None:
    found = seen(recorded, "p")
    assert found.headline == "3 of 3 goals proved, half of them within 0.03 s."
    assert {name: figures(found)[name] for name in ("proved", "not proved", "rows refused", "attempts")} == {
        "proved": 3, "not proved": 0, "rows refused": 1, "attempts": 5,
    }  # fmt: skip
    assert figures(found)["median time to proof"] == 0.027984
    assert [(row.item, row.status, row.cells[3]) for row in rows(found, "goals")] == [
        ("add_zero", "proved", "1"), ("swap", "proved", "1"), ("hard", "proved", "3"),
    ]  # fmt: skip
    assert [[*row.cells] for row in rows(found, "strategies")] == [
        ["micro", "4", "3", "75 %"], ["simple", "1", "0", "0 %"],
    ]  # fmt: skip
    assert [row.status for row in rows(found, "refused")] == ["refused"]


def test_a_run_that_was_brought_here_with_its_records_is_not_empty(recorded: Project) -> None:
    assert seen(recorded, "p").state.word == "stopped"


def test_attempts_over_the_search_are_those_of_the_journal_with_a_mark_at_each_proof(recorded: Project) -> None:
    found = seen(recorded, "p")
    [bandit] = [each for each in found.blocks if each.name == "bandit"]
    assert "micro 4, 3 of them with a proof; simple 1, 0 of them" in bandit.sentence  # type: ignore[union-attr]
    svg = bandit.svg  # type: ignore[union-attr]
    [picture] = pictures(svg)
    marks = [group.get("data-item") for group in picture.iter("g") if group.get("data-item")]
    assert sorted(marks) == ["add_zero", "hard", "swap"]
    json.dumps(as_json(found), allow_nan=False)


def test_a_goal_has_its_statement_its_script_and_its_attempts(recorded: Project) -> None:
    found = details(recorded, "p", "hard")
    assert (found["statement"]["look"], found["statement"]["text"][:7]) == ("lean", "∀ n : N")
    assert found["proof"]["text"].startswith("intro n\ninduction n\n")
    assert [row["cells"][0] for row in found["attempts"]["rows"]] == ["micro", "simple", "micro"]
    assert "coppice explain p:hard" in found["commands"]["text"]


def test_every_row_that_names_an_item_opens_it_and_no_other_does(recorded: Project) -> None:
    found = seen(recorded, "p", searching()._replace(running=(RunningTarget("p:report", BEGUN),)))
    items = {row.item for block in found.blocks if isinstance(block, Table) for row in block.rows} - {""}
    assert items == {"add_zero", "swap", "hard", "p:report"}
    assert all(details(recorded, "p", item)["facts"] for item in items)
    with pytest.raises(SpecError, match="p has no goal 'hart'; did you mean 'hard'"):
        details(recorded, "p", "hart")


def test_the_page_of_results_says_what_the_view_says(recorded: Project) -> None:
    samples = load_samples(str(recorded.root / "runs/p/proofs.jsonl"))
    bank = bank_from_json(load(str(recorded.root / "runs/p/bank.json")))
    results = results_record(bank, SearchRecord(**load(str(recorded.root / "runs/p/search.json"))), samples, [1])
    words = Seen(results_page("p", results, bank, samples)).words
    for block in ("goals", "strategies", "refused", "search"):
        assert all(cell in words for row in rows(seen(recorded, "p"), block) for cell in row.cells)


def test_a_proof_that_the_last_check_has_not_seen_is_found_and_not_proved(recorded: Project) -> None:
    (recorded.root / "runs/p/checked.json").unlink()
    found = seen(recorded, "p")
    assert found.headline == "3 of 3 goals: a proof is found, not yet checked."
    assert figures(found)["proved"] is None
    assert {(row.status, row.cells[1]) for row in rows(found, "goals")} == {("waiting", "found, not yet checked")}
    assert {row.cells[2] for row in rows(found, "strategies")} == {"-"}
    assert details(recorded, "p", "swap")["proof"]["title"] == "Proof, not yet checked"


def test_a_check_of_other_proofs_is_none(recorded: Project) -> None:
    """As receipts tell it: what was checked is not what was found since."""
    for content, proved in (("one", 3), ("other", None)):
        receipts(recorded, found="one", checked=content)
        assert figures(seen(recorded, "p"))["proved"] == proved


def receipts(project: Project, found: str, checked: str) -> None:
    proofs = "runs/p/proofs.jsonl"
    with chdir(project.root):
        Path(noop.folder("p")).mkdir(parents=True, exist_ok=True)
        book = Receipts("p")
        made = Receipt("", {}, {}, {proofs: found}, 1.0, 2.0, 1, 0, "built")
        looked = Receipt("", {}, {proofs: checked}, {}, 2.0, 3.0, 1, 0, "built")
        book.append([done_line("p:prove", made), done_line("p:check", looked)])
        book.close()


def test_a_proof_that_failed_the_last_check_is_told_with_the_reason(recorded: Project) -> None:
    save(str(recorded.root / "runs/p/checked.json"), {"checked": {"swap": "axioms: sorryAx"}, "imports": []})
    found = seen(recorded, "p")
    assert (figures(found)["proved"], figures(found)["not proved"]) == (2, 1)
    assert rows(found, "goals")[1].cells[-1] == "not verified: axioms: sorryAx"
    assert details(recorded, "p", "swap")["proof"]["text"] == "not verified: axioms: sorryAx"


def test_while_it_is_searched_the_ledger_tells_and_nothing_counts_as_proved(begun: Project) -> None:
    first = seen(begun, "x", searching())
    assert (first.state.word, figures(first)["proved"], figures(first)["attempts"]) == ("live", None, 0)
    attempt(begun, GOALS[0], "micro", BEGUN + 2)
    attempt(begun, GOALS[0], "simple", BEGUN + 3, "rfl")
    attempt(begun, GOALS[1], "micro", BEGUN - 99)
    found = seen(begun, "x", searching())
    assert found.headline == "1 of 3 goals: a proof is found, not yet checked; 3 attempts so far."
    assert (figures(found)["proved"], figures(found)["median time to proof"]) == (None, 4.0)
    assert [(row.status, row.cells[2], row.cells[3], row.cells[4]) for row in rows(found, "goals")] == [
        ("waiting", "4.00", "2", "simple"), ("queued", "2.00", "1", "-"), ("queued", "-", "0", "-"),
    ]  # fmt: skip
    assert figures(found)["the search takes"] == 10.0
    assert [each.note for each in found.figures if each.name == "attempts"] == ["1 of them recalled"]
    assert details(begun, "x", "a")["proof"]["title"] == "Proof, not yet checked"
    assert details(begun, "x", "c")["proof"]["text"] == "not tried yet"


def test_attempts_of_other_searches_at_the_same_goals_are_not_its_own(begun: Project) -> None:
    attempt(begun, GOALS[0], "micro", BEGUN + 2, "rfl")
    begun.spec("x", (begun.root / "specs/x.yaml").read_text().replace("timeout: 8}", "timeout: 9}"))
    assert figures(seen(begun, "x", searching()))["attempts"] == 0


def test_a_proof_that_was_taken_back_is_open_again_while_it_is_searched(begun: Project) -> None:
    attempt(begun, GOALS[0], "micro", BEGUN + 2, "rfl")
    with chdir(begun.root), Ledger(targets(begun, "x")["prove"].params["limits"]["ledger"]) as ledger:
        ledger.refuse(GOALS[0].key, "lean", ("rfl",), "not verified: so").result()
    assert rows(seen(begun, "x", searching()), "goals")[0].status == "queued"


def test_who_looks_at_a_search_that_stopped_does_not_move_it(begun: Project) -> None:
    """SQLite gives its files an owner whenever they are opened, to be read as well; that is no change of the run."""
    attempt(begun, GOALS[0], "micro", BEGUN + 2, "rfl")
    with chdir(begun.root):
        feed = RunFeed("x")
        feed.now()
        feed.poll()  # there may be an empty -wal now
        last = feed.last
        assert feed.poll() == {}
        assert feed.last is last, "nothing was projected"


def test_ledger_and_bank_are_read_once_for_the_details_of_all_goals(begun: Project) -> None:
    attempt(begun, GOALS[0], "micro", BEGUN + 2, "rfl")
    seen(begun, "x", searching())
    seen(begun, "x", searching())
    before = view._bank_attempts.cache_info()
    assert [details(begun, "x", goal.id)["proof"]["title"] for goal in GOALS][1:] == ["No proof"] * 2
    after = view._bank_attempts.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (0, 3)
    attempt(begun, GOALS[1], "micro", BEGUN + 3, "rfl")
    assert details(begun, "x", "b")["proof"]["title"] == "Proof, not yet checked", "it has changed"


def test_a_bank_that_was_not_read_has_no_numbers(project: Project) -> None:
    project.spec("x", LEAST)
    found = seen(project, "x")
    assert (found.state.word, found.headline) == ("empty", "No goal was looked at yet.")
    assert set(figures(found).values()) == {None}
    assert not [block for block in found.blocks if block.name == "goals"]


def test_damage_is_one_line_that_names_the_file(recorded: Project) -> None:
    recorded.write("runs/p/journal.jsonl", '{"n":1,"what":"tell"}\n')
    with pytest.raises(SpecError, match=r"journal.jsonl: damaged"):
        seen(recorded, "p")


def test_all_that_a_projection_is_made_of_is_watched(recorded: Project) -> None:
    with chdir(recorded.root):
        watched = view.watched("p", [*targets(recorded, "p").values()])
    assert {"runs/p/proofs.jsonl", "runs/p/checked.json", "runs/.ledger/ledger.db", "runs/.ledger/ledger.db-wal"} <= {
        *watched
    }
    assert Receipts.path_of("p") in watched
