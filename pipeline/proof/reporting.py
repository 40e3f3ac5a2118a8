"""The last two stages: every proof once more in processes of its own, and what all of it came to."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from pipeline.banks.checking import why_not
from pipeline.banks.leans import imported, opened
from pipeline.banks.records import (
    Proof,
    Record,
    goal_of,
    lean_file,
    lean_files_in_one,
    load,
    load_lines,
    save,
    theorem_of,
    write,
)
from pipeline.edge.job import Job, Papers, read, written
from pipeline.edge.lean.model import Lean
from pipeline.edge.ledger.ledger import Ledger
from pipeline.proof.page import page
from pipeline.proof.results import PROVED, counted, results, table, told_proofs


def check(job: Job) -> None:
    """Whole scripts: what a search left behind in its processes has no part in this.

    What does not hold is none in the ledger either, before it is told: there it is open again."""
    found = [each for each in load_lines(read(job, "proofs.jsonl")) if each["status"] == PROVED]
    params = job.target.params["limits"]
    limits = params["lean"]
    with closing(opened(job)) as lean, ThreadPoolExecutor(limits["processes"]) as threads:
        checked = dict(
            zip([each["key"] for each in found], threads.map(lambda one: _held(lean, one), found), strict=True)
        )
        refuse(params["ledger"], lean.version, found, checked)
        told = {"checked": checked, "toolchain": lean.version, "imports": imported(limits)}
        save(written(job, "checked.json"), told)


def refuse(ledger: str, toolchain: str, found: Iterable[Record], checked: Mapping[str, str]) -> None:
    """The rows of proofs that `checked` has something against, by their keys."""
    wrong = [each for each in found if checked[each["key"]]]
    if not wrong:
        return
    with Ledger(ledger) as writing:
        for each in wrong:
            why = f"not verified: {checked[each['key']]}"
            writing.refuse(goal_of(each["of"]).key, toolchain, each["tactics"], why).result()


def _held(lean: Lean, proof: Record) -> str:
    return why_not(lean, theorem_of(goal_of(proof["of"])), proof["tactics"])


def report(job: Papers) -> None:
    bank, search = load(read(job, "bank.json")), load(read(job, "search.json"))
    checked = load(read(job, "checked.json"))
    found = counted(load_lines(read(job, "proofs.jsonl")), checked["checked"])
    told = results(bank, search, found, job.target.params["pass_at"])
    save(written(job, "results.json"), told)
    write(written(job, "results.html"), page(job.target.run, told, bank, found))
    write(written(job, "results.csv"), table(found))
    write(written(job, "proofs.lean"), lean_files_in_one(told_proofs(found), checked["imports"]))
    write_each(written(job, "proofs.zip"), told_proofs(found), checked["imports"])


def write_each(path: str, of: Iterable[Proof], imports: Iterable[str]) -> None:
    """Each proof as a file; packed alike whenever it is made."""
    imports = [*imports]
    with zipfile.ZipFile(path, "w") as folder:
        for proof in of:
            folder.writestr(zipfile.ZipInfo(f"{proof.name}.lean"), lean_file(proof, imports))
