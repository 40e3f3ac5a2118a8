"""Budget of a run: reserved before an evaluation starts, settled when it has ended, never taken back.

States of an evaluation in the ledger, with no way back:

    absent -> reserved   `reserve_spending`, at its ceiling
    reserved -> spent    `settle_spending`, at its real cost

An evaluation that has ended is kept whatever it cost; only the next one is refused.  Sums do not depend on the order
in which evaluations end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, inf
from typing import Any, NamedTuple

from pipeline.trust.series import round_significant

# The stop reason for each amount that may run out, in the order in which they are reported.
BUDGET_STOPS = {
    "evals": "max_total_idea_evals_reached",
    "usd": "budget_usd_reached",
    "tokens": "budget_tokens_reached",
    "seconds": "budget_seconds_reached",
}
# The part of a budget in USD that does not suffice once a cost is unknown and nothing says what it may be.
UNKNOWN_USD = "usd_unknown"
STOP_REASONS = {**BUDGET_STOPS, UNKNOWN_USD: "budget_usd_unknown"}


class BudgetLimits(NamedTuple):
    """The most that a whole run may spend; None where there is no limit."""

    evals: int | None = None
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


class Ceiling(NamedTuple):
    """The most that one evaluation may cost; None when nobody knows, zero when it is free."""

    evals: int = 1
    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


class Spending(NamedTuple):
    """An amount spent; seconds of evaluations are added up, so that they do not depend on how many run at once.

    `unknown_calls`: calls of unknown price, which are not in `usd`."""

    evals: int = 0
    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    unknown_calls: int = 0

    @property
    def as_list(self) -> list[float]:
        """The amounts as they are recorded, in records from before there were unknown prices too."""
        return [*self] if self.unknown_calls else [*self[:4]]


class BudgetLedger(NamedTuple):
    """Evaluations by name, each either reserved or spent; `ceiling` is charged for what had a call of unknown price."""

    limits: BudgetLimits = BudgetLimits()
    reserved: Mapping[str, Ceiling] = {}
    spent: Mapping[str, Spending] = {}
    ceiling: Ceiling = Ceiling()


def ledger_of(
    params: Mapping[str, Any], reserved: Iterable[str] = (), spent: Mapping[str, Sequence[Any]] | None = None
) -> BudgetLedger:
    """The ledger of records, by the `budget` and the `ceiling` of a run."""
    ceilings = dict.fromkeys(reserved, Ceiling(**params["ceiling"]))
    spendings = {name: Spending(*amounts) for name, amounts in (spent or {}).items()}
    return BudgetLedger(BudgetLimits(**params["budget"]), ceilings, spendings, Ceiling(**params["ceiling"]))


def total_spending(amounts: Iterable[Spending]) -> Spending:
    evals, usd, tokens, seconds, unknown = zip(Spending(), *amounts, strict=True)  # there may be no amounts
    money, time = round_significant(fsum(usd)), round_significant(fsum(seconds))
    return Spending(sum(evals), money, sum(tokens), time, sum(unknown))


def charged_spending(spent: Spending, ceiling: Ceiling, dearest: float | None = None) -> Spending:
    """The charge against a budget where a price is unknown: the ceiling; without one, `dearest` for each such call.

    Without either it is all that there is."""
    if not spent.unknown_calls:
        return spent
    if ceiling.usd is not None:
        return spent._replace(usd=max(spent.usd, ceiling.usd))
    return spent._replace(usd=inf if dearest is None else spent.usd + spent.unknown_calls * dearest)


def dearest_known(spent: Mapping[str, Spending]) -> dict[bool, float]:
    """The most that an idea (True) or an evaluation (False) cost of which all prices are known, where that is anything.

    No call of one costs more than all of it, so that a call of unknown price is rather counted too high."""
    most: dict[bool, float] = {}
    for name, each in spent.items():
        if not each.unknown_calls and each.usd:
            most[is_idea(name)] = max(each.usd, most.get(is_idea(name), 0.0))
    return most


def is_idea(name: str) -> bool:
    return name.endswith(".idea")


def committed_spending(ledger: BudgetLedger) -> Spending:
    """The amounts spent and reserved, as far as they are known; what is unknown is charged."""
    dearest = dearest_known(ledger.spent)
    charged = [charged_spending(each, ledger.ceiling, dearest.get(is_idea(n))) for n, each in ledger.spent.items()]
    known = [Spending(c.evals, c.usd or 0.0, c.tokens or 0, c.seconds or 0.0) for c in ledger.reserved.values()]
    return total_spending([*charged, *known])


def held_usd(ledger: BudgetLedger) -> dict[str, float | None]:
    """USD that are neither spent nor left: counted for calls of unknown price (None: nobody knows), and reserved."""
    known = total_spending(ledger.spent.values()).usd
    counted = committed_spending(ledger._replace(reserved={})).usd
    reserved = total_spending(Spending(usd=each.usd or 0.0) for each in ledger.reserved.values()).usd
    return {"unknown": None if counted == inf else round_significant(counted - known), "reserved": reserved}


def budget_left(ledger: BudgetLedger) -> BudgetLimits:
    """The amounts left: None where there is no limit, never below zero."""
    most, used = ledger.limits, committed_spending(ledger)
    return BudgetLimits(
        None if most.evals is None else max(0, most.evals - used.evals),
        None if most.usd is None else max(0.0, round_significant(most.usd - used.usd)),
        None if most.tokens is None else max(0, most.tokens - used.tokens),
        None if most.seconds is None else max(0.0, round_significant(most.seconds - used.seconds)),
    )


def shortage_text(name: str, limits: BudgetLimits) -> str:
    """A part of the budget that does not suffice, in words."""
    if name == UNKNOWN_USD:
        return "usd (a call of unknown price was made, and no `per_eval` and no known cost says what one costs)"
    return f"{name} (limit {getattr(limits, name):g})"


def shortages(ledger: BudgetLedger, ceiling: Ceiling) -> tuple[str, ...]:
    """The amounts that do not suffice for one more evaluation of this ceiling."""
    return affordable_count(ledger, ceiling, 1)[1]


def affordable_count(ledger: BudgetLedger, ceiling: Ceiling, wanted: int) -> tuple[int, tuple[str, ...]]:
    """The number of wanted evaluations that may start, and the amounts that do not suffice for the next one."""
    used = committed_spending(ledger)
    for count in range(wanted):
        if lacking := _missing_amounts(ledger.limits, used, ceiling, count):
            return count, lacking
    return wanted, ()


def wave_size(limits: BudgetLimits, ceiling: Ceiling, slots: int) -> int:
    """The number of slots that fit into a budget of money at their ceilings; 0 when all that there are do."""
    wanted = slots if limits.evals is None else min(slots, limits.evals)
    sides = ((limits.usd, ceiling.usd), (limits.tokens, ceiling.tokens))
    fits = [int(round_significant(most / each)) for most, each in sides if most is not None and each]
    return 0 if wanted <= min(fits, default=wanted) else max(1, min(fits))


def _missing_amounts(limits: BudgetLimits, used: Spending, ceiling: Ceiling, before: int) -> tuple[str, ...]:
    """The amounts that do not suffice for one more after `before` others like it.

    Free evaluations start even when nothing is left; those of unknown cost only while something is."""
    lacking = []
    for name, most, spent, each in zip(BUDGET_STOPS, limits, used[:4], ceiling, strict=True):
        if most is not None and each != 0:
            suffices = spent < most if each is None else round_significant(spent + each * (before + 1)) <= most
            lacking += [] if suffices else [UNKNOWN_USD if spent == inf else name]
    return tuple(lacking)


def reserve_spending(ledger: BudgetLedger, names: Sequence[str], ceiling: Ceiling) -> BudgetLedger:
    """Reserve the ceiling for evaluations of these names.  Ask `affordable_count` first: too little raises here."""
    times = Counter([*ledger.reserved, *ledger.spent, *names])
    if again := [name for name in names if times[name] > 1]:
        raise ValueError(f"{again[0]} has been reserved already")
    count, lacking = affordable_count(ledger, ceiling, len(names))
    if lacking:
        raise ValueError(f"{names[count]}: not enough {', '.join(lacking)} left")
    return ledger._replace(reserved={**ledger.reserved, **dict.fromkeys(names, ceiling)})


def settle_spending(ledger: BudgetLedger, name: str, spent: Spending) -> BudgetLedger:
    """Settle a reservation at the real cost, more or less than reserved; nothing for one that never started."""
    if name not in ledger.reserved:
        raise ValueError(f"{name} has not been reserved" if name not in ledger.spent else f"{name} is settled already")
    if min(spent) < 0 or not fsum(spent) < inf:
        raise ValueError(f"{name}: cannot have spent {spent}")
    reserved = {other: ceiling for other, ceiling in ledger.reserved.items() if other != name}
    return ledger._replace(reserved=reserved, spent={**ledger.spent, name: spent})
