"""A proof as a script, from the graph in which it was found; and the way to a goal, for who has to go it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeline.mcts.nodes import Node

# What has to stand before the tactic of a goal, such as names for what has none.
Prelude = Callable[[Node], Iterable[str]]


def lines(root: Node, prelude: Prelude = lambda node: ()) -> list[str]:
    """A line for each tactic, a block for each of several goals."""
    written: list[str] = []
    todo: list[tuple[Node, str, bool]] = [(root, "", False)]
    while todo:
        node, indent, block = todo.pop()
        if node.proof is None:
            raise ValueError(f"goal {node.number} is not proved")
        inner = indent + "  " if block else indent
        own = [line for text in (*prelude(node), node.proof.tactic) for line in text.split("\n")]
        written += [inner + line for line in own]
        if block:
            written[-len(own)] = f"{indent}· {own[0]}"
        children = node.proof.children
        todo += [(child, inner, len(children) > 1) for child in reversed(children)]
    return written


def origin(node: Node) -> list[tuple[str, int]]:
    """How the goal was first come to: from the root on each tactic, and the place of the goal that it left."""
    way: list[tuple[str, int]] = []
    while node.origin is not None:
        way.append((node.origin.tactic, node.place))
        node = node.origin.owner
    return way[::-1]


def used(root: Node) -> list[Node]:
    """The goals that a proof goes through, each once."""
    seen, found = {root.number}, [root]
    for node in found:
        for child in node.proof.children if node.proof else ():
            if child.number not in seen:
                seen.add(child.number)
                found.append(child)
    return found
