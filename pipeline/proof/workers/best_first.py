"""Best-first search for a proof: gives the next question to Lean, and takes the answer.

It knows neither Lean nor a clock: the same answers give the same search.

The search is an AND/OR graph: a goal has moves, of which one is enough; a move has goals, of which all are needed.
Equal goals are one node. A finished search becomes a script: a line for each tactic, a block for each of several
goals."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.tactics import moves
from pipeline.tactics.script import (
    RETRY_FACTOR,
    RETRY_UNTIL,
    TacticRefused,
    focus_first,
    front_tactics,
    goals_left,
    in_sequence,
    script_lines,
)
from pipeline.tactics.text.goal import PrintedGoal, read_goal
from pipeline.tactics.text.tactic import TacticMove


@dataclass(eq=False)
class ProofStep:
    """A tactic that took a goal to others."""

    of: SearchNode
    family: str
    tactic: str
    subgoals: list[SearchNode]

    @property
    def is_proved(self) -> bool:
        return all(one.proved_by is not None for one in self.subgoals)


@dataclass(eq=False)
class SearchNode:
    """A goal, at `index` in a state; `beside`: the others, as Lean prints them.

    It is new, then open: it stands first in its state, all that it has has a name, and its moves are queued. It is
    proved by the first of its steps whose subgoals all are, and stays so. A goal has no other end: one that nothing
    proves waits until the queue is empty."""

    goal: PrintedGoal
    state: Any
    index: int
    beside: tuple[str, ...]
    cost: float
    prelude: tuple[str, ...] = ()  # names what has no name
    proved_by: ProofStep | None = None
    uses: list[ProofStep] = field(default_factory=list)


def is_relevant(node: SearchNode, root: SearchNode) -> bool:
    """True if a proof of the goal could be part of a proof of the root."""
    seen: set[int] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one.proved_by is not None or id(one) in seen:
            continue
        if one is root:
            return True
        seen.add(id(one))
        todo.extend(step.of for step in one.uses)
    return False


def propagate_proof(step: ProofStep) -> None:
    """Mark upwards: a step whose subgoals are all proved proves its own goal."""
    todo = [step]
    while todo:
        one = todo.pop()
        if one.is_proved and one.of.proved_by is None:
            one.of.proved_by = one
            todo.extend(one.of.uses)


def proof_step(node: SearchNode) -> ProofStep:
    if node.proved_by is None:
        raise ValueError(f"not proved: {node.goal.target}")
    return node.proved_by


def proof_lines(at: tuple[SearchNode, bool]) -> tuple[list[str], list[tuple[SearchNode, bool]]]:
    """A step of the script of a proof. The flag says that the step above has named what has no name in the goal."""
    node, is_named = at
    step = proof_step(node)
    names = ""
    if step.tactic == "intros" and len(step.subgoals) == 1 and not node.goal.inaccessible:
        # what is named right after: one `intro` with the names does both
        names = " ".join(step.subgoals[0].prelude).removeprefix("rename_i ")
    tactic = f"intro {names}" if names else step.tactic
    return [*([] if is_named else node.prelude), tactic], [(subgoal, bool(names)) for subgoal in step.subgoals]


def proof_steps(node: SearchNode) -> Iterator[ProofStep]:
    """Steps of the proof, from the root on."""
    step = proof_step(node)
    yield step
    for subgoal in step.subgoals:
        yield from proof_steps(subgoal)


def split_tactics(script: list[str]) -> tuple[str, ...]:
    """Split a script into tactics: lines that are indented belong to the one above."""
    tactics: list[str] = []
    for line in script:
        if line.startswith(" ") and tactics:
            tactics[-1] += f"\n{line}"
        else:
            tactics.append(line)
    return tuple(tactics)


PATH_WEIGHT, LENGTH_WEIGHT = 0.6, 0.0015  # what the cost of the way so far counts, and a character of the goal
GOAL_COST, STEP_COST, LEAST_STEP_COST = 0.25, 0.1, 0.05
NEW_GOAL_BONUS = 0.2  # a new goal is looked at before more moves for an old one of the same cost
FRONT_SECONDS = 1.0  # to bring a goal to the front
RETRY_COST = 1.0  # a tactic that ran out of time is tried again, with more of it


@dataclass(frozen=True)
class TacticQuery:
    """Run `tactic` on the first goal of `state`, for at most `budget` seconds."""

    state: Any
    tactic: str
    budget: float
    family: str = ""


@dataclass(frozen=True)
class TacticAnswer:
    """The goals that are left and their state; or a failure: `timeout`, or any other word."""

    state: Any = None
    goals: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class SearchOptions:
    """`families`: of moves to use; `weights` multiply their costs."""

    families: frozenset[str] = moves.ALL_FAMILIES
    weights: Mapping[str, float] = field(default_factory=dict)


class BestFirstSearch:
    """`query` until it is None, `learn()` after each; then `script` is the proof, or None when all was tried."""

    def __init__(self, state: Any, goals: tuple[str, ...], options: SearchOptions | None = None) -> None:
        self.options = options or SearchOptions()
        self.queue: list[tuple[float, int, SearchNode, TacticMove | None]] = []
        self.shared: dict[str, SearchNode] = {}
        self.pushed = 0
        self.root = self.node(state, goals, 0, 0.0)
        self.running = self.run()
        self.query: TacticQuery | None = next(self.running, None)

    def learn(self, answer: TacticAnswer) -> None:
        try:
            self.query = self.running.send(answer)
        except StopIteration:
            self.query = None

    @property
    def script(self) -> tuple[str, ...] | None:
        return split_tactics(script_lines((self.root, False), proof_lines)) if self.root.proved_by else None

    @property
    def is_straight(self) -> bool:
        """True if each tactic of the script ran on what the one before left: then it ran as a whole."""
        steps = [*proof_steps(self.root)]
        return all(len(step.subgoals) <= 1 and all(one.uses[0] is step for one in step.subgoals) for step in steps)

    @property
    def families(self) -> tuple[str, ...]:
        """The families that the proof is made of, in order."""
        return tuple(step.family for step in proof_steps(self.root)) if self.root.proved_by else ()

    def run(self) -> Generator[TacticQuery, TacticAnswer, None]:
        while self.queue and self.root.proved_by is None:
            _, _, node, move = heapq.heappop(self.queue)
            if is_relevant(node, self.root):
                yield from self.open(node) if move is None else self.attempt(node, move)

    def node(self, state: Any, goals: tuple[str, ...], index: int, cost: float) -> SearchNode:
        """The node of the goal at `index`; a goal in the same words as one before is the same node."""
        goal = read_goal(goals[index])
        if goal.text not in self.shared:
            beside = (*goals[index + 1 :], *goals[:index])
            self.shared[goal.text] = SearchNode(goal, state, index, beside, cost)
            self.push(self.shared[goal.text], None, -NEW_GOAL_BONUS)
        return self.shared[goal.text]

    def push(self, node: SearchNode, move: TacticMove | None, cost: float) -> None:
        priority = PATH_WEIGHT * node.cost + cost + LENGTH_WEIGHT * len(node.goal.text)
        heapq.heappush(self.queue, (priority, self.pushed, node, move))
        self.pushed += 1

    def open(self, node: SearchNode) -> Generator[TacticQuery, TacticAnswer, None]:
        """Bring the goal to the front, name what it has, try what may prove it outright, then queue its moves."""
        rotation, prelude = front_tactics(node.goal, node.index)
        if tactics := (*rotation, *prelude):
            answer = yield TacticQuery(node.state, in_sequence(tactics), FRONT_SECONDS)
            if answer.failure or not answer.goals:
                return
            node.state, node.goal, node.prelude = answer.state, read_goal(answer.goals[0]), prelude
            node.beside = answer.goals[1:]
        node.index = 0
        if "finishers" in self.options.families:
            for move in moves.finishing_moves(node.goal):
                yield from self.attempt(node, move)
                if node.proved_by:
                    return
        for move in moves.propose_moves(node.goal, self.options.families, self.options.weights):
            self.push(node, move, move.cost)

    def attempt(self, node: SearchNode, move: TacticMove) -> Generator[TacticQuery, TacticAnswer, None]:
        tactic = focus_first(move.tactic, len(node.beside) + 1)
        answer = yield TacticQuery(node.state, tactic, move.budget, move.family)
        if answer.failure == "timeout" and move.budget < RETRY_UNTIL:
            again = move._replace(budget=min(move.budget * RETRY_FACTOR, RETRY_UNTIL), cost=move.cost + RETRY_COST)
            self.push(node, again, again.cost)
        if answer.failure:
            return
        try:
            left = goals_left(answer.goals, node.beside, closing=move.closing)
        except TacticRefused:
            return
        if node.goal.text in (read_goal(text).text for text in left):
            return
        cost = node.cost + max(move.cost, LEAST_STEP_COST) + GOAL_COST * max(len(left) - 1, 0) + STEP_COST
        subgoals = [self.node(answer.state, answer.goals, index, cost) for index in range(len(left))]
        step = ProofStep(node, move.family, move.tactic, subgoals)
        for subgoal in subgoals:
            subgoal.uses.append(step)
        propagate_proof(step)
