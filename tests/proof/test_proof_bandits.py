"""What each bandit promises: its formula, what it learns from, and that the same history gives the same choices."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.proof.schedule.bandits import (
    BANDITS,
    SHARED_ARM,
    Bandit,
    ContextualBandit,
    DiscountedBandit,
    GoalShape,
    SeedBandit,
    Ucb1Bandit,
    logistic,
    seed_rate,
    seed_score,
    ucb1_score,
)
from pipeline.proof.schedule.effort import statement_shape

ARMS = ("a", "b", "c")
LIST, NAT = GoalShape("List =", ("about List", "has ++")), GoalShape("Nat ≤", ("about Nat", "has <"))
SHAPES = (LIST, NAT, NAT.after_failure("a", 0), GoalShape("Nat ≤"))

attempts = st.lists(
    st.tuples(st.sampled_from(ARMS), st.sampled_from(SHAPES), st.booleans(), st.sampled_from([0.0, 0.25, 1.0, 8.0])),
    max_size=40,
)
named = pytest.mark.parametrize("name", [*BANDITS])
counts_seconds = pytest.mark.parametrize("name", ["discounted", "contextual"])


def taught(name: str, history: list[tuple[str, GoalShape, bool, float]], factor: float = 1.0) -> Bandit:
    bandit = BANDITS[name]()
    for arm, looks, success, seconds in history:
        bandit.learn(arm, looks, success, factor * seconds)
    return bandit


def first(bandit: Bandit, looks: GoalShape) -> str:
    return bandit.choose(ARMS, looks)


def order(bandit: Bandit, arms: tuple[str, ...], looks: GoalShape) -> list[str]:
    """All of them, each the first choice of those that are left."""
    left = [*arms]
    return [left.pop(left.index(bandit.choose(left, looks))) for _ in arms]


@named
@given(history=attempts, looks=st.sampled_from(SHAPES))
def test_it_chooses_one_of_the_arms_and_the_same_one_again(name: str, history: list, looks: GoalShape) -> None:
    bandit = taught(name, history)
    assert first(bandit, looks) in ARMS
    assert first(bandit, looks) == first(bandit, looks) == first(taught(name, history), looks)


@named
def test_of_arms_that_nothing_is_known_of_the_one_listed_first_is_chosen(name: str) -> None:
    assert order(BANDITS[name](), ARMS, LIST) == [*ARMS]
    assert order(BANDITS[name](), ("c", "a"), LIST) == ["c", "a"]


@named
def test_the_arm_that_proves_more_is_found(name: str) -> None:
    bandit, rng, chances, chosen = BANDITS[name](), Random(1), {"a": 0.5, "b": 0.2, "c": 0.9}, Counter[str]()
    for _ in range(400):
        arm = first(bandit, LIST)
        bandit.learn(arm, LIST, rng.random() < chances[arm], 1.0)
        chosen[arm] += 1
    assert chosen.most_common(1)[0][0] == "c"


def test_the_documented_formula_of_seed() -> None:
    assert seed_score(0.3, 4, 99) == 0.3 + 1.5 * ((2 * (100).bit_length()) / 4) ** 0.5
    assert seed_score(0.3, 0, 0) == 0.3 + 1.5 * 2**0.5
    assert seed_rate(0.5, success=True) == pytest.approx(0.55)
    assert seed_rate(0.5, success=False) == pytest.approx(0.45)


def test_the_bonus_of_seed_is_more_than_any_rate_can_differ_until_31_trials() -> None:
    assert seed_score(0.0, 31, 99) > 1.0 >= seed_score(0.0, 32, 99)


def test_seed_takes_arms_that_differ_by_a_tenth_nearly_by_turns() -> None:
    bandit, rng, chances, chosen = SeedBandit(), Random(1), {"a": 0.5, "b": 0.4, "c": 0.6}, Counter[str]()
    for _ in range(90):
        arm = first(bandit, LIST)
        bandit.learn(arm, LIST, rng.random() < chances[arm], 1.0)
        chosen[arm] += 1
    assert max(chosen.values()) <= 45


def test_ucb1_tries_each_arm_once_before_any_twice() -> None:
    bandit = Ucb1Bandit()
    bandit.learn("a", LIST, True, 1.0)
    assert order(bandit, ARMS, LIST) == ["b", "c", "a"]
    assert ucb1_score(1, 2, 8) == pytest.approx(0.5 + 1.442027)


@counts_seconds
def test_successes_count_by_the_second(name: str) -> None:
    history = [("a", LIST, n % 2 == 0, 8.0) for n in range(30)] + [("b", LIST, n % 3 == 0, 1.0) for n in range(30)]
    assert taught(name, [*history, *(("c", LIST, False, 1.0) for _ in range(30))]).choose(ARMS, LIST) == "b"


@counts_seconds
@given(history=attempts, looks=st.sampled_from(SHAPES), factor=st.sampled_from([2.0, 16.0, 1024.0]))
def test_it_does_not_matter_what_a_second_is(name: str, history: list, looks: GoalShape, factor: float) -> None:
    slow = [(*rest, max(seconds, 0.25)) for *rest, seconds in history]
    assert order(taught(name, slow), ARMS, looks) == order(taught(name, slow, factor), ARMS, looks)


def test_what_is_long_ago_counts_less_to_discounted() -> None:
    before = [("a", LIST, True, 1.0)] * 100 + [("b", LIST, False, 1.0)] * 20
    since = [("a", LIST, False, 1.0)] * 100 + [("b", LIST, True, 1.0)] * 10  # in all, a proved a half and b a third
    assert taught("discounted", before).choose(("a", "b"), LIST) == "a"
    assert taught("discounted", before + since).choose(("a", "b"), LIST) == "b"


def both_ways(kind: GoalShape, other: GoalShape) -> list[tuple[str, GoalShape, bool, float]]:
    """Arm a proves goals of one shape, arm b of the other."""
    pairs = [(arm, looks) for looks in (kind, other) for arm in ("a", "b")]
    return [(arm, looks, (arm == "a") == (looks == kind), 1.0) for arm, looks in pairs] * 20


def test_discounted_learns_each_class_of_goals_by_itself() -> None:
    bandit = taught("discounted", both_ways(LIST, NAT))
    assert [bandit.choose(("a", "b"), looks) for looks in (LIST, NAT)] == ["a", "b"]


def test_contextual_judges_a_class_that_it_never_saw_by_its_traits() -> None:
    bandit = taught("contextual", both_ways(GoalShape("x", ("has ++",)), GoalShape("y", ("has <",))))
    assert bandit.choose(("a", "b"), GoalShape("new", ("has ++", "long 3"))) == "a"
    assert bandit.choose(("a", "b"), GoalShape("new", ("has <", "long 3"))) == "b"


def test_contextual_learns_what_to_try_after_which_failure() -> None:
    failed = LIST.after_failure("a", 0)
    history = [("b", failed, True, 1.0), ("c", failed, False, 1.0), ("c", LIST, True, 1.0), ("b", LIST, False, 1.0)]
    bandit = taught("contextual", history * 15)
    assert [bandit.choose(("b", "c"), looks) for looks in (LIST, failed)] == ["c", "b"]


@pytest.mark.parametrize("traits", [0, 5, 40])
def test_one_attempt_is_not_believed_as_often_as_a_goal_has_traits(traits: int) -> None:
    """Expected is then no more than what came, and no certainty."""
    looks = GoalShape("k", tuple(f"has {n}" for n in range(traits)))
    bandit = ContextualBandit()
    bandit.learn("a", looks, True, 1.0)
    weights = {key: mean for key, (mean, _) in bandit.weights.items()}
    assert 0.5 < logistic(sum(weights.values())) < 0.85
    assert (SHARED_ARM, "") not in weights


def test_the_least_cost_is_not_nothing() -> None:
    for bandit in (DiscountedBandit(), ContextualBandit()):
        for _ in range(5):
            bandit.learn("a", LIST, True, 0.0)
        assert first(bandit, LIST) == "a"


def test_a_goal_is_classed_by_what_it_is_about_and_what_it_shows() -> None:
    looks = statement_shape("∀ (xs ys : List Nat) (n : Nat), n ≤ 3 → (xs ++ ys).length = ys.length + xs.length")
    assert looks.kind == "List ="
    assert {"about List", "about Nat", "has ++", "shows +", "has ≤"} <= {*looks.traits}
    assert "shows ≤" not in looks.traits
    assert looks.after_failure("a", 1).traits == (*looks.traits, "failed a 1")
