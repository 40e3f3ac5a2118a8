"""Blocks that runs of all kinds have: what is at work, past builds and what the last one waited for, files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import localtime, strftime

from pipeline.core.outcome import PastBuild
from pipeline.core.projection import Block, Code, Column, Moment, Picture, Row, Table
from pipeline.core.text import count_words, duration, plural, target_count, visible_text
from pipeline.views.lines import clean_text
from pipeline.views.pages.charts import ChartRow, rows_chart
from pipeline.views.pages.drawing import number_scale

BLANK = "-"
MOST_SPANS, MOST_BUILDS = 30, 20


def time_text(at: float | None) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at)) if at else BLANK


def running_table(moment: Moment) -> Table:
    rows = [
        Row(
            [each.name.partition(":")[2], duration(moment.now - each.since, 0), each.says or BLANK],
            each.name,
            "running",
        )
        for each in moment.running
    ]
    sentence = f"{target_count(len(rows))} at work."
    return Table("running", "Running", sentence, [Column("target"), Column("since", True), Column("says")], rows)


def last_ended(builds: Sequence[PastBuild]) -> PastBuild | None:
    return next((each for each in reversed(builds) if each.seconds is not None), None)


def build_blocks(run: str, builds: Sequence[PastBuild]) -> Iterator[Block]:
    """The past builds of a run; of the last that has ended, what it waited for and what took long."""
    if builds:
        rows = [_build_row(each) for each in reversed(builds[-MOST_BUILDS:])]
        columns = [Column("build", True), Column("began"), Column("took", True), Column("did"), Column("saved", True)]
        sentence = f"The last {plural(len(rows), 'build')} of {len(builds)}."
        yield Table("builds", "Builds", sentence, columns, rows)
    if (last := last_ended(builds)) and last.targets:
        yield _spans(run, last)


def _build_row(build: PastBuild) -> Row:
    took = duration(build.seconds) if build.seconds is not None else BLANK
    did = count_words(build.counts) or ("no end is recorded" if build.seconds is None else "nothing")
    did += f"; stopped: {build.stopped}" if build.stopped else ""
    saved = duration(build.saved) if build.saved else BLANK
    return Row([str(build.number), time_text(build.at), took, did, saved])


def _spans(run: str, build: PastBuild) -> Picture:
    """Targets of the critical path, and the slowest others, from their start to their end."""
    critical = {*build.critical}
    slowest = sorted(build.targets, key=lambda each: (each.name not in critical, -each.seconds))[:MOST_SPANS]
    shown = sorted(slowest, key=lambda each: (each.start, each.name))
    across = number_scale("seconds since the build began", [0.0, *(each.start + each.seconds for each in shown)], " s")
    rows = [
        ChartRow(
            f"{each.name}{' *' if each.name in critical else ''}",
            0 if each.name in critical else 1,
            each.start + each.seconds,
            (each.start, each.start + each.seconds),
            (),
            f"{each.name}: {each.status}, {duration(each.seconds)} from {duration(each.start)} on",
            f"{run}:{each.name}",
        )
        for each in shown
    ]
    waited = sum(build.places.values())
    places = f"; {duration(waited)} of that was waiting for a place" if waited else ""
    sentence = (
        f"Build {build.number} took {duration(build.seconds or 0.0)}. Marked * are the targets that waited for each "
        f"other until its end, the critical path{places}; the others are the slowest."
    )
    return Picture(
        "spans", "What took the time", sentence, rows_chart(f"targets of build {build.number}", across, rows)
    )


def file_block(name: str, title: str, path: str, look: str, most: int, at_end: bool = False) -> Iterator[Code]:
    """A file that is there and has something, its beginning or its end."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most) if at_end else 0)
        content = file.read(most)
    if content.strip():
        yield code_block(name, title, content, look, most, path, size - len(content))


def code_block(name: str, title: str, content: bytes, look: str, most: int, path: str, left_out: int = 0) -> Code:
    """A text that may be cut; `left_out`: bytes that were not read."""
    left_out += max(0, len(content) - most)
    text = content[:most].decode(errors="replace")
    if look == "log":  # of the machine they may name folders, which are nobody's business elsewhere
        text = clean_text(text).replace(f"{os.getcwd()}/", "").replace(os.path.expanduser("~"), "~")
    return Code(name, title, visible_text(text), look, path, left_out)
