"""The command `report`: a run as one HTML file, with all that there is to see of it."""

from __future__ import annotations

import os
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline.commands.command import OneRunCommand, option
from pipeline.commands.selection import run_of_word
from pipeline.core.projection import Json, Text, as_json
from pipeline.core.text import plural
from pipeline.errors import SpecError
from pipeline.screens.feed import Discretion, RunFeed, page_sources
from pipeline.store.files import write_whole
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
        os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
        write_whole(out, report.html.encode(), durable=False)
        print(f"written: {out}, {len(report.html) / 1000:,.0f} kB{left_out(report)}")
        return 0


def left_out(report: Report) -> str:
    parts = [f"code and logs of {plural(report.cut, 'item')}"] * bool(report.cut)
    parts += [f"all details of {plural(report.dropped, 'item')}"] * bool(report.dropped)
    return f"; left out: {' and '.join(parts)}; --full leaves nothing out" if parts else ""


def run_report(run: str, most: int) -> Report:
    """The page of a run as it stands; `most` bytes of it, or with 0 as many as there are."""
    feed, discretion = RunFeed(run), Discretion(os.environ, os.getcwd())
    projection = clean_json(feed.now(), discretion)
    rows = [row for block in projection["blocks"] for row in block.get("rows", ()) if row.get("item")]
    rows.sort(key=lambda row: row.get("status") not in WINNERS)
    items = dict.fromkeys(row["item"] for row in rows)
    details = ((item, clean_json(details_of(feed, item), discretion)) for item in items)
    return report_document(page_sources(), projection, details, most)


def details_of(feed: RunFeed, item: str) -> list[Json]:
    """The details of an item; of one whose records cannot be read, why."""
    try:
        return feed.details(item)
    except SpecError as error:
        return [as_json(Text("problem", "Its records cannot be read", str(error)))]


def clean_json(value: Any, discretion: Discretion) -> Any:
    """JSON without secrets and without places of this machine: the file may go to anybody."""
    if isinstance(value, str):
        return discretion.clean(value)
    if isinstance(value, list):
        return [clean_json(each, discretion) for each in value]
    return {name: clean_json(each, discretion) for name, each in value.items()} if isinstance(value, dict) else value
