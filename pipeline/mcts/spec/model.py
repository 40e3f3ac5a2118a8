"""Records of a `kind: mcts` spec, and the keys of a scenario: one table for YAML and flags, rules, the reader.

A scenario is a mode and what belongs to it. No mode stands in for the other, and nothing that is given is left without
effect: a key without what it needs is refused. A spec has one scenario at its top, or several under `scenarios:`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pipeline import spec_fields as fields
from pipeline.errors import cut_text
from pipeline.lean.model import LeanKeys
from pipeline.mcts.search.agents import UNOBSERVED, VIRTUAL_LOSS, Block, Delay, Interventions, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import CENTRALIZED, DISTRIBUTED, REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.search.records import SearchRules
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader, Schema, StorePlace, Values, checked_name

# By the key of the spec, the field of the record.
STEERING_FIELDS = {key: key for key in ("agents", "inflight", "virtual_loss", "depth_bias", "path_bias")} | {
    "reservation": "counting",
    "history_cache": "refresh",
}
BLOCK_FIELDS = {key: key for key in ("fraction", "duration", "seed", "unfreeze_after", "unfreeze_prob")} | {
    "immovable_fraction": "immovable"
}
DELAY_FIELDS = {key: key for key in Delay._fields}

NEEDED_KEYS = ("agents", "inflight")  # of what is distributed
MOST_AGENTS, MOST_TURNS, MOST_SEED = 1000, 1_000_000, 2**31


class Scenario(NamedTuple):
    """One way to run every search.  A centralized one has no steering; `explicit_keys`: those that the spec has.

    Where no seed is given for what is in the way of agents, it is that of the search."""

    name: str
    mode: str
    steering: ReservationRules | None = None
    interventions: Interventions = Interventions()
    time: str = VIRTUAL_TIME
    explicit_keys: Mapping[str, Any] = {}

    def rules(self, rules: SearchRules, seed: int) -> SearchRules | TeamRules:
        if self.steering is None:
            return rules
        block, delay, reroute = self.interventions
        if block.fraction and "block.seed" not in self.explicit_keys:
            block = block._replace(seed=seed)
        if delay.prob and "delay.seed" not in self.explicit_keys:
            delay = delay._replace(seed=seed)
        return TeamRules(rules, self.steering, Interventions(block, delay, reroute))


class GuideNames(NamedTuple):
    """Names of priors and rewards; `as_of`: a word for when the ledger was read for the priors."""

    priors: str = "moves"
    rewards: str = "printed"
    as_of: str = ""


class MctsSpec(NamedTuple):
    """`goals`: ids of the bank's rows, in its order or as they are listed.  `sources`: files that decided them."""

    name: str
    line: int
    bank: str
    goals: tuple[str, ...]
    lean: LeanKeys
    seeds: tuple[int, ...]
    rules: SearchRules
    guides: GuideNames
    scenarios: tuple[Scenario, ...]
    ledger: str
    store: StorePlace | None
    sources: Mapping[str, int]

    @property
    def rooms(self) -> dict[str, int]:
        """A search in real time has all processes of the Lean, so that it is alone."""
        runs_alone = any(scenario.time == REAL_TIME for scenario in self.scenarios)
        return {"lean": 1 if runs_alone else self.lean.processes}

    @property
    def at_once(self) -> int:
        return self.lean.processes

    @property
    def refusal(self) -> str:
        return ""

    @property
    def engine(self) -> Mapping[str, Any]:
        return {}  # its sessions of Lean are on this machine


def _defaults(rules: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    return {key: rules._field_defaults.get(field) for key, field in keys.items()}


BLOCK = FieldTable(
    Field("fraction", fields.SHARE, without="needed", value="X", help=
          "the share of goals that are blocked, from 0 to 1. Drawn once for a goal, by seed and goal: what is blocked "
          "at 0.2 is blocked at 0.4"),
    Field("duration", fields.count(-1, MOST_TURNS), value="N", needs=("fraction",), help=
          "iterations for which, besides the one in which an agent first comes to the goal; -1: for good. A root that "
          "is blocked for good is never proved"),
    Field("seed", fields.count(0, MOST_SEED), "by which goals are drawn", without="the search's", value="N",
          needs=("fraction",)),
    Field("immovable_fraction", fields.SHARE, "the share of blocked goals that nothing thaws before their time",
          value="X", needs=("fraction",)),
    Field("unfreeze_after", fields.count(0, MOST_TURNS), value="N", flag="unfreeze_after", needs=("fraction",), help=
          "the hit of this number on a blocked goal thaws it for those who come later; 0: none does"),
    Field("unfreeze_prob", fields.SHARE, "the chance that a hit thaws it", value="X", flag="unfreeze_prob",
          needs=("fraction",)),
    defaults=_defaults(Block, BLOCK_FIELDS),
    rules={"minProperties": 1},
)  # fmt: skip
REROUTE = FieldTable(
    Field("blocked", Reader(fields.BOOLEAN, {"const": True}), without="needed", switch=True,
          needs=("block.fraction", "max"), help=
          "`true`: an agent that finds a goal blocked turns to another one, in the same iteration"),
    Field("max", fields.count(1, MOST_TURNS), without="needed", value="N", needs=("block.fraction", "blocked"), help=
          "how many blocked goals it may leave so, before the iteration is spent"),
    rules={"minProperties": 1},
)  # fmt: skip
DELAY = FieldTable(
    Field("prob", fields.SHARE, "the chance that coming to a goal delays it. Drawn each time", without="needed",
          value="X", needs=("duration",)),
    Field("duration", fields.count(0, MOST_TURNS), "iterations for which, besides this one", without="needed",
          value="N", needs=("prob",)),
    Field("seed", fields.count(0, MOST_SEED), "by which it is drawn", without="the search's", value="N",
          needs=("prob",)),
    rules={"minProperties": 1},
)  # fmt: skip


def _group(table: FieldTable) -> Reader:
    def read(item: Item, what: str) -> Values:
        found = table.read(item, what)
        return found if found.items else item.wrong(f"{what}: it says nothing; leave it out")

    return Reader(read, table.schema)


KEYS = (
    Field("mode", fields.choice((CENTRALIZED, DISTRIBUTED)), without="needed", value="MODE", help=
          "`centralized`: one controller, and no other key; `distributed`: several"),
    Field("agents", fields.count(1, MOST_AGENTS), without="needed", value="N", help=
          f"controllers over the one tree, up to {MOST_AGENTS}"),
    Field("inflight", fields.count(1, MOST_TURNS), without="needed", value="N", help=
          "where so many tactics of a goal are being tried, nobody else reserves one"),
    Field("reservation", fields.choice((VIRTUAL_LOSS, UNOBSERVED)), value="NAME", help=
          "what an action counts as while somebody is below it: as visits that were lost, or `unobserved`, as a visit "
          "whose value is not known yet"),
    Field("virtual_loss", fields.number(0), "how many lost visits, for each who is there", value="X"),
    Field("depth_bias", fields.number(), value="X", help=
          "added to the score for each step that a goal is from the root; tells apart only where ways of different "
          "lengths meet"),
    Field("path_bias", fields.number(), "added to the score of what the agent's last way went through", value="X"),
    Field("history_cache", fields.count(1, MOST_TURNS), value="N", help=
          "an agent looks at the statistics of the tree once in so many of its turns, and goes by what it saw. What is "
          "solved, dead or reserved it always sees"),
    Field("deterministic_inference", fields.BOOLEAN, default=True, switch=True, inverse=True, help=
          "answers come in virtual time; with `false` as they come: [mcts.md](mcts.md#the-same-bytes)"),
    Field("block", _group(BLOCK), "goals that are out of reach for a while", without="none"),
    Field("reroute", _group(REROUTE), "what an agent does that finds a goal blocked", without="none", needs=("block",)),
    Field("delay", _group(DELAY), without="none", help=
          "goals that are shut for everybody for a while after an agent came to them"),
)  # fmt: skip
MODE_RULES: Schema = {
    "if": {"properties": {"mode": {"const": DISTRIBUTED}}},
    "then": {"required": [*NEEDED_KEYS]},
    "else": {"properties": {each.key: False for each in KEYS[1:]}},
    "dependentSchemas": {"virtual_loss": {"properties": {"reservation": {"const": VIRTUAL_LOSS}}}},
    "required": ["mode"],
}
SCENARIO = FieldTable(*KEYS, defaults=_defaults(ReservationRules, STEERING_FIELDS), rules=MODE_RULES)
GROUPS = {"block": BLOCK, "reroute": REROUTE, "delay": DELAY}


def _flat_keys() -> Iterator[tuple[str, Field]]:
    for each in SCENARIO:
        for inner in GROUPS.get(each.key, ()):
            needs = tuple(other if "." in other else f"{each.key}.{other}" for other in inner.needs)
            name = inner.flag or f"{each.key}_{inner.key}"
            yield f"{each.key}.{inner.key}", inner._replace(needs=needs, flag=name)
        if each.key not in GROUPS:
            yield each.key, each._replace(flag=each.key)


# By key; a dot stands between a key and one within it.
OPTIONS = dict(_flat_keys())


def spec_word(key: str) -> str:
    """The key as a message about a spec has it."""
    return key.replace(".", ": ")


# Complains about a key, or about the whole where there is none.
Wrong = Callable[[str, str], NoReturn]


def make_scenario(name: str, values: Mapping[str, Any], wrong: Wrong, key_name: Callable[[str], str]) -> Scenario:
    """`key_name`: what a key is called in what is said to be wrong."""
    _check_keys(values, wrong, key_name)
    if values["mode"] != DISTRIBUTED:
        return Scenario(name, values["mode"], explicit_keys=values)
    time = VIRTUAL_TIME if values.get("deterministic_inference", True) else REAL_TIME
    steering = _record(ReservationRules, values, STEERING_FIELDS)
    block, delay = _record(Block, values, BLOCK_FIELDS, "block."), _record(Delay, values, DELAY_FIELDS, "delay.")
    between = Interventions(block, delay, values.get("reroute.max", 0))
    return Scenario(name, DISTRIBUTED, steering, between, time, values)


def _record(kind: Any, values: Mapping[str, Any], names: Mapping[str, str], group: str = "") -> Any:
    """The values of a group's keys as its record."""
    return kind(**{name: values[group + key] for key, name in names.items() if group + key in values})


def _check_keys(values: Mapping[str, Any], wrong: Wrong, name: Callable[[str], str]) -> None:
    """No mode stands in for the other, and nothing that is said is left without effect."""
    if "mode" not in values:
        wrong("", f"{name('mode')} is missing: centralized or distributed")
    if values["mode"] != DISTRIBUTED:
        for key in (key for key in values if key != "mode"):
            wrong(key, f"{name(key)} is for {name('mode')} distributed, and this is centralized; leave it out")
        return
    for key in (key for key in NEEDED_KEYS if key not in values):
        wrong("mode", f"{name('mode')} distributed needs {name(key)}")
    for key in values:
        for other in (other for other in OPTIONS[key].needs if other not in values):
            wrong(key, f"{name(key)} means nothing without {name(other)}; add it, or leave this out")
    if values.get("reservation") == UNOBSERVED and "virtual_loss" in values:
        wrong("virtual_loss", f"{name('virtual_loss')}: with {name('reservation')} unobserved none is counted")
    if not values.get("reroute.blocked", True):
        wrong("reroute.blocked", f"{name('reroute.blocked')}: leave it and {name('reroute.max')} out for none")


MOST_SCENARIOS = 1000
LONGEST_NAME = 60  # files are called after it and its goal


def read_scenarios(top: Values) -> tuple[Scenario, ...]:
    if "scenarios" in top:
        for key in top.items:
            if key in SCENARIO.fields:
                top.wrong(key, f"{key}: each scenario says it for itself, and `scenarios:` is there; put it there")
        return tuple(top["scenarios"])
    if "mode" not in top:
        top.item.wrong("spec: give it `mode: centralized`, or `mode: distributed`, or `scenarios:` with a mode each")
    return (_scenario(top["mode"], top),)


def _listed_scenarios(item: Item, what: str) -> list[Scenario]:
    pairs = [*item.pairs(what)]
    if not 0 < len(pairs) <= MOST_SCENARIOS:
        item.wrong(f"{what}: expected from 1 to {MOST_SCENARIOS}, found {len(pairs)}")
    found = []
    for name, each in pairs:
        checked_name(name, each, what)
        if len(name) > LONGEST_NAME:
            each.wrong(f"{what}: a name has up to {LONGEST_NAME} characters, '{cut_text(name)}' has {len(name)}")
        found.append(_scenario(name, SCENARIO.read(each, f"scenario {name}")))
    return found


SCENARIOS = Reader(_listed_scenarios, {**fields.names_of(SCENARIO.schema, least=1), "maxProperties": MOST_SCENARIOS})


def _scenario(name: str, keys: Values) -> Scenario:
    items, values = dict[str, Item](), dict[str, Any]()
    for key in keys.items:
        value = keys[key] if key in SCENARIO.fields else None
        if isinstance(value, Values):
            items |= {f"{key}.{inner}": item for inner, item in value.items.items()}
            values |= {f"{key}.{inner}": each for inner, each in value.as_dict().items()}
        elif value is not None:
            items[key], values[key] = keys.items[key], value

    def wrong(key: str, what: str) -> NoReturn:
        items.get(key, keys.item).wrong(keys.before + what)

    return make_scenario(name, values, wrong, spec_word)
