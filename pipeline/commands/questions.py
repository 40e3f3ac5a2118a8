"""Commands that answer and change nothing: why, plan, graph, prompt; of decisions explain and replay; of builds log.

They take no lock."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.history import past_builds
from pipeline.build.names import PAGE_PORT
from pipeline.commands.command import (
    NAME,
    NAMES,
    NewCommand,
    OneRunCommand,
    opt_jobs,
    opt_json,
    option,
    print_result,
    print_text,
)
from pipeline.commands.exits import FAILED
from pipeline.commands.selection import ability_of, count_targets, plans_for, run_answer, run_of_word
from pipeline.core.outcome import OUTAGE, RECALLED, PastBuild, TargetTime
from pipeline.core.text import count_words, duration
from pipeline.errors import SpecError, did_you_mean
from pipeline.machine.lock import is_locked
from pipeline.store.receipts import Receipts
from pipeline.views.lines import KEPT_BACK, time_text

MOST_DRAWN = 300


class WhyCommand(NewCommand):
    name = "why"
    doc_usage = f"{NAME} ..."
    doc_purpose = "say whether targets are fresh, and if not exactly why"
    doc_description = (
        "For each target: fresh, or what is different from what was recorded, with the old and the new value; for one"
        " that is stale because of others, the way up to the cause. Of a run, a step or a pattern, the causes together."
        " Exit code 0 when all are fresh, 1 when one is stale or left out."
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import BuildSession

        def answer(args: list[str]) -> int:
            session = BuildSession(plans_for(args))
            inquiry = Inquiry(session, session.select(args))
            words = args or list(session.plans)
            for word in words:
                print_text(inquiry.answer(word))
            return 0 if all(map(inquiry.is_fresh, session.select(words))) else FAILED

        return run_answer(args, answer)


class PlanCommand(NewCommand):
    name = "plan"
    doc_usage = NAMES
    doc_purpose = "say what a build would do, in which order, and how long it would take; run nothing"
    doc_description = (
        "run: it would be executed. recalled: its result is in the store. maybe: it would be executed only if what it"
        " reads comes out different from the last time. ignored: it, or what it is made from, is left out of builds."
        " Times are those of the last runs. Nothing is written but the cache of the plan."
    )
    cmd_options = (
        opt_jobs,
        option("all", "list each target, however many"),
        opt_json,
        option("graph_only", "only load the specs, make the graph and count its targets"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.rehearsal import plan_build
        from pipeline.build.session import BuildSession
        from pipeline.commands.build import job_count
        from pipeline.views.answers import plan_json, plan_text

        def answer(words: list[str]) -> int:
            plans = plans_for(words)
            at_once = job_count(params["num_process"], plans)
            session = BuildSession(plans)
            wanted = session.select(words)
            todo = session.stale(wanted)
            session.check_sources(todo)
            plan = plan_build(session, wanted, todo, at_once)
            print_text(plan_json(plan) if params["json"] else plan_text(plan, params["all"]))
            return 0

        return count_targets(args) if params["graph_only"] else run_answer(args, answer, sources=True)


class GraphCommand(NewCommand):
    name = "graph"
    doc_usage = f"{NAMES} [--svg FILE [--full]]"
    doc_purpose = "show the steps of a run, what they read from, and how many of their targets are fresh"
    cmd_options = (
        option("svg", "draw it into FILE", "", "FILE"),
        option("full", f"draw single targets rather than steps, up to {MOST_DRAWN}"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.rehearsal import target_statuses
        from pipeline.build.session import BuildSession
        from pipeline.store.files import write_whole
        from pipeline.views.graph import chart_svg, chart_text, make_chart

        def answer(runs: list[str]) -> int:
            session = BuildSession(plans_for(runs))
            status = {i: seen.status for i, seen in target_statuses(session, session.select(args)).items()}
            chart = make_chart(" ".join(args or session.plans), session.graph, status, full)
            if not svg:
                print_text(chart_text(chart))
                return 0
            if full and len(chart.boxes) > MOST_DRAWN:
                raise InvalidCommand(f"--full draws up to {MOST_DRAWN} targets, not {len(chart.boxes)}; drop --full")
            write_whole(svg, chart_svg(chart).encode(), durable=False)
            print(f"drawn: {svg}")
            return 0

        svg, full = params["svg"], params["full"]
        if svg and not svg.endswith(".svg"):
            wanted = f"--svg wants the file to draw into, a name that ends in .svg, not '{svg}'"
            raise InvalidCommand(f"graph: {wanted}; for instance `coppice graph demo --svg demo.svg`")
        return run_answer(args, answer)


class ExplainCommand(NewCommand):
    name = "explain"
    doc_usage = "RUN:SLOT"
    doc_purpose = "say of an evaluation why it was promoted or not, check by check"
    doc_description = (
        "Each check in order with its number and what it asks for; of what was not passed, the smallest change that"
        " would have passed it. Of what was promoted, the others of its depth and what they failed. All by what is"
        " recorded. Of a goal, RUN:GOAL, each attempt at it and the proof."
    )
    cmd_options = (opt_json,)
    takes = (1, 1, "name one evaluation or goal, such as RUN:d0.n0.i2")

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan, kind = plan_with_decisions(self.name, args[0])
        explained = kind.explain(plan.run, plan.targets, args[0])
        print_result(explained, kind.explain_lines(explained), params["json"])
        return 0


class ReplayCommand(OneRunCommand):
    name = "replay"
    doc_purpose = "make every decision of a search again from what is recorded, and compare byte for byte"
    doc_description = (
        "Nothing is asked, measured or written. Exit code 0 when all came out the same, 1 when one is different or what"
        " it was decided by is missing or changed. What is stale, or was decided by another spec than today's, is"
        " counted apart. With --show it compares nothing, and plays how a search came about instead: on a terminal as"
        " `watch` shows it, in twenty seconds or less; elsewhere its headlines."
    )
    cmd_options = (
        opt_json,
        option("show", "play how the search came about, and decide nothing"),
        option("speed", "play it so many times as fast [default: 1]", "", "N"),
        option("from", "play the recording in FILE", "", "FILE"),
        option("save", "write the recording to FILE in place of playing it", "", "FILE"),
        option("page", "play it on a page, which is served at this machine alone"),
        option("port", "the port of that page; 0 stands for any that is free", PAGE_PORT, "N"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        if params["show"]:
            from pipeline.commands.screens import replay_show

            return replay_show(args[0], params)
        if given := [f"--{name}" for name in ("speed", "from", "save", "page") if params[name]]:
            raise InvalidCommand(f"replay: {given[0]} goes with --show")
        plan, kind = plan_with_decisions(self.name, args[0])
        if args[0] != plan.run:
            raise SpecError(f"replay: '{args[0]}' is no run; all decisions of one are made again: `replay {plan.run}`")
        replay = kind.replay(plan.run, plan.targets)
        print_result(replay, kind.replay_lines(replay), params["json"])
        return 0 if kind.agrees(replay) else FAILED


class PromptCommand(NewCommand):
    name = "prompt"
    doc_usage = "RUN:SLOT [--role ROLE]"
    doc_purpose = "show the very text that a role gets for an evaluation, or was sent"
    doc_description = (
        "Asks nobody, runs nothing, writes nothing. Of what is fresh, all that was sent; otherwise what would be sent"
        " first, by the records as they are. What others have not answered yet stands in brackets."
    )
    cmd_options = (
        option("role", "ideas, planner, coder or reviewer [default: coder]", "coder", "ROLE"),
        opt_json,
    )
    takes = (1, 1, "name one evaluation, such as RUN:d0.n0.i2")

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import BuildSession

        def is_fresh(name: str) -> bool:
            session = BuildSession(plans)
            index = session.graph.index[name]
            return Inquiry(session, {index}).is_fresh(index)

        run = run_of_word(args[0])
        plans = project.load([run], keep=False)
        kind = ability_of(plans[run], kinds.PROMPT, "asks no roles")
        record = kind.role_prompts(run, plans[run].targets, args[0], params["role"], is_fresh)
        if not params["json"]:
            print(kind.prompt_note(record), file=sys.stderr)
        print_result(record, kind.prompt_lines(record), params["json"])
        return 0


def plan_with_decisions(command: str, word: str) -> tuple[project.RunPlan, kinds.AccountsModule]:
    """Plan of the run that `word` speaks of, and what accounts for it.  Writes nothing, not even a plan's cache."""
    run = run_of_word(word)
    plan = project.load([run], keep=False)[run]
    return plan, ability_of(plan, kinds.ACCOUNTS, f"decides nothing that `{command}` could tell of")


# --- Past builds of runs; of one, the critical path and the slowest targets; two of them compared.
SLOWEST = 10
NO_TIME = 0.05  # a difference of seconds that is none
LONGEST_PATH = 30  # a longer one is shown without its shortest steps


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
        if params["build"] and params["compare"]:
            raise InvalidCommand("log: give --build or --compare, not both")
        history = {run: past_builds(run) for run in args or runs}
        going_on = {run for run, builds in history.items() if builds and builds[-1].seconds is None and is_locked(run)}
        record: dict[str, Any] = {run: [_record(each) for each in builds] for run, builds in history.items()}
        lines = [*_list_lines(history, going_on)]
        if args and history[args[0]]:
            builds = {each.number: each for each in history[args[0]]}
            if params["compare"]:
                record = {args[0]: _compare(*_sides(args[0], history[args[0]], _pair(params["compare"])))}
                lines = [*_comparison_lines(record[args[0]], "goes on" if going_on else "was killed")]
            else:
                chosen = _pick(builds, params["build"] or max(builds))
                lines += _detail_lines(chosen)
                record = {args[0]: [_record(chosen)]} if params["build"] else record
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


def _sides(run: str, builds: Sequence[PastBuild], pair: Sequence[int]) -> Iterator[PastBuild]:
    """The builds to compare; of one without an end, the targets whose receipts say that they were made in it."""
    by_number = {each.number: each for each in builds}
    for build in (_pick(by_number, number) for number in pair):
        if build.seconds is not None:
            yield build
            continue
        end = min((each.at for each in builds if each.number > build.number), default=inf)
        receipts = Receipts(run)
        made = ((name, receipts.receipt(name)) for name in receipts.names())
        times = (
            TargetTime(name.partition(":")[2], it.how, round(it.start - build.at, 3), round(it.end - it.start, 3))
            for name, it in made
            if it and build.at <= it.start < end
        )
        yield build._replace(targets=[*times])


def _list_lines(history: Mapping[str, Sequence[PastBuild]], going_on: Collection[str]) -> Iterator[str]:
    found = sorted(((each.at, run, each) for run, builds in history.items() for each in builds), key=lambda it: it[:2])
    for at, run, each in found:
        end = "still going on" if run in going_on and each is history[run][-1] else "killed"
        if each.seconds is not None:
            saved = f", saved {duration(each.saved)} of work" if each.saved > 1 else ""
            stopped = f", stopped: {each.stopped}" if each.stopped else ""
            counts = {KEPT_BACK if status == OUTAGE else status: n for status, n in each.counts.items()}
            end = f"{duration(each.seconds)}: {count_words(counts) or 'nothing done'}{saved}{stopped}"
        yield f"{run} {each.number}  {time_text(at)}  {end}"


def _detail_lines(build: PastBuild) -> Iterator[str]:
    if steps := [*_path_steps(build)]:
        yield from ("", f"critical path of build {build.number}: {duration(sum(seconds for seconds, *_ in steps))}")
        least = NO_TIME if len(steps) > LONGEST_PATH else 0.0
        shown = [(seconds, words) for seconds, words, is_wait in steps if seconds >= (NO_TIME if is_wait else least)]
        yield from (f"{duration(seconds):>12}  {words}" for seconds, words in shown)
        if (rest := len(steps) - len(shown)) and least:
            short = sum(seconds for seconds, *_ in steps) - sum(seconds for seconds, _ in shown)
            yield f"{duration(short):>12}  {rest} of less than {NO_TIME:g} s each"
    if build.targets:
        yield from ("", f"slowest of build {build.number}:", *map(_time_line, build.targets[:SLOWEST]))


def _path_steps(build: PastBuild) -> Iterator[tuple[float, str, bool]]:
    """Each step of the critical path and each wait: its seconds, its words, if it is a wait.

    The seconds add up to the build's time."""
    times = {each.name: each for each in build.targets}
    now = 0.0
    for each in (times[name] for name in build.critical if name in times):
        if (gap := each.start - now) > 0:
            waited = "waited for a place, for the machine, or while paused"
            yield gap, waited if now else "until the first of these started", True
        place = build.places.get(each.name, 0.0)
        cause = "the same work or a place" if each.status == RECALLED else "a place"
        note = f" (had waited for {cause}: {duration(place)})" if place else ""
        yield max(0.0, each.start + each.seconds - max(now, each.start)), f"{each.status} {each.name}{note}", False
        now = max(now, each.start + each.seconds)
    if now and build.seconds and (rest := build.seconds - now) > 0:
        yield rest, "until the build had ended", True


def _time_line(each: TargetTime) -> str:
    return f"{duration(each.seconds):>12}  {each.status} {each.name}"


def _compare(old: PastBuild, new: PastBuild) -> Mapping[str, Any]:
    """Two builds, and the targets whose times or ends differ, the largest difference first.

    Beside a build without an end, only what both did: of the others nobody knows what it would have done."""
    before, after = ({each.name: each for each in side.targets} for side in (old, new))
    whole = old.seconds is not None and new.seconds is not None
    rows = []
    for name in sorted({*before, *after} if whole else {*before} & {*after}):
        a, b = before.get(name), after.get(name)
        change = round((b.seconds if b else 0.0) - (a.seconds if a else 0.0), 3)
        if abs(change) > NO_TIME or (a and a.status) != (b and b.status):
            sides = {"before": a and a._asdict(), "after": b and b._asdict()}
            rows.append({"name": name, "change": change, **sides})
    builds = [{name: value for name, value in _record(side).items() if name != "targets"} for side in (old, new)]
    counts = {"both": len({*before} & {*after}), "only_before": len({*before} - {*after})}
    counts["only_after"] = len({*after} - {*before})
    return {"builds": builds, "counts": counts, "targets": sorted(rows, key=lambda row: -abs(row["change"]))}


def _comparison_lines(comparison: Mapping[str, Any], endless: str) -> Iterator[str]:
    """Lines of a comparison.  `endless`: what is the matter with a build that has no end."""
    builds, counts = comparison["builds"], comparison["counts"]
    whole = [duration(side["seconds"]) if side["seconds"] is not None else "no end" for side in builds]
    numbers = [side["number"] for side in builds]
    yield f"build {numbers[0]} -> {numbers[1]}: {whole[0]} -> {whole[1]}"
    for side, only in zip(builds, ("only_before", "only_after"), strict=True):
        if side["seconds"] is None:
            done = f"{counts['both'] + counts[only]} of the targets made in it are known, {counts['both']} in both"
            yield f"build {side['number']} {endless}: {done}; only these are compared"
    rows = comparison["targets"]
    for row in rows[: 4 * SLOWEST]:
        yield f"{row['change']:+10.1f} s  {row['name']}: {_side(row['before'])} -> {_side(row['after'])}"
    if len(rows) > 4 * SLOWEST:
        yield f"and {len(rows) - 4 * SLOWEST} more"


def _side(each: Mapping[str, Any] | None) -> str:
    return f"{each['status']} {duration(each['seconds'])}" if each else "not done"
