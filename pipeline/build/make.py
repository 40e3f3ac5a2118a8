"""Making one target: find it fresh, recall its result, or run its stage and put the outputs in place.

States of a target:

    looked at -> fresh       its receipt has this key, and its outputs are as recorded
    looked at -> busy        another thread makes the same key; it is looked at again after that
    looked at -> recalled    the store has the result, and the user has not said `forget`
    looked at -> crowded     it asks models, and as many of its run do as may: it is looked at again after one of those
    looked at -> running     none of these
    running   -> running     the attempt failed, and its limits allow another; or a disk is full, and it has patience
    running   -> built       the outputs are in the store and in place; where the store has no room, in place and
                             recorded, and then in the store, as soon as there is some
    running   -> built       with a file that it was planned without: not stored, and made again by the next build
    running   -> failed      no attempt is left, or what it needs is out, which is no result and is not tried again
    running   -> unsettled   an input was edited meanwhile: outputs are put in place, but the next build makes it again

Equal work is done once: the second to come finds the result in the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from pipeline import kinds
from pipeline.build.outputs import Inputs, Staging, append_note, log_if_any, log_path, put_in_place, sync_output
from pipeline.build.project import RunPlan
from pipeline.core import recipe as recipes
from pipeline.core.freshness import Receipt
from pipeline.core.graph import SLURM, THREADS, Graph, Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, RECALLED, Outcome
from pipeline.errors import NO_ROOM
from pipeline.machine.failures import describe_unwritten, with_full_disk
from pipeline.machine.job import (
    Job,
    NoPlaces,
    NoRoom,
    Places,
    SharedResources,
    Stage,
    StageFailed,
    StageOutage,
    Workers,
)
from pipeline.machine.patience import Pauses
from pipeline.machine.process import BuildStopping, Processes
from pipeline.store.files import Files, Mark, Version, files_by_port
from pipeline.store.receipts import Receipts, done_line
from pipeline.store.results import OutputFile, Store
from pipeline.store.secret import load_key

T = TypeVar("T")


class Busy(Exception):
    """Refusal to make a key that another thread of this build makes."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Crowded(Exception):
    """Refusal to run what asks models, while as many targets of its run do as may."""


class Maker:
    """Maker of the targets of `graph`, in any thread.  A file is read once while it stays the same."""

    def __init__(
        self, plans: Mapping[str, RunPlan], graph: Graph, files: Files, locks: Sequence[int], always: bool
    ) -> None:
        self.files, self.always = files, always
        self.receipts = {run: Receipts(run) for run in plans}
        self._plans = plans
        self.stages = {run: kinds.stages(plan.kind) for run, plan in plans.items()}
        by_place = {(plan.store, plan.signed) for plan in plans.values()}
        opened = {(path, signed): Store(path, secret=load_key() if signed else None) for path, signed in by_place}
        self.stores = {run: opened[plan.store, plan.signed] for run, plan in plans.items()}
        self.inputs = Inputs(graph, files, self.receipts, self.stores)
        self.making: set[str] = set()  # keys, each by one thread
        self._claiming = Lock()
        self.processes = Processes([*plans], locks)
        self.workers = Workers(self.processes)
        self.kept = SharedResources()
        self.places: Places = NoPlaces()

    def stage(self, target: Target) -> Stage:
        return self.stages[target.run][target.stage]

    def recipe(self, target: Target) -> dict[str, Any]:
        return recipes.make_recipe(target, self.stage(target).code)

    def make(self, target: Target) -> Outcome:
        """Make one target.  Raises Busy when another thread makes the very same, Crowded when it may not ask now."""
        try:
            return self.with_room(target, lambda: self._make_or_recall(target))
        except StageFailed as error:  # outside of any attempt: unreadable input, a folder in the way of an output
            return Outcome(FAILED, why=str(error), exit=error.status, outage=_outage_reason(error))

    def with_room(self, target: Target, write: Callable[[], T]) -> T:
        """Write for a target, again and again while there is no room, as long as it has patience."""
        pauses = Pauses(target.limits.patience or 0.0)
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in NO_ROOM or not self._await_room(target, describe_unwritten(error), pauses):
                    raise

    def _make_or_recall(self, target: Target) -> Outcome:
        inputs: dict[str, str] = {}
        before = self.receipts[target.run].receipt(target.name)
        seen = before.inputs if before else {}
        for path in target.inputs:
            if (content := self.inputs.content(path, seen.get(path))) is None:
                return Outcome(FAILED, why=f"{path} is missing", exit=2)
            inputs[path] = content
        recipe = self.recipe(target)
        key = recipes.result_key(recipe, inputs.values())
        if self.always:
            return self._run(TargetWork(target, recipe, inputs, key, time.time(), []))
        with self._claim(key):
            if self.is_fresh(target, key):
                return Outcome(FRESH, saved=self._seconds_saved(target))
            work = TargetWork(target, recipe, inputs, key, time.time(), [])
            return self._recall(work) or self._run(work)

    def _seconds_saved(self, target: Target) -> float:
        """Seconds that a fresh target took when it was made here."""
        receipt = self.receipts[target.run].receipt(target.name)
        return receipt.end - receipt.start if receipt and receipt.how == BUILT else 0.0

    @contextmanager
    def _claim(self, key: str) -> Iterator[None]:
        """Keep a key to this thread for the block.  Raises Busy when another one has it."""
        with self._claiming:
            if key in self.making:
                raise Busy(key)
            self.making.add(key)
        try:
            yield
        finally:
            self.making.discard(key)

    def is_fresh(self, target: Target, key: str) -> bool:
        receipt = self.receipts[target.run].receipt(target.name)
        if receipt is None or receipt.key != key or receipt.unsettled:
            return False
        return self.is_intact(target, receipt)

    def is_intact(self, target: Target, receipt: Receipt) -> bool:
        """Check that every output is there as it was recorded."""
        contents = [(path, self.files.content(path)) for path in target.outputs]
        return all(now is not None and receipt.outputs.get(path) == now for path, now in contents)

    def _recall(self, work: TargetWork) -> Outcome | None:
        target = work.target
        if self.receipts[target.run].is_forgotten(target.name) or not self.stage(target).stored:
            return None
        store = self.stores[target.run]
        result = store.get(work.key)
        if result is None or len(result.contents) != len(target.outputs):
            return None
        with Staging(target, own_folder=False) as staged:
            if not store.take(work.key, result, staged.paths):
                staged.drop()
                return None
            self._publish(target, staged.paths, result.contents)
        receipt = work.receipt(RECALLED, result.contents)
        return Outcome(RECALLED, receipt, start=receipt.start, end=receipt.end, saved=result.seconds)

    def _run(self, work: TargetWork) -> Outcome:
        if self.stage(work.target).asks and not self.places.admit_asker(work.target):
            raise Crowded
        log = log_path(work.target)
        if os.path.exists(log):
            os.unlink(log)
        marks, limits = self.files.marks(work.inputs), work.target.limits
        attempt, waits, pauses = 0, 0, Pauses(limits.patience or 0.0)
        while True:
            attempt += 1
            try:
                return self._attempt(work, attempt, waits, marks, log)
            except StageFailed as error:
                if self.processes.stopping:
                    raise BuildStopping from error
                if isinstance(error, NoRoom) and self._await_room(work.target, str(error), pauses):
                    waits += 1
                elif isinstance(error, StageOutage) or attempt - waits > limits.retries:
                    facts = (str(error), error.status, attempt - waits, work.start, time.time(), log_if_any(log))
                    return Outcome(FAILED, None, *facts, outage=_outage_reason(error))
                else:
                    append_note(log, f"attempt {attempt - waits} failed: {error}")

    def _await_room(self, target: Target, why: str, pauses: Pauses) -> bool:
        """Wait for room on a disk; False when patience is over."""
        return pauses.wait(self.processes, partial(self.places.say, target), target.stage, "disk full", why)

    def _attempt(self, work: TargetWork, start: int, waits: int, marks: Mapping[str, Mark], log: str) -> Outcome:
        """Run the stage once and keep what it made.  `start`: the number of its starts; `waits`: those without room."""
        target, limits, attempt = work.target, work.target.limits, start - waits
        stage = self.stage(target)
        folder = self.stores[target.run].folder
        unplanned: list[str] = []
        with Staging(target, stage.own_folder, start) as staged:
            reads, writes = files_by_port(target.reads), staged.by_port(target.writes)
            shared = (self.processes, self.workers, self.kept, folder)
            job = Job(target, reads, writes, log, *shared, self.places, unplanned.append, work.waited.append)
            is_ordered = self.is_ordered(target)
            do = self._order(stage, work, start, marks) if is_ordered else stage.do
            self._run_stage(do, job, staged.paths)
            if self.processes.stopping and not is_ordered:
                raise BuildStopping  # it may have answered our signal by ending well, half done
            outputs = [sync_output(path, final) for path, final in zip(staged.paths, target.outputs, strict=True)]
            unsettled = tuple(path for path, mark in marks.items() if self.files.was_touched(path, mark))
            contents = [output.content for output in outputs]
            receipt = work.receipt(BUILT, contents, attempt, (*unsettled, *unplanned))
            kept = stage.stored and not receipt.unsettled
            fault = self._store_result(target, receipt, staged.paths, outputs) if kept else None
            self._publish(target, staged.paths, contents, [output.version for output in outputs])
        if fault is not None and fault.errno in NO_ROOM and limits.patience:
            fault = self._store_late(target, receipt, outputs, fault)
        status, why = (FAILED, f"{unsettled[0]} was edited while it ran; build again") if unsettled else (BUILT, "")
        return Outcome(
            status, receipt, why, int(bool(why)), attempt, receipt.start, receipt.end, log_if_any(log), fault
        )

    def is_ordered(self, target: Target) -> bool:
        """Check if an engine makes a target, and not this build itself."""
        return self._plans[target.run].engine_name != THREADS and self.stage(target).away is not None

    def _order(self, stage: Stage, work: TargetWork, start: int, marks: Mapping[str, Mark]) -> Callable[[Job], None]:
        """A stage as its engine does it."""
        from pipeline.engines.dispatch import Dispatcher  # here: hardly any build has an engine
        from pipeline.engines.slurm import Slurm

        plan = self._plans[work.target.run]

        def start_dispatcher() -> Dispatcher:
            return Dispatcher(plan.run, plan.kind, Slurm(plan.run, plan.engine[SLURM]))

        dispatcher = self.kept.get((Dispatcher, plan.run), start_dispatcher)
        inputs = sha256(recipes.compact_json(marks).encode()).hexdigest()
        return partial(dispatcher.make, stage=stage, key=work.key, attempt=start, inputs=inputs)

    @staticmethod
    def _run_stage(do: Callable[[Job], None], job: Job, paths: Sequence[str]) -> None:
        """Run the stage.  A disk that it filled is its failure, reported while it is full: others may have room.

        Where the target has patience, it is nobody's failure."""
        try:
            do(job)
        except StageOutage:
            raise
        except StageFailed as error:
            raise StageFailed(with_full_disk(str(error), paths), error.status) from error
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            if job.target.limits.patience is not None:
                raise NoRoom(describe_unwritten(error)) from error
            raise StageFailed(describe_unwritten(error), 1) from error

    def _store_result(
        self, target: Target, receipt: Receipt, paths: Sequence[str], outputs: Sequence[OutputFile]
    ) -> OSError | None:
        """Store the result.  If that fails, the outputs are put in place all the same and the fault is raised after."""
        try:
            self.stores[target.run].put(receipt.key, paths, outputs, receipt.end - receipt.start, target.name)
        except OSError as error:
            return error
        return None

    def _store_late(
        self, target: Target, receipt: Receipt, outputs: Sequence[OutputFile], fault: OSError
    ) -> OSError | None:
        """Store the result from its places as soon as there is room; it is recorded before, since that may take hours.

        So a kill meanwhile costs nothing that was paid.  Nobody recalls the result then, but here it is fresh.  A disk
        without room for the record either is met again where the target is handed in: the stage is not run again."""
        with suppress(OSError):
            self.receipts[target.run].append([done_line(target.name, receipt)])
        pauses, left = Pauses(target.limits.patience or 0.0), fault
        with suppress(BuildStopping):
            while left.errno in NO_ROOM and self._await_room(target, describe_unwritten(left), pauses):
                if (again := self._store_result(target, receipt, target.outputs, outputs)) is None:
                    return None
                left = again
        return left

    def _publish(
        self, target: Target, staged: Sequence[str], contents: Sequence[str], versions: Sequence[Version] = ()
    ) -> None:
        for path, final, content, version in zip_longest(staged, target.outputs, contents, versions):
            put_in_place(path, final)
            self.files.note_written(final, content, version)
            self.inputs.contents[final] = content


def _outage_reason(error: StageFailed) -> str:
    return error.reason if isinstance(error, StageOutage) else ""


class TargetWork(NamedTuple):
    """Target to be made now: what it reads, and the key of recipe and inputs.

    `waited`: the seconds of each wait for the machine; they are no part of what it takes."""

    target: Target
    recipe: dict[str, Any]
    inputs: dict[str, str]
    key: str
    taken: float
    waited: list[float]

    @property
    def start(self) -> float:
        return self.taken + sum(self.waited)

    def receipt(self, how: str, contents: Sequence[str], attempts: int = 0, unsettled: tuple[str, ...] = ()) -> Receipt:
        outputs = dict(zip(self.target.outputs, contents, strict=True))
        start, end = round(self.start, 3), round(time.time(), 3)
        return Receipt(self.key, self.recipe, self.inputs, outputs, start, end, attempts, 0, how, unsettled)
