"""The bank that Coppice ships: what is in it."""

from collections import Counter

from kit.banks import BANK, PROOFS, proof


def test_every_row_is_read() -> None:
    assert BANK.refused == ()
    assert len(BANK.goals) >= 64
    assert len({goal.text for goal in BANK.goals}) == len(BANK.goals)


def test_it_is_about_many_things() -> None:
    found = Counter(goal.metadata["category"] for goal in BANK.goals)
    assert {"logic", "nat", "int", "list", "bool", "option", "fin", "functions"} <= set(found)
    assert max(found.values()) <= len(BANK.goals) / 2
    assert all(goal.metadata["topic"] for goal in BANK.goals)


def test_it_is_neither_easy_nor_hard_alone() -> None:
    levels = Counter(min(int(goal.difficulty * 3), 2) for goal in BANK.goals)
    assert all(levels[level] >= len(BANK.goals) / 10 for level in range(3))


def test_every_goal_has_a_proof_beside_it() -> None:
    assert [goal.id for goal in BANK.goals if not proof(goal)] == []
    assert PROOFS.count("\ntheorem ") == len(BANK.goals)
    for goal in BANK.goals:
        assert all(f"\n{command}\n" in PROOFS for command in goal.context)
