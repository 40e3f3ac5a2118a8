"""What the goal's own file defines: unfolded, its inductive types and predicates taken apart and built."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.tactics import syntax
from pipeline.tactics.goal import PrintedGoal, is_universe
from pipeline.tactics.move import MIDDLE, SHORT, Move

WORD = re.compile(r"(?<![\w.✝?])[^\W\d][\w.']*")
TYPES = {"Nat", "Int", "Bool", "Prop", "Type", "Sort", "List", "Option", "Fin", "Array", "Rat", "String", "Char"}
WORDS = {"True", "False", "true", "false", "fun", "let", "if", "then", "else", "match", "with"}
KNOWN = TYPES | WORDS | {"id", "not", "and", "or", "xor", "succ", "min", "max", "compare"}
LIBRARY = ("Nat.", "Int.", "List.", "Bool.", "Option.", "Function.", "Classical.", "Array.", "Fin.", "Prod.", "String.")


def propose(goal: PrintedGoal) -> Iterator[Move]:
    own = [word for word in words(goal) if word[:1].islower()]
    if own:
        names = ", ".join(own[:4])
        yield Move(0.2, "definitions", f"(simp_all [{names}]; done)", MIDDLE, closing=True)
        yield Move(0.25, "definitions", f"grind -verbose [{names}]", MIDDLE, closing=True)
        yield Move(0.5, "definitions", f"simp [{names}] at *", SHORT)
        yield from (Move(0.6, "definitions", f"unfold {name} at *", SHORT) for name in own[:3])
        yield from (Move(0.9, "definitions", f"fun_induction {name}", SHORT) for name in applied(own, goal))
    yield from inductive(goal)


def words(goal: PrintedGoal) -> list[str]:
    """Constants that are none of Lean's own: neither variables here, nor bound in a proposition."""
    bound = {name for group in re.findall(r"(?:∀|∃|fun|λ) \(?([\w ₀-₉✝']+)", goal.said) for name in group.split()}
    found = dict.fromkeys(WORD.findall(goal.said))
    return [word for word in found if word not in bound | KNOWN | goal.types.keys() and not inherited(word, goal)]


def inherited(word: str, goal: PrintedGoal) -> bool:
    """`xs.length`, `Nat.succ`: a field of something that is here, or of the library."""
    return word.split(".", maxsplit=1)[0] in goal.types or word.startswith(LIBRARY)


def applied(own: list[str], goal: PrintedGoal) -> list[str]:
    calls = (re.search(rf"(?<![\w.]){re.escape(name)}((?: [^\W\d][\w']*)+)", goal.target) for name in own)
    return [call[0] for call in calls if call and all(one in goal.types for one in call[1].split())][:2]


def inductive(goal: PrintedGoal) -> Iterator[Move]:
    """Variables and facts of types that are not Lean's own."""
    for place, one in enumerate(goal.variables):
        head = one.type.split(" ")[0]
        if head[:1].isupper() and head not in KNOWN and head not in goal.types and "→" not in one.type:
            yield Move(0.4 + 0.1 * place, "definitions", f"cases {one.name}", SHORT)
            yield Move(0.5 + 0.1 * place, "definitions", f"induction {one.name}", SHORT)
    for place, fact in enumerate(goal.facts):
        head = fact.type.split(" ")[0]
        if not syntax.connective(fact.type) and head[:1].isupper() and head not in goal.types and not is_universe(head):
            yield Move(0.5 + 0.1 * place, "definitions", f"induction {fact.name}", SHORT)
            yield Move(0.6 + 0.1 * place, "definitions", f"cases {fact.name}", SHORT)
    if goal.connective == "" and goal.target[:1].isupper() and goal.target.split(" ")[0] not in goal.types:
        yield Move(0.5, "definitions", "constructor", SHORT)
