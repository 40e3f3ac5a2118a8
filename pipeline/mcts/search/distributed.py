"""Search by many agents over one tree, in virtual or real time.

Each controller takes turns, reserves where it works, and may be blocked, delayed or rerouted.

A turn ends in an `Expand` that is in flight until its answer lands, or in nothing: blocked, delayed, no way on. When
the root is decided, what is in flight is aborted.

Two clocks say whose turn it is. Virtual time: each turn takes the units that its outcome says, so that no thread's
timing shows. Real time: answers are told as they come, and the journal keeps that order."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.mcts.search import agents
from pipeline.mcts.search.agents import Agent, Interventions, Obstacles, ReservationRules
from pipeline.mcts.search.nodes import OPEN, GoalNode
from pipeline.mcts.search.records import FIRST_SUCCESS, Expand, ExpandOutcome, SearchRules, Subgoal
from pipeline.mcts.search.trace import (
    BLOCKED,
    DEAD_NODE,
    DELAYED,
    NO_EXPANSION,
    Note,
    Turn,
    aborted_turn,
    reason_for,
    trace_record,
)
from pipeline.mcts.search.tree import SearchTree, Selection


class TeamRules(NamedTuple):
    """What a distributed search goes by."""

    rules: SearchRules
    steering: ReservationRules
    interventions: Interventions = Interventions()


class AgentExpandInFlight(NamedTuple):
    expand: Expand
    selection: Selection
    reroute: Mapping[str, Any] | None


class DistributedSearch:
    """`turn` is one iteration of an agent; what it started `land`s later, in any order."""

    def __init__(self, team: TeamRules, root: Subgoal, note: Note = lambda told: None) -> None:
        self.team, self.note = team, note
        self.tree = SearchTree(team.rules.maths, root)
        self.gate = Obstacles(team.interventions)
        self.agents = [Agent(number) for number in range(team.steering.agents)]
        self.flights: dict[int, AgentExpandInFlight] = {}
        self.early: dict[int, ExpandOutcome] = {}  # answers that are there, and land later
        self.iterations = self.calls = self.reserved = self.version = self.aborted = 0

    @property
    def may_start(self) -> bool:
        return self.iterations < self.team.rules.budget.iterations and not self.is_over and self._limit() > 0

    @property
    def is_over(self) -> bool:
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
        agents.refresh_view(self.tree, agent, self.team.steering.refresh)
        return AgentTurn(self, agent).go()

    def reserve(self, agent: Agent, selection: Selection, reroute: Mapping[str, Any] | None) -> Expand:
        rules, node, limit = self.team.rules, selection.node, self._limit()
        tactics = self.tree.take(node, limit)
        first = rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, agent.number, node.number, selection.nodes(), tactics, limit, first)
        self.flights[expand.iteration] = AgentExpandInFlight(expand, selection, reroute)
        self.reserved += limit
        agent.last = frozenset(action.number for action in selection.path)
        _count_flying(selection, 1)
        return expand

    def land(self, outcome: ExpandOutcome) -> None:
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
        agents.update_view(self.agents[expand.agent], path, node)
        reason = reason_for(landed, outcome.no_goal, settled)
        tried = [attempt.tactic for attempt in outcome.attempts]
        turn = Turn(expand.iteration, expand.agent, reason, expand.path, node, tried, outcome.attempts, landed, True)
        self.tell(turn._replace(reroute=around))
        if self.is_over:
            self._abort()

    def _release(self, flight: AgentExpandInFlight) -> None:
        del self.flights[flight.expand.iteration]
        self.reserved -= flight.expand.limit
        _count_flying(flight.selection, -1)

    def _abort(self) -> None:
        for flight in list(self.flights.values()):
            node = flight.selection.node
            self._release(flight)
            self.tree.release(node, flight.expand.tactics)
            self.aborted += 1
            early = self.early.pop(flight.expand.iteration, None)
            self.calls += len(early.attempts) if early else flight.expand.limit  # they were started
            self.tell(aborted_turn(flight.expand, node, early))

    def tell(self, turn: Turn) -> None:
        self.note(trace_record(self.tree, turn, len(self.flights), self.aborted))


def _count_flying(selection: Selection, by: int) -> None:
    selection.node.flying += by
    for action in selection.path:
        action.flying += by
        action.owner.flying += by


class AgentTurn:
    """One turn of one agent: where it is turned away from, and where that leaves it."""

    def __init__(self, search: DistributedSearch, agent: Agent) -> None:
        self.search, self.agent, self.tree = search, agent, search.tree
        self.banned: set[int] = set()
        self.around: list[int] = []  # blocked goals that it went around
        self.block: Mapping[str, Any] | None = None

    def go(self) -> Expand | None:
        while True:
            selection = agents.select_for_agent(self.tree, self.search.team.steering, self.agent, self.banned)
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
        if block := self.search.gate.block_record(node, iteration):
            self.block = block
            if len(self.around) >= self.search.team.interventions.reroute:
                self._spent(BLOCKED, selection)
                return True
            self.around.append(node.number)
            return False
        delay = self.search.gate.delay_record(node, iteration)
        if delay:
            self._spent(DELAYED, selection, delay)
        return delay is not None

    def _given_up(self, selection: Selection) -> bool:
        """Where there is no way on: elsewhere, unless the goal needs one on the way to it, or all ways were tried."""
        node = selection.node
        if not self.banned and node.exhausted:
            reason = DEAD_NODE if self.tree.is_dead_end(node) else NO_EXPANSION
            self.tree.backup(selection.path, node)
            agents.update_view(self.agent, selection.path, node)
            self._spent(reason, selection, backed_up=True)
            if self.search.is_over:
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

    def _reroute(self, to: GoalNode | None) -> dict[str, Any] | None:
        return {"from": self.around, "to": to and to.number} if self.around else None


LANDING, TURN = 0, 1


class TeamClock:
    def __init__(self, search: DistributedSearch) -> None:
        self.search = search

    @property
    def version(self) -> int:
        return self.search.version

    @property
    def tree(self) -> SearchTree:
        return self.search.tree

    @property
    def calls(self) -> int:
        return self.search.calls

    @property
    def is_finished(self) -> bool:
        return not self.search.may_start and not self.search.flights


class VirtualClock(TeamClock):
    """Each turn takes the units that its outcome says, or one if it came to nothing.

    Time goes on when all answers are there, so their order among themselves decides nothing.  At the same time what
    lands comes first, then agents by number."""

    def __init__(self, search: DistributedSearch) -> None:
        super().__init__(search)
        self.events: list[tuple[float, int, int, int]] = [(0.0, TURN, agent.number, 0) for agent in search.agents]
        self.started: dict[int, float] = {}  # iterations without an answer yet
        self.waiting: list[int] = []  # agents who found the budget reserved by others

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for number, flight in self.search.flights.items() if number in self.started]

    def ask(self) -> Expand | None:
        while self.events and not self.is_finished:
            time, kind, agent, iteration = self.events[0]
            if any(time > start for start in self.started.values()):
                return None
            heapq.heappop(self.events)
            if kind == LANDING:
                self._land(time, agent, iteration)
            elif not self.search.may_start:
                self.waiting.append(agent)
            elif expand := self._turn(time, agent):
                return expand
        return None

    def _land(self, time: float, agent: int, iteration: int) -> None:
        """Then those may go on who had to wait, since what is reserved is more than what is used."""
        self.search.land(self.search.early.pop(iteration))
        for each in (agent, *self.waiting):
            self._then(time, each)
        self.waiting.clear()

    def _turn(self, time: float, agent: int) -> Expand | None:
        expand = self.search.turn(agent)
        if expand:
            self.started[expand.iteration] = time
        else:
            self._then(time + 1, agent)
        return expand

    def _then(self, time: float, agent: int) -> None:
        heapq.heappush(self.events, (time, TURN, agent, 0))

    def tell(self, outcome: ExpandOutcome) -> None:
        """The answer is heard when its time has come."""
        flight = self.search.flights.get(outcome.iteration)
        if flight is None or outcome.iteration not in self.started:
            return
        if not outcome.units > 0:
            raise ValueError(f"iteration {outcome.iteration} took {outcome.units} units; it has to take some")
        start = self.started.pop(outcome.iteration)
        self.search.early[outcome.iteration] = outcome
        heapq.heappush(self.events, (start + outcome.units, LANDING, flight.expand.agent, outcome.iteration))
        self.search.version += 1


class RealTimeClock(TeamClock):
    """An agent has its next turn as soon as its answer is there.  What order that makes, the journal tells.

    An agent that has nothing to do rests until something lands; when nothing is under way, its turns go by."""

    def __init__(self, search: DistributedSearch) -> None:
        super().__init__(search)
        self.free = deque(agent.number for agent in search.agents)
        self.resting: list[int] = []

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for flight in self.search.flights.values()]

    def ask(self) -> Expand | None:
        while self.search.may_start:
            if not self.free:
                if self.search.flights:
                    return None
                self._rested()
            agent = self.free.popleft()
            if expand := self.search.turn(agent):
                return expand
            self.resting.append(agent)
        return None

    def _rested(self) -> None:
        self.free.extend(self.resting)
        self.resting.clear()

    def tell(self, outcome: ExpandOutcome) -> None:
        flight = self.search.flights.get(outcome.iteration)
        if flight is None:
            return
        self.search.land(outcome)
        self.free.append(flight.expand.agent)
        self._rested()
