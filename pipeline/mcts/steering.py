"""How an agent of many goes down the shared tree: by what it last saw of it, and around what others are at."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import NamedTuple

from pipeline.mcts.model import PUCT
from pipeline.mcts.nodes import SOLVED, Action, Node
from pipeline.mcts.tree import Selection, Tree

VIRTUAL_LOSS, UNOBSERVED = "virtual-loss", "unobserved"


class Steering(NamedTuple):
    """`inflight`: where so many moves of a goal are being tried, nobody else may reserve.  `refresh`: after how many
    of its turns an agent looks again.

    A reservation counts as `virtual_loss` visits that were lost, or, `unobserved`, as a visit whose value is not known.
    `path_bias` goes to actions of the agent's last way, `depth_bias` to a goal for each step that it is from the root:
    it tells apart only goals that are reached by ways of different lengths."""

    agents: int
    inflight: int
    counting: str = VIRTUAL_LOSS
    virtual_loss: float = 1.0
    depth_bias: float = 0.0
    path_bias: float = 0.0
    refresh: int = 1


@dataclass(slots=True)
class View:
    """The statistics as they were; what is newer is seen as it is."""

    visits: list[int]
    values: list[float]
    totals: list[int]  # of visits, by goal


@dataclass(slots=True)
class Agent:
    number: int
    view: View | None = None  # None: it sees everything as it is
    turns: int = 0
    last: frozenset[int] = field(default_factory=frozenset)


def look(tree: Tree, agent: Agent, refresh: int) -> None:
    if refresh > 1 and agent.turns % refresh == 0:
        visits = [action.visits for action in tree.actions]
        agent.view = View(visits, [action.value for action in tree.actions], [node.visits for node in tree.nodes])
    agent.turns += 1


def learn(agent: Agent, path: list[Action], node: Node) -> None:
    """An agent knows at once what it found itself."""
    view = agent.view
    if view is None:
        return
    for each in [*[action.owner for action in path], node]:
        if each.number < len(view.totals):
            view.totals[each.number] += 1
    for action in path:
        if action.number < len(view.visits):
            view.visits[action.number] += 1
            view.values[action.number] = action.value


class Way(NamedTuple):
    """All that decides where an agent goes, in one turn."""

    tree: Tree
    rules: Steering
    agent: Agent
    banned: set[int]  # goals that it was turned away from
    mark: int


def select(tree: Tree, rules: Steering, agent: Agent, banned: set[int]) -> Selection:
    """As `Tree.select` does, but that reservations, biases and the view count."""
    way = Way(tree, rules, agent, banned, tree.stamp())
    path: list[Action] = []
    node = tree.root
    while True:
        node.mark = way.mark
        free = node.pending < rules.inflight and node.number not in banned
        if free and _visits(way, node) + node.flying > node.opens_at:
            return Selection(path, node, True)
        action, child = _onward(way, node)
        if action is None or child is None:
            return Selection(path, node, free and bool(node.untried))
        path.append(action)
        node = child


def _visits(way: Way, node: Node) -> int:
    view = way.agent.view
    return view.totals[node.number] if view and node.number < len(view.totals) else node.visits


def _onward(way: Way, node: Node) -> tuple[Action | None, Node | None]:
    top, best, to = 0.0, None, None
    reach = _reach(way, node) if node.live else 0.0
    for action in node.live:
        child = _next(way, action)
        if child is None:
            continue
        score = _score(way, action, child, reach)
        if best is None or score > top:
            top, best, to = score, action, child
    return best, to


def _next(way: Way, action: Action) -> Node | None:
    """As `weakest`, but that a goal which others are at comes after one that nobody is at."""
    found: Node | None = None
    for child in action.children:
        if child.status == SOLVED:
            continue
        if child.mark == way.mark:
            return None
        if child.number in way.banned:
            continue
        if found is None or (child.flying, child.value) < (found.flying, found.value):
            found = child
    return found


def reckoned(rules: Steering, visits: float, value: float, reserved: int) -> tuple[float, float]:
    """Visits and value as if what is reserved had been lost, or had been visited and had come to the same."""
    if rules.counting == UNOBSERVED:
        return visits + reserved, value
    loss = reserved * rules.virtual_loss
    return visits + loss, (visits * value - loss) / (visits + loss) if loss else value


def _reach(way: Way, node: Node) -> float:
    """What is the same for all actions of a goal in exploring."""
    maths = way.tree.maths
    visits, _ = reckoned(way.rules, max(_visits(way, node), 1), 0.0, node.flying)
    return maths.explore * (sqrt(visits) / node.mass if maths.selection == PUCT else sqrt(log(visits)))


def _score(way: Way, action: Action, child: Node, reach: float) -> float:
    view, rules = way.agent.view, way.rules
    visits, value = action.visits, action.value
    if view and action.number < len(view.visits):
        visits, value = view.visits[action.number], view.values[action.number]
    counted, value = reckoned(rules, visits, value, action.flying)
    share = action.prior / (1 + counted) if way.tree.maths.selection == PUCT else 1 / sqrt(counted)
    bias = rules.path_bias if action.number in way.agent.last else 0.0
    return value + reach * share + rules.depth_bias * child.depth + bias
