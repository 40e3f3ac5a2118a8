"""A proof as a script, from the graph in which it was found."""

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
