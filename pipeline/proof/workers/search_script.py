"""A finished search written down as a script: a line for each tactic, a block for each of several goals."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent as indented

from pipeline.proof.workers.search_nodes import Node, Step


def lines(node: Node, indent: str = "") -> list[str]:
    """The proof of a goal."""
    step = proof(node)
    written = [indent + line for line in [*node.prelude, step.tactic]]
    if len(step.subgoals) == 1:
        return joined(written, lines(step.subgoals[0], indent), node)
    for subgoal in step.subgoals:
        first, *rest = lines(subgoal, indent + "  ")
        written += [f"{indent}· {first.strip()}", *rest]
    return written


def proof(node: Node) -> Step:
    if node.proved_by is None:
        raise ValueError(f"not proved: {node.goal.target}")
    return node.proved_by


def joined(before: list[str], after: list[str], node: Node) -> list[str]:
    """`intros` and the names given then: one `intro` with the names."""
    named = after[0].strip()
    if before[-1].strip() == "intros" and named.startswith("rename_i ") and not node.goal.inaccessible:
        indent = before[-1][: -len("intros")]
        return [*before[:-1], f"{indent}intro {named.removeprefix('rename_i ')}", *after[1:]]
    return before + after


def steps(node: Node) -> Iterator[Step]:
    """All steps of the proof, from the root on."""
    step = proof(node)
    yield step
    for subgoal in step.subgoals:
        yield from steps(subgoal)


def tactics(written: list[str]) -> tuple[str, ...]:
    """The script a tactic at a time: lines that are indented belong to the one above."""
    found: list[str] = []
    for line in written:
        if line.startswith(" ") and found:
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return tuple(found)


def one_tactic(script: list[str] | tuple[str, ...]) -> str:
    """The whole script in brackets, which Lean takes as one tactic."""
    return "(\n" + indented("\n".join(script), "  ") + "\n)"
