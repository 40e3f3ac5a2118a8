"""The records of a `kind: tree` spec, read and checked: TreeSpec and its parts.

Some go into the parameters of targets or into the manifest as they are (`_asdict`): SearchShape, BudgetLimits, Ceiling,
Cascade, KeepKeys, Canary, metrics and score.  To rename their fields changes recipes and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.core.cages import CageKeys
from pipeline.core.graph import Leavings
from pipeline.spec_fields import StorePlace
from pipeline.tree.rules.budget import BudgetLimits, Ceiling, wave_size
from pipeline.tree.rules.positions import EvalSlot, NodePlace, places_of, slots_of
from pipeline.tree.rules.scoring import ScoringRules

Params = Mapping[str, Any]  # of a target, or the configuration of a run
WHOLE, PER_CONFIG = "whole", "per_config"
ANSWER, JUDGE = "answer", "judge"  # the two commands of a sweep whose judge is apart
ANSWERS = "answers"  # in braces: the folder between them
JUDGE_TREE = f"{JUDGE}_tree"  # the port with the files that the judge runs in
ROLES = ("ideas", "planner", "coder", "reviewer")
NONE, PATCHES, MANUAL = "none", "patches", "manual"
DRY = "dry"  # no backend of a spec: what stands for all of them in a dry run
GIVEN = "given"  # nor this: an idea that a person gave while the search went on
# Backends by a folder that a person keeps.
FOLDER_BACKENDS = (PATCHES, MANUAL)


class SearchShape(NamedTuple):
    """The depth and width of a search."""

    ideas_per_node: int
    beam_width: int
    max_depth: int
    dedupe_scope: str = "node_plus_ancestors"
    stop_on_empty_frontier: bool = True
    strict_fail: bool = False

    @property
    def depths(self) -> range:
        return range(self.max_depth)

    @property
    def slot_count(self) -> int:
        """The number of slots of all depths."""
        return self.ideas_per_node * (1 + self.beam_width * (self.max_depth - 1))

    def places(self, depth: int) -> tuple[NodePlace, ...]:
        return places_of(depth, self.beam_width)

    def slots(self, depth: int) -> tuple[EvalSlot, ...]:
        return slots_of(depth, self.beam_width, self.ideas_per_node)

    def all_places(self) -> list[NodePlace]:
        """The places of all depths, with those of the nodes that are promoted last."""
        return [place for depth in range(self.max_depth + 1) for place in self.places(depth)]

    def all_slots(self) -> list[EvalSlot]:
        return [slot for depth in self.depths for slot in self.slots(depth)]


def shape_of(config: Mapping[str, Any]) -> SearchShape:
    """The shape of a search by its configuration."""
    return SearchShape(**{name: config[name] for name in SearchShape._fields})


class Waves(NamedTuple):
    """Slots that are admitted by turns.  `size`: those of a wave, 0 where all of the search fit; `ahead`: whether those
    that fit at their ceilings are asked for before their turn: a person is not."""

    size: int
    ahead: bool


def waves_of(config: Params) -> Waves:
    """The waves of a run of this configuration."""
    limits, ceiling = BudgetLimits(**config["budget"]), Ceiling(**config["ceiling"])
    size = 0 if config["dry_run"] else wave_size(limits, ceiling, shape_of(config).slot_count)
    return Waves(size, size > 1 and config["backends"]["coder"] != MANUAL)


class CheckoutCommand(NamedTuple):
    """A command that runs in a checkout.  `words`: {"argv": […]} or {"shell": …}, with names in braces.

    `reads`: files of the project, or outputs of other runs, by port.  `uses`: all names that stand in braces."""

    words: Mapping[str, Any]
    reads: Mapping[str, tuple[str, ...]]
    env: Mapping[str, str]
    passed: tuple[str, ...]
    timeout: float | None
    uses: frozenset[str]
    line: int
    cage: CageKeys = CageKeys()


class CommandDefaults(NamedTuple):
    """Keys of a whole spec that hold for its commands."""

    timeout: float | None = None
    cage: CageKeys = CageKeys()


class Blocks(NamedTuple):
    """Repetitions of the measurement of a config: folds, seeds, periods.  `ids` None: the root's baseline has them.

    `ordered`: they follow each other in time, so that neighbours may be alike; `rho`: by how much, if that is known.
    `repeats`: they are folds of a split of the same data that is repeated; the number of the repeat of each."""

    ids: tuple[str, ...] | None
    column: str = "block"
    ordered: bool = False
    rho: float | None = None
    repeats: tuple[int, ...] | None = None


class Sweep(NamedTuple):
    """`command` runs in the candidate's checkout.  `judge`: it scores what that answered, with the files of the root;
    None when the candidate's checkout writes the results itself.

    `configs`: the values of each config by its id; None when only the command knows them.  `seed`: what {seed} stands
    for; None when no command names it.  `held`: ids of configs that the search does not see.  `exclusive`: it times
    things, and runs alone on its machine."""

    command: CheckoutCommand
    mode: str
    configs: tuple[Mapping[str, Any], ...] | None
    limit: int | None
    blocks: Blocks | None = None
    seed: int | None = None
    held: tuple[int, ...] = ()
    exclusive: bool = False
    judge: CheckoutCommand | None = None

    @property
    def commands(self) -> tuple[CheckoutCommand, ...]:
        """In the order in which they run."""
        return (self.command,) if self.judge is None else (self.command, self.judge)

    @property
    def uses(self) -> frozenset[str]:
        """Names in braces that any of its commands has."""
        return frozenset[str]().union(*(command.uses for command in self.commands))

    @property
    def shared_uses(self) -> frozenset[str]:
        """Names that each of its commands has: who answers and who judges must speak of the same part of the data."""
        return self.command.uses.intersection(*(command.uses for command in self.commands))

    @property
    def grid(self) -> int | None:
        return None if self.configs is None else len(self.configs)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the configs that are searched, where the spec says which there are."""
        assert self.configs is not None
        count = len(self.configs) if self.limit is None else min(self.limit, len(self.configs))
        return tuple(n for n in range(count) if n not in self.held)


class Canary(NamedTuple):
    """Decisions must not change when the last part of the data is cut off.

    `port`: which of the command's reads that is.  `column`: where the time stands, empty for the first column.
    `start`: the earliest cut, as a part of the rows."""

    port: str
    column: str
    cuts: int
    tolerance: float
    start: float


class CheckCommand(NamedTuple):
    """A command that must end well before the sweep."""

    name: str
    command: CheckoutCommand
    canary: Canary | None


class Cascade(NamedTuple):
    """A cascade: all ideas of a depth on the first `blocks`, the `keep` best of them on the others too."""

    blocks: int
    keep: int


class HoldoutKeys(NamedTuple):
    """Ids of blocks, or of configs, that the search does not see.  `reads`: what takes the place of ports of the sweep
    when these are measured."""

    blocks: tuple[str, ...] = ()
    configs: tuple[int, ...] = ()
    reads: Mapping[str, tuple[str, ...]] = {}
    line: int = 0


class Loop(NamedTuple):
    """Roles: who has ideas and who makes them real.  Each is a backend and its keys, as plain data."""

    roles: Mapping[str, Mapping[str, Any]]
    max_review_rounds: int
    proceed_on_max_review_rounds: bool
    constraints: str
    max_test_rounds: int = 1


class KeepKeys(NamedTuple):
    """Leftovers that are kept for people to look at."""

    rejected_worktrees: bool = False
    failed_artifacts: bool = False


class ProtectKeys(NamedTuple):
    """Paths and patterns that no candidate may touch: of `repo`, and of the project."""

    repo: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    line: int = 0


class GivenBaseline(NamedTuple):
    """The file with the root's results, which are not measured then."""

    path: str
    line: int


class TreeSpec(NamedTuple):
    """`plain`: `repo` is no repository, its files are what the search starts from.  `at_once`: evaluations."""

    name: str
    line: int
    repo: str
    plain: bool
    shape: SearchShape
    loop: Loop
    tests: CheckoutCommand | None
    sweep: Sweep
    rules: ScoringRules
    budget: BudgetLimits
    ceiling: Ceiling
    per_node: int | None
    at_once: int
    retries: int
    patience: float
    keep: KeepKeys
    dry_run: bool
    store: StorePlace | None
    engine: Mapping[str, Any] = {}
    checks: tuple[CheckCommand, ...] = ()
    protect: ProtectKeys = ProtectKeys()
    cascade: Cascade | None = None
    holdout: HoldoutKeys | None = None
    baseline: GivenBaseline | None = None
    sources: Mapping[str, int] = {}
    given: frozenset[str] = frozenset()  # slots with an idea that a person gave
    replicate: int | None = None
    similar: float | None = None
    refusal: str = ""
    leave_out: Leavings | None = None

    @property
    def rooms(self) -> dict[str, int]:
        nodes = 0 if self.per_node is None else max(1, self.shape.beam_width)
        return {"evals": self.at_once} | {f"node {n}": self.per_node or 0 for n in range(nodes)}
