"""Whose turn it is: in virtual time, where no thread's timing shows, or as answers come."""

from __future__ import annotations

import heapq
from collections import deque

from pipeline.mcts.distributed import Distributed
from pipeline.mcts.model import Expand, Outcome
from pipeline.mcts.tree import Tree

LANDING, TURN = 0, 1


class Clock:
    def __init__(self, search: Distributed) -> None:
        self.search = search

    @property
    def version(self) -> int:
        return self.search.version

    @property
    def tree(self) -> Tree:
        return self.search.tree

    @property
    def calls(self) -> int:
        return self.search.calls

    @property
    def finished(self) -> bool:
        return not self.search.going and not self.search.flights


class Virtual(Clock):
    """Each turn takes the units that its outcome says, or one if it came to nothing.

    Time goes on when all answers are there, so their order among themselves decides nothing.  At the same time what
    lands comes first, then agents by number."""

    def __init__(self, search: Distributed) -> None:
        super().__init__(search)
        self.events: list[tuple[float, int, int, int]] = [(0.0, TURN, agent.number, 0) for agent in search.agents]
        self.started: dict[int, float] = {}  # iterations without an answer yet
        self.waiting: list[int] = []  # agents who found the budget reserved by others

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for number, flight in self.search.flights.items() if number in self.started]

    def ask(self) -> Expand | None:
        while self.events and not self.finished:
            time, kind, agent, iteration = self.events[0]
            if any(time > start for start in self.started.values()):
                return None
            heapq.heappop(self.events)
            if kind == LANDING:
                self._land(time, agent, iteration)
            elif not self.search.going:
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

    def tell(self, outcome: Outcome) -> None:
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


class AsTheyCome(Clock):
    """An agent has its next turn as soon as its answer is there.  What order that makes, the journal tells.

    An agent that has nothing to do rests until something lands; when nothing is under way, its turns go by."""

    def __init__(self, search: Distributed) -> None:
        super().__init__(search)
        self.free = deque(agent.number for agent in search.agents)
        self.resting: list[int] = []

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for flight in self.search.flights.values()]

    def ask(self) -> Expand | None:
        while self.search.going:
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

    def tell(self, outcome: Outcome) -> None:
        flight = self.search.flights.get(outcome.iteration)
        if flight is None:
            return
        self.search.land(outcome)
        self.free.append(flight.expand.agent)
        self._rested()
