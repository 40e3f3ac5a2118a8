"""What goals and actions are worth, from what is below them, and when a goal may have one more tactic."""

from __future__ import annotations

from math import inf, prod, sqrt

from pipeline.mcts.model import PRODUCT, PUCT, Maths
from pipeline.mcts.nodes import OPEN, SOLVED, Action, Node


def worth(maths: Maths, action: Action) -> float:
    """All of its goals are needed: as good as the worst of them, or as all together."""
    if action.one:
        return action.one.value
    values = [child.value for child in action.children]
    return prod(values) if maths.backup == PRODUCT else min(values, default=1.0)


def weight(maths: Maths, action: Action) -> float:
    """Its share in exploring; the other factor is the same for all actions of a goal."""
    if maths.selection == PUCT:
        return action.prior / (1 + action.visits)
    return 1 / sqrt(action.visits)


def hope(node: Node) -> float:
    """Of a goal at which nothing leads on as yet: each move that came to nothing takes its share."""
    return node.estimate * (1 - node.lost / len(node.tactics)) if node.tactics else node.estimate


def better(action: Action, best: Action | None) -> bool:
    """Whether more is known of it; ties go to the higher value, then to the earlier."""
    if best is None or action.visits != best.visits:
        return best is None or action.visits > best.visits
    return (action.value, -action.number) > (best.value, -best.number)


def room(maths: Maths, actions: int) -> float:
    """How often a goal with so many live actions has to be visited, and once more, before it may have another."""
    return float((actions / maths.widen) ** (1 / maths.alpha)) if actions else -1.0


def opens_at(maths: Maths, node: Node) -> float:
    if node.untried or (node.tactics is None and not node.pending):
        return room(maths, len(node.live) + node.pending)
    return inf


def measure(maths: Maths, node: Node) -> None:
    """Anew, after its actions or moves have changed."""
    node.mass = 0.0
    for action in node.live:  # not `sum`: it rounds otherwise since Python 3.12
        node.mass += action.prior
    node.opens_at = opens_at(maths, node)
    if node.best is None or node.best.status != OPEN:
        node.best = None
        for action in node.live:
            if better(action, node.best):
                node.best = action
    if node.status == OPEN:
        node.value = node.best.value if node.best else hope(node)


def weakest(action: Action, mark: int) -> Node | None:
    """The goal to work at next: the one least hoped for, since if it fails, all was in vain.  Ties go to the first.

    None if a goal that is still needed has the mark: it is on the way here, and cannot be its own means."""
    found: Node | None = None
    for child in action.children:
        if child.status == SOLVED:
            continue
        if child.mark == mark:
            return None
        if found is None or child.value < found.value:
            found = child
    return found
