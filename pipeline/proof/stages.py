"""Stages of a proof run: the table by name, and those around the search.

`bank` says which rows are goals; a bank without any is refused as a whole. `check` runs every proof once more as a
whole script, in processes of its own: what a search left behind in its processes has no part in this. `report` writes
the results. A changed result of a stage needs a higher number in its code string."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from pipeline.core.text import plural
from pipeline.errors import SpecError
from pipeline.goals.bank import bank_as_json, bank_from_json, read_bank, refusal_line, theorem_of
from pipeline.goals.check import check_bank
from pipeline.goals.lean_files import Proof, lean_file, lean_files_in_one
from pipeline.lean.backends import table as backends
from pipeline.lean.backends.table import open_lean, proof_fault, required_imports, shared_lean, with_lean_faults
from pipeline.machine.job import Job, JobFiles, Stage, input_path, output_path
from pipeline.proof.records import SearchRecord, load_samples
from pipeline.proof.report import proofs_of, results_csv, results_page, results_record, with_check_results
from pipeline.proof.search_stage import prove_bank, pursue_open_goals
from pipeline.store.files import read_bytes
from pipeline.store.ledger import Ledger
from pipeline.store.records import load, save, write


def record_bank(job: Job) -> None:
    path, first = input_path(job, "bank"), ""
    found = check_bank(read_bank(read_bytes(path)), shared_lean(job))
    if not found.goals:  # another file than was meant, or wrong as a whole
        if found.refused:
            count, line = plural(len(found.refused), "row"), refusal_line(path, found.refused[0])
            first = f"; of {count} none counts, the first: {line}"
        raise SpecError(f"{path}: no row is a goal{first}")
    save(output_path(job, "bank.json"), bank_as_json(found))


def check_proofs(job: Job) -> None:
    """Check each proof; one that does not hold is refused in the ledger first, where its goal is open again."""
    found = [each for each in load_samples(input_path(job, "proofs.jsonl")) if each.is_proved]
    params = job.target.params["limits"]
    limits = params["lean"]
    with closing(open_lean(job)) as lean, ThreadPoolExecutor(limits["processes"]) as threads:
        faults = threads.map(lambda one: proof_fault(lean, theorem_of(one.of.goal), one.tactics), found)
        checked = dict(zip([each.of.name for each in found], faults, strict=True))
        if wrong := [each for each in found if checked[each.of.name]]:
            with Ledger(params["ledger"]) as ledger:
                for each in wrong:
                    why = f"not verified: {checked[each.of.name]}"
                    ledger.refuse(each.of.goal.key, lean.version, each.tactics, why).result()
        record = {"checked": checked, "toolchain": lean.version, "imports": required_imports(limits)}
        save(output_path(job, "checked.json"), record)


def write_report(job: JobFiles) -> None:
    bank = bank_from_json(load(input_path(job, "bank.json")))
    search = SearchRecord(**load(input_path(job, "search.json")))
    checked = load(input_path(job, "checked.json"))
    found = with_check_results(load_samples(input_path(job, "proofs.jsonl")), checked["checked"])
    results = results_record(bank, search, found, job.target.params["pass_at"])
    save(output_path(job, "results.json"), results)
    write(output_path(job, "results.html"), results_page(job.target.run, results, bank, found))
    write(output_path(job, "results.csv"), results_csv(found))
    proofs, imports = proofs_of(found), checked["imports"]
    write(output_path(job, "proofs.lean"), lean_files_in_one(proofs, imports))
    write_each(output_path(job, "proofs.zip"), proofs, imports)


def write_each(path: str, proofs: Iterable[Proof], imports: Sequence[str]) -> None:
    """Each proof as a file; packed alike whenever it is made."""
    with zipfile.ZipFile(path, "w") as folder:
        for proof in proofs:
            folder.writestr(zipfile.ZipInfo(f"{proof.name}.lean"), lean_file(proof, imports))


STAGES = {
    **backends.STAGES,
    "bank": Stage("proof.bank/1", with_lean_faults(record_bank)),
    "prove": Stage("proof.prove/1", with_lean_faults(prove_bank)),
    "check": Stage("proof.check/2", with_lean_faults(check_proofs)),
    "pursue": Stage("proof.pursue/1", with_lean_faults(pursue_open_goals)),
    "report": Stage("proof.report/3", write_report),
}
