"""YAML -> MctsSpec: the keys of `kind: mcts` and what each may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pipeline.banks.read import read_count, read_key, read_lean, read_path
from pipeline.errors import SpecError, cut_text, did_you_mean
from pipeline.goals.bank import read_bank, refusal_line
from pipeline.goals.proving import DEFAULT_LEDGER, LeanKeys
from pipeline.mcts.search import guides, records
from pipeline.mcts.search.records import EXPLORE, Budget, Expansion, Maths, SearchRules
from pipeline.mcts.spec import scenario
from pipeline.mcts.spec.model import Guides, MctsSpec
from pipeline.mcts.spec.scenario import SCENARIO_KEYS as OF_SCENARIO
from pipeline.spec import Item
from pipeline.spec_fields import choice, number
from pipeline.store.state import signature

SEARCH_KEYS = (
    "iterations", "calls", "selection", "explore", "backup", "widen", "alpha", "expansion_policy", "attempts",
)  # fmt: skip
KEYS = (
    "kind", "store", "bank", "goals", "lean", "ledger", "seeds", *SEARCH_KEYS, "priors", "as_of", "rewards",
    "scenarios", *OF_SCENARIO,
)  # fmt: skip
NEEDED = ("kind", "bank")
SELECTIONS, BACKUPS = (records.PUCT, records.UCT), (records.MINIMUM, records.PRODUCT)
POLICIES = (records.FIRST_SUCCESS, records.ALL_SUCCESSES)
MOST_CALLS, MOST_SEEDS, MOST_SEED, MOST_ATTEMPTS = 10_000_000, 1000, 2**31, 1000
MOST_SEARCHES = 100_000
DEFAULT_BUDGET, DEFAULT_ATTEMPTS = Budget(2000, 200), 4
DEFAULT_PROCESSES = 1

Keys = Mapping[str, Item]
T = TypeVar("T")


def read(item: Item, name: str) -> MctsSpec:
    top = item.fields("spec", KEYS, NEEDED)
    bank = read_path(top["bank"], "bank")
    goals, sources = _goals(top, bank)
    seeds = _seeds(top["seeds"]) if "seeds" in top else (0,)
    scenarios = scenario.read_scenarios(item, top)
    if (searches := len(goals) * len(seeds) * len(scenarios)) > MOST_SEARCHES:
        item.wrong(f"spec: goals, seeds and scenarios make {searches:,} searches; at most {MOST_SEARCHES:,}")
    return MctsSpec(
        name=name,
        line=item.line,
        bank=bank,
        goals=goals,
        lean=read_lean(top, LeanKeys(processes=DEFAULT_PROCESSES)),
        seeds=seeds,
        rules=_rules(top),
        guides=_guides(top),
        scenarios=scenarios,
        ledger=read_path(top["ledger"], "ledger") if "ledger" in top else DEFAULT_LEDGER,
        store=read_path(top["store"], "store") if "store" in top else None,
        sources=sources,
    )


def _goals(top: Keys, bank: str) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Those that are listed, or the ids of the bank, which then decides the plan."""
    signed = signature(bank)
    known = _check_word(top["bank"], bank_ids, bank)
    if "goals" not in top:
        return known, {bank: signed}
    listed, there = dict[str, Item](), {*known}
    for each in top["goals"].items("goals"):
        name = each.text("goals")
        if name not in there:
            each.wrong(f"goals: '{cut_text(name)}' is no id in {bank}{did_you_mean(name, known)}")
        if name in listed:
            each.wrong(f"goals: '{name}' is given twice")
        listed[name] = each
    if not listed:
        top["goals"].wrong("goals: the list is empty; name some, or leave it out for all of the bank")
    return tuple(listed), {bank: signed}


def bank_ids(bank: str) -> tuple[str, ...]:
    try:
        with open(bank, "rb") as file:
            rows = read_bank(file.read())
    except OSError as error:
        made = (
            f"`coppice {bank.split('/')[1]}` may make it" if bank.startswith("runs/") else "it has a goal in each row"
        )
        raise SpecError(f"bank: {bank} cannot be read: {error.strerror}; {made}") from error
    if not rows.goals:
        first = f", the first: {refusal_line(bank, rows.refused[0])}" if rows.refused else ""
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


def _rules(top: Keys) -> SearchRules:
    budget = Budget(
        read_count(top, "iterations", 1, DEFAULT_BUDGET.iterations, MOST_CALLS),
        read_count(top, "calls", 1, DEFAULT_BUDGET.calls or 0, MOST_CALLS),
    )
    expansion = Expansion(
        choice(top["expansion_policy"], "expansion_policy", POLICIES) if "expansion_policy" in top else POLICIES[0],
        read_count(top, "attempts", 1, DEFAULT_ATTEMPTS, MOST_ATTEMPTS),
    )
    return SearchRules(budget, _maths(top), expansion)


def _maths(top: Keys) -> Maths:
    d = Maths._field_defaults
    selection = choice(top["selection"], "selection", SELECTIONS) if "selection" in top else d["selection"]
    return Maths(
        selection,
        read_key(top, "explore", _not_negative, EXPLORE[selection]),
        choice(top["backup"], "backup", BACKUPS) if "backup" in top else d["backup"],
        read_key(top, "widen", _positive, d["widen"]),
        read_key(top, "alpha", _positive, d["alpha"]),
    )


def _not_negative(item: Item, what: str) -> float:
    return number(item, what, 0)


def _positive(item: Item, what: str) -> float:
    return number(item, what, 0) or item.wrong(f"{what}: expected a number above 0, found {item.summary()}")


def _guides(top: Keys) -> Guides:
    found = Guides(
        _guide_name(top, "priors", guides.choose_priors, Guides().priors),
        _guide_name(top, "rewards", guides.choose_rewards, Guides().rewards),
        top["as_of"].text("as_of") if "as_of" in top else "",
    )
    if found.as_of and found.priors != guides.LEDGER_PRIORS:
        top["as_of"].wrong(f"as_of: it says when the ledger was read, for priors: {guides.LEDGER_PRIORS}; leave it out")
    return found


def _guide_name(top: Keys, key: str, chosen: Callable[[str], object], default: str) -> str:
    if key not in top:
        return default
    name = top[key].text(key)
    _check_word(top[key], chosen, name)
    return name


def _check_word(item: Item, ask: Callable[[str], T], word: str) -> T:
    """What is wrong with the word is wrong there."""
    try:
        return ask(word)
    except SpecError as error:
        item.wrong(str(error))
