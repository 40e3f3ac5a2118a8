"""YAML -> MctsSpec: the keys of `kind: mcts` and what each may hold; and options of `coppice mcts`.

The scenario that options give stands in place of those of the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from pipeline import spec_fields as fields
from pipeline.errors import SpecError, cut_text, did_you_mean
from pipeline.goals.bank import read_bank, refusal_line
from pipeline.lean.backends.keys import DEFAULT_LEDGER, LEDGER, PATH, lean_field
from pipeline.lean.model import LeanKeys
from pipeline.mcts.search import guides, records
from pipeline.mcts.search.records import EXPLORE, Budget, Expansion, SearchRules, SelectionRules
from pipeline.mcts.spec import model
from pipeline.mcts.spec.model import OPTIONS, GuideNames, MctsSpec, make_scenario
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader, Schema, Values
from pipeline.store.files import read_bytes
from pipeline.store.state import signature

MOST_CALLS, MOST_SEEDS, MOST_SEED, MOST_ATTEMPTS = 10_000_000, 1000, 2**31, 1000
MOST_SEARCHES = 100_000
DEFAULT_BUDGET, DEFAULT_ATTEMPTS = Budget(2000, 200), 4
DEFAULT_PROCESSES = 1

T = TypeVar("T")


def _seeds(item: Item, what: str) -> tuple[int, ...]:
    """The numbers from 0 on, or those that are listed."""
    if not item.is_list:
        return tuple(range(item.count(what, 1, MOST_SEEDS)))
    found = tuple(each.count(what, 0, MOST_SEED) for each in item.items(what))
    if not found or len({*found}) < len(found):
        item.wrong(f"{what}: expected a number of seeds, or a list of them, each once")
    return found


def _positive(item: Item, what: str) -> float:
    value: float = fields.number(0)(item, what)
    return value or item.wrong(f"{what}: expected a number above 0, found {item.summary()}")


def _guide(choose: Callable[[str], object], names: Mapping[str, object]) -> Reader:
    def read(item: Item, what: str) -> str:
        name = item.text(what)
        _check_word(item, choose, name)
        return name

    return Reader(read, {"enum": [*names]})


def _check_word(item: Item, ask: Callable[[str], T], word: str) -> T:
    """Point to the item if the word is refused."""
    try:
        return ask(word)
    except SpecError as error:
        item.wrong(str(error))


POSITIVE = Reader(_positive, {"type": "number", "exclusiveMinimum": 0})
SEEDS = Reader(
    _seeds,
    fields.any_of(
        fields.count(1, MOST_SEEDS).schema,
        fields.list_of(fields.count(0, MOST_SEED).schema, minItems=1, uniqueItems=True),
    ),
)
IDS = Reader(lambda item, what: item.items(what), fields.list_of(fields.SOME_TEXT, minItems=1, uniqueItems=True))
_ONE_OR_SEVERAL: Schema = {
    "oneOf": [
        {"required": ["scenarios"], "properties": dict.fromkeys(model.SCENARIO.fields, False)},
        {"properties": {"scenarios": False}, **model.MODE_RULES},
    ]
}
SPEC = FieldTable(
    fields.kind_field("mcts"),
    Field("bank", PATH, "the file with the goals, a JSON object a line: [proof.md](proof.md#a-bank)", needed=True),
    Field("goals", IDS, "ids of rows, as a list", without="all"),
    Field("scenarios", model.SCENARIOS, without="one", help=
          "scenarios by name, each with [the keys below](#keys-of-a-scenario). Without it they stand beside the other "
          "keys of the spec, and the scenario is called like its mode"),
    Field("seeds", SEEDS, default=(0,), without="`[0]`", help=
          "how many, counted from 0, or a list of numbers. 0 is the search as it is; see [seeds](mcts.md#seeds)"),
    Field("calls", fields.count(1, MOST_CALLS), "tactics that a search may have tried"),
    Field("iterations", fields.count(1, MOST_CALLS),
          "turns that it may take: those spent on nothing count too"),
    Field("attempts", fields.count(1, MOST_ATTEMPTS), "tactics of a goal that one iteration may try", DEFAULT_ATTEMPTS),
    Field("expansion_policy", fields.choice((records.FIRST_SUCCESS, records.ALL_SUCCESSES)), value="NAME",
          default=records.FIRST_SUCCESS, help=
          "`first-success`: after a tactic that applies, the rest of the iteration's are left for later; "
          "`all-successes`: all are tried"),
    Field("selection", fields.choice((records.PUCT, records.UCT)),
          "the score by which the tree is gone down: `puct`, with priors, or `uct`, without"),
    Field("explore", fields.number(0), "how much what was tried seldom is preferred", without="1.5; `uct`: √2"),
    Field("backup", fields.choice((records.MINIMUM, records.PRODUCT)),
          "what a tactic is worth that leaves several goals: the worst of them, or their `product`"),
    Field("widen", POSITIVE, "a goal may have so many tactics that lead on, …"),
    Field("alpha", POSITIVE, "… times its visits to this power, and one more when it has none"),
    Field("priors", _guide(guides.choose_priors, guides.PRIORS),
          "how likely each tactic is to be of use: `moves`, by its cost in the portfolio; `uniform`; `ledger`, by cost "
          "and by how often its family had a part in a proof. `generator`, a model that writes tactics, is not built "
          "yet, and choosing it is an error"),
    Field("as_of", fields.TEXT, default="", help=
          "with `priors: ledger`: any word, such as a date. The ledger is read once for each word, and for each run"),
    Field("rewards", _guide(guides.choose_rewards, guides.REWARDS),
          "what an open goal is worth: `printed`, by its kind, its length and how many are beside it. `model` is not "
          "built yet"),
    lean_field(
        LeanKeys(processes=DEFAULT_PROCESSES),
        "which Lean: [the keys of `kind: proof`](proof-keys.md#keys-of-lean), but that `processes` is "
        f"{DEFAULT_PROCESSES} unless given",
    ),
    LEDGER._replace(help="where what came of each search is kept; runs may share it"),
    fields.STORE,
    *model.SCENARIO,
    defaults={**SelectionRules._field_defaults, **DEFAULT_BUDGET._asdict(), **GuideNames._field_defaults},
    rules=_ONE_OR_SEVERAL,
)  # fmt: skip


def read(item: Item, name: str) -> MctsSpec:
    top = SPEC.read(item, "spec", "")
    goals, sources = _goals(top)
    seeds = top["seeds"]
    scenarios = model.read_scenarios(top)
    if (searches := len(goals) * len(seeds) * len(scenarios)) > MOST_SEARCHES:
        item.wrong(f"spec: goals, seeds and scenarios make {searches:,} searches; at most {MOST_SEARCHES:,}")
    expansion = Expansion(top["expansion_policy"], top["attempts"])
    explore = top["explore"] if "explore" in top else EXPLORE[top["selection"]]
    rules = SearchRules(top.record(Budget), top.record(SelectionRules, explore=explore), expansion)
    by: GuideNames = top.record(GuideNames)
    if by.as_of and by.priors != guides.LEDGER_PRIORS:
        top.wrong("as_of", f"as_of: it says when the ledger was read, for priors: {guides.LEDGER_PRIORS}; leave it out")
    own = {"name": name, "line": item.line, "goals": goals, "seeds": seeds, "sources": sources}
    spec: MctsSpec = top.record(MctsSpec, rules=rules, guides=by, scenarios=scenarios, **own)
    return spec


def _goals(top: Values) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Those that are listed, or the ids of the bank, which then decides the plan."""
    bank = top["bank"]
    signed = signature(bank)
    known = _check_word(top.at("bank"), bank_ids, bank)
    if "goals" not in top:
        return known, {bank: signed}
    listed, there = dict[str, Item](), {*known}
    for each in top["goals"]:
        name = each.text("goals")
        if name not in there:
            each.wrong(f"goals: '{cut_text(name)}' is no id in {bank}{did_you_mean(name, known)}")
        if name in listed:
            each.wrong(f"goals: '{name}' is given twice")
        listed[name] = each
    if not listed:
        top.wrong("goals", "goals: the list is empty; name some, or leave it out for all of the bank")
    return tuple(listed), {bank: signed}


def bank_ids(bank: str) -> tuple[str, ...]:
    try:
        rows = read_bank(read_bytes(bank))
    except OSError as error:
        tip = f"`coppice {bank.split('/')[1]}` may make it" if bank.startswith("runs/") else "it has a goal in each row"
        raise SpecError(f"bank: {bank} cannot be read: {error.strerror}; {tip}") from error
    if not rows.goals:
        first = f", the first: {refusal_line(bank, rows.refused[0])}" if rows.refused else ""
        raise SpecError(f"bank: {bank}: no row is a goal{first}")
    return tuple(goal.id for goal in rows.goals)


FLAG_PREFIX, POLICY_KEY = "mcts_", "expansion_policy"


def _flag(field: Field) -> Field:
    return field._replace(key=FLAG_PREFIX + (field.flag or field.key), default=None)


# By the key of a scenario.
SCENARIO_FLAGS = {key: _flag(option) for key, option in OPTIONS.items()}
FLAGS = (*SCENARIO_FLAGS.values(), _flag(SPEC[POLICY_KEY]))
VARIABLES = ()


def spec_for_bank(bank: str) -> MctsSpec:
    sources = {bank: signature(bank)}
    rules = SearchRules(DEFAULT_BUDGET, expansion=Expansion(attempts=DEFAULT_ATTEMPTS))
    lean, by = LeanKeys(processes=DEFAULT_PROCESSES), GuideNames()
    return MctsSpec("", 1, bank, bank_ids(bank), lean, (0,), rules, by, (), DEFAULT_LEDGER, None, sources)


def with_overrides(spec: MctsSpec, values: Mapping[str, Any]) -> MctsSpec:
    if policy := values.get(FLAG_PREFIX + POLICY_KEY):
        rules = spec.rules
        spec = spec._replace(rules=rules._replace(expansion=rules.expansion._replace(policy=policy)))
    given = {key: values[flag.key] for key, flag in SCENARIO_FLAGS.items() if flag.key in values}
    if spec.scenarios and not given:
        return spec
    return spec._replace(scenarios=(make_scenario("flags", given, _refuse, _flag_word),))


def _refuse(_key: str, what: str) -> NoReturn:
    raise SpecError(f"mcts: {what}")


def _flag_word(key: str) -> str:
    return f"--{SCENARIO_FLAGS[key].key.replace('_', '-')}"
