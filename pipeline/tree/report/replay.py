"""Replay of every decision of a search from its recorded inputs, compared byte for byte.  Changes nothing.

Outcomes: same; different; stale (another version decided, or an input was made anew since: build again); lost (an input
is missing or was changed, so that nothing can be said).  Each is rebuilt as it was, whatever today's spec says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.recipe import reads_of, same_request, writes_of
from pipeline.git.command import GitProblem
from pipeline.store.files import file_sha256, read_bytes
from pipeline.store.receipts import Receipts
from pipeline.tree.rules.positions import is_of_search, own_name
from pipeline.tree.run.decisions import DECIDERS, Decider
from pipeline.tree.run.run_repo import open_as_is

# Outcomes of a replay.
SAME, DIFFERENT, STALE, LOST = "same", "different", "stale", "lost"
# Errors by a record that was forged together with its receipt: it may hold anything.
NONSENSE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class RebuiltDifference(NamedTuple):
    """A file that differs from the rebuilt one; `where`: the first place that does."""

    path: str
    where: str
    recorded: str
    rebuilt: str


class ReplayedDecision(NamedTuple):
    """The outcome of a decision; `why` it was not rebuilt; `edited`: the spec has changed since it was made."""

    target: str
    outcome: str
    why: str = ""
    differences: tuple[RebuiltDifference, ...] = ()
    edited: bool = False


class RecordedDecision(NamedTuple):
    """A target that decided, and its receipt."""

    name: str
    stage: str
    receipt: Receipt

    @property
    def target(self) -> Target:
        """The target as it was when it was built, whatever today's spec says."""
        recipe, receipt = self.receipt.recipe, self.receipt
        reads = reads_of(recipe, [*receipt.inputs])
        return Target(self.name, self.stage, reads, writes_of(recipe, receipt.outputs), recipe["params"])

    @property
    def order(self) -> tuple[int, int, list[int]]:
        """Key to sort decisions: by depth, and there in the order in which they follow from each other."""
        numbers = [*map(int, re.findall(r"[0-9]+", own_name(self.name)))]
        return numbers[0], [*DECIDERS].index(self.stage), numbers


class ReplayJob(NamedTuple):
    """The job of a stage that decides again: it reads the records, and writes elsewhere."""

    target: Target
    reads: Mapping[str, Sequence[str]]
    writes: Mapping[str, Sequence[str]]


def replay_decisions(
    run: str, planned: Collection[str], recipes: Mapping[str, Any] | None = None
) -> list[ReplayedDecision]:
    """Replay the decisions of a search as it is `planned`: by targets that it no longer has, nothing is decided.

    `recipes`: of the targets by today's spec, to tell edits."""
    decisions: list[RecordedDecision] = []
    made: dict[str, str] = {}
    receipts, stages = Receipts(run), {decider.code.partition("/")[0]: stage for stage, decider in DECIDERS.items()}
    for name in receipts.names():
        if is_of_search(name) and name not in planned:
            continue
        if receipt := receipts.receipt(name):
            made |= receipt.outputs
            if stage := stages.get(receipt.recipe["stage"].partition("/")[0]):
                decisions.append(RecordedDecision(name, stage, receipt))
    decisions.sort(key=lambda decision: decision.order)
    found: list[ReplayedDecision] = []
    with TemporaryDirectory(prefix="coppice-replay-") as folder:
        for each in decisions:
            edited = recipes is not None and not same_request(each.receipt.recipe, recipes.get(each.name))
            found.append(_replay_one(each, made, folder)._replace(edited=edited))
    return found


def _replay_one(decision: RecordedDecision, made: Mapping[str, str], folder: str) -> ReplayedDecision:
    name, decider, code = decision.name, DECIDERS[decision.stage], decision.receipt.recipe["stage"]
    if code != decider.code:
        return ReplayedDecision(name, STALE, f"it was decided by {code}, this Coppice has {decider.code}")
    if ending := _changed_input(decision.receipt, made):
        return ReplayedDecision(name, *ending)
    try:
        differences = tuple(_rebuild(decision, decider, folder))
    except GitProblem as problem:
        return ReplayedDecision(name, LOST, str(problem))
    except NONSENSE as error:
        return ReplayedDecision(name, LOST, f"nothing can be decided by what it read: {type(error).__name__}: {error}")
    return ReplayedDecision(name, DIFFERENT if differences else SAME, differences=differences)


def _changed_input(receipt: Receipt, made: Mapping[str, str]) -> tuple[str, str] | None:
    """The first input that is not as it was read, as an outcome and the reason."""
    for path in receipt.unsettled:
        return LOST, f"{path} was written to while it was read"
    for path, sha in receipt.inputs.items():
        now = file_sha256(path) if os.path.isfile(path) else None
        if now is None:
            return LOST, f"{path} is missing, which it read"
        if now != sha and now == made.get(path):
            return STALE, f"{path} was made anew since it was read"
        if now != sha:
            return LOST, f"{path} was changed since it was read: sha256 {now[:12]}…, recorded {sha[:12]}…"
    return None


def _rebuild(decision: RecordedDecision, decider: Decider, folder: str) -> Iterator[RebuiltDifference]:
    """Decide again; the differences of what comes out from the recorded files and from the receipt."""
    target = decision.target
    # numbered, in one folder for all decisions: folders of their own cost more than the decisions
    places = {path: f"{folder}/{n}" for n, path in enumerate(target.outputs)}
    for place in filter(os.path.exists, places.values()):
        os.unlink(place)
    writes = {port: [places[path] for path in group] for port, group in target.writes}
    decider.do(ReplayJob(target, dict(target.reads), writes), open_as_is)
    for path, sha in decision.receipt.outputs.items():
        rebuilt = read_bytes(places[path])
        if not os.path.isfile(path):
            yield RebuiltDifference(path, "", "missing", f"{len(rebuilt)} bytes")
        elif difference := first_difference(read_bytes(path), rebuilt):
            yield RebuiltDifference(path, *difference)
        elif (again := sha256(rebuilt).hexdigest()) != sha:
            yield RebuiltDifference(path, "its receipt's sha256", sha, again)


_NOTHING = object()


# The first difference of two records: where, such as `decisions.d1.n0.i1.why` or `line 3`, and both texts.
FirstDifference = tuple[str, str, str]


def first_difference(old: bytes, new: bytes) -> FirstDifference | None:
    """The first difference: a key of two JSON records, or else a line."""
    if old == new:
        return None
    sides = _record(old), _record(new)
    return (None if _NOTHING in sides else _in_values("", *sides)) or _in_lines(old, new)


def _record(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        return _NOTHING
    return found if isinstance(found, Mapping) else _NOTHING


def _in_values(where: str, old: Any, new: Any) -> FirstDifference | None:
    if inner := [*_inner_values(where, old, new)]:
        return next((found for each in inner if (found := _in_values(*each))), None)
    texts = _value_text(old), _value_text(new)  # 1, 1.0 and true are equal, but not the same
    return (where, *texts) if texts[0] != texts[1] else None


def _inner_values(where: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield f"{where}.{name}" if where else name, old.get(name, _NOTHING), new.get(name, _NOTHING)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, (a, b) in enumerate(zip(old, new, strict=True)):
            yield f"{where}[{n}]", a, b


def _value_text(value: Any) -> str:
    if value is _NOTHING:
        return "missing"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _in_lines(old: bytes, new: bytes) -> FirstDifference:
    """The first line that differs, its end included."""
    lines = enumerate(zip_longest(old.splitlines(True), new.splitlines(True), fillvalue=None), 1)
    number, pair = next((number, pair) for number, pair in lines if pair[0] != pair[1])
    old_line, new_line = ("missing" if line is None else ascii(line)[2:-1] for line in pair)
    return f"line {number}", old_line, new_line
