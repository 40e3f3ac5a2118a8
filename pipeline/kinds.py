"""Kinds of run, and what a kind can do beside being built.

A kind is a package with a line in KINDS and four modules:

    read.read(item, run)       -> the spec, checked: it has `rooms`, `store`, `at_once`, `sources` for the kernel
    read.SPEC                  -> the table of its keys
    plan.plan(spec)            -> its targets, a pure function
    stages.STAGES              -> the functions that make targets, by the name of the stage
    describe.describe(target)  -> a target for people: words of the spec, and the lines beside each
    describe.outlook(targets)  -> lines about the whole run that one should know before it starts

What else it can do is an Ability: the module that has it, and the kinds that do.  The protocols here say what such a
module must have.  The `read` of a kind that can ADVANCE or PROVE has FLAGS too, which stand for keys of its spec.
Modules are imported when they are needed: a build whose plan is frozen reads no YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from pipeline.core.graph import Target
from pipeline.errors import did_you_mean

if TYPE_CHECKING:
    from pipeline.core.outcome import Outcome, Wait
    from pipeline.core.projection import Block, Moment, Projection
    from pipeline.machine.job import Stage
    from pipeline.spec import Item
    from pipeline.spec_fields import Field


class Follower(Protocol):
    """Writer that follows one build; called by the main thread.

    target_process: a process works on a target
    steered: a person asked something of the run, which is in its steering log; of kinds that STEER
    round_ended: after each round of events, and at least every other second
    take_lines: lines for people since the last call
    is_saved: what was recalled or found fresh need not be made again; False for what is only there twice
    saved_usd: what was saved cost that much when it was made
    finish: a text for people at the end"""

    def target_started(self, target: Target, new: bool) -> None: ...
    def target_waits(self, target: Target, wait: Wait) -> None: ...
    def target_ended(self, target: Target, outcome: Outcome) -> None: ...
    def target_process(self, target: Target, pid: int) -> None:
        return

    def steered(self) -> None:
        return

    def round_ended(self) -> None:
        return

    def take_lines(self) -> Sequence[str]:
        return ()

    def is_saved(self, target: Target) -> bool:
        return True

    @property
    def saved_usd(self) -> float:
        return 0.0

    def finish(self, stopped: bool) -> str: ...


class FollowModule(Protocol):
    """Module that makes the follower of one build of a run, in which the targets `todo` are in doubt."""

    def follower(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> Follower: ...


class AdvanceModule(Protocol):
    """Module for searches that go on in rounds.  `done`: this many rounds, from the first on, are as they should be.

    rounds: the targets that end each round
    progress_record: as it is printed; once the search has stopped, no round is left to be started
    summarize: writes a summary before the end
    report: writes the summary from what is recorded; its path
    validate: checks that the records hold together; the path of the report, and the number of problems"""

    def rounds(self, targets: Sequence[Target]) -> Sequence[Sequence[str]]: ...
    def progress_record(self, run: str, targets: Sequence[Target], done: int) -> Mapping[str, Any]: ...
    def has_stopped(self, run: str, done: int) -> bool: ...
    def summarize(self, run: str, targets: Sequence[Target], done: int) -> None: ...
    def report(self, run: str, targets: Sequence[Target]) -> str: ...
    def validate(self, run: str, targets: Sequence[Target]) -> tuple[str, int]: ...


class AccountsModule(Protocol):
    """Module that accounts for recorded decisions.  Changes nothing; mappings are printed as JSON, lines for people.

    replay: makes each decision again
    agrees: all came out as it is recorded
    explain: explains one decision, which `word` names; SpecError when there is none"""

    def replay(self, run: str, targets: Sequence[Target]) -> Mapping[str, Any]: ...
    def agrees(self, replay: Mapping[str, Any]) -> bool: ...
    def replay_lines(self, replay: Mapping[str, Any]) -> Sequence[str]: ...
    def explain(self, run: str, targets: Sequence[Target], word: str) -> Mapping[str, Any]: ...
    def explain_lines(self, explained: Mapping[str, Any]) -> Sequence[str]: ...


class CalibrateModule(Protocol):
    """Module that measures chance.  `again`: targets that no plan has, which measure a search's start once more.

    seed_targets: those, `count` times over; none where the measurement takes no seed; SpecError if it is of no use
    needed_targets: names of the targets that must be there
    calibrate: by so many made-up depths, or 0 for as many as are reasonable; printed as JSON, its lines for people"""

    def seed_targets(self, run: str, targets: Sequence[Target], count: int) -> list[Target]: ...
    def needed_targets(self, run: str, again: Sequence[Target]) -> list[str]: ...
    def calibrate(
        self, run: str, targets: Sequence[Target], again: Sequence[Target], depths: int, seed: int
    ) -> Mapping[str, Any]: ...
    def calibration_lines(self, record: Mapping[str, Any]) -> Sequence[str]: ...


class HoldoutModule(Protocol):
    """Module for what is measured once, after the end.

    sources: runs whose outputs it reads
    question: what would be opened and for whom; SpecError when there is nothing to ask
    open_seal: notes the opening before anything is measured; SpecError when it must not be
    targets: those that measure; the last is `holdout`
    seal_record: the seal, for tools; holdout_lines: for people"""

    REPORT_TARGETS: Sequence[str]  # targets that have to tell of it too

    def sources(self, spec: Any) -> Sequence[str]: ...
    def question(self, run: str, spec: Any, planned: Sequence[Target]) -> Mapping[str, Any]: ...
    def open_seal(self, run: str, question: Mapping[str, Any], reopen: bool) -> None: ...
    def targets(self, spec: Any, question: Mapping[str, Any]) -> Sequence[Target]: ...
    def seal_record(self, run: str) -> Mapping[str, Any]: ...
    def holdout_lines(self, record: Mapping[str, Any]) -> Iterable[str]: ...


class SteerModule(Protocol):
    """Module for runs that people steer while they are built.  Mappings say what was done, for people and tools.

    open_to: which of `idea` and `answer` a run takes now; an idea needs a free slot
    give: takes a person's idea for the next free slot, of the depth or node `where` if that is not empty; SpecError
    when it is no idea, a duplicate, or no slot is free.  `file` names it in messages
    awaited: what a person is to answer, of one slot if it is named
    answer: takes a person's idea or change for a slot that awaits one; SpecError when it is not well-formed
    give_up: makes the question of a slot that never got an answer its failure; the caller has the run's lock"""

    def open_to(self, run: str, targets: Sequence[Target]) -> Sequence[str]: ...
    def give(self, run: str, targets: Sequence[Target], text: str, file: str, where: str) -> Mapping[str, Any]: ...
    def awaited(self, run: str, targets: Sequence[Target], slot: str) -> Sequence[Mapping[str, Any]]: ...
    def answer(
        self, run: str, targets: Sequence[Target], slot: str, content: bytes, file: str
    ) -> Mapping[str, Any]: ...
    def give_up(self, run: str, targets: Sequence[Target], slot: str) -> Mapping[str, Any]: ...


class BranchModule(Protocol):
    """Module that makes branches of what a search found, in the repository that it started from."""

    def make_branches(self, run: str, targets: Sequence[Target], prefix: str, dry: bool) -> Mapping[str, Any]: ...


class Retry(Protocol):
    """Targets to be forgotten, the places they are of, and lines about what is done again and what that costs."""

    @property
    def forget(self) -> Sequence[str]: ...
    @property
    def slots(self) -> Sequence[str]: ...
    @property
    def lines(self) -> Sequence[str]: ...


class RetryModule(Protocol):
    """Module that finds what failed; `words` name some of it, none of them all.  SpecError for what did not fail."""

    def plan_retry(self, run: str, targets: Sequence[Target], words: Sequence[str]) -> Retry: ...


class PromptModule(Protocol):
    """Module for kinds that ask models.  Changes nothing; the record is printed as JSON, the lines for people.

    role_prompts: texts that a role was sent, or would get now; `is_fresh`: of a target, by name; SpecError for none"""

    def role_prompts(
        self, run: str, targets: Sequence[Target], word: str, role: str, is_fresh: Callable[[str], bool]
    ) -> Mapping[str, Any]: ...
    def prompt_lines(self, record: Mapping[str, Any]) -> Sequence[str]: ...
    def prompt_note(self, record: Mapping[str, Any]) -> str: ...


class ProveModule(Protocol):
    """Module for kinds with a `ledger` in their specs.  FLAGS, and VARIABLES of the environment, stand for its keys.

    spec_for_bank: the spec of a bank that has none
    with_overrides: with values of options and variables in place of the spec's, by the keys of FLAGS and VARIABLES"""

    VARIABLES: Sequence[Field]

    def spec_for_bank(self, bank: str) -> Any: ...
    def with_overrides(self, spec: Any, values: Mapping[str, Any]) -> Any: ...


class StartModule(Protocol):
    """Module for kinds whose commands may be in cages: lines to be told before anything of a run is started."""

    def start_lines(self, targets: Sequence[Target]) -> Iterable[str]: ...


class PursueModule(Protocol):
    """Module with targets that work on open goals."""

    def pursuit(self, spec: Any, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]: ...


class ViewModule(Protocol):
    """Module that says what there is to see of a run; the screens draw it.  Reads records, and changes nothing.

    project: the run as it stands, from its records and what they do not say
    details: of an item that a row of it names; SpecError when there is none
    watched: the files of which one has changed whenever the projection may have"""

    def project(self, run: str, targets: Sequence[Target], moment: Moment) -> Projection: ...
    def details(self, run: str, targets: Sequence[Target], item: str) -> Sequence[Block]: ...
    def watched(self, run: str, targets: Sequence[Target]) -> Sequence[str]: ...


class ShowModule(Protocol):
    """Module that can tell how a run came about: projections of it, each `at` a later time than the one before."""

    def moments(self, run: str, targets: Sequence[Target]) -> Iterable[Projection]: ...


KINDS = {"steps": "pipeline.steps", "tree": "pipeline.tree", "proof": "pipeline.proof", "mcts": "pipeline.mcts"}


class Spec(Protocol):
    """Part of a spec that the kernel asks of any kind."""

    @property
    def rooms(self) -> dict[str, int]: ...
    @property
    def store(self) -> tuple[str, bool] | None:
        """The folder for results, and whether only what this user has signed is believed there."""

    @property
    def at_once(self) -> int: ...
    @property
    def sources(self) -> Mapping[str, int]:
        """Files that the plan was made of besides, each with its signature before it was read."""

    @property
    def refusal(self) -> str:
        """Reason, with file and line, why nothing is built by it, though what is recorded can be read; else empty."""

    @property
    def engine(self) -> Mapping[str, Any]:
        """Where its targets are made, as `spec_engines` reads it; empty for threads of the build alone."""


AbilityModule = TypeVar("AbilityModule")


class Ability(NamedTuple, Generic[AbilityModule]):
    """Ability that `kinds` have and others lack: the module of a kind for it, and the type of such modules."""

    module: str
    kinds: tuple[str, ...]


FOLLOW: Ability[FollowModule] = Ability("follow", ("tree", "proof", "mcts"))
ADVANCE: Ability[AdvanceModule] = Ability("advance", ("tree",))
ACCOUNTS: Ability[AccountsModule] = Ability("accounts", ("tree", "proof", "mcts"))
CALIBRATE: Ability[CalibrateModule] = Ability("calibrate", ("tree",))
HOLDOUT: Ability[HoldoutModule] = Ability("holdout", ("tree",))
STEER: Ability[SteerModule] = Ability("steer", ("tree",))
BRANCH: Ability[BranchModule] = Ability("branches", ("tree",))
RETRY: Ability[RetryModule] = Ability("retry", ("tree",))
PROMPT: Ability[PromptModule] = Ability("prompt", ("tree",))
START: Ability[StartModule] = Ability("describe", ("steps", "tree"))
PROVE: Ability[ProveModule] = Ability("read", ("proof", "mcts"))
PURSUE: Ability[PursueModule] = Ability("plan", ("proof",))
VIEW: Ability[ViewModule] = Ability("view", ("steps", "tree", "proof", "mcts"))
SHOW: Ability[ShowModule] = Ability("view", ("tree",))


def kind_of(item: Item) -> str:
    for name, value in item.pairs("spec"):
        if name == "kind":
            kind = value.text("kind")
            if kind not in KINDS:
                value.wrong(f"kind: '{kind}' is unknown{did_you_mean(kind, KINDS)}")
            return kind
    return item.wrong(f"spec: 'kind' is missing; one of: {', '.join(KINDS)}")


def read(kind: str, item: Item, run: str) -> Spec:
    return cast("Spec", _module(kind, "read").read(item, run))


def plan(kind: str, spec: Spec) -> Iterable[Target]:
    return cast("Iterable[Target]", _module(kind, "plan").plan(spec))


def stages(kind: str) -> Mapping[str, Stage]:
    return cast("Mapping[str, Stage]", _module(kind, "stages").STAGES)


def describe(kind: str, target: Target) -> Mapping[str, Sequence[str]]:
    words: Mapping[str, Sequence[str]] = _module(kind, "describe").describe(target)
    return words


def outlook(kind: str, targets: Sequence[Target]) -> Iterable[str]:
    """Lines on what all of a run may come to."""
    return cast("Iterable[str]", _module(kind, "describe").outlook(targets))


def ability_module(kind: str, ability: Ability[AbilityModule]) -> AbilityModule:
    """Import the module of `kind` that has the ability."""
    return cast("AbilityModule", _module(kind, ability.module))


def flags(kind: str) -> Sequence[Field]:
    return cast("Sequence[Field]", _module(kind, "read").FLAGS)


def schema(names: Iterable[str] = KINDS) -> Mapping[str, Any]:
    """The JSON Schema of specs of these kinds."""
    from pipeline.spec_fields import schema_of  # here: it reads YAML, which most builds do not

    return schema_of({name: _module(name, "read").SPEC for name in names})


def _module(kind: str, name: str) -> Any:
    return import_module(f"{KINDS[kind]}.{name}")
