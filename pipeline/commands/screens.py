"""The command `report`: a run as one HTML file, with all that there is to see of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.activity import moment_of
from pipeline.build.history import past_builds
from pipeline.commands.command import OneRunCommand, option
from pipeline.commands.selection import ability_of, run_of_word
from pipeline.core.projection import Json, Table, as_json
from pipeline.core.text import plural
from pipeline.errors import SpecError
from pipeline.screens.feed import page_sources
from pipeline.store.files import write_whole
from pipeline.store.steering import SteeringLog
from pipeline.views.pages.document import MOST_BYTES, Report, report_document

# Their details are the last to be left out of a file that grows too large.
WINNERS = ("promoted", "proved", "passed")


class ReportCommand(OneRunCommand):
    name = "report"
    doc_usage = "RUN [--out FILE]"
    doc_purpose = "write a run as one HTML file: its numbers, tables, pictures, and the details of each item"
    doc_description = (
        "The file needs nothing beside it, opens offline and loads nothing. Of a run that is being built it shows how"
        f" things stand now. Beyond {MOST_BYTES // 1_000_000} MB, code and logs of details are left out, from the last"
        " item on, then the details; the page says of each where it lies."
    )
    cmd_options = (
        option("out", "the file to write [default: runs/RUN/report.html]", "", "FILE"),
        option("full", "leave nothing out, however large the file gets"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        run = run_of_word(args[0])
        if args[0] != run:
            raise SpecError(f"report: '{args[0]}' is no run; all of one stands in a file: `report {run}`")
        out = params["out"] or f"runs/{run}/report.html"
        if os.path.isdir(out):
            raise InvalidCommand(f"report: --out {out}: it is a folder; name a file, such as {run}.html")
        report = run_report(run, 0 if params["full"] else MOST_BYTES)
        write_whole(out, report.html.encode(), durable=False)
        print(f"written: {out}, {len(report.html) / 1000:,.0f} kB{left_out(report)}")
        return 0


def left_out(report: Report) -> str:
    parts = [f"code and logs of {plural(report.cut, 'item')}"] * bool(report.cut)
    parts += [f"all details of {plural(report.dropped, 'item')}"] * bool(report.dropped)
    return f"; left out: {' and '.join(parts)}; --full leaves nothing out" if parts else ""


def run_report(run: str, most: int) -> Report:
    """The page of a run as it stands; `most` bytes of it, or with 0 as many as there are."""
    plan = project.load([run], keep=False)[run]
    view = ability_of(plan, kinds.VIEW, "has nothing to show")
    projection = view.project(run, plan.targets, moment_of(run, SteeringLog(run), past_builds(run)))

    def details() -> Iterator[tuple[str, Sequence[Json]]]:
        rows = [row for block in projection.blocks if isinstance(block, Table) for row in block.rows if row.item]
        rows.sort(key=lambda row: row.status not in WINNERS)
        for item in dict.fromkeys(row.item for row in rows):
            yield item, [as_json(block) for block in view.details(run, plan.targets, item)]

    return report_document(page_sources(), as_json(projection), details(), most)
