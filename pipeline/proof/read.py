"""YAML -> ProofSpec: the keys of `kind: proof` and what each may hold."""

from __future__ import annotations

from pipeline.banks.read import between, count, lean, path, read_key, share
from pipeline.banks.settings import LEDGER
from pipeline.declared import choice, flag
from pipeline.proof.bandits import BANDITS
from pipeline.proof.read_strategies import listed, of_profile
from pipeline.proof.settings import Pace, ProofSpec, Search
from pipeline.spec import Item

SEARCH = (
    "strategies", "profile", "bandit", "speculation", "levels", "level_factor", "escalate_threshold", "tactic_cache",
    "timeout", "samples", "seed",
)  # fmt: skip
PACE = ("max_light", "max_heavy", "cpu_target")
KEYS = ("kind", "store", "bank", "lean", *SEARCH, *PACE, "pass_at", "ledger")
NEEDED = ("kind", "bank")
HOW = "give it `strategies:`, or a `profile:` that stands for some; 0 is micro alone"
MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 1000, 12, 1000

Keys = dict[str, Item]


def read(item: Item, name: str) -> ProofSpec:
    top = item.fields("spec", KEYS, NEEDED)
    profile = top["profile"].count("profile", 0) if "profile" in top else None
    if "strategies" in top and profile is not None:
        top["profile"].wrong("profile: it stands for strategies, and `strategies:` is there too; keep one of them")
    if "strategies" not in top and profile is None:
        item.wrong(f"spec: {HOW}")
    budgets, ways = listed(top["strategies"]) if profile is None else of_profile(profile, top["profile"])
    search = _search(top, budgets)
    return ProofSpec(
        name=name,
        line=item.line,
        bank=path(top["bank"], "bank"),
        lean=lean(top),
        search=search,
        pace=_pace(top),
        profile=profile,
        pass_at=_pass_at(top["pass_at"], search.samples) if "pass_at" in top else (1,),
        ledger=path(top["ledger"], "ledger") if "ledger" in top else LEDGER,
        store=path(top["store"], "store") if "store" in top else None,
        given=frozenset(top),
        ways=ways,
    )


def _search(top: Keys, strategies: dict[str, float]) -> Search:
    d = Search._field_defaults
    return Search(
        strategies=strategies,
        bandit=choice(top["bandit"], "bandit", BANDITS) if "bandit" in top else d["bandit"],
        speculation=count(top, "speculation", 1, d["speculation"], MOST_AT_ONCE),
        levels=count(top, "levels", 1, d["levels"], MOST_LEVELS),
        level_factor=read_key(top, "level_factor", _factor, d["level_factor"]),
        escalate_threshold=read_key(top, "escalate_threshold", share, d["escalate_threshold"]),
        tactic_cache=read_key(top, "tactic_cache", flag, d["tactic_cache"]),
        timeout=read_key(top, "timeout", whole_timeout, None),
        samples=count(top, "samples", 1, d["samples"], MOST_SAMPLES),
        seed=count(top, "seed", 0, d["seed"], 2**31),
    )


def _pace(top: Keys) -> Pace:
    d = Pace._field_defaults
    return Pace(
        count(top, "max_light", 1, d["max_light"], MOST_AT_ONCE),
        count(top, "max_heavy", 1, d["max_heavy"], MOST_AT_ONCE),
        read_key(top, "cpu_target", cpu_target, None),
    )


def cpu_target(item: Item, what: str) -> float | None:
    """A load per CPU; `none` for as fast as it goes."""
    value = item.plain()
    if value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        item.wrong(f"{what}: expected a load per CPU, more than 0 and at most 1, or none, found {item.found()}")
    return float(value)


def whole_timeout(item: Item, what: str) -> float:
    return item.seconds(what)


def _pass_at(item: Item, samples: int) -> tuple[int, ...]:
    """pass@k cannot be estimated from fewer than k samples of each goal."""
    each = item.items("pass_at") if item.is_list else [item]
    found = tuple(one.count("pass_at", 1) for one in each)
    if not found or max(found) > samples:
        item.wrong(f"pass_at: up to {samples}, as many as `samples:` says, found {[*found]}")
    return found


def _factor(item: Item, what: str) -> float:
    return between(item, what, 1.0, 1000.0)
