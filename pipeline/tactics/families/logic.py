"""Finishers, connectives, values for `∃`, cases, induction, and definitions of the goal's own file.

Finishers prove a goal or nothing.  The others go by how a proposition or a type is made: moves that follow connectives,
cases and induction on a variable, inductive types taken apart and built, definitions unfolded.  Values for `∃` are
terms of the goal, small numbers, numbers found by trying, and solutions of equations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, islice, product

from pipeline.tactics.families.bounds import stated_limits
from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.goal import Hypothesis, PrintedGoal, is_universe, result_type
from pipeline.tactics.text.tactic import LONG, MIDDLE, QUICK, TacticMove, chain, ranked, remainder_split
from pipeline.tactics.text.terms import Leaf, Number, Relation, is_true

FIRST_TACTICS = (("rfl", 0.3), ("omega", QUICK), ("(simp_all; done)", QUICK), ("grind -verbose", QUICK))

HUGE = re.compile(r"\^ (\d{5,}|\([^()]*\^)")

CASE_COSTS = {"Bool": 0.3, "Nat": 0.8, "List": 0.8, "Option": 0.6, "Int": 1.5, "Fin": 1.5, "Prod": 0.4, "Sum": 0.6}

REACHES = (3000, 150, 25, 13)  # how far is tried, by the number of variables
# By the type of `f x x`: a function that differs from `f x` at x, for every x.
DIFFERENT = {"Prop": "fun x => ¬ {0} x x", "Bool": "fun x => !({0} x x)", "Nat": "fun x => {0} x x + 1"}


def finishing_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Moves that are tried before all others."""
    if HUGE.search(goal.propositions):
        return  # to compute it would take all there is
    if not goal.variables and not goal.facts:
        yield TacticMove(0.0, "decide", 0.4, closing=True)
        yield TacticMove(0.0, "decide +kernel", MIDDLE, closing=True)
    if goal.connective in ("∀", "→"):
        return  # the others are tried when all is introduced
    useless = set() if goal.connective in ("=", "↔", "≤", "") else {"rfl"}
    if "Nat" not in goal.text and "Int" not in goal.text and not goal.numerals:
        useless.add("omega")
    for tactic, budget in FIRST_TACTICS:
        if tactic not in useless:
            yield TacticMove(0.0, tactic, budget, closing=True)


# Tactics that prove a goal or nothing, where the first ones did not do: cost, tactic, seconds.
LONGER_TACTICS = (
    (0.9, "(simp_all +arith; done)", MIDDLE),
    (1.5, "grind -verbose +suggestions", MIDDLE),
    (1.2, "grind -verbose (splits := 20) (ematch := 10) (gen := 12)", 4.0),
    (2.0, "grind -verbose +splitIndPred", MIDDLE),
    (2.6, "grind -verbose (splits := 40) (ematch := 20) (gen := 20)", 2 * LONG),
)


def propose_finishers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Propose the finishing moves at length."""
    for cost, tactic, budget in LONGER_TACTICS:
        yield TacticMove(cost, tactic, budget, closing=True)
    if goal.target == "False":
        yield TacticMove(0.3, "contradiction", QUICK, closing=True)
    infinite = [one for one in goal.variables if not re.match(r"Fin |\(*Bool\)*$", one.type)]
    if goal.variables and not goal.facts and not infinite:
        yield TacticMove(0.2, "decide +revert", MIDDLE, closing=True)


NEGATIONS = (
    "Classical.not_imp, Classical.not_forall, not_exists, not_or, Classical.not_and_iff_not_or_not, Classical.not_not"
)


def forced_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Moves after which the goal is neither harder nor easier to prove; nothing else is tried beside them."""
    if goal.connective in ("∀", "→"):
        yield TacticMove(0.0, "intros", QUICK)
    elif torn := [fact for fact in goal.facts if syntax.connective(fact.type) in ("∧", "∃")]:
        names = goal.free_names("hc")  # all facts at once, to the bottom
        obtained = (f"obtain {pattern(fact.type, names)} := {fact.name}" for fact in torn[:8])
        yield TacticMove(0.0, chain(obtained))
    elif goal.connective in ("∧", "↔"):
        yield TacticMove(0.0, "constructor", QUICK)
    elif goal.connective in ("¬", "≠"):
        yield TacticMove(0.0, f"intro {goal.fresh('hn')[0]}", QUICK)


def pattern(proposition: str, names: Iterator[str]) -> str:
    sign = syntax.connective(proposition)
    if sign == "∧":
        parts = [pattern(part, names) for part in syntax.split_at(proposition, "∧")]
    elif sign == "∃":
        bound, body = syntax.bound_variables(proposition)
        parts = [*(next(names) for _ in bound), pattern(body, names)]
    else:
        return next(names)
    return f"⟨{', '.join(parts)}⟩"


def propose_logic(goal: PrintedGoal) -> Iterator[TacticMove]:
    yield from target_moves(goal)
    name = goal.fresh("hs")[0]
    for place, fact in enumerate(goal.facts):
        sign, later = syntax.connective(fact.type), 0.05 * place
        if sign in ("∨", "↔"):
            yield TacticMove(0.5 + later, f"cases {fact.name}")
        if sign in ("→", "¬", "≠", "∀"):
            yield TacticMove((1.1 if sign == "∀" else 0.9) + later, f"apply {fact.name}")
        if sign == "→":
            yield TacticMove(1.0 + later, f"have {name} := {fact.name} ‹_›")
        if sign == "=" and "fun " in fact.type:
            at = (f"have {name} := congrFun {fact.name} {one.name}" for one in goal.variables[:4])
            yield from ranked(0.6 + later, 0.0, at)
    name, stated = goal.fresh("hc")[0], {fact.type for fact in goal.facts}
    choices = [one for one in subpropositions(goal) if one not in stated and len(one) <= 120 and "✝" not in one]
    yield from ranked(0.6, 0.15, (f"by_cases {name} : {choice}" for choice in dict.fromkeys(choices[:6])))
    if "¬" in goal.propositions:
        yield TacticMove(0.7, f"simp only [{NEGATIONS}] at *")


def target_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective == "∨":
        cost = 0.4 if "∃" in goal.target else 0.8  # other sides grind would have chosen
        yield TacticMove(cost, "left", QUICK)
        yield TacticMove(cost, "right", QUICK)
    if goal.target != "False":
        yield TacticMove(1.2, f"(apply Classical.byContradiction; intro {goal.fresh('hn')[0]})", QUICK)
    if goal.target != "False" and goal.facts:
        yield TacticMove(2.2, "exfalso", QUICK)
    if goal.connective == "=" and any(one.type == "Prop" for one in goal.variables):
        yield TacticMove(1.0, "apply propext", QUICK)


def subpropositions(goal: PrintedGoal) -> Iterator[str]:
    """Variables that are propositions, then parts of facts and target, those of the target first."""
    propositions = (one.name for one in goal.variables if one.type == "Prop")
    yield from filter(goal.mentions, propositions)
    for text in [goal.target, *(fact.type for fact in goal.facts)]:
        sign = syntax.connective(text)
        if sign in syntax.CONNECTIVES:
            for part in syntax.split_at(text, sign):
                yield syntax.negated_part(part) or syntax.without_brackets(part)
        elif sign == "∃" and text != goal.target:
            yield syntax.without_brackets(text)
        elif sign == "¬":
            yield syntax.negated_part(text)


def propose_cases(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, one in enumerate(goal.variables):
        kind = one.type.split(" ")[0]
        if (kind in CASE_COSTS or "×" in one.type) and "→" not in one.type and goal.mentions(one.name):
            yield TacticMove(CASE_COSTS.get(kind, 0.4) + 0.1 * place, f"cases {one.name}")
    branching = [("split", 0.3, goal.target), *((f"split at {fact.name}", 0.4, fact.type) for fact in goal.facts)]
    for tactic, cost, text in branching:
        if "if " in text or "match " in text:
            yield TacticMove(cost, tactic)
    yield from order_cases(goal)
    if "∃" in goal.target:  # on the remainder of a variable by a number that the goal multiplies with
        for place, number in enumerate(dict.fromkeys(map(int, re.findall(r"\b([2-5]) \*", goal.target)))):
            for name in goal.of_type("Nat", "Int")[:2]:
                yield TacticMove(0.8 + 0.1 * place, remainder_split(goal.fresh("hr")[0], name, number))
    for one in goal.variables:  # on the value of a function to Bool, where the goal names it
        if result_type(one.type) == "Bool" and "→" in one.type:
            places = dict.fromkeys(re.findall(rf"(?<![\w.]){re.escape(one.name)} [\w.]+", goal.propositions))
            yield from ranked(0.5, 0.1, (f"cases {goal.fresh('hb')[0]} : {value}" for value in [*places][:3]))


def order_cases(goal: PrintedGoal) -> Iterator[TacticMove]:
    cost = 1.0 if goal.connective in ("=", "≤", "<", "∨") else 1.6
    name = goal.fresh("hlt")[0]
    which = f"rcases {{}}.lt_trichotomy {{}} {{}} with {name} | {name} | {name}"
    for kind in ("Nat", "Int"):
        pairs = combinations(sorted(goal.of_type(kind), key=lambda name: not syntax.mentions(name, goal.target)), 2)
        yield from ranked(cost, 0.2, (which.format(kind, *pair) for pair in [*pairs][:3]), QUICK)
    match terms.read_relation(goal.target):
        case Relation("=", Leaf(one), Number() as number) if goal.types.get(one) == "Int":
            yield TacticMove(0.7, which.format("Int", one, terms.term_text(number, tight=True)), QUICK)


RECURSIVE_TYPES = ("Nat", "List", "Option")


def propose_induction(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Induction; with the variables free that the claim may speak of anew at each step; strong."""
    plain = [one for one in goal.variables if "→" not in one.type and goal.mentions(one.name)]
    changing = [one for one in plain if one.type.split(" ")[0] in (*RECURSIVE_TYPES, "Int")]
    recursive = [one for one in changing if one.type != "Int" and not one.value]
    kinds = ((0.6, 1.0, ""), (1.3, 1.6, " using Nat.strongRecOn"))
    for place, one in enumerate(sorted(recursive, key=lambda one: not syntax.mentions(one.name, goal.target))):
        cost = 0.12 * place + (0.0 if syntax.mentions(one.name, goal.target) else 0.5)
        free = " ".join(other.name for other in changing if other.name != one.name)
        if one.type == "Nat":
            yield from induction_on_number(one, goal)
        for extra, dearer, kind in kinds if one.type == "Nat" else kinds[:1]:
            yield TacticMove(extra + cost, f"induction {one.name}{kind}")
            if free:
                yield TacticMove(dearer + cost, f"induction {one.name}{kind} generalizing {free}")


def induction_on_number(one: Hypothesis, goal: PrintedGoal) -> Iterator[TacticMove]:
    """`3 ≤ n`: n is 3 + k, and the induction is on k; where each value is given by the two before, on n and n + 1."""
    facts = [(fact.name, stated_limits(fact.relation, one.name)[0]) for fact in arithmetic.fact_relations(goal)]
    for name, low in [(name, low) for name, lows in facts for low in lows if low > 0][:1]:
        k = goal.fresh("k")[0]
        shifted = f"obtain ⟨{k}, rfl⟩ : ∃ {k}, {one.name} = {k} + {low} := ⟨{one.name} - {low}, by omega⟩"
        yield TacticMove(0.55, chain([shifted, f"clear {name}", f"induction {k}"]))

    if "+ 2)" in goal.propositions and not any(syntax.mentions(one.name, fact.type) for fact in goal.facts):
        following = re.sub(rf"(?<![\w.']){re.escape(one.name)}(?![\w'])", f"({one.name} + 1)", goal.target)
        name = goal.fresh("hpair")[0]
        both = f"suffices {name} : ({goal.target}) ∧ ({following}) from {name}.1"
        yield TacticMove(0.65, chain([both, f"induction {one.name}"]))


WORD = re.compile(r"(?<![\w.✝?])[^\W\d][\w.']*")
CORE_TYPES = {"Nat", "Int", "Bool", "Prop", "Type", "Sort", "List", "Option", "Fin", "Array", "Rat", "String", "Char"}
CORE_WORDS = {"True", "False", "true", "false", "fun", "let", "if", "then", "else", "match", "with"}
KNOWN_WORDS = CORE_TYPES | CORE_WORDS | {"id", "not", "and", "or", "xor", "succ", "min", "max", "compare"}
LIBRARY = ("Nat.", "Int.", "List.", "Bool.", "Option.", "Function.", "Classical.", "Array.", "Fin.", "Prod.", "String.")


def propose_definitions(goal: PrintedGoal) -> Iterator[TacticMove]:
    own = [word for word in own_constants(goal) if word[:1].islower()]
    if own:
        names = ", ".join(own[:4])
        yield TacticMove(0.2, f"(simp_all [{names}]; done)", MIDDLE, closing=True)
        yield TacticMove(0.25, f"grind -verbose [{names}]", MIDDLE, closing=True)
        yield TacticMove(0.5, f"simp [{names}] at *")
        yield from (TacticMove(0.6, f"unfold {name} at *") for name in own[:3])
        calls = (re.search(rf"(?<![\w.]){re.escape(name)}((?: [^\W\d][\w']*)+)", goal.target) for name in own)
        applied = [call[0] for call in calls if call and all(one in goal.types for one in call[1].split())]
        yield from (TacticMove(0.9, f"fun_induction {call}") for call in applied[:2])
    yield from inductive_moves(goal)


def own_constants(goal: PrintedGoal) -> list[str]:
    """Constants that are not Lean's own: neither variables here, nor bound in a proposition.

    `xs.length` and `Nat.succ` are none: a field of something that is here, or of the library."""
    bound = " ".join(re.findall(r"(?:∀|∃|fun|λ) \(?([\w ₀-₉✝']+)", goal.propositions)).split()
    return [
        word
        for word in dict.fromkeys(WORD.findall(goal.propositions))
        if word not in KNOWN_WORDS | goal.types.keys() | {*bound}
        if word.split(".", maxsplit=1)[0] not in goal.types and not word.startswith(LIBRARY)
    ]


def inductive_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Variables and facts of types that are not Lean's own."""
    for place, one in enumerate(goal.variables):
        head = one.type.split(" ")[0]
        if head[:1].isupper() and head not in KNOWN_WORDS | goal.types.keys() and "→" not in one.type:
            yield TacticMove(0.4 + 0.1 * place, f"cases {one.name}")
            yield TacticMove(0.5 + 0.1 * place, f"induction {one.name}")
    for place, fact in enumerate(goal.facts):
        head = fact.type.split(" ")[0]
        if not syntax.connective(fact.type) and head[:1].isupper() and head not in goal.types and not is_universe(head):
            yield TacticMove(0.5 + 0.1 * place, f"induction {fact.name}")
            yield TacticMove(0.6 + 0.1 * place, f"cases {fact.name}")
    if goal.connective == "" and goal.target[:1].isupper() and goal.target.split(" ")[0] not in goal.types:
        yield TacticMove(0.5, "constructor")


def propose_witnesses(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective != "∃":
        return
    bound, body = syntax.bound_variables(goal.target)
    for found in islice(solutions(bound, body), 2):
        yield TacticMove(0.05, f"exact ⟨{', '.join(map(str, found))}, by decide⟩", closing=True)
    solved = dict.fromkeys(equation_witnesses(goal, bound, body))
    exact = (f"exact ⟨{one}, by first | omega | grind -verbose⟩" for one in solved)
    yield from ranked(0.15, 0.05, exact, closing=True)
    candidates = dict.fromkeys([*solved, *candidate_terms(goal)])
    yield from ranked(0.6, 0.07, (f"refine ⟨{one}, ?_⟩" for one in candidates))
    yield from division_moves(goal, bound, body)
    if "∀" in body and "∃" not in body:
        yield TacticMove(0.7, "apply Classical.axiomOfChoice")


def solutions(bound: list[str], body: str) -> Iterator[tuple[int, ...]]:
    """Naturals that make a closed statement true."""
    relations = [terms.read_relation(part) for part in syntax.split_at(body, "∧")]
    names = {name for one in relations if one for side in (one.left, one.right) for name in terms.leaves(side)}
    if None in relations or not 0 < len(bound) <= len(REACHES) or not names <= set(bound):
        return
    for choice in product(range(REACHES[len(bound) - 1]), repeat=len(bound)):
        if all(one and is_true(one, dict(zip(bound, choice, strict=True))) for one in relations):
            yield choice


def candidate_terms(goal: PrintedGoal) -> Iterator[str]:
    things = [one.name for one in goal.variables if not is_universe(one.type) and one.type != "Prop"]
    naturals = goal.of_type("Nat", "Int")
    yield from things[:6]
    yield from (fact.name for fact in goal.facts[:3] if syntax.connective(fact.type) not in ("∀", "→", "=", "¬"))
    yield from function_values(goal)
    yield from map(str, sorted({0, 1, 2, 3, *(number for number in goal.numerals if number <= 100)})[:8])
    yield from (f"{name} + 1" for name in naturals[:3])
    yield from (f"{a} {sign} {b}" for a, b in combinations(naturals[:3], 2) for sign in "+*")
    yield from (text for name in naturals[:2] for text in (f"2 * {name}", f"{name} - 1", f"{name} * {name}"))
    yield from (f"{name} {sign} {number}" for name in naturals[:2] for number in goal.numerals[:3] for sign in "/%")
    yield from (f"{b} - {a}" for a, b in combinations(naturals[:3], 2))
    yield from ("fun x => x", "fun _ => 0", "id")


def equation_witnesses(goal: PrintedGoal, bound: list[str], body: str) -> Iterator[str]:
    """An equation with the variable in it once, solved for it."""
    for part in syntax.split_at(body, "∧"):
        sides = syntax.split_at(part, "=") if syntax.connective(part) == "=" else []
        for one, other in (sides, sides[::-1]) if len(sides) == 2 else ():
            if bound[:1] == [one] and not any(syntax.mentions(name, other) for name in bound):
                yield other
        if (relation := terms.read_relation(part)) and relation.sign == "=":
            yield from solve_for(relation, bound, goal)


def solve_for(relation: Relation, bound: list[str], goal: PrintedGoal) -> Iterator[str]:
    """`m = 2 * k + 1` for k: `(m - 1) / 2`; where all is divisible, divided.  Others that are bound are small."""
    whole = terms.difference(relation, arithmetic.relation_kind(relation, goal))
    scale = whole.pop(((bound[0], 1),), 0)
    for small in range(3 if len(bound) > 1 else 1):
        form: terms.Polynomial = {}
        for monomial, factor in whole.items():
            left = tuple((name, times) for name, times in monomial if name not in bound)
            worth = factor if left == monomial else factor * small
            form = terms.add_polynomials(form, {left: -worth if scale > 0 else worth})
        if not scale or any(syntax.mentions(bound[0], leaf) for leaf in terms.leaf_names(form)):
            continue
        if any(factor % scale for factor in form.values()):
            yield f"({terms.polynomial_text(form)}) / {abs(scale)}"
        else:
            yield terms.polynomial_text({monomial: factor // abs(scale) for monomial, factor in form.items()})


def division_moves(goal: PrintedGoal, bound: list[str], body: str) -> Iterator[TacticMove]:
    """`∃ k, n = 2 * k + 1` where `n % 2 = 1`."""
    relation = terms.read_relation(body)
    if len(bound) != 1 or relation is None or relation.sign != "=":
        return
    for side, other in ((relation.left, relation.right), (relation.right, relation.left)):
        linear = terms.linear_form(other)
        if linear and list(linear[0]) == bound and (of := linear[0][bound[0]]) > 1 and 0 <= linear[1] < of:
            whole = terms.term_text(side, tight=True)
            claim = f"{goal.fresh('hm')[0]} : {whole} % {of} = {linear[1]}"
            yield TacticMove(0.3, f"((suffices {claim} from ⟨{whole} / {of}, by omega⟩))")


def function_values(goal: PrintedGoal) -> Iterator[str]:
    """A function of the goal at a thing of the goal: `f a`; then functions that differ from `f x` at x, for every x."""
    things = [(one.name, one.type) for one in goal.variables]
    for name, kind in things:
        taken, *rest = syntax.split_at(kind, "→")
        if len(rest) == 1 and rest[0] != "Prop":
            yield from (f"{name} {other}" for other, of in things if of == taken)
    for name, kind in things:
        match [re.sub(r"[()]", "", part) for part in syntax.split_at(kind, "→")]:
            case [first, second, value] if first == second and value in DIFFERENT:
                yield DIFFERENT[value].format(name)
