"""Laws of order and divisibility applied backwards: what is claimed of a whole follows from the same of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.tactics import arithmetic
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import SHORT, Move

# By relation of the target; {0} is Nat or Int.
APPLIED: Mapping[str, tuple[str, ...]] = {
    "≤": (
        "{0}.mul_le_mul_left _",
        "{0}.mul_le_mul_right _",
        "{0}.mul_le_mul",
        "{0}.add_le_add",
        "{0}.pow_le_pow_left",
        "{0}.pow_le_pow_right",
        "{0}.le_trans (by assumption)",
        "{0}.le_of_dvd",
        "{0}.le_of_lt",
    ),
    "<": (
        "{0}.mul_lt_mul_of_pos_left",
        "{0}.mul_lt_mul_of_lt_of_le",
        "{0}.add_lt_add",
        "{0}.pow_lt_pow_left",
        "{0}.pow_lt_pow_right",
        "{0}.lt_of_lt_of_le (by assumption)",
        "{0}.lt_of_le_of_lt (by assumption)",
    ),
    "∣": (
        "{0}.dvd_add",
        "{0}.dvd_sub",
        "{0}.dvd_mul_left_of_dvd",
        "{0}.dvd_mul_right_of_dvd",
        "{0}.mul_dvd_mul",
        "{0}.pow_dvd_pow _",
        "{0}.dvd_gcd",
        "{0}.lcm_dvd",
        "{0}.dvd_trans (by assumption)",
    ),
    "=": ("{0}.dvd_antisymm", "{0}.le_antisymm", "{0}.eq_of_mul_eq_mul_left", "{0}.eq_of_mul_eq_mul_right"),
}
OPERATIONS = "+*^∣"
STEPS = ("{0}.mul_le_mul", "{0}.pow_le_pow_left", "{0}.pow_le_pow_right", "{0}.add_le_add", "{0}.le_of_lt", "{0}.dvd_add")
STEPS_DOWN = ("{0}.dvd_sub", "{0}.dvd_mul_left_of_dvd", "{0}.dvd_mul_right_of_dvd", "{0}.mul_dvd_mul", "{0}.dvd_gcd")


def propose(goal: PrintedGoal) -> Iterator[Move]:
    sign = {"≥": "≤", ">": "<"}.get(goal.connective, goal.connective)
    if sign not in APPLIED or not any(one in goal.said for one in (*OPERATIONS, "gcd", "lcm")):
        return
    owner = "Int" if any(arithmetic.integral(one.relation, goal) for one in arithmetic.stated(goal)[-1:]) else "Nat"
    if sign != "=":
        steps = ", ".join(law.format(owner) for law in (*STEPS, *STEPS_DOWN) if not missing(law, owner))
        yield Move(0.8, "laws", f"(apply_rules [{steps}] <;> first | omega | (simp_all; done))", SHORT, closing=True)
    for place, law in enumerate(APPLIED[sign]):
        yield Move(1.2 + 0.05 * place, "laws", f"apply {law.format(owner)}", SHORT)


def missing(law: str, owner: str) -> bool:
    """Laws that only naturals have."""
    return owner == "Int" and any(word in law for word in ("pow_le", "gcd", "mul_le_mul"))
