"""One tool's tree grown to a size and timed there: a script that runs where the tool is installed.

It reads a line of JSON for each measurement, {"size", "rounds", "trees", "standing"}, and answers with one. All tools
have the same shape: every node has so many moves, all are opened before one is gone down, and each leaf is worth 0.5,
so that visits are even and the tree is as good as complete."""

from __future__ import annotations

import json
import math
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

VALUE = 0.5


class Coppice:
    """A goal to each action, moves found when a goal is first opened; the round is that of the centralized runner."""

    def __init__(self, branching: int, selection: str) -> None:
        from pipeline.mcts.search import records
        from pipeline.mcts.search.tree import SearchTree

        self.model = records
        self.moves = tuple(records.WeightedMove(f"t{number}") for number in range(branching))
        maths = records.SelectionRules(selection, records.EXPLORE[selection], widen=1e9)
        self.tree = SearchTree(maths, records.Subgoal("0", "", VALUE))
        self.told = 0

    def size(self) -> int:
        return len(self.tree.nodes)

    def round(self) -> None:
        path, node, _ = self.tree.select()
        taken = self.tree.take(node, 1)
        self.told += 1
        goal = self.model.Subgoal(str(self.told), "", VALUE)
        attempt = self.model.TacticAttempt(taken[0] if taken else "t0", (goal,))
        self.tree.land(node, taken, self.model.ExpandOutcome(self.told, (attempt,), () if taken else self.moves))
        self.tree.backup(path, node)

    def standing(self) -> None:
        path, node, _ = self.tree.select()
        self.tree.backup(path, node)


class TreeQuest:
    """`StandardMCTS` by its ask and tell; its children are its samples."""

    def __init__(self, branching: int) -> None:
        from treequest import StandardMCTS

        self.algorithm = StandardMCTS(samples_per_action=branching)
        self.state = self.algorithm.init_tree()

    def size(self) -> int:
        return self.state.tree.size

    def round(self) -> None:
        self.state, trial = self.algorithm.ask(self.state, actions=["t"])
        self.state = self.algorithm.tell(self.state, trial.trial_id, ("", VALUE))

    def standing(self) -> None:
        node = self.algorithm._select(self.state)
        self.algorithm._backpropagate(self.state, node, VALUE)


class Position:
    """A position of a game that has no end, for `mcts`."""

    def __init__(self, actions: range) -> None:
        self.actions = actions

    def getPossibleActions(self) -> range:  # noqa: N802
        return self.actions

    def takeAction(self, action: int) -> Position:  # noqa: N802
        return Position(self.actions)

    def isTerminal(self) -> bool:  # noqa: N802
        return False


class Mcts:
    """Its own round, with a rollout that costs nothing; its exploration is that of UCT with the root of two."""

    def __init__(self, branching: int) -> None:
        import mcts

        self.search = mcts.mcts(1, explorationConstant=1 / math.sqrt(2), rolloutPolicy=lambda state: VALUE)
        self.search.root = mcts.treeNode(Position(range(branching)), None)
        self.grown = 1

    def size(self) -> int:
        return self.grown

    def round(self) -> None:
        self.search.executeRound()
        self.grown += 1

    def standing(self) -> None:
        node, search = self.search.root, self.search
        while node.isFullyExpanded:
            node = search.getBestChild(node, search.explorationConstant)
        search.backpropogate(node, VALUE)


def grown(tool: str, branching: int, size: int) -> Any:
    made = {
        "coppice": lambda: Coppice(branching, "uct"),
        "coppice-puct": lambda: Coppice(branching, "puct"),
        "treequest": lambda: TreeQuest(branching),
        "mcts": lambda: Mcts(branching),
    }[tool]()
    while made.size() < size:
        made.round()
    return made


def timed(do: Any, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        do()
    return time.process_time() - start


def bytes_each(tool: str, branching: int, size: int) -> float:
    tracemalloc.start()
    kept = grown(tool, branching, size)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / kept.size()


def main() -> None:
    tool, branching = sys.argv[1], int(sys.argv[2])
    kept: dict[int, Any] = {}  # a tree that takes long to grow is grown once
    for line in sys.stdin:
        asked = json.loads(line)
        if "memory" in asked:
            print(json.dumps(bytes_each(tool, branching, asked["memory"])), flush=True)
            continue
        size, seconds, still = asked["size"], 0.0, 0.0
        for _ in range(asked["trees"]):
            tree = kept.get(size) or grown(tool, branching, size)
            if asked["trees"] == 1:
                kept[size] = tree
            seconds += timed(tree.round, asked["rounds"])
            still += timed(tree.standing, asked["standing"])
        times = asked["trees"] * asked["rounds"], asked["trees"] * asked["standing"]
        print(json.dumps({"rounds": times[0] / seconds, "standing": times[1] / still}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
