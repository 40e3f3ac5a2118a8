"""Worker: makes one order of a batch on its machine.  Run as `python -m pipeline.engines.worker BATCH NUMBER`.

States of an attempt:

    begun   -> ended    the stage has ended, well or not: its report is written
    begun   -> gone     a signal: all that it started is ended, and nothing is reported
    ended   -> counts   its report is the first: it is linked to the name of the order
    ended   -> late     another was first: what this one wrote is removed, or has been already

Nothing but its own folder is written to.  What it has started carries a mark that no other worker has, so that its
guard ends that and nothing else, also when this process is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress

from pipeline import kinds
from pipeline.core.outcome import DISK_FULL, PROGRAM_MISSING, Wait
from pipeline.core.recipe import PYTHON
from pipeline.engines.orders import (
    FAILED,
    FAULT,
    LOG,
    MADE,
    OUT,
    OUTPUTS,
    SAID,
    Order,
    WorkerReport,
    orders_folder,
    output_names,
    package_digest,
    publish_report,
    read_batch,
    read_order,
    report_path,
    write_report,
)
from pipeline.errors import NO_ROOM, SpecError
from pipeline.machine.failures import describe_unwritten
from pipeline.machine.job import Job, NoPlaces, SharedResources, Stage, StageFailed, StageOutage, Workers
from pipeline.machine.process import Processes
from pipeline.store.files import append_all, file_sha256
from pipeline.store.flock import scratch_folder
from pipeline.store.folders import delete_tree


class Stopped(Exception):
    """The end of a worker by a signal: what it was asked for is not made, and nothing is said of it."""


def main(words: Sequence[str]) -> int:
    """Make the order of this number in a batch; 75 where it was stopped, which is no failure of anybody."""
    batch, number = os.path.abspath(words[0]), int(words[1])
    *project, _, run, _, _, _, _ = batch.split("/")  # PROJECT/runs/RUN/.coppice/orders/batches/BATCH
    os.chdir("/".join(project) or "/")
    order = read_order(f"{orders_folder(run)}/{read_batch(batch)[number]}/order.json")
    if os.path.exists(report_path(run, order.name)):
        return 0
    attempt = f"{time.time_ns()}.{os.getpid()}"
    try:
        make_order(order, attempt)
    except Stopped:
        return os.EX_TEMPFAIL
    return 0


def make_order(order: Order, attempt: str) -> None:
    """Make an order, and report on it if nobody has before."""
    folder, host = f"{os.path.abspath(order.folder)}/{attempt}", os.environ.get("SLURMD_NODENAME", socket.gethostname())
    os.makedirs(f"{folder}/{OUTPUTS}")
    report = WorkerReport(FAULT, attempt, host)
    began, waits = time.monotonic(), list[float]()
    try:
        if problem := _version_problem(order):
            report = report._replace(ending=OUT, why=f"{host} {problem}", reason=PROGRAM_MISSING)
        else:
            outputs = _run_stage(order, folder, waits)
            report = report._replace(ending=MADE, outputs=outputs)
    except Stopped:
        delete_tree(folder)
        raise
    except StageOutage as error:
        report = report._replace(ending=OUT, why=str(error), status=error.status, reason=error.reason)
    except StageFailed as error:
        report = report._replace(ending=FAILED, why=str(error), status=error.status)
    except SpecError as error:
        report = report._replace(ending=OUT, why=f"{host}: {error}", reason=PROGRAM_MISSING)
    except Exception as error:  # noqa: BLE001 - the coordinator raises it, as its own
        report = report._replace(why=traceback.format_exc())
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            report = report._replace(ending=OUT, why=f"{host}: {describe_unwritten(error)}", reason=DISK_FULL)
    os.chdir(order.project)
    if not os.path.isdir(folder):  # who ordered it has it from another, and has tidied up
        return
    write_report(folder, report._replace(seconds=round(time.monotonic() - began - sum(waits), 3)))
    if not publish_report(order, attempt):
        delete_tree(folder)


def _version_problem(order: Order) -> str:
    if order.python != PYTHON:
        return f"has Python {PYTHON}, and the coordinator {order.python}; name one with the same version by `python:`"
    if order.package != package_digest():
        return "has another version of Coppice than the coordinator; install the same one there"
    return ""


class _SaidLines(NoPlaces):
    """Places of a worker: what is said goes into a file, which the coordinator follows."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        super().__init__(self._write)

    def _write(self, line: str | Wait) -> None:
        self._append(line if isinstance(line, str) else line._asdict())

    def note_start(self, pid: int) -> None:
        """Note that a command has been started."""
        self._append({"pid": pid})

    def _append(self, said: object) -> None:
        append_all(self._fd, f"{json.dumps(said)}\n".encode())

    def close(self) -> None:
        os.close(self._fd)


def _run_stage(order: Order, folder: str, waits: list[float]) -> list[str]:
    """Run the stage of an order; the sha256 of each of its outputs."""
    target, stage = order.target, kinds.stages(order.kind)[order.target.stage]
    with ExitStack() as stack:
        is_private = order.records is not None
        if is_private:
            stack.enter_context(_private_project(order, stage))
        place = folder if is_private else os.path.relpath(folder)
        names = [f"{place}/{name}" for name in output_names(target, stage.own_folder)]
        for name in names:
            os.makedirs(os.path.dirname(name), exist_ok=True)
        left = iter(names)
        writes = {port: [next(left) for _ in group] for port, group in target.writes}
        base = f"{order.project}/" if is_private else ""
        reads = {port: [os.path.join(base, path) for path in paths] for port, paths in order.reads.items()}
        processes = stack.enter_context(closing(Processes([order.run], mark=folder)))
        stack.enter_context(_ended_by_signals(processes))
        shared, said = SharedResources(), stack.enter_context(closing(_SaidLines(f"{folder}/{SAID}")))
        stack.callback(shared.close)
        processes.started = said.note_start
        job = Job(target, reads, writes, f"{folder}/{LOG}", processes, Workers(processes), shared, order.store, said)
        try:
            stage.do(job._replace(take_in=_refuse_more, add_wait=waits.append, project=base or "."))
        finally:
            if processes.stopping:
                raise Stopped  # it may have answered our signal by ending somehow, half done
        for name in names:
            if not os.path.isfile(name) or os.path.islink(name):
                final = target.outputs[names.index(name)]
                raise StageFailed(f"it ended well but did not write {final}: {{out}} stands for the path to write", 1)
        return [file_sha256(name) for name in names]


def _refuse_more(path: str) -> None:
    raise RuntimeError(f"{path} counts though the order does not have it; such a stage is made by its coordinator")


@contextmanager
def _ended_by_signals(processes: Processes) -> Iterator[None]:
    """End what runs, and this worker, by a signal, as Slurm sends it before it takes the node away."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(*_: object) -> None:
        processes.stop()
        raise Stopped

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def _private_project(order: Order, stage: Stage) -> Iterator[None]:
    """Work in a project folder of one's own for the block: the project without this run, and copies of its records."""
    assert stage.away is not None
    with scratch_folder("coppice-worker-") as own:
        os.makedirs(f"{own}/runs/{order.run}")
        for folder, but in (("", "runs"), ("runs/", order.run)):
            for name in {*os.listdir(f"{order.project}/{folder}")} - {but}:
                os.symlink(f"{order.project}/{folder}{name}", f"{own}/{folder}{name}")
        for path in order.records or ():
            os.makedirs(os.path.dirname(f"{own}/{path}"), exist_ok=True)
            shutil.copyfile(f"{order.project}/{path}", f"{own}/{path}")
        os.chdir(own)
        try:
            stage.away.settle(order.target, order.project)
            yield
        finally:
            with suppress(FileNotFoundError):
                os.chdir(order.project)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
