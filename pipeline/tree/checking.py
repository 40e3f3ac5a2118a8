"""The stage before a sweep: does a candidate keep off what is protected, and pass the checks of the spec?

They run in order; the first that fails ends it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from pipeline.edge.git.folders import delete
from pipeline.edge.job import Job, StageFailed
from pipeline.tree.canary import Data, Unusable, data_of
from pipeline.tree.commands import NOTHING_RAN, Errand, Ran, keep_printed, note, ran
from pipeline.tree.cutting import watched
from pipeline.tree.gate import COMPLETED, FAILED, SKIPPED
from pipeline.tree.layout import Layout
from pipeline.tree.model import Canary
from pipeline.tree.positions import position
from pipeline.tree.protected import PORT, void
from pipeline.tree.records import Record, read_bytes, read_text, save, write
from pipeline.tree.slots import Slot
from pipeline.tree.sweeping import costs_of, no_baseline
from pipeline.tree.touching import VOID


def check(job: Job) -> None:
    """`tree` of what passed goes on to the sweep."""
    tree, checking = read_text(job.reads["tree"][0]).strip(), _Checking(job)
    foul = void(job, tree)
    found = [*checking.results(tree)] if tree and not foul else []
    why = foul or next((_told(each) for each in found if each["why"]), "")
    if why and not isinstance(checking.where, Slot):
        keep_printed(job, job.writes["log"][0])
        raise no_baseline(job.target.run, "checks", f"failed: {why}")
    status = SKIPPED if not tree else FAILED if why else COMPLETED
    exit_ = found[-1]["exit"] if found else 0
    save(job.writes["checks"][0], {"status": status, "why": why, "exit": exit_, "checks": found})
    write(job.writes["tree"][0], "" if why else tree)
    save(job.writes["cost"][0], checking.cost())
    if not os.path.exists(job.writes["log"][0]):
        write(job.writes["log"][0], b"")


def _told(result: Record) -> str:
    return str(result["why"] if result["why"].startswith(VOID) else f"{result['name']}: {result['why']}")


class _Checking:
    """Of one candidate, or of the root."""

    def __init__(self, job: Job) -> None:
        self.job, self.where, self.at = job, position(job.target.name), Layout(job.target.run)
        self.ran: list[Ran] = []

    def results(self, tree: str) -> Iterator[Record]:
        for number, check in enumerate(self.job.target.params["checks"]):
            job = _of_check(self.job, number)
            why, more = self._canary(job, check, tree) if check["canary"] else self._command(job, check)
            yield {"name": check["name"], "status": FAILED if why else COMPLETED, "why": why, **more}
            if why:
                return

    def cost(self) -> Record:
        return costs_of([each.cost() for each in self.ran or [NOTHING_RAN]])

    def _command(self, job: Job, check: Mapping[str, Any]) -> tuple[str, Record]:
        done = self._run(job, check["name"], check["name"], wants=False)
        return done.why, {"exit": done.exit}

    def _canary(self, job: Job, check: Mapping[str, Any], tree: str) -> tuple[str, Record]:
        canary, name = Canary(**check["canary"]), check["name"]
        content, data = _data(job, name, canary)
        folder = self._out(f"{name}.data")
        cut = f"{folder}/{os.path.basename(job.reads[f'in.{canary.port}'][0])}"

        def run(until: str) -> Ran:
            if until == data.last:
                return self._run(job, name, f"{name}, all data", wants=True)
            os.makedirs(folder, exist_ok=True)
            write(cut, data.until(until).encode(errors="surrogateescape"))
            reads = {**job.reads, f"in.{canary.port}": [cut]}
            return self._run(job._replace(reads=reads), name, f"{name}, data up to {until}", wants=True)

        try:
            done = watched(canary, data, f"{sha256(content).hexdigest()} {tree}", run)
        finally:
            delete(folder)
        found = [each._asdict() for each in done.cuts]
        return done.why, {"exit": done.exit, "decisions": done.decisions, "cuts": found}

    def _run(self, job: Job, name: str, words: str, wants: bool) -> Ran:
        log, output = job.writes["log"][0], self._out(name)
        note(log, words)
        done = ran(job, Errand(self.where, f"{self.where}.checks", output, {}, log, wants))
        if not done.ok:
            delete(output)
        self.ran.append(done)
        return done

    def _out(self, name: str) -> str:
        name = f"out.checks.{name}"
        return self.at.of_eval(self.where, name) if isinstance(self.where, Slot) else self.at.of_node(self.where, name)


def _of_check(job: Job, number: int) -> Job:
    """As if its command were all that there is to do."""
    check, timeout = job.target.params["checks"][number], job.target.params["limits"]["timeouts"][number]
    own = f"in.{check['name']}."
    reads = {f"in.{port.removeprefix(own)}": paths for port, paths in job.reads.items() if port.startswith(own)}
    reads |= {port: job.reads[port] for port in ("tree", PORT) if port in job.reads}
    sealed = {"limits": {"sealed": job.target.params["limits"].get("sealed", [])}}
    target = job.target._replace(params={**check, **sealed}, limits=job.target.limits._replace(timeout=timeout))
    return job._replace(target=target, reads=reads)


def _data(job: Job, name: str, canary: Canary) -> tuple[bytes, Data]:
    """What is wrong with the data is no candidate's fault."""
    paths = job.reads[f"in.{canary.port}"]
    if len(paths) != 1 or not os.path.isfile(paths[0]):
        raise StageFailed(f"checks: {name}: cut: {canary.port} is no single file; name one CSV", 2)
    content = read_bytes(paths[0])
    try:
        return content, data_of(content.decode(errors="surrogateescape"), canary.column)
    except Unusable as error:
        raise StageFailed(f"checks: {name}: cut: {paths[0]}: {error}", 2) from error
