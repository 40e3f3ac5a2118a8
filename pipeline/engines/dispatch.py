"""Dispatch: the coordinator's side of an engine.  Orders are handed in together, and one thread asks after all of them.

States of an order here:

    new      -> waiting   it is written down, for the next batch
    new      -> live      a job of a build that was killed is still there, and makes it
    waiting  -> live      its batch was handed in; never before it is known which jobs there are
    live     -> reported  a worker has reported: the first one counts
    live     -> waiting   its job is gone without a report: it is handed in again, and no attempt is used up
    live     -> lost      so often gone that it helps nobody to go on
    any      -> ended     the build stops: its jobs are cancelled

What is reported is copied and compared with its sha256; what was made stays with its report until the build has ended,
so that a coordinator that is killed before it has recorded it finds it again.  It does not count if an input was
written to since it was ordered: nobody knows what the worker has read."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from threading import Condition, Event, Thread
from typing import Any

from pipeline.core.outcome import DISK_FULL, WORKERS_LOST, Wait
from pipeline.core.recipe import PYTHON
from pipeline.engines import orders
from pipeline.engines.orders import FAILED, LOG, MADE, OUT, SAID, Order, WorkerReport
from pipeline.engines.slurm import Slurm, SlurmJob, SlurmOutage, SlurmRefusal
from pipeline.machine.job import Job, NoRoom, Stage, StageFailed, StageOutage
from pipeline.machine.process import BuildStopping
from pipeline.store.files import file_sha256
from pipeline.store.folders import delete_tree

COLLECT_SECONDS = 0.1  # orders that come so close together are one batch
LOOK_SECONDS, MOST_SECONDS = 0.5, 10.0  # between looks; the longer, the longer Slurm takes to answer
LOOK_PART = 50  # looks take so small a part of the time of Slurm's controller
MOST_LOSSES = 5  # so often is an order handed in again whose job is gone
GONE_LOOKS, GONE_SECONDS = 2, 5.0  # a report may be seen later than the end of its job


# What a job needs: its resources, and variables of our environment.
Wants = tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]


class WorkerFault(RuntimeError):
    """Fault of ours at a worker, with its traceback; or where orders are followed."""


class _Open:
    """An order that was asked for and is not taken yet."""

    def __init__(self, order: Order, job: Job, wants: Wants) -> None:
        self.order, self.job, self.wants = order, job, wants
        self.is_handed_in = False
        self.ended = Event()
        self.report: WorkerReport | None = None
        self.why_lost, self.words = "", ""
        self.losses, self.gone_looks, self.gone_since = 0, 0, 0.0
        self.over: set[str] = set()  # jobs of it that have ended without a report, and were noted
        self.found: set[str] = set()  # jobs of a build before this, which may have cancelled them
        self.heard: dict[str, int] = {}  # of each attempt: bytes of what its worker has said


class Dispatcher:
    """The orders of one run to its engine."""

    def __init__(self, run: str, kind: str, engine: Slurm) -> None:
        self._run, self._kind, self._engine = run, kind, engine
        self._open: dict[str, _Open] = {}
        self._mine: set[str] = set()
        self._taken: set[str] = set()
        self._before = orders.orders_by_target(run)  # of builds that were killed or interrupted
        self._changed = Condition()
        self._closing = Event()
        self._outage, self._has_answered = "", False
        self._fault: Exception | None = None
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def make(self, job: Job, stage: Stage, key: str, attempt: int, inputs: str) -> None:
        """Have an order made.  Raises as the stage would."""
        assert stage.away is not None
        target = job.target
        name = orders.order_name(target.name, key, attempt)
        records = None if stage.away.records is None else [*stage.away.records(target)]
        digest, project, store = orders.package_digest(), os.path.abspath("."), os.path.abspath(job.store)
        order = Order(name, self._kind, digest, PYTHON, project, target, job.reads, records, store, inputs)
        resources = self._engine.resources(target)
        handed = _Open(order, job, (resources, tuple(stage.passed(target))))
        asked = time.monotonic()
        try:
            with job.processes.wake_on_stop(handed.ended.set):
                self._add(handed)
                handed.ended.wait()
        finally:
            with self._changed:
                self._open.pop(name, None)
        if job.processes.stopping:
            raise BuildStopping
        report = handed.report
        if report is None and self._fault is not None:
            raise WorkerFault(f"what became of {job.target.name} is not known") from self._fault
        if report is None:
            raise StageOutage(handed.why_lost, WORKERS_LOST)
        job.add_wait(max(0.0, time.monotonic() - asked - report.seconds))
        self._take(handed, report, orders.output_names(job.target, stage.own_folder))
        self._taken.add(name)

    def _add(self, handed: _Open) -> None:
        order, before = handed.order, self._report(handed.order)
        is_nobodys = before is not None and before.ending not in (MADE, FAILED)  # of a build that was killed
        if is_nobodys or orders.ordered_inputs(order) not in ("", order.inputs):
            self._discard(order.name)
            before = None
        for name in self._before.pop(orders.of_target(order.name), ()):
            if name != order.name:  # nobody asks for that any more: its target was edited
                self._discard(name)
        if before is None:
            orders.write_order(order)
        with self._changed:
            self._mine.add(order.name)
            self._open[order.name] = handed
            self._changed.notify()
        if self._fault is not None:
            handed.ended.set()

    def _report(self, order: Order) -> WorkerReport | None:
        with suppress(FileNotFoundError):
            return orders.read_report(self._run, order.name)
        return None

    def _take(self, handed: _Open, report: WorkerReport, names: Sequence[str]) -> None:
        """Take what a worker has made, or raise what it has reported."""
        order, job = handed.order, handed.job
        folder = f"{order.folder}/{report.attempt}"
        self._hear(handed, folder)
        if os.path.exists(f"{folder}/{LOG}"):
            with open(job.log, "ab") as log, open(f"{folder}/{LOG}", "rb") as printed:
                shutil.copyfileobj(printed, log)
        if report.ending == MADE:
            staged = [path for group in job.writes.values() for path in group]
            for path, name, content in zip(staged, names, report.outputs, strict=True):
                with suppress(FileNotFoundError):
                    shutil.copy(f"{folder}/{name}", path)
                if not os.path.exists(path) or file_sha256(path) != content:
                    self._discard(order.name)
                    raise StageOutage(f"what came from {report.host} is not what was sent; build again", WORKERS_LOST)
            return
        self._discard(order.name)  # a failure is no finished work: who builds again asks again
        if report.ending == FAILED:
            raise StageFailed(report.why, report.status)
        if report.ending == OUT and report.reason == DISK_FULL:
            raise NoRoom(report.why)
        if report.ending == OUT:
            raise StageOutage(report.why, report.reason)
        raise WorkerFault(f"{job.target.name} on {report.host}:\n{report.why}")

    def _discard(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(orders.report_path(self._run, name))
        with suppress(OSError):  # a job that is not over yet may write there
            delete_tree(f"{orders.orders_folder(self._run)}/{name}")

    # --- The thread that hands in and asks.

    def _follow(self) -> None:
        try:
            self._work()
        except Exception as fault:  # noqa: BLE001 - who waits for an order raises it
            with self._changed:
                self._fault = fault
                for each in self._open.values():
                    each.ended.set()

    def _work(self) -> None:
        next_look = 0.0
        while True:
            with self._changed:
                if self._closing.is_set():
                    return
                # while Slurm is out, nobody hurries
                is_new = not self._outage and any(not each.is_handed_in for each in self._open.values())
                left = max(0.0, next_look - time.monotonic())
                if not is_new and (left or not self._open):
                    self._changed.wait(left if self._open else None)
                    continue
            if is_new:
                time.sleep(COLLECT_SECONDS)
            began = time.monotonic()
            waiting = self._look()
            took = time.monotonic() - began
            if waiting is not None and self._hand_in(waiting):
                self._outage = ""
            next_look = time.monotonic() + min(MOST_SECONDS, max(LOOK_SECONDS, LOOK_PART * took))

    def _look(self) -> list[_Open] | None:
        """See which orders are reported and which are live; those to be handed in.  None where Slurm is out."""
        with self._changed:
            opened = [each for each in self._open.values() if not each.ended.is_set()]
        try:
            jobs, self._has_answered = self._engine.jobs(), True
            self._engine.cancel(self._edited(jobs))
        except (SlurmOutage, SlurmRefusal) as error:
            left = self._end_reported(opened)
            if isinstance(error, SlurmOutage) or self._has_answered:  # nothing is known: nothing is lost
                self._note_outage(str(error), left)
                return None
            for handed in left:
                self._lose(handed, f"Slurm cannot be asked: {error}")
            return []
        left = self._end_reported(opened)
        by_order: dict[str, list[SlurmJob]] = defaultdict(list)
        for job in jobs:
            by_order[job.order].append(job)
        for handed in left:
            self._see(handed, by_order[handed.order.name])
        return [each for each in left if not each.is_handed_in and not each.ended.is_set()]

    def _edited(self, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
        """Jobs of a build that was killed, for targets that were edited since and are asked for again."""
        with self._changed:
            asked = {orders.of_target(name) for name in self._mine}
            return [each for each in jobs if each.order not in self._mine and orders.of_target(each.order) in asked]

    def _see(self, handed: _Open, jobs: Sequence[SlurmJob]) -> None:
        """See what the jobs of an order do."""
        live = [each for each in jobs if each.is_live]
        if not handed.is_handed_in:  # they are of a build before
            handed.over |= {each.job for each in jobs if not each.is_live}
            handed.found |= {each.job for each in live}
        if live:
            handed.is_handed_in, handed.gone_looks = True, 0
            self._tell(handed, live[-1])
        elif handed.is_handed_in:
            self._note_gone(handed, [each for each in jobs if each.job not in handed.over])

    def _end_reported(self, opened: Sequence[_Open]) -> list[_Open]:
        """End those that are reported; the others."""
        there = orders.reported(self._run) if opened else set()
        for handed in opened:
            if handed.order.name in there:
                handed.report = orders.read_report(self._run, handed.order.name)
                handed.ended.set()
        return [each for each in opened if each.report is None]

    def _tell(self, handed: _Open, job: SlurmJob) -> None:
        """Show people where an order is, and what its worker says."""
        if job.words and handed.words != job.words:
            handed.words = job.words
            handed.job.say(job.words)
        for name in _folders(handed.order.folder):
            self._hear(handed, f"{handed.order.folder}/{name}")

    @staticmethod
    def _hear(handed: _Open, folder: str) -> None:
        with suppress(FileNotFoundError), open(f"{folder}/{SAID}", "rb") as file:
            file.seek(handed.heard.get(folder, 0))
            for line in file:
                if line.endswith(b"\n"):
                    handed.heard[folder] = handed.heard.get(folder, 0) + len(line)
                    _pass_on(handed.job, line)

    def _note_gone(self, handed: _Open, ended: Sequence[SlurmJob]) -> None:
        """Note that an order has no job any more.  Its report may come late, over a network."""
        handed.gone_looks += 1
        if handed.gone_looks == 1:
            handed.gone_since = time.monotonic()
        if handed.gone_looks < GONE_LOOKS or time.monotonic() - handed.gone_since < GONE_SECONDS:
            return
        last = ended[-1] if ended else None
        handed.over |= {each.job for each in ended}
        is_old = last is not None and last.job in handed.found
        is_free = is_old or (last is not None and last.state == "PREEMPTED")  # which says nothing of the order
        handed.losses, handed.gone_looks = handed.losses + (not is_free), 0
        if last and last.state in _ENDS:
            handed.report = WorkerReport(FAILED, "", last.node, why=_ENDS[last.state], status=1)
            handed.ended.set()
        elif last and last.state == "CANCELLED" and not is_old:
            self._lose(handed, f"its job {last.job} was cancelled by somebody else; build again")
        elif handed.losses > MOST_LOSSES:
            said = self._engine.last_words(handed.order.name)
            self._lose(handed, f"its worker was lost {handed.losses} times{f', at last with: {said}' if said else ''}")
        else:
            handed.is_handed_in, handed.words = False, ""
            handed.job.say("its worker was lost: handed in again")

    @staticmethod
    def _lose(handed: _Open, why: str) -> None:
        handed.why_lost = why
        handed.ended.set()

    def _hand_in(self, waiting: Sequence[_Open]) -> bool:
        """Hand orders in; False where Slurm is out."""
        groups: dict[Wants, list[_Open]] = defaultdict(list)
        for each in waiting:
            groups[each.wants].append(each)
        for (resources, passed), group in groups.items():
            try:
                self._engine.hand_in([each.order.name for each in group], resources, passed)
            except SlurmOutage as error:
                self._note_outage(str(error), group)
                return False
            except SlurmRefusal as refusal:
                for each in group:
                    self._lose(each, f"Slurm does not take it: {refusal}; see `slurm:` in the spec")
            else:
                for each in group:
                    each.is_handed_in = True
        return True

    def _note_outage(self, why: str, opened: Sequence[_Open]) -> None:
        if why != self._outage:
            self._outage = why
            for each in opened:
                each.job.say(f"Slurm: {why}; asked again")

    def close(self) -> None:
        """End the thread, cancel what is still there, and remove the folders of what this build has asked for.

        What was made and not taken any more, or cannot be cancelled, is left to the next build."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        self._thread.join()
        is_cancelled = False
        with suppress(SlurmOutage, SlurmRefusal):
            self._engine.cancel([each for each in self._engine.jobs() if each.order in self._mine])
            self._engine.close()
            is_cancelled = True
        left = orders.reported(self._run) if is_cancelled else self._mine
        for name in self._mine - (left - self._taken):
            self._discard(name)


# Ends of a job that its own limits have brought about, in Slurm's words.
_ENDS = {
    "TIMEOUT": "it took longer than `time:` of `slurm:` allows",
    "OUT_OF_MEMORY": "it needed more than `memory:` of `slurm:` allows",
}


def _pass_on(job: Job, line: bytes) -> None:
    """Tell the build what a worker said: a line, the process that it started, or what it waits for.

    It is for show: what cannot be read is left out."""
    with suppress(ValueError, TypeError):
        said = json.loads(line)
        if isinstance(said, str):
            job.say(said)
        elif "pid" in said:
            job.places.note_process(job.target, int(said["pid"]))
        else:
            job.say(Wait(**said))


def _folders(path: str) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(path) as entries:
        return sorted(each.name for each in entries if each.is_dir())
    return []
