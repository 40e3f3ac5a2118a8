"""The root's results given as a file: what is wrong with it, and the stage that takes it in place of a sweep.

The file is checked like the rows of a sweep, when the spec is read and again when it is taken: another run may make it,
and it may be edited in between."""

from __future__ import annotations

import re

from pipeline.machine.job import Job, StageFailed, input_path
from pipeline.store.files import read_bytes
from pipeline.tree.rules.sheet import Defect, check_rows, csv_lines, csv_rows, defects_text
from pipeline.tree.run.measure import sweep_record
from pipeline.tree.run.records import CommandCost, read_text, save, write
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import Params

_LINE, _STRANGE_BLOCK = re.compile(r"line ([0-9]+)"), re.compile(r"'(.*)' is none of ")
NOT_MEASURED = b"---- given by `baseline_csv:`, not measured here ----\n"


def given_stage(job: Job) -> None:
    params, path = job.target.params, input_path(job, "given")
    content, tree = read_bytes(path), read_text(input_path(job, "tree")).strip()
    if why := baseline_mistake(params, path, content):
        raise StageFailed(why, 2)
    write(job.writes["csv"][0], content)
    save(job.writes["sweep"][0], sweep_record(tree, "", content, 0)._replace(given=True))
    save(job.writes["cost"][0], CommandCost(0.0, 0, 0))
    write(job.writes["log"][0], NOT_MEASURED)


def baseline_mistake(params: Params, path: str, content: bytes) -> str:
    """The first thing that is wrong with given results, with its line; empty when they are complete."""
    sheet = sheet_of(params, content)
    defects = check_rows(sheet, expected_by_sheet(params, sheet)).defects
    if not defects:
        return ""
    line = _line_of(content.decode(errors="replace"), (params["blocks"] or {"column": ""})["column"], defects[0])
    right = "baseline_csv: give a row that is ok for each config (and block) that the sweep measures on the start"
    return f"{path}:{line}: {defects_text(defects)}; {right}"


def _line_of(text: str, block: str, defect: Defect) -> int:
    """The line of a defect: the one that it names, or the last row of its config and block, or the header."""
    if named := _LINE.search(defect.what):
        return int(named[1])
    rows = [(line, [*map(str.strip, cells)]) for line, cells in csv_rows(csv_lines(text)) if any(map(str.strip, cells))]
    if not rows or defect.config is None:
        return rows[0][0] if rows else 1
    header = rows[0][1]
    strange = _STRANGE_BLOCK.match(defect.what)
    name = strange[1] if strange else defect.block
    wanted = {"config_id": str(defect.config)} | ({block: name} if name else {})
    found = [line for line, cells in rows[1:] if wanted.items() <= dict(zip(header, cells, strict=False)).items()]
    return found[-1] if found else rows[0][0]
