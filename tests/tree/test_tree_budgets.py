"""Money is reserved before it is spent; what was paid for is finished, ranked and promoted; then the search says why it
stops."""

import json
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, agent
from kit.tree_runs import validation_of

IDEAS = {f"{n}": f"gain=1{n}" for n in range(1, 7)}
COSTLY = 'echo "gain=1$(basename "$PWD" | tail -c 2)" > "plus/$(basename "$PWD")"\n'
COSTLY += """printf '{"usd": 0.5, "tokens": {"in": 70, "out": 30}}\\n'\n"""
USAGE = {"usd": "usd", "input_tokens": "tokens.in", "output_tokens": "tokens.out"}


def costly(project: Project, **keys: Any) -> Search:
    """Each implementation costs 0.5 USD and 100 tokens."""
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder", usage=USAGE)}
    search = Search(project, IDEAS, **{"roles": roles, "ideas_per_node": 3, "max_depth": 2, **keys})
    project.write("agent.coder", COSTLY)
    return search


def spent(search: Search, depth: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = search.record(f"depths/{depth}/promoted.json")["spent"]
    return found


def evaluated(search: Search) -> list[str]:
    return sorted({line.split()[1] for line in search.executed() if line.startswith("sweep")} - {"d0.n0"})


def test_a_depth_is_cut_in_slot_order_and_what_was_evaluated_is_promoted(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=3, max_depth=3, beam_width=2, max_total_idea_evals=5)
    search.build()
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1", "d0.n0.i2", "d1.n0.i0", "d1.n0.i1"]
    assert search.why("d1.n0.i1") == "d2.n0"
    assert "not enough of the budget is left: evals (limit 5)" in search.why("d1.n0.i2")
    assert "budget" in search.why("d1.n1.i0")
    assert (search.stop(0), search.stop(1)) == (None, "max_total_idea_evals_reached")
    search.spec(max_total_idea_evals=7)
    search.build()
    assert evaluated(search) == ["d1.n0.i2", "d1.n1.i0"], "more budget: what is done stays done"


def test_a_budget_that_is_used_up_exactly_ends_after_the_depth(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=3, max_depth=3, max_total_idea_evals=3)
    search.build()
    assert (search.stop(0), search.stop(1), search.stop(2)) == ("max_total_idea_evals_reached",) * 3
    assert search.why("d0.n0.i2") == "d1.n0"
    assert len(evaluated(search)) == 3


def test_empty_slots_cost_nothing(project: Project) -> None:
    search = Search(project, dict.fromkeys(IDEAS, "gain=11"), ideas_per_node=3, max_total_idea_evals=2)
    search.idea("1", "gain=12", "same")
    search.idea("2", "gain=13", "same")
    search.build()
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i2"]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"usd": 1.5, "per_eval": {"usd": 0.5}}, "budget_usd_reached"),
        ({"tokens": 300, "per_eval": {"tokens": 100}}, "budget_tokens_reached"),
        ({"usd": 1.4}, "budget_usd_reached"),  # nobody knows what one costs: it starts while anything is left
        ({"time": 0.01, "per_eval": {"time": 0.003}}, "budget_seconds_reached"),
    ],
    ids=["usd", "tokens", "no ceiling", "time"],
)
def test_each_budget_ends_the_search_after_a_depth_that_is_promoted(
    project: Project, budget: dict[str, Any], reason: str
) -> None:
    search = costly(project, budget=budget)
    search.build()
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1", "d0.n0.i2"]
    assert search.why("d0.n0.i2") == "d1.n0"
    assert (search.stop(0), search.stop(1)) == (reason, reason)
    used = spent(search, 0)["d0.n0.i1"]
    assert used[:3] == [1, 0.5, 100]
    assert 0 < used[3] < 20


def test_what_one_may_cost_at_most_must_be_left_before_it_starts(project: Project) -> None:
    search = costly(project, budget={"usd": 1.7, "per_eval": {"usd": 0.8}})
    search.build()
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1"]
    assert search.why("d0.n0.i1") == "d1.n0"
    assert search.stop(0) == "budget_usd_reached"


def test_a_failed_evaluation_has_cost_what_it_cost(project: Project) -> None:
    search = costly(project, budget={"usd": 2.0, "per_eval": {"usd": 0.5}}, ideas_per_node=2)
    project.write("agent.coder", f"{COSTLY}exit 3\n")
    search.build()
    assert spent(search, 0)["d0.n0.i0"][:3] == [1, 0.5, 100]
    assert search.stop(0) == "empty_frontier"


def test_ideas_are_paid_from_the_same_purse(project: Project) -> None:
    search = costly(project, budget={"usd": 2.9, "per_eval": {"usd": 0.5}})
    project.write("agent.ideas", """printf '{"usd": 0.2, "text": "idea %s"}' "$(wc -l < "$project/list")"\n""")
    usage = {"usd": "usd", "text": "text"}
    search.spec(roles={"ideas": agent("ideas", usage=usage), "coder": search.keys["roles"]["coder"]})
    search.build()
    assert spent(search, 0)["d0.n0.i0.idea"][:3] == [0, 0.2, 0]
    assert search.stop(0) is None, "0.8 is left"
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1", "d0.n0.i2"], "and 0.2 when three ideas more are paid"
    assert search.stop(1) == "max_depth_reached"


def test_a_budget_for_nothing_pays_for_nothing(project: Project) -> None:
    search = costly(project, budget={"usd": 0})
    project.write("agent.ideas", "echo 'an idea'\n")
    search.spec(roles={"ideas": agent("ideas", price="free"), "coder": search.keys["roles"]["coder"]})
    search.build()
    assert search.executed() == ["sweep d0.n0"]
    assert search.stop(0) == "budget_usd_reached"
    assert "the search stopped: budget_usd_reached" in search.why("d0.n0.i0")


CHEAP = {f"{n}": f"gain=1{n}" for n in range(1, 6)}


def cheap(project: Project, usd: float, **keys: Any) -> Search:
    """Five ideas of 0.40 USD at most, of which each costs `usd`."""
    search = costly(project, budget={"usd": 1.0, "per_eval": {"usd": 0.4}}, ideas_per_node=5, max_depth=1, **keys)
    project.write("agent.coder", COSTLY.replace("0.5", str(usd)))
    return search


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_what_an_evaluation_did_not_spend_is_there_for_the_next(project: Project, at_once: int) -> None:
    search = cheap(project, 0.001, max_parallel_evals=at_once)
    search.build("-n", str(at_once))
    assert evaluated(search) == [f"d0.n0.i{n}" for n in range(5)], "not two, as many as fit at their ceilings"
    assert search.stop(0) == "max_depth_reached"
    assert sum(each[1] for each in spent(search, 0).values()) == pytest.approx(0.005)
    assert search.record("manifest.json")["state"]["left"]["usd"] == 0.995
    assert {each["task_state"] for each in search.record("manifest.json")["evaluations"].values()} == {"completed"}


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_slot_is_refused_when_all_before_it_have_ended_and_it_does_not_fit(project: Project, at_once: int) -> None:
    search = cheap(project, 0.25, max_parallel_evals=at_once)
    search.build("-n", str(at_once))
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1", "d0.n0.i2"], "0.25 is left, and one may cost 0.4"
    assert "not enough of the budget is left: usd (limit 1)" in search.why("d0.n0.i3")
    manifest = search.record("manifest.json")
    assert manifest["evaluations"]["d0.n0.i3"]["empty"] == "budget"
    assert manifest["evaluations"]["d0.n0.i3"]["task_state"] == "skipped"
    assert manifest["state"]["spent"]["usd"] == 0.75
    asked = [line for line in project.read("runs/x/events.jsonl").splitlines() if '"queued"' in line]
    assert len(asked) == 3
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found\n")
    assert "not enough of the budget is left" in project.call("explain", "x:d0.n0.i3").out


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_slot_refused_as_similar_costs_nothing_and_leaves_its_money_to_the_next(
    project: Project, at_once: int
) -> None:
    search = cheap(project, 0.25, max_parallel_evals=at_once, dedupe={"similar": 0.8})
    for name in IDEAS:
        search.idea(name, f"gain=1{name}", f"{name} is what this idea number {name} changes by {name}")
    search.idea("2", "gain=12", "1 is what this idea number 1 changes by 1, too")
    search.build("-n", str(at_once))
    assert [line for line in search.executed() if line.startswith("coder")] == [f"coder d0.n0.i{n}" for n in (0, 2, 3)]
    assert "similar to d0.n0.i0" in search.why("d0.n0.i1")
    assert project.read("runs/x/eval/d0.n0.i1/calls.jsonl") == ""
    manifest = search.record("manifest.json")
    assert manifest["evaluations"]["d0.n0.i1"]["empty"] == "duplicate"
    assert manifest["state"]["spent"]["usd"] == manifest["money"]["usd"] == 0.75
    assert "not enough of the budget is left: usd (limit 1)" in search.why("d0.n0.i4")
    tried = search.record("depths/0/promoted.json")["tried"]
    assert [each[0] for each in tried] == ["d0.n0.i0", "d0.n0.i2", "d0.n0.i3"]
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found\n")


def test_a_replicate_by_turns_is_asked_once_for_each_slot_and_pays_for_itself(project: Project) -> None:
    search = cheap(project, 0.25)
    search.build()
    search.executed()
    search.spec("y", replicate=2)
    search.build("y")
    assert [line for line in search.executed() if line.startswith("coder")] == [f"coder d0.n0.i{n}" for n in range(3)]
    money = search.record("manifest.json", "y")["money"]
    assert (money["calls"], money["usd"], money["recalled_usd"]) == (3, 0.75, 0.0)


def test_nothing_is_paid_twice_by_turns_nor_by_an_edit_of_the_budget(project: Project) -> None:
    search = cheap(project, 0.25)
    for usd, asked in [(1.0, [0, 1, 2]), (9.0, [3, 4]), (1.0, [])]:
        search.spec(budget={"usd": usd, "per_eval": {"usd": 0.4}})
        search.build()
        coders = [line for line in search.executed() if line.startswith("coder")]
        assert coders == [f"coder d0.n0.i{n}" for n in asked]
        assert validation_of(project).problems == (), "what an edit left of the turns is no file of a stranger"
        decisions = 15 if usd == 1.0 else 7
        replayed = project.call("replay", "x")
        assert replayed.code == 0
        assert replayed.out.startswith(f"x: {decisions} decisions: {decisions} the same again")


# -- the other reasons to stop


def test_a_search_that_is_through_says_so(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=1, max_depth=2)
    search.build()
    assert (search.stop(0), search.stop(1)) == (None, "max_depth_reached")


def test_a_frontier_without_a_node_ends_the_search_unless_it_must_not(project: Project) -> None:
    search = Search(project, dict.fromkeys(IDEAS, "gain=9"), ideas_per_node=2, max_depth=3)
    search.build()
    assert search.stop(0) == "empty_frontier"
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1"]
    assert not (search.root / "runs/x/wt/d1.n0").exists()
    summary = project.read("runs/x/TREE_SUMMARY.md")
    assert "1 of 3 depths done. Evaluations: 2 completed, 0 failed, 0 skipped, 0 unfinished.\n" in summary
    assert "no such node" not in summary
    rows = summary.partition("## Progress")[2].partition("## Budget")[0].splitlines()
    assert [row.split()[1] for row in rows if row.startswith("|")] == ["depth", "----:", "0"]
    assert json.loads(project.call("advance", "x").out)["evaluations"]["skipped"] == 0
    search.spec(stop_on_empty_frontier=False)
    search.build()
    assert (search.stop(0), search.stop(1), search.stop(2)) == (None, None, "max_depth_reached")
    assert search.executed() == []


def test_one_failure_ends_a_strict_search_and_the_depth_is_promoted_all_the_same(project: Project) -> None:
    ideas = {"1fails": "exit 1", "2wins": "gain=12", "3more": "gain=13"}
    search = Search(project, ideas, ideas_per_node=2, max_depth=2, strict_fail=True)
    search.build()
    assert search.why("d0.n0.i1") == "d1.n0"
    assert (search.stop(0), search.stop(1)) == ("strict_depth_failure", "strict_depth_failure")
    assert evaluated(search) == ["d0.n0.i0", "d0.n0.i1"]
    search.spec(strict_fail=False)
    search.build()
    assert evaluated(search) == ["d1.n0.i0"]


def test_a_search_that_has_stopped_is_not_asked_for_ideas(project: Project) -> None:
    search = costly(project, ideas_per_node=1, max_total_idea_evals=1, max_depth=3)
    project.write("agent.ideas", "echo 'an idea'\n")
    search.spec(roles={"ideas": agent("ideas"), "coder": search.keys["roles"]["coder"]})
    search.build()
    assert [line for line in search.executed() if line.startswith("ideas")] == ["ideas d0.n0.i0.idea"]


def test_the_summary_names_what_cost_more_than_one_may(project: Project) -> None:
    search = costly(project, budget={"usd": 2.0, "per_eval": {"usd": 0.8}}, ideas_per_node=1)
    search.build()
    assert "More than `per_eval`" not in project.read("runs/x/TREE_SUMMARY.md")
    search.spec(budget={"usd": 2.0, "per_eval": {"usd": 0.1}})
    search.build()
    assert "**More than `per_eval` allows:** d0.n0.i0" in project.read("runs/x/TREE_SUMMARY.md")


@pytest.mark.parametrize(
    ("budget", "limit", "reason"),
    [
        ({"usd": 1.0, "per_eval": {"usd": 0.5}}, None, "budget_usd_reached"),
        ({}, 2, "max_total_idea_evals_reached"),
        ({"usd": 1.5, "per_eval": {"usd": 0.5}}, None, "max_depth_reached"),
    ],
    ids=["usd", "evaluations", "all were tried"],
)
def test_a_last_depth_that_the_budget_cut_is_said_to_end_by_the_budget(
    project: Project, budget: dict[str, Any], limit: int | None, reason: str
) -> None:
    search = costly(project, budget=budget or None, max_depth=1, max_total_idea_evals=limit)
    said = search.build()
    assert search.record("manifest.json")["state"]["stop_reason"] == reason
    assert [e["stop_reason"] for e in search.record("manifest.json")["events"] if e["event"] == "stopped"] == [reason]
    assert f"stops: {reason}" in said.out
    assert f"Stopped: {reason}, 1 of 1 depths done" in said.err
    assert f"Stopped: **{reason}**" in project.read("runs/x/TREE_SUMMARY.md")
    assert f'"stop_reason": "{reason}"' in project.call("advance", "x").out
    assert search.stop(0) == "max_depth_reached", "the record of the decision is as it was in earlier versions"
    assert project.call("tree", "--tree-run-id", "x", "--validate-only").code == 0
