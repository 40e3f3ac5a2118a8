"""The kinds of run.  A new one is a package with four modules and a line in KINDS.

    read.read(item, run) -> the spec, checked: it has `rooms`, `store`, `at_once`, `sources`; the rest is the kind's own
    plan.plan(spec)      -> its targets, a pure function
    stages.STAGES        -> what the targets do, by the name of the stage
    shown.shown(target)  -> the same of one of them for people: words of the spec, and the lines beside each
    shown.outlook(targets) -> lines about the whole run that one should know before it starts

What else a kind can do is a line of ABLE, which names the module that does it:

    FOLLOWING    follow its builds, as the one writer of what is not the output of any target
    ADVANCING    go on in rounds, for `coppice advance`; its module `flags` has FLAGS, which stand for keys of its spec
    ACCOUNTING   decide by what it recorded, for `coppice explain` and `coppice replay`
    CALIBRATING  tell what it would promote by chance, for `coppice calibrate`
    HOLDING      hold out a part of what is measured, for `coppice holdout`
    PROVING      prove goals and keep attempts in a ledger, for `coppice bank`, `mcts` and `stats`; has FLAGS too
    PURSUING     work on open goals of a ledger, for `coppice bg`

The modules are imported when they are needed: a build whose plan is frozen reads no YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pipeline.abilities import (
    Accounting,
    Advancing,
    Calibrating,
    Flag,
    Following,
    Holding,
    Proving,
    Pursuing,
)
from pipeline.core.graph import Target
from pipeline.errors import instead

if TYPE_CHECKING:
    from pipeline.edge.job import Stage
    from pipeline.spec import Item

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


Does = TypeVar("Does")


class Ability(NamedTuple, Generic[Does]):
    """What some kinds can do and others cannot; `Does` is what their modules have for it."""

    name: str


FOLLOWING: Ability[Following] = Ability("following")
ADVANCING: Ability[Advancing] = Ability("advancing")
ACCOUNTING: Ability[Accounting] = Ability("accounting")
CALIBRATING: Ability[Calibrating] = Ability("calibrating")
HOLDING: Ability[Holding] = Ability("holding")
PROVING: Ability[Proving] = Ability("proving")
PURSUING: Ability[Pursuing] = Ability("pursuing")
ABLE: Mapping[tuple[str, Ability[Any]], str] = {
    ("tree", FOLLOWING): "pipeline.tree.follow",
    ("tree", ADVANCING): "pipeline.tree.advancing",
    ("tree", ACCOUNTING): "pipeline.tree.accounting",
    ("tree", CALIBRATING): "pipeline.tree.calibrating",
    ("tree", HOLDING): "pipeline.tree.holding",
    ("proof", FOLLOWING): "pipeline.proof.following",
    ("proof", ACCOUNTING): "pipeline.proof.accounting",
    ("proof", PROVING): "pipeline.proof.benching",
    ("proof", PURSUING): "pipeline.proof.benching",
    ("mcts", FOLLOWING): "pipeline.mcts.following",
    ("mcts", ACCOUNTING): "pipeline.mcts.accounting",
    ("mcts", PROVING): "pipeline.mcts.staged",
}


def kind_of(item: Item) -> str:
    for name, value in item.pairs("spec"):
        if name == "kind":
            kind = value.text("kind")
            if kind not in KINDS:
                value.wrong(f"kind: '{kind}' is unknown{instead(kind, KINDS)}")
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


def shown(kind: str, target: Target) -> Mapping[str, Sequence[str]]:
    words: Mapping[str, Sequence[str]] = _module(kind, "shown").shown(target)
    return words


def outlook(kind: str, targets: Sequence[Target]) -> Iterable[str]:
    """What all of a run may come to."""
    lines: Iterable[str] = _module(kind, "shown").outlook(targets)
    return lines


def can(kind: str, ability: Ability[Any]) -> bool:
    return (kind, ability) in ABLE


def able(kind: str, ability: Ability[Does]) -> Does:
    """The module of `kind` that does it."""
    module: Any = import_module(ABLE[kind, ability])
    found: Does = module
    return found


def flags(kind: str) -> Sequence[Flag]:
    known: Sequence[Flag] = _module(kind, "flags").FLAGS
    return known


def variables(kind: str) -> Sequence[Flag]:
    """Of the environment, which say what flags may say."""
    known: Sequence[Flag] = _module(kind, "flags").VARIABLES
    return known


def _module(kind: str, name: str) -> Any:
    return import_module(f"{KINDS[kind]}.{name}")
