"""Down the graph and up again: the maths of the search, and all that the two runners share of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import NamedTuple

from pipeline.mcts.graph import Graph
from pipeline.mcts.model import PUCT, Maths, Subgoal
from pipeline.mcts.nodes import OPEN, Action, Node
from pipeline.mcts.settling import bury_circles
from pipeline.mcts.values import better, weakest, worth


class Selection(NamedTuple):
    """The way down and where it ends.  `opens`: a move may be tried there; otherwise there is no way on."""

    path: list[Action]
    node: Node
    opens: bool

    def nodes(self) -> tuple[int, ...]:
        return (*[action.owner.number for action in self.path], self.node.number)


class Tree(Graph):
    def __init__(self, maths: Maths, root: Subgoal) -> None:
        super().__init__(maths, root)
        self._stamp = 0

    def stamp(self) -> int:
        """A mark that no goal has yet, for those on the way down."""
        self._stamp += 1
        return self._stamp

    def select(self) -> Selection:
        """From the root to where a move may be tried, at each goal by the action that scores highest."""
        mark = self.stamp()
        puct, explore = self.maths.selection == PUCT, self.maths.explore
        path: list[Action] = []
        node = self.root
        while True:
            node.mark = mark
            visits = node.visits
            if visits > node.opens_at:
                return Selection(path, node, True)
            reach = explore * (sqrt(visits) / node.mass if puct else sqrt(log(visits)))
            top, best = -1.0, None
            for action in node.live:
                score = action.value + reach * action.weight
                if score > top:
                    top, best = score, action
            child = best.one or weakest(best, mark) if best else None
            if best is None or child is None or child.mark == mark:
                best = self.around(node, reach, mark)
                child = weakest(best, mark) if best else None
                if best is None or child is None:
                    return Selection(path, node, bool(node.untried))
            path.append(best)
            node = child

    def around(self, node: Node, reach: float, mark: int) -> Action | None:
        """The best action that does not need a goal on the way here."""
        ways = [action for action in node.live if weakest(action, mark)]
        return max(ways, key=lambda action: action.value + reach * action.weight, default=None)

    def backup(self, path: Sequence[Action], node: Node) -> None:
        """A visit more for all on the way; a goal is worth what the action visited most is, an action what is below."""
        puct = self.maths.selection == PUCT
        node.visits += 1
        for action in reversed(path):
            visits = action.visits = action.visits + 1
            action.weight = action.prior / (1 + visits) if puct else 1 / sqrt(visits)
            node = action.owner
            node.visits += 1
            if action.status != OPEN or node.status != OPEN:
                continue
            one = action.one
            value = action.value = one.value if one else worth(self.maths, action)
            best = node.best
            if best is action or best is None or visits > best.visits or better(action, best):
                node.best, node.value = action, value

    def dead_end(self, node: Node) -> bool:
        """Where there is no way on, whether there never will be one.  Looked at once until more runs dry."""
        if node.checked == self.shrunk:
            return False
        node.checked = self.shrunk
        buried = bury_circles(self.maths, node)
        self.shrunk += buried
        return buried
