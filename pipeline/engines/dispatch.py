"""Dispatch: the coordinator's side of an engine.  Orders are handed in together, and one thread asks after all of them.

States of an order here:

    new      -> waiting   it is written down, for the next batch
    new      -> live      a job of a build that was killed is still there, and makes it
    waiting  -> live      its batch was handed in
    live     -> reported  a worker has reported: the first one counts
    live     -> waiting   its job is gone without a report: it is handed in again, and no attempt is used up
    live     -> lost      so often gone that it helps nobody to go on
    any      -> ended     the build stops: its jobs are cancelled

What is reported is copied and compared with its sha256; what was made stays with its report until the build has ended,
so that a coordinator that is killed before it has recorded it finds it again."""

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

from pipeline.core.outcome import WORKERS_LOST, Wait
from pipeline.core.recipe import PYTHON
from pipeline.engines import orders
from pipeline.engines.orders import FAILED, LOG, MADE, OUT, OUTPUTS, SAID, Order, WorkerReport
from pipeline.engines.slurm import Slurm, SlurmJob, SlurmOutage, SlurmRefusal
from pipeline.machine.job import Job, Stage, StageFailed, StageOutage
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
    """Fault of ours at a worker, with its traceback."""


class _Open:
    """An order that was asked for and is not taken yet."""

    def __init__(self, order: Order, job: Job, wants: Wants) -> None:
        self.order, self.job, self.wants = order, job, wants
        self.is_looked_up, self.is_handed_in = False, False
        self.ended = Event()
        self.report: WorkerReport | None = None
        self.why_lost, self.words = "", ""
        self.losses, self.gone_looks, self.gone_since = 0, 0, 0.0
        self.over: set[str] = set()  # jobs of it that have ended without a report, and were noted
        self.heard = 0  # bytes of what its worker has said


class Dispatcher:
    """The orders of one run to its engine."""

    def __init__(self, run: str, kind: str, engine: Slurm) -> None:
        self._run, self._kind, self._engine = run, kind, engine
        self._open: dict[str, _Open] = {}
        self._mine: set[str] = set()
        self._changed = Condition()
        self._closing = Event()
        self._live: list[SlurmJob] = []
        self._outage = ""
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def make(self, job: Job, stage: Stage, key: str, attempt: int) -> None:
        """Have an order made.  Raises as the stage would."""
        assert stage.away is not None
        target = job.target
        name = orders.order_name(target.name, key, attempt)
        records = None if stage.away.records is None else [*stage.away.records(target)]
        digest, project = orders.package_digest(), os.path.abspath(".")
        order = Order(name, self._kind, digest, PYTHON, project, target, job.reads, records)
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
        if handed.report is None:
            raise StageOutage(handed.why_lost, WORKERS_LOST)
        job.add_wait(max(0.0, time.monotonic() - asked - handed.report.seconds))
        self._take(handed, handed.report)

    def _add(self, handed: _Open) -> None:
        order = handed.order
        is_there = os.path.exists(orders.report_path(self._run, order.name))
        if is_there and orders.read_report(self._run, order.name).ending not in (MADE, FAILED):
            self._discard(order)  # nobody's result, of a build that was killed before it heard of it
            is_there = False
        if not is_there:
            orders.write_order(order)
        with self._changed:
            self._mine.add(order.name)
            self._open[order.name] = handed
            self._changed.notify()

    def _take(self, handed: _Open, report: WorkerReport) -> None:
        """Take what a worker has made, or raise what it has reported."""
        order, job = handed.order, handed.job
        folder = f"{order.folder}/{report.attempt}"
        self._hear(handed, folder)
        if os.path.exists(f"{folder}/{LOG}"):
            with open(job.log, "ab") as log, open(f"{folder}/{LOG}", "rb") as printed:
                shutil.copyfileobj(printed, log)
        if report.ending == MADE:
            staged = [path for group in job.writes.values() for path in group]
            for n, (path, content) in enumerate(zip(staged, report.outputs, strict=True)):
                shutil.copy(f"{folder}/{OUTPUTS}/{n}~{os.path.basename(order.target.outputs[n])}", path)
                if file_sha256(path) != content:
                    self._discard(order)
                    raise StageOutage(f"what came from {report.host} is not what was sent; build again", WORKERS_LOST)
            return
        self._discard(order)  # a failure is no finished work: who builds again asks again
        if report.ending == FAILED:
            raise StageFailed(report.why, report.status)
        if report.ending == OUT:
            raise StageOutage(report.why, report.reason)
        raise WorkerFault(f"{job.target.name} on {report.host}:\n{report.why}")

    def _discard(self, order: Order) -> None:
        with suppress(FileNotFoundError):
            os.unlink(orders.report_path(self._run, order.name))
        delete_tree(order.folder)

    # --- The thread that hands in and asks.

    def _work(self) -> None:
        pause, next_look = LOOK_SECONDS, 0.0
        while not self._closing.is_set():
            with self._changed:
                is_new = any(not each.is_handed_in for each in self._open.values())
                if not is_new:
                    self._changed.wait(pause if self._open else None)
            if self._closing.is_set():
                return
            if is_new:
                time.sleep(COLLECT_SECONDS)
            now = time.monotonic()
            if is_new or now >= next_look:
                self._look()
                took = time.monotonic() - now
                pause = min(MOST_SECONDS, max(LOOK_SECONDS, LOOK_PART * took))
                next_look = time.monotonic() + pause
            self._hand_in()

    def _look(self) -> None:
        """See which orders are reported, which are live, and which are neither."""
        with self._changed:
            opened = [*self._open.values()]
        try:
            self._live = self._engine.jobs()
            self._outage = ""
        except SlurmOutage as error:  # nothing is known: nothing is lost
            self._note_outage(str(error), opened)
            self._end_reported(opened)
            return
        except SlurmRefusal as refusal:
            for handed in self._end_reported(opened):
                self._lose(handed, f"Slurm cannot be asked: {refusal}")
            return
        left = self._end_reported(opened)
        by_order: dict[str, list[SlurmJob]] = defaultdict(list)
        for job in self._live:
            by_order[job.order].append(job)
        for handed in left:
            jobs = by_order[handed.order.name]
            handed.is_looked_up = True
            if not handed.is_handed_in:
                handed.over |= {each.job for each in jobs if not each.is_live}  # of a build before
            if live := [each for each in jobs if each.is_live]:
                handed.is_handed_in, handed.gone_looks = True, 0
                self._tell(handed, live[-1])
            elif handed.is_handed_in:
                self._note_gone(handed, [each for each in jobs if each.job not in handed.over])

    def _end_reported(self, opened: Sequence[_Open]) -> list[_Open]:
        """End those that are reported; the others."""
        folder = f"{orders.orders_folder(self._run)}/reports"
        there = {*os.listdir(folder)} if os.path.isdir(folder) else set()
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
            file.seek(handed.heard)
            for line in file:
                if line.endswith(b"\n"):
                    handed.heard += len(line)
                    _pass_on(handed.job, json.loads(line))

    def _note_gone(self, handed: _Open, ended: Sequence[SlurmJob]) -> None:
        """Note that an order has no job any more.  Its report may come late, over a network."""
        handed.gone_looks += 1
        if handed.gone_looks == 1:
            handed.gone_since = time.monotonic()
        if handed.gone_looks < GONE_LOOKS or time.monotonic() - handed.gone_since < GONE_SECONDS:
            return
        last = ended[-1] if ended else None
        handed.over |= {each.job for each in ended}
        is_preempted = last is not None and last.state == "PREEMPTED"  # which says nothing of the order
        handed.losses, handed.gone_looks = handed.losses + (not is_preempted), 0
        if last and last.state in _ENDS:
            handed.report = WorkerReport(FAILED, "", last.node, why=_ENDS[last.state], status=1)
            handed.ended.set()
        elif last and last.state == "CANCELLED":
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

    def _hand_in(self) -> None:
        with self._changed:
            # none that came after the last look: a job of a build before may be making it
            looked_up = [each for each in self._open.values() if each.is_looked_up]
        waiting = [each for each in looked_up if not each.is_handed_in and not each.ended.is_set()]
        groups: dict[Wants, list[_Open]] = defaultdict(list)
        for each in waiting:
            groups[each.wants].append(each)
        for (resources, passed), group in groups.items():
            try:
                self._engine.hand_in([each.order.name for each in group], resources, passed)
            except SlurmOutage as error:
                self._note_outage(str(error), group)
            except SlurmRefusal as refusal:
                for each in group:
                    self._lose(each, f"Slurm does not take it: {refusal}; see `slurm:` in the spec")
            else:
                for each in group:
                    each.is_handed_in = True

    def _note_outage(self, why: str, opened: Sequence[_Open]) -> None:
        if why != self._outage:
            self._outage = why
            for each in opened:
                each.job.say(f"Slurm: {why}; asked again")

    def close(self) -> None:
        """End the thread, cancel what is still there, and remove the folders of what this build has asked for."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        self._thread.join()
        with suppress(SlurmOutage, SlurmRefusal):
            mine = [each for each in self._engine.jobs() if each.order in self._mine]
            self._engine.cancel(mine)
            self._engine.close()
        for name in self._mine:
            with suppress(FileNotFoundError):
                os.unlink(orders.report_path(self._run, name))
            delete_tree(f"{orders.orders_folder(self._run)}/{name}")


# Ends of a job that its own limits have brought about, in Slurm's words.
_ENDS = {
    "TIMEOUT": "it took longer than `time:` of `slurm:` allows",
    "OUT_OF_MEMORY": "it needed more than `memory:` of `slurm:` allows",
}


def _pass_on(job: Job, said: Any) -> None:
    """Tell the build what a worker said: a line, the process that it started, or what it waits for."""
    if isinstance(said, str):
        job.say(said)
    elif "pid" in said:
        job.places.note_process(job.target, said["pid"])
    else:
        job.say(Wait(**said))


def _folders(path: str) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(path) as entries:
        return sorted(each.name for each in entries if each.is_dir())
    return []
