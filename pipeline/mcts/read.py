"""YAML -> MctsSpec: the keys of `kind: mcts` and what each may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pipeline.banks.read import count, lean, path, read_key
from pipeline.banks.settings import LEDGER, LeanKeys
from pipeline.declared import choice, number
from pipeline.edge.state import signature
from pipeline.errors import SpecError, clipped, instead
from pipeline.goals.bank import read_bank, told
from pipeline.mcts import model, priors, read_scenarios, rewards
from pipeline.mcts.model import EXPLORE, Budget, Expansion, Maths, Rules
from pipeline.mcts.options import KEYS as OF_SCENARIO
from pipeline.mcts.settings import Guides, MctsSpec
from pipeline.spec import Item

SEARCH = (
    "iterations", "calls", "selection", "explore", "backup", "widen", "alpha", "expansion_policy", "attempts",
)  # fmt: skip
KEYS = (
    "kind", "store", "bank", "goals", "lean", "ledger", "seeds", *SEARCH, "priors", "as_of", "rewards", "scenarios",
    *OF_SCENARIO,
)  # fmt: skip
NEEDED = ("kind", "bank")
SELECTIONS, BACKUPS = (model.PUCT, model.UCT), (model.MINIMUM, model.PRODUCT)
POLICIES = (model.FIRST_SUCCESS, model.ALL_SUCCESSES)
MOST_CALLS, MOST_SEEDS, MOST_SEED, MOST_ATTEMPTS = 10_000_000, 1000, 2**31, 1000
MOST_SEARCHES = 100_000
BUDGET, ATTEMPTS = Budget(2000, 200), 4
PROCESSES = 1

Keys = Mapping[str, Item]
T = TypeVar("T")


def read(item: Item, name: str) -> MctsSpec:
    top = item.fields("spec", KEYS, NEEDED)
    bank = path(top["bank"], "bank")
    goals, sources = _goals(top, bank)
    seeds = _seeds(top["seeds"]) if "seeds" in top else (0,)
    scenarios = read_scenarios.read(item, top)
    if (searches := len(goals) * len(seeds) * len(scenarios)) > MOST_SEARCHES:
        item.wrong(f"spec: goals, seeds and scenarios make {searches:,} searches; at most {MOST_SEARCHES:,}")
    return MctsSpec(
        name=name,
        line=item.line,
        bank=bank,
        goals=goals,
        lean=lean(top, LeanKeys(processes=PROCESSES)),
        seeds=seeds,
        rules=_rules(top),
        guides=_guides(top),
        scenarios=scenarios,
        ledger=path(top["ledger"], "ledger") if "ledger" in top else LEDGER,
        store=path(top["store"], "store") if "store" in top else None,
        sources=sources,
    )


def _goals(top: Keys, bank: str) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Those that are listed, or the ids of the bank, which then decides the plan."""
    signed = signature(bank)
    known = _checked(top["bank"], ids_of, bank)
    if "goals" not in top:
        return known, {bank: signed}
    listed, there = dict[str, Item](), {*known}
    for each in top["goals"].items("goals"):
        name = each.text("goals")
        if name not in there:
            each.wrong(f"goals: '{clipped(name)}' is no id in {bank}{instead(name, known)}")
        if name in listed:
            each.wrong(f"goals: '{name}' is given twice")
        listed[name] = each
    if not listed:
        top["goals"].wrong("goals: the list is empty; name some, or leave it out for all of the bank")
    return tuple(listed), {bank: signed}


def ids_of(bank: str) -> tuple[str, ...]:
    try:
        with open(bank, "rb") as file:
            rows = read_bank(file.read())
    except OSError as error:
        made = (
            f"`coppice {bank.split('/')[1]}` may make it" if bank.startswith("runs/") else "it has a goal in each row"
        )
        raise SpecError(f"bank: {bank} cannot be read: {error.strerror}; {made}") from error
    if not rows.goals:
        first = f", the first: {told(bank, rows.refused[0])}" if rows.refused else ""
        raise SpecError(f"bank: {bank}: no row is a goal{first}")
    return tuple(goal.id for goal in rows.goals)


def _seeds(item: Item) -> tuple[int, ...]:
    """So many from 0 on, or those that are listed."""
    if not item.is_list:
        return tuple(range(item.count("seeds", 1, MOST_SEEDS)))
    found = tuple(each.count("seeds", 0, MOST_SEED) for each in item.items("seeds"))
    if not found or len({*found}) < len(found):
        item.wrong("seeds: expected a number of seeds, or a list of them, each once")
    return found


def _rules(top: Keys) -> Rules:
    budget = Budget(
        count(top, "iterations", 1, BUDGET.iterations, MOST_CALLS),
        count(top, "calls", 1, BUDGET.calls or 0, MOST_CALLS),
    )
    expansion = Expansion(
        choice(top["expansion_policy"], "expansion_policy", POLICIES) if "expansion_policy" in top else POLICIES[0],
        count(top, "attempts", 1, ATTEMPTS, MOST_ATTEMPTS),
    )
    return Rules(budget, _maths(top), expansion)


def _maths(top: Keys) -> Maths:
    d = Maths._field_defaults
    selection = choice(top["selection"], "selection", SELECTIONS) if "selection" in top else d["selection"]
    return Maths(
        selection,
        read_key(top, "explore", _not_negative, EXPLORE[selection]),
        choice(top["backup"], "backup", BACKUPS) if "backup" in top else d["backup"],
        read_key(top, "widen", _above, d["widen"]),
        read_key(top, "alpha", _above, d["alpha"]),
    )


def _not_negative(item: Item, what: str) -> float:
    return number(item, what, 0)


def _above(item: Item, what: str) -> float:
    return number(item, what, 0) or item.wrong(f"{what}: expected a number above 0, found {item.found()}")


def _guides(top: Keys) -> Guides:
    found = Guides(
        _part(top, "priors", priors.chosen, Guides().priors),
        _part(top, "rewards", rewards.chosen, Guides().rewards),
        top["as_of"].text("as_of") if "as_of" in top else "",
    )
    if found.as_of and found.priors != priors.LEDGER:
        top["as_of"].wrong(f"as_of: it says when the ledger was read, for priors: {priors.LEDGER}; leave it out")
    return found


def _part(top: Keys, key: str, chosen: Callable[[str], object], default: str) -> str:
    if key not in top:
        return default
    name = top[key].text(key)
    _checked(top[key], chosen, name)
    return name


def _checked(item: Item, ask: Callable[[str], T], word: str) -> T:
    """What is wrong with the word is wrong there."""
    try:
        return ask(word)
    except SpecError as error:
        item.wrong(str(error))
