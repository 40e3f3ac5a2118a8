"""The last two stages: every proof once more in processes of its own, and what all of it came to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from pipeline.banks.checking import why_not
from pipeline.banks.leans import opened
from pipeline.banks.records import Record, goal_of, load, load_lines, save, theorem_of, write
from pipeline.edge.job import Job, Papers, read, written
from pipeline.edge.lean.model import Lean
from pipeline.proof.page import page
from pipeline.proof.results import PROVED, counted, results, script, table


def check(job: Job) -> None:
    """Whole scripts: what a search left behind in its processes has no part in this."""
    proofs = [each for each in load_lines(read(job, "proofs.jsonl")) if each["status"] == PROVED]
    limits = job.target.params["limits"]["lean"]
    with closing(opened(job)) as lean, ThreadPoolExecutor(limits["processes"]) as threads:
        checked = dict(
            zip([each["key"] for each in proofs], threads.map(lambda one: _held(lean, one), proofs), strict=True)
        )
        save(written(job, "checked.json"), {"checked": checked, "toolchain": lean.version})


def _held(lean: Lean, proof: Record) -> str:
    return why_not(lean, theorem_of(goal_of(proof["of"])), proof["tactics"])


def report(job: Papers) -> None:
    bank, search = load(read(job, "bank.json")), load(read(job, "search.json"))
    found = counted(load_lines(read(job, "proofs.jsonl")), load(read(job, "checked.json"))["checked"])
    told = results(bank, search, found, job.target.params["pass_at"])
    save(written(job, "results.json"), told)
    write(written(job, "results.html"), page(job.target.run, told, bank, found))
    write(written(job, "results.csv"), table(found))
    write(written(job, "proofs.lean"), script(found))
