"""Orders of targets to workers, and their reports: the files that both sides share.

runs/<run>/.coppice/orders/
  <order>/order.json     the target, and all that its stage reads besides the files of the project
  <order>/<attempt>/     what one worker writes: `log`, `said`, `outputs/`, `report.json`
  reports/<order>        the report that counts: a link to that of the first attempt that was whole
  batches/<batch>        the orders of one batch, a line each

An order is called by what it asks for, so that a coordinator that comes after one that was killed finds it again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from pipeline.core.graph import Limits, Target
from pipeline.core.recipe import PYTHON, compact_json, suffix
from pipeline.store import noop
from pipeline.store.files import read_bytes, sync_path, write_whole

# Of an attempt's folder: its outputs, what was printed, what was said of it.
OUTPUTS, LOG, SAID = "outputs", "log", "said"
# How a target ended at a worker: its outputs are there; the candidate failed; what it needs was out; or we did.
MADE, FAILED, OUT, FAULT = "made", "failed", "out", "fault"


class Order(NamedTuple):
    """Work that a worker is asked for.  `package`: the code of ours that must make it; `project`: its folder.

    `reads`: the files by port; `records`: files of the run that the stage looks at besides, which the worker gets as
    copies in a project folder of its own.  None: it works in the project's folder itself.  `store`: the folder of
    results, which commands do not see.  `inputs`: a digest of the inputs as they were, with their signatures."""

    name: str
    kind: str
    package: str
    python: str
    project: str
    target: Target
    reads: Mapping[str, Sequence[str]]
    records: Sequence[str] | None
    store: str
    inputs: str

    @property
    def run(self) -> str:
        return self.target.run

    @property
    def folder(self) -> str:
        return f"{orders_folder(self.run)}/{self.name}"


class WorkerReport(NamedTuple):
    """End of an attempt.  `outputs`: the sha256 of each, in order; `attempt`: the folder in which they are.

    `seconds`: what the stage took, without its waits; `host`: where; `reason`: of what was out, one of OUTAGE_WORDS."""

    ending: str
    attempt: str
    host: str
    seconds: float = 0.0
    outputs: Sequence[str] = ()
    why: str = ""
    status: int = 0
    reason: str = ""


def orders_folder(run: str) -> str:
    return f"{noop.folder(run)}/orders"


def report_path(run: str, order: str) -> str:
    return f"{orders_folder(run)}/reports/{order}"


def order_name(target: str, key: str, attempt: int) -> str:
    """The name of an order: the same for the same work, whoever asks for it, on the same attempt."""
    words = (target, f"{key}\n{attempt}")
    return "".join(sha256(word.encode()).hexdigest()[:_HALF] for word in words)


_HALF = 12  # of the name of an order: its target; the rest: its key and attempt


def of_target(order: str) -> str:
    """The part of the name of an order that all orders of its target have."""
    return order[:_HALF]


def orders_by_target(run: str) -> dict[str, list[str]]:
    """All orders that are there."""
    found: dict[str, list[str]] = {}
    if os.path.isdir(folder := orders_folder(run)):
        for name in os.listdir(folder):
            if len(name) == 2 * _HALF:
                found.setdefault(of_target(name), []).append(name)
    return found


def write_order(order: Order) -> None:
    fields = order._asdict() | {"target": order.target._asdict()}
    os.makedirs(order.folder, exist_ok=True)
    write_whole(f"{order.folder}/order.json", compact_json(fields).encode())


def read_order(path: str) -> Order:
    fields = json.loads(read_bytes(path))
    target = fields["target"]
    ports = {side: tuple((port, tuple(group)) for port, group in target[side]) for side in ("reads", "writes")}
    made = Target(**{**target, **ports, "limits": Limits(*target["limits"])})
    return Order(**{**fields, "target": made})


def ordered_inputs(order: Order) -> str:
    """The inputs that an order was written for; empty where there is none."""
    path = f"{order.folder}/order.json"
    return str(json.loads(read_bytes(path)).get("inputs", "")) if os.path.exists(path) else ""


def output_names(target: Target, own_folder: bool) -> list[str]:
    """Names of outputs in the folder of an attempt: for a command the same as in the staging folder of a build."""
    if not own_folder:
        return [f"{OUTPUTS}/{n}{suffix(path)[-40:]}" for n, path in enumerate(target.outputs)]
    if len(target.outputs) == 1:
        return [f"{OUTPUTS}/{os.path.basename(target.outputs[0])}"]
    return [f"{OUTPUTS}/{path.removeprefix(f'runs/{target.run}/')}" for path in target.outputs]


def write_report(folder: str, report: WorkerReport) -> None:
    """Write the report of an attempt, once all that it tells of is on the disk."""
    for at, _, names in os.walk(folder, topdown=False):
        for path in (f"{at}/{name}" for name in names):
            if os.path.isfile(path) and not os.path.islink(path):
                sync_path(path)
        sync_path(at)
    write_whole(f"{folder}/report.json", compact_json(report._asdict()).encode())


def publish_report(order: Order, attempt: str) -> bool:
    """Make the report of an attempt the one that counts; False if another came first."""
    own, path = f"{order.folder}/{attempt}/report.json", report_path(order.run, order.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.link(own, path)
    except FileExistsError:
        if not os.path.samefile(own, path):  # else it is ours: over a network a link is made twice if an answer is lost
            return False
    sync_path(os.path.dirname(path))
    return True


def reported(run: str) -> set[str]:
    """Names of the orders on which there is a report.

    Over a network a listing may be a minute old, but not of a folder to which one has just written."""
    folder = os.path.dirname(report_path(run, "-"))
    if not os.path.isdir(folder):
        return set()
    own = f"{folder}/.look"
    with open(own, "wb"):
        os.unlink(own)
    return {*os.listdir(folder)}


def read_report(run: str, order: str) -> WorkerReport:
    return WorkerReport(**json.loads(read_bytes(report_path(run, order))))


def write_batch(run: str, batch: str, orders: Iterable[str]) -> str:
    """Write down which orders a batch has, before it is handed in; its path."""
    path = f"{orders_folder(run)}/batches/{batch}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, "".join(f"{order}\n" for order in orders).encode())
    return path


def read_batch(path: str) -> list[str]:
    return read_bytes(path).decode().split()


@lru_cache
def package_digest() -> str:
    """A name for this code, which is the same wherever it is installed."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = sha256(PYTHON.encode())
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith((".py", ".lean", ".js"))):
            digest.update(f"{os.path.relpath(folder, place)}/{name}\n".encode() + read_bytes(f"{folder}/{name}"))
    return digest.hexdigest()[:16]
