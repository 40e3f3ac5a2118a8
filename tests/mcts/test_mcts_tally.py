"""What a search came to, from its trace."""

from kit.mcts_worlds import World, played, rules, team

from pipeline.mcts.search.trace import TraceTally


def test_an_iteration_without_anything_to_do_is_idle_and_one_that_tried_in_vain_is_not() -> None:
    run = played(World({"root": {f"{n}": None for n in range(20)}}), team(rules(12), agents=3, inflight=1))
    tally = TraceTally()
    for told in run.trace:
        tally.add_iteration(told)
    found = tally.as_record(tally.calls)
    assert (found["reasons"], found["calls"], found["idle"]) == ({"no_expansion": 12}, 4, 8)
    assert TraceTally().as_record(0)["idle"] == 0
