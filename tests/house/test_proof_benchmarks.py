"""The benchmarks of bandits play what was recorded as a search would, and learn nothing from what they measure."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.proof import figures, splits
from benchmarks.proof.bernoulli import SETTINGS, by_turns, regret, regrets
from benchmarks.proof.recorded import Item, Tried, best_order, ended, load, oracle, played, restricted
from benchmarks.proof.scheduler import costs, goals
from pipeline.goals.bank import Goal
from pipeline.proof.schedule.bandits import BANDITS, GoalShape
from pipeline.proof.schedule.effort import statement_shape
from pipeline.proof.schedule.policy import ProofSchedule
from pipeline.proof.schedule.records import FAILED, PROVED, ScheduleRules, Strategy, TrialOutcome

ARMS = ("a", "b", "c")
TEXTS = ("∀ n : Nat, n + 0 = n", "∀ p q : Prop, p ∧ q → q ∧ p", "∃ x : Int, x * x = 4")

one = st.builds(Tried, st.booleans(), st.sampled_from([0.5, 1.0, 4.0]))
tried = st.tuples(one, one, one).map(lambda each: dict(zip(ARMS, each, strict=True)))
items = st.lists(tried, min_size=5, max_size=12).map(
    lambda rows: [Item(f"g{n}", statement_shape(TEXTS[n % 3]), row) for n, row in enumerate(rows)]
)


@pytest.mark.parametrize("name", [*BANDITS])
@given(some=items)
def test_a_bandit_plays_as_in_a_search(name: str, some: list[Item]) -> None:
    schedule = ProofSchedule(
        ScheduleRules(tuple(Strategy(arm, 8.0) for arm in ARMS), name, speculate=1, levels=1, heavy=1)
    )
    for n, item in enumerate(some):
        schedule.add(Goal(item.id, TEXTS[n % 3], difficulty=0.1))
    by_id, searched = {item.id: item for item in some}, dict.fromkeys((item.id for item in some), 0.0)
    while trial := schedule.ask(1):
        success, seconds = by_id[trial.goal].tried[trial.strategy]
        searched[trial.goal] += seconds
        schedule.tell(TrialOutcome(trial.number, PROVED if success else FAILED, seconds))
    bandit = BANDITS[name]()
    assert searched == {item.id: played(item, bandit).seconds for item in some}
    assert vars(bandit) == vars(schedule.bandit)


@given(some=items)
def test_nobody_is_faster_than_who_knows_and_no_order_than_the_best(some: list[Item]) -> None:
    best = best_order(some)
    provable = [item for item in some if item.provable]
    assert all(ended(item, oracle(item)).seconds <= ended(item, ARMS).seconds for item in provable)
    totals = [sum(ended(item, order).seconds for item in provable) for order in (best, ARMS, ARMS[::-1])]
    assert totals[0] == min(totals)


@given(some=items)
def test_each_goal_is_once_among_those_that_nothing_is_learnt_from(some: list[Item]) -> None:
    for of in splits.folds(some, 2):
        assert sorted(item.id for _, unseen, _ in of for item in unseen) == sorted(item.id for item in some)
        assert all({item.id for item in learnt}.isdisjoint(item.id for item in unseen) for learnt, unseen, _ in of)


def test_a_recording_has_numbers_and_its_bank_the_statements(tmp_path: Path) -> None:
    rows = {"known": [[1, 0.5], [0, 2.5]], "refused": [], "gone": [[1, 0.5], [1, 0.5]]}
    (tmp_path / "r.json").write_text(json.dumps({"arms": ["a", "b"], "goals": rows}))
    (tmp_path / "bank.jsonl").write_text(json.dumps({"id": "known", "goal": TEXTS[0]}) + "\n")
    [item] = load(tmp_path / "r.json", tmp_path / "bank.jsonl")
    assert item == ("known", statement_shape(TEXTS[0]), {"a": (True, 0.5), "b": (False, 2.5)})
    assert restricted([item], ["b"])[0].tried == {"b": (False, 2.5)}


def test_regret_of_the_best_arm_alone_is_none_and_by_turns_it_grows_evenly() -> None:
    far = SETTINGS["far"]
    assert by_turns(far, 3) == pytest.approx([0.3, 0.3, 0.9])
    lost = regret("ucb1", far, 0, 50)
    assert lost == sorted(lost)
    assert lost == regret("ucb1", far, 0, 50)


def test_what_is_lost_is_counted_where_a_proof_can_be_had_and_is_nothing_with_a_single_arm() -> None:
    some = [Item(f"g{n}", GoalShape("x"), {"a": Tried(n % 2 == 0, 0.5)}) for n in range(120)]
    curves = splits.lost(some, 2)
    assert {*curves} == {*BANDITS}
    assert all(points[-1] == (60, 0.0, 0.0) for points in curves.values())


def test_pictures_are_whole_and_tables_have_a_row_for_each() -> None:
    found = regrets(2, 100)
    assert figures.regret_table(found, "lost").count("\n") == len(SETTINGS) + 1
    some = [Item(f"g{n}", GoalShape("x"), {"a": Tried(n % 2 == 0, 0.5), "b": Tried(True, 1.0)}) for n in range(10)]
    compared = splits.compared(some, 2)
    assert "who knows" in figures.kinds_table(compared)
    assert "| `a` | 5 | 0.50 | 0.50 |" in figures.arms_table(some)
    for picture in (figures.regret_svg(found), figures.kinds_svg({"recorded": compared})):
        assert "nan" not in picture
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_the_cost_of_decisions_is_measured_for_each_bandit() -> None:
    assert len({goal.text for goal in goals(50)}) == 50
    found = costs(50, (1, 3))
    assert {(name, arms) for name, of in found.items() for arms in of} == {
        (name, n) for name in BANDITS for n in (1, 3)
    }
    assert all(0 <= one.decision <= one.most for of in found.values() for one in of.values())
