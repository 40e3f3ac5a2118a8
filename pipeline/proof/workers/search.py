"""Best-first search for a proof: it says what to ask of Lean next, and is told what came of it.

It knows neither Lean nor a clock: the same answers give the same search."""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.proof.workers import search_script
from pipeline.proof.workers.search_nodes import Node, Step, relevant, settle
from pipeline.tactics import finishers, moves
from pipeline.tactics.goal import PrintedGoal, read
from pipeline.tactics.move import Move

PATH, LENGTH = 0.6, 0.0015  # what the cost of the way so far counts, and a character of the goal
EACH_GOAL, EACH_STEP, LEAST_STEP = 0.25, 0.1, 0.05
EAGER = 0.2  # a new goal is looked at before more moves for an old one of the same cost
AGAIN_COST, AGAIN_FACTOR = 1.0, 5  # a tactic that ran out of time is tried again, with more of it
AGAIN_UNTIL = 30.0  # seconds
MOST_SUBGOALS = 12


@dataclass(frozen=True)
class Ask:
    """Run `tactic` on the first goal of `state`, for at most `budget` seconds."""

    state: Any
    tactic: str
    budget: float
    family: str = ""


@dataclass(frozen=True)
class Answer:
    """The goals that are left and the state they are in; or why there is none: `timeout`, or any other word."""

    state: Any = None
    goals: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Options:
    """`families`: kinds of moves to use; `weights` multiply their costs; `hints`: tactics tried on the root first."""

    families: frozenset[str] = moves.EVERY
    weights: Mapping[str, float] = field(default_factory=dict)
    hints: tuple[str, ...] = ()


class Search:
    """`next()` until it is None, `learn()` after each; then `script` is the proof, or None when all was tried."""

    def __init__(self, state: Any, goals: tuple[str, ...], options: Options | None = None) -> None:
        self.options = options or Options()
        self.queue: list[tuple[float, int, Node, Move | None]] = []
        self.shared: dict[str, Node] = {}
        self.pushed = 0
        self.root = self.node(state, goals, 0, 0.0)
        self.running = self.run()
        self.pending: Ask | None = next(self.running, None)

    def next(self) -> Ask | None:
        return self.pending

    def learn(self, answer: Answer) -> None:
        try:
            self.pending = self.running.send(answer)
        except StopIteration:
            self.pending = None

    @property
    def script(self) -> tuple[str, ...] | None:
        return search_script.tactics(search_script.lines(self.root)) if self.root.proved_by else None

    @property
    def straight(self) -> bool:
        """Whether the script is a line of tactics each run on what the one before left: then it ran as a whole."""
        steps = [*search_script.steps(self.root)]
        return all(len(step.subgoals) <= 1 and all(one.uses[0] is step for one in step.subgoals) for step in steps)

    @property
    def families(self) -> tuple[str, ...]:
        """The families that the proof is made of, in order."""
        return tuple(step.family for step in search_script.steps(self.root)) if self.root.proved_by else ()

    def run(self) -> Generator[Ask, Answer, None]:
        for hint in self.options.hints:
            yield from self.attempt(self.root, Move(0.0, "hint", hint, 2.5))
        while self.queue and self.root.proved_by is None:
            _, _, node, move = heapq.heappop(self.queue)
            if relevant(node, self.root):
                yield from self.open(node) if move is None else self.attempt(node, move)

    def node(self, state: Any, goals: tuple[str, ...], place: int, cost: float) -> Node:
        """The goal at that place; one that was seen before, in the same words, is the same node."""
        goal = read(goals[place])
        if goal.text not in self.shared:
            self.shared[goal.text] = Node(goal, state, place, len(goals), cost)
            self.push(self.shared[goal.text], None, -EAGER)
        return self.shared[goal.text]

    def push(self, node: Node, move: Move | None, cost: float) -> None:
        priority = PATH * node.cost + cost + LENGTH * len(node.goal.text)
        heapq.heappush(self.queue, (priority, self.pushed, node, move))
        self.pushed += 1

    def open(self, node: Node) -> Generator[Ask, Answer, None]:
        """Bring the goal to the front, name what it has, try what may prove it outright, then queue its moves."""
        names = renamed(node.goal)
        prelude = [f"rename_i {' '.join(names)}"] if names else []
        if tactics := [*([f"rotate_left {node.place}"] if node.place else []), *prelude]:
            answer = yield Ask(node.state, "; ".join(tactics) if len(tactics) == 1 else f"({'; '.join(tactics)})", 1.0)
            if answer.failure or not answer.goals:
                return
            node.state, node.goal, node.prelude = answer.state, read(answer.goals[0]), prelude
        node.place = 0
        if "finishers" in self.options.families:
            for move in finishers.first(node.goal):
                yield from self.attempt(node, move)
                if node.proved_by:
                    return
        for move in moves.propose(node.goal, self.options.families, self.options.weights):
            self.push(node, move, move.cost)

    def attempt(self, node: Node, move: Move) -> Generator[Ask, Answer, None]:
        tactic = move.tactic if node.count == 1 else f"focus {move.tactic}"  # `done` speaks of all goals in sight
        answer = yield Ask(node.state, tactic, move.budget, move.family)
        if answer.failure == "timeout" and move.budget < AGAIN_UNTIL:
            again = move._replace(budget=min(move.budget * AGAIN_FACTOR, AGAIN_UNTIL), cost=move.cost + AGAIN_COST)
            self.push(node, again, again.cost)
        left = len(answer.goals) - (node.count - 1)
        if answer.failure or not 0 <= left <= MOST_SUBGOALS or (left and move.closing):
            return
        texts = [read(text).text for text in answer.goals[:left]]
        if node.goal.text in texts or any(open_ended(text) for text in texts):
            return
        cost = node.cost + max(move.cost, LEAST_STEP) + EACH_GOAL * max(left - 1, 0) + EACH_STEP
        subgoals = [self.node(answer.state, answer.goals, place, cost) for place in range(left)]
        step = Step(node, move.family, move.tactic, subgoals)
        for subgoal in subgoals:
            subgoal.uses.append(step)
        settle(step)


def open_ended(text: str) -> bool:
    """Goals that share something yet to be found are not looked at one by one."""
    return re.search(r"(?<!\w)\?\w", text) is not None


def renamed(goal: PrintedGoal) -> list[str]:
    """Names for what has none that can be used, in order; induction hypotheses keep theirs."""
    taken = goal.text
    names: list[str] = []
    for hidden in goal.inaccessible:
        stem = re.sub(r"[^\w]|\d", "", hidden.split("✝")[0]) or "v"
        stem = "ih" if "ih" in stem else stem
        number = 0
        while (name := f"{stem}{number or ''}") in names or re.search(rf"(?<![\w✝.]){name}(?![\w✝])", taken):
            number += 1
        names.append(name)
    return names
