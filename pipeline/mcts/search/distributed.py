"""Search by many agents over one tree, in virtual or real time.

Each agent takes turns, reserves where it works, and may be blocked, delayed or rerouted. A turn ends in an `Expand`
that is in flight until its answer lands, or in nothing: blocked, delayed, no way on. When the root is decided, what is
in flight is aborted. A clock says whose turn it is."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.mcts.search import agents
from pipeline.mcts.search.agents import Agent, Interventions, Obstacles, ReservationRules
from pipeline.mcts.search.nodes import OPEN
from pipeline.mcts.search.records import FIRST_SUCCESS, Expand, ExpandOutcome, SearchRules, Subgoal
from pipeline.mcts.search.trace import (
    ABORT,
    BLOCKED,
    DEAD_NODE,
    DELAYED,
    NO_EXPANSION,
    Note,
    Turn,
    landed_turn,
    trace_record,
)
from pipeline.mcts.search.tree import SearchTree, Selection


class TeamRules(NamedTuple):
    """Rules of a distributed search."""

    rules: SearchRules
    steering: ReservationRules
    interventions: Interventions = Interventions()


class ExpandInFlight(NamedTuple):
    expand: Expand
    selection: Selection
    reroute: Mapping[str, Any] | None


class DistributedSearch:
    """`turn` is one iteration of an agent; what it started `land`s later, in any order.  Clocks say when."""

    def __init__(self, team: TeamRules, root: Subgoal, note: Note = lambda record: None) -> None:
        self.rules, self.steering, interventions = team
        self.note, self.reroute = note, interventions.reroute
        self.tree = SearchTree(self.rules.maths, root)
        self.obstacles = Obstacles(interventions)
        self.agents = [Agent(number) for number in range(self.steering.agents)]
        self.flights: dict[int, ExpandInFlight] = {}  # by iteration
        self.early: dict[int, ExpandOutcome] = {}  # answers that are there, and land later
        self.iterations = self.calls = self.reserved = self.version = self.aborted = 0

    @property
    def is_over(self) -> bool:
        return self.tree.root.status != OPEN

    @property
    def may_start(self) -> bool:
        return self.iterations < self.rules.budget.iterations and not self.is_over and self._limit() > 0

    @property
    def is_finished(self) -> bool:
        return not self.may_start and not self.flights

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for flight in self.flights.values()]

    def _limit(self) -> int:
        """Calls that one more iteration may take."""
        calls, most = self.rules.budget.calls, self.rules.expansion.attempts
        return most if calls is None else min(most, calls - self.calls - self.reserved)

    def turn(self, number: int) -> Expand | None:
        """Start what the agent is to try; None if its iteration was spent on nothing.

        A blocked goal is gone around as often as allowed; where there is no way on it looks elsewhere, unless the goal
        needs one on the way to it, or all ways were tried."""
        agent, banned, around = self.agents[number], set[int](), list[int]()
        block = delay = None
        reason, is_way_over = "", False
        self.iterations += 1
        self.version += 1
        agents.refresh_view(self.tree, agent, self.steering.refresh)
        while True:
            selection = agents.select_for_agent(self.tree, self.steering, agent, banned)
            node = selection.node
            if selection.opens:
                if met := self.obstacles.block_record(node, self.iterations):
                    block = met
                    if len(around) >= self.reroute:
                        reason = BLOCKED
                        break
                    around.append(node.number)
                elif delay := self.obstacles.delay_record(node, self.iterations):
                    reason = DELAYED
                    break
                else:
                    return self._reserve(agent, selection, _reroute_record(around, node.number))
            elif is_way_over := not banned and node.exhausted:
                reason = DEAD_NODE if self.tree.is_dead_end(node) else NO_EXPANSION
                self.tree.backup(selection.path, node)
                agents.update_view(agent, selection.path, node)
                break
            elif node is self.tree.root:
                reason = BLOCKED if block else NO_EXPANSION
                break
            banned.add(node.number)
        turn = Turn(self.iterations, number, reason, selection.nodes(), node, backed_up=is_way_over, delay=delay)
        self._end_turn(turn._replace(block=block if reason == BLOCKED else None, reroute=_reroute_record(around, None)))
        return None

    def _reserve(self, agent: Agent, selection: Selection, reroute: Mapping[str, Any] | None) -> Expand:
        node, limit = selection.node, self._limit()
        tactics, first = self.tree.take(node, limit), self.rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, agent.number, node.number, selection.nodes(), tactics, limit, first)
        self.flights[expand.iteration] = ExpandInFlight(expand, selection, reroute)
        self.reserved += limit
        agent.last = frozenset(action.number for action in selection.path)
        _count_flying(selection, 1)
        return expand

    def land(self, outcome: ExpandOutcome) -> None:
        flight = self.flights.get(outcome.iteration)
        if flight is None:
            return  # it was aborted
        self._release(flight)
        self.version += 1
        self.calls += len(outcome.attempts)
        turn = landed_turn(self.tree, flight.expand, flight.selection, outcome)
        agents.update_view(self.agents[turn.agent], flight.selection.path, turn.node)
        self._end_turn(turn._replace(reroute=flight.reroute))

    def _release(self, flight: ExpandInFlight) -> None:
        del self.flights[flight.expand.iteration]
        self.reserved -= flight.expand.limit
        _count_flying(flight.selection, -1)

    def _note(self, turn: Turn) -> None:
        self.note(trace_record(self.tree, turn, len(self.flights), self.aborted))

    def _end_turn(self, turn: Turn) -> None:
        """When the root is decided, what is in flight is aborted."""
        self._note(turn)
        for flight in [*self.flights.values()] if self.is_over else ():
            expand, node = flight.expand, flight.selection.node
            self._release(flight)
            self.tree.release(node, expand.tactics)
            self.aborted += 1
            early = self.early.pop(expand.iteration, None)
            self.calls += len(early.attempts) if early else expand.limit  # they were started
            tactics = [attempt.tactic for attempt in early.attempts] if early else expand.tactics
            self._note(Turn(expand.iteration, expand.agent, ABORT, expand.path, node, tactics=tactics))


def _count_flying(selection: Selection, by: int) -> None:
    selection.node.flying += by
    for action in selection.path:
        action.flying += by
        action.owner.flying += by


def _reroute_record(around: list[int], to: int | None) -> dict[str, Any] | None:
    return {"from": around, "to": to} if around else None


LANDING, TURN = 0, 1


class VirtualClock(DistributedSearch):
    """Each turn takes the units that its outcome says, or one if it came to nothing.

    Time goes on when all answers are there, so their order among themselves decides nothing.  At the same time what
    lands comes first, then agents by number."""

    def __init__(self, team: TeamRules, root: Subgoal, note: Note = lambda record: None) -> None:
        super().__init__(team, root, note)
        self.events: list[tuple[float, int, int, int]] = [(0.0, TURN, agent.number, 0) for agent in self.agents]
        self.started: dict[int, float] = {}  # iterations without an answer yet
        self.waiting: list[int] = []  # agents who found the budget reserved by others

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for number, flight in self.flights.items() if number in self.started]

    def ask(self) -> Expand | None:
        while self.events and not self.is_finished:
            time, kind, agent, iteration = self.events[0]
            if any(time > start for start in self.started.values()):
                return None
            heapq.heappop(self.events)
            if kind == LANDING:
                self.land(self.early.pop(iteration))
                # then those may go on who had to wait, since what is reserved is more than what is used
                for each in (agent, *self.waiting):
                    self._queue_turn(time, each)
                self.waiting.clear()
            elif not self.may_start:
                self.waiting.append(agent)
            elif expand := self.turn(agent):
                self.started[expand.iteration] = time
                return expand
            else:
                self._queue_turn(time + 1, agent)
        return None

    def _queue_turn(self, time: float, agent: int) -> None:
        heapq.heappush(self.events, (time, TURN, agent, 0))

    def tell(self, outcome: ExpandOutcome) -> None:
        """The answer is heard when its time has come."""
        flight = self.flights.get(outcome.iteration)
        if flight is None or outcome.iteration not in self.started:
            return
        if not outcome.units > 0:
            raise ValueError(f"iteration {outcome.iteration} took {outcome.units} units; it has to take some")
        start = self.started.pop(outcome.iteration)
        self.early[outcome.iteration] = outcome
        heapq.heappush(self.events, (start + outcome.units, LANDING, flight.expand.agent, outcome.iteration))
        self.version += 1


class RealTimeClock(DistributedSearch):
    """An agent has its next turn as soon as its answer is there.  What order that makes, the journal tells.

    An agent that has nothing to do rests until something lands; when nothing is under way, its turns go by."""

    def __init__(self, team: TeamRules, root: Subgoal, note: Note = lambda record: None) -> None:
        super().__init__(team, root, note)
        self.free = deque(agent.number for agent in self.agents)
        self.resting: list[int] = []

    def ask(self) -> Expand | None:
        while self.may_start:
            if not self.free:
                if self.flights:
                    return None
                self._end_rest()
            agent = self.free.popleft()
            if expand := self.turn(agent):
                return expand
            self.resting.append(agent)
        return None

    def _end_rest(self) -> None:
        self.free.extend(self.resting)
        self.resting.clear()

    def tell(self, outcome: ExpandOutcome) -> None:
        if flight := self.flights.get(outcome.iteration):
            self.land(outcome)
            self.free.append(flight.expand.agent)
            self._end_rest()
