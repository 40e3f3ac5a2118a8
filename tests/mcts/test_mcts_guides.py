"""What a search on Lean goes by without a Lean: portfolios, values, second goes, and what a tactic left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.lean.model import LeanError, ProofFinished, ProofGivenUp, TacticState
from pipeline.mcts import run
from pipeline.mcts.search import guides
from pipeline.tactics import script
from pipeline.tactics.script import TacticRefused, focus_first
from pipeline.tactics.text.goal import new_names, read_goal

ORDER = read_goal("a b : Nat\nh : a < b\n⊢ a ≠ b ∨ b = 0")
TEXTS = [
    "⊢ False",
    "⊢ 1 = 1",
    "n : Nat\n⊢ n = n",
    "p q : Prop\n⊢ p ∧ q",
    "⊢ ∀ n : Nat, n = n",
    "h : p\n⊢ ¬q",
    "⊢ ∃ n, n = 3",
]


def state(*goals: str) -> TacticState:
    return TacticState(1, goals)


def test_all_priors_have_the_same_tactics_and_those_by_cost_prefer_the_cheap() -> None:
    plain, cheap = guides.choose_priors("uniform")(ORDER), guides.choose_priors("moves")(ORDER)
    assert [each._replace(prior=1.0) for each in cheap] == plain
    assert {each.prior for each in plain} == {1.0}
    assert {each.tactic: each.prior for each in cheap}["omega"] == 1.0
    assert all(0 < each.prior <= 1 for each in cheap)
    assert len({each.prior for each in cheap}) > 3


def attempt(success: bool, families: list[str], tried: list[str], verified: bool = True) -> Attempt:
    told = {"families": families, "seconds_by_family": dict.fromkeys(tried, 1.0)}
    return Attempt(AttemptKey("g", "micro", "", "", 8.0), "True", success, 1.0, 0.0, verified=verified, metadata=told)


def test_a_family_counts_by_its_part_in_verified_proofs() -> None:
    known = guides.family_shares(
        [
            attempt(True, ["cases", "cases"], ["cases", "logic"]),
            attempt(True, ["logic"], ["logic"], verified=False),
            attempt(False, [], ["cases"]),
            Attempt(AttemptKey("g", "sketch", "", "", 6.0), "True", True, 1.0, 0.0, verified=True),
        ]
    )
    assert known == {"cases": (1 + 1) / (2 + 2), "logic": (0 + 1) / (2 + 2)}


def test_the_record_of_a_family_scales_what_its_tactics_cost() -> None:
    cheap = {each.tactic: each.prior for each in guides.choose_priors("moves")(ORDER)}
    known = {each.tactic: each.prior for each in guides.choose_priors("ledger", {"logic": 0.1})(ORDER)}
    assert known["left"] == pytest.approx(0.1 * cheap["left"])
    assert known["omega"] == pytest.approx(guides.UNKNOWN_SHARE * cheap["omega"])


@pytest.mark.parametrize(
    ("choose", "name", "why"),
    [
        (
            guides.choose_priors,
            "generator",
            "priors 'generator' is not built yet: it takes a model that writes tactics",
        ),
        (guides.choose_priors, "move", "priors 'move' is unknown; did you mean 'moves'"),
        (guides.choose_rewards, "model", "rewards 'model' is not built yet: .*; use printed"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(choose, name, why):
    with pytest.raises(SpecError, match=why):
        choose(name)


@given(st.sampled_from(TEXTS), st.integers(1, 12), st.integers(0, 20_000))
def test_an_open_goal_is_worth_more_than_nothing_and_less_than_a_proof(text: str, goals: int, more: int) -> None:
    worth = [guides.printed_reward(read_goal(each), goals) for each in (text, f"long : {'x' * more}\n{text}")]
    assert all(0 < each < 1 for each in worth)


def test_a_shorter_goal_and_one_with_fewer_beside_it_are_worth_more() -> None:
    short, long = read_goal("n : Nat\n⊢ n = n"), read_goal("n : Nat\n⊢ n + n + n = n * 3")
    assert guides.printed_reward(short, 1) > guides.printed_reward(long, 1)
    assert guides.printed_reward(short, 1) > guides.printed_reward(short, 2)


def test_a_tactic_that_ran_out_of_time_has_further_goes_until_it_had_all_there_is() -> None:
    text, texts, times = "simp", [], []
    while (more := run.retry_moves(text, 0.5, 0.5)) and len(texts) < 9:
        [(text, prior)] = more
        assert prior < 0.5
        texts.append(text)
        times.append(run.retry_seconds(0.5, run.split_retry(text)[1]))
    assert times == [2.5, 12.5, script.RETRY_UNTIL]
    assert {run.split_retry(each)[0] for each in texts} == {"simp"}
    assert len({*texts}) == 3


def test_what_was_open_beside_the_goal_is_not_what_the_tactic_left() -> None:
    before = state("⊢ a", "⊢ b", "⊢ c")
    assert run.goals_after_tactic(before, state("⊢ x", "⊢ y", "⊢ b", "⊢ c"), False) == ("⊢ x", "⊢ y")
    assert run.goals_after_tactic(before, state("⊢ b", "⊢ c"), True) == ()
    assert run.goals_after_tactic(state("⊢ a"), ProofFinished(2), True) == ()


@pytest.mark.parametrize(
    ("before", "result", "closing", "why"),
    [
        (state("⊢ a", "⊢ b"), state("⊢ x", "⊢ z"), False, "beside"),
        (state("⊢ a", "⊢ b"), ProofFinished(2), False, "beside"),
        (state("⊢ a"), state("⊢ x"), True, "open"),
        (state("⊢ a"), state(*["⊢ x"] * 13), False, "goals"),
        (state("⊢ a"), state("⊢ Nat", "⊢ ?n = 3"), False, "shared"),
        (state("⊢ a"), LeanError("no such thing", "tactic"), False, "tactic"),
        (state("⊢ a"), ProofGivenUp(), False, "given up"),
    ],
)
def test_what_is_no_progress_on_this_goal_alone_is_refused(before, result, closing, why):
    with pytest.raises(TacticRefused, match=why):
        run.goals_after_tactic(before, result, closing)


def test_a_tactic_of_several_lines_stays_one_on_the_first_goal() -> None:
    assert focus_first("simp\nring", 1) == "simp\nring"
    assert focus_first("simp", 2) == "focus simp"
    assert focus_first("simp\nring", 2) == "focus (\n  simp\n  ring\n)"


def test_goals_that_use_the_same_names_otherwise_are_told_apart() -> None:
    first, second = read_goal("x y : Nat\n⊢ x < y"), read_goal("x y : Nat\n⊢ y < x")
    assert run.names_digest(first).split()[:2] == run.names_digest(second).split()[:2] == ["x", "y"]
    assert run.names_digest(first) != run.names_digest(second)
    assert run.names_digest(first) == run.names_digest(read_goal("case left\nx y : Nat\n⊢ x < y"))


def test_names_are_new_and_in_order() -> None:
    goal = read_goal("n n✝ : Nat\na✝¹ : n✝ = 0\nn_ih✝ : a = 0\na✝ : a = 0\n⊢ True")
    assert new_names(goal) == ["n1", "a1", "ih", "a2"]
