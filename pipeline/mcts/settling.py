"""What is proved or hopeless is so at once for all that depends on it."""

from __future__ import annotations

from pipeline.mcts.model import Maths
from pipeline.mcts.nodes import CHILD, CYCLE, DEAD, OPEN, SOLVED, Action, Node
from pipeline.mcts.values import measure, worth


def solve(action: Action) -> None:
    """The first proof of a goal stays its proof: it rests on goals that were proved before, so there is no circle."""
    action.status, action.owner.status = SOLVED, SOLVED
    action.owner.proof, action.owner.value = action, 1.0


def drop(maths: Maths, action: Action, why: str) -> None:
    action.status, action.why, action.value = DEAD, why, 0.0
    action.owner.live.remove(action)
    action.owner.lost += 1
    measure(maths, action.owner)


def hopeless(node: Node) -> bool:
    return node.status == OPEN and node.exhausted and not node.live


def bury(node: Node) -> None:
    node.status, node.value = DEAD, 0.0


def settle(maths: Maths, settled: list[Node]) -> None:
    """Upwards from goals that have just been solved or buried, by every way that leads to them."""
    while settled:
        node = settled.pop()
        for action in node.uses:
            if action.status != OPEN:
                continue
            if node.status == SOLVED:
                _lighter(maths, action, settled)
            else:
                _broken(maths, action, settled)


def _lighter(maths: Maths, action: Action, settled: list[Node]) -> None:
    owner = action.owner
    action.left -= 1
    action.value = worth(maths, action)
    if owner.status != OPEN:
        action.status = OPEN if action.left else SOLVED
    elif not action.left:
        solve(action)
        settled.append(owner)
    elif owner.best is action:
        owner.value = action.value


def _broken(maths: Maths, action: Action, settled: list[Node]) -> None:
    drop(maths, action, CHILD)
    if hopeless(action.owner):
        bury(action.owner)
        settled.append(action.owner)


def bury_circles(maths: Maths, start: Node) -> bool:
    """Goals at and below `start` that could be proved only by way of themselves are dead; says whether there were any.

    A goal has grounds to hope if something is left to try at it, or if an action has grounds for all of its goals. An
    action that leads back is not dead by itself: what it leads back to may yet be proved in another way."""
    region = _below(start)
    grounded = _grounded(region)
    lost = [node for node in region if node.number not in grounded]
    for node in lost:
        bury(node)
        for action in node.live[:]:
            drop(maths, action, CYCLE)
    settle(maths, lost[:])
    return bool(lost)


def _below(start: Node) -> list[Node]:
    seen, region = {start.number}, [start]
    for node in region:
        for action in node.live:
            for child in action.children:
                if child.status == OPEN and child.number not in seen:
                    seen.add(child.number)
                    region.append(child)
    return region


def _grounded(region: list[Node]) -> set[int]:
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
