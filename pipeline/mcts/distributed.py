"""Many controllers over one tree: each takes turns, reserves where it works, and may be blocked, delayed, rerouted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.mcts import steering
from pipeline.mcts.interventions import Gate, Interventions
from pipeline.mcts.model import FIRST_SUCCESS, Expand, Outcome, Rules, Subgoal
from pipeline.mcts.nodes import OPEN, Node
from pipeline.mcts.steering import Agent, Steering
from pipeline.mcts.trace import BLOCKED, DEAD_NODE, DELAYED, NO_EXPANSION, Note, Turn, aborted, reason_of, told
from pipeline.mcts.tree import Selection, Tree


class Team(NamedTuple):
    """What a distributed search goes by."""

    rules: Rules
    steering: Steering
    interventions: Interventions = Interventions()


class Flight(NamedTuple):
    expand: Expand
    selection: Selection
    reroute: Mapping[str, Any] | None


class Distributed:
    """`turn` is one iteration of an agent; what it started `land`s later, in any order."""

    def __init__(self, team: Team, root: Subgoal, note: Note = lambda told: None) -> None:
        self.team, self.note = team, note
        self.tree = Tree(team.rules.maths, root)
        self.gate = Gate(team.interventions)
        self.agents = [Agent(number) for number in range(team.steering.agents)]
        self.flights: dict[int, Flight] = {}
        self.early: dict[int, Outcome] = {}  # answers that are there, and land later
        self.iterations = self.calls = self.reserved = self.version = self.aborted = 0

    @property
    def going(self) -> bool:
        return self.iterations < self.team.rules.budget.iterations and not self.over and self._limit() > 0

    @property
    def over(self) -> bool:
        return self.tree.root.status != OPEN

    def _limit(self) -> int:
        """Calls that one more iteration may take."""
        rules = self.team.rules
        calls = rules.budget.calls
        most = rules.expansion.attempts
        return most if calls is None else min(most, calls - self.calls - self.reserved)

    def turn(self, number: int) -> Expand | None:
        """What the agent starts; None if its iteration was spent on nothing."""
        agent = self.agents[number]
        self.iterations += 1
        self.version += 1
        steering.look(self.tree, agent, self.team.steering.refresh)
        return Going(self, agent).go()

    def reserve(self, agent: Agent, selection: Selection, reroute: Mapping[str, Any] | None) -> Expand:
        rules, node, limit = self.team.rules, selection.node, self._limit()
        tactics = self.tree.take(node, limit)
        first = rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, agent.number, node.number, selection.nodes(), tactics, limit, first)
        self.flights[expand.iteration] = Flight(expand, selection, reroute)
        self.reserved += limit
        agent.last = frozenset(action.number for action in selection.path)
        _count(selection, 1)
        return expand

    def land(self, outcome: Outcome) -> None:
        flight = self.flights.get(outcome.iteration)
        if flight is None:
            return  # it was aborted
        expand, (path, node, _), around = flight
        settled = node.status != OPEN
        self._release(flight)
        self.version += 1
        self.calls += len(outcome.attempts)
        landed = self.tree.land(node, expand.tactics, outcome)
        self.tree.backup(path, node)
        steering.learn(self.agents[expand.agent], path, node)
        reason = reason_of(landed, outcome.no_goal, settled)
        tried = [attempt.tactic for attempt in outcome.attempts]
        turn = Turn(expand.iteration, expand.agent, reason, expand.path, node, tried, outcome.attempts, landed, True)
        self.tell(turn._replace(reroute=around))
        if self.over:
            self._abort()

    def _release(self, flight: Flight) -> None:
        del self.flights[flight.expand.iteration]
        self.reserved -= flight.expand.limit
        _count(flight.selection, -1)

    def _abort(self) -> None:
        for flight in list(self.flights.values()):
            node = flight.selection.node
            self._release(flight)
            self.tree.release(node, flight.expand.tactics)
            self.aborted += 1
            early = self.early.pop(flight.expand.iteration, None)
            self.calls += len(early.attempts) if early else flight.expand.limit  # they were started
            self.tell(aborted(flight.expand, node, early))

    def tell(self, turn: Turn) -> None:
        self.note(told(self.tree, turn, len(self.flights), self.aborted))


def _count(selection: Selection, by: int) -> None:
    selection.node.flying += by
    for action in selection.path:
        action.flying += by
        action.owner.flying += by


class Going:
    """One turn of one agent: where it is turned away from, and where that leaves it."""

    def __init__(self, search: Distributed, agent: Agent) -> None:
        self.search, self.agent, self.tree = search, agent, search.tree
        self.banned: set[int] = set()
        self.around: list[int] = []  # blocked goals that it went around
        self.block: Mapping[str, Any] | None = None

    def go(self) -> Expand | None:
        while True:
            selection = steering.select(self.tree, self.search.team.steering, self.agent, self.banned)
            node = selection.node
            over = self._given_up(selection) if not selection.opens else self._turned_away(selection)
            if over:
                return None
            if selection.opens and node.number not in self.around:
                return self.search.reserve(self.agent, selection, self._reroute(node))
            self.banned.add(node.number)

    def _turned_away(self, selection: Selection) -> bool:
        """Whether the iteration is spent at a goal that may not be worked at; one to go around is noted."""
        node, iteration = selection.node, self.search.iterations
        if block := self.search.gate.blocked(node, iteration):
            self.block = block
            if len(self.around) >= self.search.team.interventions.reroute:
                self._spent(BLOCKED, selection)
                return True
            self.around.append(node.number)
            return False
        delay = self.search.gate.delayed(node, iteration)
        if delay:
            self._spent(DELAYED, selection, delay)
        return delay is not None

    def _given_up(self, selection: Selection) -> bool:
        """Where there is no way on: elsewhere, unless the goal needs one on the way to it, or all ways were tried."""
        node = selection.node
        if not self.banned and node.exhausted:
            reason = DEAD_NODE if self.tree.dead_end(node) else NO_EXPANSION
            self.tree.backup(selection.path, node)
            steering.learn(self.agent, selection.path, node)
            self._spent(reason, selection, backed_up=True)
            if self.search.over:
                self.search._abort()
            return True
        if node is self.tree.root:
            self._spent(BLOCKED if self.block else NO_EXPANSION, selection)
        return node is self.tree.root

    def _spent(
        self, reason: str, selection: Selection, delay: Mapping[str, Any] | None = None, backed_up: bool = False
    ) -> None:
        turn = Turn(self.search.iterations, self.agent.number, reason, selection.nodes(), selection.node)
        block = self.block if reason == BLOCKED else None
        reroute = self._reroute(None)
        self.search.tell(turn._replace(backed_up=backed_up, block=block, delay=delay, reroute=reroute))

    def _reroute(self, to: Node | None) -> dict[str, Any] | None:
        return {"from": self.around, "to": to and to.number} if self.around else None
