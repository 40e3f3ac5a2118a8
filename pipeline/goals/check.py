"""Check every row of a bank with Lean; refuse rows that do not elaborate, are false, or are duplicates.

A statement counts as false only where Lean takes a proof of the opposite: outright, or at a small instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from pipeline.errors import cut_text
from pipeline.goals.bank import Bank, Goal, Refusal, letters, theorem_of, unknown_letter
from pipeline.lean.model import Lean, LeanCrash, LeanError, NotElaborated, ProofFinished, Session, TacticState, Theorem
from pipeline.tactics.text.goal import INACCESSIBLE, Hypothesis, read_goal

SECONDS = 5.0  # for one tactic, so that nothing hangs: what ends the others is how much they may do
BUDGET = 20_000  # heartbeats; where they cannot be counted, as many as take the seconds
OUTRIGHT = ("decide", "decide +kernel", "simp", "omega")
ANYWHERE = ("decide",)
AT_FEW = ("simp", "omega", "grind")
POINTS, FEW = 30, 3

Values = tuple[str, ...]
Instance = tuple[tuple[str, str], ...]  # (variable, value)
TYPE_VALUES: Values = ("Bool", "Nat", "Empty")
MOST_OF_ONE = 24
MOST_VARIABLES = 8
MOST_RANKED = 300
_NUMERAL = re.compile(r"(?<![\w.])\d{1,9}(?![\w.])")


def refutation(theorem: Theorem, before: TacticState, variables: Sequence[Hypothesis], lean: Lean) -> str:
    """Refute the statement: how, or "" where that fails."""
    small = ((one.name, "Type" if one.type.startswith("Type ") else one.type) for one in _hypotheses(before))
    bound = "".join(f"∀ {{{name} : {type_}}}, " for name, type_ in small)
    opposite = Theorem(theorem.name, f"_root_.Not ({bound}\n{theorem.statement}\n)", theorem.before)
    try:
        session, state = lean.open(opposite)
    except (NotElaborated, LeanCrash):
        return ""  # of no other sort than a proposition that Lean took before: it cannot be denied in its place
    try:
        return _refute_at(session, state, instances(variables, theorem.statement, POINTS))
    except LeanCrash:
        return ""
    finally:
        session.close()


def _hypotheses(state: TacticState) -> tuple[Hypothesis, ...]:
    return read_goal(state.goals[0]).hypotheses


def _refute_at(session: Session, state: TacticState, points: Sequence[Instance]) -> str:
    for how, tactic in _refuting_tactics(points):
        answer = session.run_tac(state, tactic, SECONDS, BUDGET)
        if isinstance(answer, ProofFinished):
            return how
        if isinstance(answer, LeanError) and answer.kind in ("crash", "timeout"):
            return ""  # too large to look at; it would be for the others, too
    return ""


def _refuting_tactics(points: Sequence[Instance]) -> Iterator[tuple[str, str]]:
    for tactic in OUTRIGHT:
        yield f"by `{tactic}`", tactic
    for number, point in enumerate(points):
        terms = " ".join(f"({value})" for _, value in point)
        where = ", ".join(f"{name.strip(INACCESSIBLE)} := {value}" for name, value in point)
        instance = f"for {where}, by" if point else "by"
        for tactic in (*ANYWHERE, *AT_FEW) if number < FEW else ANYWHERE:
            yield f"{instance} `{tactic}`", f"exact fun all => absurd (@all {terms}) (by {tactic})"


def check_bank(bank: Bank, lean: Lean) -> Bank:
    """The goals that count, with their keys.  Raises LeanStartError when there are rows, and no Lean to ask."""
    if bank.goals:
        lean.open(Theorem("goal", "True"))[0].close()  # else every row would look wrong
    found: dict[str, Goal] = {}
    refused = [*bank.refused]
    for goal in bank.goals:
        key, why = _judge_goal(goal, lean, found)
        if why:
            refused.append(Refusal(goal.line, goal.id, why))
        else:
            found[key] = replace(goal, key=key)
    return Bank(tuple(found.values()), tuple(sorted(refused, key=lambda each: each.line)))


def _judge_goal(goal: Goal, lean: Lean, above: dict[str, Goal]) -> tuple[str, str]:
    """Judge a goal: its key, and why it does not count."""
    theorem = theorem_of(goal)
    try:
        key, state, variables = _open_goal(theorem, lean)
    except NotElaborated as error:
        unknown = "".join(f"; {unknown_letter(letter)}" for letter in letters(str(error)))
        hint = unknown or "; write a proposition, and what it needs into `context`"
        return "", f"it does not elaborate: {_brief_error(error)}{hint}"
    except LeanCrash as error:
        return "", f"it ends the Lean that reads it: {_brief_error(error)}; write it smaller"
    if key in above:
        return key, f"it is the statement of line {above[key].line} ({above[key].id}); drop one of them"
    how = refutation(theorem, state, variables, lean)
    return key, f"it is false, {how}; mend it, or drop it" if how else ""


def _open_goal(theorem: Theorem, lean: Lean) -> tuple[str, TacticState, tuple[Hypothesis, ...]]:
    """Open a goal: its key, its first state, and the variables it quantifies first."""
    session, state = lean.open(theorem)
    try:
        after = session.run_tac(state, "intros", SECONDS)  # takes those that Lean adds, too, such as an unknown `α`
        return session.key(state), state, _hypotheses(after) if isinstance(after, TacticState) else ()
    finally:
        session.close()


def _brief_error(error: Exception) -> str:
    """An error on one line."""
    return cut_text(" ".join(str(error).split()))


def instances(variables: Sequence[Hypothesis], statement: str, most: int) -> list[Instance]:
    """Instances of the first variables, the simplest first; as far as values of their types are known."""
    numerals = tuple(dict.fromkeys(_NUMERAL.findall(statement)))[:6]
    front = variables[:MOST_VARIABLES]
    width = max(2, int(MOST_RANKED ** (1 / max(1, len(front)))))
    ranked = sorted(_ranked_instances(front, numerals, width), key=lambda each: each[0])
    return [instance for _, instance in ranked[:most]]


def _ranked_instances(variables: Sequence[Hypothesis], numerals: Values, width: int) -> Iterator[tuple[int, Instance]]:
    """Instances with their ranks: how far down their lists the values stand, of which the first `width` are used."""
    values = values_of_type(variables[0].type, numerals)[:width] if variables else ()
    if not values:
        yield 0, ()
        return
    first, *rest = variables
    mention = re.compile(rf"(?<![\w.']){re.escape(first.name)}(?![\w'])")
    for rank, value in enumerate(values):
        left = [Hypothesis(one.name, mention.sub(value, one.type)) for one in rest]
        for more, instance in _ranked_instances(left, numerals, width):
            yield rank + more, ((first.name, value), *instance)


def values_of_type(type_: str, numerals: Values = ()) -> Values:
    """Terms of a type, the simplest first; none when there are none, or none are known."""
    bare = type_.strip()
    if bare.startswith("(") and bare.endswith(")") and ")" not in bare[1:-1]:
        bare = bare[1:-1].strip()
    if bare.startswith("Type "):
        bare = "Type"
    if bare in _PLAIN:
        return _PLAIN[bare](numerals)
    if " → " in bare:
        return _function_values(bare, numerals)
    constructor, _, argument = bare.partition(" ")
    return _CONSTRUCTED[constructor](argument, numerals) if constructor in _CONSTRUCTED else ()


def _nat_values(numerals: Values) -> Values:
    near = [str(number) for each in numerals for number in (int(each), int(each) + 1, max(0, int(each) - 1))]
    return tuple(dict.fromkeys(["0", "1", "2", "3", *near, *map(str, range(4, MOST_OF_ONE))]))[:MOST_OF_ONE]


def _int_values(numerals: Values) -> Values:
    sizes = _nat_values(numerals)[1:]
    return ("0", *(f"({sign}{size})" for size in sizes for sign in ("", "-")))[:MOST_OF_ONE]


def _function_values(type_: str, numerals: Values) -> Values:
    source, _, target = type_.partition(" → ")
    same = ("fun x => x",) if source == target else ()
    compared = ("fun x y => x = y", "fun x y => x ≠ y") if target == f"{source} → Prop" else ()
    return (*compared, *same, *(f"fun _ => {each}" for each in values_of_type(target, numerals)[:4]))


def _list_values(item: str, numerals: Values) -> Values:
    values = values_of_type(item, numerals)[:3]
    longer = [f"[{', '.join(each)}]" for size in (1, 2, 3) for each in product(values, repeat=size)]
    return ("[]", *longer)[:MOST_OF_ONE]


def _option_values(item: str, numerals: Values) -> Values:
    return ("none", *(f"some ({each})" for each in values_of_type(item, numerals)[:3]))


def _fin_values(size: str, _: Values) -> Values:
    return tuple(map(str, range(min(int(size), 6)))) if size.isdigit() else ()


_PLAIN: dict[str, Callable[[Values], Values]] = {
    "Nat": _nat_values,
    "Int": _int_values,
    "Bool": lambda _: ("true", "false"),
    "Prop": lambda _: ("True", "False"),
    "Type": lambda _: TYPE_VALUES,
    "Unit": lambda _: ("()",),
}
_CONSTRUCTED: dict[str, Callable[[str, Values], Values]] = {
    "List": _list_values,
    "Option": _option_values,
    "Fin": _fin_values,
}
