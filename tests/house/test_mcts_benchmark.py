"""What the benchmark of searches makes of what each came to."""

from benchmarks.mcts.bank import guide, mixed, pairs, promises, table, yields
from benchmarks.mcts.searchers import How, Row, named, rules
from pipeline.goals.bank import Goal
from pipeline.mcts.search.agents import UNOBSERVED
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.records import SearchRules

SEARCHERS = ["micro", "centralized", "vl 1"]
ROWS = [
    Row("a", "micro", True, "solved", 5, all=2.0),
    Row("a", "centralized", True, "solved", 30, all=2.0, tree=0.02),
    Row("a", "vl 1", False, "solved", 30, all=2.0, tree=0.4, error="kernel: no"),
    Row("b", "micro", False, "dead", 7, all=2.0),
    Row("b", "centralized", True, "solved", 10, all=2.0, python=1.0),
    Row("b", "vl 1", True, "solved", 10, all=2.0),
]


def test_a_search_counts_for_each_budget_that_it_kept_to() -> None:
    lines = [each.strip("| ").split(" | ") for each in table(ROWS, SEARCHERS, [10, 40]).splitlines()]
    assert lines[2] == ["micro", "1", "1", "5", "1", "0", "0", "4", "0.00", "0.00"]
    assert lines[3] == ["centralized", "1", "2", "20.0", "0", "0", "0", "4", "0.50", "25.00"]
    assert lines[4] == ["vl 1", "1", "1", "10", "0", "0", "1", "4", "10.00", "0.00"]


def test_a_search_that_was_given_up_is_told_from_one_that_spent_its_calls() -> None:
    rows = [Row("a", "micro", calls=40), Row("b", "micro", calls=9, error="Interrupted")]
    head, _, line = [each.strip("| ").split(" | ") for each in table(rows, ["micro"], [40]).splitlines()]
    assert dict(zip(head, line, strict=True))["cut"] == "1"


def test_what_only_one_of_two_proves_is_named() -> None:
    assert "- centralized and not micro: 1 b" in [*pairs(ROWS, SEARCHERS)]
    assert "- micro and not centralized: 0" in [*pairs(ROWS, SEARCHERS)]


def test_countings_are_judged_by_proofs_to_a_call_and_by_goals_that_both_prove() -> None:
    rows = [
        *(Row("a", "vl 4", True, calls=20), Row("a", "wu 4", True, calls=10)),
        *(Row("b", "vl 4", True, calls=60), Row("b", "wu 4", False, calls=190)),
    ]
    assert [*yields(rows, ["vl 4", "wu 4"], [40, 200])] == [
        "- wu 4 and vl 4: 10 and 20 calls for what both prove (1)",
        "- wu 4 and vl 4: 20.0 and 16.7 proofs in 1,000 calls, ≤ 40 a goal",
        "- wu 4 and vl 4: 5.0 and 25.0 proofs in 1,000 calls, ≤ 200 a goal",
    ]


def test_goals_are_mixed_alike_whatever_order_they_come_in() -> None:
    goals = [Goal(f"{source}_{number}", "True") for source in ("easy", "hard") for number in range(8)]
    half = [goal.id[:4] for goal in mixed(goals)[:8]]
    assert mixed(goals) == mixed(goals[::-1])
    assert 2 <= half.count("easy") <= 6


def test_a_tree_that_takes_too_long_and_an_agent_that_proves_less_are_missed_promises() -> None:
    reached = {each.what: each.reached for each in promises(ROWS, SEARCHERS)}
    assert reached == {
        "tree's maths in 5 % of CPU, centralized": True,
        "tree's maths in 5 % of CPU, vl 1": False,
        "solved by one agent, of what is solved by one controller": False,
    }


def test_searchers_are_named_by_how_reservations_count_and_how_many_agents_there_are() -> None:
    assert named([1, 4]) == ["micro", "centralized", "vl 1", "vl 4", "wu 4"]
    how = How(100, 4, 8, 60.0, guide("moves"))
    one, team = rules("centralized", how), rules("wu 4", how)
    assert isinstance(one, SearchRules)
    assert isinstance(team, TeamRules)
    assert [team.rules, team.steering.agents, team.steering.counting] == [one, 4, UNOBSERVED]
    assert one.budget.calls == 100
