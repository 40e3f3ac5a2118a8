"""Goals and actions of the AND/OR graph: their values and states, and the script of a proof.

A goal has actions, of which one is enough; an action has goals, of which all are needed. Whatever
depends on a goal that is solved or dead changes with it at once. The first proof of a goal stays its proof: it rests
on goals that were proved before, so there is no circle.

A goal may have one more tactic only after enough visits (progressive widening). A goal is worth what its most visited
action is; an action is worth its worst goal, or the product of all.

Nodes are read millions of times: hence slots, and what a visit needs is computed when it changes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from pipeline.mcts.search.records import PRODUCT, SelectionRules
from pipeline.tactics.script import script_lines

OPEN, SOLVED, DEAD = 0, 1, 2
STATUS_WORDS = ("open", "solved", "dead")
CYCLE, CHILD, SAME = "cycle", "child", "same"  # why an action that applied is dead

# A goal:     OPEN -> SOLVED  an action of it is solved
#             OPEN -> DEAD    nothing is left to try and no action lives, or only proofs by way of itself are left
# An action:  OPEN -> SOLVED  all of its goals are solved
#             OPEN -> DEAD    a goal of it is dead (CHILD), or its goal is, as proofs would be circles (CYCLE)
#             it begins DEAD  if it leads back to its own goal (CYCLE), or left the same goals as another (SAME)
# SOLVED and DEAD are final.


@dataclass(slots=True, eq=False)
class GoalNode:
    """A goal in the tree."""

    number: int
    key: str
    names: str
    estimate: float  # its value when it was new
    depth: int
    origin: Action | None = None
    place: int = 0
    value: float = 0.0
    visits: int = 0
    flying: int = 0  # reservations that pass through it or end here
    pending: int = 0  # of its moves: being tried just now
    lost: int = 0  # moves without an action that lives
    status: int = OPEN
    mark: int = -1
    checked: int = -1
    mass: float = 0.0  # the priors of live actions together
    opens_at: float = -1.0  # more visits than this, and another move may be tried
    tactics: list[str] | None = None
    priors: array[float] = field(default_factory=lambda: array("d"))
    untried: list[int] = field(default_factory=list)  # the next to try is the last
    live: list[Action] = field(default_factory=list)
    uses: list[Action] = field(default_factory=list)
    best: Action | None = None  # the live action that was visited most
    proof: Action | None = None

    @property
    def exhausted(self) -> bool:
        """True if nothing is left to be tried here, nor being tried."""
        return self.tactics is not None and not self.untried and not self.pending


@dataclass(slots=True, eq=False)
class Action:
    """A tactic that applied; its children are the goals that it left."""

    number: int
    owner: GoalNode
    tactic: str
    prior: float
    visits: int = 0
    flying: int = 0
    status: int = OPEN
    left: int = 0  # children that are not solved yet
    value: float = 0.0
    weight: float = inf  # of it in exploring
    why: str = ""
    children: tuple[GoalNode, ...] = ()
    one: GoalNode | None = None  # the child, if there is but one


def action_value(maths: SelectionRules, action: Action) -> float:
    """Value of an action: that of its worst goal, or the product of all, since all are needed."""
    if action.one:
        return action.one.value
    values = [child.value for child in action.children]
    return prod(values) if maths.backup == PRODUCT else min(values, default=1.0)


def fallback_value(node: GoalNode) -> float:
    """Value of a goal where nothing leads on as yet: each move that came to nothing takes its share."""
    return node.estimate * (1 - node.lost / len(node.tactics)) if node.tactics else node.estimate


def is_more_visited(action: Action, best: Action | None) -> bool:
    """True if more is known of the action; ties go to the higher value, then to the earlier."""
    if best is None or action.visits != best.visits:
        return best is None or action.visits > best.visits
    return (action.value, -action.number) > (best.value, -best.number)


def visits_for_next(maths: SelectionRules, actions: int) -> float:
    """Visits that a goal with so many live actions needs, and one more, before it may have another."""
    return float((actions / maths.widen) ** (1 / maths.alpha)) if actions else -1.0


def next_opening(maths: SelectionRules, node: GoalNode) -> float:
    if node.untried or (node.tactics is None and not node.pending):
        return visits_for_next(maths, len(node.live) + node.pending)
    return inf


def recompute(maths: SelectionRules, node: GoalNode) -> None:
    """Compute anew what depends on its actions or moves."""
    node.mass = 0.0
    for action in node.live:  # not `sum`: it rounds otherwise since Python 3.12
        node.mass += action.prior
    node.opens_at = next_opening(maths, node)
    if node.best is None or node.best.status != OPEN:
        node.best = max(node.live, key=lambda each: (each.visits, each.value, -each.number), default=None)
    if node.status == OPEN:
        node.value = node.best.value if node.best else fallback_value(node)


def weakest_child(action: Action, mark: int) -> GoalNode | None:
    """The goal to work at next: the one least hoped for, since if it fails, all was in vain.  Ties go to the first.

    None if a goal that is still needed has the mark: it is on the way here, and cannot be its own means."""
    found: GoalNode | None = None
    for child in action.children:
        if child.status == SOLVED:
            continue
        if child.mark == mark:
            return None
        if found is None or child.value < found.value:
            found = child
    return found


def mark_solved(action: Action) -> None:
    action.status, action.owner.status = SOLVED, SOLVED
    action.owner.proof, action.owner.value = action, 1.0


def drop_action(maths: SelectionRules, action: Action, why: str) -> None:
    action.status, action.why, action.value = DEAD, why, 0.0
    action.owner.live.remove(action)
    action.owner.lost += 1
    recompute(maths, action.owner)


def is_hopeless(node: GoalNode) -> bool:
    return node.status == OPEN and node.exhausted and not node.live


def mark_dead(node: GoalNode) -> None:
    node.status, node.value = DEAD, 0.0


def propagate(maths: SelectionRules, settled: list[GoalNode]) -> None:
    """Mark upwards from goals just solved or dead, by every way that leads to them."""
    while settled:
        node = settled.pop()
        for action in node.uses:
            owner = action.owner
            if action.status != OPEN:
                continue
            if node.status == DEAD:
                drop_action(maths, action, CHILD)
                if is_hopeless(owner):
                    mark_dead(owner)
                    settled.append(owner)
                continue
            action.left -= 1
            action.value = action_value(maths, action)
            if owner.status != OPEN:
                action.status = OPEN if action.left else SOLVED
            elif not action.left:
                mark_solved(action)
                settled.append(owner)
            elif owner.best is action:
                owner.value = action.value


def mark_cyclic_dead(maths: SelectionRules, start: GoalNode) -> bool:
    """Goals at and below `start` that could be proved only by way of themselves are dead; says whether there were any.

    A goal has grounds to hope if something is left to try at it, or if an action has grounds for all of its goals. An
    action that leads back is not dead by itself: what it leads back to may yet be proved in another way."""
    region = _open_region(start)
    grounded = _grounded_goals(region)
    lost = [node for node in region if node.number not in grounded]
    for node in lost:
        mark_dead(node)
        for action in node.live[:]:
            drop_action(maths, action, CYCLE)
    propagate(maths, lost[:])
    return bool(lost)


def _open_region(start: GoalNode) -> list[GoalNode]:
    seen, region = {start.number}, [start]
    for node in region:
        for action in node.live:
            for child in action.children:
                if child.status == OPEN and child.number not in seen:
                    seen.add(child.number)
                    region.append(child)
    return region


def _grounded_goals(region: list[GoalNode]) -> set[int]:
    missing = {action.number: action.left for node in region for action in node.live}
    todo = [node for node in region if not node.exhausted]
    grounded = {node.number for node in todo}
    while todo:
        for action in todo.pop().uses:
            if action.number not in missing:
                continue
            missing[action.number] -= 1
            if not missing[action.number] and action.owner.number not in grounded:
                grounded.add(action.owner.number)
                todo.append(action.owner)
    return grounded


def proof_script(root: GoalNode, prelude: Callable[[GoalNode], Iterable[str]] = lambda node: ()) -> list[str]:
    """A line for each tactic, a block for each of several goals; `prelude`: lines before the tactic of a goal."""

    def step(node: GoalNode) -> tuple[Iterable[str], Sequence[GoalNode]]:
        if node.proof is None:
            raise ValueError(f"goal {node.number} is not proved")
        return (*prelude(node), node.proof.tactic), node.proof.children

    return script_lines(root, step)
