"""Goals, tactics and what comes of them from a table, for searches without a Lean; and searches played in them."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pipeline.core.journal import JournalDifference, journal_differences, resume
from pipeline.mcts.run import carry_out
from pipeline.mcts.search.agents import UNOBSERVED, VIRTUAL_LOSS, Block, Delay, Interventions, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME, SearchJournal, SearchStart, search_form
from pipeline.mcts.search.records import (
    EXPLORE,
    MINIMUM,
    PRODUCT,
    PUCT,
    UCT,
    Budget,
    Expand,
    ExpandOutcome,
    Expansion,
    SearchRules,
    SelectionRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
)
from pipeline.mcts.search.trace import trace_line
from pipeline.mcts.search.tree import SearchTree

ENOUGH = 600


class World(NamedTuple):
    """For each goal its tactics: the goals that each leaves, or None if it fails.  The first goal is the root.

    `told`: goals whose moves are known with them, so that they need not be asked for."""

    table: Mapping[str, Mapping[str, tuple[str, ...] | None]]
    values: Mapping[str, float] = {}
    priors: Mapping[str, float] = {}
    told: frozenset[str] = frozenset()

    def moves(self, goal: str) -> tuple[WeightedMove, ...]:
        return tuple(WeightedMove(tactic, self.priors.get(tactic, 1.0)) for tactic in self.table[goal])

    def subgoal(self, goal: str) -> Subgoal:
        return Subgoal(goal, "", self.values.get(goal, 0.5), self.moves(goal) if goal in self.told else None)

    @property
    def root(self) -> Subgoal:
        return self.subgoal(next(iter(self.table)))

    def answer(self, tree: SearchTree, expand: Expand, units: float = 1.0) -> ExpandOutcome:
        goal = tree.nodes[expand.node].key
        outcome = carry_out(expand, lambda: self.moves(goal), lambda tactic: self.attempt(goal, tactic))
        return outcome._replace(units=units)

    def attempt(self, goal: str, tactic: str) -> TacticAttempt:
        left = self.table[goal][tactic]
        if left is None:
            return TacticAttempt(tactic, error="tactic")
        return TacticAttempt(tactic, tuple(self.subgoal(each) for each in left))

    def provable(self) -> set[str]:
        """By going through the table until nothing is new."""
        found: set[str] = set()
        while True:
            new = {goal for goal in self.table if self.follows(goal, found)} - found
            if not new:
                return found
            found |= new

    def follows(self, goal: str, known: set[str]) -> bool:
        return any(left is not None and set(left) <= known for left in self.table[goal].values())


def known(world: World, tree: SearchTree) -> World:
    """What of a world a search has found out."""
    opened = {node.key: node for node in tree.nodes}
    tried = {
        goal: {tactic: left for tactic, left in moves.items() if used(opened.get(goal), tactic)}
        for goal, moves in world.table.items()
    }
    return world._replace(table=tried)


def used(node: Any, tactic: str) -> bool:
    return node is not None and any(action.tactic == tactic for action in node.live)


@st.composite
def worlds(draw: st.DrawFn, most: int = 7) -> World:
    names = [f"g{number}" for number in range(draw(st.integers(1, most)))]
    left = st.one_of(st.none(), st.lists(st.sampled_from(names), max_size=3).map(tuple))
    tables = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), left, max_size=4)
    few = st.sampled_from([0.1, 0.5, 0.9])
    values = draw(st.dictionaries(st.sampled_from(names), few))
    priors = draw(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), few))
    told = draw(st.frozensets(st.sampled_from(names)))
    return World({name: draw(tables) for name in names}, values, priors, told)


@st.composite
def maths(draw: st.DrawFn) -> SelectionRules:
    selection = draw(st.sampled_from([PUCT, UCT]))
    widen, alpha = draw(st.sampled_from([(1.0, 0.5), (0.5, 0.5), (2.0, 0.8), (1e9, 0.5)]))
    return SelectionRules(selection, EXPLORE[selection], draw(st.sampled_from([MINIMUM, PRODUCT])), widen, alpha)


expansions = st.builds(Expansion, st.sampled_from(["first-success", "all-successes"]), st.integers(1, 3))


def rules(iterations: int = ENOUGH, calls: int | None = None, **how: Any) -> SearchRules:
    return SearchRules(Budget(iterations, calls), **how)


def teams(iterations: int = ENOUGH) -> st.SearchStrategy[TeamRules]:
    steerings = st.builds(
        ReservationRules,
        agents=st.integers(1, 5),
        inflight=st.integers(1, 3),
        counting=st.sampled_from([VIRTUAL_LOSS, UNOBSERVED]),
        virtual_loss=st.sampled_from([0.5, 1.0, 3.0]),
        depth_bias=st.sampled_from([0.0, 0.1]),
        path_bias=st.sampled_from([0.0, 0.2]),
        refresh=st.sampled_from([1, 3]),
    )
    by = st.builds(SearchRules, st.just(Budget(iterations)), maths(), expansions)
    return st.builds(TeamRules, by, steerings, st.just(Interventions()))


blocks = st.builds(
    lambda fraction, duration, seed: Block(fraction, duration, seed, 0.5, 2, 0.1),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([-1, 3]),
    st.integers(0, 3),
)
delays = st.builds(Delay, st.sampled_from([0.0, 0.4]), st.integers(0, 3), st.integers(0, 3))
interventions = st.builds(Interventions, blocks, delays, st.integers(0, 2))
ones = st.builds(lambda by, expansion: rules(40, maths=by, expansion=expansion), maths(), expansions)
hindered = st.builds(lambda by, between: by._replace(interventions=between), teams(40), interventions)


class Played(NamedTuple):
    journalled: SearchJournal
    lines: list[str]
    trace: list[dict[str, Any]]

    @property
    def tree(self) -> SearchTree:
        return self.journalled.policy.tree


def begun(world: World, by: SearchRules | TeamRules, time: str = VIRTUAL_TIME) -> Played:
    lines: list[str] = []
    trace: list[dict[str, Any]] = []
    journalled = SearchJournal(SearchStart(by, world.root, time), lines.append, lambda told: trace.append(dict(told)))
    return Played(journalled, lines, trace)


def played(
    world: World,
    by: SearchRules | TeamRules,
    rng: Random | None = None,
    time: str = VIRTUAL_TIME,
    units: int | None = None,
) -> Played:
    """To its end.  Answers come in an order that `rng` draws; how long each took, `units` and the iteration decide."""
    run = begun(world, by, time)
    carry_on(world, run.journalled, [], rng or Random(0), units)
    return run


def carry_on(
    world: World, journalled: SearchJournal, asked: list[Expand], rng: Random, units: int | None = None
) -> None:
    for _ in range(100_000):
        while expand := journalled.ask():
            asked.append(expand)
            if rng.random() < 0.3:
                break
        if not asked and journalled.policy.is_finished:
            return
        if asked:
            expand = asked.pop(rng.randrange(len(asked)))
            journalled.tell(world.answer(journalled.policy.tree, expand, took(expand, units)))
    raise AssertionError("the search does not end")


def took(expand: Expand, units: int | None) -> float:
    return 1.0 if units is None else 1.0 + (expand.iteration * 7919) % units


def team(world_rules: SearchRules, agents: int = 1, inflight: int = 4, **how: Any) -> TeamRules:
    between = how.pop("interventions", Interventions())
    return TeamRules(world_rules, ReservationRules(agents, inflight, **how), between)


def text(trace: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(told, sort_keys=True) for told in trace)


def differences(lines: list[str], first: str | None = None) -> list[JournalDifference]:
    return journal_differences(search_form(), lines, first)


def trace_of_journal(lines: list[str]) -> list[str]:
    found: list[str] = []
    resume(search_form(lambda told: found.append(trace_line(told))), lines, lambda line: None)
    return found


TIMES = (VIRTUAL_TIME, REAL_TIME)
