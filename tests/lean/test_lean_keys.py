"""Keys of goals: equal for goals that differ in names, order and what is implicit, and for no others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import leaning

from pipeline.lean.repl.process import Repl

GOALS = yaml.safe_load(Path(__file__).with_name("lean_keys.yaml").read_text(encoding="utf-8"))
NAMES = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def repl() -> Iterator[Repl]:
    with leaning.started() as repl:
        yield repl


@pytest.fixture(scope="module")
def env(repl: Repl) -> int:
    env = 0
    for text in GOALS["before"]:
        env = repl.ask({"cmd": "cmd", "env": env, "text": text}, 60)["env"]
    return env


def keys(repl: Repl, env: int, goal: str | list[str]) -> dict[str, Any]:
    statement, *tactics = [goal] if isinstance(goal, str) else goal
    answer = repl.ask({"cmd": "start", "env": env, "statement": statement, "name": "goal"}, 60)
    assert "error" not in answer, f"{statement}: {answer}"
    for tactic in tactics:
        answer = repl.ask({"cmd": "tac", "sid": answer["sid"], "tactic": tactic, "timeout_ms": 9000}, 60)
        assert "error" not in answer, f"{tactic}: {answer}"
    return repl.ask({"cmd": "key", "sid": answer["sid"], "goal": 0}, 60)


def test_goals_of_a_group_have_one_key_and_of_two_groups_have_two(repl: Repl, env: int) -> None:
    found = [{keys(repl, env, goal)["exact"]: goal for goal in group} for group in GOALS["groups"]]
    for group in found:
        assert len(group) == 1, "\n".join(f"{goal}\n{key}" for key, goal in group.items())
    for first, second in combinations(found, 2):
        assert not first.keys() & second.keys(), (first, second)


# Statements about edges between variables; a few of them at random have symmetries of many sorts.
EDGES = st.lists(st.tuples(st.sampled_from(NAMES[:5]), st.sampled_from(NAMES[:5])), min_size=1, max_size=7)


def stated(variables: list[str], edges: list[tuple[str, str]]) -> str:
    return f"∀ {' '.join(variables)} : Nat, " + "".join(f"R {a} {b} → " for a, b in edges) + "False"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(edges=EDGES, data=st.data())
def test_a_renaming_and_another_order_change_no_key(repl: Repl, env: int, edges: Any, data: st.DataObject) -> None:
    names = data.draw(st.permutations(NAMES[:5]))
    renamed = dict(zip(NAMES, names, strict=False))
    shuffled = data.draw(st.permutations(edges))
    order = data.draw(st.permutations(NAMES[:5]))
    other = [(renamed[a], renamed[b]) for a, b in shuffled]
    before, after = keys(repl, env, stated(NAMES[:5], edges)), keys(repl, env, stated(list(order), other))
    assert before == after


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(edges=EDGES, data=st.data())
def test_other_edges_have_another_key(repl: Repl, env: int, edges: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(edges) - 1))
    end = data.draw(st.sampled_from(NAMES[:5]))
    other = [*edges[:at], (edges[at][0], end), *edges[at + 1 :]]
    same = keys(repl, env, stated(NAMES[:5], edges))["exact"] == keys(repl, env, stated(NAMES[:5], other))["exact"]
    assert same == are_isomorphic(edges, other)


def are_isomorphic(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> bool:
    """By trying all of them."""
    wanted = sorted(second)
    return any(
        sorted((to[a], to[b]) for a, b in first) == wanted
        for to in (dict(zip(NAMES, names, strict=False)) for names in permutations(NAMES[:5]))
    )


def test_the_coarse_key_is_the_same_for_goals_about_the_same_things(repl: Repl, env: int) -> None:
    about = [keys(repl, env, goal)["coarse"] for goal in ("∀ n : Nat, n + 1 = 2", "∀ n : Nat, 2 + n = n + n")]
    assert about[0] == about[1] != keys(repl, env, "∀ n : Int, n + 1 = 2")["coarse"]


def test_a_goal_that_waits_for_another_says_so(repl: Repl, env: int) -> None:
    assert keys(repl, env, ["∃ n : Nat, n = 3", "refine ⟨?n, ?h⟩"])["exact"][0] != "?"
    assert keys(repl, env, ["∃ n : Nat, n = 3", "refine ⟨?n, ?h⟩\nrotate_left"])["exact"][0] == "?"
