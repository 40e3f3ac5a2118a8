"""The search by itself: answers come from a table, as if there were a Lean that knew these tactics and no others."""

from collections.abc import Mapping

from pipeline.proof.workers.best_first import BestFirstSearch, SearchOptions, TacticAnswer
from pipeline.tactics import moves

PROOFS = 200  # questions, more than any of these searches asks
Table = Mapping[tuple[str, str], list[str] | str]


class Answers:
    """Goals by their targets.  (target, tactic) to what is left of it, or the word of a failure."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.asked: list[tuple[str, str, float]] = []

    def told(self, search: BestFirstSearch) -> TacticAnswer:
        ask = search.query
        assert ask is not None
        first, *others = ask.state
        if ask.tactic.startswith("(rotate_left "):
            by = int(ask.tactic.removeprefix("(rotate_left ").removesuffix(")"))
            state = (*ask.state[by:], *ask.state[:by])
            return TacticAnswer(state, goals(state))
        self.asked.append((first, ask.tactic.removeprefix("focus "), ask.budget))
        left = self.table.get(self.asked[-1][:2], "tactic")
        if isinstance(left, str):
            return TacticAnswer(failure=left)
        return TacticAnswer((*left, *others), goals((*left, *others)))


def goals(targets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"p q r : Prop\nhp : p\n⊢ {target}" for target in targets)


def searched(target: str, table: Table, options: SearchOptions | None = None) -> tuple[BestFirstSearch, Answers]:
    search, answers = BestFirstSearch((target,), goals((target,)), options), Answers(table)
    for _ in range(PROOFS):
        if search.query is None:
            break
        search.learn(answers.told(search))
    return search, answers


CONSTRUCTOR = {("p ∧ q", "constructor"): ["p", "q"], ("p", "grind -verbose"): list[str]()}


def test_a_tactic_that_leaves_two_goals_needs_both():
    search, _ = searched("p ∧ q", CONSTRUCTOR)
    assert search.query is None
    assert search.script is None


def test_a_block_of_the_script_proves_each_of_several_goals():
    search, _ = searched("p ∧ q", {**CONSTRUCTOR, ("q", "simp_all"): []})
    assert search.script == ("constructor", "· grind -verbose", "· simp_all")
    assert search.families == ("logic", "finishers", "rewriting")


def test_a_goal_that_is_proved_is_not_asked_about_again():
    table = {("q ∧ r ∧ q", "constructor"): ["q", "r ∧ q"], ("r ∧ q", "constructor"): ["r", "q"]}
    proofs = {("q", "grind -verbose"): list[str](), ("r", "grind -verbose"): list[str]()}
    search, answers = searched("q ∧ r ∧ q", {**table, **proofs})
    assert search.script is not None
    assert [asked[:2] for asked in answers.asked].count(("q", "grind -verbose")) == 1


def test_what_has_no_way_back_to_the_root_is_left_alone():
    """r was one way to p; once p is proved by another, nothing is tried on r any more, though q is still open."""
    ways = {("p", "simp_all"): ["r"], ("p", "exfalso"): list[str]()}
    search, answers = searched("p ∧ q", {("p ∧ q", "constructor"): ["p", "q"], **ways})
    asked = [question[:2] for question in answers.asked]
    assert search.script is None
    assert "r" not in [goal for goal, _ in asked[asked.index(("p", "exfalso")) :]]
    assert ("q", "exfalso") in asked


def test_what_ran_out_of_time_is_tried_again_with_more_of_it():
    search, answers = searched("q", {("q", "grind -verbose"): "timeout"})
    budgets = [budget for _, tactic, budget in answers.asked if tactic == "grind -verbose"]
    assert search.script is None
    assert budgets == [0.5, 2.5, 12.5, 30.0]


def test_what_failed_is_not_tried_again():
    _, answers = searched("q", {})
    tactics = [tactic for _, tactic, _ in answers.asked]
    assert len(tactics) == len(set(tactics))


def test_only_the_families_that_were_asked_for_are_used():
    _, answers = searched("p ∨ q", {}, SearchOptions(families=frozenset({"logic"})))
    assert {tactic for _, tactic, _ in answers.asked} >= {"left", "right"}
    assert not {"rfl", "grind -verbose", "simp_all"} & {tactic for _, tactic, _ in answers.asked}


def test_a_tactic_that_changes_nothing_leads_nowhere():
    search, answers = searched("q", {("q", "simp_all"): ["q"]})
    assert search.script is None
    assert [tactic for _, tactic, _ in answers.asked].count("simp_all") == 1


def test_goals_with_a_hole_in_common_are_not_looked_at():
    search, _ = searched("q", {("q", "simp_all"): ["?a = p"], ("?a = p", "grind -verbose"): []})
    assert search.script is None


def test_the_same_answers_give_the_same_search():
    table = {**CONSTRUCTOR, ("q", "simp_all"): ["r"], ("r", "exfalso"): ["False"]}
    assert searched("p ∧ q", table)[1].asked == searched("p ∧ q", table)[1].asked


def test_every_family_may_be_the_only_one():
    for family in moves.FAMILIES:
        search, _ = searched("q", {}, SearchOptions(families=frozenset({family})))
        assert search.query is None
