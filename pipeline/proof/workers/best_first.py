"""Best-first search for a proof: says what to ask of Lean next, and is told the answer.

It knows neither Lean nor a clock: the same answers give the same search.

The search is an AND/OR graph: a goal has moves, of which one is enough; a move has goals, of which all are needed.
Equal goals are one node. A finished search becomes a script: a line for each tactic, a block for each of several
goals."""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import indent as indented
from typing import Any

from pipeline.tactics import moves
from pipeline.tactics.families import logic
from pipeline.tactics.text.goal import PrintedGoal, read_goal
from pipeline.tactics.text.move import TacticMove


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
    """A goal, and where it stands: the `place`th of `count` goals of a state."""

    goal: PrintedGoal
    state: Any
    place: int
    count: int
    cost: float
    prelude: list[str] = field(default_factory=list)  # brings it into the form that the moves are for
    proved_by: ProofStep | None = None
    uses: list[ProofStep] = field(default_factory=list)


def is_relevant(node: SearchNode, root: SearchNode) -> bool:
    """Whether a proof of it could be part of a proof of the root."""
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
    """A step whose goals are all proved proves its own, and so on upwards."""
    todo = [step]
    while todo:
        one = todo.pop()
        if one.is_proved and one.of.proved_by is None:
            one.of.proved_by = one
            todo.extend(one.of.uses)


def script_lines(node: SearchNode, indent: str = "") -> list[str]:
    """The proof of a goal."""
    step = proof_step(node)
    written = [indent + line for line in [*node.prelude, step.tactic]]
    if len(step.subgoals) == 1:
        return join_intro(written, script_lines(step.subgoals[0], indent), node)
    for subgoal in step.subgoals:
        first, *rest = script_lines(subgoal, indent + "  ")
        written += [f"{indent}· {first.strip()}", *rest]
    return written


def proof_step(node: SearchNode) -> ProofStep:
    if node.proved_by is None:
        raise ValueError(f"not proved: {node.goal.target}")
    return node.proved_by


def join_intro(before: list[str], after: list[str], node: SearchNode) -> list[str]:
    """`intros` and the names given then: one `intro` with the names."""
    named = after[0].strip()
    if before[-1].strip() == "intros" and named.startswith("rename_i ") and not node.goal.inaccessible:
        indent = before[-1][: -len("intros")]
        return [*before[:-1], f"{indent}intro {named.removeprefix('rename_i ')}", *after[1:]]
    return before + after


def proof_steps(node: SearchNode) -> Iterator[ProofStep]:
    """All steps of the proof, from the root on."""
    step = proof_step(node)
    yield step
    for subgoal in step.subgoals:
        yield from proof_steps(subgoal)


def split_tactics(written: list[str]) -> tuple[str, ...]:
    """The script a tactic at a time: lines that are indented belong to the one above."""
    found: list[str] = []
    for line in written:
        if line.startswith(" ") and found:
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return tuple(found)


def as_one_tactic(script: list[str] | tuple[str, ...]) -> str:
    """The whole script in brackets, which Lean takes as one tactic."""
    return "(\n" + indented("\n".join(script), "  ") + "\n)"


PATH_WEIGHT, LENGTH_WEIGHT = 0.6, 0.0015  # what the cost of the way so far counts, and a character of the goal
GOAL_COST, STEP_COST, LEAST_STEP_COST = 0.25, 0.1, 0.05
NEW_GOAL_BONUS = 0.2  # a new goal is looked at before more moves for an old one of the same cost
RETRY_COST, RETRY_FACTOR = 1.0, 5  # a tactic that ran out of time is tried again, with more of it
RETRY_UNTIL = 30.0  # seconds
MOST_SUBGOALS = 12


@dataclass(frozen=True)
class TacticQuery:
    """Run `tactic` on the first goal of `state`, for at most `budget` seconds."""

    state: Any
    tactic: str
    budget: float
    family: str = ""


@dataclass(frozen=True)
class TacticAnswer:
    """The goals that are left and the state they are in; or why there is none: `timeout`, or any other word."""

    state: Any = None
    goals: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class SearchOptions:
    """`families`: kinds of moves to use; `weights` multiply their costs; `hints`: tactics tried on the root first."""

    families: frozenset[str] = moves.ALL_FAMILIES
    weights: Mapping[str, float] = field(default_factory=dict)
    hints: tuple[str, ...] = ()


class BestFirstSearch:
    """`next()` until it is None, `learn()` after each; then `script` is the proof, or None when all was tried."""

    def __init__(self, state: Any, goals: tuple[str, ...], options: SearchOptions | None = None) -> None:
        self.options = options or SearchOptions()
        self.queue: list[tuple[float, int, SearchNode, TacticMove | None]] = []
        self.shared: dict[str, SearchNode] = {}
        self.pushed = 0
        self.root = self.node(state, goals, 0, 0.0)
        self.running = self.run()
        self.pending: TacticQuery | None = next(self.running, None)

    def next(self) -> TacticQuery | None:
        return self.pending

    def learn(self, answer: TacticAnswer) -> None:
        try:
            self.pending = self.running.send(answer)
        except StopIteration:
            self.pending = None

    @property
    def script(self) -> tuple[str, ...] | None:
        return split_tactics(script_lines(self.root)) if self.root.proved_by else None

    @property
    def is_straight(self) -> bool:
        """Whether the script is a line of tactics each run on what the one before left: then it ran as a whole."""
        steps = [*proof_steps(self.root)]
        return all(len(step.subgoals) <= 1 and all(one.uses[0] is step for one in step.subgoals) for step in steps)

    @property
    def families(self) -> tuple[str, ...]:
        """The families that the proof is made of, in order."""
        return tuple(step.family for step in proof_steps(self.root)) if self.root.proved_by else ()

    def run(self) -> Generator[TacticQuery, TacticAnswer, None]:
        for hint in self.options.hints:
            yield from self.attempt(self.root, TacticMove(0.0, "hint", hint, 2.5))
        while self.queue and self.root.proved_by is None:
            _, _, node, move = heapq.heappop(self.queue)
            if is_relevant(node, self.root):
                yield from self.open(node) if move is None else self.attempt(node, move)

    def node(self, state: Any, goals: tuple[str, ...], place: int, cost: float) -> SearchNode:
        """The goal at that place; one that was seen before, in the same words, is the same node."""
        goal = read_goal(goals[place])
        if goal.text not in self.shared:
            self.shared[goal.text] = SearchNode(goal, state, place, len(goals), cost)
            self.push(self.shared[goal.text], None, -NEW_GOAL_BONUS)
        return self.shared[goal.text]

    def push(self, node: SearchNode, move: TacticMove | None, cost: float) -> None:
        priority = PATH_WEIGHT * node.cost + cost + LENGTH_WEIGHT * len(node.goal.text)
        heapq.heappush(self.queue, (priority, self.pushed, node, move))
        self.pushed += 1

    def open(self, node: SearchNode) -> Generator[TacticQuery, TacticAnswer, None]:
        """Bring the goal to the front, name what it has, try what may prove it outright, then queue its moves."""
        names = fresh_names(node.goal)
        prelude = [f"rename_i {' '.join(names)}"] if names else []
        if tactics := [*([f"rotate_left {node.place}"] if node.place else []), *prelude]:
            answer = yield TacticQuery(
                node.state, "; ".join(tactics) if len(tactics) == 1 else f"({'; '.join(tactics)})", 1.0
            )
            if answer.failure or not answer.goals:
                return
            node.state, node.goal, node.prelude = answer.state, read_goal(answer.goals[0]), prelude
        node.place = 0
        if "finishers" in self.options.families:
            for move in logic.finishing_moves(node.goal):
                yield from self.attempt(node, move)
                if node.proved_by:
                    return
        for move in moves.propose_moves(node.goal, self.options.families, self.options.weights):
            self.push(node, move, move.cost)

    def attempt(self, node: SearchNode, move: TacticMove) -> Generator[TacticQuery, TacticAnswer, None]:
        tactic = move.tactic if node.count == 1 else f"focus {move.tactic}"  # `done` speaks of all goals in sight
        answer = yield TacticQuery(node.state, tactic, move.budget, move.family)
        if answer.failure == "timeout" and move.budget < RETRY_UNTIL:
            again = move._replace(budget=min(move.budget * RETRY_FACTOR, RETRY_UNTIL), cost=move.cost + RETRY_COST)
            self.push(node, again, again.cost)
        left = len(answer.goals) - (node.count - 1)
        if answer.failure or not 0 <= left <= MOST_SUBGOALS or (left and move.closing):
            return
        texts = [read_goal(text).text for text in answer.goals[:left]]
        if node.goal.text in texts or any(has_unknowns(text) for text in texts):
            return
        cost = node.cost + max(move.cost, LEAST_STEP_COST) + GOAL_COST * max(left - 1, 0) + STEP_COST
        subgoals = [self.node(answer.state, answer.goals, place, cost) for place in range(left)]
        step = ProofStep(node, move.family, move.tactic, subgoals)
        for subgoal in subgoals:
            subgoal.uses.append(step)
        propagate_proof(step)


def has_unknowns(text: str) -> bool:
    """Goals that share something yet to be found are not looked at one by one."""
    return re.search(r"(?<!\w)\?\w", text) is not None


def fresh_names(goal: PrintedGoal) -> list[str]:
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
