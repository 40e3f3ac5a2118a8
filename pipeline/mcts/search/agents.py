"""One agent's descent of the shared tree, with reservations, blocks and delays.

An agent selects by its last view of the tree, and around goals that others work at. Reservations count as lost or
unobserved visits. Blocks and delays change the schedule, never the tree.

A draw is a function of its purpose: no draw moves another, in any order. Draws are made for a goal by its key and
names, so that a scenario hits the same goals in whichever order a search reaches them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import inf, log, sqrt
from typing import Any, NamedTuple

from pipeline.mcts.search.nodes import SOLVED, Action, GoalNode
from pipeline.mcts.search.records import PUCT
from pipeline.mcts.search.tree import SearchTree, Selection


def draw(seed: int, *purpose: object) -> float:
    """Draw a number from 0 up to, not including, 1."""
    named = "\x1f".join(map(str, (seed, *purpose)))
    return int.from_bytes(blake2b(named.encode(), digest_size=8).digest()) / 2**64


class Block(NamedTuple):
    """A `fraction` of goals is blocked when first reached, for `duration` iterations, for good if that is below 0.

    Each hit on a blocked goal may thaw it for those that come later: the `unfreeze_after`th does (0: none), any with
    `unfreeze_prob`.  `immovable` is the fraction of blocked goals that no hit thaws."""

    fraction: float = 0.0
    duration: int = -1
    seed: int = 0
    immovable: float = 0.0
    unfreeze_after: int = 0
    unfreeze_prob: float = 0.0


class Delay(NamedTuple):
    """Coming to a goal delays it with `prob`, for `duration` iterations.  Coming to it meanwhile draws again."""

    prob: float = 0.0
    duration: int = 0
    seed: int = 0


class Interventions(NamedTuple):
    """`reroute`: how many other goals an iteration may turn to when it finds one blocked."""

    block: Block = Block()
    delay: Delay = Delay()
    reroute: int = 0


@dataclass
class BlockedGoal:
    until: float
    immovable: bool
    hits: int = 0


class Obstacles:
    """Obstacles at a goal, as records for the trace; None where there is none."""

    def __init__(self, rules: Interventions) -> None:
        self.rules = rules
        self._frozen: dict[int, BlockedGoal | None] = {}
        self._delayed: dict[int, int] = {}

    def block_record(self, node: GoalNode, iteration: int) -> dict[str, Any] | None:
        rule = self.rules.block
        if not rule.fraction:
            return None
        if node.number not in self._frozen:
            hit = draw(rule.seed, "block", node.key, node.names) < rule.fraction
            immovable = hit and draw(rule.seed, "immovable", node.key, node.names) < rule.immovable
            until = inf if rule.duration < 0 else iteration + rule.duration
            self._frozen[node.number] = BlockedGoal(until, immovable) if hit else None
        frozen = self._frozen[node.number]
        if frozen is None or iteration > frozen.until:
            return None
        frozen.hits += 1
        thawed = not frozen.immovable and (
            0 < rule.unfreeze_after <= frozen.hits
            or draw(rule.seed, "unfreeze", node.key, node.names, iteration) < rule.unfreeze_prob
        )
        if thawed:
            self._frozen[node.number] = None
        record = {"node": node.number, "until": None if frozen.until == inf else frozen.until, "hits": frozen.hits}
        return {**record, "immovable": frozen.immovable, "thawed": thawed}

    def delay_record(self, node: GoalNode, iteration: int) -> dict[str, Any] | None:
        rule = self.rules.delay
        drawn = bool(rule.prob) and draw(rule.seed, "delay", node.key, node.names, iteration) < rule.prob
        if drawn:
            self._delayed[node.number] = iteration + rule.duration
        until = self._delayed.get(node.number, -1)
        if not drawn and iteration > until:
            return None
        return {"node": node.number, "until": until, "drawn": drawn}


VIRTUAL_LOSS, UNOBSERVED = "virtual-loss", "unobserved"


class ReservationRules(NamedTuple):
    """`inflight`: moves of a goal that may be tried at once; more are not reserved.  `refresh`: after how many
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
class AgentView:
    """Statistics as they were at the last look; newer nodes are seen as they are."""

    visits: list[int]
    values: list[float]
    totals: list[int]  # of visits, by goal


@dataclass(slots=True)
class Agent:
    number: int
    view: AgentView | None = None  # None: it sees everything as it is
    turns: int = 0
    last: frozenset[int] = frozenset()  # actions of its last way


def refresh_view(tree: SearchTree, agent: Agent, refresh: int) -> None:
    if refresh > 1 and agent.turns % refresh == 0:
        visits = [action.visits for action in tree.actions]
        agent.view = AgentView(visits, [action.value for action in tree.actions], [node.visits for node in tree.nodes])
    agent.turns += 1


def update_view(agent: Agent, path: list[Action], node: GoalNode) -> None:
    """Enter a backup into the agent's view: it knows at once what it found itself."""
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


def select_for_agent(tree: SearchTree, rules: ReservationRules, agent: Agent, banned: set[int]) -> Selection:
    """Select as `SearchTree.select` does, with reservations, biases and the agent's view, and around `banned` goals."""
    view, puct, mark = agent.view, tree.maths.selection == PUCT, tree.stamp()
    path, node = list[Action](), tree.root
    while True:
        node.mark = mark
        visits = view.totals[node.number] if view and node.number < len(view.totals) else node.visits
        free = node.pending < rules.inflight and node.number not in banned
        if free and visits + node.flying > node.opens_at:
            return Selection(path, node, True)
        counted, _ = count_reservations(rules, max(visits, 1), 0.0, node.flying)
        mass = node.mass or 1.0  # of no action
        reach = tree.maths.explore * (sqrt(counted) / mass if puct else sqrt(log(counted)))
        top, best, to = 0.0, None, None
        for action in node.live:
            child = _next_child(action, mark, banned)
            if child is not None:
                score = _score(action, child, reach, puct, rules, agent)
                if best is None or score > top:
                    top, best, to = score, action, child
        if best is None or to is None:
            return Selection(path, node, free and bool(node.untried))
        path.append(best)
        node = to


def _next_child(action: Action, mark: int, banned: set[int]) -> GoalNode | None:
    """The weakest child, as in `weakest_child`, but one that others work at comes after one that nobody does."""
    found: GoalNode | None = None
    for child in action.children:
        if child.status == SOLVED:
            continue
        if child.mark == mark:
            return None
        if child.number in banned:
            continue
        if found is None or (child.flying, child.value) < (found.flying, found.value):
            found = child
    return found


def count_reservations(rules: ReservationRules, visits: float, value: float, reserved: int) -> tuple[float, float]:
    """Visits and value, with reservations counted as lost, or as visits that came to the same."""
    if rules.counting == UNOBSERVED:
        return visits + reserved, value
    loss = reserved * rules.virtual_loss
    return visits + loss, (visits * value - loss) / (visits + loss) if loss else value


def _score(action: Action, child: GoalNode, reach: float, puct: bool, rules: ReservationRules, agent: Agent) -> float:
    visits, value, view = action.visits, action.value, agent.view
    if view and action.number < len(view.visits):
        visits, value = view.visits[action.number], view.values[action.number]
    counted, value = count_reservations(rules, visits, value, action.flying)
    share = action.prior / (1 + counted) if puct else 1 / sqrt(counted)
    bias = rules.path_bias if action.number in agent.last else 0.0
    return value + reach * share + rules.depth_bias * child.depth + bias
