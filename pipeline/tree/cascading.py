"""Stages of a cascade: all ideas of a depth are measured on the first blocks, the best of them on the rest."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from math import copysign, inf
from typing import Any

from pipeline.edge.job import Papers
from pipeline.tree.gate import COMPLETED, SKIPPED
from pipeline.tree.paired import PARENT, of_metric
from pipeline.tree.records import Record, load, read_bytes, read_text, save, write
from pipeline.tree.sweeping import costs_of, swept
from pipeline.tree.verdicts import rules_of
from pipeline.tree.weighing import compared, tested
from pipeline.trust.evidence import DEGENERATE, Evidence


def cascade(job: Papers) -> None:
    """`tree` of those that are measured further goes on to the rest of their sweep; of the others, nothing does."""
    params = job.target.params
    records = dict(zip(params["slots"], map(load, job.reads["pairs"]), strict=True))
    found = picked(params, records)
    save(job.writes["cascade"][0], found)
    for slot, tree, rest in zip(params["slots"], job.reads["tree"], job.writes["tree"], strict=True):
        goes_on = found["ideas"].get(slot, {"goes_on": False})["goes_on"]
        write(rest, read_text(tree) if goes_on else "")


def picked(params: Mapping[str, Any], records: Mapping[str, Record]) -> Record:
    """By their t against their parents.  `records`: the pairs of all slots of a depth, on the first blocks."""
    among, rules = compared(records), rules_of(params)
    deltas = [of_metric(rules, record["series"], rules.primary, PARENT) for record in among.values()]
    ideas = tested(params, deltas, params["score"]["alpha"], None).ideas if among else ()
    # ties go to the earlier slot: sorting is stable
    order = sorted(zip(among, ideas, strict=True), key=lambda each: _lead(each[1]), reverse=True)
    best = {*_best([slot for slot, _ in order], among, params["keep"])}
    return {
        "blocks": params["first"],
        "keep": params["keep"],
        "ideas": {slot: {**_seen(found), "place": n, "goes_on": slot in best} for n, (slot, found) in enumerate(order)},
    }


def _lead(evidence: Evidence) -> float:
    """The same difference in every block has no noise to be measured by."""
    return copysign(inf, evidence.mean) if evidence.standing == DEGENERATE else evidence.t


def _best(order: Sequence[str], records: Mapping[str, Record], keep: int) -> Iterator[str]:
    """Two ideas with the same files take one place: they are measured once."""
    trees: set[str] = set()
    for slot in order:
        tree = records[slot]["tree"]
        if tree in trees or len(trees) < keep:
            trees.add(tree)
            yield slot


def _seen(evidence: Evidence) -> Record:
    return {name: getattr(evidence, name) for name in ("standing", "mean", "se", "t")}


def join(job: Papers) -> None:
    """Both parts of a sweep as one; of an idea that was stopped there is the first part alone."""
    parts = [load(path) for path in job.reads["sweep"]]
    stopped = parts[0]["status"] == COMPLETED and parts[1]["status"] == SKIPPED
    results, why = _joined([read_bytes(path) for path in job.reads["csv"]])
    bad = next((part for part in parts if part["status"] != COMPLETED), parts[0])
    bad = parts[0] if stopped else bad
    write(job.writes["csv"][0], results)
    record = swept(parts[0]["tree"], bad["why"] or why, results, bad["exit"])
    save(job.writes["sweep"][0], {**record, "stopped_after": job.target.params["first"] if stopped else 0})
    write(job.writes["log"][0], b"".join(map(read_bytes, job.reads["log"])))
    save(job.writes["cost"][0], costs_of([load(path) for path in job.reads["cost"]]))


def _joined(parts: Sequence[bytes]) -> tuple[bytes, str]:
    """What is wrong with a part must stay to be seen: lines are taken as they are."""
    there = [part for part in parts if part]
    if len(there) < 2:
        return b"".join(there), ""
    texts = [part.decode(errors="surrogateescape").removeprefix("\ufeff") for part in there]
    try:
        (first, _), (second, rest) = map(_headed, texts)
    except csv.Error as error:
        return b"\n".join(there), f"its results are not CSV: {error}"
    if first != second:
        return b"\n".join(there), "its results have other columns for the first blocks than for the rest"
    end = "" if texts[0].endswith("\n") else "\n"
    return f"{texts[0]}{end}{rest}".encode(errors="surrogateescape"), ""


def _headed(text: str) -> tuple[list[str], str]:
    """The names of the columns, and the lines after those."""
    lines = text.split("\n")
    table = csv.reader((f"{line}\n" for line in lines), strict=True)
    header: list[str] = next(filter(None, table), [])
    at = table.line_num
    for _ in table:
        pass  # all of it must be readable by itself: an open quote would swallow the other part
    return [name.strip() for name in header], "\n".join(lines[at:])
