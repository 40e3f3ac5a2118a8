"""YAML -> ProofSpec: the keys of `kind: proof`, its strategies, and what each may hold.

A strategy is a worker's name with a budget, or has keys of its own: `timeout`, `worker`, `families`. `profile:` stands
for a list of strategies. Every worker named must be built, or the spec is refused with its line.

Options of `coppice bank` and `bg` go before the environment, that before the spec, and the spec before documented
defaults. Also here: the spec of a bank that has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline import spec_fields as fields
from pipeline.errors import SpecError, cut_text, did_you_mean
from pipeline.lean.backends.keys import DEFAULT_LEDGER, LEDGER, PATH, lean_field
from pipeline.lean.model import LeanKeys
from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.records import CACHE, TIMEOUTS
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings, StrategyWorker
from pipeline.proof.workers.table import BUILT_WORKERS, WORKERS, check_worker_built, profile_workers
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader
from pipeline.tactics.moves import FAMILIES


class Strategies(NamedTuple):
    """`budgets` in the order of the spec; `ways` of those that are not simply the worker of their name."""

    budgets: dict[str, float]
    strategy_workers: dict[str, StrategyWorker]


def _read_strategies(item: Item, what: str) -> Strategies:
    """Every one is there to be run, or nothing is."""
    pairs = item.pairs(what) if item.is_map else ((each.text(what), each) for each in item.items(what))
    found = Strategies({}, {})
    for name, each in pairs:
        if name in found.budgets:
            each.wrong(f"{what}: '{name}' is given twice")
        if item.is_map and not each.is_null:
            found.budgets[name], way = _keyed_strategy(name, each)
        else:
            _check_worker(each, name, what)
            found.budgets[name], way = TIMEOUTS[name], StrategyWorker(name)
        if way != StrategyWorker(name):
            found.strategy_workers[name] = way
    if not found.budgets:
        item.wrong(f"{what}: there is none; name one of: {', '.join(BUILT_WORKERS)}")
    return found


def _profile_strategies(number: int, item: Item) -> Strategies:
    built, lacking = profile_workers(number)
    for name in lacking:
        _check_worker(item, name, f"profile: {number}")
    return Strategies({name: TIMEOUTS[name] for name in built}, {})


def _keyed_strategy(name: str, item: Item) -> tuple[float, StrategyWorker]:
    what = f"strategy {cut_text(name)}"
    keys = STRATEGY.read(item, what)
    worker = keys["worker"] or name
    if "worker" in keys:
        _check_worker(keys.at("worker"), worker, what)
        fields.checked_name(name, item, "strategies")
        if name == CACHE or (name in WORKERS and name != worker):  # a worker's name is its own, `cache` the search's
            item.wrong(f"strategies: '{name}' is taken; give what {worker} does here another name")
    else:
        _check_worker(item, name, what, "; or say with `worker:` whose strategy it is")
    return keys["timeout"] or TIMEOUTS[worker], StrategyWorker(worker, keys["families"])


def _read_families(item: Item, what: str) -> tuple[str, ...]:
    """In an order of their own, so that it does not matter how they are listed; all of them are as good as none."""
    named = [(each.text(what), each) for each in item.items(what)]
    for n, (name, each) in enumerate(named):
        if name not in FAMILIES:
            each.wrong(f"{what}: '{cut_text(name)}' is unknown{did_you_mean(name, FAMILIES)}")
        if name in dict(named[:n]):
            each.wrong(f"{what}: '{name}' is given twice")
    if not named:
        item.wrong(f"{what}: there is none; without this key all are used")
    found = tuple(each for each in FAMILIES if each in dict(named))
    return found if len(found) < len(FAMILIES) else ()


def _check_worker(item: Item, name: str, what: str, more: str = "") -> None:
    """Refuse a worker that there is not, or that cannot be run."""
    try:
        check_worker_built(name)
    except SpecError as error:
        item.wrong(f"{what}: {error}{more}")


_BUILT = {"enum": [*BUILT_WORKERS]}
_UNBUILT = [name for name in WORKERS if name not in BUILT_WORKERS]
STRATEGY = FieldTable(
    Field("timeout", fields.SECONDS, without="its worker's", help=
          "its time on a goal at the first level: 8 s for `micro`, 20 s `copilot`, 60 s `reprover`, 6 s `sketch`"),
    Field("worker", Reader(fields.TEXT, _BUILT), without="its name", help=
          "which worker does it. What has the name of a worker is done by that one; `cache` is no name"),
    Field("families", Reader(_read_families, fields.list_of({"enum": [*FAMILIES]}, minItems=1, uniqueItems=True)),
          f"the kinds of moves that it may use, of {fields.quoted(FAMILIES)}", default=(), without="all"),
)  # fmt: skip
STRATEGIES = Reader(
    _read_strategies,
    fields.any_of(
        fields.list_of(_BUILT, minItems=1, uniqueItems=True),
        {
            **fields.names_of({**STRATEGY.schema, "required": ["worker"]}, CACHE, *_UNBUILT, least=1),
            "properties": {name: fields.any_of({"type": "null"}, STRATEGY.schema) for name in BUILT_WORKERS},
        },
    ),
)
MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 1000, 12, 1000


def _cpu_target(item: Item, what: str) -> float | None:
    """A load per CPU; `none` for as fast as it goes."""
    value = item.plain()
    if value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        item.wrong(f"{what}: expected a load per CPU, more than 0 and at most 1, or none, found {item.summary()}")
    return float(value)


_LOAD = fields.any_of({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"const": "none"})
_COUNTS = fields.any_of(fields.count(1).schema, fields.list_of(fields.count(1).schema, minItems=1))


def _pass_at(item: Item, what: str) -> tuple[int, ...]:
    each = item.items(what) if item.is_list else [item]
    return tuple(one.count(what, 1) for one in each)


SPEC = FieldTable(
    fields.kind_field("proof"),
    Field("bank", PATH, "the file with the goals, a JSON object a line", needed=True),
    Field("strategies", STRATEGIES, "which, as a list; or each with its keys, see below", without="this"),
    Field("profile", fields.count(0), without="or this", value="N", variable="ORCH_PROFILE", help=
          "a number that stands for some strategies: `0` is `micro`; `1` also `copilot` and `sketch`; `2` and more "
          "all. One that is not built is an error"),
    lean_field(LeanKeys(), "which Lean, and how much of it, see below"),
    Field("bandit", fields.choice(BANDITS), f"which strategy goes first: {fields.quoted(BANDITS)}"),
    Field("speculation", fields.count(1, MOST_AT_ONCE),
          "so many strategies are tried on a goal at once; the first verified proof ends the others"),
    Field("levels", fields.count(1, MOST_LEVELS),
          f"how often a goal may be tried by each strategy, with more time each time, {MOST_LEVELS} at most"),
    Field("level_factor", fields.number(1, 1000), "how much more"),
    Field("cpu_target", Reader(_cpu_target, _LOAD), without="`none`", variable="ORCH_CPU_TARGET", help=
          "a load per CPU, such as `0.5`, above which attempts are started more slowly"),
    Field("max_light", fields.count(1, MOST_AT_ONCE), "attempts on light goals at once", variable="ORCH_MAX_LIGHT"),
    Field("max_heavy", fields.count(1, MOST_AT_ONCE), "attempts on heavy goals at once", variable="ORCH_MAX_HEAVY"),
    Field("escalate_threshold", fields.SHARE, variable="ORCH_ESCALATE_THRESHOLD", help=
          "goals of this `difficulty` and above are heavy, others light"),
    Field("tactic_cache", fields.BOOLEAN,
          "what proved the same goal before is tried first, if it held more often than 0.7"),
    Field("timeout", fields.SECONDS, without="none", value="S", help=
          "how long all of it may take: `90`, `90s`, `10m`, `2h`; goals left then are not counted as processed"),
    Field("samples", fields.count(1, MOST_SAMPLES),
          "so many searches of each goal that know nothing of each other; those after the first weigh the kinds of "
          "moves otherwise, and so try them in another order"),
    Field("seed", fields.count(0, 2**31), "by another one the samples after the first are others"),
    Field("pass_at", Reader(_pass_at, _COUNTS), default=(1,), without="`[1]`", help=
          "which `k` of pass@k are reported, up to `samples`"),
    LEDGER,
    fields.STORE,
    defaults={**SearchSettings._field_defaults, **Pace._field_defaults},
    rules={"oneOf": [{"required": ["strategies"]}, {"required": ["profile"]}]},
)  # fmt: skip
STRATEGIES_HINT = "give it `strategies:`, or a `profile:` that stands for some; 0 is micro alone"


def read(item: Item, name: str) -> ProofSpec:
    top = SPEC.read(item, "spec", "")
    profile = top["profile"]
    if "strategies" in top and profile is not None:
        top.wrong("profile", "profile: it stands for strategies, and `strategies:` is there too; keep one of them")
    if "strategies" not in top and profile is None:
        item.wrong(f"spec: {STRATEGIES_HINT}")
    chosen = top["strategies"] if profile is None else _profile_strategies(profile, top.at("profile"))
    search = top.record(SearchSettings, strategies=chosen.budgets)
    if not top["pass_at"] or max(top["pass_at"]) > search.samples:
        top.wrong("pass_at", f"pass_at: up to {search.samples}, as many as `samples:` says, found {[*top['pass_at']]}")
    found: ProofSpec = top.record(
        ProofSpec,
        name=name,
        line=item.line,
        search=search,
        pace=top.record(Pace),
        explicit_keys=frozenset(top.items),
        strategy_workers=chosen.strategy_workers,
    )
    return found


FLAGS = SPEC.flags
DEFAULT_PROFILE = 1
# As documented, where that is not what a spec without the key has.
DEFAULTS = {"profile": DEFAULT_PROFILE, "cpu_target": 0.5}
VARIABLES = tuple(each._replace(default=DEFAULTS.get(each.key, each.default)) for each in SPEC if each.variable)


def spec_for_bank(bank: str) -> ProofSpec:
    """A bank without a spec."""
    return ProofSpec("", 1, bank, LeanKeys(), SearchSettings({}), Pace(), None, (1,), DEFAULT_LEDGER, None)


def with_overrides(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """Merge settings: options and environment go before the spec, and that before documented defaults."""
    missing = {
        flag.key: flag.default for flag in VARIABLES if flag.key not in spec.explicit_keys and flag.key != "profile"
    }
    settled = {**missing, **values}
    search = {key: value for key, value in settled.items() if key in SearchSettings._fields}
    pace = {key: value for key, value in settled.items() if key in Pace._fields}
    spec = spec._replace(search=spec.search._replace(**search), pace=spec.pace._replace(**pace))
    return _with_profile(spec, values) if "profile" in values or not spec.search.strategies else spec


def _with_profile(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """Budgets of the spec stay.  The default profile is what of it is built; one that is asked for is all built."""
    profile = values.get("profile", DEFAULT_PROFILE)
    built, lacking = profile_workers(profile)
    for name in lacking if "profile" in values else ():
        try:
            check_worker_built(name)
        except SpecError as error:
            raise SpecError(f"profile {profile}: {error}; profile 0 is micro alone") from error
    strategies = {name: spec.search.strategies.get(name, TIMEOUTS[name]) for name in built}
    return spec._replace(profile=profile, search=spec.search._replace(strategies=strategies))
