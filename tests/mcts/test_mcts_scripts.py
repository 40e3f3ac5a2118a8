"""The proof that a search has found, as a script."""

import pytest
from hypothesis import given
from kit.mcts_worlds import World, maths, played, rules, worlds

from pipeline.mcts.search.nodes import SOLVED, GoalNode, proof_script
from pipeline.mcts.search.records import SelectionRules

SPLIT = World(
    {
        "root": {"intro h": ("p and q",)},
        "p and q": {"constructor": ("p", "q")},
        "p": {"cases h": ("p1", "p2")},
        "p1": {"exact a": ()},
        "p2": {"exact b": ()},
        "q": {"simp\nring": ("r",)},
        "r": {"rfl": ()},
    }
)


def test_a_proof_is_a_line_for_each_tactic_and_a_block_for_each_of_several_goals() -> None:
    assert proof_script(played(SPLIT, rules()).tree.root) == [
        "intro h",
        "constructor",
        "· cases h",
        "  · exact a",
        "  · exact b",
        "· simp",
        "  ring",
        "  rfl",
    ]


def test_what_has_to_stand_before_a_tactic_stands_there() -> None:
    def named(node: GoalNode) -> list[str]:
        return ["rename_i h"] if node.key == "q" else []

    assert proof_script(played(SPLIT, rules()).tree.root, named)[-4:] == ["· rename_i h", "  simp", "  ring", "  rfl"]


def test_what_is_not_proved_has_no_script() -> None:
    with pytest.raises(ValueError, match="goal 0 is not proved"):
        proof_script(played(SPLIT, rules(2)).tree.root)


def test_a_proof_of_any_length_has_a_script() -> None:
    world = World({f"{n}": {f"t{n}": (f"{n + 1}",) if n < 1500 else ()} for n in range(1501)})
    assert len(proof_script(played(world, rules(2000)).tree.root)) == 1501


@given(worlds(), maths())
def test_a_proof_rests_on_goals_that_were_proved_before_never_on_itself(world: World, by: SelectionRules) -> None:
    tree = played(world, rules(maths=by)).tree
    if tree.root.status != SOLVED:
        return
    proved: set[str] = set()
    needed = used(tree.root)
    while len(proved) < len(needed):
        new = {each.key for each in needed if each.proof and {child.key for child in each.proof.children} <= proved}
        assert new - proved
        proved |= new
    for node in needed:
        assert node.proof is not None
        assert world.table[node.key][node.proof.tactic] == tuple(child.key for child in node.proof.children)


def used(root: GoalNode) -> list[GoalNode]:
    """The goals that a proof goes through, each once."""
    seen, found = {root.number}, [root]
    for node in found:
        for child in node.proof.children if node.proof else ():
            if child.number not in seen:
                seen.add(child.number)
                found.append(child)
    return found
