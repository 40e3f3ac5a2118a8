"""The command `log`: past builds of runs, the critical path and the slowest targets of one, two of them compared."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline.build import project
from pipeline.build.history import PastBuild, TargetTime, past_builds
from pipeline.commands.command import NewCommand, opt_json, option, print_result
from pipeline.core.text import count_words, duration
from pipeline.errors import SpecError, did_you_mean

SLOWEST = 10
NO_TIME = 0.05  # a difference of seconds that is none


class LogCommand(NewCommand):
    name = "log"
    doc_usage = "[RUN]"
    doc_purpose = "list the past builds of runs; of one run also what the last build waited for"
    doc_description = (
        "Of each build when it began, how long it took, and what it did with how many targets. Of one run also the"
        " critical path of its last build, or of --build N: the targets that waited for each other until the end; and"
        " the slowest targets. With --compare two builds of a run are held against each other, target by target."
    )
    cmd_options = (
        option("build", "the critical path and the slowest of this build [default: the last one]", 0, "N"),
        option("compare", "compare two builds of the run, such as --compare 3,5", "", "A,B"),
        opt_json,
    )
    takes = (0, 1, "name one run, or none for all")

    def on_specs(self, params: Any, args: list[str]) -> int:
        runs = [*project.spec_paths()]
        if unknown := [word for word in args if word not in runs]:
            raise SpecError(f"log: '{unknown[0]}' is no run{did_you_mean(unknown[0], runs)}")
        if not args and (params["build"] or params["compare"]):
            raise InvalidCommand("log: --build and --compare are about one run; name it")
        history = {run: past_builds(run) for run in args or runs}
        record: dict[str, Any] = {run: [_record(each) for each in builds] for run, builds in history.items()}
        lines = [*_list_lines(history)]
        if args and history[args[0]]:
            builds = {each.number: each for each in history[args[0]]}
            if params["compare"]:
                record = {args[0]: _compare(*(_pick(builds, number) for number in _pair(params["compare"])))}
                lines = [*_comparison_lines(record[args[0]])]
            else:
                lines += _detail_lines(_pick(builds, params["build"] or max(builds)))
        print_result(record, lines or ["no builds yet"], params["json"])
        return 0


def _record(build: PastBuild) -> Mapping[str, Any]:
    return {**build._asdict(), "targets": [each._asdict() for each in build.targets]}


def _pair(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(map(str.isdecimal, parts)):
        raise InvalidCommand(f"log: --compare wants the numbers of two builds, such as 3,5, not '{text}'")
    return [int(part) for part in parts]


def _pick(builds: Mapping[int, PastBuild], number: int) -> PastBuild:
    if number not in builds:
        raise InvalidCommand(f"log: there is no build {number}; there are {min(builds)} to {max(builds)}")
    return builds[number]


def _list_lines(history: Mapping[str, Sequence[PastBuild]]) -> Iterator[str]:
    found = sorted(((each.at, run, each) for run, builds in history.items() for each in builds), key=lambda it: it[:2])
    for at, run, each in found:
        end = "killed, or still going on"
        if each.seconds is not None:
            saved = f", saved {duration(each.saved)} of work" if each.saved > 1 else ""
            stopped = f", stopped: {each.stopped}" if each.stopped else ""
            end = f"{duration(each.seconds)}: {count_words(each.counts) or 'nothing done'}{saved}{stopped}"
        yield f"{run} {each.number}  {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}  {end}"


def _detail_lines(build: PastBuild) -> Iterator[str]:
    times = {each.name: each for each in build.targets}
    if path := [times[name] for name in build.critical if name in times]:
        yield from ("", f"critical path of build {build.number}: {duration(sum(each.seconds for each in path))}")
        yield from map(_time_line, path)
    if build.targets:
        yield from ("", f"slowest of build {build.number}:", *map(_time_line, build.targets[:SLOWEST]))


def _time_line(each: TargetTime) -> str:
    return f"{duration(each.seconds):>12}  {each.status} {each.name}"


def _compare(old: PastBuild, new: PastBuild) -> Mapping[str, Any]:
    """Two builds, and the targets whose times or ends differ, the largest difference first."""
    before, after = ({each.name: each for each in side.targets} for side in (old, new))
    rows = []
    for name in sorted({*before, *after}):
        a, b = before.get(name), after.get(name)
        change = round((b.seconds if b else 0.0) - (a.seconds if a else 0.0), 3)
        if abs(change) > NO_TIME or (a and a.status) != (b and b.status):
            sides = {"before": a and a._asdict(), "after": b and b._asdict()}
            rows.append({"name": name, "change": change, **sides})
    builds = [{name: value for name, value in _record(side).items() if name != "targets"} for side in (old, new)]
    return {"builds": builds, "targets": sorted(rows, key=lambda row: -abs(row["change"]))}


def _comparison_lines(comparison: Mapping[str, Any]) -> Iterator[str]:
    old, new = comparison["builds"]
    whole = [duration(side["seconds"]) if side["seconds"] is not None else "no end" for side in (old, new)]
    yield f"build {old['number']} -> {new['number']}: {whole[0]} -> {whole[1]}"
    rows = comparison["targets"]
    for row in rows[: 4 * SLOWEST]:
        yield f"{row['change']:+10.1f} s  {row['name']}: {_side(row['before'])} -> {_side(row['after'])}"
    if len(rows) > 4 * SLOWEST:
        yield f"and {len(rows) - 4 * SLOWEST} more"


def _side(each: Mapping[str, Any] | None) -> str:
    return f"{each['status']} {duration(each['seconds'])}" if each else "not done"
