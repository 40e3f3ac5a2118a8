"""The kinds of run, and what a kind can do beside being built.

A kind is a package with four modules and a line in KINDS:

    read.read(item, run) -> the spec, checked: it has `rooms`, `store`, `at_once`, `sources`; the rest is the kind's own
    read.SPEC            -> the table of its keys
    plan.plan(spec)      -> its targets, a pure function
    stages.STAGES        -> what the targets do, by the name of the stage
    describe.describe(target)  -> the same of one of them for people: words of the spec, and the lines beside each
    describe.outlook(targets)  -> lines about the whole run that one should know before it starts

What else a kind can do is a line of ABILITY_MODULES, which names the module that does it.  The protocols here say what
such a module must have:

    FOLLOW     FollowModule     follow its builds, as the one writer of what is not the output of any target
    ADVANCE    AdvanceModule    go on in rounds, for `coppice advance`; its module `flags` has FLAGS, which stand for
                                keys of its spec
    ACCOUNTS   AccountsModule   decide by what it recorded, for `coppice explain` and `coppice replay`
    CALIBRATE  CalibrateModule  tell what it would promote by chance, for `coppice calibrate`
    HOLDOUT    HoldoutModule    hold out a part of what is measured, for `coppice holdout`
    PROVE      ProveModule      prove goals and keep attempts in a ledger, for `coppice bank`, `mcts` and `stats`; has
                                FLAGS too
    PURSUE     PursueModule     work on open goals of a ledger, for `coppice bg`

The modules are imported when they are needed: a build whose plan is frozen reads no YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome
from pipeline.errors import did_you_mean

if TYPE_CHECKING:
    from pipeline.machine.job import Stage
    from pipeline.spec import Item
    from pipeline.spec_fields import Field


class Follower(Protocol):
    """Told by the main thread.  What `over` returns is for people to read at the end."""

    def begin(self) -> None: ...
    def target_started(self, target: Target, new: bool) -> None: ...
    def target_ended(self, target: Target, outcome: Outcome) -> None: ...
    def finish(self, stopped: bool) -> str: ...


class FollowModule(Protocol):
    """Makes who hears of one build of a run, in which the targets `todo` are in doubt."""

    def follower(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> Follower: ...


class AdvanceModule(Protocol):
    """`done`: so many rounds, from the first on, are as they should be."""

    def rounds(self, targets: Sequence[Target]) -> Sequence[Sequence[str]]:
        """The targets that end each."""

    def progress_record(self, run: str, targets: Sequence[Target], done: int) -> Mapping[str, Any]:
        """As it is printed; there is no round left to be started when it has stopped."""

    def has_stopped(self, run: str, done: int) -> bool:
        """Is that so?"""

    def summarize(self, run: str, targets: Sequence[Target], done: int) -> None:
        """Writes a summary before the end."""

    def report(self, run: str, targets: Sequence[Target]) -> str:
        """Writes the summary from what is recorded; its path."""

    def validate(self, run: str, targets: Sequence[Target]) -> tuple[str, int]:
        """Writes whether the records hold together; the path, and how many problems there are."""


class AccountsModule(Protocol):
    """How what is recorded came to be decided.  Changes nothing, and what it tells is as it is printed for tools."""

    def replay(self, run: str, targets: Sequence[Target]) -> Mapping[str, Any]:
        """Each decision made again."""

    def agrees(self, replay: Mapping[str, Any]) -> bool:
        """Did all come out as it is recorded?"""

    def replay_lines(self, replay: Mapping[str, Any]) -> Sequence[str]:
        """For people."""

    def explain(self, run: str, targets: Sequence[Target], word: str) -> Mapping[str, Any]:
        """One decision, `word` being what was asked for; SpecError when there is none."""

    def explain_lines(self, explained: Mapping[str, Any]) -> Sequence[str]:
        """For people."""


class CalibrateModule(Protocol):
    """`again`: targets that no plan has, which measure once more what a search starts from."""

    def seed_targets(self, run: str, targets: Sequence[Target], count: int) -> list[Target]:
        """Those, so many times over; none where the measurement takes no seed.  SpecError if it is of no use anyway."""

    def needed_targets(self, run: str, again: Sequence[Target]) -> list[str]:
        """The targets that must be there."""

    def calibrate(
        self, run: str, targets: Sequence[Target], again: Sequence[Target], depths: int, seed: int
    ) -> Mapping[str, Any]:
        """By so many made-up depths, or 0 for as many as are reasonable; as it is printed for tools."""

    def calibration_lines(self, record: Mapping[str, Any]) -> Sequence[str]:
        """For people."""


class HoldoutModule(Protocol):
    """What is measured once, after the end."""

    REPORT_TARGETS: Sequence[str]  # targets that have to tell of it too

    def sources(self, spec: Any) -> Sequence[str]:
        """Runs whose outputs it reads."""

    def question(self, run: str, spec: Any, planned: Sequence[Target]) -> Mapping[str, Any]:
        """Of what, on what; SpecError when there is nothing to ask."""

    def open_seal(self, run: str, question: Mapping[str, Any], reopen: bool) -> None:
        """Writes it down before anything is measured; SpecError when it must not be."""

    def targets(self, spec: Any, asked: Mapping[str, Any]) -> Sequence[Target]:
        """What measures; the last is `holdout`."""

    def seal_record(self, run: str) -> Mapping[str, Any]:
        """What is recorded of it, for tools."""

    def holdout_lines(self, told: Mapping[str, Any]) -> Iterable[str]:
        """For people."""


class ProveModule(Protocol):
    """Its specs have a `ledger`; its FLAGS say what a spec says."""

    def spec_for_bank(self, bank: str) -> Any:
        """The spec of a bank that has none."""

    def with_overrides(self, spec: Any, values: Mapping[str, Any]) -> Any:
        """With what options and variables say, by the keys of FLAGS and VARIABLES, in place of what the spec does."""


class PursueModule(Protocol):
    def pursuit(self, spec: Any, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]:
        """Targets that work on open goals."""


KINDS = {"steps": "pipeline.steps", "tree": "pipeline.tree", "proof": "pipeline.proof", "mcts": "pipeline.mcts"}


class Spec(Protocol):
    """What the kernel asks of any kind's spec."""

    @property
    def rooms(self) -> dict[str, int]: ...
    @property
    def store(self) -> str | None: ...
    @property
    def at_once(self) -> int: ...
    @property
    def sources(self) -> Mapping[str, int]:
        """Files that the plan was made of besides, each with its signature before it was read."""


AbilityModule = TypeVar("AbilityModule")


class Ability(NamedTuple, Generic[AbilityModule]):
    """What some kinds can do and others cannot; their modules are all of the type that it names."""

    name: str


FOLLOW: Ability[FollowModule] = Ability("following")
ADVANCE: Ability[AdvanceModule] = Ability("advancing")
ACCOUNTS: Ability[AccountsModule] = Ability("accounting")
CALIBRATE: Ability[CalibrateModule] = Ability("calibrating")
HOLDOUT: Ability[HoldoutModule] = Ability("holding")
PROVE: Ability[ProveModule] = Ability("proving")
PURSUE: Ability[PursueModule] = Ability("pursuing")
ABILITY_MODULES: Mapping[tuple[str, Ability[Any]], str] = {
    ("tree", FOLLOW): "pipeline.tree.follow",
    ("tree", ADVANCE): "pipeline.tree.advance",
    ("tree", ACCOUNTS): "pipeline.tree.accounts",
    ("tree", CALIBRATE): "pipeline.tree.calibrate",
    ("tree", HOLDOUT): "pipeline.tree.holdout",
    ("proof", FOLLOW): "pipeline.proof.follow",
    ("proof", ACCOUNTS): "pipeline.proof.accounts",
    ("proof", PROVE): "pipeline.proof.flags",
    ("proof", PURSUE): "pipeline.proof.flags",
    ("mcts", FOLLOW): "pipeline.mcts.follow",
    ("mcts", ACCOUNTS): "pipeline.mcts.accounts",
    ("mcts", PROVE): "pipeline.mcts.flags",
}


def kind_of(item: Item) -> str:
    for name, value in item.pairs("spec"):
        if name == "kind":
            kind = value.text("kind")
            if kind not in KINDS:
                value.wrong(f"kind: '{kind}' is unknown{did_you_mean(kind, KINDS)}")
            return kind
    return item.wrong(f"spec: 'kind' is missing; one of: {', '.join(KINDS)}")


def read(kind: str, item: Item, run: str) -> Spec:
    spec: Spec = _module(kind, "read").read(item, run)
    return spec


def plan(kind: str, spec: Spec) -> Iterable[Target]:
    targets: Iterable[Target] = _module(kind, "plan").plan(spec)
    return targets


def stages(kind: str) -> Mapping[str, Stage]:
    known: Mapping[str, Stage] = _module(kind, "stages").STAGES
    return known


def describe(kind: str, target: Target) -> Mapping[str, Sequence[str]]:
    words: Mapping[str, Sequence[str]] = _module(kind, "describe").describe(target)
    return words


def outlook(kind: str, targets: Sequence[Target]) -> Iterable[str]:
    """What all of a run may come to."""
    lines: Iterable[str] = _module(kind, "describe").outlook(targets)
    return lines


def has_ability(kind: str, ability: Ability[Any]) -> bool:
    return (kind, ability) in ABILITY_MODULES


def ability_module(kind: str, ability: Ability[AbilityModule]) -> AbilityModule:
    """The module of `kind` that does it."""
    module: Any = import_module(ABILITY_MODULES[kind, ability])
    found: AbilityModule = module
    return found


def flags(kind: str) -> Sequence[Field]:
    known: Sequence[Field] = _module(kind, "flags").FLAGS
    return known


def variables(kind: str) -> Sequence[Field]:
    """Of the environment, which say what flags may say."""
    known: Sequence[Field] = _module(kind, "flags").VARIABLES
    return known


def schema(names: Iterable[str] = KINDS) -> Mapping[str, Any]:
    """The JSON Schema of specs of these kinds."""
    from pipeline.spec_fields import schema_of  # here: it reads YAML, which most builds do not

    return schema_of({name: _module(name, "read").SPEC for name in names})


def _module(kind: str, name: str) -> Any:
    return import_module(f"{KINDS[kind]}.{name}")
